"""Which task reads which ranges: a pure function. A Python task has a fixed cost, so ranges that are small together are
read by fewer tasks, one range after the other. Small means few offsets, and few bytes where it is known what records
weigh: 5,000 records of 1 MB are as much work as millions of small ones.

A range is never cut here (`splitting` does that): one task reads its records, in order. Where two ranges of one
topic-partition meet in a task, they stand in the order of their offsets.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from kafkasource.types import OffsetRange, TopicPartition

# What another range costs a task (a fetch, some Arrow batches of its own), in offsets: 1,000 ranges of one record are
# not as cheap as one range of 1,000.
RANGE_COST = 500

# How heavy a record is that costs a task as much as an offset of its own; a heavier one counts as several offsets.
# 25,000 of them, which a micro-batch's task holds at least, are 32 MiB.
OFFSET_BYTES = 1342


def pack(
    ranges: Sequence[OffsetRange],
    *,
    least_size: int = 1,
    at_least: int = 1,
    at_most: int | None = None,
    weights: Mapping[TopicPartition, float] | None = None,
) -> list[tuple[OffsetRange, ...]]:
    """Share `ranges` out to tasks: as many as leave each about `least_size` offsets, but not fewer than `at_least`
    where there are as many ranges, and never more than `at_most`.

    `weights`: bytes per offset; where they are above OFFSET_BYTES, bytes count instead of offsets. Balanced by what
    counts: no task holds more than the fair share and one range. The same ranges and weights give the same tasks, which
    come in the order of their first ranges.
    """
    costs = [_cost(one, weights) for one in ranges]
    tasks = min(len(ranges), at_most or len(ranges), max(at_least, sum(costs) // least_size))
    if tasks == len(ranges):
        return [(offset_range,) for offset_range in ranges]
    return sorted(map(_in_order, _shared_out(ranges, costs, tasks)), key=lambda task: _place(task[0]))


def _shared_out(ranges: Sequence[OffsetRange], costs: Sequence[int], tasks: int) -> list[list[OffsetRange]]:
    """Longest processing time first: the largest range left goes to the task with the least work."""
    shares: list[list[OffsetRange]] = [[] for _ in range(tasks)]
    loads = [(0, task) for task in range(tasks)]  # a heap
    for cost, offset_range in sorted(zip(costs, ranges, strict=True), key=lambda one: (-one[0], _place(one[1]))):
        load, task = loads[0]
        shares[task].append(offset_range)
        heapq.heapreplace(loads, (load + cost, task))
    return shares


def _in_order(ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
    return tuple(sorted(ranges, key=_place))


def _place(offset_range: OffsetRange) -> tuple[str, int, int]:
    tp = offset_range.topic_partition
    return tp.topic, tp.partition, offset_range.start_offset


def _cost(offset_range: OffsetRange, weights: Mapping[TopicPartition, float] | None) -> int:
    """In offsets."""
    weight = (weights or {}).get(offset_range.topic_partition, 0.0)
    return max(offset_range.size, int(offset_range.size * weight / OFFSET_BYTES)) + RANGE_COST
