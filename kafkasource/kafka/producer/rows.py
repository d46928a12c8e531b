"""The rows that a producer takes: Arrow columns of the records of one topic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.errors import KafkaSourceError

Column: TypeAlias = pa.Array
Span = tuple[int, int, int]
"""A partition and [first, last): its positions in the order of rows."""


class InvalidRow(KafkaSourceError, ValueError):
    """A row cannot become a Kafka record. The text names column and rule, never the row's content."""


@dataclass(frozen=True)
class Rows:
    """Rows of one topic, checked. Columns have equal length; keys, values and headers keep their nulls."""

    topic: str
    count: int
    keys: Column | None  # binary; None: all null
    values: Column  # binary
    headers: Column | None  # HEADERS_TYPE
    partitions: Column | None  # int32: the user's choice; null: the partitioner's. None: all null
    timestamps_ms: Column | None  # int64; null: now; -1: the record has none
    offsets: Column | None = None  # int64 without nulls: where the rows were read, for a map of offsets

    @property
    def last_partition(self) -> int:
        """The highest partition that a row names; 0 where none names one."""
        return 0 if self.partitions is None else max(0, pc.max(self.partitions).as_py() or 0)

    def take(self, indices: Column) -> Rows:
        """The rows at `indices`, copied."""

        def pick(column: Column | None) -> Column | None:
            return None if column is None else column.take(indices)

        return replace(
            self,
            count=len(indices),
            keys=pick(self.keys),
            values=pick(self.values),
            headers=pick(self.headers),
            partitions=all_null_as_none(pick(self.partitions)),
            timestamps_ms=pick(self.timestamps_ms),
            offsets=pick(self.offsets),
        )

    def of_topic(self, topic: str, first: int, last: int) -> Rows:
        """The rows [first, last), which are of this topic. Nothing is copied."""
        count = last - first

        def part(column: Column | None) -> Column | None:
            return None if column is None else column.slice(first, count)

        return Rows(
            topic=topic,
            count=count,
            keys=part(self.keys),
            values=self.values.slice(first, count),
            headers=part(self.headers),
            partitions=all_null_as_none(part(self.partitions)),
            timestamps_ms=part(self.timestamps_ms),
            offsets=part(self.offsets),
        )


def all_null_as_none(column: Column | None) -> Column | None:
    """The column, or None where all its values are null."""
    return None if column is None or column.null_count == len(column) else column
