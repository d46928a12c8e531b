"""What a broker can make us hold with one message: values are counted, and a value of any array has a price."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from message_bodies import EVERY_VERSION, named

from kafkasource.errors import ProtocolError
from kafkasource.protocol.apis import FETCH, METADATA
from kafkasource.protocol.primitives import MAX_ARRAY_LENGTH
from kafkasource.protocol.schema import BYTES, RECORDS, Array, Body, Field, Message, Struct, Type

BYTES_PER_VALUE = 128
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


def crowd(fields: Sequence[Field], version: int, path: Sequence[Field], count: int) -> Body:
    """A body whose array at the end of `path` has `count` elements, and everything else as little as can be."""
    first, *rest = path
    kind = first.type.element if isinstance(first.type, Array) else first.type
    if not rest:
        inside: Any = [least(kind, version)] * count
    else:
        assert isinstance(kind, Struct)
        inside = crowd(kind.fields, version, rest, count)
        inside = [inside] if isinstance(first.type, Array) else inside
    return {**least(Struct(fields), version), first.name: inside}


def values_of(kind: Type) -> int:
    """As many as the struct has fields, and fields of its structs, whether they come or have defaults."""
    return (
        1 + sum(values_of(f.type) for f in kind.fields) if isinstance(kind, Struct) else 1 + (kind in (BYTES, RECORDS))
    )


def peak_of(message: Message, version: int, data: bytes) -> int:
    message.decode(version, data)  # compiled before we measure
    tracemalloc.start()
    try:
        body = message.decode(version, data)
        assert body is not None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("message", "version"), FIRST_AND_LAST, ids=named)
def test_a_value_in_an_array_takes_no_more_than_its_price(message: Message, version: int) -> None:
    count = 500
    for path in arrays(message.fields, version):
        data = message.encode(version, crowd(message.fields, version, path, count))
        kind = path[-1].type
        assert isinstance(kind, Array)
        allowed = BYTES_PER_VALUE * values_of(kind.element) * count + (4 << 10)
        assert peak_of(message, version, data) < allowed, ".".join(f.name for f in path)


def test_more_structs_than_any_cluster_needs_are_refused_before_they_are_made() -> None:
    """Ten times 100,000 partitions, a frame of 30 MB, were 1.2 GB of dicts."""
    partitions = [{"records": b""}] * MAX_ARRAY_LENGTH
    data = FETCH.response.encode(4, {"responses": [{"partitions": partitions}] * 3})
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="limits"):
            FETCH.response.decode(4, data)
        assert tracemalloc.get_traced_memory()[1] < 256 * MIB
    finally:
        tracemalloc.stop()


def test_the_metadata_of_a_very_large_cluster_is_taken() -> None:
    partition = {"leader_id": 1, "replica_nodes": [1, 2, 3], "isr_nodes": [1, 2, 3]}
    topic = {"name": "t", "partitions": [{**partition, "partition_index": i} for i in range(1200)]}
    data = METADATA.response.encode(12, {"topics": [topic] * 100})
    assert sum(len(each["partitions"]) for each in METADATA.response.decode(12, data)["topics"]) == 120_000
