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
    from kafkasource.kafka.records import _nocython as cython

if not cython.compiled:  # compiled, kernel.pxd has them
    TRUE_WORD, FALSE_WORD, NULL_WORD, ZERO_WORD, NAN_WORD, INFINITY_WORD = (
        int.from_bytes(word, "little") for word in (b"true", b"false", b"null", b"0.0", b"NaN", b"Infinity")
    )
    from kafkasource.formats.buffers import bit_at, is_little, product, signed32, signed64
    from kafkasource.formats.encoding.opcodes import (
        BAD_DECIMAL,
        BAD_SIZE,
        BASE64,
        BOOLEAN,
        CLOSE,
        COMMA,
        CONST,
        COPY4,
        COPY8,
        DATA_AT,
        DATE,
        DECIMAL,
        DECIMAL_FIXED,
        DECIMAL_TEXT,
        DIVIDED,
        END,
        ENUM,
        FAIL,
        FIXED,
        INT8,
        INT16,
        INT32,
        INT64,
        ITEMS,
        JUMP,
        LEAST_TEN,
        MEMBER,
        MOST_NUMBER,
        MOST_VARINT,
        NAME,
        NAME_SET,
        NAME_TAG,
        NEXT,
        NEXT_PART,
        NOT_FINITE,
        NULL_ITEM,
        NULL_VALUE,
        OPEN,
        OPTIONAL,
        PARTS,
        PROPERTY,
        PUT,
        QUOTED,
        REAL,
        REAL_BARE,
        REAL_REFUSED,
        REQUIRED,
        SHIFT,
        SIZED,
        SYMBOL,
        TAG,
        TEXT,
        TIME,
        TIMESTAMP,
        TRUTH,
        UNKNOWN_SYMBOL,
        UNSET,
        VALID_AT,
        VALUES_AT,
        VARINT,
        WHOLE,
        WIDENED,
        WRITE_BRANCH,
    )

if TYPE_CHECKING:
    Memory = memoryview  # compiled, a pointer

COMPILED = bool(cython.compiled)
FINGERPRINT = KAFKASOURCE_KERNEL_FINGERPRINT if cython.compiled else 0  # type: ignore[name-defined]  # noqa: F821

_ORDER = sys.byteorder
_MASK = (1 << 64) - 1
_MOST_TEN = 324


def powers_of_ten() -> bytes:
    """Return the 128 highest bits of each power from LEAST_TEN on, rounded up: the high half, then the low half."""
    found = []
    for power in range(LEAST_TEN, _MOST_TEN + 1):
        over, under = 10 ** max(power, 0), 10 ** max(-power, 0)
        shift = 127 - ((power * 1741647) >> 19)  # the second is the logarithm to the base of 2, rounded down
        value = -(-(over << shift if shift >= 0 else over) // (under if shift >= 0 else under << -shift))
        found += [value >> 64, value & _MASK]
    return struct.pack(f"={len(found)}Q", *found)


_TENS = powers_of_ten()


def put_varint(out: Memory, pos: int, raw: int) -> int:
    """The next pos. There is room for MOST_VARINT bytes."""
    while raw >= 0x80:
        out[pos] = (raw & 0x7F) | 0x80
        pos += 1
        raw >>= 7
    out[pos] = raw
    return pos + 1


def put_long(out: Memory, pos: int, value: int) -> int:
    """Write a zigzag varint as `put_varint` does."""
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


def put_size_before(out: Memory, start: int, pos: int) -> int:
    """Write the size of a message that ends at `pos` to where it is missing: at `start`, one byte before the message.
    The next pos."""
    size = pos - start - 1
    after = start + varint_size(size)
    if after > start + 1:
        move(out, after, start + 1, size)
    put_varint(out, start, size)
    return after + size


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


def negated(value: int) -> int:
    """The size of a negative number, of the smallest, too."""
    if cython.compiled:
        return 0 - cython.cast(cython.ulonglong, value)  # type: ignore[no-any-return]
    else:
        return -value


def put_digits(out: Memory, pos: int, value: int) -> int:
    """A number without a sign, at most 20 digits; the next pos."""
    size = 1
    rest = value // 10
    while rest:
        rest //= 10
        size += 1
    return put_padded(out, pos, value, size)


def put_padded(out: Memory, pos: int, value: int, size: int) -> int:
    """The lowest `size` digits of a number, zeros in front of it."""
    at = pos + size
    while at > pos:
        at -= 1
        out[at] = 48 + value % 10
        value //= 10
    return pos + size


def put_word(out: Memory, pos: int, word: int, size: int) -> int:
    """At most 8 letters, the first in the lowest byte of a number."""
    for _each in range(size):
        out[pos] = word & 0xFF
        word >>= 8
        pos += 1
    return pos


def rounded_to_odd(tens: Any, power: int, value: int) -> int:
    """The 64 high bits of a power of ten times a number; the last bit is set where bits below are."""
    carried, _rest = product(tens[2 * (power - LEAST_TEN) + 1], value)
    high, low = product(tens[2 * (power - LEAST_TEN)], value)
    mask = 0xFFFFFFFF
    mask = (mask << 32) | mask
    low = (low + carried) & mask
    if low < carried:
        high += 1
    if low > 1:
        return high | 1
    return high


def shortest(tens: Any, fraction: int, exponent: int, wide: bool) -> tuple[int, int]:
    """(digits, power of ten) of the number with the fewest digits that is read as this double, or float, as Java's
    `toString` chooses it from version 19 on: at least two digits count, and of those with as few the nearest.

    Raffaello Giulietti's method ("The Schubfach way to render doubles"). The number is not zero, infinite or NaN.
    """
    one = 1
    if exponent:
        closer = fraction == 0 and exponent > 1
        fraction |= one << (52 if wide else 23)
        exponent -= 1075 if wide else 150
    else:
        closer = False
        exponent = -1074 if wide else -149
        if fraction < (3 if wide else 8):  # Java's: else 4.9E-324 would be 5E-324
            digits, scale = shortest_of(tens, 10 * fraction, exponent, False, fraction & 1)
            return digits, scale - 1
    if exponent <= 0 and exponent > (-53 if wide else -24) and fraction & ((one << -exponent) - 1) == 0:
        return fraction >> -exponent, 0  # whole
    return shortest_of(tens, fraction, exponent, closer, fraction & 1)


def shortest_of(tens: Any, fraction: int, exponent: int, closer: bool, odd: int) -> tuple[int, int]:
    """`closer`: the double below is nearer than the double above; `odd`: a number half way is read as another one."""
    scale = (exponent * 1262611 - (524031 if closer else 0)) >> 22
    shift = exponent + ((-scale * 1741647) >> 19) + 1
    lower = rounded_to_odd(tens, -scale, (4 * fraction - (1 if closer else 2)) << shift) + odd
    upper = rounded_to_odd(tens, -scale, (4 * fraction + 2) << shift) - odd
    value = rounded_to_odd(tens, -scale, (4 * fraction) << shift)
    short = value >> 2
    if short >= 100:
        ten = short // 10 * 10
        below = lower <= 4 * ten
        above = 4 * ten + 40 <= upper
        if below != above:
            return (ten + 10 if above else ten), scale
    below = lower <= 4 * short
    above = 4 * short + 4 <= upper
    if below != above:
        return (short + 1 if above else short), scale
    ten = 4 * short + 2
    if value > ten or (value == ten and short & 1):
        return short + 1, scale
    return short, scale


def put_real(out: Memory, pos: int, digits: int, power: int) -> int:
    """digits times ten to the power as Java writes it: 0.001 to 9999999 plain, others with an exponent; at most 25
    bytes, and as many behind them are written to before."""
    while digits % 10 == 0:
        digits //= 10
        power += 1
    first = pos + 32
    size = put_digits(out, first, digits) - first
    point = size + power  # how many digits stand before the point
    if 0 < point <= 7:
        for at in range(point):
            out[pos] = out[first + at] if at < size else 48
            pos += 1
        out[pos] = 46
        pos += 1
        if size <= point:
            out[pos] = 48
            return pos + 1
        for at in range(point, size):
            out[pos] = out[first + at]
            pos += 1
        return pos
    if -3 < point <= 0:
        out[pos] = 48
        out[pos + 1] = 46
        pos += 2
        for _each in range(-point):
            out[pos] = 48
            pos += 1
        for at in range(size):
            out[pos] = out[first + at]
            pos += 1
        return pos
    out[pos] = out[first]
    out[pos + 1] = 46
    pos += 2
    if size == 1:
        out[pos] = 48
        pos += 1
    for at in range(1, size):
        out[pos] = out[first + at]
        pos += 1
    out[pos] = 69  # E
    pos += 1
    point -= 1
    if point < 0:
        out[pos] = 45
        pos += 1
        point = -point
    return put_digits(out, pos, point)


def put_decimal_text(out: Memory, pos: int, data: Memory, index: int, scale: int) -> int:
    """A decimal128 as Java's BigDecimal: plain, or with an exponent where there would be more than five zeros behind
    the point. At most 48 bytes, and as many behind them are written to before."""
    if is_little():
        signed_low = signed64(data, 2 * index)
        signed_high = signed64(data, 2 * index + 1)
    else:
        signed_high = signed64(data, 2 * index)
        signed_low = signed64(data, 2 * index + 1)
    low = signed_low
    high = signed_high
    if not cython.compiled:
        low &= _MASK
        high &= _MASK
    negative = signed_high < 0
    if negative:
        out[pos] = 45
        pos += 1
        mask = 0xFFFFFFFF
        mask = (mask << 32) | mask
        low = ((low ^ mask) + 1) & mask
        high = high ^ mask
        if low == 0:
            high = (high + 1) & mask
    first = pos + 96
    billion = 1000000000
    mask = 0xFFFFFFFF
    while high:  # nine digits a turn, from the end
        rest = high // billion
        one = high % billion
        second = (one << 32) | (low >> 32)
        third = ((second % billion) << 32) | (low & mask)
        high = rest
        low = ((second // billion) << 32) | (third // billion)
        put_padded(out, first - 9, third % billion, 9)
        first -= 9
    if low or first == pos + 96:
        size = put_digits(out, pos, low) - pos
        first -= size
        put_padded(out, first, low, size)
    size = pos + 96 - first
    while size > 1 and out[first] == 48:
        first += 1
        size -= 1
    if scale == 0:
        move(out, pos, first, size)
        return pos + size
    if size > scale:
        move(out, pos, first, size - scale)
        pos += size - scale
        out[pos] = 46
        move(out, pos + 1, first + size - scale, scale)
        return pos + 1 + scale
    if size - scale > -6:  # the first digit stands for more than a millionth of ten
        out[pos] = 48
        out[pos + 1] = 46
        pos += 2
        for _each in range(scale - size):
            out[pos] = 48
            pos += 1
        move(out, pos, first, size)
        return pos + size
    out[pos] = out[first]
    pos += 1
    if size > 1:
        out[pos] = 46
        move(out, pos + 1, first + 1, size - 1)
        pos += size
    out[pos] = 69
    out[pos + 1] = 45
    return put_digits(out, pos + 2, scale - size + 1)


def floored(value: int, divisor: int) -> int:
    """Rounded down, as Python does; C rounds towards zero."""
    if cython.compiled:
        return value // divisor - (value % divisor < 0)
    else:
        return value // divisor


def put_date(out: Memory, pos: int, days: int) -> int:
    """Days since 1970 as 2024-05-06; a year of more than four digits has a sign, as in Java. At most 16 bytes."""
    days += 719468  # from the first of March of the year 0, with eras of 400 years
    era = floored(days, 146097)
    day = days - era * 146097
    year_of_era = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day_of_year = day - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    year = year_of_era + era * 400
    month = month + 3 if month < 10 else month - 9
    if month <= 2:
        year += 1
    if year < 0:
        out[pos] = 45
        pos += 1
        year = -year
    elif year > 9999:
        out[pos] = 43
        pos += 1
    pos = put_digits(out, pos, year) if year > 9999 else put_padded(out, pos, year, 4)
    out[pos] = 45
    pos = put_padded(out, pos + 1, month, 2)
    out[pos] = 45
    return put_padded(out, pos + 1, day, 2)


def put_clock(out: Memory, pos: int, seconds: int) -> int:
    """Seconds of a day as 07:08:09."""
    pos = put_padded(out, pos, seconds // 3600, 2)
    out[pos] = 58
    pos = put_padded(out, pos + 1, seconds // 60 % 60, 2)
    out[pos] = 58
    return put_padded(out, pos + 1, seconds % 60, 2)


def put_timestamp(out: Memory, pos: int, micros: int) -> int:
    """2024-05-06T07:08:09.123, with six digits where three would lose something. At most 32 bytes."""
    day = 86400  # a literal of more than 32 bits is an object of Python
    day *= 1000000
    pos = put_date(out, pos, floored(micros, day))
    micros %= day
    if micros < 0:  # in C it has the sign of the whole
        micros += day
    out[pos] = 84  # T
    pos = put_clock(out, pos + 1, micros // 1000000)
    micros %= 1000000
    out[pos] = 46
    if micros % 1000 == 0:
        return put_padded(out, pos + 1, micros // 1000, 3)
    return put_padded(out, pos + 1, micros, 6)


def put_time_of_day(out: Memory, pos: int, micros: int) -> int:
    """07:08:09.5: without zeros at the end."""
    pos = put_clock(out, pos, micros // 1000000)
    micros %= 1000000
    if micros == 0:
        return pos
    out[pos] = 46
    pos = put_padded(out, pos + 1, micros, 6)
    while out[pos - 1] == 48:
        pos -= 1
    return pos


def base64_digit(value: int) -> int:
    if value < 26:
        return 65 + value
    if value < 52:
        return 71 + value
    if value < 62:
        return value - 4
    return 43 if value == 62 else 47


def put_base64(out: Memory, pos: int, data: Memory, start: int, size: int) -> int:
    """Between quotation marks, padded. There is room."""
    out[pos] = 34
    pos += 1
    end = start + size
    while end - start >= 3:
        three = (data[start] << 16) | (data[start + 1] << 8) | data[start + 2]
        out[pos] = base64_digit(three >> 18)
        out[pos + 1] = base64_digit((three >> 12) & 63)
        out[pos + 2] = base64_digit((three >> 6) & 63)
        out[pos + 3] = base64_digit(three & 63)
        start += 3
        pos += 4
    if start < end:
        three = data[start] << 16
        if end - start == 2:
            three |= data[start + 1] << 8
        out[pos] = base64_digit(three >> 18)
        out[pos + 1] = base64_digit((three >> 12) & 63)
        out[pos + 2] = base64_digit((three >> 6) & 63) if end - start == 2 else 61
        out[pos + 3] = 61  # =
        pos += 4
    out[pos] = 34
    return pos + 1


def character(data: Memory, pos: int, end: int) -> tuple[int, bool]:
    """(size of the character that begins with a byte from 0x80 on, whether it is valid). Invalid: how many bytes one
    U+FFFD stands for, as in Java, where half of a surrogate pair counts as a whole."""
    lead = data[pos]
    least = 0x80
    most = 0xBF
    if 0xC2 <= lead <= 0xDF:
        more = 1
    elif 0xE0 <= lead <= 0xEF:
        more = 2
        if lead == 0xE0:
            least = 0xA0
    elif 0xF0 <= lead <= 0xF4:
        more = 3
        if lead == 0xF0:
            least = 0x90
        elif lead == 0xF4:
            most = 0x8F
    else:
        return 1, False
    if pos + 1 >= end:
        return 1, False
    second = data[pos + 1]
    if second < least or second > most:
        return 1, False
    for i in range(2, more + 1):
        if pos + i >= end or data[pos + i] & 0xC0 != 0x80:
            return i, False
    return more + 1, lead != 0xED or second < 0xA0


def put_escape(out: Memory, pos: int, byte: int) -> int:
    """A control character, a quotation mark or a backslash, as Jackson writes it: at most 6 bytes."""
    out[pos] = 92
    if byte == 34 or byte == 92:
        out[pos + 1] = byte
    elif byte == 8:
        out[pos + 1] = 98
    elif byte == 9:
        out[pos + 1] = 116
    elif byte == 10:
        out[pos + 1] = 110
    elif byte == 12:
        out[pos + 1] = 102
    elif byte == 13:
        out[pos + 1] = 114
    else:
        out[pos + 1] = 117
        out[pos + 2] = 48
        out[pos + 3] = 48
        out[pos + 4] = 48 + (byte >> 4)
        byte &= 15
        out[pos + 5] = 48 + byte if byte < 10 else 55 + byte
        return pos + 6
    return pos + 2


def put_text(out: Memory, pos: int, room: int, data: Memory, start: int, size: int) -> int:
    """Write a text between quotation marks. The next pos, or -1 where the room is too small."""
    end = start + size
    if size + 16 > room - pos:
        return -1
    out[pos] = 34
    pos += 1
    while start < end:
        if cython.compiled:
            ones = 0x01010101
            ones = (ones << 32) | ones
            while end - start >= 8:  # eight plain characters at once
                word = 0
                memcpy(cython.address(word), data + start, 8)  # type: ignore[name-defined, operator]  # noqa: F821
                unsafe = word | (word - 0x20 * ones) | ((word ^ (0x22 * ones)) - ones) | ((word ^ (0x5C * ones)) - ones)
                if unsafe & (0x80 * ones):
                    break
                memcpy(out + pos, cython.address(word), 8)  # type: ignore[name-defined, operator]  # noqa: F821
                start += 8
                pos += 8
            if start >= end:
                break
        byte = data[start]
        if byte >= 0x80:
            length, right = character(data, start, end)
            if end - start + 16 > room - pos:
                return -1
            if right:
                for i in range(length):
                    out[pos + i] = data[start + i]
                pos += length
            else:
                out[pos] = 0xEF
                out[pos + 1] = 0xBF
                out[pos + 2] = 0xBD
                pos += 3
            start += length
        elif byte < 32 or byte == 34 or byte == 92:
            if end - start + 16 > room - pos:
                return -1
            pos = put_escape(out, pos, byte)
            start += 1
        else:
            out[pos] = byte
            pos += 1
            start += 1
    out[pos] = 34
    return pos + 1


class Encoding:
    """Rows of input columns to records. `columns`: how many; the first is the column that is encoded."""

    def __init__(self, code: memoryview, constants: memoryview, depth: int, columns: int) -> None:
        self._code = code
        self._constants = constants
        self._tens = memoryview(_TENS).cast("Q")
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
        """The place of the instruction that failed."""
        return self._pc

    def start(self, row: int) -> None:
        """Go on from this row, at the beginning of an output."""
        self.row = row
        self.pos = 0

    def pass_over(self, offsets: memoryview, first: int) -> None:
        """Leave the record of `row` empty: it cannot be encoded. `offsets`, `first`: those of `run`."""
        at = self.row - first
        if at < 0 or at + 1 >= len(offsets):
            raise ValueError("no such row")
        offsets[at + 1] = self.pos
        self.row += 1

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
        """Find the entry of an ENUM's symbol in the code, or -1. Entries are sorted by size, then by bytes."""
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

    def _put_real(self, out: Memory, pos: int, data: Memory, index: int, width: int, rule: int) -> int:
        """A float or a double as Java writes it; the next pos, or -2 where the rule refuses it."""
        one = 1
        if width == 8:
            bits = signed64(data, index)
            if not cython.compiled:
                bits &= _MASK
            exponent = (bits >> 52) & 0x7FF
            limit = (one << 52) - 1
            if bits >> 63:
                out[pos] = 45
            negative = bits >> 63 != 0
            bits &= limit
            largest = 0x7FF
        else:
            bits = low32(signed32(data, index))
            exponent = (bits >> 23) & 0xFF
            limit = (one << 23) - 1
            if bits >> 31:
                out[pos] = 45
            negative = bits >> 31 != 0
            bits &= limit
            largest = 0xFF
        if exponent == largest:
            return self._put_special(out, pos, bits != 0, negative, rule)
        if negative:
            pos += 1
        if exponent == 0 and bits == 0:
            return put_word(out, pos, ZERO_WORD, 3)
        if cython.compiled:
            digits, power = shortest(cython.address(self._tens[0]), bits, exponent, width == 8)
        else:
            digits, power = shortest(self._tens, bits, exponent, width == 8)
        return put_real(out, pos, digits, power)

    def _put_special(self, out: Memory, pos: int, is_nan: bool, negative: bool, rule: int) -> int:
        """NaN or an infinity."""
        if rule == REAL_REFUSED:
            return -2
        if rule != REAL_BARE:
            out[pos] = 34
            pos += 1
        if is_nan:
            pos = put_word(out, pos, NAN_WORD, 3)
        else:
            if negative:
                out[pos] = 45
                pos += 1
            pos = put_word(out, pos, INFINITY_WORD, 8)
        if rule != REAL_BARE:
            out[pos] = 34
            pos += 1
        return pos

    def _json(self, out: Memory, pos: int, room: int, pc: int, index: int, op: int) -> int:
        """Write a value of JSON. The next pos, -1 where the room is too small, -2 where the value is not a number."""
        if room - pos < MOST_NUMBER:
            return -1
        column = self._code[pc + 1]
        at = index + self._cell(column, SHIFT)
        if op in (QUOTED, BASE64):
            start = signed32(self._buffer(column, VALUES_AT), at)
            size = signed32(self._buffer(column, VALUES_AT), at + 1) - start
            if op == QUOTED:
                return put_text(out, pos, room, self._buffer(column, DATA_AT), start, size)
            if (size + 2) // 3 * 4 + 2 > room - pos:
                return -1
            return put_base64(out, pos, self._buffer(column, DATA_AT), start, size)
        if op == WHOLE:
            value = self._number(column, self._code[pc + 2], index)
            if value < 0:
                out[pos] = 45
                return put_digits(out, pos + 1, negated(value))
            return put_digits(out, pos, value)
        if op == REAL:
            return self._put_real(out, pos, self._buffer(column, VALUES_AT), at, self._code[pc + 2], self._code[pc + 3])
        if op == DECIMAL_TEXT:
            return put_decimal_text(out, pos, self._buffer(column, VALUES_AT), at, self._code[pc + 2])
        if op == TRUTH:
            if bit_at(self._buffer(column, VALUES_AT), at):
                return put_word(out, pos, TRUE_WORD, 4)
            return put_word(out, pos, FALSE_WORD, 5)
        out[pos] = 34
        if op == DATE:
            pos = put_date(out, pos + 1, signed32(self._buffer(column, VALUES_AT), at))
        else:
            value = signed64(self._buffer(column, VALUES_AT), at)
            if op == TIMESTAMP:
                pos = put_timestamp(out, pos + 1, value)
                if self._code[pc + 2]:
                    out[pos] = 90  # Z
                    pos += 1
            else:
                pos = put_time_of_day(out, pos + 1, value)
        out[pos] = 34
        return pos + 1

    def _value(self, out: Memory, pos: int, room: int, pc: int, index: int, op: int) -> int:
        """Write a value. The next pos, -1 where the room is too small, or -1 less the error code."""
        if op >= TRUTH and op != SYMBOL:
            pos = self._json(out, pos, room, pc, index, op)
            return -1 - NOT_FINITE if pos == -2 else pos
        if op == FAIL:
            return -1 - self._code[pc + 1]
        if op == WRITE_BRANCH:
            return put_varint(out, pos, self._code[pc + 1])
        column = self._code[pc + 1]
        at = index + self._cell(column, SHIFT)
        values = self._buffer(column, VALUES_AT)
        if op in (INT8, INT16):
            return put_long(out, pos, self._number(column, 1 if op == INT8 else 2, index))
        if op == VARINT:
            value = self._number(column, self._code[pc + 2], index)
            if self._code[pc + 3]:
                return put_varint(out, pos, low32(value))
            return put_varint(out, pos, value if cython.compiled else value & _MASK)
        if op == COPY4:
            copy_little(out, pos, values, at, 4)
            return pos + 4
        if op == BOOLEAN:
            out[pos] = bit_at(values, at)
            return pos + 1
        if op == DIVIDED:
            return put_long(out, pos, floored(signed64(values, at), self._code[pc + 2]))
        if op == WIDENED:
            copy_widened(out, pos, values, at)
            return pos + 8
        if op == TIME:
            if room - pos < 3 * MOST_VARINT:
                return -1
            return put_time(out, pos, signed64(values, at), self._code[pc + 2] != 0)
        if op in (DECIMAL, DECIMAL_FIXED):
            size = self._code[pc + 2] if op == DECIMAL_FIXED else -1
            if size + 18 > room - pos:  # 17 bytes at most, or the size of the fixed
                return -1
            pos = put_decimal(out, pos, values, at, size)
            return -1 - BAD_DECIMAL if pos < 0 else pos
        start = signed32(values, at)
        size = signed32(values, at + 1) - start
        data = self._buffer(column, DATA_AT)
        if op == FIXED:
            if size != self._code[pc + 2]:
                return -1 - BAD_SIZE
            if size > room - pos:
                return -1
            if size:
                copy(out, pos, data, start, size)
            return pos + size
        at = self._symbol(pc, data, start, size)
        if at < 0:
            return -1 - UNKNOWN_SYMBOL
        if op == SYMBOL:
            return pos
        value = self._code[at + 2]
        if op == ENUM:
            return put_long(out, pos, value)
        if room - pos < 2 * MOST_VARINT:  # NAME
            return -1
        at = pc + 3 + 3 * self._code[pc + 2]
        if value == 0 and self._code[at + 1] & NAME_SET:
            return pos
        if self._code[at + 1] & NAME_TAG:
            pos = put_varint(out, pos, low32(self._code[at]))
        return put_varint(out, pos, value if cython.compiled else value & _MASK)

    def _words(self, pc: int, op: int) -> int:
        """How many words the instruction of a value has."""
        if op in (ENUM, SYMBOL):
            return 3 + 3 * self._code[pc + 2]
        if op == NAME:
            return 5 + 3 * self._code[pc + 2]
        if op in (VARINT, REAL):
            return 4
        if op in (DIVIDED, FIXED, DECIMAL_FIXED, TIME, WHOLE, DECIMAL_TEXT, TIMESTAMP):
            return 3
        return 2

    def _constant(self, out: Memory, pos: int, start: int, size: int) -> int:
        if cython.compiled:
            memcpy(out + pos, cython.address(self._constants[start]), size)  # type: ignore[name-defined, operator]  # noqa: F821
        else:
            out[pos : pos + size] = self._constants[start : start + size]
        return pos + size

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
            if op in (INT64, INT32):
                column = code[pc + 1]
                at = index + self._cell(column, SHIFT)
                values = self._buffer(column, VALUES_AT)
                pos = put_long(out, pos, signed64(values, at) if op == INT64 else signed32(values, at))
                pc += 2
            elif op == COPY8:
                column = code[pc + 1]
                copy_little(out, pos, self._buffer(column, VALUES_AT), index + self._cell(column, SHIFT), 8)
                pos += 8
                pc += 2
            elif op in (SIZED, TEXT):
                column = code[pc + 1]
                at = index + self._cell(column, SHIFT)
                start = signed32(self._buffer(column, VALUES_AT), at)
                size = signed32(self._buffer(column, VALUES_AT), at + 1) - start
                if size > room - pos - least:
                    return -1
                pos = put_varint(out, pos, 2 * size if op == SIZED else size)
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
            elif op == TAG:
                if self._is_null(code[pc + 1], index):
                    pc = code[pc + 3]
                else:
                    pos = put_varint(out, pos, low32(code[pc + 2]))
                    pc += 4
            elif op == PROPERTY:
                if code[pc + 4] == 0 and self._is_null(code[pc + 1], index):
                    pc = code[pc + 5]
                else:
                    if code[pc + 3] > room - pos - least:
                        return -1
                    if out[pos - 1] != 123:
                        out[pos] = 44
                        pos += 1
                    pos = self._constant(out, pos, code[pc + 2], code[pc + 3])
                    if self._is_null(code[pc + 1], index):
                        pos = put_word(out, pos, NULL_WORD, 4)
                        pc = code[pc + 5]
                    else:
                        pc += 6
            elif op == REQUIRED:
                if self._is_null(code[pc + 1], index):
                    return self._failed(NULL_VALUE, pc)
                pc += 2
            elif op == CONST:
                if code[pc + 2] > room - pos:
                    return -1
                pos = self._constant(out, pos, code[pc + 1], code[pc + 2])
                pc += 3
            elif op == MEMBER:
                if self._is_null(code[pc + 1], index):
                    pc = code[pc + 3]
                else:
                    pos = put_varint(out, pos, code[pc + 2])
                    pc += 4
            elif op == JUMP:
                pc = code[pc + 1]
            elif op in (ITEMS, PARTS):
                column = code[pc + 1]
                at = index + self._cell(column, SHIFT)
                start = signed32(self._buffer(column, VALUES_AT), at)
                size = signed32(self._buffer(column, VALUES_AT), at + 1) - start
                if op == ITEMS:
                    pos = put_varint(out, pos, 2 * size)
                if size == 0:
                    pc = code[pc + 2]
                else:
                    self._stack[depth, 0] = index
                    self._stack[depth, 1] = start + size
                    depth += 1
                    index = start
                    pc += 3
            elif op in (NEXT, NEXT_PART):
                index += 1
                if index < self._stack[depth - 1, 1]:
                    pc = code[pc + 1]
                else:
                    depth -= 1
                    index = self._stack[depth, 0]
                    if op == NEXT:
                        out[pos] = 0
                        pos += 1
                    pc += 2
            elif op == UNSET:
                pc = code[pc + 3] if self._is_unset(code[pc + 1], code[pc + 2], index) else pc + 4
            elif op == OPEN:
                self._stack[depth, 0] = pos
                depth += 1
                pos += 1
                pc += 1
            elif op == CLOSE:
                depth -= 1
                pos = put_size_before(out, self._stack[depth, 0], pos)
                pc += 1
            elif op == PUT:
                out[pos] = code[pc + 1]
                pos += 1
                pc += 2
            elif op == COMMA:
                if out[pos - 1] != 91 and out[pos - 1] != 123:  # [ {
                    out[pos] = 44
                    pos += 1
                pc += 1
            elif op == NULL_ITEM:
                if self._is_null(code[pc + 1], index):
                    pos = put_word(out, pos, NULL_WORD, 4)
                    pc = code[pc + 2]
                else:
                    pc += 3
            else:
                after = self._value(out, pos, room, pc, index, op)
                if after < 0:
                    return -1 if after == -1 else self._failed(-1 - after, pc)
                pos = after
                pc += self._words(pc, op)
        self.pos = pos
        return 0
