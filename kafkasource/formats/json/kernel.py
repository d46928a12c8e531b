# cython: language_level=3, annotation_typing=False
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reads a column of JSON texts by the words of `opcodes` and fills Arrow buffers; the GIL is released.

`JsonDecoding` is a `formats.decoding.kernel.Decoding`, which says how buffers are placed and grow, and what becomes of
a bad record. It goes over a record once, as a machine of few states: objects and arrays that have columns are a stack
of frames, as deep as the type; what has no column is checked and passed over, with one byte for each level. A column
without room stops the machine before the value that needs it.

Whatever is read is JSON as RFC 8259 has it, to the last byte, also where no column takes it. A field that comes twice
counts as it came last. Fields mostly come in the order of the record before, so the expected name is compared first.

With a column of rescued fields, a member of the record that no column takes whole is copied there as text: the name
is unknown, or one within it is. The column is closed by a brace at each time, which the next member overwrites.

A double is the nearest one: by one multiplication where that is exact, by the 128 bits of a power of five (Lemire,
"Number Parsing at a Gigabyte per Second"), and by Python's `float` where more than 19 digits leave two.

Invariants: no byte at or behind `end` is read, and none is written before the room of the column was compared. The
words are trusted, they are ours. Cython's bounds checks are off; tests/kafka/records/test_sanitized.py runs the wrong
bytes under AddressSanitizer. The same file runs interpreted; C types are in kernel.pxd.
"""

from __future__ import annotations

import struct
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from kafkasource.kafka.records import _nocython as cython

if not cython.compiled:  # compiled, kernel.pxd has them
    from kafkasource.formats.buffers import bit_at, buffer_of, is_little, product, put_bit, signed32, store32
    from kafkasource.formats.decoding.kernel import Decoding, is_utf8
    from kafkasource.formats.decoding.opcodes import (
        BAD_UTF8,
        CUT,
        DATA_AT,
        LAST,
        MISSING,
        ROOM,
        TRAILING,
        VALID_AT,
        VALUES_AT,
    )
    from kafkasource.formats.json.opcodes import (
        AT_FIRST_ITEM,
        AT_FIRST_KEY,
        AT_ITEM,
        AT_KEY,
        AT_VALUE,
        BAD_BASE64,
        BAD_DATE,
        BAD_ESCAPE,
        BAD_FRAME,
        BAD_INSTANT,
        BAD_JSON,
        BAD_LOCAL_TIME,
        BAD_NULL,
        BAD_NUMBER,
        BEHIND_VALUE,
        BLOCK_EXPECTED,
        BLOCK_MASK,
        BLOCK_REQUIRED,
        BLOCK_REQUIRED_AT,
        BLOCK_SLOTS,
        EMPTY,
        ENTRY_EXPECTED,
        ENTRY_NAME,
        ENTRY_NODE,
        ENTRY_PLAIN,
        ENTRY_SIZE,
        ESCAPED,
        FRAME_ENTRY,
        FRAME_INDEX,
        FRAME_NODE,
        MOST_DEPTH,
        MOST_DIGITS,
        MOST_ESCAPED,
        NODE_COLUMN,
        NODE_FIRST,
        NODE_NULL,
        NODE_OP,
        NODE_SECOND,
        READ_BASE64,
        READ_BOOLEAN,
        READ_DATE,
        READ_DECIMAL,
        READ_DOUBLE,
        READ_FLOAT,
        READ_INTEGER,
        READ_LIST,
        READ_LOCAL_TIMESTAMP,
        READ_MAP,
        READ_STRUCT,
        READ_TEXT,
        TOO_DEEP,
        WIDE,
        WRONG_TYPE,
    )

if TYPE_CHECKING:
    from collections.abc import Sequence

    Memory = memoryview  # compiled, a pointer

COMPILED = bool(cython.compiled)
FINGERPRINT = KAFKASOURCE_KERNEL_FINGERPRINT if cython.compiled else 0  # type: ignore[name-defined]  # noqa: F821

_ORDER = sys.byteorder
_MASK = (1 << 64) - 1
_LARGEST_FLOAT_ROUNDED = 2.0**128 - 2.0**103  # what is below is the largest float
LEAST_POWER = -342
MOST_POWER = 308


def powers_of_five() -> bytes:
    """Return the 128 highest bits of each power from LEAST_POWER on: the high half, then the low half."""
    found = []
    for power in range(LEAST_POWER, MOST_POWER + 1):
        if power < 0:
            five = 5**-power
            bits = (five - 1).bit_length()
            value = (1 << (bits + 127 if power >= -27 else 2 * bits + 128)) // five + 1
            while value >> 128:
                value >>= 1
        else:
            value = 5**power
            size = value.bit_length()
            value = value >> (size - 128) if size > 128 else value << (128 - size)
        found += [value >> 64, value & _MASK]
    return struct.pack(f"={len(found)}Q", *found)


def bits_of(text: bytes, wide: bool) -> int:
    """The bits of the double, or float, that is nearest to a number of JSON; of an infinity where it is beyond."""
    double = float(text)
    if wide:
        return int.from_bytes(struct.pack("=d", double), _ORDER)
    try:
        found = int.from_bytes(struct.pack("=f", double), _ORDER)
    except OverflowError:
        found = 0xFF800000 if double < 0 else 0x7F800000
    # A double that is half way between two floats may stand for a number that is not.
    size = abs(_single(found))
    if size == abs(double):
        return found
    other = found + (1 if abs(double) > size else -1)
    middle = _LARGEST_FLOAT_ROUNDED if size == float("inf") else (size + abs(_single(other))) / 2
    if middle == abs(double):
        exact, half = Decimal(text.decode()).copy_abs(), Decimal(middle)  # abs() would round to 28 digits
        if exact != half:
            return max(found, other) if exact > half else min(found, other)
    return found


def _single(bits: int) -> float:
    return struct.unpack("=f", bits.to_bytes(4, _ORDER))[0]  # type: ignore[no-any-return]


def store(out: Memory, index: int, width: int, value: int) -> None:
    """An integer of 1, 2, 4 or 8 bytes, of this machine; higher bits are dropped."""
    if cython.compiled:
        if width == 8:
            memcpy(out + 8 * index, cython.address(value), 8)  # type: ignore[name-defined, operator]  # noqa: F821
        elif width == 4:
            four = value
            memcpy(out + 4 * index, cython.address(four), 4)  # type: ignore[name-defined, operator]  # noqa: F821
        elif width == 2:
            two = value
            memcpy(out + 2 * index, cython.address(two), 2)  # type: ignore[name-defined, operator]  # noqa: F821
        else:
            out[index] = value & 0xFF
    else:
        out[width * index : width * (index + 1)] = (value & ((1 << 8 * width) - 1)).to_bytes(width, _ORDER)


def same(left: Memory, at: int, right: Memory, pos: int, size: int) -> bool:
    if cython.compiled:
        return memcmp(left + at, right + pos, size) == 0  # type: ignore[name-defined,no-any-return, operator]  # noqa: F821
    else:
        return left[at : at + size] == right[pos : pos + size]


def behind_space(data: Memory, pos: int, end: int) -> int:
    while pos < end and data[pos] <= 32 and (data[pos] == 32 or data[pos] == 10 or data[pos] == 13 or data[pos] == 9):
        pos += 1
    return pos


def is_digit(data: Memory, pos: int, end: int) -> bool:
    return pos < end and 48 <= data[pos] <= 57


def hex_of(data: Memory, pos: int, end: int) -> int:
    """Four hexadecimal digits, or -1."""
    if end - pos < 4:
        return -1
    found = 0
    for i in range(4):
        byte = data[pos + i]
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 65 <= byte <= 70:
            digit = byte - 55
        elif 97 <= byte <= 102:
            digit = byte - 87
        else:
            return -1
        found = (found << 4) | digit
    return found


def behind_escape(data: Memory, pos: int, end: int) -> int:
    """The pos behind an escape whose backslash is at `pos` (a pair of surrogates is one), or -1 less the error code."""
    if end - pos < 2:
        return -1 - CUT
    byte = data[pos + 1]
    if byte != 117:  # u
        if (
            byte == 34 or byte == 92 or byte == 47 or byte == 98 or byte == 102 or byte == 110 or byte == 114
            or byte == 116
        ):  # fmt: skip
            return pos + 2
        return -1 - BAD_ESCAPE
    found = hex_of(data, pos + 2, end)
    if found < 0 or 0xDC00 <= found <= 0xDFFF:
        return -1 - BAD_ESCAPE
    if 0xD800 <= found <= 0xDBFF:
        if end - pos < 12 or data[pos + 6] != 92 or data[pos + 7] != 117:
            return -1 - BAD_ESCAPE
        found = hex_of(data, pos + 8, end)
        if not 0xDC00 <= found <= 0xDFFF:
            return -1 - BAD_ESCAPE
        return pos + 12
    return pos + 6


def scan_string(data: Memory, pos: int, end: int) -> tuple[int, int]:
    """(where the closing quote is, ESCAPED | WIDE) of a string whose first character is at `pos`. WIDE: not all ASCII.

    Everything in it is checked. In place of the quote's position: -1 less the error code.
    """
    begin = pos
    flags = 0
    while pos < end:
        stop = end
        if cython.compiled:  # eight bytes at a time, as long as none of them needs a look
            ones = 0x01010101
            ones = (ones << 32) | ones
            while end - pos >= 8:
                word = 0
                memcpy(cython.address(word), data + pos, 8)  # type: ignore[name-defined, operator]  # noqa: F821
                quotes = word ^ (ones * 0x22)
                slashes = word ^ (ones * 0x5C)
                found = (quotes - ones) & ~quotes
                found |= (slashes - ones) & ~slashes
                found |= (word - ones * 0x20) & ~word
                found |= word
                if found & (ones * 0x80):
                    break
                pos += 8
            if end - pos > 8:
                stop = pos + 8
        while pos < stop:
            byte = data[pos]
            if byte == 34:
                if flags & WIDE and not is_utf8(data, begin, pos):
                    return -1 - BAD_UTF8, 0
                return pos, flags
            if byte == 92:
                pos = behind_escape(data, pos, end)
                if pos < 0:
                    return pos, 0
                flags |= ESCAPED
            elif byte < 32:
                return -1 - BAD_JSON, 0
            else:
                if byte >= 128:
                    flags |= WIDE
                pos += 1
    return -1 - CUT, 0


def unescape(data: Memory, pos: int, end: int, out: Memory, at: int) -> int:
    """The characters of a string that was scanned, in UTF-8, which is never longer. Where they end."""
    while pos < end:
        byte = data[pos]
        if byte != 92:
            out[at] = byte
            at += 1
            pos += 1
            continue
        byte = data[pos + 1]
        if byte != 117:
            if byte == 98:
                byte = 8
            elif byte == 102:
                byte = 12
            elif byte == 110:
                byte = 10
            elif byte == 114:
                byte = 13
            elif byte == 116:
                byte = 9
            out[at] = byte
            at += 1
            pos += 2
            continue
        point = hex_of(data, pos + 2, end)
        pos += 6
        if 0xD800 <= point <= 0xDBFF:
            low = hex_of(data, pos + 2, end)
            pos += 6
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
        if point < 0x80:
            out[at] = point
            at += 1
        elif point < 0x800:
            out[at] = 0xC0 | (point >> 6)
            out[at + 1] = 0x80 | (point & 0x3F)
            at += 2
        elif point < 0x10000:
            out[at] = 0xE0 | (point >> 12)
            out[at + 1] = 0x80 | ((point >> 6) & 0x3F)
            out[at + 2] = 0x80 | (point & 0x3F)
            at += 3
        else:
            out[at] = 0xF0 | (point >> 18)
            out[at + 1] = 0x80 | ((point >> 12) & 0x3F)
            out[at + 2] = 0x80 | ((point >> 6) & 0x3F)
            out[at + 3] = 0x80 | (point & 0x3F)
            at += 4
    return at


def behind_word(data: Memory, pos: int, end: int) -> int:
    """The pos behind `true`, `false` or `null`, or -1 less the error code."""
    byte = data[pos]
    if byte == 116:
        if end - pos >= 4 and data[pos + 1] == 114 and data[pos + 2] == 117 and data[pos + 3] == 101:
            return pos + 4
    elif byte == 110:
        if end - pos >= 4 and data[pos + 1] == 117 and data[pos + 2] == 108 and data[pos + 3] == 108:
            return pos + 4
    elif (
        byte == 102 and end - pos >= 5 and data[pos + 1] == 97 and data[pos + 2] == 108 and data[pos + 3] == 115
        and data[pos + 4] == 101
    ):  # fmt: skip
        return pos + 5
    return -1 - BAD_JSON


def infinite(data: Memory, pos: int, size: int) -> int:
    """Recognize strings that stand for a double, as Spark does: 1 NaN, 2 infinity, 3 minus infinity, 0 another text."""
    if size == 3 and data[pos] == 78 and data[pos + 1] == 97 and data[pos + 2] == 78:
        return 1
    sign = 2
    if size > 0 and (data[pos] == 43 or data[pos] == 45):
        sign = 3 if data[pos] == 45 else 2
        pos += 1
        size -= 1
    if size < 3 or data[pos] != 73:  # I
        return 0
    if size == 3 and data[pos + 1] == 78 and data[pos + 2] == 70:
        return sign
    if (
        size == 8 and data[pos + 1] == 110 and data[pos + 2] == 102 and data[pos + 3] == 105 and data[pos + 4] == 110
        and data[pos + 5] == 105 and data[pos + 6] == 116 and data[pos + 7] == 121
    ):  # fmt: skip
        return sign
    return 0


def two_digits(data: Memory, pos: int, end: int) -> int:
    """Their number, or -1."""
    if end - pos < 2 or not is_digit(data, pos, end) or not is_digit(data, pos + 1, end):
        return -1
    return data[pos] * 10 + data[pos + 1] - 528


def days_of(data: Memory, pos: int, end: int, most: int) -> tuple[int, int]:
    """(days since 1970, where the date ends) of a date as 2024-05-06; the end is -1 where it is none.

    The year has 4 to `most` digits and may have a sign, as Spark reads it: 0000-12-31, +12024-05-06.
    """
    sign = 1
    if pos < end and (data[pos] == 45 or data[pos] == 43):
        sign = -1 if data[pos] == 45 else 1
        pos += 1
    begin = pos
    year = 0
    while is_digit(data, pos, end):
        if pos - begin == most:
            return 0, -1
        year = year * 10 + data[pos] - 48
        pos += 1
    if pos - begin < 4 or end - pos < 6 or data[pos] != 45 or data[pos + 3] != 45:
        return 0, -1
    year *= sign
    month = two_digits(data, pos + 1, end)
    day = two_digits(data, pos + 4, end)
    if month < 1 or month > 12 or day < 1:
        return 0, -1
    last = 31
    if month == 4 or month == 6 or month == 9 or month == 11:
        last = 30
    elif month == 2:
        last = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    if day > last:
        return 0, -1
    if month <= 2:  # years that begin with March end with the day that some lack
        year -= 1
        month += 12
    eras = 25001  # of 400 years: no year is below 0 then, where C divides otherwise
    year += 400 * eras
    days = 365 * year + year // 4 - year // 100 + year // 400
    return days - 146097 * eras + (153 * (month - 3) + 2) // 5 + day - 719469, pos + 6


def micros_of(data: Memory, pos: int, end: int, has_zone: bool) -> tuple[int, bool]:
    """(microseconds since 1970, whether it is a timestamp). Without `has_zone` a date alone is its midnight."""
    days, pos = days_of(data, pos, end, 6)
    if pos < 0:
        return 0, False
    seconds = days * 86400
    part = 0
    if pos == end:
        if has_zone:
            return 0, False
    else:
        if data[pos] != 84 and data[pos] != 116 and data[pos] != 32:  # T, t, space
            return 0, False
        hour = two_digits(data, pos + 1, end)
        if hour < 0 or hour > 23 or end - pos < 6 or data[pos + 3] != 58:
            return 0, False
        minute = two_digits(data, pos + 4, end)
        if minute < 0 or minute > 59:
            return 0, False
        pos += 6
        second = 0
        if pos < end and data[pos] == 58:
            second = two_digits(data, pos + 1, end)
            if second < 0 or second > 59:
                return 0, False
            pos += 3
            if pos < end and data[pos] == 46:
                pos += 1
                if not is_digit(data, pos, end):
                    return 0, False
                worth = 100000
                while is_digit(data, pos, end):
                    part += (data[pos] - 48) * worth
                    worth = worth // 10
                    pos += 1
        seconds += hour * 3600 + minute * 60 + second
    if has_zone:
        if pos >= end:
            return 0, False
        sign = data[pos]
        pos += 1
        if sign == 43 or sign == 45:
            hour = two_digits(data, pos, end)
            pos += 2
            minute = 0
            if pos < end:
                if data[pos] == 58:
                    pos += 1
                minute = two_digits(data, pos, end)
                pos += 2
            if hour < 0 or hour > 18 or minute < 0 or minute > 59 or (hour == 18 and minute > 0):
                return 0, False
            seconds -= (hour * 3600 + minute * 60) * (1 if sign == 43 else -1)
        elif sign != 90 and sign != 122:  # Z, z
            return 0, False
    if pos != end:
        return 0, False
    most = 9223372  # seconds that 64 bits of microseconds have; a literal of more than 32 bits is an object of Python
    most = most * 1000000 + 36854
    if seconds >= 0:
        if seconds > most or (seconds == most and part > 775807):
            return 0, False
        return seconds * 1000000 + part, True
    seconds += 1
    if seconds < -most or (seconds == -most and part < 224192):
        return 0, False
    return seconds * 1000000 + (part - 1000000), True


def base64_digit(byte: int) -> int:
    if 65 <= byte <= 90:
        return byte - 65
    if 97 <= byte <= 122:
        return byte - 71
    if 48 <= byte <= 57:
        return byte + 4
    if byte == 43:
        return 62
    return 63 if byte == 47 else -1


def from_base64(out: Memory, begin: int, end: int) -> int:
    """Base64 to its bytes, in place, which are fewer. Where they end, or -1."""
    if (end - begin) % 4:
        return -1
    pos = begin
    at = begin
    while pos < end:
        bits = 0
        count = 4
        if pos + 4 == end and out[pos + 3] == 61:
            count = 2 if out[pos + 2] == 61 else 3
        for i in range(count):
            digit = base64_digit(out[pos + i])
            if digit < 0:
                return -1
            bits = (bits << 6) | digit
        bits <<= 6 * (4 - count)
        if (count == 2 and bits & 0xFFFF) or (count == 3 and bits & 0xFF):
            return -1
        out[at] = bits >> 16
        at += 1
        if count > 2:
            out[at] = (bits >> 8) & 0xFF
            at += 1
        if count > 3:
            out[at] = bits & 0xFF
            at += 1
        pos += 4
    return at


def nearest(fives: Any, mantissa: int, power: int, wide: bool) -> int:
    """The bits of the double, or float, that is nearest to mantissa times ten to the power. For the compiled kernel."""
    if wide:
        size = 52
        bias = 1023
        beyond = 0x7FF
        least_even = -4
        most_even = 23
    else:
        size = 23
        bias = 127
        beyond = 0xFF
        least_even = -17
        most_even = 10
    above = beyond
    above <<= size
    if mantissa == 0 or power < -342:
        return 0
    if power > 308:
        return above
    zeros = 0
    while mantissa >> 56 == 0:
        mantissa <<= 8
        zeros += 8
    while mantissa >> 63 == 0:
        mantissa <<= 1
        zeros += 1
    at = 2 * (power + 342)
    high, low = product(mantissa, fives[at])
    mask = 0
    mask = ~mask >> (size + 3)
    if high & mask == mask:
        more, rest = product(mantissa, fives[at + 1])
        low += more
        if more > low:
            high += 1
    upper = high >> 63
    shift = upper + 64 - size - 3
    found = high >> shift
    exponent = ((217706 * power) >> 16) + 63 + upper - zeros + bias
    one = 1
    if exponent <= 0:
        if 1 - exponent >= 64:
            return 0
        found >>= 1 - exponent
        found += found & 1
        found >>= 1
        return found
    if low <= 1 and power >= least_even and power <= most_even and found & 3 == 1 and (found << shift) == high:
        found &= ~one
    found += found & 1
    found >>= 1
    if found >= (one << (size + 1)):
        found = one << size
        exponent += 1
    if exponent >= beyond:
        return above
    found &= ~(one << size)
    one = exponent
    return found | (one << size)


class JsonDecoding(Decoding):
    """Texts to the columns of one type, by words that it writes to: which name is expected next.

    `entry`: the root's node; `longest`: the bytes of the longest name; `rescued`: the column of rescued fields, which
    only a struct has; 0: there is none.
    """

    def __init__(
        self,
        code: memoryview,
        entry: int,
        constants: memoryview,
        depth: int,
        longest: int,
        rescued: int,
        columns: Sequence[tuple[int, int, int, int]],
    ) -> None:
        Decoding.__init__(self, code, memoryview(struct.pack("=i", entry)).cast("i"), constants, depth, columns)
        self._rescued = rescued
        self._lacks = False  # no column takes all of the member that begins at `_member`
        self._member = 0
        self._words = code
        self._fives = memoryview(_FIVES).cast("Q")
        self._passed = memoryview(bytearray(MOST_DEPTH + 1))  # for each level without a column: whether it is an object
        self._longest = longest
        self._scratch = memoryview(bytearray(max(longest, MOST_ESCAPED) + 8))
        self._state = 0
        self._field = 0
        self._mantissa = 0
        self._exponent = 0
        self._negative = False
        self._whole = False
        self._exact = False

    def _unframed(self, data: Memory, pos: int, end: int) -> int:
        """Pass over a schema id, behind a byte 0x00, which no JSON begins with. An error code, or 0 with `_pos` behind
        the id, which has four bytes or, behind four zeros, eight."""
        if pos < end and data[pos] == 0:
            if end - pos < 5:
                return BAD_FRAME
            size = 5
            if data[pos + 1] == 0 and data[pos + 2] == 0 and data[pos + 3] == 0 and data[pos + 4] == 0:
                size = 9
            if end - pos < size:
                return BAD_FRAME
            pos += size
        self._pos = pos
        return EMPTY if pos == end else 0

    def _wait(self, column: int, wanted: int, state: int, pos: int, index: int, depth: int) -> int:
        """Stop as `_full`; `run` goes on in this state, at the node `_pc`."""
        self._state = state
        return self._full(column, wanted, self._pc, pos, index, depth)

    def _record(self, data: Memory, end: int, data_end: int) -> int:
        """Read a record as `Decoding._record` does. `_pc` is the node that is read."""
        if not self._paused:
            self._state = AT_VALUE
            self._lacks = False
            failure = self._unframed(data, self._pos, end)
            if failure:
                return failure
        if cython.compiled:
            code = cython.address(self._code[0])
        else:
            code = self._code
        state = self._state
        pos = self._pos
        index = self._index
        depth = self._depth
        node = self._pc
        while True:
            pos = behind_space(data, pos, end)
            if state == BEHIND_VALUE:
                if depth == 0:
                    self._pc = self._entries[0]
                    return TRAILING if pos < end else 0
                if self._lacks and depth == 1 and not self._rescue(data, pos, index):
                    return self._wait(self._rescued, self.wanted, state, pos, index, depth)
                node = self._stack[depth - 1, FRAME_NODE]
                self._pc = node
                if pos >= end:
                    return CUT
                byte = data[pos]
                pos += 1
                if byte == 44:  # a comma
                    if code[node + NODE_OP] == READ_STRUCT:
                        state = AT_KEY
                    else:
                        index += 1
                        state = AT_KEY if code[node + NODE_OP] == READ_MAP else AT_ITEM
                    continue
                if byte != (93 if code[node + NODE_OP] == READ_LIST else 125):
                    return BAD_JSON
                if code[node + NODE_OP] == READ_STRUCT:
                    if not self._has_required(code[node + NODE_FIRST], index):
                        return MISSING
                else:
                    start = index + 1  # behind the last item
                    index = self._stack[depth - 1, FRAME_INDEX]
                    out = buffer_of(self, code[node + NODE_COLUMN], VALUES_AT)
                    store32(out, index + 1, start)
                depth -= 1
                continue
            if pos >= end:
                return CUT
            byte = data[pos]
            if state in (AT_KEY, AT_FIRST_KEY):
                if byte == 125 and state == AT_FIRST_KEY:
                    pos += 1
                    if code[node + NODE_OP] == READ_STRUCT:
                        if not self._has_required(code[node + NODE_FIRST], index):
                            return MISSING
                    else:
                        index = self._stack[depth - 1, FRAME_INDEX]
                    depth -= 1
                    state = BEHIND_VALUE
                    continue
                if byte != 34:
                    return BAD_JSON
                start = pos
                if depth == 1:
                    self._member = pos
                pos = self._name(node, data, pos, end, index, depth)
                if pos == -1:
                    return self._wait(self.wanted_column, self.wanted, state, start, index, depth)
                if pos < 0:
                    return -1 - pos
                field = self._field
                pos = behind_space(data, pos, end)
                if pos >= end:
                    return CUT
                if data[pos] != 58:  # a colon
                    return BAD_JSON
                pos += 1
                if field == 0:  # no column has this name
                    self._lacks = self._rescued > 0
                    pos = self._pass(data, pos, end, depth)
                    if pos < 0:
                        return -1 - pos
                    state = BEHIND_VALUE
                    continue
                if field > 0:
                    self._stack[depth - 1, FRAME_ENTRY] = field
                    node = code[field + ENTRY_NODE]
                else:
                    node = code[node + NODE_FIRST]
                self._pc = node
                state = AT_VALUE
                continue
            if state in (AT_ITEM, AT_FIRST_ITEM):
                if byte == 93 and state == AT_FIRST_ITEM:
                    pos += 1
                    index = self._stack[depth - 1, FRAME_INDEX]
                    depth -= 1
                    state = BEHIND_VALUE
                    continue
                column = code[node + NODE_COLUMN]
                if index >= self._table[column, ROOM]:
                    return self._wait(column, index + 1, state, pos, index, depth)
                node = code[node + NODE_FIRST]
                self._pc = node
                state = AT_VALUE
            # A value for the node, at the index.
            op = code[node + NODE_OP]
            column = code[node + NODE_COLUMN]
            if byte == 110:  # n
                pos = behind_word(data, pos, end)
                if pos < 0:
                    return -1 - pos
                if code[node + NODE_NULL] == 0:
                    return BAD_NULL
                self._nulls(column, self._table[column, LAST], index)
                state = BEHIND_VALUE
                continue
            if op <= READ_MAP:
                if byte != (91 if op == READ_LIST else 123):
                    pos = self._pass(data, pos, end, depth)
                    return -1 - pos if pos < 0 else WRONG_TYPE
                if depth >= MOST_DEPTH:
                    return TOO_DEEP
                pos += 1
                put_bit(buffer_of(self, column, VALID_AT), index, 1)
                self._stack[depth, FRAME_NODE] = node
                self._stack[depth, FRAME_INDEX] = index
                if op == READ_STRUCT:
                    self._nulls(column + 1, self._table[column, LAST], index)
                    self._stack[depth, FRAME_ENTRY] = code[node + NODE_FIRST] + BLOCK_EXPECTED - ENTRY_EXPECTED
                    state = AT_FIRST_KEY
                else:
                    out = buffer_of(self, column, VALUES_AT)
                    start = signed32(out, index)
                    store32(out, index + 1, start)
                    index = start
                    state = AT_FIRST_KEY if op == READ_MAP else AT_FIRST_ITEM
                depth += 1
                continue
            start = pos
            pos = self._scalar_or_text(node, data, pos, end, index, depth)
            if pos == -1:
                return self._wait(self.wanted_column, self.wanted, AT_VALUE, start, index, depth)
            if pos < 0:
                return -1 - pos
            put_bit(buffer_of(self, column, VALID_AT), index, 1)
            state = BEHIND_VALUE

    def _rescue(self, data: Memory, end: int, index: int) -> bool:
        """Append the member that ends before `end`, space aside, to the rescued fields. False: no room (`wanted`)."""
        while data[end - 1] <= 32:
            end -= 1
        size = end - self._member
        out = buffer_of(self, self._rescued, VALUES_AT)
        begin = signed32(out, index)
        at = signed32(out, index + 1)
        if at > begin:
            at -= 1  # the brace
        if size + 2 > self._table[self._rescued, ROOM] - at:
            self.wanted = at + size + 2
            return False
        into = buffer_of(self, self._rescued, DATA_AT)
        into[at] = 123 if at == begin else 44
        self._copy(into, at + 1, data, self._member, size)
        into[at + 1 + size] = 125
        store32(out, index + 1, at + size + 2)
        put_bit(buffer_of(self, self._rescued, VALID_AT), index, 1)
        self._lacks = False
        return True

    def _name(self, node: int, data: Memory, pos: int, end: int, index: int, depth: int) -> int:
        """Read the name of a struct's field, whose entry is then `_field` (0: no column has the name), or a map's key
        (-1). Returns as `_text` does."""
        if cython.compiled:
            words = cython.address(self._words[0])
            constants = cython.address(self._constants[0])
        else:
            words = self._words
            constants = self._constants
        if words[node + NODE_OP] == READ_MAP:
            column = words[node + NODE_COLUMN]
            if index >= self._table[column, ROOM]:
                self.wanted_column = column
                self.wanted = index + 1
                return -1
            self._field = -1
            return self._text(words[node + NODE_SECOND], data, pos, end, index)
        start = pos + 1
        entry = self._stack[depth - 1, FRAME_ENTRY]
        field = words[entry + ENTRY_EXPECTED]
        size = words[field + ENTRY_PLAIN]
        if (
            size < end - start
            and data[start + size] == 34
            and same(constants, words[field + ENTRY_NAME], data, start, size)
        ):
            self._field = field
            return start + size + 1  # type: ignore[no-any-return]
        pos, flags = scan_string(data, start, end)
        if pos < 0:
            return pos
        field = self._named(words[node + NODE_FIRST], data, start, pos, flags)
        if field:
            words[entry + ENTRY_EXPECTED] = field
        self._field = field
        return pos + 1

    def _scalar_or_text(self, node: int, data: Memory, pos: int, end: int, index: int, depth: int) -> int:
        """Read a value other than a struct, map or array. Returns as `_text` does."""
        op = self._code[node + NODE_OP]
        column = self._code[node + NODE_COLUMN]
        if op != READ_TEXT and op != READ_BASE64:
            return self._scalar(node, data, pos, end, index, depth)
        if data[pos] == 34:
            pos = self._text(column, data, pos, end, index)
            if pos >= 0 and op == READ_BASE64 and not self._from_base64(column, index):
                return -1 - BAD_BASE64
            return pos
        if op == READ_TEXT:
            return self._json_text(column, data, pos, end, index, depth)
        pos = self._pass(data, pos, end, depth)
        return pos if pos < 0 else -1 - WRONG_TYPE

    def _has_required(self, block: int, index: int) -> bool:
        """Whether a struct has the fields that cannot be null; if not, `_node` is the first that it lacks."""
        at = self._code[block + BLOCK_REQUIRED_AT]
        for i in range(self._code[block + BLOCK_REQUIRED]):
            if bit_at(buffer_of(self, self._code[at + 2 * i], VALID_AT), index) == 0:
                self._pc = self._code[at + 2 * i + 1]
                return False
        return True

    def _named(self, block: int, data: Memory, begin: int, end: int, flags: int) -> int:
        """The entry of a name; 0 where no column has it."""
        mask = self._code[block + BLOCK_MASK]
        slots = self._code[block + BLOCK_SLOTS]
        if flags & ESCAPED:
            end = self._unescaped(data, begin, end, self._longest)
            if end < 0:
                return 0
            begin = 0
            if cython.compiled:
                data = cython.address(self._scratch[0])
            else:
                data = self._scratch
        hashed = 0
        size = end - begin
        for i in range(size):  # as `programs.hash_of`
            hashed = (hashed * 31 + data[begin + i]) & 0xFFFFFF
        hashed = (hashed ^ (hashed >> 12)) & mask
        while True:
            entry = self._code[slots + hashed]
            if entry == 0:
                return 0
            if self._code[entry + ENTRY_SIZE] == size:
                if cython.compiled:
                    constants = cython.address(self._constants[0])
                else:
                    constants = self._constants
                if same(constants, self._code[entry + ENTRY_NAME], data, begin, size):
                    return entry
            hashed = (hashed + 1) & mask

    def _unescaped(self, data: Memory, pos: int, end: int, most: int) -> int:
        """Write a string with escapes to `_scratch`. Its size, or -1 where that is more than `most`: the rest of a long
        string is not read."""
        if cython.compiled:
            scratch = cython.address(self._scratch[0])
        else:
            scratch = self._scratch
        at = 0
        while pos < end:
            after = pos + 1
            if data[pos] == 92:
                after = behind_escape(data, pos, end)
            at = unescape(data, pos, after, scratch, at)
            if at > most:
                return -1
            pos = after
        return at

    def _text(self, column: int, data: Memory, pos: int, end: int, index: int) -> int:
        """A string to a column of bytes. The pos behind it, -1 where the column is full (`wanted`), or -1 less the
        error code."""
        begin = pos + 1
        quote, flags = scan_string(data, begin, end)
        if quote < 0:
            return quote
        size = quote - begin
        out = buffer_of(self, column, VALUES_AT)
        start = signed32(out, index)
        if size > self._table[column, ROOM] - start:
            self.wanted_column = column
            self.wanted = start + size
            return -1
        into = buffer_of(self, column, DATA_AT)
        if flags & ESCAPED:
            store32(out, index + 1, unescape(data, begin, quote, into, start))
        else:
            self._copy(into, start, data, begin, size)
            store32(out, index + 1, start + size)
        put_bit(buffer_of(self, column, VALID_AT), index, 1)
        return quote + 1

    def _copy(self, out: Memory, at: int, data: Memory, pos: int, size: int) -> None:
        if cython.compiled:
            memcpy(out + at, data + pos, size)  # type: ignore[name-defined, operator]  # noqa: F821
        else:
            out[at : at + size] = data[pos : pos + size]

    def _json_text(self, column: int, data: Memory, pos: int, end: int, index: int, depth: int) -> int:
        """A value that is no string to a column of text: its JSON. As `_text` returns."""
        after = self._pass(data, pos, end, depth)
        if after < 0:
            return after
        out = buffer_of(self, column, VALUES_AT)
        start = signed32(out, index)
        if after - pos > self._table[column, ROOM] - start:
            self.wanted_column = column
            self.wanted = start + after - pos
            return -1
        self._copy(buffer_of(self, column, DATA_AT), start, data, pos, after - pos)
        store32(out, index + 1, start + after - pos)
        return after

    def _from_base64(self, column: int, index: int) -> bool:
        out = buffer_of(self, column, VALUES_AT)
        after = from_base64(buffer_of(self, column, DATA_AT), signed32(out, index), signed32(out, index + 1))
        if after < 0:
            return False
        store32(out, index + 1, after)
        return True

    def _scalar(self, node: int, data: Memory, pos: int, end: int, index: int, depth: int) -> int:
        """A value of fixed width to the node's column. The pos behind it, or -1 less the error code."""
        op = self._code[node + NODE_OP]
        out = buffer_of(self, self._code[node + NODE_COLUMN], VALUES_AT)
        byte = data[pos]
        if byte == 45 or 48 <= byte <= 57:
            start = pos
            pos = self._number(data, pos, end)
            if pos < 0:
                return pos
            if op == READ_INTEGER:
                return pos if self._put_integer(out, node, data, start, pos, index) else -1 - BAD_NUMBER
            if op in (READ_DOUBLE, READ_FLOAT):
                return pos if self._put_double(out, op == READ_DOUBLE, data, start, pos, index) else -1 - BAD_NUMBER
            if op == READ_DECIMAL:
                return pos if self._put_decimal(out, node, data, start, pos, index) else -1 - BAD_NUMBER
            return -1 - WRONG_TYPE
        if byte == 34:
            start = pos + 1
            pos, flags = scan_string(data, start, end)
            if pos < 0:
                return pos
            code = self._quoted(node, out, data, start, pos, flags, index)
            return -1 - code if code else pos + 1
        if op == READ_BOOLEAN and (byte == 116 or byte == 102):
            after = behind_word(data, pos, end)
            if after >= 0:
                put_bit(out, index, byte == 116)
            return after
        pos = self._pass(data, pos, end, depth)
        return pos if pos < 0 else -1 - WRONG_TYPE

    def _quoted(self, node: int, out: Memory, data: Memory, begin: int, end: int, flags: int, index: int) -> int:
        """A string that stands for a time, a decimal or an infinite double. 0, or an error code."""
        op = self._code[node + NODE_OP]
        if op < READ_DOUBLE or op == READ_BOOLEAN:
            return WRONG_TYPE
        if flags & ESCAPED:
            end = self._unescaped(data, begin, end, MOST_ESCAPED)
            if end < 0:
                return WRONG_TYPE
            begin = 0
            if cython.compiled:
                data = cython.address(self._scratch[0])
            else:
                data = self._scratch
        if op in (READ_DOUBLE, READ_FLOAT):
            which = infinite(data, begin, end - begin)
            if which == 0:
                return WRONG_TYPE
            if op == READ_DOUBLE:
                bits = 0x7FF8 if which == 1 else 0x7FF0 if which == 2 else 0xFFF0
                bits <<= 48
                store(out, index, 8, bits)
            else:
                bits = 0x7FC0 if which == 1 else 0x7F80 if which == 2 else 0xFF80
                store(out, index, 4, bits << 16)
            return 0
        if op == READ_DECIMAL:
            if end == begin or not (data[begin] == 45 or is_digit(data, begin, end)):
                return WRONG_TYPE
            if self._number(data, begin, end) != end:
                return WRONG_TYPE
            return 0 if self._put_decimal(out, node, data, begin, end, index) else BAD_NUMBER
        if op == READ_DATE:
            days, stop = days_of(data, begin, end, 7)
            least = 1
            least <<= 31
            if stop != end or days < -least or days >= least:
                return BAD_DATE
            store(out, index, 4, days)
            return 0
        micros, right = micros_of(data, begin, end, op != READ_LOCAL_TIMESTAMP)
        if not right:
            return BAD_LOCAL_TIME if op == READ_LOCAL_TIMESTAMP else BAD_INSTANT
        store(out, index, 8, micros)
        return 0

    def _number(self, data: Memory, pos: int, end: int) -> int:
        """The pos behind a number, whose parts are then in `_mantissa`, its first 19 digits, and `_exponent`; or -1
        less the error code. `_exact`: the number has no digits but those; `_whole`: it is written as an integer."""
        mantissa = 0
        exponent = 0
        digits = 0
        exact = True
        self._negative = data[pos] == 45
        if self._negative:
            pos += 1
        if not is_digit(data, pos, end):
            return -1 - (CUT if pos >= end else BAD_JSON)
        if data[pos] == 48:
            pos += 1
            if is_digit(data, pos, end):
                return -1 - BAD_JSON
        while is_digit(data, pos, end):
            if digits < MOST_DIGITS:
                mantissa = mantissa * 10 + (data[pos] - 48)
                digits += 1
            else:
                exponent += 1
                if data[pos] != 48:
                    exact = False
            pos += 1
        self._whole = exponent == 0
        if pos < end and data[pos] == 46:
            pos += 1
            if not is_digit(data, pos, end):
                return -1 - (CUT if pos >= end else BAD_JSON)
            self._whole = False
            while is_digit(data, pos, end):
                if digits < MOST_DIGITS:
                    mantissa = mantissa * 10 + (data[pos] - 48)
                    exponent -= 1
                    if mantissa != 0:
                        digits += 1
                elif data[pos] != 48:
                    exact = False
                pos += 1
        if pos < end and (data[pos] == 101 or data[pos] == 69):
            pos += 1
            minus = False
            if pos < end and (data[pos] == 43 or data[pos] == 45):
                minus = data[pos] == 45
                pos += 1
            if not is_digit(data, pos, end):
                return -1 - (CUT if pos >= end else BAD_JSON)
            self._whole = False
            given = 0
            while is_digit(data, pos, end):
                if given < 2000000000:  # more than a record has digits
                    given = given * 10 + (data[pos] - 48)
                pos += 1
            exponent += -given if minus else given
        self._mantissa = mantissa
        self._exponent = exponent
        self._exact = exact
        return pos

    def _put_integer(self, out: Memory, node: int, data: Memory, start: int, end: int, index: int) -> bool:
        width = self._code[node + NODE_FIRST]
        least = 1
        least <<= 8 * width - 1  # the absolute value of the least number
        mantissa = self._mantissa
        if not self._whole:
            high, low, right = self._digits(data, start, end, 0, MOST_DIGITS)
            if not right or high != 0:
                return False
            mantissa = low
        if self._negative:
            if mantissa > least:
                return False
            value = -mantissa
        else:
            if mantissa >= least:
                return False
            value = mantissa
        store(out, index, width, value)
        return True

    def _put_decimal(self, out: Memory, node: int, data: Memory, start: int, end: int, index: int) -> bool:
        high, low, right = self._digits(data, start, end, self._code[node + NODE_FIRST], self._code[node + NODE_SECOND])
        if not right:
            return False
        if self._negative:
            if cython.compiled:
                low = ~low + 1
                high = ~high
            else:
                low = -low & _MASK
                high = ~high & _MASK
            if low == 0:
                high += 1
                if not cython.compiled:
                    high &= _MASK
        little = is_little()
        store(out, 2 * index + (0 if little else 1), 8, low)
        store(out, 2 * index + (1 if little else 0), 8, high)
        return True

    def _digits(self, data: Memory, start: int, end: int, scale: int, most: int) -> tuple[int, int, bool]:
        """A number's digits with `scale` of them behind the point, without its sign: (high half, low half, whether it
        has at most `most` digits so, and none behind them but zeros)."""
        first = -1  # the first and the last digit that is not 0
        last = -1
        point = -1
        stop = end
        for pos in range(start, end):
            if 49 <= data[pos] <= 57:
                if first < 0:
                    first = pos
                last = pos
            elif data[pos] == 46:
                point = pos
            elif data[pos] == 101 or data[pos] == 69:
                stop = pos
                break
        high = 0
        low = 0
        if first < 0:
            return high, low, True
        given = 0
        minus = False
        for pos in range(stop + 1, end):
            if is_digit(data, pos, end):
                if given < 2000000000:
                    given = given * 10 + (data[pos] - 48)
            else:
                minus = data[pos] == 45
        if point < 0:
            point = stop
        zeros = (-given if minus else given) + scale  # behind the last digit
        zeros += point - last - 1 if last < point else point - last
        count = last - first + (0 if first < point < last else 1)
        if zeros < 0 or count > most or zeros > most - count:
            return high, low, False
        for pos in range(first, last + 1):
            if data[pos] != 46:
                high, low = times_ten(high, low, data[pos] - 48)
        for pos in range(zeros):  # noqa: B007
            high, low = times_ten(high, low, 0)
        return high, low, True

    def _put_double(self, out: Memory, wide: bool, data: Memory, start: int, end: int, index: int) -> bool:
        """False where it is beyond the type."""
        size = 8 if wide else 4
        if cython.compiled:
            mantissa = self._mantissa
            exponent = self._exponent
            if wide and self._exact and mantissa >> 53 == 0 and exponent >= -22 and exponent <= 22:
                value = 0.0 + mantissa
                ten = 1.0
                power = exponent if exponent > 0 else -exponent
                for _ in range(power):
                    ten = ten * 10.0
                value = value * ten if exponent > 0 else value / ten
                if self._negative:
                    value = -value
                memcpy(out + 8 * index, cython.address(value), 8)  # type: ignore[name-defined, operator]  # noqa: F821
                return True
            if exponent < -100000:
                exponent = -100000
            elif exponent > 100000:
                exponent = 100000
            power = exponent
            fives = cython.address(self._fives[0])
            bits = nearest(fives, mantissa, power, wide)
            if not self._exact and bits != nearest(fives, mantissa + 1, power, wide):
                with cython.gil:
                    bits = bits_of(bytes(data[start:end]), wide)
            beyond = 0x7FF0 if wide else 0x7F80
            beyond <<= 8 * size - 16
            sign = 1
            sign <<= 8 * size - 1
            bits &= ~sign
            if bits >= beyond:
                return False
            store(out, index, size, bits | sign if self._negative else bits)
            return True
        else:
            bits = bits_of(bytes(data[start:end]), wide)
            if bits & ~(1 << (8 * size - 1)) >= (0x7FF0 if wide else 0x7F80) << (8 * size - 16):
                return False
            store(out, index, size, bits)
            return True

    def _pass(self, data: Memory, pos: int, end: int, depth: int) -> int:
        """The pos behind a value that no column takes, which is checked, or -1 less the error code. `depth`: objects
        and arrays around it."""
        within = 0
        while True:
            pos = behind_space(data, pos, end)
            if pos >= end:
                return -1 - CUT
            byte = data[pos]
            if byte == 34:
                pos, flags = scan_string(data, pos + 1, end)
                pos = pos + 1 if pos >= 0 else pos
            elif byte == 123 or byte == 91:
                if depth + within >= MOST_DEPTH:
                    return -1 - TOO_DEEP
                self._passed[within] = byte == 123
                within += 1
                pos = behind_space(data, pos + 1, end)
                if pos >= end:
                    return -1 - CUT
                if data[pos] != byte + 2:  # it is not empty
                    if byte == 123:
                        pos = self._pass_key(data, pos, end)
                        if pos < 0:
                            return pos
                    continue
                within -= 1
                pos += 1
            elif byte == 45 or 48 <= byte <= 57:
                pos = self._number(data, pos, end)
            else:
                pos = behind_word(data, pos, end)
            if pos < 0:
                return pos
            while within > 0:
                pos = behind_space(data, pos, end)
                if pos >= end:
                    return -1 - CUT
                byte = data[pos]
                pos += 1
                if byte == 44:
                    if self._passed[within - 1]:
                        pos = self._pass_key(data, behind_space(data, pos, end), end)
                        if pos < 0:
                            return pos
                    break
                if byte != (125 if self._passed[within - 1] else 93):
                    return -1 - BAD_JSON
                within -= 1
            else:
                return pos

    def _pass_key(self, data: Memory, pos: int, end: int) -> int:
        """The pos behind a name and its colon, or -1 less the error code."""
        if pos >= end:
            return -1 - CUT
        if data[pos] != 34:
            return -1 - BAD_JSON
        pos, flags = scan_string(data, pos + 1, end)
        if pos < 0:
            return pos
        pos = behind_space(data, pos + 1, end)
        if pos >= end:
            return -1 - CUT
        return pos + 1 if data[pos] == 58 else -1 - BAD_JSON


def times_ten(high: int, low: int, more: int) -> tuple[int, int]:
    """(high, low) times ten, and a digit more; below 10 to the 38th, so that nothing is lost."""
    mask = 0xFFFFFFFF
    first = (low & mask) * 10 + more
    second = (low >> 32) * 10 + (first >> 32)
    return high * 10 + (second >> 32), ((second << 32) | (first & mask)) & ((mask << 32) | mask)


_FIVES = powers_of_five()
