"""The messages that members of a consumer group exchange. The coordinator passes them on without reading them.

Protocol type `consumer`, the common language of all Kafka clients ("Consumer Protocol" in Kafka's documentation):

    Subscription   version int16 · topics [string] · user_data bytes or null
                   from v1 (KIP-429) owned_partitions [topic string, partitions [int32]]
                   from v2 (KIP-792) generation_id int32, -1: none      from v3 (KIP-881) rack_id string or null
    Assignment     version int16 · assigned_partitions [topic string, partitions [int32]] · user_data bytes or null

Later versions only add fields at the end, so a client reads the fields that it knows. We always write version 3, and
every client can read it. A client ignores bytes after the last field that it knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkasource.errors import ProtocolError
from kafkasource.kafka.protocol.primitives import Buffer, ByteReader, ByteWriter
from kafkasource.types import TopicPartition

PROTOCOL_TYPE = "consumer"
NEWEST_VERSION = 3
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's message to the leader when it joins."""

    topics: tuple[str, ...]
    user_data: bytes | None = None  # the assignor's own
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int | None = None  # in which the partitions were owned
    rack_id: str | None = None

    def encode(self, version: int = NEWEST_VERSION) -> bytes:
        """Encode the message. Fields that the version does not carry are left out, as in Java."""
        writer = ByteWriter()
        writer.int16(version)
        writer.array_length(len(self.topics), compact=False)
        for topic in sorted(self.topics):
            writer.string(topic)
        writer.nullable_bytes(self.user_data)
        if version >= 1:
            _write_partitions(writer, sorted(self.owned_partitions))
        if version >= 2:
            writer.int32(NO_GENERATION if self.generation_id is None else self.generation_id)
        if version >= 3:
            writer.nullable_string(self.rack_id)
        return writer.getvalue()

    @classmethod
    def decode(cls, data: Buffer) -> Subscription:
        """Raises ProtocolError."""
        reader = ByteReader(data)
        version = _version(reader, "subscription")
        count = _present(reader.array_length(compact=False, element_bytes=2))
        topics = tuple(reader.string() for _ in range(count))
        user_data = _bytes(reader)
        owned = _read_partitions(reader) if version >= 1 else ()
        generation = reader.int32() if version >= 2 else NO_GENERATION
        rack = reader.nullable_string() if version >= 3 else None
        return cls(topics, user_data, owned, generation if generation >= 0 else None, rack)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The leader's decision for one member."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None

    def encode(self, version: int = NEWEST_VERSION) -> bytes:
        """Topics in the order in which they first come, as in Java."""
        writer = ByteWriter()
        writer.int16(version)
        _write_partitions(writer, self.partitions)
        writer.nullable_bytes(self.user_data)
        return writer.getvalue()

    @classmethod
    def decode(cls, data: Buffer) -> Assignment:
        """No bytes at all: the leader did not speak of this member, it has nothing. Raises ProtocolError."""
        if not len(data):
            return cls()
        reader = ByteReader(data)
        _version(reader, "assignment")
        return cls(_read_partitions(reader), _bytes(reader))


def _version(reader: ByteReader, what: str) -> int:
    version = reader.int16()
    if version < 0:
        raise ProtocolError(f"consumer protocol: {what} of version {version}")
    return version


def _write_partitions(writer: ByteWriter, partitions: Iterable[TopicPartition]) -> None:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    writer.array_length(len(by_topic), compact=False)
    for topic, indexes in by_topic.items():
        writer.string(topic)
        writer.array_length(len(indexes), compact=False)
        for index in indexes:
            writer.int32(index)


def _read_partitions(reader: ByteReader) -> tuple[TopicPartition, ...]:
    found = []
    for _ in range(_present(reader.array_length(compact=False, element_bytes=6))):
        topic = reader.string()
        for _ in range(_present(reader.array_length(compact=False, element_bytes=4))):
            found.append(TopicPartition(topic, reader.int32()))
    return tuple(found)


def _present(count: int | None) -> int:
    if count is None:
        raise ProtocolError("consumer protocol: null where an array must be")
    return count


def _bytes(reader: ByteReader) -> bytes | None:
    found = reader.nullable_bytes()
    return None if found is None else bytes(found)
