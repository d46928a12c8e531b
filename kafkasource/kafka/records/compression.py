"""Kafka's five codecs over whole sections of records. The size of the output is bounded before memory is allocated.

Output has the form that Kafka's Java classes write: gzip with its header, snappy in xerial's framing, lz4 as frames of
independent 64 KiB blocks (Kafka's reader refuses linked blocks, which is what a plain LZ4 frame encoder writes for more
than one block), zstd frames. Input may have this form, or snappy without framing, as librdkafka's oldest and Go clients
write it. As in Java's readers, bytes behind a whole gzip member or lz4 frame that do not continue the data are ignored:
a broker stores such batches.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import cramjam
import pyarrow as pa

from kafkasource.errors import CorruptRecordBatch, ProtocolError, UnsupportedRecordFormat, explained

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
# None where the codec has no levels; else inclusive. Bounds of KIP-390.
LEVELS: dict[int, tuple[int, int] | None] = {NONE: None, GZIP: (1, 9), SNAPPY: None, LZ4: (1, 17), ZSTD: (-131072, 22)}
_DEFAULT_LEVEL = {GZIP: 6, ZSTD: 3}

_STREAMED: dict[int, str] = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 << 10
# Magic; version 01 and independent blocks; blocks of at most 64 KiB; the second byte of xxh32 of these two.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 << 10
_LZ4_UNCOMPRESSED = 0x80000000
_LZ4_MAGIC = _LZ4_HEADER[:4]
_STEP_BYTES = 64 << 10
_GZIP_STEP_BYTES = 1 << 10
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = 0x184D2A50  # the last four bits are free
_ZSTD_LEAST_WINDOW_LOG, _ZSTD_BLOCK_LOG = 10, 17
_ZSTD_RLE, _ZSTD_RESERVED = 1, 3  # kinds of blocks
_XXH32_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)

MAX_SECTION_BYTES = (1 << 31) - 1  # Arrow's binary columns have int32 offsets
# A call that has decompressed batches takes no further one beyond this (or what its caller says), so that a fetch of
# 1 MiB which holds 100 MiB is handed on in pieces. One batch alone may have all that the caller allows (decision 15).
PIECE_BYTES = 4 << 20


class RecordBatchTooLarge(ProtocolError):
    """A record batch is larger than allowed once decompressed."""

    says_all = True


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


_POOL = pa.default_memory_pool()  # arenas are kept, so they never come from a pool that is set for a while


_KEPT_ARENA_BYTES = 8 << 20  # pieces of 4 MiB make it grow to this


class Arena:
    """Scratch memory that sections are decompressed into, one after the other.

    It doubles up to 8 MiB. A section that does not fit there is decompressed once to learn its size, and once more into
    memory of just that size: so a bomb is refused before anything is allocated for it. Positions stay valid when it
    grows, views do not: take `view()` when all sections are in. The memory is native, as all large memory here.
    """

    def __init__(self) -> None:
        self._memory = memoryview(pa.allocate_buffer(_STEP_BYTES, _POOL)).cast("B")
        self.used = 0
        self.piece_bytes = PIECE_BYTES  # a call that has decompressed something decompresses at most this in all

    @property
    def capacity(self) -> int:
        return len(self._memory)

    def view(self) -> memoryview:
        return memoryview(self._memory)

    def decompress(self, codec: int, data: pa.Buffer, limit: int) -> tuple[int, int]:
        """Append the contents of `data`, at most `limit` bytes. Returns their [start, end) here.

        Raises RecordBatchTooLarge beyond `limit`, having allocated at most 8 MiB, or `limit` where that is less;
        and CorruptRecordBatch for bytes that are not the codec's. Beside that the codec has its own memory: zstd its
        window, `limit` rounded up to a power of two at most, and lz4 some blocks of up to 4 MiB.
        """
        start = self.used
        try:
            if codec == SNAPPY:
                self._decompress_snappy(memoryview(data).cast("B"), start + limit)
            elif codec == ZSTD:
                self._decompress_zstd(data, start + limit)
            elif codec in _WHOLE_BYTES:
                self._decompress_whole(codec, data, start + limit)
            else:
                raise UnsupportedRecordFormat(f"compression codec {codec} is unknown")
        except BaseException:
            self.used = start
            raise
        return start, self.used

    def _room(self, end: int, most: int) -> None:
        """Make it `end` bytes long: by doubling it while it is small, up to `most`, else exactly."""
        if end > len(self._memory):
            size = max(end, min(2 * len(self._memory), most, _KEPT_ARENA_BYTES))
            larger = memoryview(pa.allocate_buffer(size, _POOL)).cast("B")
            larger[: self.used] = self._memory[: self.used]
            self._memory = larger

    def _decompress_stream(self, name: str, data: pa.Buffer, end: int) -> None:
        if not data.size:
            raise CorruptRecordBatch(f"{name} data is corrupt: it is empty")
        start = self.used
        try:
            stream = pa.CompressedInputStream(pa.BufferReader(data), name)
            step = max(_STEP_BYTES, min(4 * data.size, 4 << 20))
            while True:
                until = min(self.used + step, end)
                if until > max(len(self._memory), _KEPT_ARENA_BYTES):
                    end = until = self.used + _count(stream, end - self.used)
                    self.used = start
                    self._room(end, end)
                    stream = pa.CompressedInputStream(pa.BufferReader(data), name)
                self._room(until, end)
                with memoryview(self._memory) as memory, memory[self.used : until] as room:
                    self.used += stream.readinto(room)
                if self.used < until:  # only the end of the data makes a read shorter
                    return
                if self.used == end:
                    if stream.read(1):
                        raise RecordBatchTooLarge("")
                    return
        except (OSError, pa.ArrowException) as e:
            raise CorruptRecordBatch(f"{name} data is corrupt: {e}") from e

    def _decompress_whole(self, codec: int, data: pa.Buffer, end: int) -> None:
        """Decompress without the bytes behind the last whole member or frame, if those make no sense."""
        start = self.used
        try:
            self._decompress_stream(_STREAMED[codec], data, end)
        except CorruptRecordBatch:
            whole = _WHOLE_BYTES[codec](memoryview(data).cast("B"))
            if not 0 < whole < data.size:
                raise
            self.used = start
            self._decompress_stream(_STREAMED[codec], data.slice(0, whole), end)

    def _decompress_zstd(self, data: pa.Buffer, end: int) -> None:
        bounded = _with_bounded_windows(data, end - self.used)
        try:
            self._decompress_stream(_STREAMED[ZSTD], bounded, end)
        except CorruptRecordBatch:
            if bounded is data:
                raise
            # A match reaches behind the lowered window, so more than the limit was to come. Or the bytes are damaged:
            # then the CRC was wrong, or a call with more room says so.
            raise RecordBatchTooLarge("") from None

    def _decompress_snappy(self, data: memoryview, end: int) -> None:
        """Blocks have their sizes, so the total is known before anything is allocated."""
        total = sum(_snappy_size(block) for block in _snappy_blocks(data))
        if total > end - self.used:
            raise RecordBatchTooLarge("")
        self._room(self.used + total, end)
        for block in _snappy_blocks(data):
            self._decompress_snappy_block(block, _snappy_size(block))

    def _decompress_snappy_block(self, block: memoryview, size: int) -> None:
        with memoryview(self._memory) as memory, memory[self.used : self.used + size] as room:
            try:
                count: int = cramjam.snappy.decompress_raw_into(block, room) if size else 0
            except cramjam.DecompressionError as e:
                raise CorruptRecordBatch(f"snappy data is corrupt: {e}") from e
        if count != size:
            raise CorruptRecordBatch(f"snappy data is corrupt: {count} bytes where {size} were claimed")
        self.used += size


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


def _count(stream: pa.NativeFile, most: int) -> int:
    """The number of bytes left in the stream. Raises RecordBatchTooLarge beyond `most`."""
    scratch = memoryview(bytearray(4 * _STEP_BYTES))
    total: int = 0
    while True:
        size = stream.readinto(scratch)
        total += size
        if total > most:
            raise RecordBatchTooLarge("")
        if size < len(scratch):
            return total


def _whole_gzip_bytes(data: memoryview) -> int:
    """The position behind the last whole member. 0: the first member is not whole."""
    pos = whole = 0
    member = zlib.decompressobj(wbits=31)
    try:
        while pos < len(data):
            # Small steps: where a member ends within one, zlib copies the rest of the step.
            step: bytes | memoryview = data[pos : pos + _GZIP_STEP_BYTES]
            pos += len(step)
            while step and not member.eof:
                member.decompress(step, _STEP_BYTES)
                step = member.unconsumed_tail
            if member.eof:
                pos -= len(member.unused_data)
                whole, member = pos, zlib.decompressobj(wbits=31)
    except zlib.error:
        pass
    return whole


def _whole_lz4_bytes(data: memoryview) -> int:
    """The position behind the last whole frame, by the lengths of blocks. 0: the first frame is not whole."""
    pos = whole = 0
    while bytes(data[pos : pos + 4]) == _LZ4_MAGIC and len(data) - pos > len(_LZ4_HEADER):
        flags = data[pos + 4]
        pos += len(_LZ4_HEADER) + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # content size, dictionary id
        size = 1
        while size and pos + 4 <= len(data):
            (size,) = struct.unpack_from("<I", data, pos)
            pos += 4
            if size:
                pos += (size & ~_LZ4_UNCOMPRESSED) + (4 if flags & 0x10 else 0)  # with the block's checksum
        pos += 4 if flags & 0x04 else 0  # the content's checksum
        if size or pos > len(data):
            break
        whole = pos
    return whole


_WHOLE_BYTES: dict[int, Callable[[memoryview], int]] = {GZIP: _whole_gzip_bytes, LZ4: _whole_lz4_bytes}


def _snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        yield data
        return
    pos = len(_XERIAL_HEADER)
    if len(data) < pos:
        raise CorruptRecordBatch("snappy data is corrupt: xerial header cut short")
    while len(data) - pos >= 4:  # Java's reader ignores a last block whose length is cut
        if bytes(data[pos : pos + 8]) == _XERIAL_MAGIC:  # and takes streams one behind the other
            pos += len(_XERIAL_HEADER)
            continue
        (size,) = struct.unpack_from(">i", data, pos)
        pos += 4
        # At least a byte, so that the number of blocks is bounded by the bytes.
        if not 1 <= size <= len(data) - pos:
            raise CorruptRecordBatch(f"snappy data is corrupt: block of {size} bytes, {len(data) - pos} are left")
        yield data[pos : pos + size]
        pos += size


def _snappy_size(block: memoryview) -> int:
    """The decompressed size that a raw snappy block starts with: an unsigned varint of 32 bits."""
    size = 0
    for i in range(min(5, len(block))):
        size |= (block[i] & 0x7F) << (7 * i)
        if block[i] < 0x80:
            # A copy of 64 bytes takes 3: a block never grows more than 21.4 times, so a larger claim is a lie.
            if size > 22 * len(block) + 64:
                raise CorruptRecordBatch(f"snappy data is corrupt: {len(block)} bytes claim to hold {size}")
            return size
    raise CorruptRecordBatch("snappy data is corrupt: size cut short")


def _with_bounded_windows(data: pa.Buffer, limit: int) -> pa.Buffer:
    """zstd frames whose windows are as large as `limit` needs, and no larger: the same bytes in nearly all cases.

    A decoder allocates what the frame's header claims as its window: 128 MiB for a few bytes that Java's producer wrote
    at level 22. No match reaches back beyond the first byte, and a frame with more than `limit` bytes is refused. So a
    window of that size is enough, and this function lowers the header's claim to it. Raises RecordBatchTooLarge where a
    header says that its frame holds more than `limit`, and CorruptRecordBatch for frames from before zstd 0.8.
    Decision 98.
    """
    raw = data.to_pybytes()
    window_log = max((limit - 1).bit_length() if limit > 1 else 0, _ZSTD_BLOCK_LOG)
    lowered = [pos for pos in _zstd_windows(raw, limit) if _ZSTD_LEAST_WINDOW_LOG + (raw[pos] >> 3) >= window_log]
    if not lowered:
        return data
    changed = bytearray(raw)
    for pos in lowered:
        changed[pos] = min(changed[pos], window_log - _ZSTD_LEAST_WINDOW_LOG << 3)
    return pa.py_buffer(changed)


def _zstd_windows(raw: bytes, limit: int) -> Iterator[int]:
    """Find the window descriptors in the headers of the frames (RFC 8878). Ends at bytes that are not a frame."""
    pos = 0
    while pos + 5 <= len(raw):
        magic = raw[pos : pos + 4]
        if int.from_bytes(magic, "little") & ~0xF == _ZSTD_SKIPPABLE:
            pos += 8 + int.from_bytes(raw[pos + 4 : pos + 8], "little")
            continue
        if magic != _ZSTD_MAGIC:
            raise CorruptRecordBatch(f"zstd data is corrupt: no frame begins with {magic.hex()}")
        descriptor = raw[pos + 4]
        single = descriptor & 0x20
        if not single and pos + 5 < len(raw):
            yield pos + 5
        content = pos + 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
        content_bytes = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
        size = int.from_bytes(raw[content : content + content_bytes], "little") + (256 if content_bytes == 2 else 0)
        if size > limit:
            raise RecordBatchTooLarge("")
        if raw.find(_ZSTD_MAGIC, pos + 4) < 0:
            return  # the last frame
        pos = _zstd_end(raw, content + content_bytes) + (4 if descriptor & 0x04 else 0)


def _zstd_end(raw: bytes, pos: int) -> int:
    """Find the position behind the blocks of a frame. If the bytes are not blocks, return their end: the decoder raises
    the error."""
    last = False
    while not last and pos + 3 <= len(raw):
        header = int.from_bytes(raw[pos : pos + 3], "little")
        last, kind = bool(header & 1), header >> 1 & 3
        if kind == _ZSTD_RESERVED:
            return len(raw)
        pos += 3 + (1 if kind == _ZSTD_RLE else header >> 3)
    return pos


def decompress_section(
    arena: Arena, codec: int, section: memoryview | bytes, limit: int, where: str
) -> tuple[int, int]:
    """`Arena.decompress` for the contents of a batch or message, with its place in the text of errors."""
    compressed = pa.py_buffer(section)
    try:
        return arena.decompress(codec, compressed, max(limit, 0))
    except RecordBatchTooLarge:
        raise RecordBatchTooLarge(
            f"{where}: {compressed.size} compressed bytes hold more than the {limit} bytes allowed for them. If you "
            "trust who wrote them, raise 'kafka.max.decompressed.batch.bytes' "
            f"{explained('raise-kafkamaxdecompressedbatchbytes')}"
        ) from None
    except UnsupportedRecordFormat as e:
        raise UnsupportedRecordFormat(f"{where}: {e}") from e
    except CorruptRecordBatch as e:
        raise CorruptRecordBatch(f"{where}: {e}") from e


def with_right_lz4_header(frame: memoryview) -> bytes:
    """An LZ4 frame with the checksum byte that its header should have.

    In message sets v0 the checksum is over other bytes: Kafka's first LZ4 included the frame's magic number (KIP-57).
    """
    flags = frame[4] if len(frame) > 4 else 0
    end = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # with content size, with dictionary id
    checksum = _xxh32(bytes(frame[4:end])) >> 8 & 0xFF
    return b"".join((frame[:end], bytes([checksum]), frame[end + 1 :]))


def with_first_lz4_header(frame: bytes) -> bytes:
    """One of our LZ4 frames in the form of message sets v0: the header's checksum includes the magic number."""
    return frame[:6] + bytes([_xxh32(frame[:6]) >> 8 & 0xFF]) + frame[7:]


def _xxh32(data: bytes) -> int:
    """xxh32 of fewer than 16 bytes, seed 0: a frame's header has no more."""
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
