"""Gives keys their partitions as Java's default partitioner does, and groups rows by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kafkasource.kafka.records import kernel
from kafkasource.kafka.records.arrow.views import binary_views, int32_view

if TYPE_CHECKING:
    from typing_extensions import Buffer


def _int32s(count: int) -> memoryview:
    return memoryview(pa.allocate_buffer(4 * count)).cast("B").cast("i")


def partition_by_key(keys: pa.BinaryArray, partitions: int) -> memoryview:
    """Compute `toPositive(murmur2(key)) % partitions` for each key as int32, -1 for null, as before KIP-480."""
    if partitions < 1:
        raise ValueError(f"{partitions} partitions")
    out = _int32s(len(keys))
    valid, offsets, data, shift = binary_views(keys)
    if kernel.partition_keys(offsets, data, valid, shift, len(keys), partitions, out) < 0:
        raise ValueError("offsets of the key column are not those of its data")
    return out


def order_by_partition(partitions: Buffer, count: int) -> tuple[memoryview, list[tuple[int, int, int]]]:
    """Row numbers ordered by partition, as int32; and (partition, first, last) for each partition that has rows.

    `order[first:last]` are the partition's rows in their old order. `partitions` is a buffer of int32, each in
    [0, count). Raises ValueError for one outside.
    """
    view = int32_view(partitions)
    order = _int32s(len(view))
    return order, kernel.group(view, _int32s(count + 2), order)
