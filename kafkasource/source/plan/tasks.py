"""Divides ranges among tasks: pure functions, first `split`, then `pack`.

`split` cuts ranges for `minPartitions` and `maxRecordsPerPartition`, with the numbers of the JVM connector
(KafkaOffsetRangeCalculator), so that a job that moves here gets the same tasks. One thing differs: a batch read's
`earliest` to `latest` counts as what it held when it was planned. The JVM connector takes it as one offset, and
`maxRecordsPerPartition` alone does nothing to it.

`pack` shares whole ranges out to tasks. A Python task has a fixed cost, so one task reads several small ranges, one
after the other. Small means few offsets, and few bytes where the weight of records is known: 5,000 records of 1 MB are
as much work as millions of small ones. `pack` never cuts a range: one task reads its records, in order. Where two
ranges of one topic-partition meet in a task, they stand in the order of their offsets.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence

from kafkasource.options.table import OFFSET_BYTES, RANGE_COST
from kafkasource.types import OffsetRange, TopicPartition


def split(
    ranges: Sequence[OffsetRange], *, at_least: int | None = None, max_size: int | None = None
) -> list[OffsetRange]:
    """Pieces of the ranges, in their order, without empty ones: none above `max_size` offsets, about `at_least` in all.

    Pieces of one range differ by one offset at most, the larger ones last. Rounding decides how many there are: a few
    more or less than `at_least`.
    """
    pieces = [one for one in ranges if one.size > 0]
    if max_size is not None:
        pieces = [piece for one in pieces for piece in one.split(math.ceil(one.size / max_size))]
    if at_least is None or len(pieces) >= at_least:
        return pieces
    return _cut_by_size(pieces, at_least)


def _cut_by_size(ranges: Sequence[OffsetRange], pieces: int) -> list[OffsetRange]:
    """About `pieces` pieces: large ranges are cut. A range too small to cut is one piece, and no share counts it."""
    total = sum(one.size for one in ranges)
    whole = [one for one in ranges if _pieces_of(one.size, total, pieces) == 1]
    stay_whole = {one.topic_partition for one in whole}
    left = max(pieces - len(whole), 1)
    total -= sum(one.size for one in whole)
    return [
        piece
        for one in ranges
        for piece in one.split(1 if one.topic_partition in stay_whole else _pieces_of(one.size, total, left))
    ]


def _pieces_of(size: int, total: int, pieces: int) -> int:
    return max(math.floor(size / total * pieces + 0.5), 1)  # rounded as Java does: halves up


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

    `weights`: bytes per offset; where they are above OFFSET_BYTES, bytes count instead of offsets. The tasks are
    balanced by what counts: no task holds more than the fair share and one range. The same ranges and weights give the
    same tasks. Tasks come in the order of their first ranges.
    """
    costs = [_cost(one, weights) for one in ranges]
    tasks = min(len(ranges), at_most or len(ranges), max(at_least, sum(costs) // least_size))
    if tasks == len(ranges):
        return [(offset_range,) for offset_range in ranges]
    packed = (tuple(sorted(task, key=_by_log)) for task in _balanced(ranges, costs, tasks))
    return sorted(packed, key=lambda task: _by_log(task[0]))


def _balanced(ranges: Sequence[OffsetRange], costs: Sequence[int], tasks: int) -> list[list[OffsetRange]]:
    """Longest processing time first: the largest range left goes to the task with the least work."""
    shares: list[list[OffsetRange]] = [[] for _ in range(tasks)]
    loads = [(0, task) for task in range(tasks)]  # a heap
    for cost, offset_range in sorted(zip(costs, ranges, strict=True), key=lambda one: (-one[0], _by_log(one[1]))):
        load, task = loads[0]
        shares[task].append(offset_range)
        heapq.heapreplace(loads, (load + cost, task))
    return shares


def _by_log(offset_range: OffsetRange) -> tuple[str, int, int]:
    """A sort key: by topic, partition and offset."""
    tp = offset_range.topic_partition
    return tp.topic, tp.partition, offset_range.start_offset


def _cost(offset_range: OffsetRange, weights: Mapping[TopicPartition, float] | None) -> int:
    """In offsets."""
    weight = (weights or {}).get(offset_range.topic_partition, 0.0)
    return max(offset_range.size, int(offset_range.size * weight / OFFSET_BYTES)) + RANGE_COST
