"""Narrows a batch read by its filters, or by its limit: tasks do not fetch records that the query does not need.

    topic, partition   comparisons leave out whole partitions
    offset             comparisons move both ends
    timestamp          lower bounds move the start: ListOffsets finds the first record at or after a time, and all
                       before it are older. Behind it older ones may follow, as create time is the producer's, so an
                       upper bound proves nothing. That it finds none says nothing of records behind an open
                       transaction, for which a read with read_committed may wait.

Every filter goes back to Spark, which checks each row again. A narrowing may keep too much, never too little. A filter
that it does not know (another column, a literal of another type) narrows nothing. `Narrowing` is pure.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from kafkasource.errors import UnsupportedApiVersion, UnsupportedForMessageFormat
from kafkasource.source.spark.batch import BatchReader
from kafkasource.spark.releases import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)
from kafkasource.types import OffsetRange, TopicPartition

if TYPE_CHECKING:
    from kafkasource.source.plan.offset_reader import OffsetReader
    from kafkasource.source.plan.offsets import Offsets

log = logging.getLogger("kafkasource.source")

_NO_END = 1 << 63
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)

# A comparison of a column with one literal: does a value pass, and which whole numbers do, [low, high)?
_COMPARISONS: dict[type[Filter], tuple[Callable[[Any, Any], bool], Callable[[int], tuple[int, int]]]] = {
    EqualTo: (operator.eq, lambda literal: (literal, literal + 1)),
    EqualNullSafe: (operator.eq, lambda literal: (literal, literal + 1)),
    GreaterThan: (operator.gt, lambda literal: (literal + 1, _NO_END)),
    GreaterThanOrEqual: (operator.ge, lambda literal: (literal, _NO_END)),
    LessThan: (operator.lt, lambda literal: (-_NO_END, literal)),
    LessThanOrEqual: (operator.le, lambda literal: (-_NO_END, literal + 1)),
}


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The bounds of all rows that can pass."""

    start_offset: int = 0  # inclusive
    end_offset: int = _NO_END  # exclusive
    since_ms: int | None = None  # no older record passes
    names: tuple[Filter, ...] = ()  # on topic and partition

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> Narrowing:
        """`filters` all hold for a row that passes, as Spark gives them."""
        low, high, since_us = 0, _NO_END, -_NO_END
        names = []
        for one in filters:
            column = _column(one)
            if column == "offset":
                first, end = _interval(one, _whole_number)
                low, high = max(low, first), min(high, end)
            elif column == "timestamp":
                since_us = max(since_us, _interval(one, _microseconds)[0])
            elif column in ("topic", "partition"):
                names.append(one)
        since_ms = -(-since_us // 1000)  # a row shows whole milliseconds
        # 0 and below: records without a timestamp have -1, and below that ListOffsets asks for something else.
        return cls(low, high, since_ms if since_ms > 0 else None, tuple(names))

    def keeps(self, tp: TopicPartition) -> bool:
        """Can rows of this partition pass?"""
        values: dict[str, str | int] = {"topic": tp.topic, "partition": tp.partition}
        return all(_can_pass(one, values[str(_column(one))]) for one in self.names)

    def by_offset(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """The rest of a range by topic, partition and offset. An end at `latest` stays one unless a filter ends the
        range earlier.
        """
        kept = []
        for one in ranges:
            if not self.keeps(one.topic_partition):
                continue
            bounded = self.end_offset <= one.end_offset
            end = self.end_offset if bounded else one.end_offset
            left = replace(one, end_offset=end, to_latest=one.to_latest and not bounded)
            kept += _from(left, self.start_offset)
        return kept

    def by_time(
        self,
        ranges: Iterable[OffsetRange],
        found: Mapping[TopicPartition, int | None],
        log_ends: Mapping[TopicPartition, int],
    ) -> list[OffsetRange]:
        """The rest of the ranges by timestamp. `found` has the offset of the first record at or after `since_ms`, None
        if there is none yet. A partition that it does not have was not asked about, and stays as it is.

        `log_ends`: as listed before, under the same isolation level. None is said of records below these alone.
        """
        kept = []
        for one in ranges:
            first = found.get(one.topic_partition, one.start_offset)
            if first is None:
                first = min(one.end_offset, log_ends.get(one.topic_partition, one.start_offset))
            kept += _from(one, first)
        return kept


class FilteringBatchReader(BatchReader):
    """The batch reader of `pushDownPredicate`: Spark hands it the query's filters before it asks for partitions.

    It is a class of its own, because Spark refuses a reader that has `pushFilters` while its conf is off
    (DATA_SOURCE_PUSHDOWN_DISABLED, with the conf's name), and this process cannot see the conf. It needs our own
    option: Spark 4.2 and 4.3 keep the partitions of the last query with a filter for all queries on the same DataFrame,
    with other filters or none. (`PythonScanBuilder` leaves them in `PythonDataSourceV2`, which those queries share.)
    This reader could not notice: for such queries Spark does not ask again.

    `pushLimit` is here, because Spark 4.4 may do the same with a limit.
    """

    _narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._narrowing = Narrowing.of(filters)
        return filters

    def pushLimit(self, limit: int) -> bool:
        """Let each task end after `limit` rows. Spark 4.4 calls it (SPARK-58551) for a query with a limit and no
        filter, and cuts the rows of all tasks together itself."""
        self._tasks = replace(self._tasks, most_rows=limit)
        return True

    def _narrowed(
        self, ranges: Sequence[OffsetRange], log_ends: Offsets, reader: OffsetReader
    ) -> Sequence[OffsetRange]:
        narrowing = self._narrowing
        kept = narrowing.by_offset(ranges)
        if narrowing.since_ms is not None:
            try:
                found = reader.offsets_for_times({one.topic_partition: narrowing.since_ms for one in kept})
            except (UnsupportedForMessageFormat, UnsupportedApiVersion):  # a log without timestamps; before 0.10.1
                found = {}
            kept = narrowing.by_time(kept, found, log_ends)
        log.info("filters leave %d of %d offsets to read", sum(r.size for r in kept), sum(r.size for r in ranges))
        return kept


def _from(one: OffsetRange, start_offset: int) -> list[OffsetRange]:
    """`one` from `start_offset` on, if that is later. A range that ends at `latest` may be empty for now."""
    start = max(one.start_offset, start_offset)
    if one.to_latest:
        return [replace(one, start_offset=min(start, one.end_offset))]
    return [replace(one, start_offset=start)] if start < one.end_offset else []


def _column(one: Filter) -> str | None:
    """The column of a comparison. None: it is another filter, or compares a field within a column."""
    if isinstance(one, Not):
        one = one.child
    if type(one) not in _COMPARISONS and not isinstance(one, In):
        return None
    return one.attribute[0] if len(one.attribute) == 1 else None


def _can_pass(one: Filter, value: str | int) -> bool:
    """False if a comparison (or `Not` of one) with `value` fails for certain."""
    if isinstance(one, Not):
        return not _is_known(one.child, type(value)) or not _holds(one.child, value)
    return not _is_known(one, type(value)) or _holds(one, value)


def _is_known(one: Filter, kind: type) -> bool:
    literals = one.value if isinstance(one, In) else [one.value]
    return all(type(literal) is kind for literal in literals if literal is not None) and any(
        literal is not None for literal in literals
    )


def _holds(one: Filter, value: str | int) -> bool:
    if isinstance(one, In):
        return value in one.value
    return _COMPARISONS[type(one)][0](value, one.value)


def _interval(one: Filter, number: Callable[[object], int | None]) -> tuple[int, int]:
    """Whole numbers outside [low, high) fail for certain. `Not` gives no bounds: Spark turns such comparisons round."""
    unknown = (-_NO_END, _NO_END)
    if isinstance(one, Not):
        return unknown
    if not isinstance(one, In):
        literal = number(one.value)
        return unknown if literal is None else _COMPARISONS[type(one)][1](literal)
    literals = [number(literal) for literal in one.value if literal is not None]  # a null equals nothing
    known = [literal for literal in literals if literal is not None]
    return (min(known), max(known) + 1) if known and len(known) == len(literals) else unknown


def _whole_number(literal: object) -> int | None:
    return literal if type(literal) is int else None


def _microseconds(literal: object) -> int | None:
    """Microseconds of a timestamp literal since the epoch. Spark sends UTC, whatever the session's time zone is."""
    if not isinstance(literal, datetime) or literal.tzinfo is None:
        return None
    return (literal - _EPOCH) // _MICROSECOND
