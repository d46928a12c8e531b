"""Which task reads which ranges: a pure function. A Python task has a fixed cost, so ranges that are small together are
read by fewer tasks, one range after the other.

A range is never cut here (`splitting` does that): one task reads its records, in order. Where two ranges of one
topic-partition meet in a task, they stand in the order of their offsets.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from kafkasource.types import OffsetRange

# What another range costs a task (a fetch, some Arrow batches of its own), in offsets: 1,000 ranges of one record are
# not as cheap as one range of 1,000.
RANGE_COST = 500


def pack(
    ranges: Sequence[OffsetRange], *, least_size: int = 1, at_least: int = 1, at_most: int | None = None
) -> list[tuple[OffsetRange, ...]]:
    """Share `ranges` out to tasks: as many as leave each about `least_size` offsets, but not fewer than `at_least`
    where there are as many ranges, and never more than `at_most`.

    Balanced by size: no task holds more than the fair share and one range. The same ranges give the same tasks, which
    come in the order of their first ranges.
    """
    tasks = min(len(ranges), at_most or len(ranges), max(at_least, sum(map(_cost, ranges)) // least_size))
    if tasks == len(ranges):
        return [(offset_range,) for offset_range in ranges]
    return sorted(map(_in_order, _shared_out(ranges, tasks)), key=lambda task: _place(task[0]))


def _shared_out(ranges: Sequence[OffsetRange], tasks: int) -> list[list[OffsetRange]]:
    """Longest processing time first: the largest range left goes to the task with the least work."""
    shares: list[list[OffsetRange]] = [[] for _ in range(tasks)]
    loads = [(0, task) for task in range(tasks)]  # a heap
    for offset_range in sorted(ranges, key=lambda one: (-one.size, _place(one))):
        load, task = loads[0]
        shares[task].append(offset_range)
        heapq.heapreplace(loads, (load + _cost(offset_range), task))
    return shares


def _in_order(ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
    return tuple(sorted(ranges, key=_place))


def _place(offset_range: OffsetRange) -> tuple[str, int, int]:
    tp = offset_range.topic_partition
    return tp.topic, tp.partition, offset_range.start_offset


def _cost(offset_range: OffsetRange) -> int:
    return offset_range.size + RANGE_COST
