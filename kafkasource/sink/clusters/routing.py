"""Decides the partition and the producer of each row that a cluster gets. Pure.

`Placer` gives partition and producer together, as one order of row numbers. Rows are grouped by producer, within it by
partition, and keep their order there. The encoder takes them from the columns as they are, so no producer costs a copy.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.kafka.producer.partitioner import Partitioner, by_partition, int32_array
from kafkasource.kafka.producer.rows import Column, Rows, Span
from kafkasource.kafka.records.arrow_scalars import scalar
from kafkasource.kafka.records.partitions import partition_by_key


@dataclass(frozen=True)
class RowsByProducer:
    """The rows that each producer must append. Leaves out producers without rows."""

    order: memoryview | None  # row numbers; None: the rows in their own order
    by_producer: dict[int, list[Span]]  # by the producer's number

    @cached_property
    def records(self) -> dict[int, int]:
        """Their number by partition."""
        counts: dict[int, int] = {}
        for spans in self.by_producer.values():
            for partition, first, last in spans:
                counts[partition] = counts.get(partition, 0) + last - first
        return counts


class Placer:
    """Places the rows of one task in one cluster. For one thread."""

    def __init__(self, partitioner: Partitioner, producers: int, *, by_key: bool = False) -> None:
        """`by_key`: ignore the column `partition`."""
        self._partitioner = partitioner
        self._producers = producers
        self._by_key = by_key
        self._turn = 0  # the producer of the next Arrow batch's rows without a key

    def place(self, rows: Rows, count: int, available: Sequence[int]) -> RowsByProducer:
        """`count` and `available` are as in `Partitioner.partitions`, and so are the errors."""
        if self._by_key:
            rows = replace(rows, partitions=None)
        partitions = self._partitioner.partitions(rows, count, available)
        if self._producers == 1:
            order, spans = by_partition(partitions, count)
            return RowsByProducer(order, {0: spans})
        turn, self._turn = self._turn, (self._turn + 1) % self._producers
        places = pc.add(pc.multiply(producers_of(rows, self._producers, turn), scalar(count, pa.int32())), partitions)
        order, spans = by_partition(places, self._producers * count)
        by_producer: dict[int, list[Span]] = {}
        for place, first, last in spans:
            producer, partition = divmod(place, count)
            by_producer.setdefault(producer, []).append((partition, first, last))
        return RowsByProducer(order, by_producer)


def producers_of(rows: Rows, producers: int, turn: int) -> Column:
    """The producer of each row: its key's hash, as `murmur2` places keys on partitions; `turn` without a key."""
    if rows.keys is None:
        return int32_array(array("i", [turn]) * rows.count, rows.count)
    hashed = int32_array(partition_by_key(rows.keys, producers), rows.count)
    if not rows.keys.null_count:
        return hashed
    return pc.if_else(pc.less(hashed, scalar(0, pa.int32())), scalar(turn, pa.int32()), hashed)
