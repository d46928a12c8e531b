"""What a broker can make us hold with one message: each array is charged before it is made, an element by its type."""

from __future__ import annotations

import itertools
import struct
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from message_bodies import EVERY_VERSION, at_length, named
from peak_memory import peak_bytes

from kafkasource.errors import AnswerTooLarge, ProtocolError
from kafkasource.kafka.protocol.apis import FETCH, METADATA
from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.primitives import MAX_MEMORY_BYTES, ByteReader
from kafkasource.kafka.protocol.schema import BYTES, RECORDS, Array, Body, Field, Struct, Type

pytestmark = pytest.mark.slow
MIB = 1 << 20
FIRST_AND_LAST = [(m, v) for m, v in EVERY_VERSION if v in m.versions]


def arrays(fields: Sequence[Field], version: int, path: tuple[Field, ...] = ()) -> Iterator[tuple[Field, ...]]:
    """The way to each array in a message, through what it lies in."""
    for f in fields:
        if not f.carried_by(version):
            continue
        if isinstance(f.type, Array):
            yield (*path, f)
        kind = f.type.element if isinstance(f.type, Array) else f.type
        if isinstance(kind, Struct):
            yield from arrays(kind.fields, version, (*path, f))


def least(kind: Type, version: int) -> Any:
    """The value that takes the fewest bytes on the wire, null apart."""
    if kind in (BYTES, RECORDS):
        return b""
    if isinstance(kind, Array):
        return []
    if not isinstance(kind, Struct):
        return kind.default
    return {f.name: least(f.type, version) for f in kind.fields if f.carried_by(version) and f.tag is None}


LARGEST = {
    "bool": True,
    "int8": 100,
    "int16": 2**15 - 1,
    "int32": 2**31 - 1,
    "int64": 2**63 - 1,
    "uint16": 2**16 - 1,
    "uint32": 2**32 - 1,
    "float64": 1.5,
    "uuid": uuid.UUID(int=2**128 - 1),
    "string": "\U0001f600",
    "bytes": b"xy",
    "records": b"xy",
}


def largest(kind: Type, version: int) -> Any:
    """A value that takes the most memory beside its text; arrays are empty, as their elements count for themselves."""
    if isinstance(kind, Array):
        return []
    if isinstance(kind, Struct):
        return {f.name: largest(f.type, version) for f in kind.fields if f.carried_by(version)}
    return LARGEST[kind.name]


def crowd(fields: Sequence[Field], version: int, path: Sequence[Field], count: int, make: Any) -> Body:
    """A body whose array at the end of `path` has `count` elements, and everything else as little as can be."""
    first, *rest = path
    kind = first.type.element if isinstance(first.type, Array) else first.type
    if not rest:
        inside: Any = [make(kind, version)] * count
    else:
        assert isinstance(kind, Struct)
        inside = crowd(kind.fields, version, rest, count, make)
        inside = [inside] if isinstance(first.type, Array) else inside
    return {**least(Struct(fields), version), first.name: inside}


def charged_bytes(message: Message, version: int, data: bytes) -> int:
    """What the reader is charged for the message."""
    reader = ByteReader(data)
    assert message.read(version, reader) is not None
    return reader.memory_bytes


@pytest.mark.parametrize("make", [pytest.param(least, marks=pytest.mark.extended), largest])
@pytest.mark.parametrize(("message", "version"), at_length(FIRST_AND_LAST), ids=named)
def test_an_array_takes_no_more_memory_than_it_is_charged(message: Message, version: int, make: Any) -> None:
    for path in arrays(message.fields, version):
        data = message.encode(version, crowd(message.fields, version, path, 500, make))
        allowed = charged_bytes(message, version, data) + (4 << 10)  # compiles, too, before we measure
        peak = peak_bytes(partial(message.decode, version, data), allowed)
        assert peak <= allowed, ".".join(f.name for f in path)


def test_more_structs_than_any_cluster_needs_are_refused_before_they_are_made() -> None:
    """Ten times 100,000 partitions, a frame of 30 MB, were 1.2 GB of dicts."""
    partitions = [{"records": b""}] * 100_000
    data = FETCH.response.encode(4, {"responses": [{"partitions": partitions}] * 2})

    def decode() -> None:
        with pytest.raises(ProtocolError, match="above our limit of 256"):
            FETCH.response.decode(4, data)

    assert peak_bytes(decode, MAX_MEMORY_BYTES) <= MAX_MEMORY_BYTES


def test_metadata_of_a_cluster_of_any_size_may_take_what_they_need() -> None:
    """The bound grows with the bytes that came. As brokers of Kafka 0.8 to 4.3 lay Metadata out."""
    for version, per_topic, replicas in itertools.product(range(14), (1, 100), (1, 3)):
        nodes = list(range(1000, 1000 + replicas))
        partition = {
            "leader_id": 1000,
            "partition_index": 7,
            "replica_nodes": nodes,
            "isr_nodes": nodes,
            "error_code": 0,
        }
        topic = {"error_code": 0, "name": "orders", "partitions": [partition] * per_topic}
        data = METADATA.response.encode(version, {"brokers": [], "topics": [topic] * (1000 // per_topic)})
        assert charged_bytes(METADATA.response, version, data) < METADATA.response.memory_factor * len(data)


def test_metadata_that_no_cluster_has_are_refused_before_they_are_made() -> None:
    """Partitions without a single replica, 18 bytes each and twice as many times that as values."""
    count = 600_000
    start = struct.pack(">i B B i", 0, 1, 0, -1) + bytes([2]) + struct.pack(">h B 16x ?", 0, 1, False)
    data = start + bytes.fromhex("c1cf24") + bytes(18 * count)  # the varint is 600,001

    def decode() -> None:
        with pytest.raises(AnswerTooLarge, match=r"600000 elements .* above our limit of 329"):
            METADATA.response.decode(13, data)

    assert peak_bytes(decode, MIB) <= MIB


@pytest.mark.parametrize(
    ("topics", "partitions"),
    [
        (1, 25_000),
        (3_000, 100),
        *(pytest.param(*each, marks=pytest.mark.extended) for each in ((150_000, 1), (1, 250_000))),
    ],
)
def test_the_metadata_of_a_very_large_cluster_is_taken(topics: int, partitions: int) -> None:
    """Metadata v1 as https://kafka.apache.org/protocol lays it out; three replicas, all in sync."""
    partition = struct.pack(">hii i3i i3i", 0, 7, 1000, 3, 1000, 1001, 1002, 3, 1000, 1001, 1002)
    topic = struct.pack(">h h7s ? i", 0, 7, b"a-topic", False, partitions) + partition * partitions
    data = struct.pack(">i i i", 0, 1, topics) + topic * topics
    found = METADATA.response.decode(1, data)["topics"]
    assert len(found) == topics
    assert sum(len(each["partitions"]) for each in found) == topics * partitions
