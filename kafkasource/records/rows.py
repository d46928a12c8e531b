"""Makes Arrow batches of the rows that a walk found: the kernel fills buffers of the largest possible size, which are
then cut."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kafkasource.errors import CorruptRecordBatch, MalformedRecordTimestamp
from kafkasource.records import kernel
from kafkasource.records.columns import (
    CREATE_TIME,
    HEADERS_TYPE,
    LOG_APPEND_TIME,
    ROW_SCHEMA,
    ROW_SCHEMA_WITH_HEADERS,
    int32_column,
    most_rows,
    topic_column,
)
from kafkasource.records.views import NO_LONGS
from kafkasource.records.walk import BatchWalk

_TIMESTAMP = pa.timestamp("us", "UTC")
_BAD_TIMESTAMP = 4  # the kernel's; compiled, it shows only the texts of its codes


def row_batches(walk: BatchWalk, include_headers: bool) -> Iterator[pa.RecordBatch]:
    """The rows of a walk after its `run`, in its range of offsets. A batch has one timestampType, and at most
    `most_rows`."""
    schema = ROW_SCHEMA_WITH_HEADERS if include_headers else ROW_SCHEMA
    piece_bytes = walk.arena.piece_bytes
    most = most_rows(walk.topic, piece_bytes)
    first = 0
    with walk.arena.view() as scratch:
        while first < walk.sections.count:
            last, log_append = walk.sections.group(first)
            if walk.sections.rows:
                timestamp_type = LOG_APPEND_TIME if log_append else CREATE_TIME
                rows, arrays = _Fill(walk, scratch, first, last).columns(include_headers)
                for start in range(0, rows, most):
                    count = min(most, rows - start)
                    piece = arrays if count == rows else [array.slice(start, count) for array in arrays]
                    yield pa.RecordBatch.from_arrays(
                        [
                            *piece[:2],
                            topic_column(walk.topic, count, piece_bytes),
                            int32_column(walk.partition, count, piece_bytes),
                            *piece[2:4],
                            int32_column(timestamp_type, count, piece_bytes),
                            *piece[4:],
                        ],
                        schema=schema,
                    )
            first = last


class _Fill:
    """Sections [first, last) of a walk, to be filled into the columns of one timestampType."""

    def __init__(self, walk: BatchWalk, scratch: memoryview, first: int, last: int) -> None:
        self._walk = walk
        self._scratch = scratch
        self._first = first
        self._last = last

    def columns(self, include_headers: bool) -> tuple[int, list[pa.Array]]:
        """(rows, [key, value, offset, timestamp] and headers where asked for)."""
        capacity, size = self._walk.sections.rows, self._walk.sections.bytes
        key_offsets, key_offsets_view = _ints(capacity + 1)
        keys, keys_view = _bytes(size)
        key_valid, key_valid_view = _all_valid(capacity)
        value_offsets, value_offsets_view = _ints(capacity + 1)
        values, values_view = _bytes(size)
        value_valid, value_valid_view = _all_valid(capacity)
        offsets, offsets_view = _longs(capacity)
        timestamps, timestamps_view = _longs(capacity)
        positions = memoryview(bytearray(8 * capacity)).cast("q") if include_headers else NO_LONGS
        columns = kernel.RowColumns(
            key_offsets_view,
            keys_view,
            key_valid_view,
            value_offsets_view,
            values_view,
            value_valid_view,
            offsets_view,
            timestamps_view,
            positions,
        )
        self._run(columns, self._walk.start_offset, self._walk.end_offset)
        rows = columns.rows
        arrays: list[pa.Array] = [
            _binary(rows, columns.key_nulls, key_valid, key_offsets, keys.slice(0, columns.key_bytes)),
            _binary(rows, columns.value_nulls, value_valid, value_offsets, values.slice(0, columns.value_bytes)),
            pa.Array.from_buffers(pa.int64(), rows, [None, offsets], 0),
            pa.Array.from_buffers(_TIMESTAMP, rows, [None, timestamps], 0),
        ]
        if include_headers:
            arrays.append(self._headers(columns, positions))
        return rows, arrays

    def _headers(self, rows: kernel.RowColumns, positions: memoryview) -> pa.Array:
        """The headers column of the rows that were filled, now that the exact sizes are known."""
        count = rows.headers
        list_offsets, list_offsets_view = _ints(rows.rows + 1)
        list_valid, list_valid_view = _all_valid(rows.rows)
        key_offsets, key_offsets_view = _ints(count + 1)
        keys, keys_view = _bytes(rows.header_key_bytes)
        value_offsets, value_offsets_view = _ints(count + 1)
        values, values_view = _bytes(rows.header_value_bytes)
        value_valid, value_valid_view = _all_valid(count)
        columns = kernel.HeaderColumns(
            list_offsets_view,
            list_valid_view,
            key_offsets_view,
            keys_view,
            value_offsets_view,
            values_view,
            value_valid_view,
            positions,
        )
        self._run(columns)
        items = pa.StructArray.from_arrays(
            [
                _utf8(count, key_offsets, keys, keys_view),
                _binary(count, columns.value_nulls, value_valid, value_offsets, values),
            ],
            fields=list(HEADERS_TYPE.value_type),
        )
        valid = list_valid if columns.list_nulls else None
        return pa.Array.from_buffers(
            HEADERS_TYPE, rows.rows, [valid, list_offsets], columns.list_nulls, children=[items]
        )

    def _run(self, columns: kernel.RowColumns | kernel.HeaderColumns, *more: int) -> None:
        walk = self._walk
        code = columns.fill(
            walk.data,
            self._scratch,
            walk.sections,
            self._first,
            self._last,
            *more,
        )
        if code:
            base_offset = walk.sections.batch(columns.failed)[3]
            error = MalformedRecordTimestamp if code == _BAD_TIMESTAMP else CorruptRecordBatch
            raise error(f"{walk.where(base_offset)}: {kernel.ERRORS[code]}")


def _ints(rows: int) -> tuple[pa.Buffer, memoryview]:
    buffer = pa.allocate_buffer(4 * rows)
    return buffer, memoryview(buffer).cast("B").cast("i")


def _longs(rows: int) -> tuple[pa.Buffer, memoryview]:
    buffer = pa.allocate_buffer(8 * rows)
    return buffer, memoryview(buffer).cast("B").cast("q")


def _bytes(size: int) -> tuple[pa.Buffer, memoryview]:
    buffer = pa.allocate_buffer(size)
    return buffer, memoryview(buffer).cast("B")


def _all_valid(rows: int) -> tuple[pa.Buffer, memoryview]:
    buffer, view = _bytes((rows + 7) // 8)
    view[:] = b"\xff" * len(view)
    return buffer, view


def _binary(rows: int, nulls: int, valid: pa.Buffer, offsets: pa.Buffer, data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), rows, [valid if nulls else None, offsets, data], nulls)


def _utf8(count: int, offsets: pa.Buffer, data: pa.Buffer, view: memoryview) -> pa.Array:
    """Header keys as strings. Java's client decodes them so: every malformed byte becomes U+FFFD."""
    keys: pa.Array = pa.Array.from_buffers(pa.string(), count, [None, offsets, data], 0)
    if not kernel.is_ascii(view):
        try:
            keys.validate(full=True)
        except pa.ArrowInvalid:
            raw: pa.Array = pa.Array.from_buffers(pa.binary(), count, [None, offsets, data], 0)
            return pa.array([key.decode("utf-8", "replace") for key in raw.to_pylist()], pa.string())
    return keys
