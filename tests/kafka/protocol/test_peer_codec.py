"""Our bytes read by kafka-python's classes, and theirs by us: every API and version that both know."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from message_bodies import EVERY_VERSION, at_length, bodies, full_body, named, versions, with_defaults

from kafkasource.kafka.protocol import frames
from kafkasource.kafka.protocol.apis import APIS, CONSUMER_GROUP_DESCRIBE, CREATE_DELEGATION_TOKEN
from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import Array, Body, Field, Struct

pytest.importorskip("kafka.protocol.schemas", reason="needs kafka-python 3")

from kafka.protocol import admin, consumer, metadata, producer, sasl

pytestmark = pytest.mark.peers

# What kafka-python calls and holds otherwise: these are sets of bit numbers there, None for "not asked".
BIT_FIELDS = {"topic_authorized_operations", "cluster_authorized_operations", "authorized_operations"}
NOT_ASKED = -(2**31)
NOT_THEIRS = {
    CONSUMER_GROUP_DESCRIBE.key,
    CREATE_DELEGATION_TOKEN.key,
}  # tests/kafka/protocol/test_kafka_classes.py has them


def peer_class(message: Message) -> Any:
    modules = (admin, consumer, metadata, producer, sasl)
    return next(getattr(module, message.name) for module in modules if hasattr(module, message.name))


def to_peer(data_class: Any, body: Body, version: int) -> Any:
    """kafka-python's object for our body."""
    values = {}
    for name, value in body.items():
        if name in BIT_FIELDS:
            name = "authorized_operations"  # as some messages call it anyway
            value = None if value == NOT_ASKED else {bit for bit in range(32) if value >> bit & 1}
        inner = data_class.fields[name]
        if isinstance(value, dict):
            value = to_peer(inner.data_class, value, version)
        elif isinstance(value, list) and inner.is_struct_array():
            value = [to_peer(inner.data_class, each, version) for each in value]
        values[name] = value
    return data_class(version=version, **values)


def from_peer(fields: Any, peer: Any, version: int) -> Body:
    """Our body for kafka-python's object; it has None for a tagged field that did not come."""
    body = {}
    for f in fields:
        value = getattr(peer, "authorized_operations" if f.name in BIT_FIELDS else f.name)
        if f.name in BIT_FIELDS:
            value = NOT_ASKED if value is None else signed_bits(value)
        if not f.carried_by(version) or (f.tag is not None and value is None):
            value = f.default_value()
        body[f.name] = _from_peer(f, value, version)
    return body


def signed_bits(bits: set[int]) -> int:
    value = sum(1 << bit for bit in bits)
    return value - 2**32 if value >= 2**31 else value


def _from_peer(f: Field, value: Any, version: int) -> Any:
    kind = f.type.element if isinstance(f.type, Array) else f.type
    if isinstance(kind, Struct) and value is not None and not isinstance(value, dict):
        if isinstance(f.type, Array):
            return [from_peer(kind.fields, each, version) for each in value]
        return from_peer(kind.fields, value, version)
    return value


KNOWN_TO_BOTH = [(message, v) for message, v in EVERY_VERSION if message.api_key not in NOT_THEIRS]
every_message = pytest.mark.parametrize("message", dict.fromkeys(m for m, _ in KNOWN_TO_BOTH), ids=named)
versions_at_length = pytest.mark.parametrize(("message", "version"), at_length(KNOWN_TO_BOTH), ids=named)


@every_message
def test_every_field_set_gives_the_same_bytes_in_every_version(message: Message) -> None:
    for version in versions(message):
        body = full_body(message, version)
        theirs = to_peer(peer_class(message), body, version).encode(version=version)
        assert (version, message.encode(version, body)) == (version, theirs)


@pytest.mark.slow  # a few random bodies of each version: one with every field set is in make unit, above
@versions_at_length
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_they_read_what_we_write(message: Message, version: int, data: st.DataObject) -> None:
    body = data.draw(bodies(message, version))
    if message.name == "ApiVersionsResponse":
        body["error_code"] = 0  # kafka-python takes version 0 for any error, brokers do so only for UNSUPPORTED_VERSION
    theirs = peer_class(message).decode(message.encode(version, body), version=version)
    assert from_peer(message.fields, theirs, version) == with_defaults(message.fields, body)


@pytest.mark.slow
@versions_at_length
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_we_read_what_they_write(message: Message, version: int, data: st.DataObject) -> None:
    body = data.draw(bodies(message, version))
    theirs = to_peer(peer_class(message), body, version).encode(version=version)
    assert message.decode(version, theirs) == with_defaults(message.fields, body)


@pytest.mark.parametrize("api", dict.fromkeys(APIS[message.api_key] for message, _ in KNOWN_TO_BOTH), ids=str)
def test_a_whole_frame_is_theirs_too_in_every_version(api: Any) -> None:
    for version in versions(api.request):
        body = full_body(api.request, version)
        peer = to_peer(peer_class(api.request), body, version)
        peer.with_header(correlation_id=7, client_id="klient å")
        framed = frames.encode_request(api, version, 7, "klient å", body)
        assert (version, framed) == (version, bytes(peer.encode(header=True, framed=True)))

        body = full_body(api.response, version)
        peer = to_peer(peer_class(api.response), body, version)
        peer.with_header(correlation_id=7)
        (frame,) = frames.FrameReader(1 << 20).feed(peer.encode(header=True, framed=True))
        assert frames.peek_correlation_id(frame) == 7
        read = frames.decode_response(api, version, frame)
        assert (version, read) == (version, with_defaults(api.response.fields, body))
