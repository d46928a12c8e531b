# cython: language_level=3, annotation_typing=False
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Runs programs (`opcodes`) over a column of records and fills Arrow buffers; the GIL is released.

`Decoding` has one program for each writer and a table of columns, which all programs fill. It allocates nothing: the
caller hands in the buffers (`place`). Where one is full, `run` stops at that very instruction; the caller places a
larger one and calls `run` again, or lets it end the piece, or gives the record up (`refuse`). The C stack does not grow
with the input: lists within lists are a stack of `depth` frames, which the programs' depth bounds.

Nothing needs to be undone when a record turns out bad: the place of a column's next value follows from `index` alone.
The offset at `index` says where its bytes or items begin, so null at the row drops all that the record has written.

Invariants: no length is used before it was compared with the bytes left of the record, and no byte is written before
the room of the column was compared: `_table` holds it, in bytes or items. Buffers of bytes are READ_AHEAD larger than
their room. The program itself is trusted, it is ours; its input is not. Cython's bounds checks are off;
tests/kafka/records/test_sanitized.py runs the wrong bytes under AddressSanitizer.

The same file runs interpreted; C types are in kernel.pxd. Branches under `cython.compiled` fall away in either build.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from kafkasource.kafka.records import _nocython as cython

if not cython.compiled:  # compiled, kernel.pxd has them
    from kafkasource.formats.buffers import (
        bit_at,
        buffer_of,
        cell_of,
        is_little,
        put_bit,
        signed32,
        signed64,
        store32,
        store64,
    )
    from kafkasource.formats.decoding.opcodes import (
        BAD_BOOLEAN,
        BAD_BRANCH,
        BAD_COUNT,
        BAD_DECIMAL,
        BAD_GROUP,
        BAD_LENGTH,
        BAD_SYMBOL,
        BAD_TAG,
        BAD_TIMESTAMP,
        BAD_UTF8,
        BAD_VARINT,
        BINARY,
        BITS,
        BLOCK,
        BOOLEAN,
        BYTES,
        CALL,
        CONST,
        CONST_BYTES,
        COPY4,
        COPY8,
        CUT,
        DATA_AT,
        DECIMAL,
        DECIMAL_FIXED,
        DIVIDE,
        END,
        ENUM,
        FIXED,
        FLOAT_TO_DOUBLE,
        INT32,
        INT64,
        ITEM_LIST,
        ITEMS,
        ITEMS_END,
        JUMP,
        KIND,
        LAST,
        LEFT,
        LEVEL,
        LIST,
        LONG,
        MISSING,
        MULTIPLY,
        NEXT,
        NULLS,
        NUMBER,
        OPTIONAL,
        PARENT,
        RECURSION,
        RETURN,
        ROOM,
        SKIP,
        SKIP_BLOCK,
        SKIP_LIST,
        SKIP_NEXT,
        SKIP_SIZED,
        SKIP_VARINT,
        STEP,
        STRING,
        SWITCH,
        TO_DOUBLE,
        TO_FLOAT,
        TOO_LARGE,
        TRAILING,
        UNKNOWN_SYMBOL,
        VALID,
        VALID_AT,
        VALUES_AT,
        WIDTH,
    )
    from kafkasource.formats.decoding.protobuf_opcodes import (
        ALWAYS,
        END_CONST,
        END_REQUIRED,
        END_TIME,
        EXPLICIT,
        FIELD_COLUMN,
        FIELD_LIST,
        FIELD_NEXT,
        FIELD_NULLS,
        FIELD_NUMBER,
        FIELD_OP,
        FIELD_PRESENCE,
        FIELD_TAG,
        FIELD_TYPE,
        FIELD_WIRE,
        OUTER_BLOCK,
        OUTER_GROUP,
        OUTER_INDEX,
        OUTER_LIMIT,
        READ_BOOL,
        READ_ENUM,
        READ_FIXED32,
        READ_FIXED64,
        READ_INT32,
        READ_INT64,
        READ_MESSAGE,
        READ_SINT32,
        READ_SINT64,
        READ_STRING,
        WIRE_32,
        WIRE_64,
        WIRE_GROUP,
        WIRE_GROUP_END,
        WIRE_SIZED,
        WIRE_VARINT,
    )

if TYPE_CHECKING:
    from collections.abc import Sequence

    Memory = memoryview  # compiled, a pointer

COMPILED = bool(cython.compiled)
FINGERPRINT = KAFKASOURCE_KERNEL_FINGERPRINT if cython.compiled else 0  # type: ignore[name-defined]  # noqa: F821
READ_AHEAD = 16  # bytes that a copy may write beyond the room of a buffer

_ORDER = sys.byteorder
_MASK = (1 << 64) - 1


def read_varint(data: Memory, pos: int, end: int) -> tuple[int, int]:
    """(value, next pos) of a varint, unsigned. Next pos is -1 where the bytes end, -2 where more than ten are one. Bits
    beyond 64 are dropped, as all readers of Protobuf do."""
    if pos < end and data[pos] < 0x80:  # inlined where it is called
        return data[pos], pos + 1
    return read_several(data, pos, end, 0x7F)


def read_several(data: Memory, pos: int, end: int, most_last: int) -> tuple[int, int]:
    """Read a varint as `read_varint` does, of any number of bytes. `most_last`: the largest tenth byte."""
    if cython.compiled and end >= 8:
        left = end - pos
        word = load64(data, pos) if left >= 8 else load64(data, end - 8) >> (64 - 8 * left) if left > 0 else 0
        high = 0x80808080
        high = (high << 32) | high
        stops = ~word & high
        if stops != 0:  # the last of at most eight bytes is the first that has no high bit
            stops &= 0 - stops
            order = 0x00010203
            order = (order << 32) | 0x04050607
            size = ((stops >> 7) * order) >> 56  # of the bytes before it
            if size >= left:
                return 0, -1
            seven = 0x7F7F7F7F
            seven = (seven << 32) | seven
            word &= (stops - 1) & seven  # seven bits of each, put together by twos
            pairs = 0x007F007F
            pairs = (pairs << 32) | pairs
            word = (word & pairs) | ((word >> 1) & (pairs << 7))
            fours = 0x3FFF
            fours = (fours << 32) | fours
            word = (word & fours) | ((word >> 2) & (fours << 14))
            eights = 0x0FFFFFFF
            return (word & eights) | ((word >> 4) & (eights << 28)), pos + size + 1
    raw = 0
    shift = 0
    while pos < end:
        byte = data[pos]
        pos += 1
        bits = byte & 0x7F
        if shift == 63 and byte > most_last:
            return 0, -2
        raw |= bits << shift
        if byte < 0x80:
            if not cython.compiled:
                raw &= _MASK
            return raw, pos
        shift += 7
    return 0, -1


def read_long(data: Memory, pos: int, end: int) -> tuple[int, int]:
    """Read a zigzag varint of Avro, which has no bits beyond 64. Returns as `read_varint` does."""
    raw = 0
    after = pos + 1
    if pos < end and data[pos] < 0x80:
        raw = data[pos]
    else:
        raw, after = read_several(data, pos, end, 1)
    half = raw >> 1
    sign = raw & 1
    return half ^ -sign, after


def read_int(data: Memory, pos: int, end: int) -> tuple[int, int]:
    """Read a zigzag varint of 32 bits, in at most five bytes."""
    low = -2147483648
    high = 2147483647
    value, after = read_long(data, pos, end)
    if after >= 0 and (after - pos > 5 or value < low or value > high):
        return 0, -2
    return value, after


def read_count(data: Memory, pos: int, end: int) -> tuple[int, int]:
    """(how many items a block of Avro has, next pos); a negative number has the block's bytes behind it. In place of
    the pos: -1 less the error code."""
    most_items = 2147483647
    value, after = read_long(data, pos, end)
    if after >= 0 and value < 0:
        if value < -most_items:
            return 0, -1 - BAD_COUNT
        value = -value
        size, after = read_long(data, after, end)
        if after >= 0 and (size < 0 or size > end - after):
            return 0, -1 - BAD_LENGTH
    if after < 0:
        return 0, -1 - (CUT if after == -1 else BAD_VARINT)
    return value, -1 - BAD_COUNT if value > most_items else after


def low32(raw: int) -> int:
    mask = 0xFFFFFFFF
    return raw & mask


def load32(data: Memory, at: int) -> int:
    """Four bytes, little-endian."""
    if cython.compiled and is_little():
        whole = 0
        memcpy(cython.address(whole), data + at, 4)  # type: ignore[name-defined, operator]  # noqa: F821
        return whole
    raw = data[at + 3]
    raw = (raw << 8) | data[at + 2]
    raw = (raw << 8) | data[at + 1]
    return (raw << 8) | data[at]


def load64(data: Memory, at: int) -> int:
    """Eight bytes, little-endian."""
    if cython.compiled and is_little():
        whole = 0
        memcpy(cython.address(whole), data + at, 8)  # type: ignore[name-defined, operator]  # noqa: F821
        return whole
    low = load32(data, at)
    high = load32(data, at + 4)
    return (high << 32) | low


def store_as_float(out: Memory, index: int, value: int) -> None:
    """An integer, rounded once to 24 bits."""
    if cython.compiled:
        single = value
        memcpy(out + 4 * index, cython.address(single), 4)  # type: ignore[name-defined, operator]  # noqa: F821
    else:
        size = abs(value)
        more = max(size.bit_length() - 50, 0)  # beyond what float() takes as it is: only whether any bit is set counts
        size = (size >> more | (size & ((1 << more) - 1) != 0)) << more
        out[4 * index : 4 * index + 4] = struct.pack("=f", float(-size if value < 0 else size))


def store_as_double(out: Memory, index: int, value: int) -> None:
    if cython.compiled:
        wide = value
        memcpy(out + 8 * index, cython.address(wide), 8)  # type: ignore[name-defined, operator]  # noqa: F821
    else:
        out[8 * index : 8 * index + 8] = struct.pack("=d", float(value))


def scaled(value: int, factor: int, divides: bool) -> tuple[int, bool]:
    """(a number times the factor, or by it and rounded down; whether 64 bits hold it)."""
    if not divides:
        limit = 9223372036854775807
        limit = limit // factor
        return value * factor if -limit <= value <= limit else 0, -limit <= value <= limit
    if cython.compiled:
        rest = value % factor
        value = value // factor
        return value - 1 if rest < 0 else value, True
    else:
        return value // factor, True


def store_widened(out: Memory, index: int, bits: int) -> None:
    """A float, by its bits, as a double."""
    if cython.compiled:
        single = 0
        memcpy(cython.address(single), cython.address(bits), 4)  # type: ignore[name-defined]  # noqa: F821
        wide = single
        memcpy(out + 8 * index, cython.address(wide), 8)  # type: ignore[name-defined, operator]  # noqa: F821
    else:
        out[8 * index : 8 * index + 8] = struct.pack("=d", *struct.unpack("=f", bits.to_bytes(4, _ORDER)))


def copy(out: Memory, out_pos: int, data: Memory, pos: int, size: int, left: int) -> None:
    """Bytes to a buffer that has READ_AHEAD more than its room; `left`: of data behind pos."""
    if cython.compiled:
        if size <= 16 and left >= 16:
            memcpy(out + out_pos, data + pos, 16)  # type: ignore[name-defined, operator]  # noqa: F821
        else:
            memcpy(out + out_pos, data + pos, size)  # type: ignore[name-defined, operator]  # noqa: F821
    else:
        out[out_pos : out_pos + size] = data[pos : pos + size]


def is_utf8(data: Memory, pos: int, end: int) -> bool:
    """Check as the Unicode standard does: nothing overlong, no surrogates, nothing above U+10FFFF."""
    while pos < end:
        if cython.compiled:
            high = 0x80808080
            high = (high << 32) | high
            while end - pos >= 8:
                word = 0
                memcpy(cython.address(word), data + pos, 8)  # type: ignore[name-defined, operator]  # noqa: F821
                if word & high:
                    break
                pos += 8
            if end - pos < 8 and end - pos >= 4:  # the same for four bytes; some may be read twice
                first = 0
                second = 0
                memcpy(cython.address(first), data + pos, 4)  # type: ignore[name-defined, operator]  # noqa: F821
                memcpy(cython.address(second), data + end - 4, 4)  # type: ignore[name-defined, operator]  # noqa: F821
                word = first | second
                if not word & high:
                    return True
            elif pos >= end:
                return True
        lead = data[pos]
        pos += 1
        if lead < 0x80:
            continue
        least = 0x80
        most = 0xBF
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                least = 0xA0
            elif lead == 0xED:
                most = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                least = 0x90
            elif lead == 0xF4:
                most = 0x8F
        else:
            return False
        if more > end - pos:
            return False
        byte = data[pos]
        if byte < least or byte > most:
            return False
        if more > 1 and data[pos + 1] & 0xC0 != 0x80:
            return False
        if more > 2 and data[pos + 2] & 0xC0 != 0x80:
            return False
        pos += more
    return True


def put_decimal(out: Memory, index: int, data: Memory, pos: int, size: int, constants: Any, limit: int) -> bool:
    """Write big-endian bytes as Arrow's decimal128. False where it is not below the limit, or there are no bytes."""
    if size < 1:
        return False
    fill = 0xFF if data[pos] & 0x80 else 0
    while size > 16:
        if data[pos] != fill:
            return False
        pos += 1
        size -= 1
    if (data[pos] & 0x80 != 0) != (fill != 0):
        return False
    low = 0
    high = 0
    if fill:
        low = ~low
        high = ~high
    for i in range(size):
        byte = data[pos + i]
        high = (high << 8) | ((low >> 56) & 0xFF)
        low = (low << 8) | byte
        if not cython.compiled:
            high &= _MASK
            low &= _MASK
    above = high
    below = low
    if fill:
        below = ~low + 1
        above = ~high
        if not cython.compiled:
            below &= _MASK
            above &= _MASK
        if below == 0:
            above += 1
    most_below = load64(constants, limit)
    most_above = load64(constants, limit + 8)
    if above > most_above or (above == most_above and below >= most_below):
        return False
    if is_little():
        store64(out, 2 * index, low)
        store64(out, 2 * index + 1, high)
    else:
        store64(out, 2 * index, high)
        store64(out, 2 * index + 1, low)
    return True


def put_decimal_text(out: Memory, at: int, value: int) -> int:
    """An int32 in decimal digits; how many bytes that took, at most eleven."""
    size = 0
    if value < 0:
        out[at] = 45
        size = 1
        value = -value
    places = 1
    while value // places >= 10:
        places *= 10
    while places > 0:
        out[at + size] = 48 + value // places % 10
        size += 1
        places //= 10
    return size


def match_frames(
    data: memoryview,
    offsets: memoryview,
    valid: memoryview,
    shift: int,
    starts: memoryview,
    ends: memoryview,
    numbers: memoryview,
    row: int,
    last: int,
) -> int:
    """Write to `numbers` with which of the known frames each row begins, from `row` on: 0 where it is null, else 1 more
    than the place of the frame. `starts` has the frames one behind the other, `ends` where each ends. Returns the first
    row that begins with none of them, or `last`."""
    if row < 0 or len(offsets) < last + shift + 1 or len(numbers) < last:
        raise ValueError("more rows than there are")
    with cython.nogil:
        return match_known(data, offsets, valid, shift, starts, ends, numbers, row, last)


def match_known(
    input: memoryview,
    offsets: memoryview,
    valid: memoryview,
    shift: int,
    starts: memoryview,
    ends: memoryview,
    numbers: memoryview,
    row: int,
    last: int,
) -> int:
    has_nulls = len(valid) > 0
    known = len(ends)
    if cython.compiled:
        data = cython.address(input[0])
        bitmap = cython.address(valid[0])
        frames = cython.address(starts[0])
        number = 0
    else:
        data, bitmap, frames, number = input, valid, starts, 0
    while row < last:
        if has_nulls and bit_at(bitmap, row + shift) == 0:
            numbers[row] = 0
            row += 1
            continue
        begin = offsets[row + shift]
        end = offsets[row + shift + 1]
        if begin < 0 or end > len(input):
            return row
        tried = 0
        while tried < known:  # the frame of the row before first
            first = ends[number - 1] if number > 0 else 0
            size = ends[number] - first
            same = size <= end - begin
            i = 0
            while same and i < size:
                same = data[begin + i] == frames[first + i]
                i += 1
            if same:
                break
            number = number + 1 if number + 1 < known else 0
            tried += 1
        if tried == known:
            return row
        numbers[row] = number + 1
        row += 1
    return last


class Decoding:
    """Records to the columns of one reader, each record by the program of its writer.

    `columns`: (kind, width in bytes, level, last) of each, a column before what is within it; `last` is behind what is
    within it, and the columns of one level have their values at the same index: 0 is the rows, each list has another.
    """

    def __init__(
        self,
        code: memoryview,
        entries: memoryview,
        constants: memoryview,
        depth: int,
        columns: Sequence[tuple[int, int, int, int]],
    ) -> None:
        self._code = code
        self._entries = entries
        self._constants = constants
        self.columns = len(columns)
        self._table = memoryview(bytearray(8 * 8 * max(self.columns, 1))).cast("q", (max(self.columns, 1), 8))
        if cython.compiled:
            self._cells = cython.address(self._table[0, 0])
        self._views: list[Any] = [None] * (8 * self.columns)  # keeps them alive, and is where the interpreted one looks
        self._stack = memoryview(bytearray(8 * 4 * (depth + 1))).cast("q", (depth + 1, 4))
        self._most_frames = depth + 1
        self._groups = memoryview(bytearray(4 * 100)).cast("i")
        for column in range(self.columns):
            kind, width, level, last = columns[column]
            self._table[column, KIND] = kind
            self._table[column, WIDTH] = width
            self._table[column, LEVEL] = level
            self._table[column, LAST] = last
        self._paused = False
        self._failure = 0
        self._base = 0
        self._limit = 0
        self._group = 0
        self._unnamed = False
        self.row = 0
        self.bad = 0
        self.wanted_column = -1
        self.wanted = 0

    def place(self, column: int, which: int, view: memoryview) -> None:
        """A buffer of a column: 0 its validity, 1 its values, bits or offsets, 2 its bytes. Those placed before go."""
        if not 0 <= column < self.columns or not 0 <= which < 3 or len(view) == 0:
            raise ValueError("no such buffer")
        self._views[8 * column + VALID_AT + which] = view
        if cython.compiled:
            self._table[column, VALID_AT + which] = cython.cast(
                cython.longlong, cython.cast(cython.size_t, cython.address(view[0]))
            )
        else:
            self._table[column, VALID_AT + which] = 1

    def set_room(self, column: int, room: int) -> None:
        """Bytes of a column's data, or items in the columns within a list. Those must have been placed so large."""
        if not 0 <= column < self.columns or room < 0:
            raise ValueError("no such room")
        self._table[column, ROOM] = room

    def start(self, row: int) -> None:
        """Go on from this row, which is the first of new buffers."""
        self.row = row
        self._base = row
        self._paused = False
        self.bad = 0

    def refuse(self) -> None:
        """Give up the record that `run` has stopped at: it takes too much."""
        self._paused = False
        self._failure = TOO_LARGE

    def run(
        self,
        data: memoryview,
        offsets: memoryview,
        valid: memoryview,
        shift: int,
        skip_bytes: int,
        programs: memoryview,
        codes: memoryview,
        places: memoryview,
        last: int,
    ) -> bool:
        """Decode rows up to `last`. False where a column has no room: `wanted_column`, and the room that it needs.

        Row i is data[offsets[i + shift] + skip_bytes : offsets[i + shift + 1]]; not so where it is null, or
        where its program, programs[i], is below 0: then all columns are null. With no `programs`, all have program 0.
        A bad record is null, and its row in `codes` and `places`, counted from `start`, gets the error and the pc of
        the instruction.
        """
        if len(offsets) < last + shift + 1 or len(codes) < last - self._base or len(places) < last - self._base:
            raise ValueError("more rows than there are")
        if 0 < len(programs) < last or len(self._entries) == 0 or skip_bytes < 0:
            raise ValueError("no program")
        with cython.nogil:
            return self._run(data, offsets, valid, shift, skip_bytes, programs, codes, places, last)

    def _run(
        self,
        input: memoryview,
        offsets: memoryview,
        valid: memoryview,
        shift: int,
        skip_bytes: int,
        programs: memoryview,
        codes: memoryview,
        places: memoryview,
        last: int,
    ) -> bool:
        has_nulls = len(valid) > 0  # an empty bitmap means that nothing is null
        if cython.compiled:
            data = cython.address(input[0])  # where there is none, nothing reads it: each read is before `end`
            bitmap = cython.address(valid[0])
        else:
            data = input
            bitmap = valid
        while self.row < last:
            row = self.row
            at = row - self._base
            writer = programs[row] if len(programs) else 0
            code = self._failure
            self._failure = 0
            if code == 0:
                if not self._paused and (
                    writer < 0 or writer >= len(self._entries) or (has_nulls and bit_at(bitmap, row + shift) == 0)
                ):
                    self._nulls(0, self.columns, at)
                    self.row += 1
                    continue
                begin = offsets[row + shift]
                end = offsets[row + shift + 1]
                pos = begin + skip_bytes
                if begin < 0 or pos > end or end > len(input):
                    code = CUT
                    self._pc = self._entries[writer]
                else:
                    if not self._paused:
                        self._pc = self._entries[writer]
                        self._pos = pos
                        self._index = at
                        self._depth = 0
                    code = self._record(data, end, len(input))
                    self._paused = code < 0
                    if code < 0:
                        return False
            if code:
                self._nulls(0, self.columns, at)
                codes[at] = code
                places[at] = self._pc
                self.bad += 1
            self.row += 1
        return True

    def _nulls(self, first: int, last: int, index: int) -> None:
        """Null, or where a column cannot be null zero, in the columns [first, last) of the first one's level."""
        if first >= last:
            return
        level = self._table[first, LEVEL]
        for column in range(first, last):
            if self._table[column, LEVEL] != level:
                continue
            if self._table[column, VALID_AT]:
                put_bit(buffer_of(self, column, VALID_AT), index, 0)
            kind = self._table[column, KIND]
            if kind == BITS:
                put_bit(buffer_of(self, column, VALUES_AT), index, 0)
            elif kind == NUMBER:
                width = self._table[column, WIDTH]
                out = buffer_of(self, column, VALUES_AT)
                if width == 8:
                    store64(out, index, 0)
                elif width == 4:
                    store32(out, index, 0)
                else:
                    for i in range(width):
                        out[index * width + i] = 0
            elif kind in (BINARY, ITEM_LIST):
                out = buffer_of(self, column, VALUES_AT)
                store32(out, index + 1, signed32(out, index))

    def _full(self, column: int, wanted: int, pc: int, pos: int, index: int, depth: int) -> int:
        """Stop where the room of a column is not enough; `run` goes on at the same instruction."""
        self.wanted_column = column
        self.wanted = wanted
        self._pc = pc
        self._pos = pos
        self._index = index
        self._depth = depth
        return -1

    def _failed(self, code: int, pc: int) -> int:
        self._pc = pc
        return code

    def _record(self, data: Memory, end: int, data_end: int) -> int:
        """Run the program from where it is. 0, an error code, or -1 where a column is full."""
        if cython.compiled:
            code = cython.address(self._code[0])
        else:
            code = self._code
        pc = self._pc
        pos = self._pos
        index = self._index
        depth = self._depth
        while True:
            op = code[pc]
            if op == LONG:
                value, after = read_long(data, pos, end)
                if after < 0:
                    return self._failed(CUT if after == -1 else BAD_VARINT, pc)
                store64(buffer_of(self, code[pc + 1], VALUES_AT), index, value)
                pos = after
                pc += 2
            elif op in (STRING, BYTES):
                column = code[pc + 1]
                size, after = read_long(data, pos, end)
                if after < 0:
                    return self._failed(CUT if after == -1 else BAD_VARINT, pc)
                if size < 0 or size > end - after:
                    return self._failed(BAD_LENGTH, pc)
                if op == STRING and not is_utf8(data, after, after + size):
                    return self._failed(BAD_UTF8, pc)
                out = buffer_of(self, column, VALUES_AT)
                start = signed32(out, index)
                if size > self._table[column, ROOM] - start:
                    return self._full(column, start + size, pc, pos, index, depth)
                copy(buffer_of(self, column, DATA_AT), start, data, after, size, data_end - after)
                store32(out, index + 1, start + size)
                pos = after + size
                pc += 2
            elif op == COPY8:
                if end - pos < 8:
                    return self._failed(CUT, pc)
                raw = load64(data, pos)
                store64(buffer_of(self, code[pc + 1], VALUES_AT), index, raw)
                pos += 8
                pc += 2
            elif op == OPTIONAL:
                column = code[pc + 1]
                value, after = read_long(data, pos, end)
                if after < 0:
                    return self._failed(CUT if after == -1 else BAD_VARINT, pc)
                if value != 0 and value != 1:
                    return self._failed(BAD_BRANCH, pc)
                pos = after
                if value == code[pc + 2]:
                    self._nulls(column, self._table[column, LAST], index)
                    pc = code[pc + 3]
                else:
                    put_bit(buffer_of(self, column, VALID_AT), index, 1)
                    pc += 4
            elif op == VALID:
                put_bit(buffer_of(self, code[pc + 1], VALID_AT), index, 1)
                pc += 2
            elif op in (MULTIPLY, DIVIDE):
                value, after = read_long(data, pos, end)
                if after < 0:
                    return self._failed(CUT if after == -1 else BAD_VARINT, pc)
                value, fits = scaled(value, code[pc + 2], op == DIVIDE)
                if not fits:
                    return self._failed(BAD_TIMESTAMP, pc)
                store64(buffer_of(self, code[pc + 1], VALUES_AT), index, value)
                pos = after
                pc += 3
            elif op in (INT32, INT64):
                value, after = read_int(data, pos, end)
                if after < 0:
                    return self._failed(CUT if after == -1 else BAD_VARINT, pc)
                if op == INT32:
                    store32(buffer_of(self, code[pc + 1], VALUES_AT), index, value)
                else:
                    store64(buffer_of(self, code[pc + 1], VALUES_AT), index, value)
                pos = after
                pc += 2
            elif op == BOOLEAN:
                if pos >= end:
                    return self._failed(CUT, pc)
                if data[pos] > 1:
                    return self._failed(BAD_BOOLEAN, pc)
                put_bit(buffer_of(self, code[pc + 1], VALUES_AT), index, data[pos])
                pos += 1
                pc += 2
            elif op == LIST:
                self._stack[depth, LEFT] = 0
                self._stack[depth, PARENT] = index
                depth += 1
                index = signed32(buffer_of(self, code[pc + 1], VALUES_AT), index)
                pc += 2
            elif op == BLOCK:
                value, after = read_count(data, pos, end)
                if after < 0:
                    return self._failed(-1 - after, pc)
                column = code[pc + 1]
                if value == 0:
                    depth -= 1
                    parent = self._stack[depth, PARENT]
                    store32(buffer_of(self, column, VALUES_AT), parent + 1, index)
                    index = parent
                    pos = after
                    pc = code[pc + 3]
                    continue
                if code[pc + 2] > 0 and value > (end - after) // code[pc + 2]:
                    return self._failed(BAD_COUNT, pc)
                if value > self._table[column, ROOM] - index:
                    return self._full(column, index + value, pc, pos, index, depth)
                self._stack[depth - 1, LEFT] = value
                pos = after
                pc += 4
            elif op == NEXT:
                index += 1
                pc = code[pc + 1]
                self._stack[depth - 1, LEFT] -= 1
                if self._stack[depth - 1, LEFT] > 0:
                    pc += 4
            elif op == JUMP:
                pc = code[pc + 1]
            elif op == END:
                if pos != end:
                    return self._failed(TRAILING, pc)
                return 0
            else:
                self._pc = pc
                self._pos = pos
                self._index = index
                self._depth = depth
                if op == SWITCH or SKIP <= op <= SKIP_NEXT:
                    failure = self._pass_over(data, end)
                elif BOOLEAN <= op <= DECIMAL_FIXED:
                    failure = self._value(data, end, data_end)
                else:
                    failure = self._rest(data, end)
                if failure:
                    return failure
                pc = self._pc
                pos = self._pos
                index = self._index
                depth = self._depth

    def _value(self, data: Memory, end: int, data_end: int) -> int:
        """Run one instruction of a rarer kind of value. As `_record`; then the next instruction is `_pc`."""
        if cython.compiled:
            code = cython.address(self._code[0])
        else:
            code = self._code
        pc = self._pc
        pos = self._pos
        index = self._index
        depth = self._depth
        op = code[pc]
        if op in (COPY4, FLOAT_TO_DOUBLE):
            if end - pos < 4:
                return self._failed(CUT, pc)
            bits = load32(data, pos)
            if op == COPY4:
                store32(buffer_of(self, code[pc + 1], VALUES_AT), index, bits)
            else:
                store_widened(buffer_of(self, code[pc + 1], VALUES_AT), index, bits)
            pos += 4
            pc += 2
        elif op in (TO_FLOAT, TO_DOUBLE):
            value, after = read_long(data, pos, end)
            if after < 0:
                return self._failed(CUT if after == -1 else BAD_VARINT, pc)
            if op == TO_FLOAT:
                store_as_float(buffer_of(self, code[pc + 1], VALUES_AT), index, value)
            else:
                store_as_double(buffer_of(self, code[pc + 1], VALUES_AT), index, value)
            pos = after
            pc += 2
        elif op == FIXED:
            column = code[pc + 1]
            size = code[pc + 2]
            if size > end - pos:
                return self._failed(CUT, pc)
            out = buffer_of(self, column, VALUES_AT)
            start = signed32(out, index)
            if size > self._table[column, ROOM] - start:
                return self._full(column, start + size, pc, pos, index, depth)
            copy(buffer_of(self, column, DATA_AT), start, data, pos, size, data_end - pos)
            store32(out, index + 1, start + size)
            pos += size
            pc += 3
        elif op == ENUM:
            column = code[pc + 1]
            value, after = read_int(data, pos, end)
            if after < 0:
                return self._failed(CUT if after == -1 else BAD_VARINT, pc)
            if value < 0 or value >= code[pc + 2]:
                return self._failed(BAD_SYMBOL, pc)
            which = pc + 3 + 2 * value
            size = code[which + 1]
            if size < 0:
                return self._failed(UNKNOWN_SYMBOL, pc)
            out = buffer_of(self, column, VALUES_AT)
            start = signed32(out, index)
            if size > self._table[column, ROOM] - start:
                return self._full(column, start + size, pc, pos, index, depth)
            self._constant(column, start, code[which], size)
            store32(out, index + 1, start + size)
            pos = after
            pc += 3 + 2 * code[pc + 2]
        elif op in (DECIMAL, DECIMAL_FIXED):
            if op == DECIMAL:
                size, after = read_long(data, pos, end)
                if after < 0:
                    return self._failed(CUT if after == -1 else BAD_VARINT, pc)
                if size < 0 or size > end - after:
                    return self._failed(BAD_LENGTH, pc)
            else:
                size = code[pc + 3]
                after = pos
                if size > end - after:
                    return self._failed(CUT, pc)
            out = buffer_of(self, code[pc + 1], VALUES_AT)
            if cython.compiled:
                constants = cython.address(self._constants[0])
            else:
                constants = self._constants
            if not put_decimal(out, index, data, after, size, constants, code[pc + 2]):
                return self._failed(BAD_DECIMAL, pc)
            pos = after + size
            pc += 3 if op == DECIMAL else 4
        self._pc = pc
        self._pos = pos
        return 0

    def _pass_over(self, data: Memory, end: int) -> int:
        """Run instructions that pass over values or choose a branch, up to another one. As `_value`."""
        if cython.compiled:
            code = cython.address(self._code[0])
        else:
            code = self._code
        pc = self._pc
        pos = self._pos
        depth = self._depth
        while True:
            op = code[pc]
            if op != SWITCH and op != JUMP and (op < SKIP or op > SKIP_NEXT):
                break
            if op == SKIP:
                if code[pc + 1] > end - pos:
                    return self._failed(CUT, pc)
                pos += code[pc + 1]
                pc += 2
            elif op in (SKIP_VARINT, SKIP_SIZED):
                value, after = read_long(data, pos, end)
                if after < 0:
                    return self._failed(CUT if after == -1 else BAD_VARINT, pc)
                if op == SKIP_SIZED:
                    if value < 0 or value > end - after:
                        return self._failed(BAD_LENGTH, pc)
                    after += value
                pos = after
                pc += 1
            elif op == SKIP_LIST:
                depth += 1
                pc += 1
            elif op == SKIP_BLOCK:
                value, after = read_long(data, pos, end)
                if after >= 0 and value < 0:
                    size, after = read_long(data, after, end)
                    if after >= 0:
                        if size < 0 or size > end - after:
                            return self._failed(BAD_LENGTH, pc)
                        pos = after + size  # and the next block
                        continue
                if after < 0:
                    return self._failed(CUT if after == -1 else BAD_VARINT, pc)
                pos = after
                least = code[pc + 1]
                if value == 0:
                    depth -= 1
                    pc = code[pc + 2]
                elif least > 0:
                    if value > (end - pos) // least:
                        return self._failed(BAD_COUNT, pc)
                    self._stack[depth - 1, LEFT] = value
                    pc += 3
            elif op == SWITCH:
                value, after = read_long(data, pos, end)
                if after < 0:
                    return self._failed(CUT if after == -1 else BAD_VARINT, pc)
                if value < 0 or value >= code[pc + 1]:
                    return self._failed(BAD_BRANCH, pc)
                pos = after
                pc = code[pc + 2 + value]
            elif op == JUMP:
                pc = code[pc + 1]
            elif op == SKIP_NEXT:
                pc = code[pc + 1]
                self._stack[depth - 1, LEFT] -= 1
                if self._stack[depth - 1, LEFT] > 0:
                    pc += 3
        self._pc = pc
        self._pos = pos
        self._depth = depth
        return 0

    def _rest(self, data: Memory, end: int) -> int:
        """Run one instruction that is no value. As `_value`."""
        if cython.compiled:
            code = cython.address(self._code[0])
        else:
            code = self._code
        pc = self._pc
        pos = self._pos
        index = self._index
        depth = self._depth
        op = code[pc]
        if op == NULLS:
            self._nulls(code[pc + 1], code[pc + 2], index)
            pc += 3
        elif op == CALL:
            if depth + code[pc + 2] > self._most_frames:
                return self._failed(RECURSION, pc)
            self._stack[depth, PARENT] = pc + 3
            depth += 1
            pc = code[pc + 1]
        elif op == RETURN:
            depth -= 1
            pc = self._stack[depth, PARENT]
        elif op == CONST:
            self._store_constant(code[pc + 1], index, code[pc + 2])
            pc += 3
        elif op == CONST_BYTES:
            column = code[pc + 1]
            size = code[pc + 3]
            out = buffer_of(self, column, VALUES_AT)
            start = signed32(out, index)
            if size > self._table[column, ROOM] - start:
                return self._full(column, start + size, pc, pos, index, depth)
            self._constant(column, start, code[pc + 2], size)
            store32(out, index + 1, start + size)
            pc += 4
        elif op == ITEMS:
            column = code[pc + 1]
            start = signed32(buffer_of(self, column, VALUES_AT), index)
            if code[pc + 2] > self._table[column, ROOM] - start:
                return self._full(column, start + code[pc + 2], pc, pos, index, depth)
            self._stack[depth, PARENT] = index
            depth += 1
            index = start
            pc += 3
        elif op == STEP:
            index += 1
            pc += 1
        elif op == ITEMS_END:
            depth -= 1
            parent = self._stack[depth, PARENT]
            store32(buffer_of(self, code[pc + 1], VALUES_AT), parent + 1, index)
            index = parent
            pc += 2
        else:  # FAIL
            return self._failed(code[pc + 1], pc)
        self._pc = pc
        self._pos = pos
        self._index = index
        self._depth = depth
        return 0

    def _store_constant(self, column: int, index: int, at: int) -> None:
        """A number or boolean of the constants to a column."""
        out = buffer_of(self, column, VALUES_AT)
        if self._table[column, KIND] == BITS:
            put_bit(out, index, self._constants[at])
        else:
            width = self._table[column, WIDTH]
            for i in range(width):
                out[index * width + i] = self._constants[at + i]

    def _constant(self, column: int, start: int, at: int, size: int) -> None:
        """Bytes of the constants to a column's; the room is there."""
        out = buffer_of(self, column, DATA_AT)
        for i in range(size):
            out[start + i] = self._constants[at + i]


class ProtobufDecoding(Decoding):
    """Messages of one type to the columns of its reader, by the words of `protobuf_opcodes`.

    A message may give a field again, in any order, and a submessage in parts: the last value counts, and parts are put
    together. So a value's place follows from the index, as in `Decoding`, and where the next item goes from its list's
    own offset, which moves with each item. What is null until a field comes is null from the start of the record or
    item on; what only the end shows (required fields, defaults) is checked there.

    The caller places buffers of zeros for the columns of the rows.
    """

    def _record(self, data: Memory, end: int, data_end: int) -> int:
        """Read a message as `Decoding._record` does. Where a column is full, the field is read again from its tag."""
        if cython.compiled:
            code = cython.address(self._code[0])
        else:
            code = self._code
        pos = self._pos
        index = self._index
        depth = self._depth
        block = self._pc
        if not self._paused:
            self._limit = end
            self._group = 0
            self._begin(code[block + 3], index)
            put_bit(buffer_of(self, 0, VALID_AT), index, 1)
        following = code[block + 4]
        limit = self._limit
        group = self._group
        while True:
            if pos >= limit and group == 0:
                if code[block + 2]:
                    failure = self._ended(code[block + 2], index)
                    if failure > 0:
                        return failure
                    if failure < 0:
                        return self._full(self.wanted_column, self.wanted, block, pos, index, depth)
                if depth == 0:
                    return 0
                depth -= 1
                block = self._stack[depth, OUTER_BLOCK]
                index = self._stack[depth, OUTER_INDEX]
                limit = self._stack[depth, OUTER_LIMIT]
                group = self._stack[depth, OUTER_GROUP]
                self._limit = limit
                self._group = group
                following = 0
                continue
            # Most writers send the fields by number: then a byte tells which this is.
            if pos < limit and data[pos] == code[following + FIELD_TAG]:
                field = following
                op = code[field + FIELD_OP]
                after = pos + 1
            else:
                tag, after = read_varint(data, pos, limit)
                if after < 0:
                    return self._failed(CUT if after == -1 else BAD_VARINT, block)
                number = tag >> 3
                wire = tag & 7
                if number == 0 or number > 536870911:
                    return self._failed(BAD_TAG, block)
                if number < code[block]:
                    field = code[block + 5 + number]
                else:
                    field = self._search(block, number)
                op = code[field + FIELD_OP]
                if field == 0 or wire != code[field + FIELD_WIRE]:
                    if field and wire == WIRE_SIZED and op <= READ_ENUM and code[field + FIELD_LIST] >= 0:
                        moved = self._packed(field, index, data, after, limit)
                        if moved == -1:
                            return self._full(self.wanted_column, self.wanted, block, pos, index, depth)
                        if moved < 0:
                            return self._failed(-moved - 1, field)
                        pos = moved
                    elif wire == WIRE_GROUP_END:
                        if group != number:
                            return self._failed(BAD_GROUP, block)
                        group = 0
                        pos = after
                        limit = pos  # the message ends here
                        self._group = group
                        self._limit = limit
                    else:
                        moved = self._skip(data, after, limit, number, wire)
                        if moved < 0:
                            return self._failed(-moved - 1, block)
                        pos = moved
                    continue
            column = code[field + FIELD_COLUMN]
            items = code[field + FIELD_LIST]
            at = index
            if items >= 0:
                at = signed32(buffer_of(self, items, VALUES_AT), index + 1)
                if at >= cell_of(self, items, ROOM):
                    return self._full(items, at + 1, block, pos, index, depth)
            if op >= READ_MESSAGE:
                size = 0
                if op == READ_MESSAGE:
                    raw, after = read_varint(data, after, limit)
                    if after < 0:
                        return self._failed(CUT if after == -1 else BAD_VARINT, field)
                    left = limit - after
                    if raw > left:
                        return self._failed(BAD_LENGTH, field)
                    size = raw
                if code[field + FIELD_NULLS]:
                    self._clear(code[field + FIELD_NULLS], index)
                if items >= 0:
                    self._nulls(items + 1, cell_of(self, items, LAST), at)
                    store32(buffer_of(self, items, VALUES_AT), index + 1, at + 1)
                if code[field + FIELD_PRESENCE]:
                    put_bit(buffer_of(self, column, VALID_AT), at, 1)
                self._stack[depth, OUTER_BLOCK] = block
                self._stack[depth, OUTER_INDEX] = index
                self._stack[depth, OUTER_LIMIT] = limit
                self._stack[depth, OUTER_GROUP] = group
                depth += 1
                block = code[field + FIELD_TYPE]
                index = at
                pos = after
                following = code[block + 4]
                if op == READ_MESSAGE:
                    group = 0
                    limit = after + size
                else:
                    group = code[field + FIELD_NUMBER]
                self._limit = limit
                self._group = group
                continue
            if op >= READ_STRING:
                moved = self._text(field, at, data, after, limit, data_end)
                if moved == -1:
                    return self._full(self.wanted_column, self.wanted, block, pos, index, depth)
                if moved < 0:
                    return self._failed(-moved - 1, field)
            elif op == READ_ENUM:
                moved = self._name(field, at, data, after, limit)
                if moved == -1:
                    return self._full(self.wanted_column, self.wanted, block, pos, index, depth)
                if moved < 0:
                    return self._failed(-moved - 1, field)
                if self._unnamed:
                    pos = moved
                    continue
            else:
                moved = self._number(op, column, code[field + FIELD_PRESENCE], at, data, after, limit)
                if moved < 0:
                    return self._failed(-moved - 1, field)
            if code[field + FIELD_NULLS]:
                self._clear(code[field + FIELD_NULLS], index)
            if items >= 0:
                store32(buffer_of(self, items, VALUES_AT), index + 1, at + 1)
            following = code[field + FIELD_NEXT]
            pos = moved

    def _begin(self, lists: int, index: int) -> None:
        """Nothing is there yet at a row. Of its numbers and validity that is so already: the buffers began as zeros."""
        for i in range(self._code[lists]):
            out = buffer_of(self, self._code[lists + 1 + i], VALUES_AT)
            store32(out, index + 1, signed32(out, index))

    def _search(self, block: int, number: int) -> int:
        """The entry of a field number that is not looked up directly; 0: there is none."""
        low = block + 5 + self._code[block]
        first = low
        count = self._code[block + 1]
        begin = 0
        while begin < count:
            middle = (begin + count) >> 1
            if self._code[first + 2 * middle] < number:
                begin = middle + 1
            else:
                count = middle
        low = first + 2 * begin
        if begin < self._code[block + 1] and self._code[low] == number:
            return self._code[low + 1]
        return 0

    def _clear(self, nulls: int, index: int) -> None:
        """Make the other members of a oneof null."""
        for i in range(self._code[nulls]):
            self._nulls(self._code[nulls + 1 + 2 * i], self._code[nulls + 2 + 2 * i], index)

    def _number(self, op: int, column: int, presence: int, at: int, data: Memory, pos: int, end: int) -> int:
        """Read a number or boolean to its column. The next pos, or -1 less the error code."""
        out = buffer_of(self, column, VALUES_AT)
        if op == READ_FIXED64:
            if end - pos < 8:
                return -1 - CUT
            raw = load64(data, pos)
            store64(out, at, raw)
            after = pos + 8
        elif op == READ_FIXED32:
            if end - pos < 4:
                return -1 - CUT
            raw = load32(data, pos)
            store32(out, at, raw)
            after = pos + 4
        else:
            raw, after = read_varint(data, pos, end)
            if after < 0:
                return -1 - (CUT if after == -1 else BAD_VARINT)
            if op == READ_INT64:
                store64(out, at, raw)
            elif op == READ_INT32:
                raw = low32(raw)
                store32(out, at, raw)
            elif op == READ_BOOL:
                put_bit(out, at, 1 if raw != 0 else 0)
            else:
                if op == READ_SINT32:
                    raw = low32(raw)
                half = raw >> 1
                sign = raw & 1
                if op == READ_SINT64:
                    store64(out, at, half ^ -sign)
                else:
                    store32(out, at, half ^ -sign)
        if presence:
            put_bit(buffer_of(self, column, VALID_AT), at, 1 if presence == EXPLICIT or raw != 0 else 0)
        return after

    def _text(self, field: int, at: int, data: Memory, pos: int, end: int, data_end: int) -> int:
        """Read a string or bytes to its column. As `_name` returns."""
        raw, after = read_varint(data, pos, end)
        if after < 0:
            return -1 - (CUT if after == -1 else BAD_VARINT)
        left = end - after
        if raw > left:
            return -1 - BAD_LENGTH
        size = raw
        if self._code[field + FIELD_OP] == READ_STRING and not is_utf8(data, after, after + size):
            return -1 - BAD_UTF8
        column = self._code[field + FIELD_COLUMN]
        presence = self._code[field + FIELD_PRESENCE]
        out = buffer_of(self, column, VALUES_AT)
        start = signed32(out, at)
        if size > cell_of(self, column, ROOM) - start:
            self.wanted_column = column
            self.wanted = start + size
            return -1
        copy(buffer_of(self, column, DATA_AT), start, data, after, size, data_end - after)
        store32(out, at + 1, start + size)
        if presence:
            put_bit(buffer_of(self, column, VALID_AT), at, 1 if presence == EXPLICIT or size else 0)
        return after + size

    def _name(self, field: int, at: int, data: Memory, pos: int, end: int) -> int:
        """Read an enum to its column of names. The next pos, -1 where the column is full (`wanted`), or -1 less the
        error code. `_unnamed`: the number is an unknown field, and nothing was written."""
        raw, after = read_varint(data, pos, end)
        if after < 0:
            return -1 - (CUT if after == -1 else BAD_VARINT)
        raw = low32(raw)
        value = raw
        beyond = 4294967296
        if value > 2147483647:
            value -= beyond
        self._unnamed = False
        names = self._code[field + FIELD_TYPE]
        begin = 0
        count = self._code[names]
        if 0 <= value < count and self._code[names + 4 + 3 * value] == value:  # as most enums are
            begin = value
        else:
            while begin < count:
                middle = (begin + count) >> 1
                if self._code[names + 4 + 3 * middle] < value:
                    begin = middle + 1
                else:
                    count = middle
        known = begin < self._code[names] and self._code[names + 4 + 3 * begin] == value
        if not known and self._code[names + 3]:
            self._unnamed = True
            return after
        column = self._code[field + FIELD_COLUMN]
        out = buffer_of(self, column, VALUES_AT)
        start = signed32(out, at)
        size = self._code[names + 6 + 3 * begin] if known else self._code[names + 2] + 11
        if size > cell_of(self, column, ROOM) - start:
            self.wanted_column = column
            self.wanted = start + size
            return -1
        if known:
            self._constant(column, start, self._code[names + 5 + 3 * begin], size)
        else:
            size = self._code[names + 2]
            self._constant(column, start, self._code[names + 1], size)
            size += put_decimal_text(buffer_of(self, column, DATA_AT), start + size, value)
        store32(out, at + 1, start + size)
        presence = self._code[field + FIELD_PRESENCE]
        if presence:
            put_bit(buffer_of(self, column, VALID_AT), at, 1 if presence == EXPLICIT or value != 0 else 0)
        return after

    def _packed(self, field: int, index: int, data: Memory, pos: int, end: int) -> int:
        """Read packed items. As `_name` returns; the list has them only when all are read."""
        raw, after = read_varint(data, pos, end)
        if after < 0:
            return -1 - (CUT if after == -1 else BAD_VARINT)
        left = end - after
        if raw > left:
            return -1 - BAD_LENGTH
        size = raw
        stop = after + size
        op = self._code[field + FIELD_OP]
        items = self._code[field + FIELD_LIST]
        column = self._code[field + FIELD_COLUMN]
        out = buffer_of(self, items, VALUES_AT)
        at = signed32(out, index + 1)
        count = size
        if op == READ_FIXED64:
            count = size >> 3
        elif op == READ_FIXED32:
            count = size >> 2
        if count > cell_of(self, items, ROOM) - at:
            if op != READ_FIXED64 and op != READ_FIXED32:
                count = 0
                for i in range(after, stop):
                    if data[i] < 0x80:
                        count += 1
            if count > cell_of(self, items, ROOM) - at:
                self.wanted_column = items
                self.wanted = at + count
                return -1
        pos = after
        while pos < stop:
            if op == READ_ENUM:
                pos = self._name(field, at, data, pos, stop)
                if pos >= 0 and not self._unnamed:
                    at += 1
            else:
                pos = self._number(op, column, ALWAYS, at, data, pos, stop)
                at += 1
            if pos < 0:
                return pos
        store32(out, index + 1, at)
        return pos

    def _skip(self, data: Memory, pos: int, end: int, number: int, wire: int) -> int:
        """The pos behind a field that the reader does not have, or -1 less the error code. Groups within groups are a
        stack of their numbers."""
        depth = 0
        while True:
            if wire == WIRE_VARINT:
                raw, pos = read_varint(data, pos, end)
                if pos < 0:
                    return -1 - (CUT if pos == -1 else BAD_VARINT)
            elif wire == WIRE_SIZED:
                raw, pos = read_varint(data, pos, end)
                if pos < 0:
                    return -1 - (CUT if pos == -1 else BAD_VARINT)
                left = end - pos
                if raw > left:
                    return -1 - BAD_LENGTH
                size = raw
                pos += size
            elif wire in (WIRE_64, WIRE_32):
                size = 8 if wire == WIRE_64 else 4
                if size > end - pos:
                    return -1 - CUT
                pos += size
            elif wire == WIRE_GROUP:
                if depth == len(self._groups):
                    return -1 - BAD_GROUP
                self._groups[depth] = number
                depth += 1
            elif wire == WIRE_GROUP_END and depth > 0 and self._groups[depth - 1] == number:
                depth -= 1
            else:
                return -1 - (BAD_GROUP if wire == WIRE_GROUP_END else BAD_TAG)
            if depth == 0:
                return pos
            tag, pos = read_varint(data, pos, end)
            if pos < 0:
                return -1 - (CUT if pos == -1 else BAD_VARINT)
            number = tag >> 3
            wire = tag & 7
            if number == 0 or number > 536870911:
                return -1 - BAD_TAG

    def _ended(self, at: int, index: int) -> int:
        """Check and complete a record or item at its end. 0, an error code, or -1 where a column is full (`wanted`)."""
        while self._code[at]:
            op = self._code[at]
            within = self._code[at + 1]
            column = self._code[at + 2]
            if within < 0 or self._is_there(within, index):
                if op == END_TIME:
                    if self._is_there(column, index):
                        seconds = signed64(buffer_of(self, column + 1, VALUES_AT), index)
                        nanos = signed32(buffer_of(self, column + 2, VALUES_AT), index)
                        limit = 9223372036853
                        if seconds > limit or seconds < -limit:
                            return self._failed(BAD_TIMESTAMP, self._code[at + 5])
                        micros = nanos // 1000
                        if not cython.compiled and nanos < 0:  # C rounds towards zero
                            micros = -(-nanos // 1000)
                        store64(buffer_of(self, column, VALUES_AT), index, seconds * 1000000 + micros)
                elif op == END_REQUIRED:
                    if not self._is_there(column, index):
                        return self._failed(MISSING, self._code[at + 5])
                elif op == END_CONST:
                    if not self._is_there(column, index):
                        self._store_constant(column, index, self._code[at + 3])
                        put_bit(buffer_of(self, column, VALID_AT), index, 1)
                else:
                    out = buffer_of(self, column, VALUES_AT)
                    start = signed32(out, index)
                    nullable = cell_of(self, column, VALID_AT) != 0
                    if (nullable and not self._is_there(column, index)) or (
                        not nullable and signed32(out, index + 1) == start
                    ):
                        size = self._code[at + 4]
                        if size > cell_of(self, column, ROOM) - start:
                            self.wanted_column = column
                            self.wanted = start + size
                            return -1
                        self._constant(column, start, self._code[at + 3], size)
                        store32(out, index + 1, start + size)
                        if nullable:
                            put_bit(buffer_of(self, column, VALID_AT), index, 1)
            at += 6
        return 0

    def _is_there(self, column: int, index: int) -> bool:
        """Whether a value is not null; in a column that cannot be null, it is not."""
        if cell_of(self, column, VALID_AT) == 0:
            return True
        return bit_at(buffer_of(self, column, VALID_AT), index) != 0
