"""Plain values that every layer speaks of. They cross processes: frozen, and small when pickled."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

NEVER = float("inf")
"""A time that never comes, or a wait without end, in ms."""


class TopicPartition(NamedTuple):
    """A tuple: with 1,000 partitions a micro-batch hashes and compares thousands of them, which a tuple does in C."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class IsolationLevel(Enum):
    """Which records of transactions a reader sees (KIP-98). `value` is the number that requests carry."""

    READ_UNCOMMITTED = 0  # all records, up to the high watermark
    READ_COMMITTED = 1  # no aborted ones, and nothing behind the last stable offset

    @classmethod
    def parse(cls, text: str) -> IsolationLevel:
        """The level that the option `kafka.isolation.level` names, in any case. Raises KeyError."""
        return cls[text.strip().upper()]

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as Metadata describes it. Identity is `node_id`: two nodes may share an address behind a proxy."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (node {self.node_id})"


class ProducerId(NamedTuple):
    """Who a producer is to the brokers (KIP-98). A newer epoch of the id fences the ones before."""

    producer_id: int
    producer_epoch: int


class Written(NamedTuple):
    """What was written to one topic-partition and is stored. Others' records may lie between first and last."""

    records: int
    bytes: int  # of record batches as sent, compressed
    first_offset: int | None = None  # inclusive, as the last; None where no broker told (acks=0, an answer lost)
    last_offset: int | None = None

    def merged(self, other: Written) -> Written:
        """Both together, in whichever order they were written."""
        firsts = [one.first_offset for one in (self, other) if one.first_offset is not None]
        lasts = [one.last_offset for one in (self, other) if one.last_offset is not None]
        return Written(
            self.records + other.records,
            self.bytes + other.bytes,
            min(firsts, default=None),
            max(lasts, default=None),
        )


class Discarded(NamedTuple):
    """What was not written to one topic-partition on purpose: its cluster was too slow, or the records too old."""

    records: int
    bytes: int  # of keys and values, as the average record of the task has them

    def merged(self, other: Discarded) -> Discarded:
        return Discarded(self.records + other.records, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """What one task reads of one topic-partition. Its size bounds the rows: compaction and markers leave holes."""

    topic_partition: TopicPartition
    start_offset: int  # inclusive
    end_offset: int  # exclusive; high watermark, or last stable offset when read_committed
    leader_epoch: int | None = None  # when planned, no older than any record; finds a truncated log (KIP-320)
    topic_id: uuid.UUID | None = None  # when planned; a topic of that name with another id is another one
    # A batch read's `earliest` and `latest`: the offsets are those of planning, the task takes those of its own time.
    from_earliest: bool = False
    to_latest: bool = False

    @property
    def size(self) -> int:
        return self.end_offset - self.start_offset

    def split(self, pieces: int) -> list[OffsetRange]:
        """Cut into at most `pieces` non-empty neighbours that cover this range exactly, the larger ones last."""
        size, more = divmod(self.size, pieces)
        smaller = pieces - more  # as many of `size`, then those of one offset more
        cuts = [self.start_offset + size * i + max(0, i - smaller) for i in range(pieces + 1)]
        ranges = [replace(self, start_offset=a, end_offset=b) for a, b in pairwise(cuts) if a < b]
        return [
            replace(
                one,
                from_earliest=self.from_earliest and one is ranges[0],
                to_latest=self.to_latest and one is ranges[-1],
            )
            for one in ranges
        ]

    def __str__(self) -> str:
        return f"{self.topic_partition} [{self.start_offset}, {self.end_offset})"


class Packing(NamedTuple):
    """How records are packed for those who carry them on (`records.packed`)."""

    # Headers that each record gets, after its own: name, and value with ${topic}, ${partition}, ${offset} in it.
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class NewTopic:
    """How to create a topic; -1: the broker's default."""

    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()  # hashable: pairs of name and value
