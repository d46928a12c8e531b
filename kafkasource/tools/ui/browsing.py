"""Finds some records of a topic: the newest, or from a place on, in all partitions, or only those with a key.

A request has limits for the records that it shows, and for the records, bytes and seconds that it examines. It keeps at
most as many records as it shows. If a limit ends the search, the answer says so, and `older` or `newer` has the offset
of each partition at which to continue.

It merges the records of several partitions by their timestamps. Timestamps in a log may go back; then the largest
timestamp up to there counts, so that the answer has no gap in any partition.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkasource.tools.ui.records import SHOWN_BYTES, WHOLE_BYTES, Json, as_json, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.reader import Reader
    from kafkasource.types import OffsetRange

_MOST_GROWTH = 8.0  # of a pass, to the next one
_FIRST_SEARCHED = 2_000  # offsets of all partitions in the first pass for a key
MOST_RECORDS = 500  # in one answer

Cursor = Mapping[int, int]
"""Offsets by partition."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one request. Bytes are those of decoded batches."""

    records: int = 200_000
    bytes: int = 128 << 20
    seconds: float = 15.0


@dataclass(frozen=True, slots=True)
class RecordSearch:
    """`key`: only records with it. `exact`: the whole key, else a part of it."""

    count: int
    key: bytes | None = None
    exact: bool = True

    @property
    def most_bytes(self) -> int:
        return WHOLE_BYTES if self.count == 1 else SHOWN_BYTES


@dataclass(slots=True)
class RecordPage:
    """`older` and `newer`: see the module. `limited`: a bound ended the search before the log ended. `oldest`: there is
    nothing older."""

    records: list[Json]
    older: dict[int, int]
    newer: dict[int, int]
    examined: int
    limited: bool
    oldest: bool = False


@dataclass(slots=True)
class _Budget:
    """Counts what a request has examined, and knows when it must end."""

    limits: Limits
    clock: Callable[[], float]
    ends: float
    pass_began: float = 0.0
    pass_ends: float = math.inf
    records: int = 0
    bytes: int = 0
    bytes_before: int = 0  # the pass

    def begin_pass(self, last: bool) -> None:
        """A pass that may be cut for nothing has half of the seconds left, so that a smaller one can follow."""
        self.pass_began, self.bytes_before = self.clock(), self.bytes
        self.pass_ends = self.ends if last else self.pass_began + max(0.0, self.ends - self.pass_began) / 2

    def spend(self, batch: pa.RecordBatch) -> None:
        self.records += batch.num_rows
        self.bytes += batch.nbytes

    def growth(self) -> float:
        """The factor from this pass to the next. The next pass should take half of the time and bytes that remain."""
        now = self.clock()
        taken = (
            (self.ends - now, now - self.pass_began),
            (self.limits.bytes - self.bytes, self.bytes - self.bytes_before),
        )
        return min([_MOST_GROWTH, *(max(0.0, left) / 2 / took for left, took in taken if took > 0)])

    @property
    def is_late(self) -> bool:
        return self.clock() > self.ends

    @property
    def is_spent(self) -> bool:
        late = self.clock() > min(self.ends, self.pass_ends)
        return late or self.records >= self.limits.records or self.bytes >= self.limits.bytes


@dataclass(slots=True)
class _Part:
    """The part of one range that a pass has seen. `dropped`: the lowest and highest offsets of matching records that
    were not kept."""

    reached: int  # exclusive: examined up to here
    latest_ms: int = -1
    dropped: tuple[int, int] | None = None

    @property
    def first_not_shown(self) -> int:
        return self.reached if self.dropped is None else min(self.reached, self.dropped[0])

    def drop(self, offset: int) -> None:
        lowest, highest = self.dropped or (offset, offset)
        self.dropped = min(lowest, offset), max(highest, offset)


class _Kept:
    """The first `count` records by (time, partition, offset), or the last ones. A heap whose root goes next."""

    def __init__(self, count: int, last: bool) -> None:
        self._count = count
        self.last = last
        self._sign = 1 if last else -1
        self._heap: list[tuple[tuple[int, int, int], Json]] = []

    def takes(self, order: tuple[int, int, int]) -> bool:
        return len(self._heap) < self._count or self._signed(order) > self._heap[0][0]

    def add(self, order: tuple[int, int, int], record: Json) -> tuple[int, int] | None:
        """Partition and offset of the record that gives way, if one must."""
        if len(self._heap) < self._count:
            heapq.heappush(self._heap, (self._signed(order), record))
            return None
        _, partition, offset = heapq.heapreplace(self._heap, (self._signed(order), record))[0]
        return self._sign * partition, self._sign * offset

    def _signed(self, order: tuple[int, int, int]) -> tuple[int, int, int]:
        time_ms, partition, offset = order
        return self._sign * time_ms, self._sign * partition, self._sign * offset

    def records(self) -> list[Json]:
        """The root last: newest first where the last ones are kept, else oldest first."""
        return [record for _, record in sorted(self._heap, key=lambda entry: entry[0], reverse=True)]


class Browser:
    """One request. `reader`: of the wanted partitions, with headers."""

    def __init__(
        self,
        reader: Reader,
        wanted: RecordSearch,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._wanted = wanted
        self._limits = limits or Limits()
        self._budget = _Budget(self._limits, clock, clock() + self._limits.seconds)

    def forward(self, starts: Cursor | None = None) -> RecordPage:
        """Oldest first: from the reader's start, or from `starts`."""
        ranges = [_from(part, starts) for part in self._reader.plan()]
        share = self._share(ranges)
        cut = [replace(part, end_offset=min(part.end_offset, part.start_offset + share)) for part in ranges]
        kept = _Kept(self._wanted.count, last=False)
        parts, whole = self._pass(cut, kept)
        newer = {}
        for planned in ranges:
            partition = planned.topic_partition.partition
            part = parts.get(partition)
            newer[partition] = (
                planned.start_offset if part is None else min(part.reached, (part.dropped or (part.reached,))[0])
            )
        older = {part.topic_partition.partition: part.start_offset for part in ranges}
        ended = all(newer[part.topic_partition.partition] >= part.end_offset for part in ranges)
        limited = not ended and (not whole or len(kept.records()) < self._wanted.count)
        return RecordPage(kept.records(), older, newer, self._budget.records, limited)

    def back(self, ends: Cursor | None = None) -> RecordPage:
        """Newest first: before the log's ends, or before `ends`.

        It reads in passes with growing windows, from the ends towards the beginnings, because compaction and
        transactions leave holes. A pass that a limit ends has not seen its newest records, so its records do not count.
        Then the answer has the records of the passes before it. If it was the first pass, a smaller pass replaces it.
        The smallest pass has one offset of each partition; the partitions that it reached count, at least one.
        """
        planned = self._reader.plan()
        ranges = [_until(part, ends) for part in planned]
        newer = {part.topic_partition.partition: part.end_offset for part in ranges}
        older = dict(newer)
        begins = {part.topic_partition.partition: part.start_offset for part in ranges}
        # Pages may end before they reach all partitions, so begin with the partitions that earlier pages read least.
        come = {part.topic_partition: part.end_offset - newer[part.topic_partition.partition] for part in planned}
        ranges.sort(key=lambda part: come[part.topic_partition])
        share = self._share(ranges)
        first = _FIRST_SEARCHED // max(1, len(ranges)) if self._wanted.key is not None else self._wanted.count
        window = max(1, min(first, share))
        records: list[Json] = []
        limited = False
        while len(records) < self._wanted.count and any(older[partition] > begins[partition] for partition in older):
            self._budget.begin_pass(last=window == 1)
            if self._budget.is_spent and older != newer:
                limited = True
                break
            slices = [_before(part, older[part.topic_partition.partition], window) for part in ranges]
            kept = _Kept(self._wanted.count - len(records), last=True)
            parts, whole = self._pass([part for part in slices if part.size > 0], kept)
            if not whole and window > 1:
                if older != newer:
                    limited = True
                    break
                window = 1 if self._budget.is_late else max(1, window // 8)
                self._budget = replace(self._budget, records=0, bytes=0)  # the seconds go on
                continue
            records += kept.records()
            for read in slices:
                partition = read.topic_partition.partition
                part = parts.get(partition)
                if part is not None or whole:
                    older[partition] = part.dropped[1] + 1 if part and part.dropped else read.start_offset
            if not whole:
                limited = True
                break
            left = (self._limits.records - self._budget.records) // len(ranges)
            window = max(1, min(int(window * self._budget.growth()), left, share))
        oldest = all(older[partition] <= begins[partition] for partition in older)
        return RecordPage(records, older, newer, self._budget.records, limited, oldest)

    def _share(self, ranges: list[OffsetRange]) -> int:
        """How many offsets of each partition one request looks at."""
        return max(1, self._limits.records // max(1, len(ranges)))

    def _pass(self, ranges: list[OffsetRange], kept: _Kept) -> tuple[dict[int, _Part], bool]:
        """False: a bound ended it; it has read one batch at least."""
        parts: dict[int, _Part] = {}
        # Newest first, all of each range is read, and a broker that is far costs one round trip for all partitions that
        # it has. Oldest first, most of a range is often left out: what is fetched ahead of others would be for nothing.
        for together in [ranges] if kept.last else [[part] for part in ranges]:
            if (parts and self._budget.is_spent) or not self._read(together, parts, kept):
                return parts, False
        return parts, True

    def _read(self, ranges: list[OffsetRange], parts: dict[int, _Part], kept: _Kept) -> bool:
        """Read ranges, whose records come one range after the other. False: a bound ended it."""
        to_come = deque(ranges)
        with closing(_batches(self._reader, ranges)) as batches:
            for batch in batches:
                partition = batch.column("partition")[0].as_py()
                while to_come[0].topic_partition.partition != partition:
                    _end(parts, to_come.popleft())
                part = parts.setdefault(partition, _Part(to_come[0].start_offset))
                self._budget.spend(batch)
                if self._examine(batch, partition, parts, kept):
                    return True
                if self._budget.is_spent and (len(to_come) > 1 or part.reached < to_come[0].end_offset):
                    return False
        for rest in to_come:
            _end(parts, rest)
        return True

    def _examine(self, batch: pa.RecordBatch, partition: int, parts: dict[int, _Part], kept: _Kept) -> bool:
        """Keep what belongs to the answer. True: no later record of the partition does."""
        part = parts[partition]
        for row in rows_of(self._matching(batch)):
            part.latest_ms = max(part.latest_ms, row.timestamp_ms)
            order = part.latest_ms, partition, row.offset
            if not kept.takes(order):
                part.drop(row.offset)
                if not kept.last:
                    part.reached = row.offset
                    return True
                continue
            gone = kept.add(order, as_json(row, self._wanted.most_bytes))
            if gone is not None:
                parts[gone[0]].drop(gone[1])
        part.reached = batch.column("offset")[-1].as_py() + 1
        return False

    def _matching(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        key = self._wanted.key
        if key is None:
            return batch
        import pyarrow as pa
        import pyarrow.compute as pc

        keys = batch.column("key")
        if self._wanted.exact:
            return batch.filter(pc.equal(keys, pa.scalar(key, keys.type)))
        return batch.filter(pc.match_substring(keys, key))


def _batches(reader: Reader, ranges: list[OffsetRange]) -> Generator[pa.RecordBatch, None, None]:
    yield from reader.read(ranges)


def _end(parts: dict[int, _Part], planned: OffsetRange) -> None:
    """There are no further records in it."""
    parts.setdefault(planned.topic_partition.partition, _Part(planned.start_offset)).reached = planned.end_offset


def _from(planned: OffsetRange, starts: Cursor | None) -> OffsetRange:
    """From the cursor's offset on. It is no longer `earliest`, whose real offset counts when it is fetched."""
    start = max(planned.start_offset, (starts or {}).get(planned.topic_partition.partition, planned.start_offset))
    return replace(planned, start_offset=min(start, planned.end_offset), from_earliest=False)


def _until(planned: OffsetRange, ends: Cursor | None) -> OffsetRange:
    """Before the cursor's offset. Of a partition that it does not name there was nothing to read."""
    before = planned.end_offset if ends is None else ends.get(planned.topic_partition.partition, planned.start_offset)
    end = min(planned.end_offset, before)
    return replace(planned, end_offset=max(end, planned.start_offset), from_earliest=False)


def _before(planned: OffsetRange, end: int, window: int) -> OffsetRange:
    return replace(planned, start_offset=max(planned.start_offset, end - window), end_offset=end)
