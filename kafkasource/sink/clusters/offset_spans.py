"""Relates the offsets of a mirror's rows at the source to their offsets at the target. Pure.

The sink hands rows over in runs: rows of one partition that follow each other. A producer stores its rows in the order
in which it got them, and the broker says where each batch lies. The runs and the batches together give the offset of
each row without a number per row. The result is few spans: a single one if neither source nor target has holes.

A span says that the records of the source's offsets `[source_first, source_next)` lie in `[target_first, target_next)`.
The record of source offset s, or the next one after it, lies no lower than `lowest(s)`. So a reader that continues at
`lowest(s)` misses nothing. It may read records twice, because holes and other writers' records make the place
uncertain.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkasource.types import TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.producer.rows import Column
    from kafkasource.kafka.producer.rows import Span as RowSpan

MOST_SPANS = 64  # for one partition in a task's message


class OffsetSpan(NamedTuple):
    """See the module. All `next` are exclusive."""

    source_first: int
    source_next: int
    target_first: int
    target_next: int
    shift: int | None  # lowest(s) = s + shift, but never below target_first; None: only target_first is known

    def lowest(self, source_offset: int) -> int:
        """The lowest place at the target of a source offset that is not below `source_first`."""
        if source_offset >= self.source_next:
            return self.target_next
        if self.shift is None or source_offset <= self.source_first:
            return self.target_first
        return min(self.target_next, max(self.target_first, source_offset + self.shift))

    @property
    def exact(self) -> bool:
        """Does `lowest` give the place of the record itself, for every offset?"""
        first, last = self.target_first - self.source_first, self.target_next - self.source_next
        return self.shift == first == last

    def joined(self, later: OffsetSpan) -> OffsetSpan:
        """One span for both, which says only what holds for both. `later` begins at a higher source offset."""
        overlap = later.source_first < self.source_next or later.target_first < self.target_next
        shift = None if overlap or self.shift is None or later.shift is None else min(self.shift, later.shift)
        if shift is not None and later.source_first > self.source_next:
            # Records between them that the map does not know are not below the end of this span.
            shift = min(shift, self.target_next - (later.source_first - 1))
        return OffsetSpan(
            self.source_first,
            max(self.source_next, later.source_next),
            min(self.target_first, later.target_first),
            max(self.target_next, later.target_next),
            shift,
        )

    def cost(self, later: OffsetSpan) -> int:
        """The number of records that a reader would read twice, at most, if both spans were joined."""
        if self.shift is None or later.shift is None:
            return max(self.target_next, later.target_next) - min(self.target_first, later.target_first)
        return abs(later.shift - self.shift)


def merged(spans: Iterable[OffsetSpan], most: int = MOST_SPANS) -> list[OffsetSpan]:
    """At most `most` spans, in order; no span overlaps another, at the source or at the target."""
    found: list[OffsetSpan] = []
    for span in sorted(spans):
        while found and (span.source_first < found[-1].source_next or span.target_first < found[-1].target_next):
            span = found.pop().joined(span)
        if found and _continues(found[-1], span):
            span = found.pop().joined(span)
        found.append(span)
    while len(found) > most:
        cheapest = min(range(len(found) - 1), key=lambda place: _cost(found, place))
        found[cheapest : cheapest + 2] = [found[cheapest].joined(found[cheapest + 1])]
    return found


def _cost(spans: Sequence[OffsetSpan], place: int) -> float:
    """The cost of joining a span and the next, relative to how far behind its readers are, so that the newest spans
    stay exact."""
    later = spans[place + 1]
    return spans[place].cost(later) / (1 + spans[-1].source_next - later.source_first)


def _continues(one: OffsetSpan, later: OffsetSpan) -> bool:
    """Nothing lies between them, at the source or at the target, and both are exact."""
    adjacent = one.source_next == later.source_first and one.target_next == later.target_first
    return adjacent and one.exact and later.exact


class HandedOver:
    """The rows that a producer of a cluster got in one task, by the target's topic-partition. For the task's thread."""

    def __init__(self) -> None:
        self._runs: dict[TopicPartition, list[list[int]]] = {}  # source offset of the first, after the last; rows
        self._from: dict[TopicPartition, str] = {}  # the source's topic

    def add(
        self, topic: str, target_topic: str, offsets: Column, order: memoryview | None, spans: Sequence[RowSpan]
    ) -> None:
        """Rows `order[first:last]` of an Arrow int64 column without nulls, for each (partition, first, last)."""
        values = memoryview(offsets.buffers()[1]).cast("B")[8 * offsets.offset :].cast("q")
        for partition, first, last in spans:
            if first == last:
                continue
            begin, end = (first, last - 1) if order is None else (order[first], order[last - 1])
            self._append(TopicPartition(target_topic, partition), values[begin], values[end] + 1, last - first)
            self._from[TopicPartition(target_topic, partition)] = topic

    def _append(self, tp: TopicPartition, source_first: int, source_next: int, rows: int) -> None:
        runs = self._runs.setdefault(tp, [])
        dense = source_next - source_first == rows
        if runs and dense:
            before = runs[-1]
            if before[1] == source_first and before[1] - before[0] == before[2]:
                before[1], before[2] = source_next, before[2] + rows
                return
        runs.append([source_first, source_next, rows])

    def spans(self, stored: Mapping[TopicPartition, StoredAt]) -> dict[TopicPartition, Mapped]:
        """The spans by the source's topic-partition. A partition that is not stored whole, or whose place is not known,
        has none."""
        found = {}
        for tp, runs in self._runs.items():
            where = stored.get(tp)
            ranges = None if where is None else where.ranges
            whole = ranges is not None and sum(last - first for first, last in ranges) == sum(run[2] for run in runs)
            spans = tuple(merged(_laid_beside(runs, ranges))) if ranges is not None and whole else ()
            found[TopicPartition(self._from[tp], tp.partition)] = Mapped(tp.topic, spans)
        return found

    def left_out(self) -> dict[TopicPartition, Mapped]:
        """The same, where the target refuses the topic, so that no row is stored."""
        return {
            TopicPartition(self._from[tp], tp.partition): Mapped(
                tp.topic, (), (min(run[0] for run in runs), max(run[1] for run in runs))
            )
            for tp, runs in self._runs.items()
        }


class StoredAt:
    """The ranges of offsets where the broker stored a partition's batches. Used under the delivery's lock."""

    def __init__(self) -> None:
        self._ends = array("q")  # first, next, first, next, ...
        self._unknown = False

    def add(self, first: int | None, records: int) -> None:
        """Add a batch. None: the broker did not say where it is."""
        if first is None:
            self._unknown = True
        elif self._ends and self._ends[-1] == first:
            self._ends[-1] = first + records
        else:
            self._ends.extend((first, first + records))

    @property
    def ranges(self) -> list[tuple[int, int]] | None:
        """The ranges in order. None: the place of some batch is not known."""
        if self._unknown:
            return None
        ends = self._ends
        return sorted((ends[place], ends[place + 1]) for place in range(0, len(ends), 2))


class Mapped(NamedTuple):
    """The spans that a task, or a micro-batch, knows for one partition of the source."""

    target_topic: str  # the partition there has the same number
    spans: tuple[OffsetSpan, ...]  # none: where its records lie is not known
    # Offsets of the source, [first, next), of records that were left out while the target refused the topic. Others
    # between them may be there.
    left_out: tuple[int, int] | None = None


OffsetMap = Mapping[TopicPartition, Mapped]
"""By the source's topic-partition."""


def gathered(parts: Iterable[OffsetMap]) -> dict[TopicPartition, Mapped]:
    """The spans of several producers, or of several tasks, joined. None for a partition if one of them does not know
    where its records lie: records of the others may lie on both sides."""
    found: dict[TopicPartition, list[Mapped]] = {}
    for part in parts:
        for tp, one in part.items():
            found.setdefault(tp, []).append(one)
    return {
        tp: Mapped(
            several[0].target_topic,
            tuple(merged(span for one in several for span in one.spans)) if all(one.spans for one in several) else (),
            _all_left_out(several),
        )
        for tp, several in sorted(found.items())
    }


def _all_left_out(several: Iterable[Mapped]) -> tuple[int, int] | None:
    ranges = [one.left_out for one in several if one.left_out is not None]
    return (min(first for first, _ in ranges), max(last for _, last in ranges)) if ranges else None


def _laid_beside(runs: Iterable[Sequence[int]], ranges: Sequence[tuple[int, int]]) -> Iterable[OffsetSpan]:
    place, at = 0, ranges[0][0] if ranges else 0
    for source_first, source_next, rows in runs:
        left, source = rows, source_first
        dense = source_next - source_first == rows
        target_first, pieces = None, 0
        while left:
            if at == ranges[place][1]:
                place += 1
                at = ranges[place][0]
            taken = min(left, ranges[place][1] - at)
            if dense:
                yield OffsetSpan(source, source + taken, at, at + taken, at - source)
            target_first = at if target_first is None else target_first
            pieces += 1
            left, source, at = left - taken, source + taken, at + taken
        if not dense and target_first is not None:
            # If only the source has holes, at most as many records are left as offsets.
            yield OffsetSpan(source_first, source_next, target_first, at, at - source_next if pieces == 1 else None)


def extended(before: Mapped | None, new: Mapped) -> Mapped:
    """The map of a partition, extended by a micro-batch. From its first offset on only the micro-batch counts: a batch
    that ran again, or a source topic that was created again, begins below the end of the map."""
    left_out = _all_left_out([new] if before is None else [before, new])
    return _extended(before, new)._replace(left_out=left_out)


def _extended(before: Mapped | None, new: Mapped) -> Mapped:
    if before is None or before.target_topic != new.target_topic or not new.spans:
        return new if new.spans or before is None else before
    begins = min(span.source_first for span in new.spans)
    kept = [_cut(span, begins) for span in before.spans if span.source_first < begins]
    ends = max((span.target_next for span in kept), default=0)
    if any(span.target_first < ends for span in new.spans):
        return new  # the target's topic was created again
    return Mapped(new.target_topic, tuple(merged([*kept, *new.spans])))


def _cut(span: OffsetSpan, end: int) -> OffsetSpan:
    """The part of a span below `end`, a source offset."""
    if span.source_next <= end:
        return span
    target_next = span.lowest(end) if span.exact else span.target_next
    return OffsetSpan(span.source_first, end, span.target_first, target_next, span.shift)
