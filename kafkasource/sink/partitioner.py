"""Which partition each row goes to: the row's own choice, else Java's hash of its key, else a sticky one.

Keyed rows go where Kafka's Java producer sends them (`toPositive(murmur2(key)) % partitions`), so that a job that
moves here keeps its keys together with what is in the topic already. Rows without a key stick to one partition until
about `batch.size` bytes went there and then move on (the uniform sticky partitioner of KIP-794), which fills record
batches instead of spreading each row thinly over all of them.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.records.partitions import partition_by_key
from kafkasource.sink.columns import Column, InvalidRow, Rows

_NONE = pa.scalar(-1, pa.int32())  # no partition yet


@dataclass
class _Sticky:
    """Where rows without a key go at the moment, and how many bytes more."""

    position: int  # index into the available partitions
    bytes_left: int


class Partitioner:
    """The partitions of rows, for all topics of one task. Not thread-safe: it belongs to the task's thread."""

    def __init__(self, batch_bytes: int, *, randomness: random.Random | None = None) -> None:
        self._batch_bytes = batch_bytes
        self._random = randomness or random.Random()
        self._sticky: dict[str, _Sticky] = {}

    def partitions(self, rows: Rows, count: int, available: Sequence[int]) -> Column:
        """The partition of each row, no nulls.

        `count` is how many partitions the topic has; `available` those with a leader (all of them where none has one):
        rows without a key go only there. Raises InvalidRow for a partition that the topic does not have.
        """
        chosen = rows.partitions
        if chosen is not None:
            self._check_range(chosen, rows.topic, count)
            if chosen.null_count == 0:
                return chosen
        if rows.keys is None and chosen is None:
            return self._stick(rows, rows.count, available)
        hashed: Any = _NONE if rows.keys is None else int32_array(partition_by_key(rows.keys, count), rows.count)
        if chosen is not None:
            hashed = pc.coalesce(chosen, hashed)
        if rows.keys is not None and rows.keys.null_count == 0:
            return hashed
        unkeyed = pc.less(hashed, pa.scalar(0, pa.int32()))
        missing = pc.sum(unkeyed).as_py()
        return pc.replace_with_mask(hashed, unkeyed, self._stick(rows, missing, available)) if missing else hashed

    @staticmethod
    def _check_range(chosen: Column, topic: str, count: int) -> None:
        found: Any = pc.min_max(chosen).as_py()
        for partition in (found["min"], found["max"]):
            if partition is not None and not 0 <= partition < count:
                raise InvalidRow(
                    f"column 'partition': topic {topic!r} has no partition {partition}, only 0 to {count - 1} "
                    f"(Partition {partition} of topic {topic} with partition count {count} is not present in metadata)"
                )

    def _stick(self, rows: Rows, count: int, available: Sequence[int]) -> Column:
        """Partitions of `count` rows without a key: runs of about `batch_bytes` each."""
        sticky = self._sticky.get(rows.topic)
        if sticky is None:
            # A random start, or every small task would write to the same partition.
            sticky = self._sticky[rows.topic] = _Sticky(self._random.randrange(len(available)), self._batch_bytes)
        row_bytes = max(1, rows.values.nbytes // max(1, rows.count) + 16)
        runs = array("i")
        while len(runs) < count:
            if sticky.bytes_left <= 0:
                sticky.position = (sticky.position + 1) % len(available)
                sticky.bytes_left = self._batch_bytes
            length = min(count - len(runs), -(-sticky.bytes_left // row_bytes))
            runs.extend(array("i", [available[sticky.position % len(available)]]) * length)
            sticky.bytes_left -= length * row_bytes
        return int32_array(runs, count)


def int32_array(buffer: Any, count: int) -> Column:
    """An Arrow array over a buffer of int32, not copied."""
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(buffer)])
