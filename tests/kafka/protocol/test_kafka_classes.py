"""Our bytes are those that Kafka's own classes write, for every message and version that a release still has."""

from __future__ import annotations

import base64
import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from java_programs import ask_java
from kafka_specs import RELEASES, spec, versions
from message_bodies import EVERY_VERSION, full_body

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import Array, Body, Struct

pytestmark = [pytest.mark.peers, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("KafkaClasses.java")


def camel_case(name: str) -> str:
    return re.sub(r"_(.)", lambda match: match[1].upper(), name)


def to_json(value: Any) -> Any:
    """As the JSON converters among Kafka's classes want it."""
    if isinstance(value, dict):
        return {camel_case(name): to_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [to_json(each) for each in value]
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def with_nulls(fields: Any, body: Body, version: int) -> Body:
    """The body with null wherever the version allows it."""
    nulled: Body = {}
    for f in fields:
        if f.name not in body:
            continue
        value = None if f.nullable_in(version) else body[f.name]
        kind = f.type.element if isinstance(f.type, Array) else f.type
        if isinstance(kind, Struct) and isinstance(value, list):
            value = [with_nulls(kind.fields, each, version) for each in value]
        nulled[f.name] = value
    return nulled


def bytes_from_kafka(release: str, bodies: list[tuple[Message, int, Body]], *, framed: bool = False) -> list[bytes]:
    """`framed`: with length and header, of correlation id and client id as the program has them."""
    words = "frame:" if framed else ""
    commands = [(f"{words}{message.name}", version, json.dumps(to_json(body))) for message, version, body in bodies]
    return [bytes.fromhex(line) for line in ask_java(PROGRAM, commands, release)]


@pytest.mark.parametrize("release", RELEASES)
def test_we_write_the_bytes_that_kafka_writes(release: str) -> None:
    served = [(m, v) for m, v in EVERY_VERSION if v in versions(spec(release, m.name)["validVersions"])]
    bodies = [(m, v, full_body(m, v)) for m, v in served]
    bodies += [(m, v, with_nulls(m.fields, body, v)) for m, v, body in bodies]
    theirs = bytes_from_kafka(release, bodies)
    assert len(theirs) == len(bodies)
    for (message, version, body), raw in zip(bodies, theirs, strict=True):
        assert message.encode(version, body) == raw, f"{message.name} v{version}"
