"""Makes Arrow batches of the rows that a walk found: the kernel fills buffers of the largest possible size, which are
then cut."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kafkasource.errors import CorruptRecordBatch, MalformedRecordTimestamp
from kafkasource.kafka.records import kernel
from kafkasource.kafka.records.arrow.columns import CREATE_TIME, HEADERS_TYPE, LOG_APPEND_TIME, batches_of_rows
from kafkasource.kafka.records.arrow.views import EMPTY, NO_INTS, NO_LONGS
from kafkasource.kafka.records.walk import BatchWalk

_TIMESTAMP = pa.timestamp("us", "UTC")
_NO_LONGS = pa.py_buffer(b""), NO_LONGS
_BAD_TIMESTAMP = 4  # the kernel's; compiled, it shows only the texts of its codes


def row_batches(walk: BatchWalk, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of a walk after its `run`, in its range of offsets. A batch has one timestampType."""
    first = 0
    with walk.arena.view() as scratch:
        while first < walk.sections.count:
            last, log_append = walk.sections.group(first)
            if walk.sections.rows:
                rows, filled = _Fill(walk, scratch, first, last).columns(columns)
                yield from batches_of_rows(
                    filled,
                    rows,
                    columns,
                    topic=walk.topic,
                    partition=walk.partition,
                    timestamp_type=LOG_APPEND_TIME if log_append else CREATE_TIME,
                    piece_bytes=walk.arena.piece_bytes,
                )
            first = last


class _Fill:
    """Sections [first, last) of a walk, to be filled into the columns of one timestampType."""

    def __init__(self, walk: BatchWalk, scratch: memoryview, first: int, last: int) -> None:
        self._walk = walk
        self._scratch = scratch
        self._first = first
        self._last = last

    def columns(self, names: tuple[str, ...]) -> tuple[int, dict[str, pa.Array]]:
        """The number of rows, and those columns of `names` that differ from row to row."""
        capacity, size = self._walk.sections.rows, self._walk.sections.bytes
        key, value = _Binary("key" in names, capacity, size), _Binary("value" in names, capacity, size)
        offsets, offsets_view = _longs(capacity) if "offset" in names else _NO_LONGS
        timestamps, timestamps_view = _longs(capacity) if "timestamp" in names else _NO_LONGS
        positions = memoryview(bytearray(8 * capacity)).cast("q") if "headers" in names else NO_LONGS
        columns = kernel.RowColumns(capacity, *key.views, *value.views, offsets_view, timestamps_view, positions)
        self._run(columns, self._walk.start_offset, self._walk.end_offset)
        rows = columns.rows
        filled: dict[str, pa.Array] = {}
        if "key" in names:
            filled["key"] = key.array(rows, columns.key_nulls, columns.key_bytes)
        if "value" in names:
            filled["value"] = value.array(rows, columns.value_nulls, columns.value_bytes)
        if "offset" in names:
            filled["offset"] = pa.Array.from_buffers(pa.int64(), rows, [None, offsets], 0)
        if "timestamp" in names:
            filled["timestamp"] = pa.Array.from_buffers(_TIMESTAMP, rows, [None, timestamps], 0)
        if "headers" in names:
            filled["headers"] = self._headers(columns, positions)
        return rows, filled

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


class _Binary:
    """The buffers of a binary column, to be filled. Empty ones where the column is not wanted."""

    def __init__(self, wanted: bool, rows: int, size: int) -> None:
        if wanted:
            self._offsets, offsets_view = _ints(rows + 1)
            self._data, data_view = _bytes(size)
            self._valid, valid_view = _all_valid(rows)
            self.views = offsets_view, data_view, valid_view
        else:
            self.views = NO_INTS, EMPTY, EMPTY

    def array(self, rows: int, nulls: int, size: int) -> pa.Array:
        return _binary(rows, nulls, self._valid, self._offsets, self._data.slice(0, size))


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
