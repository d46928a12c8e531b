"""Where rows go within one cluster: the partition of each, and the lane (the producer) that takes it there.

Both at once, as one order of row numbers: rows are grouped by lane, within it by partition, and keep their order
there. The encoder takes them from the columns as they are, so that no lane costs a copy.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.records.partitions import order_by_partition, partition_by_key
from kafkasource.sink.columns import Column, Rows
from kafkasource.sink.partitioner import Partitioner, int32_array
from kafkasource.sink.producer.queues import Span


@dataclass(frozen=True)
class Placed:
    """What each lane is to append, by number; lanes without rows are left out."""

    order: memoryview | None  # row numbers; None: the rows as they are
    lanes: dict[int, list[Span]]

    def records(self) -> dict[int, int]:
        """By partition."""
        counts: dict[int, int] = {}
        for spans in self.lanes.values():
            for partition, first, last in spans:
                counts[partition] = counts.get(partition, 0) + last - first
        return counts


class Placer:
    """Of one cluster and one task; not thread-safe."""

    def __init__(self, partitioner: Partitioner, lanes: int, *, by_key: bool = False) -> None:
        """`by_key`: the column `partition` counts for nothing."""
        self._partitioner = partitioner
        self._lanes = lanes
        self._by_key = by_key
        self._turn = 0  # the lane of the next Arrow batch's rows without a key

    def place(self, rows: Rows, count: int, available: Sequence[int]) -> Placed:
        """`count` and `available` as in `Partitioner.partitions`, which raises."""
        if self._by_key:
            rows = replace(rows, partitions=None)
        partitions = self._partitioner.partitions(rows, count, available)
        if self._lanes == 1:
            if count == 1:
                return Placed(None, {0: [(0, 0, rows.count)]})
            order, spans = order_by_partition(_ints(partitions), count)
            return Placed(order, {0: spans})
        turn, self._turn = self._turn, (self._turn + 1) % self._lanes
        places = pc.add(pc.multiply(lanes_of(rows, self._lanes, turn), pa.scalar(count, pa.int32())), partitions)
        order, spans = order_by_partition(_ints(places), self._lanes * count)
        lanes: dict[int, list[Span]] = {}
        for place, first, last in spans:
            lane, partition = divmod(place, count)
            lanes.setdefault(lane, []).append((partition, first, last))
        return Placed(order, lanes)


def lanes_of(rows: Rows, lanes: int, turn: int) -> Column:
    """The lane of each row: its key's hash, as `murmur2` places keys on partitions; `turn` without a key."""
    if rows.keys is None:
        return int32_array(array("i", [turn]) * rows.count, rows.count)
    hashed = int32_array(partition_by_key(rows.keys, lanes), rows.count)
    if not rows.keys.null_count:
        return hashed
    return pc.if_else(pc.less(hashed, pa.scalar(0, pa.int32())), pa.scalar(turn, pa.int32()), hashed)


def _ints(column: Column) -> memoryview:
    """The values of an Arrow int32 array without nulls, as they lie in memory."""
    values = column.buffers()[1]
    return memoryview(values).cast("B")[4 * column.offset : 4 * (column.offset + len(column))].cast("i")
