"""Our frames are those of kafka-python, and we read its: every API and version that both know."""

from __future__ import annotations

from typing import Any

import pytest
from message_bodies import full_body, versions, with_defaults

from kafkasource.kafka.protocol import frames
from kafkasource.kafka.protocol.apis import (
    APIS,
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_DELEGATION_TOKEN,
)
from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import Body

pytest.importorskip("kafka.protocol.schemas", reason="needs kafka-python 3")

from kafka.protocol import admin, consumer, metadata, producer, sasl

pytestmark = pytest.mark.peers

# What kafka-python calls and holds otherwise: these are sets of bit numbers there, None for "not asked".
BIT_FIELDS = {"topic_authorized_operations", "cluster_authorized_operations", "authorized_operations"}
NOT_ASKED = -(2**31)
NOT_THEIRS = {
    CONSUMER_GROUP_DESCRIBE.key,
    CONSUMER_GROUP_HEARTBEAT.key,
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


@pytest.mark.parametrize("api", [api for api in APIS.values() if api.key not in NOT_THEIRS], ids=str)
def test_our_frames_are_theirs_and_we_read_theirs_in_every_version(api: Any) -> None:
    for version in versions(api.request):
        body = full_body(api.request, version)
        peer = to_peer(peer_class(api.request), body, version)
        peer.with_header(correlation_id=7, client_id="klient å")
        framed = frames.encode_request(api, version, 7, "klient å", body)
        assert (version, framed) == (version, bytes(peer.encode(header=True, framed=True)))

        body = full_body(api.response, version)
        peer = to_peer(peer_class(api.response), body, version)
        peer.with_header(correlation_id=7)
        theirs = bytes(peer.encode(header=True, framed=True))
        assert (version, frames.encode_response(api, version, 7, body)) == (version, theirs)
        (frame,) = frames.FrameReader(1 << 20).feed(theirs)
        assert frames.peek_correlation_id(frame) == 7
        read = frames.decode_response(api, version, frame)
        assert (version, read) == (version, with_defaults(api.response.fields, body))
