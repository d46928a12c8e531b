"""Our frames are those that Kafka's own classes write, for every message and version that a release still has."""

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
from message_bodies import EVERY_VERSION, full_body, with_defaults

from kafkasource.kafka.protocol.apis import APIS
from kafkasource.kafka.protocol.frames import decode_response, encode_request, encode_response, peek_correlation_id
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


def with_as_little_as_can_be(message: Message, version: int) -> Body:
    """The body of defaults: empty arrays and strings, and the negative numbers that say "none"."""
    return {f.name: f.default_value() for f in message.fields if f.carried_by(version) and f.tag is None}


def said(message: Message, version: int) -> list[Body]:
    full = full_body(message, version)
    return [full, with_nulls(message.fields, full, version), with_as_little_as_can_be(message, version)]


def framed(message: Message, version: int, body: Body) -> bytes:
    """The frame with the correlation id and the client id of the program."""
    api = APIS[message.api_key]
    if message is api.request:
        return encode_request(api, version, 7, "klient å", body)
    return encode_response(api, version, 7, body)


@pytest.mark.parametrize("release", RELEASES)
def test_we_write_the_frames_that_kafka_writes_and_read_them(release: str) -> None:
    served = [(m, v) for m, v in EVERY_VERSION if v in versions(spec(release, m.name)["validVersions"])]
    bodies = [(m, v, body) for m, v in served for body in said(m, v)]
    theirs = ask_java(PROGRAM, [(m.name, v, json.dumps(to_json(body))) for m, v, body in bodies], release)
    for (message, version, body), line in zip(bodies, theirs, strict=True):
        raw, api, name = bytes.fromhex(line), APIS[message.api_key], f"{message.name} v{version}"
        assert framed(message, version, body) == raw, name
        if message is api.response:
            assert peek_correlation_id(raw[4:]) == 7
            assert decode_response(api, version, raw[4:]) == with_defaults(message.fields, body), name
