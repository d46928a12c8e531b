"""Record batches v2 (KIP-98) to Arrow: the `records` field of a Fetch response becomes rows of the source's schema.

Three steps: `_Walk` reads headers, checks CRCs, drops control batches and aborted transactions and decompresses, so
that sizes are known; output buffers of the largest possible size are allocated (pages never touched cost nothing); the
kernel fills them. Memory of a call: the decompressed bytes, which `max_decompressed_bytes` bounds, twice.

Any bytes give rows, or an error of this family: CorruptRecordBatch (fetching again can help), UnsupportedRecordFormat,
RecordBatchTooLarge. Its text names topic, partition and the offset of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from kafkasource.errors import CorruptRecordBatch, UnsupportedRecordFormat
from kafkasource.records import header as h
from kafkasource.records import kernel, message_set
from kafkasource.records.checksum import crc32c
from kafkasource.records.columns import (
    CREATE_TIME,
    HEADERS_TYPE,
    LOG_APPEND_TIME,
    MAX_ROWS,
    ROW_SCHEMA,
    ROW_SCHEMA_WITH_HEADERS,
    int32_column,
    topic_column,
)
from kafkasource.records.compression import Arena, RecordBatchTooLarge

__all__ = ["ROW_SCHEMA", "ROW_SCHEMA_WITH_HEADERS", "Decoded", "decode", "decode_all", "next_fetch_offset"]

MAX_DECOMPRESSED_BYTES = 64 << 20
_MAX_SECTIONS_BYTES = (1 << 31) - 1  # Arrow's binary columns have int32 offsets
_MIN_RECORD_BYTES = 7
_KEPT_ARENA_BYTES = 8 << 20
_SPECIAL = h.TRANSACTIONAL | h.CONTROL
_MAX_OFFSET = (1 << 63) - 1
_ABORT_MARKER = b"\x00\x00\x00\x00"  # control record's key: version int16, type int16 (0 abort, 1 commit)

# Arenas not in use; a call takes one and gives it back. list.pop and append are atomic, so threads may share it.
_arenas: list[Arena] = []


@dataclass(frozen=True)
class Decoded:
    """What one call took from the bytes. Rows ascend by offset; a batch holds one timestampType."""

    batches: list[pa.RecordBatch]
    next_offset: int  # last offset of the last batch used + 1 (at least end_offset once that was passed)
    bytes_used: int  # the rest is a cut last batch, batches at or behind end_offset, or what the limit put off
    required_bytes: int | None = None  # nothing whole came: what the first batch claims to need in full
    aborted_transactions: tuple[tuple[int, int], ...] = ()  # those to hand to a call that goes on behind bytes_used
    limited: bool = False  # ended by max_decompressed_bytes: data[bytes_used:] holds more whole batches

    @property
    def num_rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


class _Section(NamedTuple):
    """The records of one batch, in the input or in the arena. (A tuple: made per batch, it must cost little.)"""

    in_arena: bool
    start: int
    end: int
    records: int
    base_offset: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    log_append: bool


def decode(
    data: Any,
    *,
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int,
    include_headers: bool = False,
    check_crc: bool = True,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    aborted_transactions: Iterable[tuple[int, int]] | None = (),
) -> Decoded:
    """Rows of [start_offset, end_offset) in `data`, any contiguous buffer of whole batches and perhaps a cut last one.

    `aborted_transactions` is (producer id, first offset) as Fetch returns them under read_committed; None or empty
    drops control batches only. Where batches exceed `max_decompressed_bytes` together, the call ends before the one
    that does and `limited` is set (`decode_all` goes on by itself); one batch beyond it raises RecordBatchTooLarge.
    Holds no reference to `data` afterwards. Any thread; the GIL is released while records are parsed.
    """
    arena = _arenas.pop() if _arenas else Arena()
    arena.used = 0
    try:
        walk = _Walk(data, topic, partition, start_offset, end_offset, check_crc, max_decompressed_bytes, arena)
        walk.run(aborted_transactions or ())
        batches: list[pa.RecordBatch] = []
        with memoryview(arena.view()) as scratch:
            for group in walk.groups():
                batches.extend(
                    _to_arrow(group, walk.data, scratch, topic, partition, start_offset, end_offset, include_headers)
                )
    finally:
        if arena.capacity <= _KEPT_ARENA_BYTES:
            _arenas.append(arena)
    return Decoded(
        batches, walk.next_offset, walk.pos, walk.required_bytes, walk.remaining_aborted(), limited=walk.limited
    )


def decode_all(data: Any, *, start_offset: int, **arguments: Any) -> Iterator[Decoded]:
    """`decode`, called again behind what it used until `data` holds no more whole batches; memory is bounded per item.

    Yields at least one item; the last one has the `next_offset` to fetch from.
    """
    view = memoryview(data).cast("B")
    aborted = arguments.pop("aborted_transactions", ())
    while True:
        decoded = decode(view, start_offset=start_offset, aborted_transactions=aborted, **arguments)
        yield decoded
        if not decoded.limited:
            return
        view = view[decoded.bytes_used :]
        start_offset = decoded.next_offset
        aborted = decoded.aborted_transactions


def next_fetch_offset(data: Any) -> int | None:
    """Last offset of the last complete batch + 1, from headers alone: the next fetch can leave before this is decoded.

    None where no batch is complete or the first bytes make no sense; decode then says what is wrong.
    """
    view = memoryview(data).cast("B")
    pos, size, found = 0, len(view), None
    while size - pos >= h.HEADER_BYTES:
        fields = h.HEADER.unpack_from(view, pos)
        base_offset, length, magic, last_offset_delta = fields[0], fields[1], fields[3], fields[6]
        end = pos + h.PREFIX_BYTES + length
        if magic != 2 or length < h.MIN_BATCH_LENGTH or end > size or base_offset < 0 or last_offset_delta < 0:
            break
        found = base_offset + last_offset_delta + 1
        pos = end
    return found


@dataclass
class _Walk:
    """Goes from batch to batch. Afterwards `sections` are the records to fill from and `pos` the bytes used."""

    raw: Any
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    check_crc: bool
    max_decompressed_bytes: int
    arena: Arena

    pos: int = 0
    required_bytes: int | None = None
    limited: bool = False
    sections: list[_Section] = field(default_factory=list)
    _queue: list[tuple[int, int]] = field(default_factory=list)  # aborted transactions not begun, last first
    _open: dict[int, int] = field(default_factory=dict)  # producer id of those begun and not ended: first offset

    def __post_init__(self) -> None:
        self.data = memoryview(self.raw).cast("B")
        self.next_offset = self.start_offset

    def run(self, aborted_transactions: Iterable[tuple[int, int]]) -> None:
        self._queue = sorted(aborted_transactions, key=lambda transaction: -transaction[1])
        data, size, expected = self.data, len(self.data), 0
        buffer = pa.py_buffer(data)
        taken = 0
        while True:
            pos, rest = self.pos, size - self.pos
            if rest > h.MAGIC_POS and data[pos + h.MAGIC_POS] != 2:
                self._refuse_magic(data[pos + h.MAGIC_POS])
            if rest < h.PREFIX_BYTES:
                self._cut(h.HEADER_BYTES)
                return
            if rest < h.HEADER_BYTES:
                base_offset, length = h.PREFIX.unpack_from(data, pos)
            else:
                (base_offset, length, _, _, crc, attributes, last_delta, base_ts, max_ts, producer_id, _, _, count) = (
                    h.HEADER.unpack_from(data, pos)
                )
            if length < h.MIN_BATCH_LENGTH:
                self._corrupt(base_offset, f"a batch length of {length} bytes")
            if length > rest - h.PREFIX_BYTES:
                self._cut(h.PREFIX_BYTES + length)
                return
            end = pos + h.PREFIX_BYTES + length
            if self.check_crc:
                actual = crc32c(buffer.slice(pos + h.ATTRIBUTES_POS, end - pos - h.ATTRIBUTES_POS))
                if actual != crc:
                    self._corrupt(base_offset, f"CRC32C is {actual:#010x}, the header says {crc:#010x}")
            if base_offset < expected or last_delta < 0 or base_offset > _MAX_OFFSET - last_delta - 1:
                self._corrupt(
                    base_offset, f"base offset {base_offset} (+{last_delta}) where {expected} or more was due"
                )
            if base_offset >= self.end_offset:
                self.next_offset = max(self.next_offset, self.end_offset)
                return
            section_bytes = length - h.MIN_BATCH_LENGTH
            codec = attributes & h.CODEC_MASK
            if count < 0 or count > last_delta + 1 or (count == 0) != (section_bytes == 0):
                self._corrupt(base_offset, f"{count} records in {section_bytes} bytes, last offset delta {last_delta}")
            expected = base_offset + last_delta + 1
            skipped = False
            if attributes & _SPECIAL or self._queue:
                skipped = self._is_skipped(attributes, producer_id, base_offset, expected, pos + h.HEADER_BYTES, end)
            if not skipped and count and expected > self.start_offset:
                start, stop = pos + h.HEADER_BYTES, end
                if codec:
                    start, stop = self._decompress(codec, buffer.slice(start, section_bytes), base_offset, taken)
                    if self.limited:
                        return
                elif taken and taken + section_bytes > _MAX_SECTIONS_BYTES:
                    self.limited = True
                    return
                if count > (stop - start) // _MIN_RECORD_BYTES:
                    self._corrupt(base_offset, f"{count} records in {stop - start} bytes")
                taken += stop - start
                self.sections.append(
                    _Section(
                        codec != 0,
                        start,
                        stop,
                        count,
                        base_offset,
                        last_delta,
                        base_ts,
                        max_ts,
                        bool(attributes & h.LOG_APPEND_TIME),
                    )
                )
            self.pos = end
            self.next_offset = max(self.next_offset, expected)

    def groups(self) -> Iterator[list[_Section]]:
        """Neighbouring sections of one timestampType."""
        group: list[_Section] = []
        for section in self.sections:
            if group and group[-1].log_append != section.log_append:
                yield group
                group = []
            group.append(section)
        if group:
            yield group

    def remaining_aborted(self) -> tuple[tuple[int, int], ...]:
        return (*self._open.items(), *reversed(self._queue))

    def _cut(self, required_bytes: int) -> None:
        if self.pos == 0 and len(self.data) and self.next_offset == self.start_offset:
            self.required_bytes = required_bytes

    def _is_skipped(
        self, attributes: int, producer_id: int, base_offset: int, next_offset: int, start: int, end: int
    ) -> bool:
        """Is this a control batch, or of an aborted transaction? As Java's CompletedFetch keeps track of them."""
        while self._queue and self._queue[-1][1] < next_offset:
            aborted_id, first_offset = self._queue.pop()
            self._open[aborted_id] = first_offset
        if attributes & h.CONTROL:
            if producer_id in self._open and self._ends_aborted(attributes, base_offset, start, end):
                del self._open[producer_id]
            return True
        return bool(attributes & h.TRANSACTIONAL) and producer_id in self._open

    def _ends_aborted(self, attributes: int, base_offset: int, start: int, end: int) -> bool:
        """Is the first record of a control batch an abort marker? An empty one (compacted away) ends nothing."""
        if start == end:
            return False
        view = self.data[start:end]
        codec = attributes & h.CODEC_MASK
        if codec:
            start, end = self._decompress(codec, pa.py_buffer(view), base_offset, 0)
            self.arena.used = start
            view = self.arena.view()[start:end]
        key = _control_key(view)
        if key is None:
            self._corrupt(base_offset, "a control record without its key")
        return key == _ABORT_MARKER

    def _decompress(self, codec: int, section: pa.Buffer, base_offset: int, taken: int) -> tuple[int, int]:
        """[start, end) in the arena; sets `limited` where this batch does not fit beside the ones before it."""
        limit = min(self.max_decompressed_bytes - self.arena.used, _MAX_SECTIONS_BYTES - taken)
        try:
            return self.arena.decompress(codec, section, max(limit, 0))
        except RecordBatchTooLarge:
            if not self.sections:
                raise RecordBatchTooLarge(
                    f"{self._where(base_offset)}: {section.size} compressed bytes hold more than the "
                    f"{self.max_decompressed_bytes} bytes allowed for a decompressed batch"
                ) from None
            self.limited = True
            return 0, 0
        except UnsupportedRecordFormat as e:
            raise UnsupportedRecordFormat(f"{self._where(base_offset)}: {e}") from e
        except CorruptRecordBatch as e:
            raise CorruptRecordBatch(f"{self._where(base_offset)}: {e}") from e

    def _refuse_magic(self, magic: int) -> NoReturn:
        (base_offset,) = h.PREFIX.unpack_from(self.data, self.pos)[:1]
        if magic < 2:
            raise message_set.refuse(magic, self._where(base_offset))
        self._corrupt(base_offset, f"magic is {magic}, not 2")

    def _corrupt(self, base_offset: int, problem: str) -> NoReturn:
        raise CorruptRecordBatch(f"{self._where(base_offset)}: {problem}")

    def _where(self, base_offset: int) -> str:
        return _where(self.topic, self.partition, base_offset)


def _where(topic: str, partition: int, base_offset: int) -> str:
    return f"{topic}-{partition}, record batch at offset {base_offset}"


def _control_key(section: memoryview) -> bytes | None:
    """Key of the first record, None where it has none of 4 bytes or more."""
    end = len(section)
    length, pos = _read_varint(section, 0)
    if length < 0 or length > end - pos:
        return None
    _, pos = _read_varint(section, pos + 1)  # past the attributes: timestamp delta
    _, pos = _read_varint(section, pos)  # offset delta
    size, pos = _read_varint(section, pos)
    return bytes(section[pos : pos + 4]) if 4 <= size <= end - pos else None


def _read_varint(data: memoryview, pos: int) -> tuple[int, int]:
    raw = 0
    for i, byte in enumerate(data[pos : pos + 10]):
        raw |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), pos + i + 1
    return -1, len(data)


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


def _to_arrow(
    sections: list[_Section],
    data: memoryview,
    scratch: memoryview,
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int,
    include_headers: bool,
) -> Iterator[pa.RecordBatch]:
    """Fill columns from sections of one timestampType; yield them in pieces of at most MAX_ROWS."""
    capacity = sum(section.records for section in sections)
    size = sum(section.end - section.start for section in sections)
    key_offsets, key_offsets_view = _ints(capacity + 1)
    keys, keys_view = _bytes(size)
    key_valid, key_valid_view = _all_valid(capacity)
    value_offsets, value_offsets_view = _ints(capacity + 1)
    values, values_view = _bytes(size)
    value_valid, value_valid_view = _all_valid(capacity)
    offsets, offsets_view = _longs(capacity)
    timestamps, timestamps_view = _longs(capacity)
    columns = kernel.RowColumns(
        key_offsets_view,
        keys_view,
        key_valid_view,
        value_offsets_view,
        values_view,
        value_valid_view,
        offsets_view,
        timestamps_view,
    )
    for s in sections:
        code = columns.fill(
            scratch if s.in_arena else data,
            s.start,
            s.end,
            s.records,
            s.base_offset,
            s.last_offset_delta,
            s.base_timestamp,
            s.max_timestamp,
            s.log_append,
            start_offset,
            end_offset,
            include_headers,
        )
        if code:
            raise CorruptRecordBatch(f"{_where(topic, partition, s.base_offset)}: {kernel.ERRORS[code]}")
    rows = columns.rows
    if not rows:
        return
    arrays = [
        _binary(rows, columns.key_nulls, key_valid, key_offsets, keys.slice(0, columns.key_bytes)),
        _binary(rows, columns.value_nulls, value_valid, value_offsets, values.slice(0, columns.value_bytes)),
        pa.Array.from_buffers(pa.int64(), rows, [None, offsets], 0),
        pa.Array.from_buffers(pa.timestamp("us", "UTC"), rows, [None, timestamps], 0),
    ]
    headers = None
    if include_headers:
        headers = _headers_to_arrow(columns, sections, data, scratch, topic, partition, start_offset, end_offset)
    timestamp_type = LOG_APPEND_TIME if sections[0].log_append else CREATE_TIME
    for first in range(0, rows, MAX_ROWS):
        count = min(MAX_ROWS, rows - first)
        key, value, offset, timestamp = arrays if count == rows else [array.slice(first, count) for array in arrays]
        piece = [
            key,
            value,
            topic_column(topic, count),
            int32_column(partition, count),
            offset,
            timestamp,
            int32_column(timestamp_type, count),
        ]
        if headers is not None:
            piece.append(headers.slice(first, count))
        yield pa.RecordBatch.from_arrays(piece, schema=ROW_SCHEMA_WITH_HEADERS if include_headers else ROW_SCHEMA)


def _binary(rows: int, nulls: int, valid: pa.Buffer, offsets: pa.Buffer, data: pa.Buffer) -> pa.Array[Any]:
    return pa.Array.from_buffers(pa.binary(), rows, [valid if nulls else None, offsets, data], nulls)


def _headers_to_arrow(
    columns: Any,
    sections: list[_Section],
    data: memoryview,
    scratch: memoryview,
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int,
) -> pa.Array[Any]:
    """The headers column of the rows that `columns` holds: a second pass, now that the exact sizes are known."""
    rows, count = columns.rows, columns.headers
    list_offsets, list_offsets_view = _ints(rows + 1)
    list_valid, list_valid_view = _all_valid(rows)
    key_offsets, key_offsets_view = _ints(count + 1)
    keys, keys_view = _bytes(columns.header_key_bytes)
    value_offsets, value_offsets_view = _ints(count + 1)
    values, values_view = _bytes(columns.header_value_bytes)
    value_valid, value_valid_view = _all_valid(count)
    headers = kernel.HeaderColumns(
        list_offsets_view,
        list_valid_view,
        key_offsets_view,
        keys_view,
        value_offsets_view,
        values_view,
        value_valid_view,
    )
    for s in sections:
        code = headers.fill(
            scratch if s.in_arena else data, s.start, s.end, s.records, s.base_offset, start_offset, end_offset
        )
        if code:
            raise CorruptRecordBatch(f"{_where(topic, partition, s.base_offset)}: {kernel.ERRORS[code]}")
    key_column = pa.Array.from_buffers(pa.string(), count, [None, key_offsets, keys], 0)
    try:
        key_column.validate(full=True)
    except pa.ArrowInvalid:
        # Java's client decodes header keys so: every malformed byte becomes U+FFFD.
        raw: Any = pa.Array.from_buffers(pa.binary(), count, [None, key_offsets, keys], 0)
        key_column = pa.array([key.decode("utf-8", "replace") for key in raw.to_pylist()], pa.string())
    items = pa.StructArray.from_arrays(
        [key_column, _binary(count, headers.value_nulls, value_valid, value_offsets, values)],
        fields=list(HEADERS_TYPE.value_type),
    )
    valid = list_valid if headers.list_nulls else None
    return pa.Array.from_buffers(HEADERS_TYPE, rows, [valid, list_offsets], headers.list_nulls, children=[items])
