"""The Arrow schema of rows read from Kafka (the JVM connector's, column by column), and its constant columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa

from kafkasource.kafka.records.arrow_scalars import scalar
from kafkasource.kafka.records.compression import PIECE_BYTES
from kafkasource.types import ROW_COLUMNS

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}


@lru_cache
def row_schema(columns: tuple[str, ...]) -> pa.Schema:
    """The schema of rows that have these columns, in this order."""
    fields: list[pa.Field] = [pa.field(name, _TYPES[name]) for name in columns]
    return pa.schema(fields)


ROW_SCHEMA = row_schema(ROW_COLUMNS[:-1])
ROW_SCHEMA_WITH_HEADERS = row_schema(ROW_COLUMNS)
NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1  # values of timestampType

MAX_ROWS = 1 << 17  # limit of an Arrow batch

_MOST_TOPIC_BYTES = 2 << 20  # limit of a batch's column of topics: 8,289 rows of the longest name that Kafka allows
_MOST_KEPT = 32

# Constant columns for the next batches, with their bytes; the last used is at the end. Any thread may replace this
# as a whole: if two threads build a column at the same time, one of the two is kept.
_kept: dict[str | int, tuple[pa.Array, int]] = {}
# Kept columns must not come from a pool that a program sets for a while and then drops.
_POOL = pa.default_memory_pool()


def most_rows(topic: str, piece_bytes: int) -> int:
    """The most rows of an Arrow batch, so that its column of topics takes at most the size of a piece, and 2 MiB."""
    return max(1, min(MAX_ROWS, min(piece_bytes, _MOST_TOPIC_BYTES) // (len(topic.encode()) + 4)))


def batches_of_rows(
    filled: dict[str, pa.Array],
    rows: int,
    columns: tuple[str, ...],
    *,
    topic: str,
    partition: int,
    timestamp_type: int,
    piece_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """Arrow batches of `columns`, each of at most `most_rows`. `filled` has those that differ from row to row."""
    schema = row_schema(columns)
    most = most_rows(topic, piece_bytes) if "topic" in columns else MAX_ROWS
    for start in range(0, rows, most):
        count = min(most, rows - start)

        def column(name: str, start: int = start, count: int = count) -> pa.Array:
            if name == "topic":
                return topic_column(topic, count, piece_bytes)
            if name == "partition":
                return int32_column(partition, count, piece_bytes)
            if name == "timestampType":
                return int32_column(timestamp_type, count, piece_bytes)
            return filled[name] if count == rows else filled[name].slice(start, count)

        yield pa.RecordBatch.from_arrays([column(name) for name in columns], schema=schema)


def topic_column(topic: str, rows: int, piece_bytes: int = PIECE_BYTES) -> pa.Array:
    """`rows` (at most `most_rows`) times the same name: a slice of an array that is kept, because a task's batches
    share it.

    All constant columns that the process keeps take at most `piece_bytes` together.
    """
    return _column(topic, pa.string(), rows, most_rows(topic, piece_bytes), piece_bytes)


def int32_column(value: int, rows: int, piece_bytes: int = PIECE_BYTES) -> pa.Array:
    """`rows` (at most MAX_ROWS) times the same number; as `topic_column`."""
    return _column(value, pa.int32(), rows, MAX_ROWS, piece_bytes)


def _column(value: str | int, kind: pa.DataType, rows: int, most: int, keep_bytes: int) -> pa.Array:
    global _kept
    kept = _kept.copy()
    found, size = kept.pop(value, (None, 0))
    if found is None or len(found) < rows:
        capacity = min(max(1024, 1 << (rows - 1).bit_length()), most)
        found = pa.repeat(scalar(value, kind), max(rows, capacity), memory_pool=_POOL)
        size = found.nbytes
    kept[value] = found, size
    room = keep_bytes - sum(size for _, size in kept.values())
    while kept and (room < 0 or len(kept) > _MOST_KEPT):
        room += kept.pop(next(iter(kept)))[1]
    _kept = kept
    return found.slice(0, rows)
