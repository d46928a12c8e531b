"""What a campaign saw: frozen values that the rules judge. Times are ms of one clock, offsets are Kafka's.

A log is a sequence of records under a name: a topic as librdkafka reads it at read_committed, or the records that a
reader of ours gave, in the order in which it gave them. The records of one partition are in their order.
A record is known by its value: producers never write a value twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class Outcome(Enum):
    """What a producer knows of a record's transaction."""

    COMMITTED = "committed"  # a record without a transaction: acknowledged
    ABORTED = "aborted"
    UNKNOWN = "unknown"  # the producer was lost before it had the answer: both ends are right


class Written(NamedTuple):
    """A record that a producer wrote."""

    producer: str
    key: bytes | None
    number: int  # counts up for each producer and key, with gaps
    value: bytes
    log: str
    partition: int
    offset: int | None  # as the broker acknowledged it
    outcome: Outcome
    headers: Headers = ()


class Record(NamedTuple):
    """A record that was read."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: Headers = ()


class Copy(NamedTuple):
    """The promise of a query: each record of `source` is in `target`."""

    name: str
    source: str
    target: str
    once: bool  # False: a record may come again
    same_partition: bool = False
    same_offset: bool = False
    with_headers: bool = False  # the source's headers come along, before those that the copy adds
    partition_of: Callable[[bytes], int] | None = None  # where Kafka's partitioner puts a key
    # How many records the query said that it left out, in all its runs. None: it may leave out none. One that may also
    # gives no promise of order: a record that it left out in a batch that failed is behind later ones when it comes.
    left_out: int | None = None


class Passed(NamedTuple):
    """A reader of a topic whose records are removed before their time: it may lack what it said was lost.

    The history has no log of the topic itself, only what was written, and the log `told` of what the reader gave.
    """

    log: str
    told: str
    said_lost: Mapping[int, Sequence[tuple[int, int]]]  # offsets `[start, end)` by partition
    removed_below: Mapping[int, int]  # by partition: the last log start offset that was asked for


class Batch(NamedTuple):
    """A micro-batch of a copy with `atomicBatch`: which offsets of the source it took, `[start, end)` by partition."""

    copy: str
    number: int
    ranges: Mapping[int, tuple[int, int]]


class Glimpse(NamedTuple):
    """What was seen of a copy at one moment; `committed` was asked for before `ends`."""

    copy: str
    at_ms: int
    ends: Mapping[int, int]  # the target's last stable offset, by partition
    committed: Mapping[int, int]  # the offset that the copy's group had committed, by partition of the source
    at_rest: bool = False  # no transaction was about to end: an atomic batch is there whole, or not at all


class Translation(NamedTuple):
    """What a mirror's map says of an offset of its source."""

    copy: str
    partition: int
    source_offset: int
    target_offset: int
    exact: bool  # the target's next record is the copy of the source's next record


class Wait(NamedTuple):
    """Something that had to happen in a promised time."""

    what: str
    began_ms: int
    ended_ms: int | None  # None: it never happened
    promised_ms: int


@dataclass(frozen=True)
class History:
    written: Sequence[Written] = ()
    logs: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    copies: Sequence[Copy] = ()
    batches: Sequence[Batch] = ()
    glimpses: Sequence[Glimpse] = ()
    translations: Sequence[Translation] = ()
    waits: Sequence[Wait] = ()
    passed: Sequence[Passed] = ()
