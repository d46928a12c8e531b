"""Reads dead letters and counts them by reason: the sink's (`badRecords=topic:NAME`) and those of share groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkasource.formats.dead_letters.headers import CLUSTER_ID, FORMATS, MESSAGE, OFFSET, PARTITION, TOPIC

if TYPE_CHECKING:
    import pyarrow as pa

_LAST_PARTITION = 2**31 - 1  # Kafka's INT32
_MOST_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Origin:
    """The headers of one dead letter. None: the record lacks the header, as an ordinary record does."""

    topic: str | None = None
    partition: str | None = None
    offset: str | None = None
    reason: str | None = None
    cluster_id: str | None = None  # of the cluster with this topic; None: it does not say, as those of share groups
    is_row: bool = False  # JSON of a row that a writer's schema did not take: no record as it was

    @classmethod
    def of(cls, headers: list[dict[str, Any]] | None) -> Origin:
        """The last header of a name counts: a dead letter may be one for the second time."""
        rows = headers or []
        last = {each["key"]: each["value"] for each in rows}
        # Before the last name of a topic stands what a dead letter had that was read, and has become one again.
        last_of_topic = max((place for place, each in enumerate(rows) if each["key"] == TOPIC), default=-1)
        of_this_life = {each["key"]: each["value"] for each in rows[last_of_topic + 1 :]}
        texts = (*(last.get(name) for name in (TOPIC, PARTITION, OFFSET, MESSAGE)), of_this_life.get(CLUSTER_ID))
        said = [None if text is None else text.decode(errors="replace") for text in texts]
        topic, partition, offset, reason, cluster_id = said
        is_row = not of_this_life.keys().isdisjoint(FORMATS.values())
        return cls(topic, partition, offset, reason, cluster_id, is_row)

    @property
    def partition_number(self) -> int | None:
        """None if the header is absent, or is not a partition's number: another program may have written it."""
        text = self.partition or ""
        known = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) <= _LAST_PARTITION
        return int(text) if known else None


@dataclass(slots=True)
class Kind:
    """Dead letters of one topic with the same reason."""

    topic: str | None
    reason: str | None
    cluster_id: str | None
    records: int = 0
    last_partition: str | None = None  # where the last of them was read
    last_offset: str | None = None
    rows: int = 0  # of them such that are rows as JSON


def kinds_of(batches: Iterable[pa.RecordBatch]) -> list[Kind]:
    """The kinds among rows of the source, which have headers; the most frequent first."""
    found: dict[tuple[str | None, ...], Kind] = {}
    for batch in batches:
        for origin in origins_of(batch):
            key = origin.topic, origin.reason, origin.cluster_id
            kind = found.setdefault(key, Kind(*key))
            kind.records += 1
            kind.rows += origin.is_row
            kind.last_partition, kind.last_offset = origin.partition, origin.offset
    return sorted(found.values(), key=lambda kind: -kind.records)


def with_reason(batch: pa.RecordBatch, words: str) -> pa.RecordBatch:
    """The dead letters whose reason has these words in it, in any case."""
    rows = [number for number, each in enumerate(origins_of(batch)) if words.lower() in (each.reason or "").lower()]
    return batch.take(rows) if rows else batch.slice(0, 0)


def origins_of(batch: pa.RecordBatch) -> list[Origin]:
    return [Origin.of(headers) for headers in batch.column("headers").to_pylist()]
