"""Gives each row its partition: the row's own choice, else Java's hash of its key, else a sticky partition.

Keyed rows go where Kafka's Java producer sends them (`toPositive(murmur2(key)) % partitions`), so that a job that moves
here keeps its keys where the topic has them already. Rows without a key stick to one partition until about `batch.size`
bytes went there and then move on (the uniform sticky partitioner of KIP-794), which fills record batches one after the
other. If the user asks for that, they go to the partitions in turn instead.

A function of the user (`partitioner=module:function`) comes after the row's own choice and before its key's hash:
`function(topic, keys, values, count)` gets a topic's rows, at most an Arrow batch at a time. It returns an Arrow array
of int32, one for each row, from 0 to `count` - 1, or null for a row that it leaves to the rules above.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.producer.rows import Column, InvalidRow, Rows, Span
from kafkasource.kafka.records.arrow.views import int32_values
from kafkasource.kafka.records.arrow_scalars import scalar
from kafkasource.kafka.records.partitions import order_by_partition, partition_by_key

_NONE = scalar(-1, pa.int32())  # no partition yet


Function = Callable[[str, Column, Column, int], Column]


class PartitionerFailed(KafkaSourceError):
    """The user's partitioner raised an error, or returned values that cannot be partitions."""


@dataclass
class _Sticky:
    """The partition that rows without a key go to now, and how many bytes more it gets."""

    position: int  # index into the available partitions
    bytes_left: int


class Partitioner:
    """Gives rows their partitions, for all topics of one task. For the task's thread."""

    def __init__(
        self,
        batch_bytes: int,
        *,
        function: Function | None = None,
        in_turn: bool = False,
        randomness: random.Random | None = None,
    ) -> None:
        """`in_turn`: rows without a key take the partitions one after the other instead of sticking to one."""
        self._batch_bytes = batch_bytes
        self._in_turn = in_turn
        self._function = function
        self._random = randomness or random.Random()
        self._sticky: dict[str, _Sticky] = {}

    def partitions(self, rows: Rows, count: int, available: Sequence[int]) -> Column:
        """The partition of each row, without nulls.

        `count` is the number of the topic's partitions. `available` are those with a leader (all, if none has one):
        rows without a key go only there. Raises InvalidRow for a partition that the topic does not have,
        PartitionerFailed.
        """
        chosen = rows.partitions
        if chosen is not None:
            self._check_range(chosen, rows.topic, count)
            if chosen.null_count == 0:
                return chosen
        if self._function is not None:
            asked = self._asked(self._function, rows, count)
            chosen = asked if chosen is None else pc.coalesce(chosen, asked)
            if chosen.null_count == 0:
                return chosen
        if rows.keys is None and chosen is None:
            return self._stick(rows, rows.count, available)
        hashed: Column = _NONE if rows.keys is None else int32_array(partition_by_key(rows.keys, count), rows.count)
        if chosen is not None:
            hashed = pc.coalesce(chosen, hashed)
        if rows.keys is not None and rows.keys.null_count == 0:
            return hashed
        unkeyed = pc.less(hashed, scalar(0, pa.int32()))
        missing = pc.sum(unkeyed).as_py()
        return pc.replace_with_mask(hashed, unkeyed, self._stick(rows, missing, available)) if missing else hashed

    @staticmethod
    def _asked(function: Function, rows: Rows, count: int) -> Column:
        """The partitions that the user's function returns, checked."""
        name = f"partitioner {getattr(function, '__module__', '')}:{getattr(function, '__qualname__', function)}"
        keys = rows.keys if rows.keys is not None else pa.nulls(rows.count, pa.binary())
        try:
            found: Column = function(rows.topic, keys, rows.values, count)
            if isinstance(found, pa.ChunkedArray):
                found = found.combine_chunks()
            found = found.cast(pa.int32()) if isinstance(found, pa.Array) else pa.array(found, pa.int32())
        except Exception as error:
            raise PartitionerFailed(f"{name}: {type(error).__name__}: {error}") from error
        if len(found) != rows.count:
            raise PartitionerFailed(f"{name} returned {len(found)} partitions for {rows.count} rows")
        if (partition := _outside(found, count)) is not None:
            raise PartitionerFailed(
                f"{name} returned partition {partition} for topic {rows.topic!r}, which has 0 to {count - 1}"
            )
        return found

    @staticmethod
    def _check_range(chosen: Column, topic: str, count: int) -> None:
        if (partition := _outside(chosen, count)) is not None:
            raise InvalidRow(
                f"column 'partition': topic {topic!r} has no partition {partition}, only 0 to {count - 1} "
                f"(Partition {partition} of topic {topic} with partition count {count} is not present in metadata). "
                "Add partitions, or correct the column; 'kafka.max.block.ms' is how long a new one is waited for"
            )

    def _stick(self, rows: Rows, count: int, available: Sequence[int]) -> Column:
        """Partitions of `count` rows without a key: runs of about `batch_bytes` each, or of one row."""
        sticky = self._sticky.get(rows.topic)
        if sticky is None:
            # A random start, or every small task would write to the same partition.
            sticky = self._sticky[rows.topic] = _Sticky(self._random.randrange(len(available)), self._batch_bytes)
        if self._in_turn:
            first = sticky.position % len(available)
            sticky.position = (first + count) % len(available)
            rounds = array("i", available) * (-(-(first + count) // len(available)))
            return int32_array(rounds[first : first + count], count)
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


def _outside(partitions: Column, count: int) -> int | None:
    """One of these that a topic with `count` partitions does not have; None: all exist. Skips nulls."""
    bounds: dict[str, int | None] = pc.min_max(partitions).as_py()
    found = (bounds["min"], bounds["max"])
    return next((partition for partition in found if partition is not None and not 0 <= partition < count), None)


def by_partition(partitions: Column, count: int) -> tuple[memoryview | None, list[Span]]:
    """The row numbers in the order of their partitions (None: as they are), and each partition's part of that order."""
    if count == 1:
        return None, [(0, 0, len(partitions))]
    return order_by_partition(int32_values(partitions), count)


def int32_array(buffer: memoryview | array[int], count: int) -> Column:
    """An Arrow array over a buffer of int32, not copied."""
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(buffer)])
