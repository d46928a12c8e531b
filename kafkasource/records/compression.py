"""Kafka's five codecs over whole sections of records. What comes out is bounded before it is allocated.

Written as Kafka's Java classes write: gzip with its header, snappy in xerial's framing, lz4 as frames of independent
64 KiB blocks (Kafka's reader refuses linked blocks, which is what a plain LZ4 frame encoder writes for more than one
block), zstd frames. Read: those, and snappy without framing as librdkafka's oldest and Go clients write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cramjam
import pyarrow as pa

from kafkasource.errors import CorruptRecordBatch, ProtocolError, UnsupportedRecordFormat

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
# None where the codec has no levels; else inclusive. Bounds of KIP-390.
LEVELS: dict[int, tuple[int, int] | None] = {NONE: None, GZIP: (1, 9), SNAPPY: None, LZ4: (1, 17), ZSTD: (-131072, 22)}
_DEFAULT_LEVEL = {GZIP: 6, ZSTD: 3}

_STREAMED: dict[int, Any] = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 << 10
# Magic; version 01 and independent blocks; blocks of at most 64 KiB; the second byte of xxh32 of these two.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 << 10
_LZ4_UNCOMPRESSED = 0x80000000
_STEP_BYTES = 64 << 10
_XXH32_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)

MAX_SECTION_BYTES = (1 << 31) - 1  # Arrow's binary columns have int32 offsets
# A call that has decompressed batches takes no further one beyond this (or what its caller says), so that a fetch of
# 1 MiB which holds 100 MiB is handed on in pieces. One batch alone may have all that the caller allows.
PIECE_BYTES = 4 << 20


class RecordBatchTooLarge(ProtocolError):
    """A record batch is larger than allowed once decompressed."""


def compress(codec: int, data: memoryview, level: int | None = None) -> bytes:
    """`data` in the codec's form for a record batch v2. `level` is the codec's own; None: its default."""
    if codec == NONE:
        return bytes(data)
    if codec == SNAPPY:
        return b"".join(_xerial_blocks(data))
    if codec == LZ4:
        return b"".join(_lz4_blocks(data, level))
    if codec in (GZIP, ZSTD):
        name = _STREAMED[codec]
        encoder = pa.Codec(name, compression_level=_DEFAULT_LEVEL[codec] if level is None else level)
        return bytes(encoder.compress(pa.py_buffer(data), asbytes=True))
    raise ValueError(f"codec {codec} is unknown")


def _xerial_blocks(data: memoryview) -> Iterator[bytes]:
    yield _XERIAL_HEADER
    for pos in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[pos : pos + _XERIAL_BLOCK_BYTES]))
        yield struct.pack(">i", len(block))
        yield block


def _lz4_blocks(data: memoryview, level: int | None) -> Iterator[bytes]:
    encoder = pa.Codec("lz4_raw", compression_level=level)
    yield _LZ4_HEADER
    for pos in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[pos : pos + _LZ4_BLOCK_BYTES]
        block = encoder.compress(pa.py_buffer(plain), asbytes=True)
        if len(block) < len(plain):
            yield struct.pack("<I", len(block))
            yield block
        else:
            yield struct.pack("<I", len(plain) | _LZ4_UNCOMPRESSED)
            yield bytes(plain)
    yield bytes(4)


_POOL = pa.default_memory_pool()  # arenas are kept, so not of a pool that somebody sets for a while and then drops


class Arena:
    """Scratch memory that sections are decompressed into, one after the other; grows by doubling up to a limit.

    Positions stay valid when it grows, views do not: take `view()` when all sections are in. Native, as all that is
    large.
    """

    def __init__(self) -> None:
        self._memory = memoryview(pa.allocate_buffer(_STEP_BYTES, _POOL)).cast("B")
        self.used = 0
        self.piece_bytes = PIECE_BYTES  # a call that has decompressed something takes no more than this together

    @property
    def capacity(self) -> int:
        return len(self._memory)

    def view(self) -> memoryview:
        return memoryview(self._memory)

    def decompress(self, codec: int, data: pa.Buffer, limit: int) -> tuple[int, int]:
        """Append what `data` holds, at most `limit` bytes; return its [start, end) here.

        Raises RecordBatchTooLarge beyond `limit`, having held no more than `limit` and a step of 64 KiB; and
        CorruptRecordBatch for bytes that are not the codec's.
        """
        start = self.used
        try:
            if codec == SNAPPY:
                self._decompress_snappy(memoryview(data).cast("B"), start + limit)
            elif codec in _STREAMED:
                self._decompress_stream(_STREAMED[codec], data, start + limit)
            else:
                raise UnsupportedRecordFormat(f"compression codec {codec} is unknown")
        except BaseException:
            self.used = start
            raise
        return start, self.used

    def _room(self, end: int) -> None:
        if end > len(self._memory):
            larger = memoryview(pa.allocate_buffer(max(end, 2 * len(self._memory)), _POOL)).cast("B")
            larger[: self.used] = self._memory[: self.used]
            self._memory = larger

    def _decompress_stream(self, name: Any, data: pa.Buffer, end: int) -> None:
        if not data.size:
            raise CorruptRecordBatch(f"{name} data is corrupt: it is empty")
        try:
            stream = pa.CompressedInputStream(pa.BufferReader(data), name)
            # One byte beyond the limit is asked for: that it comes is the proof of a batch too large.
            step = max(_STEP_BYTES, min(4 * data.size, 4 << 20))
            while True:
                until = min(self.used + step, end + 1)
                self._room(until)
                with memoryview(self._memory) as memory, memory[self.used : until] as room:
                    self.used += stream.readinto(room)
                if self.used > end:
                    raise RecordBatchTooLarge("")
                if self.used < until:  # only the end of the data makes a read shorter
                    return
        except (OSError, pa.ArrowException) as e:
            raise CorruptRecordBatch(f"{name} data is corrupt: {e}") from e

    def _decompress_snappy(self, data: memoryview, end: int) -> None:
        if bytes(data[:8]) != _XERIAL_MAGIC:
            self._decompress_snappy_block(data, end)
            return
        pos = len(_XERIAL_HEADER)
        if len(data) < pos:
            raise CorruptRecordBatch("snappy data is corrupt: xerial header cut short")
        while pos < len(data):
            if len(data) - pos < 4:
                raise CorruptRecordBatch("snappy data is corrupt: block length cut short")
            (size,) = struct.unpack_from(">i", data, pos)
            pos += 4
            # At least a byte, so that the number of blocks is bounded by the bytes.
            if not 1 <= size <= len(data) - pos:
                raise CorruptRecordBatch(f"snappy data is corrupt: block of {size} bytes, {len(data) - pos} are left")
            self._decompress_snappy_block(data[pos : pos + size], end)
            pos += size

    def _decompress_snappy_block(self, block: memoryview, end: int) -> None:
        size = _snappy_size(block)
        # A copy of 64 bytes takes 3: a block never grows more than 21.4 times, so a larger claim is a lie.
        if size > 22 * len(block) + 64:
            raise CorruptRecordBatch(f"snappy data is corrupt: {len(block)} bytes claim to hold {size}")
        if size > end - self.used:
            raise RecordBatchTooLarge("")
        self._room(self.used + size)
        with memoryview(self._memory) as memory, memory[self.used : self.used + size] as room:
            try:
                count: Any = cramjam.snappy.decompress_raw_into(block, room) if size else 0
            except cramjam.DecompressionError as e:
                raise CorruptRecordBatch(f"snappy data is corrupt: {e}") from e
        if count != size:
            raise CorruptRecordBatch(f"snappy data is corrupt: {count} bytes where {size} were claimed")
        self.used += size


_KEPT_ARENA_BYTES = 8 << 20  # what pieces of 4 MiB make it grow to
# Arenas not in use; a call takes one and gives it back. list.pop and append are atomic, so threads may share it.
_arenas: list[Arena] = []


@contextmanager
def scratch_arena() -> Iterator[Arena]:
    """An empty arena, used again by later calls unless it grew large. No view of it may outlive the block."""
    arena = _arenas.pop() if _arenas else Arena()
    arena.used = 0
    try:
        yield arena
    finally:
        if arena.capacity <= _KEPT_ARENA_BYTES:
            _arenas.append(arena)


def _snappy_size(block: memoryview) -> int:
    """The decompressed size that a raw snappy block starts with: an unsigned varint of 32 bits."""
    size = 0
    for i in range(min(5, len(block))):
        size |= (block[i] & 0x7F) << (7 * i)
        if block[i] < 0x80:
            return size
    raise CorruptRecordBatch("snappy data is corrupt: size cut short")


def decompress_section(arena: Arena, codec: int, section: Any, limit: int, where: str) -> tuple[int, int]:
    """`Arena.decompress` of what a batch or message holds, with its place in the text of errors."""
    compressed = pa.py_buffer(section)
    try:
        return arena.decompress(codec, compressed, max(limit, 0))
    except RecordBatchTooLarge:
        raise RecordBatchTooLarge(
            f"{where}: {compressed.size} compressed bytes hold more than the {limit} bytes allowed for them"
        ) from None
    except UnsupportedRecordFormat as e:
        raise UnsupportedRecordFormat(f"{where}: {e}") from e
    except CorruptRecordBatch as e:
        raise CorruptRecordBatch(f"{where}: {e}") from e


def with_right_lz4_header(frame: memoryview) -> bytes:
    """An LZ4 frame with the checksum byte that its header should have.

    In message sets v0 it is that of other bytes: Kafka's first LZ4 took the frame's magic number in (KIP-57).
    """
    flags = frame[4] if len(frame) > 4 else 0
    end = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # with content size, with dictionary id
    checksum = _xxh32(bytes(frame[4:end])) >> 8 & 0xFF
    return b"".join((frame[:end], bytes([checksum]), frame[end + 1 :]))


def with_first_lz4_header(frame: bytes) -> bytes:
    """An LZ4 frame of ours as message sets v0 want it: the header's checksum takes the magic number in."""
    return frame[:6] + bytes([_xxh32(frame[:6]) >> 8 & 0xFF]) + frame[7:]


def _xxh32(data: bytes) -> int:
    """Of fewer than 16 bytes, seed 0: all that a frame's header can have."""
    p1, p2, p3, p4, p5 = _XXH32_PRIMES
    words = len(data) // 4 * 4
    value = p5 + len(data)
    for (word,) in struct.iter_unpack("<I", data[:words]):
        value = _rotated(value + word * p3, 17) * p4
    for byte in data[words:]:
        value = _rotated(value + byte * p5, 11) * p1
    for shift, prime in ((15, p2), (13, p3), (16, 1)):
        value &= 0xFFFFFFFF
        value = (value ^ value >> shift) * prime
    return value


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF
