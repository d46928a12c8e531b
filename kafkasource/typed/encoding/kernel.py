# cython: language_level=3, annotation_typing=False
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Runs a program (`opcodes`) for each row of Arrow columns and writes its record; the GIL is released.

`Encoding` has the program and a table of input columns. It allocates nothing: the caller hands in the output, bytes
and offsets. Where the output is full, `run` stops before the row that did not fit; the caller calls it again with more
room, or ends the piece there. A row is written whole or not at all: it begins where the one before it has ended.

Invariants: no byte is written before the room was compared. The program is trusted, and so are the offsets of Arrow's
arrays. The C stack does not grow with the input: lists within lists are a stack, which the program's depth bounds.

The same file runs interpreted; C types are in kernel.pxd. Branches under `cython.compiled` fall away in either build.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from kafkasource.typed import _nocython as cython

if not cython.compiled:  # compiled, they are an enum of kernel.pxd
    from kafkasource.typed.encoding.opcodes import (
        BAD_DECIMAL,
        BAD_SIZE,
        BOOLEAN,
        CLOSE,
        CONST,
        COPY4,
        COPY8,
        DATA_AT,
        DECIMAL,
        DECIMAL_FIXED,
        DIVIDED,
        END,
        ENUM,
        FIXED,
        INT8,
        INT16,
        INT32,
        INT64,
        ITEMS,
        JUMP,
        MEMBER,
        MOST_VARINT,
        NAME,
        NAME_SET,
        NAME_TAG,
        NEXT,
        NEXT_PART,
        NULL_VALUE,
        OPEN,
        OPTIONAL,
        PARTS,
        REQUIRED,
        SHIFT,
        SIZED,
        TAG,
        TEXT,
        TIME,
        UNKNOWN_SYMBOL,
        UNSET,
        VALID_AT,
        VALUES_AT,
        VARINT,
        WIDENED,
        WRITE_BRANCH,
    )

if TYPE_CHECKING:
    Memory = memoryview  # compiled, a pointer

COMPILED = bool(cython.compiled)
FINGERPRINT = KAFKASOURCE_KERNEL_FINGERPRINT if cython.compiled else 0  # type: ignore[name-defined]  # noqa: F821

_ORDER = sys.byteorder
_MASK = (1 << 64) - 1


def put_varint(out: Memory, pos: int, raw: int) -> int:
    """The next pos. There is room for MOST_VARINT bytes."""
    while raw >= 0x80:
        out[pos] = (raw & 0x7F) | 0x80
        pos += 1
        raw >>= 7
    out[pos] = raw
    return pos + 1


def put_long(out: Memory, pos: int, value: int) -> int:
    """As `put_varint`, zigzag."""
    raw = value
    sign = value >> 63
    raw = (raw << 1) ^ sign
    if not cython.compiled:
        raw &= _MASK
    return put_varint(out, pos, raw)


def signed16(data: Memory, index: int) -> int:
    if cython.compiled:
        raw = 0
        memcpy(cython.address(raw), data + 2 * index, 2)  # type: ignore[name-defined, operator]  # noqa: F821
        return raw
    else:
        return int.from_bytes(data[2 * index : 2 * index + 2], _ORDER, signed=True)


def signed32(data: Memory, index: int) -> int:
    if cython.compiled:
        raw = 0
        memcpy(cython.address(raw), data + 4 * index, 4)  # type: ignore[name-defined, operator]  # noqa: F821
        return raw
    else:
        return int.from_bytes(data[4 * index : 4 * index + 4], _ORDER, signed=True)


def signed64(data: Memory, index: int) -> int:
    if cython.compiled:
        raw = 0
        memcpy(cython.address(raw), data + 8 * index, 8)  # type: ignore[name-defined, operator]  # noqa: F821
        return raw
    else:
        return int.from_bytes(data[8 * index : 8 * index + 8], _ORDER, signed=True)


def copy(out: Memory, out_pos: int, data: Memory, pos: int, size: int) -> None:
    if cython.compiled:
        memcpy(out + out_pos, data + pos, size)  # type: ignore[name-defined, operator]  # noqa: F821
    else:
        out[out_pos : out_pos + size] = data[pos : pos + size]


def copy_little(out: Memory, out_pos: int, data: Memory, index: int, size: int) -> None:
    """A number of 4 or 8 bytes, little-endian as Avro has it."""
    if is_little():
        copy(out, out_pos, data, index * size, size)
    else:
        for i in range(size):
            out[out_pos + i] = data[index * size + size - 1 - i]


def copy_widened(out: Memory, out_pos: int, data: Memory, index: int) -> None:
    """A float as a double, little-endian."""
    if cython.compiled:
        single = 0
        memcpy(cython.address(single), data + 4 * index, 4)  # type: ignore[name-defined, operator]  # noqa: F821
        wide = single
        raw = 0
        memcpy(cython.address(raw), cython.address(wide), 8)  # type: ignore[name-defined]  # noqa: F821
        for i in range(8):
            out[out_pos + i] = (raw >> (8 * i)) & 0xFF
    else:
        out[out_pos : out_pos + 8] = struct.pack("<d", *struct.unpack_from("=f", data, 4 * index))


def is_little() -> bool:
    if cython.compiled:
        one = 1
        first = 0
        memcpy(cython.address(first), cython.address(one), 1)  # type: ignore[name-defined]  # noqa: F821
        return first == 1
    else:
        return _ORDER == "little"


def bit_at(bitmap: Memory, index: int) -> int:
    return (bitmap[index >> 3] >> (index & 7)) & 1


def put_decimal(out: Memory, pos: int, data: Memory, index: int, fixed: int) -> int:
    """A decimal128 as big-endian bytes: `fixed` of them, or with -1 as few as can be, behind their size. The next pos,
    or -1 where it does not fit. There is room for what it takes."""
    if is_little():
        low = signed64(data, 2 * index)
        high = signed64(data, 2 * index + 1)
    else:
        high = signed64(data, 2 * index)
        low = signed64(data, 2 * index + 1)
    fill = 0xFF if high < 0 else 0
    size = 16
    while size > 1:  # a byte that the next one's first bit says already
        first = decimal_byte(low, high, size - 1)
        second = decimal_byte(low, high, size - 2)
        if first != fill or (second & 0x80) != (fill & 0x80):
            break
        size -= 1
    if fixed < 0:
        out[pos] = 2 * size
        pos += 1
    elif fixed < size:
        return -1
    else:
        for _each in range(fixed - size):
            out[pos] = fill
            pos += 1
    while size > 0:
        size -= 1
        out[pos] = decimal_byte(low, high, size)
        pos += 1
    return pos


def varint_size(raw: int) -> int:
    rest = raw >> 7
    size = 1
    while rest:
        rest >>= 7
        size += 1
    return size


def low32(value: int) -> int:
    """A word of the program, or an int32, without its sign."""
    if cython.compiled:
        return cython.cast(cython.uint, value)  # type: ignore[no-any-return]
    else:
        return value & 0xFFFFFFFF


def move(out: Memory, to: int, start: int, size: int) -> None:
    """Bytes of the output to another place, which may overlap."""
    if cython.compiled:
        memmove(out + to, out + start, size)  # type: ignore[name-defined, operator]  # noqa: F821
    else:
        out[to : to + size] = bytes(out[start : start + size])


def put_time(out: Memory, pos: int, value: int, floor: bool) -> int:
    """Microseconds as a message of seconds (1) and nanos (2) with its size in front, at most 23 bytes. `floor`: nanos
    are never negative; else they have the sign of the seconds."""
    if cython.compiled or value >= 0:
        seconds = value // 1000000
        micros = value % 1000000
    else:  # C rounds towards zero
        seconds = -(-value // 1000000)
        micros = -(-value % 1000000)
    if floor and micros < 0:
        seconds -= 1
        micros += 1000000
    start = pos
    pos += 1
    if seconds != 0:
        out[pos] = 0x08
        pos = put_varint(out, pos + 1, seconds if cython.compiled else seconds & _MASK)
    if micros != 0:
        out[pos] = 0x10
        pos = put_varint(out, pos + 1, micros * 1000 if cython.compiled else (micros * 1000) & _MASK)
    out[start] = pos - start - 1
    return pos


def decimal_byte(low: int, high: int, which: int) -> int:
    """A byte of two words; 0 is the lowest."""
    if which >= 8:
        return (high >> (8 * (which - 8))) & 0xFF
    return (low >> (8 * which)) & 0xFF


class Encoding:
    """Rows of input columns to records. `columns`: how many; the first is the column that is encoded."""

    def __init__(self, code: memoryview, constants: memoryview, depth: int, columns: int) -> None:
        self._code = code
        self._constants = constants
        self.columns = columns
        self._table = memoryview(bytearray(8 * 4 * max(columns, 1))).cast("q", (max(columns, 1), 4))
        if cython.compiled:
            self._cells = cython.address(self._table[0, 0])
        self._views: list[Any] = [None] * (4 * columns)  # keeps them alive, and is where the interpreted one looks
        self._stack = memoryview(bytearray(8 * 2 * (depth + 1))).cast("q", (depth + 1, 2))
        self._pc = 0
        self.row = 0
        self.pos = 0

    def place(self, column: int, which: int, view: memoryview) -> None:
        """A buffer of a column: VALID_AT, VALUES_AT (numbers, bits or offsets), DATA_AT (bytes)."""
        if not 0 <= column < self.columns or not 0 <= which < 3 or len(view) == 0:
            raise ValueError("no such buffer")
        self._views[4 * column + which] = view
        if cython.compiled:
            self._table[column, which] = cython.cast(
                cython.longlong, cython.cast(cython.size_t, cython.address(view[0]))
            )
        else:
            self._table[column, which] = 1

    def set_shift(self, column: int, shift: int) -> None:
        """The first value of a column is at this place of its buffers, counted in values."""
        if not 0 <= column < self.columns or shift < 0:
            raise ValueError("no such column")
        self._table[column, SHIFT] = shift

    @property
    def pc(self) -> int:
        """Of the instruction that failed."""
        return self._pc

    def start(self, row: int) -> None:
        """Go on from this row, at the beginning of an output."""
        self.row = row
        self.pos = 0

    def run(self, out: memoryview, offsets: memoryview, valid: memoryview, first: int, last: int) -> int:
        """Encode rows up to `last`. 0, -1 where `out` is full, or the error code of the record of `row`.

        `offsets`: where the record of each row ends, behind that of `first`, whose begin is 0. A row whose column 0 is
        null has no bytes; `valid` gets the bits of the others, and may be empty where no row can be null.
        """
        rows = last - first
        if self.row < first or len(offsets) <= rows or self.pos > len(out) or len(self._code) == 0:
            raise ValueError("more rows than there are")
        if self._cell(0, VALID_AT) != 0 and 8 * len(valid) < rows:
            raise ValueError("no place for nulls")
        with cython.nogil:
            return self._run(out, offsets, valid, first, last)

    def _run(self, output: memoryview, offsets: memoryview, valid: memoryview, first: int, last: int) -> int:
        room = len(output)
        if cython.compiled:
            out = cython.address(output[0])  # where there is none, nothing writes it: each write is before `room`
        else:
            out = output
        has_nulls = self._cell(0, VALID_AT) != 0
        while self.row < last:
            row = self.row
            if has_nulls and bit_at(self._buffer(0, VALID_AT), row + self._cell(0, SHIFT)) == 0:
                offsets[row - first + 1] = self.pos
                self.row += 1
                continue
            code = self._record(out, room, row)
            if code:
                return code
            at = row - first
            offsets[at + 1] = self.pos
            if has_nulls:
                byte = valid[at >> 3]
                valid[at >> 3] = byte | (1 << (at & 7))
            self.row += 1
        return 0

    def _buffer(self, column: int, which: int) -> Any:
        if cython.compiled:
            return cython.cast(cython.p_uchar, cython.cast(cython.size_t, self._cells[4 * column + which]))
        else:
            return self._views[4 * column + which]

    def _cell(self, column: int, which: int) -> int:
        if cython.compiled:
            return self._cells[4 * column + which]  # type: ignore[no-any-return]
        else:
            return self._table[column, which]

    def _is_null(self, column: int, index: int) -> bool:
        if self._cell(column, VALID_AT) == 0:
            return False
        return bit_at(self._buffer(column, VALID_AT), index + self._cell(column, SHIFT)) == 0

    def _is_unset(self, column: int, width: int, index: int) -> bool:
        """Null, or a value that a field of proto3 without presence does not write."""
        if self._is_null(column, index):
            return True
        at = index + self._cell(column, SHIFT)
        values = self._buffer(column, VALUES_AT)
        if width == 0:
            return bit_at(values, at) == 0
        if width < 0:
            return signed32(values, at) == signed32(values, at + 1)
        for i in range(width):  # noqa: SIM110 (a loop of C)
            if values[at * width + i]:
                return False
        return True

    def _number(self, column: int, width: int, index: int) -> int:
        at = index + self._cell(column, SHIFT)
        values = self._buffer(column, VALUES_AT)
        if width == 8:
            return signed64(values, at)
        if width == 4:
            return signed32(values, at)
        if width == 2:
            return signed16(values, at)
        value = values[at]
        if value > 127:
            value -= 256
        return value  # type: ignore[no-any-return]

    def _failed(self, code: int, pc: int) -> int:
        self._pc = pc
        return code

    def _symbol(self, pc: int, data: Memory, start: int, size: int) -> int:
        """Where in the code the entry of an ENUM's symbol is, or -1. They are in the order of size, then of bytes."""
        begin = 0
        count = self._code[pc + 2]
        while begin < count:
            middle = (begin + count) >> 1
            at = pc + 3 + 3 * middle
            order = self._code[at + 1] - size
            if order == 0:
                for i in range(size):
                    order = self._constants[self._code[at] + i]
                    order -= data[start + i]
                    if order != 0:
                        break
            if order == 0:
                return at
            if order < 0:
                begin = middle + 1
            else:
                count = middle
        return -1

    def _record(self, out: Memory, room: int, row: int) -> int:
        """Write the record of a row behind `pos`. 0, an error code, or -1 where there is no room; then `pos` stays."""
        if cython.compiled:
            code = cython.address(self._code[0])
        else:
            code = self._code
        pc = 0
        pos = self.pos
        index = row
        depth = 0
        least = MOST_VARINT
        while True:
            op = code[pc]
            if op == END:
                break
            if room - pos < least:  # for every number; what may be longer compares again
                return -1
            if op == INT64:
                column = code[pc + 1]
                value = signed64(self._buffer(column, VALUES_AT), index + self._cell(column, SHIFT))
                pos = put_long(out, pos, value)
                pc += 2
            elif op == SIZED:
                column = code[pc + 1]
                at = index + self._cell(column, SHIFT)
                start = signed32(self._buffer(column, VALUES_AT), at)
                size = signed32(self._buffer(column, VALUES_AT), at + 1) - start
                if size > room - pos - least:
                    return -1
                pos = put_long(out, pos, size)
                if size:
                    copy(out, pos, self._buffer(column, DATA_AT), start, size)
                pos += size
                pc += 2
            elif op == OPTIONAL:
                if self._is_null(code[pc + 1], index):
                    if code[pc + 2] >= 0:
                        pos = put_varint(out, pos, code[pc + 2])
                    pc = code[pc + 4]
                else:
                    if code[pc + 3] >= 0:
                        pos = put_varint(out, pos, code[pc + 3])
                    pc += 5
            elif op == REQUIRED:
                if self._is_null(code[pc + 1], index):
                    return self._failed(NULL_VALUE, pc)
                pc += 2
            elif op == COPY8:
                column = code[pc + 1]
                copy_little(out, pos, self._buffer(column, VALUES_AT), index + self._cell(column, SHIFT), 8)
                pos += 8
                pc += 2
            elif op == COPY4:
                column = code[pc + 1]
                copy_little(out, pos, self._buffer(column, VALUES_AT), index + self._cell(column, SHIFT), 4)
                pos += 4
                pc += 2
            elif op == INT32:
                column = code[pc + 1]
                value = signed32(self._buffer(column, VALUES_AT), index + self._cell(column, SHIFT))
                pos = put_long(out, pos, value)
                pc += 2
            elif op == INT16:
                column = code[pc + 1]
                value = signed16(self._buffer(column, VALUES_AT), index + self._cell(column, SHIFT))
                pos = put_long(out, pos, value)
                pc += 2
            elif op == INT8:
                column = code[pc + 1]
                value = self._buffer(column, VALUES_AT)[index + self._cell(column, SHIFT)]
                if value > 127:
                    value -= 256
                pos = put_long(out, pos, value)
                pc += 2
            elif op == DIVIDED:
                column = code[pc + 1]
                value = signed64(self._buffer(column, VALUES_AT), index + self._cell(column, SHIFT))
                divisor = code[pc + 2]
                if cython.compiled:
                    rest = value % divisor
                    value = value // divisor
                    if rest < 0:
                        value -= 1
                else:
                    value //= divisor
                pos = put_long(out, pos, value)
                pc += 3
            elif op == CONST:
                size = code[pc + 2]
                if size > room - pos:
                    return -1
                start = code[pc + 1]
                for i in range(size):
                    out[pos + i] = self._constants[start + i]
                pos += size
                pc += 3
            elif op == BOOLEAN:
                column = code[pc + 1]
                out[pos] = bit_at(self._buffer(column, VALUES_AT), index + self._cell(column, SHIFT))
                pos += 1
                pc += 2
            elif op == WIDENED:
                column = code[pc + 1]
                copy_widened(out, pos, self._buffer(column, VALUES_AT), index + self._cell(column, SHIFT))
                pos += 8
                pc += 2
            elif op == FIXED:
                column = code[pc + 1]
                at = index + self._cell(column, SHIFT)
                start = signed32(self._buffer(column, VALUES_AT), at)
                size = signed32(self._buffer(column, VALUES_AT), at + 1) - start
                if size != code[pc + 2]:
                    return self._failed(BAD_SIZE, pc)
                if size > room - pos:
                    return -1
                if size:
                    copy(out, pos, self._buffer(column, DATA_AT), start, size)
                pos += size
                pc += 3
            elif op == ENUM:
                column = code[pc + 1]
                at = index + self._cell(column, SHIFT)
                start = signed32(self._buffer(column, VALUES_AT), at)
                size = signed32(self._buffer(column, VALUES_AT), at + 1) - start
                at = self._symbol(pc, self._buffer(column, DATA_AT), start, size)
                if at < 0:
                    return self._failed(UNKNOWN_SYMBOL, pc)
                pos = put_long(out, pos, code[at + 2])
                pc += 3 + 3 * code[pc + 2]
            elif op in (DECIMAL, DECIMAL_FIXED):
                column = code[pc + 1]
                size = -1
                if op == DECIMAL_FIXED:
                    size = code[pc + 2]
                if size + 18 > room - pos:  # 17 bytes at most, or the size of the fixed
                    return -1
                after = put_decimal(out, pos, self._buffer(column, VALUES_AT), index + self._cell(column, SHIFT), size)
                if after < 0:
                    return self._failed(BAD_DECIMAL, pc)
                pos = after
                pc += 2 if op == DECIMAL else 3
            elif op == MEMBER:
                if self._is_null(code[pc + 1], index):
                    pc = code[pc + 3]
                else:
                    pos = put_varint(out, pos, code[pc + 2])
                    pc += 4
            elif op == WRITE_BRANCH:
                pos = put_varint(out, pos, code[pc + 1])
                pc += 2
            elif op == JUMP:
                pc = code[pc + 1]
            elif op == ITEMS:
                column = code[pc + 1]
                at = index + self._cell(column, SHIFT)
                start = signed32(self._buffer(column, VALUES_AT), at)
                size = signed32(self._buffer(column, VALUES_AT), at + 1) - start
                pos = put_long(out, pos, size)
                if size == 0:
                    pc = code[pc + 2]
                else:
                    self._stack[depth, 0] = index
                    self._stack[depth, 1] = start + size
                    depth += 1
                    index = start
                    pc += 3
            elif op == NEXT:
                index += 1
                if index < self._stack[depth - 1, 1]:
                    pc = code[pc + 1]
                else:
                    depth -= 1
                    index = self._stack[depth, 0]
                    out[pos] = 0
                    pos += 1
                    pc += 2
            elif op == TAG:
                if self._is_null(code[pc + 1], index):
                    pc = code[pc + 3]
                else:
                    pos = put_varint(out, pos, low32(code[pc + 2]))
                    pc += 4
            elif op == UNSET:
                if self._is_unset(code[pc + 1], code[pc + 2], index):
                    pc = code[pc + 3]
                else:
                    pc += 4
            elif op == VARINT:
                value = self._number(code[pc + 1], code[pc + 2], index)
                if code[pc + 3]:
                    pos = put_varint(out, pos, low32(value))
                else:
                    pos = put_varint(out, pos, value if cython.compiled else value & _MASK)
                pc += 4
            elif op == TEXT:
                column = code[pc + 1]
                at = index + self._cell(column, SHIFT)
                start = signed32(self._buffer(column, VALUES_AT), at)
                size = signed32(self._buffer(column, VALUES_AT), at + 1) - start
                if size > room - pos - least:
                    return -1
                pos = put_varint(out, pos, size)
                if size:
                    copy(out, pos, self._buffer(column, DATA_AT), start, size)
                pos += size
                pc += 2
            elif op == NAME:
                if room - pos < 2 * least:
                    return -1
                column = code[pc + 1]
                at = index + self._cell(column, SHIFT)
                start = signed32(self._buffer(column, VALUES_AT), at)
                size = signed32(self._buffer(column, VALUES_AT), at + 1) - start
                at = self._symbol(pc, self._buffer(column, DATA_AT), start, size)
                if at < 0:
                    return self._failed(UNKNOWN_SYMBOL, pc)
                value = code[at + 2]
                pc += 3 + 3 * code[pc + 2]
                if value != 0 or (code[pc + 1] & NAME_SET) == 0:
                    if code[pc + 1] & NAME_TAG:
                        pos = put_varint(out, pos, low32(code[pc]))
                    pos = put_varint(out, pos, value if cython.compiled else value & _MASK)
                pc += 2
            elif op == OPEN:
                self._stack[depth, 0] = pos
                depth += 1
                pos += 1
                pc += 1
            elif op == CLOSE:
                depth -= 1
                start = self._stack[depth, 0]
                size = pos - start - 1
                after = start + varint_size(size)
                if after > start + 1:
                    move(out, after, start + 1, size)
                put_varint(out, start, size)
                pos = after + size
                pc += 1
            elif op == PARTS:
                column = code[pc + 1]
                at = index + self._cell(column, SHIFT)
                start = signed32(self._buffer(column, VALUES_AT), at)
                size = signed32(self._buffer(column, VALUES_AT), at + 1) - start
                if size == 0:
                    pc = code[pc + 2]
                else:
                    self._stack[depth, 0] = index
                    self._stack[depth, 1] = start + size
                    depth += 1
                    index = start
                    pc += 3
            elif op == NEXT_PART:
                index += 1
                if index < self._stack[depth - 1, 1]:
                    pc = code[pc + 1]
                else:
                    depth -= 1
                    index = self._stack[depth, 0]
                    pc += 2
            elif op == TIME:
                if room - pos < 3 * least:
                    return -1
                value = self._number(code[pc + 1], 8, index)
                pos = put_time(out, pos, value, code[pc + 2])
                pc += 3
            else:  # FAIL
                return self._failed(code[pc + 1], pc)
        self.pos = pos
        return 0
