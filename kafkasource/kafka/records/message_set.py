"""Decodes message sets v0 and v1, which brokers before 0.11 wrote; Kafka serves old segments as they are on disk.

A message is big-endian. A message set is any number of messages; the last may be cut:

    offset int64 | size int32, counted from here on | crc uint32 | magic int8, 0 or 1 | attributes int8
    | timestamp int64, only with magic 1 (KIP-32) | keyLength int32 key | valueLength int32 value

The crc is zlib's CRC32 from `magic` on; a length of -1 is null. Three bits of the attributes are the codec, the fourth
means log append time. The value of a compressed message, the wrapper, is again a message set, one level deep. The
wrapper has the offset of the last message inside. Offsets inside are absolute with magic 0; with magic 1 their
distances count (KIP-31), and log append time is the wrapper's.

A message costs one Python step of some microseconds, where the kernel takes 25 ns for a record of today's format.
Bounds: a key or value lies within its message, a message within the bytes, and the contents of a wrapper within the
caller's limit. The decoder keeps only what a message's row needs.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

import pyarrow as pa

from kafkasource.errors import CorruptRecordBatch, MalformedRecordTimestamp
from kafkasource.kafka.records import header as h
from kafkasource.kafka.records.arrow.columns import (
    CREATE_TIME,
    HEADERS_TYPE,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    batches_of_rows,
)
from kafkasource.kafka.records.compression import (
    LZ4,
    MAX_SECTION_BYTES,
    ZSTD,
    Arena,
    decompress_section,
    with_right_lz4_header,
)

_HEAD = struct.Struct(">qiIBB")  # up to the attributes
_LONG = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
LEAST_SIZES = (14, 22)  # of magic 0 and 1, with null for key and value
_MAX_OFFSET = (1 << 63) - 1
_MAX_MS = _MAX_OFFSET // 1000  # the most that microseconds can hold
_NO_TIMESTAMP_MS = -1


def begins(data: memoryview, pos: int = 0) -> bool:
    """Is there a message at `pos`, by its magic, and not a record batch?"""
    return len(data) - pos > h.MAGIC_POS and data[pos + h.MAGIC_POS] < 2


def survey(data: memoryview) -> tuple[int, int | None]:
    """(bytes, last offset + 1) of the whole messages at the beginning of `data`, by headers alone. None: there are
    none."""
    pos, next_offset = 0, None
    while begins(data, pos):
        offset, length = h.PREFIX.unpack_from(data, pos)
        end = pos + h.PREFIX_BYTES + length
        if length < LEAST_SIZES[data[pos + h.MAGIC_POS]] or end > len(data):
            break
        if not (next_offset or 0) <= offset < _MAX_OFFSET:
            break
        pos, next_offset = end, offset + 1
    return pos, next_offset


class _Message(NamedTuple):
    """A whole message. Positions are in the buffer that it was read from. A key or value of length -1 is null."""

    offset: int
    end: int
    magic: int
    codec: int
    timestamp_type: int
    timestamp_ms: int
    key_pos: int
    key_length: int
    value_pos: int
    value_length: int


class _Rows:
    """Columns that grow row by row, as Arrow lays them out."""

    def __init__(self) -> None:
        self.timestamp_type = NO_TIMESTAMP_TYPE
        self._offsets, self._timestamps = array("q"), array("q")
        self._keys, self._values = _Binary(), _Binary()

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def size(self) -> int:
        """Bytes of keys, values and numbers."""
        return self._keys.size + self._values.size + 16 * len(self)

    def append(self, offset: int, timestamp_ms: int, data: memoryview, message: _Message) -> None:
        self._offsets.append(offset)
        self._timestamps.append(1000 * timestamp_ms)
        self._keys.append(data, message.key_pos, message.key_length)
        self._values.append(data, message.value_pos, message.value_length)

    def arrays(self, columns: tuple[str, ...]) -> dict[str, pa.Array]:
        """Make the columns among key, value, offset and timestamp that `columns` names."""
        found: dict[str, pa.Array] = {}
        for name, binary in (("key", self._keys), ("value", self._values)):
            if name in columns:
                found[name] = binary.array()
        longs = ("offset", pa.int64(), self._offsets), ("timestamp", pa.timestamp("us", "UTC"), self._timestamps)
        for name, kind, numbers in longs:
            if name in columns:
                found[name] = pa.Array.from_buffers(kind, len(self), [None, pa.py_buffer(numbers)])
        return found


class _Binary:
    """A binary column. Its data stays within int32, as a section does."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array("i", [0])
        self._nulls = array("q")  # row numbers

    @property
    def size(self) -> int:
        return len(self._data) + 4 * len(self._ends)

    def append(self, data: memoryview, pos: int, length: int) -> None:
        if length < 0:
            self._nulls.append(len(self._ends) - 1)
        else:
            self._data += data[pos : pos + length]
        self._ends.append(len(self._data))

    def array(self) -> pa.Array:
        rows = len(self._ends) - 1
        valid = bytearray(b"\xff" * ((rows + 7) // 8))
        for row in self._nulls:
            valid[row >> 3] &= ~(1 << (row & 7))
        validity = pa.py_buffer(valid) if self._nulls else None
        buffers = [validity, pa.py_buffer(self._ends), pa.py_buffer(self._data)]
        return pa.Array.from_buffers(pa.binary(), rows, buffers, len(self._nulls))


@dataclass
class MessageWalk:
    """After `run`, `batches` gives the rows, all of one timestampType, and `pos` the bytes used.

    It ends, `limited`, if a record batch follows, the timestampType changes, or it has read some MiB.
    """

    data: memoryview
    topic: str
    partition: int
    start_offset: int  # inclusive
    end_offset: int  # exclusive
    check_crc: bool
    max_decompressed_bytes: int
    arena: Arena

    pos: int = 0
    required_bytes: int | None = None
    limited: bool = False
    next_offset: int = 0
    _rows: _Rows = field(default_factory=_Rows)

    def run(self) -> None:
        while self.next_offset < self.end_offset and not self.limited and self._is_whole():
            message = self._message(self.data, self.pos, self.next_offset)
            if message.offset >= self.end_offset and not message.codec:  # a wrapper that ends there may begin before
                self.next_offset = self.end_offset
            elif message.offset >= self.start_offset and not self._take(message):
                self.limited = True
            else:
                self.pos, self.next_offset = message.end, message.offset + 1
        self.next_offset = max(self.next_offset, self.start_offset)

    def batches(self, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Rows in the range of offsets. Headers are null: messages have none."""
        rows = len(self._rows)
        filled = self._rows.arrays(columns)
        if "headers" in columns:
            filled["headers"] = pa.nulls(rows, HEADERS_TYPE)
        return batches_of_rows(
            filled,
            rows,
            columns,
            topic=self.topic,
            partition=self.partition,
            timestamp_type=self._rows.timestamp_type,
            piece_bytes=self.arena.piece_bytes,
        )

    def _is_whole(self) -> bool:
        """Is there a whole message at `pos`? If not, it is cut, or a record batch, or the end of the data."""
        left = len(self.data) - self.pos
        if not begins(self.data, self.pos):
            self.limited = left > h.MAGIC_POS
            return False
        offset, size = h.PREFIX.unpack_from(self.data, self.pos)
        if size < LEAST_SIZES[self.data[self.pos + h.MAGIC_POS]]:
            self._corrupt(offset, f"a message size of {size} bytes")
        if size <= left - h.PREFIX_BYTES:
            return True
        if self.pos == 0:
            self.required_bytes = h.PREFIX_BYTES + size
        return False

    def _message(self, data: memoryview, pos: int, expected: int, wrapper: int | None = None) -> _Message:
        """The message at `pos` of `data`, whose size fits both. `wrapper`: the offset of what it was wrapped in.

        Raises CorruptRecordBatch if its offset is below `expected`, its CRC is wrong, or its parts do not fill it.
        """
        offset, size, crc, magic, attributes = _HEAD.unpack_from(data, pos)
        shown = offset if wrapper is None else wrapper
        end = pos + h.PREFIX_BYTES + size
        if self.check_crc:
            actual = zlib.crc32(data[pos + h.MAGIC_POS : end])
            if actual != crc:
                self._corrupt(shown, f"CRC32 is {actual:#010x}, the message says {crc:#010x}")
        if not expected <= offset < _MAX_OFFSET:
            self._corrupt(shown, f"offset {offset} where {expected} or more was due")
        pos += _HEAD.size
        timestamp_type, timestamp_ms = NO_TIMESTAMP_TYPE, _NO_TIMESTAMP_MS
        if magic:
            timestamp_type = LOG_APPEND_TIME if attributes & h.LOG_APPEND_TIME else CREATE_TIME
            (timestamp_ms,) = _LONG.unpack_from(data, pos)
            pos += _LONG.size
        key_pos, key_length = self._sized(data, pos, end, shown, "key")
        value_pos, value_length = self._sized(data, key_pos + max(key_length, 0), end, shown, "value")
        if value_pos + max(value_length, 0) != end:
            self._corrupt(shown, "bytes are left over after the value")
        codec = attributes & h.CODEC_MASK
        times = timestamp_type, timestamp_ms
        return _Message(offset, end, magic, codec, *times, key_pos, key_length, value_pos, value_length)

    def _sized(self, data: memoryview, pos: int, end: int, offset: int, name: str) -> tuple[int, int]:
        """(pos, length) of a key or value behind its length."""
        pos += _LENGTH.size
        if pos > end:
            self._corrupt(offset, f"the {name}'s length is cut short")
        (length,) = _LENGTH.unpack_from(data, pos - _LENGTH.size)
        if not -1 <= length <= end - pos:
            self._corrupt(offset, f"the {name}'s length is not within its message")
        return pos, length

    def _take(self, message: _Message) -> bool:
        """Add the message's rows. False: this call ends before it."""
        rows = self._rows
        if len(rows) and (rows.timestamp_type != message.timestamp_type or rows.size >= self.arena.piece_bytes):
            return False
        rows.timestamp_type = message.timestamp_type
        if message.codec:
            self._take_wrapped(message)
        else:
            self._append(message.offset, message.timestamp_ms, self.data, message)
        return True

    def _take_wrapped(self, wrapper: _Message) -> None:
        start, end = self._decompress(wrapper)
        with self.arena.view() as scratch, scratch[start:end] as data:
            first, last = self._bounds(data, wrapper)
            shift = wrapper.offset - last if wrapper.magic else 0
            if shift < 0 or not self.next_offset <= first + shift <= last + shift <= wrapper.offset:
                self._corrupt(wrapper.offset, f"it holds offsets {first} to {last}")
            pos = expected = 0
            while pos < len(data):
                message = self._message(data, pos, expected, wrapper.offset)
                if message.codec:
                    self._corrupt(wrapper.offset, "a compressed message within a compressed one")
                offset = message.offset + shift
                if self.start_offset <= offset < self.end_offset:
                    appended = wrapper.timestamp_type == LOG_APPEND_TIME
                    self._append(offset, wrapper.timestamp_ms if appended else message.timestamp_ms, data, message)
                pos, expected = message.end, message.offset + 1

    def _append(self, offset: int, timestamp_ms: int, data: memoryview, message: _Message) -> None:
        if not -_MAX_MS <= timestamp_ms <= _MAX_MS:
            raise MalformedRecordTimestamp(f"{self._where(offset)}: a timestamp is beyond what microseconds can hold")
        self._rows.append(offset, timestamp_ms, data, message)

    def _bounds(self, data: memoryview, wrapper: _Message) -> tuple[int, int]:
        """(first, last) offset of the messages that fill `data`, as they stand there; their sizes are right."""
        pos = first = offset = 0
        while pos < len(data) or not pos:
            left = len(data) - pos - h.PREFIX_BYTES
            offset, size = h.PREFIX.unpack_from(data, pos) if left > 0 else (0, -1)
            if not LEAST_SIZES[wrapper.magic] <= size <= left:
                self._corrupt(wrapper.offset, f"a message of {size} bytes where {left} are left")
            if data[pos + h.MAGIC_POS] != wrapper.magic:
                self._corrupt(wrapper.offset, f"it holds a message of magic {data[pos + h.MAGIC_POS]}")
            first = first if pos else offset
            pos += h.PREFIX_BYTES + size
        return first, offset

    def _decompress(self, wrapper: _Message) -> tuple[int, int]:
        """Its [start, end) in the arena, where it replaces the wrapper before, whose rows were copied."""
        if wrapper.value_length < 0:
            self._corrupt(wrapper.offset, "a compressed message without a value")
        if wrapper.codec == ZSTD:
            self._corrupt(wrapper.offset, "zstd, which message sets cannot have")
        section: memoryview | bytes = self.data[wrapper.value_pos : wrapper.value_pos + wrapper.value_length]
        if wrapper.codec == LZ4 and wrapper.magic == 0:
            section = with_right_lz4_header(self.data[wrapper.value_pos : wrapper.value_pos + wrapper.value_length])
        self.arena.used = 0
        limit = min(self.max_decompressed_bytes, MAX_SECTION_BYTES - self._rows.size)
        return decompress_section(self.arena, wrapper.codec, section, limit, self._where(wrapper.offset))

    def _where(self, offset: int) -> str:
        return f"{self.topic}-{self.partition}, message at offset {offset}"

    def _corrupt(self, offset: int, problem: str) -> NoReturn:
        raise CorruptRecordBatch(f"{self._where(offset)}: {problem}")
