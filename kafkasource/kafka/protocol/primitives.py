"""Kafka's primitive types, from and to bytes (https://kafka.apache.org/protocol, "Protocol Primitive Types").

Everything is big-endian. A length or count from the wire is checked against the bytes that are left before anything is
allocated for it. Bytes that are not Kafka's raise `ProtocolError`, and so do values that do not fit their type.

    STRING   int16 length, UTF-8                compact: unsigned varint of length + 1, UTF-8       null: -1 / 0
    BYTES    int32 length, bytes                compact: unsigned varint of length + 1, bytes       null: -1 / 0
    ARRAY    int32 count, elements              compact: unsigned varint of count + 1, elements     null: -1 / 0
    tags     unsigned varint count, then for each, ascending: tag, size (both unsigned varints), size bytes (KIP-482)
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from uuid import UUID

from kafkasource.errors import AnswerTooLarge, ProtocolError

Buffer: TypeAlias = bytes | bytearray | memoryview

ZERO_UUID = UUID(int=0)

MAX_STRING_BYTES = 0x7FFF
"""Of a string in UTF-8; Java refuses longer ones in the compact form too, which could carry more."""

MAX_MEMORY_BYTES = 256 << 20
"""Memory for the elements of all arrays of one message, beside the text in them: a body of tiny structs costs 80 times
its bytes in objects. Each array is charged before it is made, an element by its type (`schema`; a test measures). How
many elements one array has is bounded by this, and by the bytes that are there. A message that grows with the cluster
may take more, in proportion to its bytes (`Message.memory_factor`).
"""

MAX_TAGS = 64
"""Tagged fields of one struct; Kafka has at most five."""

COPY_BELOW_BYTES = 4096
"""Records shorter than this are copied between their neighbours: one more piece for the socket costs more."""

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT16 = struct.Struct(">H")
_UINT32 = struct.Struct(">I")
_FLOAT64 = struct.Struct(">d")


class ByteReader:
    """Takes values off the front of a buffer. A `memoryview` that it returns shares that buffer, keeps it alive."""

    __slots__ = ("_view", "end", "memory_bytes", "memory_limit", "pos")

    def __init__(self, data: Buffer) -> None:
        self._view = memoryview(data).cast("B")
        self.memory_bytes = 0  # memory that was charged until now
        self.memory_limit = MAX_MEMORY_BYTES
        self.pos = 0
        self.end = len(self._view)

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return self.end - self.pos

    def take(self, size: int) -> memoryview:
        """The next `size` bytes, not copied."""
        pos = self.pos
        end = pos + size
        if size < 0 or end > self.end:
            raise ProtocolError(f"{size} bytes wanted at byte {pos}, {self.end - pos} left")
        self.pos = end
        return self._view[pos:end]

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Several fixed-width values at once: the fast way through a struct of integers."""
        pos = self.pos
        end = pos + layout.size
        if end > self.end:
            raise ProtocolError(f"{layout.size} bytes wanted at byte {pos}, {self.end - pos} left")
        self.pos = end
        return layout.unpack_from(self._view, pos)

    def rows(self, layout: struct.Struct, count: int, *, zero_at_end: bool) -> Iterator[tuple[Any, ...]] | None:
        """`count` times the layout; None, and nothing read, where bytes are missing or a row's last one is not 0."""
        end = self.pos + count * layout.size
        if end > self.end:
            return None
        view = self._view[self.pos : end]
        if zero_at_end and any(view[layout.size - 1 :: layout.size]):
            return None
        self.pos = end
        return layout.iter_unpack(view)

    def int8(self) -> int:
        value: int = self.unpack(_INT8)[0]
        return value

    def int16(self) -> int:
        value: int = self.unpack(_INT16)[0]
        return value

    def int32(self) -> int:
        value: int = self.unpack(_INT32)[0]
        return value

    def int64(self) -> int:
        value: int = self.unpack(_INT64)[0]
        return value

    def uint16(self) -> int:
        value: int = self.unpack(_UINT16)[0]
        return value

    def uint32(self) -> int:
        value: int = self.unpack(_UINT32)[0]
        return value

    def float64(self) -> float:
        value: float = self.unpack(_FLOAT64)[0]
        return value

    def boolean(self) -> bool:
        """Any byte but 0 is true, as in Java."""
        return self.int8() != 0

    def uuid(self) -> UUID:
        raw = bytes(self.take(16))
        return UUID(bytes=raw) if any(raw) else ZERO_UUID

    def unsigned_varint(self) -> int:
        """0 to 2**32 - 1 in at most five bytes."""
        return self._base128(32)

    def varint(self) -> int:
        """A zigzag int32: 0, -1, 1, -2 are 0, 1, 2, 3."""
        raw = self._base128(32)
        return (raw >> 1) ^ -(raw & 1)

    def varlong(self) -> int:
        """A zigzag int64, in at most ten bytes."""
        raw = self._base128(64)
        return (raw >> 1) ^ -(raw & 1)

    def _base128(self, bits: int) -> int:
        view, pos, end = self._view, self.pos, self.end
        if pos < end and view[pos] < 0x80:  # most are lengths of short strings, or counts of no tags
            self.pos = pos + 1
            return view[pos]
        value = shift = 0
        while pos < end and shift < bits:
            byte = view[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    raise ProtocolError(f"varint above {bits} bits at byte {self.pos}")
                self.pos = pos
                return value
            shift += 7
        raise ProtocolError(f"varint {'too long' if shift >= bits else 'cut short'} at byte {self.pos}")

    def string(self) -> str:
        return self._text(self._present(self.int16()))

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length == -1 else self._text(length)

    def compact_string(self) -> str:
        return self._text(self._present(self.unsigned_varint() - 1))

    def compact_nullable_string(self) -> str | None:
        length = self.unsigned_varint() - 1
        return None if length == -1 else self._text(length)

    def bytes_(self) -> memoryview:
        return self.take(self._present(self.int32()))

    def nullable_bytes(self) -> memoryview | None:
        length = self.int32()
        return None if length == -1 else self.take(length)

    def compact_bytes(self) -> memoryview:
        return self.take(self._present(self.unsigned_varint() - 1))

    def compact_nullable_bytes(self) -> memoryview | None:
        length = self.unsigned_varint() - 1
        return None if length == -1 else self.take(length)

    def array_length(self, *, compact: bool, element_bytes: int, element_memory_bytes: int = 128) -> int | None:
        """The count before an array, None for null.

        `element_bytes`: the least that an element takes on the wire, 1 or more. `element_memory_bytes`: the most that
        it takes as a value, without its texts and its own arrays.
        """
        pos = self.pos
        count = self.unsigned_varint() - 1 if compact else self.int32()
        if count == -1:
            return None
        if count < 0 or count * element_bytes > self.remaining:
            raise ProtocolError(f"array of {count} elements at byte {pos}, {self.remaining} bytes left")
        self.memory_bytes += count * element_memory_bytes
        if self.memory_bytes > self.memory_limit:
            raise AnswerTooLarge(
                f"array of {count} elements at byte {pos}: with it the message would take {self.memory_bytes >> 20} MiB"
                f" of memory, above our limit of {self.memory_limit >> 20}"
            )
        return count

    def tagged_fields(self, known: Callable[[int], bool]) -> None:
        """Call `known(tag)` on each tagged field; it reads the value and returns True, or False to have it skipped."""
        count = self.unsigned_varint()
        if count == 0:
            return
        if count > MAX_TAGS:
            raise ProtocolError(f"{count} tagged fields at byte {self.pos}, at most {MAX_TAGS} expected")
        end, previous = self.end, -1
        for _ in range(count):
            tag = self.unsigned_varint()
            if tag <= previous:
                raise ProtocolError(f"tag {tag} after tag {previous} at byte {self.pos}")
            previous = tag
            size = self.unsigned_varint()
            if size > end - self.pos:
                raise ProtocolError(f"tagged field of {size} bytes at byte {self.pos}, {end - self.pos} left")
            self.end = self.pos + size  # a tagged value cannot run over into what follows it
            if not known(tag):
                self.pos = self.end
            elif self.pos != self.end:
                raise ProtocolError(f"{self.remaining} bytes after the value of tag {tag} at byte {self.pos}")
            self.end = end

    def skip_tagged_fields(self) -> None:
        self.tagged_fields(lambda tag: False)

    def finish(self) -> None:
        """Nothing may follow."""
        if self.pos != self.end:
            raise ProtocolError(f"{self.remaining} bytes too many, from byte {self.pos} on")

    def _present(self, length: int) -> int:
        if length == -1:
            raise ProtocolError(f"null at byte {self.pos} where a value must be")
        return length

    def _text(self, length: int) -> str:
        if length > MAX_STRING_BYTES:
            raise ProtocolError(f"string of {length} bytes at byte {self.pos}")
        pos = self.pos
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"string at byte {pos} is not UTF-8: {error.reason}") from None


class ByteWriter:
    """Puts values one after another. Records are not copied: they stay pieces of their own among `parts()`."""

    __slots__ = ("_buffer", "_parts")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._parts: list[bytearray | memoryview] = []

    def parts(self) -> list[bytearray | memoryview]:
        """All that was written, in order. Not to be written to after this."""
        return [*self._parts, self._buffer] if self._buffer or not self._parts else list(self._parts)

    def getvalue(self) -> bytes:
        return b"".join(self.parts())

    def raw(self, data: Buffer) -> None:
        self._buffer += data

    def pack(self, layout: struct.Struct, *values: object) -> None:
        """Several fixed-width values at once."""
        try:
            self._buffer += layout.pack(*values)
        except struct.error as error:
            raise ProtocolError(f"cannot write {brief(values)}: {error}") from None

    def int8(self, value: int) -> None:
        self.pack(_INT8, value)

    def int16(self, value: int) -> None:
        self.pack(_INT16, value)

    def int32(self, value: int) -> None:
        self.pack(_INT32, value)

    def int64(self, value: int) -> None:
        self.pack(_INT64, value)

    def uint16(self, value: int) -> None:
        self.pack(_UINT16, value)

    def uint32(self, value: int) -> None:
        self.pack(_UINT32, value)

    def float64(self, value: float) -> None:
        self.pack(_FLOAT64, value)

    def boolean(self, value: bool) -> None:
        self._buffer.append(1 if value else 0)

    def uuid(self, value: UUID) -> None:
        if not isinstance(value, UUID):
            raise ProtocolError(f"cannot write {brief(value)}: not a UUID")
        self._buffer += value.bytes

    def unsigned_varint(self, value: int) -> None:
        self._base128(value, 32)

    def varint(self, value: int) -> None:
        self._base128(value << 1 ^ value >> 31, 32)

    def varlong(self, value: int) -> None:
        self._base128(value << 1 ^ value >> 63, 64)

    def _base128(self, value: int, bits: int) -> None:
        if value < 0 or value >> bits:
            raise ProtocolError(f"varint above {bits} bits")
        while value > 0x7F:
            self._buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self._buffer.append(value)

    def string(self, value: str) -> None:
        raw = _utf8(value)
        self.int16(len(raw))
        self._buffer += raw

    def nullable_string(self, value: str | None) -> None:
        if value is None:
            self.int16(-1)
        else:
            self.string(value)

    def compact_string(self, value: str) -> None:
        raw = _utf8(value)
        self.unsigned_varint(len(raw) + 1)
        self._buffer += raw

    def compact_nullable_string(self, value: str | None) -> None:
        if value is None:
            self._buffer.append(0)
        else:
            self.compact_string(value)

    def bytes_(self, value: Buffer) -> None:
        view = _bytes_view(value)
        self.int32(len(view))
        self._piece(view)

    def nullable_bytes(self, value: Buffer | None) -> None:
        if value is None:
            self.int32(-1)
        else:
            self.bytes_(value)

    def compact_bytes(self, value: Buffer) -> None:
        view = _bytes_view(value)
        self.unsigned_varint(len(view) + 1)
        self._piece(view)

    def compact_nullable_bytes(self, value: Buffer | None) -> None:
        if value is None:
            self._buffer.append(0)
        else:
            self.compact_bytes(value)

    def array_length(self, count: int | None, *, compact: bool) -> None:
        if compact:
            self.unsigned_varint(0 if count is None else count + 1)
        else:
            self.int32(-1 if count is None else count)

    def _piece(self, view: memoryview) -> None:
        if len(view) < COPY_BELOW_BYTES:
            self._buffer += view
            return
        if self._buffer:
            self._parts.append(self._buffer)
        self._parts.append(view)
        self._buffer = bytearray()


def brief(value: object) -> str:
    """Describe a value for an error, without printing a payload."""
    return reprlib.repr(value)


def _utf8(value: str) -> bytes:
    if not isinstance(value, str):
        raise ProtocolError(f"cannot write {brief(value)}: not a string")
    try:
        raw = value.encode()
    except UnicodeEncodeError as error:
        raise ProtocolError(f"cannot write {brief(value)}: {error.reason}") from None
    if len(raw) > MAX_STRING_BYTES:
        raise ProtocolError(f"string of {len(raw)} bytes, at most {MAX_STRING_BYTES} can be written")
    return raw


def _bytes_view(value: Buffer) -> memoryview:
    try:
        return memoryview(value).cast("B")
    except TypeError:
        raise ProtocolError(f"cannot write a {type(value).__name__} as contiguous bytes") from None
