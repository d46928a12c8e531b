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
class LetterOrigin:
    """The headers of one dead letter. None: the record lacks the header, as an ordinary record does."""

    topic: str | None = None
    partition: str | None = None
    offset: str | None = None
    reason: str | None = None
    cluster_id: str | None = None  # of the cluster with this topic; None: it does not say, as those of share groups
    is_row: bool = False  # JSON of a row that a writer's schema did not take: no record as it was

    @classmethod
    def of(cls, headers: list[dict[str, Any]] | None) -> LetterOrigin:
        """The last header of a name counts: a dead letter may be one for the second time."""
        rows = headers or []
        last = {header["key"]: header["value"] for header in rows}
        # Before the last name of a topic stands what a dead letter had that was read, and has become one again.
        last_of_topic = max((place for place, header in enumerate(rows) if header["key"] == TOPIC), default=-1)
        of_this_life = {header["key"]: header["value"] for header in rows[last_of_topic + 1 :]}
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
class ReasonCount:
    """Dead letters of one topic with the same reason."""

    topic: str | None
    reason: str | None
    cluster_id: str | None
    records: int = 0
    last_partition: str | None = None  # where the last of them was read
    last_offset: str | None = None
    rows: int = 0  # of them such that are rows as JSON


def counts_by_reason(batches: Iterable[pa.RecordBatch]) -> list[ReasonCount]:
    """The kinds among rows of the source, which have headers; the most frequent first."""
    counts: dict[tuple[str | None, ...], ReasonCount] = {}
    for batch in batches:
        for origin in origins_of(batch):
            key = origin.topic, origin.reason, origin.cluster_id
            count = counts.setdefault(key, ReasonCount(*key))
            count.records += 1
            count.rows += origin.is_row
            count.last_partition, count.last_offset = origin.partition, origin.offset
    return sorted(counts.values(), key=lambda count: -count.records)


def with_reason(batch: pa.RecordBatch, words: str) -> pa.RecordBatch:
    """The dead letters whose reason has these words in it, in any case."""
    rows = [number for number, origin in enumerate(origins_of(batch)) if words.lower() in (origin.reason or "").lower()]
    return batch.take(rows) if rows else batch.slice(0, 0)


def origins_of(batch: pa.RecordBatch) -> list[LetterOrigin]:
    return [LetterOrigin.of(headers) for headers in batch.column("headers").to_pylist()]
