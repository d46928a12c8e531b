"""Plain values that every layer speaks of. They cross processes: frozen, and small when pickled."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

NEVER = float("inf")
"""A time that never comes, or a wait without end, in ms."""


def known(value: int | None) -> int | None:
    """A number from a response, which has -1, or no such field, where the broker does not know it."""
    return None if value is None or value < 0 else value


TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""What Kafka's `Topic.validate` lets a name be made of. It refuses `.` and `..`, too."""

ROW_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The columns of a row of the source, in the JVM connector's order. It has `headers` only where a user asks for it."""
BAD_RECORD_COLUMN = "badRecord"
"""One more, behind them, of badRecords=column."""
PACKED_COLUMN = "records"
"""The only column of packRecords=true."""


class TopicPartition(NamedTuple):
    """A tuple: with 1,000 partitions a micro-batch hashes and compares thousands of them, which a tuple does in C."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class IsolationLevel(Enum):
    """Tells which records of transactions a reader sees (KIP-98). `value` is the number that requests carry."""

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
    """The identity of a producer for the brokers (KIP-98). A newer epoch of the id fences the older ones."""

    producer_id: int
    producer_epoch: int


class Written(NamedTuple):
    """Records that brokers have stored in one topic-partition. Records of other producers may lie between them."""

    records: int
    bytes: int  # size of the record batches as sent, compressed
    first_offset: int | None = None  # inclusive; None: no broker said it (acks=0, a lost response)
    last_offset: int | None = None

    def merged(self, other: Written) -> Written:
        """The sum of both, in whichever order they were written."""
        firsts = [one.first_offset for one in (self, other) if one.first_offset is not None]
        lasts = [one.last_offset for one in (self, other) if one.last_offset is not None]
        return Written(
            self.records + other.records,
            self.bytes + other.bytes,
            min(firsts, default=None),
            max(lasts, default=None),
        )


class Discarded(NamedTuple):
    """Records that the sink discarded: the cluster was too slow, or the records were too old."""

    records: int
    bytes: int  # size of keys and values, estimated from the task's average record

    def merged(self, other: Discarded) -> Discarded:
        return Discarded(self.records + other.records, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of a topic-partition that a single task reads. Compaction and transaction markers leave holes in
    it."""

    topic_partition: TopicPartition
    start_offset: int  # inclusive
    end_offset: int  # exclusive; high watermark, or last stable offset when read_committed
    leader_epoch: int | None = None  # at planning, no older than any record's; detects a truncated log (KIP-320)
    topic_id: uuid.UUID | None = None  # at planning; a topic with the same name and another id was created again
    # A batch read's `earliest` and `latest`. The offsets here are from planning; the task asks for the current ones.
    from_earliest: bool = False
    to_latest: bool = False

    @property
    def size(self) -> int:
        return self.end_offset - self.start_offset

    @property
    def is_whole_log(self) -> bool:
        """From `earliest` to `latest`, in one piece?"""
        return self.from_earliest and self.to_latest

    def split(self, pieces: int) -> list[OffsetRange]:
        """Cut into at most `pieces` non-empty neighbours that cover this range exactly, the larger ones last."""
        size, more = divmod(self.size, pieces)
        smaller = pieces - more  # how many pieces have `size` offsets; the others have one more
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
    """How the source packs records for a job that only copies them (`records.arrow.packed`)."""

    # Headers added after each record's own: name, and value, which may contain ${topic}, ${partition} and ${offset}.
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class NewTopic:
    """How to create a topic. -1: the broker's default."""

    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()  # hashable: pairs of name and value
