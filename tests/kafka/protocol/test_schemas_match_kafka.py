"""Our tables against the specs inside Kafka's jars: each jar decides on the versions that it serves."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from java_programs import ask_java
from kafka_specs import RELEASES, fields_of, spec, versions

from kafkasource.kafka.protocol.apis import APIS, OFFSET_FOR_LEADER_EPOCH, Api
from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import Array, Field, Primitive, Struct

pytestmark = pytest.mark.broker  # for its jars

MESSAGES = [message for api in APIS.values() for message in (api.request, api.response)]

CLIENT_THROTTLES = Path(__file__).with_name("ClientThrottles.java")

OUR_DEFAULTS = {
    (
        "ListOffsetsRequest",
        "replica_id",
    ): -1,  # the spec has none, so 0: a client that forgets it would ask as replica 0
}

a_message = pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.name)
a_release = pytest.mark.parametrize("release", RELEASES)


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def kafkas_type(field: dict[str, Any]) -> str:
    name: str = field["type"]
    prefix, name = ("[]", name[2:]) if name.startswith("[]") else ("", name)
    return prefix + (name if name[0].islower() else "struct")


def our_type(kind: Array | Primitive | Struct) -> str:
    if isinstance(kind, Array):
        return "[]" + our_type(kind.element)
    return "struct" if isinstance(kind, Struct) else kind.name


def kafkas_default(field: dict[str, Any], message: dict[str, Any]) -> Any:
    """As MessageDataGenerator reads them: a field without one has its type's, null only where the spec says so."""
    kind, text = kafkas_type(field), str(field.get("default", ""))
    if text == "null" or kind == "records":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "struct":
        return {snake_case(f["name"]): kafkas_default(f, message) for f in fields_of(field, message) or ()}
    if kind.startswith("int"):
        return int(text or "0", 0)
    return {"bool": text.lower() == "true", "string": text, "bytes": text.encode(), "uuid": uuid.UUID(int=0)}[kind]


def kafkas_fields(message: dict[str, Any], version: int) -> list[tuple[Any, ...]]:
    """Path, type, nullable, tag, default of each field that the version carries, in order, structs opened."""
    flexible = version in versions(message["flexibleVersions"])

    def walk(fields: list[dict[str, Any]], path: str) -> list[tuple[Any, ...]]:
        found = []
        for field in fields:
            if version not in versions(field["versions"]):
                continue
            assert field.get("flexibleVersions") is None, "a field that leaves out the compact form; we cannot say that"
            tagged = flexible and version in versions(field.get("taggedVersions"))
            nullable = version in versions(field.get("nullableVersions"))
            name = path + snake_case(field["name"])
            tag = field["tag"] if tagged else None
            found.append((name, kafkas_type(field), nullable, tag, kafkas_default(field, message)))
            found += walk(fields_of(field, message) or [], name + ".")
        return found

    return walk(message["fields"], "")


def our_fields(message: Message, version: int) -> list[tuple[Any, ...]]:
    def walk(fields: Any, path: str) -> list[tuple[Any, ...]]:
        found = []
        for f in fields:
            if f.carried_by(version):
                default = f.default_value()
                if (message.name, path + f.name) in OUR_DEFAULTS:
                    assert default == OUR_DEFAULTS[message.name, path + f.name]
                    default = 0
                found.append((path + f.name, our_type(f.type), f.nullable_in(version), f.tag, default))
                found += walk(inner_fields(f), f"{path}{f.name}.")
        return found

    return walk(message.fields, "")


def inner_fields(field: Field) -> Any:
    kind = field.type.element if isinstance(field.type, Array) else field.type
    return kind.fields if isinstance(kind, Struct) else ()


@a_release
@a_message
def test_every_version_has_the_fields_that_kafka_has(message: Message, release: str) -> None:
    theirs = spec(release, message.name)
    for version in versions(theirs["validVersions"]):
        assert our_fields(message, version) == kafkas_fields(theirs, version), f"{message.name} v{version}"


@a_message
def test_we_speak_every_version_that_either_release_serves(message: Message) -> None:
    served = {v for release in RELEASES for v in versions(spec(release, message.name)["validVersions"])}
    assert message.versions == (min(served), max(served))
    assert served == set(range(min(served), max(served) + 1))


@a_release
@a_message
def test_keys_and_flexible_versions_are_kafkas(message: Message, release: str) -> None:
    theirs = spec(release, message.name)
    assert message.api_key == theirs["apiKey"]
    for version in versions(theirs["validVersions"]):
        assert message.is_flexible(version) == (version in versions(theirs["flexibleVersions"])), f"v{version}"


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_an_unstable_version_is_not_negotiated(api: Api) -> None:
    theirs = spec(RELEASES[-1], api.request.name)
    unstable = theirs.get("latestVersionUnstable") is True
    assert api.stable_versions == (api.versions[0], api.versions[1] - unstable)


@a_message
def test_a_field_is_dropped_without_a_word_only_where_kafka_does(message: Message) -> None:
    def ignorable(fields: list[dict[str, Any]], theirs: dict[str, Any], path: str) -> dict[str, bool]:
        found = {}
        for field in fields:
            name = path + snake_case(field["name"])
            found[name] = str(field.get("ignorable", False)).lower() == "true"
            found |= ignorable(fields_of(field, theirs) or [], theirs, name + ".")
        return found

    def ours(fields: Any, path: str) -> dict[str, bool]:
        found = {}
        for f in fields:
            found[path + f.name] = f.ignorable
            found |= ours(inner_fields(f), f"{path}{f.name}.")
        return found

    # A later release adds to what an earlier one said.
    theirs: dict[str, bool] = {}
    for release in RELEASES:
        theirs |= ignorable(spec(release, message.name)["fields"], spec(release, message.name), "")
    assert ours(message.fields, "") == theirs


def test_we_pause_for_the_answers_that_javas_clients_pause_for() -> None:
    """Some classes never pause: of APIs without such a field, or that are younger than KIP-219."""
    names = {api: f"{api.name}Response" for api in APIS.values()} | {
        OFFSET_FOR_LEADER_EPOCH: "OffsetsForLeaderEpochResponse"
    }
    asked = [(api, version) for api in names for version in range(api.versions[0], api.versions[1] + 1)]
    lines = ask_java(CLIENT_THROTTLES, [(names[api], version) for api, version in asked])
    pauses = {(api, version) for (api, version), line in zip(asked, lines, strict=True) if line == "true"}
    never = {api for api in names if not any((api, version) in pauses for _, version in asked)}
    assert {api.name for api in never} >= {"SaslHandshake", "DescribeCluster", "OffsetForLeaderEpoch"}
    assert all(api.throttled_since == 0 for api in never)
    ours = {(api, version) for api, version in asked if api not in never and version >= api.throttled_since}
    assert ours == pauses
