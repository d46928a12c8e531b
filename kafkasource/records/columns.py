"""The Arrow schema of rows read from Kafka (the JVM connector's, column by column), and its constant columns."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
_FIELDS: list[pa.Field[Any]] = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("timestampType", pa.int32()),
]
ROW_SCHEMA = pa.schema(_FIELDS)
ROW_SCHEMA_WITH_HEADERS = ROW_SCHEMA.append(pa.field("headers", HEADERS_TYPE))
NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1  # values of timestampType

# Rows of an Arrow batch at most: the constant columns cached below stay small, and a topic name of 249 bytes times
# this is far from the 2 GiB that int32 offsets reach.
MAX_ROWS = 1 << 17


@lru_cache(maxsize=32)
def _topics(topic: str, capacity: int) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(topic, pa.string()), capacity)


@lru_cache(maxsize=64)
def _int32s(value: int, capacity: int) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(value, pa.int32()), capacity)


def _capacity(rows: int) -> int:
    return max(1024, 1 << (rows - 1).bit_length())


def topic_column(topic: str, rows: int) -> pa.Array[Any]:
    """`rows` (at most MAX_ROWS) times the same name; a slice of a cached array, as a task's batches share it."""
    return _topics(topic, _capacity(rows)).slice(0, rows)


def int32_column(value: int, rows: int) -> pa.Array[Any]:
    """`rows` (at most MAX_ROWS) times the same number; a slice of a cached array."""
    return _int32s(value, _capacity(rows)).slice(0, rows)
