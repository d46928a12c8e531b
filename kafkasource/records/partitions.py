"""Which partition a key goes to, as Java's default partitioner has it, and rows grouped by partition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafkasource.records import kernel
from kafkasource.records.views import binary_views, int32_view


def _int32s(count: int) -> memoryview:
    return memoryview(pa.allocate_buffer(4 * count)).cast("B").cast("i")


def partition_by_key(keys: pa.BinaryArray, partitions: int) -> memoryview:
    """For each key `toPositive(murmur2(key)) % partitions` as int32, -1 for null; KIP-480 left that alone."""
    if partitions < 1:
        raise ValueError(f"{partitions} partitions")
    out = _int32s(len(keys))
    valid, offsets, data, shift = binary_views(keys)
    if kernel.partition_keys(offsets, data, valid, shift, len(keys), partitions, out) < 0:
        raise ValueError("offsets of the key column are not those of its data")
    return out


def group_rows(partitions: Any, count: int) -> tuple[memoryview, memoryview]:
    """Row numbers by partition: `rows[starts[p]:starts[p + 1]]` are those of p in their old order; both int32.

    `partitions` is a buffer of int32, each in [0, count). Raises ValueError for one outside.
    """
    view = int32_view(partitions)
    rows, starts = _int32s(len(view)), _int32s(count + 1)
    bad = kernel.group(view, starts, rows)
    if bad < 0:
        raise ValueError(f"row {-3 - bad} has partition {view[-3 - bad]}, outside [0, {count})")
    return rows, starts
