# cython: language_level=3, annotation_typing=False
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The one compiled file. Reading: `Sections` walks a run of record batches v2, `RowColumns` and `HeaderColumns` fill
Arrow buffers from their records. Writing: `Source` is Arrow columns, `write_spans` writes their rows into many open
batches, each behind a `RecordWriter`. Last, Java's murmur2 and rows grouped by partition.

It allocates nothing but the table of `Sections`: callers hand in views of Arrow buffers and it fills them, the GIL
released. The same file runs interpreted (C types are in kernel.pxd), a hundred times slower. Only mypy reads the
annotations: a view is a `memoryview` there, and compiled what kernel.pxd says, for `out` at times a pointer. It is one
file because Cython inlines C only within one: readers of varints, the table's columns. A record (KIP-98), integers
zigzag varints:

    length | attributes int8 | timestampDelta | offsetDelta | keyLength key | valueLength value | count headers
    a header: keyLength key | valueLength value;   a length below 0 is null, which a header's key cannot be

Some producers write wrong offset deltas, all 0 for example. A broker that stores an uncompressed batch compares only
the number of its records with `lastOffsetDelta`: it gives out offsets by place. So a batch that has as many records as
offsets is numbered by place, whatever its deltas say. Where compaction has removed records, the deltas must ascend.

Invariants: no length is used before it was compared with the bytes left in *its record* (in HeaderColumns, which reads
again what RowColumns has checked: in its section); no byte is written before the room left in the output was checked.
So wrong bytes yield an error code and nothing else, whatever the caller allocated. Cython's own bounds checks are off,
for they double the time (decode 29 to 51 ns a record of 100 B, encode 20 to 40):
tests/kafka/records/test_sanitized.py runs
the wrong bytes under AddressSanitizer instead. Integer literals above 2^31 are bound to typed names, or the compiled
code would make them objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ImportError:
    from . import _nocython as cython

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol, TypeAlias

    # The tuples that views.py makes of Arrow arrays: (validity, offsets, data, shift), (validity, values or offsets,
    # shift).
    BinaryViews: TypeAlias = tuple[memoryview, memoryview, memoryview, int]
    FixedViews: TypeAlias = tuple[memoryview, memoryview, int]

    class OpenBuilder(Protocol):
        @property
        def writer(self) -> RecordWriter: ...


# Error codes of `fill`, which also says the section that `failed`; 0 is success.
TRUNCATED = 1
BAD_LENGTH = 2
BAD_OFFSET = 3
BAD_TIMESTAMP = 4
BAD_KEY = 5
BAD_VALUE = 6
BAD_HEADERS = 7
TRAILING = 8
OVERFLOW = 9
ERRORS = {
    TRUNCATED: "a record or one of its numbers is cut short",
    BAD_LENGTH: "a record's length is not within its batch",
    BAD_OFFSET: "a record's offset delta does not ascend within the batch",
    BAD_TIMESTAMP: "a timestamp is beyond what microseconds can hold",
    BAD_KEY: "a key's length is not within its record",
    BAD_VALUE: "a value's length is not within its record",
    BAD_HEADERS: "a header's length or the headers' count is not within its record",
    TRAILING: "bytes are left over after a record or after the batch's record count",
    OVERFLOW: "more rows or bytes than the batches announced",
}

COMPILED = bool(cython.compiled)
# Whether `Sections.scan` can check CRCs: not interpreted, nor on a processor without the instruction.
CRC32C = bool(cython.compiled and crc32c_is_supported())  # type: ignore[name-defined]  # noqa: F821
# setup.py hashes kernel.py, kernel.pxd and crc32c.h into the build: a library older than its source is noticed.
FINGERPRINT = KAFKASOURCE_KERNEL_FINGERPRINT if cython.compiled else 0  # type: ignore[name-defined]  # noqa: F821


def read_varint(data: memoryview, pos: int, end: int) -> tuple[int, int]:
    """(value, next pos) of a 32-bit zigzag varint; next pos is -1 where it does not end before `end` or in 5 bytes.

    Bits beyond the 32nd are dropped, as Java's reader drops them; so are those beyond the 64th in `read_varlong`.
    """
    raw = 0
    shift = 0
    while pos < end:
        byte = data[pos]
        pos += 1
        if byte < 0x80:
            if shift == 28:
                byte &= 0x0F
            raw |= byte << shift
            half = raw >> 1
            sign = raw & 1
            return half ^ -sign, pos
        if shift == 28:
            return 0, -1
        raw |= (byte & 0x7F) << shift
        shift += 7
    return 0, -1


def read_varlong(data: memoryview, pos: int, end: int) -> tuple[int, int]:
    """(value, next pos) of a 64-bit zigzag varint; next pos is -1 where it does not end before `end` or in 10 bytes."""
    raw = 0
    shift = 0
    while pos < end:
        byte = data[pos]
        pos += 1
        bits = byte & 0x7F
        if shift == 63:
            bits &= 1
        raw |= bits << shift
        if byte < 0x80:
            half = raw >> 1
            sign = raw & 1
            return half ^ -sign, pos
        if shift == 63:
            return 0, -1
        shift += 7
    return 0, -1


def uint32_at(data: memoryview, pos: int) -> int:
    """The four bytes at `pos`, big-endian. The caller has checked that they are there."""
    raw = data[pos]
    raw = (raw << 8) | data[pos + 1]
    raw = (raw << 8) | data[pos + 2]
    return (raw << 8) | data[pos + 3]


def int32_at(data: memoryview, pos: int) -> int:
    raw = uint32_at(data, pos)
    if not cython.compiled:
        raw -= (raw & 0x80000000) << 1
    return raw


def int64_at(data: memoryview, pos: int) -> int:
    raw = uint32_at(data, pos)
    raw = (raw << 32) | uint32_at(data, pos + 4)
    if not cython.compiled:
        raw -= (raw & 0x8000000000000000) << 1
    return raw


def wrapped_sum(a: int, b: int) -> int:
    """a + b in 64 bits, as Java adds: what is beyond begins again at the other end."""
    raw = a
    raw += b
    if not cython.compiled:
        raw = (raw + (1 << 63)) % (1 << 64) - (1 << 63)
    return raw


def varlong_size(value: int) -> int:
    """Bytes of `value` as a zigzag varint, 1 to 10."""
    raw = value
    raw = (raw << 1) ^ (value >> 63)
    size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


def write_varlong(out: memoryview, pos: int, value: int) -> int:
    """Write a zigzag varint and return the pos after it. The caller has checked the room."""
    raw = value
    raw = (raw << 1) ^ (value >> 63)
    while raw >= 0x80:
        out[pos] = (raw & 0x7F) | 0x80
        raw >>= 7
        pos += 1
    out[pos] = raw
    return pos + 1


def copy(out: memoryview, out_pos: int, data: memoryview, pos: int, size: int) -> None:
    """Copy bytes; the caller has checked that they are there and have room."""
    if size > 0:
        if cython.compiled and size <= 16 and len(out) - out_pos >= 16 and len(data) - pos >= 16:
            # A fixed size takes two instructions instead of a call; the next bytes overwrite the surplus.
            memcpy(cython.address(out[out_pos]), cython.address(data[pos]), 16)  # type: ignore[name-defined]  # noqa: F821
        elif cython.compiled:
            memcpy(cython.address(out[out_pos]), cython.address(data[pos]), size)  # type: ignore[name-defined]  # noqa: F821
        else:
            out[out_pos : out_pos + size] = data[pos : pos + size]


def copy_out(out: memoryview, out_pos: int, data: memoryview, pos: int, size: int) -> None:
    """`copy` to where an open batch's memory is known by address."""
    if size > 0:
        if cython.compiled:
            memcpy(cython.address(out[out_pos]), cython.address(data[pos]), size)  # type: ignore[name-defined]  # noqa: F821
        else:
            out[out_pos : out_pos + size] = data[pos : pos + size]


def is_valid(bitmap: memoryview, index: int) -> int:
    """Arrow's validity bit; an empty bitmap means that nothing is null."""
    return 1 if len(bitmap) == 0 else (bitmap[index >> 3] >> (index & 7)) & 1


# The positions of the fields in a record batch's header; kafkasource.kafka.records.header has the layout.
LENGTH_POS, MAGIC_POS, CRC_POS, ATTRIBUTES_POS, LAST_DELTA_POS = 8, 16, 17, 21, 23
BASE_TIMESTAMP_POS, MAX_TIMESTAMP_POS, RECORDS_POS, HEADER_BYTES = 27, 35, 57, 61
PREFIX_BYTES = 12  # base offset and batch length, which the length does not count
CODEC_MASK, LOG_APPEND_FLAG = 0x07, 0x08
SPECIAL_MASK = 0x37  # codec, transactional, control: such batches need more than their header read
MIN_RECORD_BYTES = 7

# A section: the records of one batch, a row of int64 in the table of `Sections`.
POS, START, END, RECORDS, BASE_OFFSET, LAST_DELTA, BASE_TIMESTAMP, MAX_TIMESTAMP, ATTRIBUTES, IN_SCRATCH, ROWS = range(
    11
)
SECTION_FIELDS = 11


def follows(data: memoryview, pos: int, expected: int) -> bool:
    """Is there a whole batch v2 at `pos`, by its header, whose offsets begin at `expected` or above?"""
    max_offset = 9223372036854775807
    left = len(data) - pos
    if left < HEADER_BYTES or data[pos + MAGIC_POS] != 2:
        return False
    length = int32_at(data, pos + LENGTH_POS)
    if length < HEADER_BYTES - PREFIX_BYTES or length > left - PREFIX_BYTES:
        return False
    base_offset = int64_at(data, pos)
    last_delta = int32_at(data, pos + LAST_DELTA_POS)
    return base_offset >= expected and last_delta >= 0 and base_offset <= max_offset - last_delta - 1


def survey(data: memoryview) -> tuple[int, int]:
    """(number of whole batches, last offset of the last one + 1) by headers alone, up to the first that makes no sense.

    The offset is -1 where there is no batch.
    """
    pos = 0
    batches = 0
    next_offset = 0
    with cython.nogil:
        while follows(data, pos, 0):
            next_offset = int64_at(data, pos) + int32_at(data, pos + LAST_DELTA_POS) + 1
            batches += 1
            pos += PREFIX_BYTES + int32_at(data, pos + LENGTH_POS)
    return batches, (next_offset if batches else -1)


class Sections:
    """The sections of a run of batches: what `scan` read in their headers, in a table of `capacity` rows.

    Sections that are not wanted have no records. Batches that `special` names are still to be decompressed or skipped.
    """

    def __init__(self, capacity: int) -> None:
        rows = max(capacity, 1)
        self._table = memoryview(bytearray(8 * SECTION_FIELDS * rows)).cast("q", (rows, SECTION_FIELDS))
        self.capacity = capacity
        self.count = 0
        self.pos = 0
        self.next_offset = 0
        self.rows = 0
        self.bytes = 0

    def scan(self, data: memoryview, start_offset: int, end_offset: int, check_crc: bool) -> None:
        """Take the batches of `data` up to the first that is cut, not right, or at or behind `end_offset`.

        Those below `start_offset` are taken without their records. `check_crc` only where CRC32C says that it can.
        """
        with cython.nogil:
            self._scan(data, start_offset, end_offset, check_crc)

    def _scan(self, data: memoryview, start_offset: int, end_offset: int, check_crc: bool) -> None:
        pos = 0
        expected = 0
        i = 0
        while i < self.capacity and follows(data, pos, expected):
            start = pos + HEADER_BYTES
            end = pos + PREFIX_BYTES + int32_at(data, pos + LENGTH_POS)
            base_offset = int64_at(data, pos)
            if base_offset >= end_offset or (check_crc and not crc_is_right(data, pos, end)):
                break
            last_delta = int32_at(data, pos + LAST_DELTA_POS)
            records = int32_at(data, pos + RECORDS_POS)
            attributes = data[pos + ATTRIBUTES_POS + 1]
            if records < 0 or records > last_delta + 1 or (records == 0) != (start == end):
                break
            if (attributes & CODEC_MASK) == 0 and records > (end - start) // MIN_RECORD_BYTES:
                break
            expected = base_offset + last_delta + 1
            self._table[i, POS] = pos
            self._table[i, START] = start
            self._table[i, END] = end
            self._table[i, RECORDS] = records if expected > start_offset else 0
            self._table[i, BASE_OFFSET] = base_offset
            self._table[i, LAST_DELTA] = last_delta
            self._table[i, BASE_TIMESTAMP] = int64_at(data, pos + BASE_TIMESTAMP_POS)
            self._table[i, MAX_TIMESTAMP] = int64_at(data, pos + MAX_TIMESTAMP_POS)
            self._table[i, ATTRIBUTES] = attributes
            self._table[i, IN_SCRATCH] = 0
            self._table[i, ROWS] = 0
            i += 1
            pos = end
        self.count = i
        self.pos = pos
        self.next_offset = expected

    def truncate(self, count: int) -> None:
        """Forget the sections from `count` on."""
        if count < 0 or count > self.count:
            raise ValueError("more sections than there are")
        if count < self.count:
            self.pos = self._table[count, POS]
            self.next_offset = (
                self._table[count - 1, BASE_OFFSET] + self._table[count - 1, LAST_DELTA] + 1 if count else 0
            )
            self.count = count

    def special(self) -> list[int]:
        """Count compressed, transactional and control batches."""
        return [i for i in range(self.count) if self._table[i, ATTRIBUTES] & SPECIAL_MASK]

    def batch(self, i: int) -> tuple[int, int, int, int, int]:
        """(pos of the batch, its end, records wanted, base offset, attributes) of a section that was scanned."""
        self._check(i)
        return (
            self._table[i, POS],
            self._table[i, END],
            self._table[i, RECORDS],
            self._table[i, BASE_OFFSET],
            self._table[i, ATTRIBUTES],
        )

    def skip(self, i: int) -> None:
        """Its records are not wanted."""
        self._check(i)
        self._table[i, RECORDS] = 0

    def replace(self, i: int, start: int, end: int) -> bool:
        """Note that its records are in scratch[start:end). False if they cannot fit in these bytes."""
        self._check(i)
        self._table[i, START] = start
        self._table[i, END] = end
        self._table[i, IN_SCRATCH] = 1
        return self._table[i, RECORDS] <= (end - start) // MIN_RECORD_BYTES

    def _check(self, i: int) -> None:
        if i < 0 or i >= self.count:
            raise ValueError("no such section")

    def group(self, first: int) -> tuple[int, bool]:
        """(end of the sections from `first` on that one Arrow batch can hold, are they of log append time).

        They have one timestampType and together at most 2^31-1 bytes, the reach of int32 offsets, unless one alone has
        more. `rows` and `bytes` say how much that is at most.
        """
        limit = 2147483647
        rows = 0
        size = 0
        log_append = 0
        i = first
        while i < self.count:
            records = self._table[i, RECORDS]
            if records:
                more = self._table[i, END] - self._table[i, START]
                if rows and ((self._table[i, ATTRIBUTES] & LOG_APPEND_FLAG) != log_append or size + more > limit):
                    break
                log_append = self._table[i, ATTRIBUTES] & LOG_APPEND_FLAG
                rows += records
                size += more
            i += 1
        self.rows = rows
        self.bytes = size
        return i, log_append != 0


def crc_is_right(data: memoryview, pos: int, end: int) -> bool:
    """Does the CRC32C of a batch in [pos, end) agree with its header? Only where CRC32C is set."""
    return crc32c_at(data, pos + ATTRIBUTES_POS, end) == uint32_at(data, pos + CRC_POS)


def crc32c_at(data: memoryview, pos: int, end: int) -> int:
    crc = 0
    if cython.compiled and pos < end:
        crc = crc32c_of(cython.address(data[pos]), end - pos)  # type: ignore[name-defined]  # noqa: F821
    return crc


def crc32c(data: memoryview) -> int:
    """CRC32C of all of `data`, the GIL released. Only where CRC32C is set."""
    if not CRC32C:
        raise NotImplementedError("this kernel computes no CRC32C")
    with cython.nogil:
        return crc32c_at(data, 0, len(data))


class RowColumns:
    """Fills key, value, offset and timestamp of the rows of many record batches.

    Views: offsets int32 with one entry more than rows, offset and timestamp int64, data and validity bytes. Validity
    starts as all ones; a null clears its bit. `header_positions` (int64) gets where each row's headers are, for
    HeaderColumns; where it is empty, headers are passed over unread. A column whose views are all empty is not filled,
    but its bytes are checked. `capacity`: the rows that there is room for. After an error the object is spent.
    """

    def __init__(
        self,
        capacity: int,
        key_offsets: memoryview,
        keys: memoryview,
        key_valid: memoryview,
        value_offsets: memoryview,
        values: memoryview,
        value_valid: memoryview,
        offsets: memoryview,
        timestamps: memoryview,
        header_positions: memoryview,
    ) -> None:
        self._capacity = capacity
        self._header_positions = header_positions
        self._key_offsets = key_offsets
        self._keys = keys
        self._key_valid = key_valid
        self._value_offsets = value_offsets
        self._values = values
        self._value_valid = value_valid
        self._offsets = offsets
        self._timestamps = timestamps
        self.rows = 0
        self.key_bytes = 0
        self.value_bytes = 0
        self.key_nulls = 0
        self.value_nulls = 0
        self.headers = 0
        self.header_key_bytes = 0
        self.header_value_bytes = 0
        self.failed = -1
        if (
            capacity < 0
            or len(offsets) not in (0, capacity)
            or len(timestamps) not in (0, capacity)
            or len(header_positions) not in (0, capacity)
            or len(key_offsets) not in (0, capacity + 1)
            or len(value_offsets) not in (0, capacity + 1)
            or (len(key_offsets) > 0 and len(key_valid) * 8 < capacity)
            or (len(value_offsets) > 0 and len(value_valid) * 8 < capacity)
        ):
            raise ValueError("views of different row counts")
        if len(key_offsets) > 0:
            key_offsets[0] = 0
        if len(value_offsets) > 0:
            value_offsets[0] = 0

    def fill(
        self,
        data: memoryview,
        scratch: memoryview,
        sections: Sections,
        first: int,
        last: int,
        start_offset: int,
        end_offset: int,
    ) -> int:
        """Append the rows of sections [first, last) whose offset is in [start_offset, end_offset).

        Timestamps (ms) become us; log append time gives each record `max_timestamp`. Returns 0 or an error code.
        """
        code = 0
        if first < 0 or last > sections.count:
            raise ValueError("no such sections")
        with cython.nogil:
            for i in range(first, last):
                if sections._table[i, RECORDS] == 0:
                    continue
                if sections._table[i, IN_SCRATCH]:
                    code = self._fill(scratch, sections, i, start_offset, end_offset)
                else:
                    code = self._fill(data, sections, i, start_offset, end_offset)
                if code != 0:
                    self.failed = i
                    break
        return code

    def _fill(self, data: memoryview, sections: Sections, section: int, start_offset: int, end_offset: int) -> int:
        with_headers = len(self._header_positions) > 0
        with_keys = len(self._key_offsets) > 0
        with_values = len(self._value_offsets) > 0
        with_offsets = len(self._offsets) > 0
        with_timestamps = len(self._timestamps) > 0
        pos = sections._table[section, START]
        end = sections._table[section, END]
        count = sections._table[section, RECORDS]
        base_offset = sections._table[section, BASE_OFFSET]
        last_offset_delta = sections._table[section, LAST_DELTA]
        base_timestamp = sections._table[section, BASE_TIMESTAMP]
        max_timestamp = sections._table[section, MAX_TIMESTAMP]
        log_append = sections._table[section, ATTRIBUTES] & LOG_APPEND_FLAG
        if pos < 0 or end > len(data):
            return TRUNCATED
        limit = 9223372036854775  # ms that still fit int64 as us
        row = self.rows
        key_pos = self.key_bytes
        value_pos = self.value_bytes
        previous = -1
        dense = count == last_offset_delta + 1
        for i in range(count):
            length, pos = read_varint(data, pos, end)
            if pos < 0:
                return TRUNCATED
            if length < 6 or length > end - pos:
                return BAD_LENGTH
            record_end = pos + length
            age, pos = read_varlong(data, pos + 1, record_end)
            if pos < 0:
                return TRUNCATED
            delta, pos = read_varint(data, pos, record_end)
            if pos < 0:
                return TRUNCATED
            if dense:
                delta = i
            elif delta <= previous or delta > last_offset_delta:
                return BAD_OFFSET
            previous = delta
            offset = base_offset + delta
            kept = offset >= start_offset and offset < end_offset
            if kept and row >= self._capacity:
                return OVERFLOW
            timestamp = max_timestamp
            if kept:
                if not log_append:
                    timestamp = wrapped_sum(base_timestamp, age)
                if timestamp > limit or timestamp < -limit:
                    return BAD_TIMESTAMP

            length, pos = read_varint(data, pos, record_end)
            if pos < 0:
                return TRUNCATED
            if length > record_end - pos:
                return BAD_KEY
            if kept and with_keys:
                if length < 0:
                    self._key_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
                    self.key_nulls += 1
                else:
                    if length > len(self._keys) - key_pos:
                        return OVERFLOW
                    copy(self._keys, key_pos, data, pos, length)
                    key_pos += length
                self._key_offsets[row + 1] = key_pos
            if length > 0:
                pos += length

            length, pos = read_varint(data, pos, record_end)
            if pos < 0:
                return TRUNCATED
            if length > record_end - pos:
                return BAD_VALUE
            if kept and with_values:
                if length < 0:
                    self._value_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
                    self.value_nulls += 1
                else:
                    if length > len(self._values) - value_pos:
                        return OVERFLOW
                    copy(self._values, value_pos, data, pos, length)
                    value_pos += length
                self._value_offsets[row + 1] = value_pos
            if length > 0:
                pos += length

            if kept and with_headers:
                self._header_positions[row] = pos
            headers, pos = read_varint(data, pos, record_end)
            if pos < 0:
                return TRUNCATED
            if headers < 0 or headers > (record_end - pos) // 2:
                return BAD_HEADERS
            if headers > 0 and with_headers:
                for _j in range(headers):
                    length, pos = read_varint(data, pos, record_end)
                    if pos < 0 or length < 0 or length > record_end - pos:
                        return BAD_HEADERS
                    pos += length
                    if kept:
                        self.header_key_bytes += length
                    length, pos = read_varint(data, pos, record_end)
                    if pos < 0 or length > record_end - pos:
                        return BAD_HEADERS
                    if length > 0:
                        pos += length
                        if kept:
                            self.header_value_bytes += length
                if kept:
                    self.headers += headers
            elif headers > 0:
                pos = record_end
            if pos != record_end:
                return TRAILING

            if kept:
                if with_offsets:
                    self._offsets[row] = offset
                if with_timestamps:
                    self._timestamps[row] = timestamp * 1000
                row += 1
        if pos != end:
            return TRAILING
        sections._table[section, ROWS] = row - self.rows
        self.rows = row
        self.key_bytes = key_pos
        self.value_bytes = value_pos
        return 0


class HeaderColumns:
    """Fills list<struct<key, value>> of the rows that RowColumns has filled, in the same order.

    A record without headers is a null list, as the JVM connector has it. Sizes come from RowColumns and are exact;
    `positions` are its `header_positions`.
    """

    def __init__(
        self,
        list_offsets: memoryview,
        list_valid: memoryview,
        key_offsets: memoryview,
        keys: memoryview,
        value_offsets: memoryview,
        values: memoryview,
        value_valid: memoryview,
        positions: memoryview,
    ) -> None:
        self._positions = positions
        self._list_offsets = list_offsets
        self._list_valid = list_valid
        self._key_offsets = key_offsets
        self._keys = keys
        self._value_offsets = value_offsets
        self._values = values
        self._value_valid = value_valid
        self.rows = 0
        self.headers = 0
        self.key_bytes = 0
        self.value_bytes = 0
        self.list_nulls = 0
        self.value_nulls = 0
        self.failed = -1
        if (
            len(list_valid) * 8 < len(list_offsets) - 1
            or len(value_offsets) != len(key_offsets)
            or len(value_valid) * 8 < len(key_offsets) - 1
            or len(positions) < len(list_offsets) - 1
        ):
            raise ValueError("views of different header counts")
        list_offsets[0] = 0
        key_offsets[0] = 0
        value_offsets[0] = 0

    def fill(self, data: memoryview, scratch: memoryview, sections: Sections, first: int, last: int) -> int:
        """Append the headers of the rows of sections [first, last). Returns 0 or an error code."""
        code = 0
        if first < 0 or last > sections.count:
            raise ValueError("no such sections")
        with cython.nogil:
            for i in range(first, last):
                if sections._table[i, IN_SCRATCH]:
                    code = self._fill(scratch, sections, i)
                else:
                    code = self._fill(data, sections, i)
                if code != 0:
                    self.failed = i
                    break
        return code

    def _fill(self, data: memoryview, sections: Sections, section: int) -> int:
        start = sections._table[section, START]
        end = sections._table[section, END]
        last = self.rows + sections._table[section, ROWS]
        header = self.headers
        key_pos = self.key_bytes
        value_pos = self.value_bytes
        if start < 0 or end > len(data):
            return TRUNCATED
        if last >= len(self._list_offsets):
            return OVERFLOW
        for row in range(self.rows, last):
            pos = self._positions[row]
            if pos < start:
                return BAD_HEADERS
            headers, pos = read_varint(data, pos, end)
            if pos < 0 or headers < 0:
                return BAD_HEADERS
            if headers > len(self._key_offsets) - 1 - header:
                return OVERFLOW
            if headers == 0:
                self._list_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
                self.list_nulls += 1
            for _j in range(headers):
                length, pos = read_varint(data, pos, end)
                if pos < 0 or length < 0 or length > end - pos:
                    return BAD_HEADERS
                if length > len(self._keys) - key_pos:
                    return OVERFLOW
                copy(self._keys, key_pos, data, pos, length)
                key_pos += length
                pos += length
                length, pos = read_varint(data, pos, end)
                if pos < 0 or length > end - pos:
                    return BAD_HEADERS
                if length < 0:
                    self._value_valid[header >> 3] &= ~(1 << (header & 7)) & 0xFF
                    self.value_nulls += 1
                else:
                    if length > len(self._values) - value_pos:
                        return OVERFLOW
                    copy(self._values, value_pos, data, pos, length)
                    value_pos += length
                    pos += length
                header += 1
                self._key_offsets[header] = key_pos
                self._value_offsets[header] = value_pos
            self._list_offsets[row + 1] = header
        self.rows = last
        self.headers = header
        self.key_bytes = key_pos
        self.value_bytes = value_pos
        return 0


def is_ascii(data: memoryview) -> bool:
    """Is no byte above 127?"""
    bits = 0
    with cython.nogil:
        for i in range(len(data)):
            bits |= data[i]
    return bits < 0x80


class Source:
    """Arrow columns to encode from, as views. `*_shift` is the array's offset; an empty validity view means no nulls.

    A column that is absent has empty offsets: its keys or values are all null, its timestamps all the default.
    """

    def __init__(
        self,
        count: int,
        keys: BinaryViews,
        values: BinaryViews,
        timestamps: FixedViews,
        default_timestamp: int,
        header_lists: FixedViews,
        header_keys: BinaryViews,
        header_values: BinaryViews,
    ) -> None:
        self.count = count
        self._key_valid, self._key_offsets, self._keys, self._key_shift = keys
        self._value_valid, self._value_offsets, self._values, self._value_shift = values
        self._timestamp_valid, self._timestamps, self._timestamp_shift = timestamps
        self._default_timestamp = default_timestamp
        self._list_valid, self._list_offsets, self._list_shift = header_lists
        self._header_key_valid, self._header_key_offsets, self._header_keys, self._header_key_shift = header_keys
        self._header_value_valid, self._header_value_offsets, self._header_values, self._header_value_shift = (
            header_values
        )
        self._has_keys = len(keys[1]) > 0
        self._has_values = len(values[1]) > 0
        self._has_timestamps = len(timestamps[1]) > 0
        self._has_headers = len(header_lists[1]) > 0
        for views in (keys, values):
            _check_column(count, views[0], views[1], views[3], 1)
        _check_column(count, timestamps[0], timestamps[1], timestamps[2], 0)
        _check_column(count, header_lists[0], header_lists[1], header_lists[2], 1)

    def timestamp(self, row: int) -> int:
        if not self._has_timestamps:
            return self._default_timestamp
        index = row + self._timestamp_shift
        if not is_valid(self._timestamp_valid, index):
            return self._default_timestamp
        return self._timestamps[index]

    def key_size(self, row: int) -> int:
        """Bytes of the key, -1 for null, -2 where Arrow's offsets are not those of its data."""
        if not self._has_keys:
            return -1
        index = row + self._key_shift
        if not is_valid(self._key_valid, index):
            return -1
        start = self._key_offsets[index]
        size = self._key_offsets[index + 1] - start
        if start < 0 or size < 0 or start + size > len(self._keys):
            return -2
        return size

    def value_size(self, row: int) -> int:
        """Bytes of the value, -1 for null, -2 where Arrow's offsets are not those of its data."""
        if not self._has_values:
            return -1
        index = row + self._value_shift
        if not is_valid(self._value_valid, index):
            return -1
        start = self._value_offsets[index]
        size = self._value_offsets[index + 1] - start
        if start < 0 or size < 0 or start + size > len(self._values):
            return -2
        return size

    def headers_size(self, row: int) -> int:
        """Bytes of the headers with their count; -2 for a null key or offsets that are not those of the data."""
        if not self._has_headers:
            return 1
        index = row + self._list_shift
        if not is_valid(self._list_valid, index):
            return 1
        first = self._list_offsets[index]
        last = self._list_offsets[index + 1]
        if (
            first < 0
            or last < first
            or last + self._header_key_shift > len(self._header_key_offsets) - 1
            or last + self._header_value_shift > len(self._header_value_offsets) - 1
        ):
            return -2
        total = varlong_size(last - first)
        for i in range(first + self._header_key_shift, last + self._header_key_shift):
            start = self._header_key_offsets[i]
            size = self._header_key_offsets[i + 1] - start
            if start < 0 or size < 0 or start + size > len(self._header_keys):
                return -2
            if not is_valid(self._header_key_valid, i):
                return -2
            total += varlong_size(size) + size
        for i in range(first + self._header_value_shift, last + self._header_value_shift):
            if is_valid(self._header_value_valid, i):
                start = self._header_value_offsets[i]
                size = self._header_value_offsets[i + 1] - start
                if start < 0 or size < 0 or start + size > len(self._header_values):
                    return -2
                total += varlong_size(size) + size
            else:
                total += 1
        return total

    def record_size(self, row: int) -> int:
        """Most bytes that the record of `row` takes in any batch (its deltas are not known here); -1 for a bad row.

        Java's producer compares the same number with max.request.size (`DefaultRecord.recordSizeUpperBound`).
        """
        if row < 0 or row >= self.count:
            return -1
        key = self.key_size(row)
        value = self.value_size(row)
        headers = self.headers_size(row)
        if key < -1 or value < -1 or headers < 0:
            return -1
        # length 5, attributes 1, timestamp delta 10, offset delta 5
        total = 21 + varlong_size(key) + varlong_size(value) + headers
        if key > 0:
            total += key
        if value > 0:
            total += value
        return total


def _check_column(count: int, valid: memoryview, items: memoryview, shift: int, extra: int) -> None:
    if shift < 0 or (len(items) > 0 and len(items) < count + shift + extra):
        raise ValueError("a column is shorter than the rows")
    if len(items) > 0 and len(valid) > 0 and len(valid) * 8 < count + shift:
        raise ValueError("a validity bitmap is shorter than the rows")


class _OpenBatch:
    """The interpreted kernel's form of a C struct in kernel.pxd; there `out` is a pointer."""

    out: memoryview
    pos: int
    end: int
    count: int
    base_timestamp: int
    max_timestamp: int


class RecordWriter:
    """Writes records into `out[pos:end)`: what a producer's open batch holds after its 61 bytes of header."""

    def __init__(self, out: memoryview, pos: int, end: int) -> None:
        if pos < 0 or end > len(out) or end < 1:
            raise ValueError("the range is outside the buffer")
        self._out = out
        self.closed = False
        if not cython.compiled:
            self._batch = _OpenBatch()
        self._batch.out = cython.address(self._out[0]) if cython.compiled else out
        self._batch.pos = pos
        self._batch.end = end
        self._batch.count = 0
        self._batch.base_timestamp = 0
        self._batch.max_timestamp = 0

    @property
    def pos(self) -> int:
        return self._batch.pos

    @property
    def count(self) -> int:
        return self._batch.count

    @property
    def base_timestamp(self) -> int:
        return self._batch.base_timestamp

    @property
    def max_timestamp(self) -> int:
        return self._batch.max_timestamp


def write_spans(source: Source, rows: memoryview | None, spans: Sequence[tuple[OpenBuilder, int, int]]) -> list[int]:
    """Write rows of many batches: for each (builder, first, last) of `spans` as many of those rows as fit.

    `rows` are int32 row numbers and [first, last) positions in them; None means the rows themselves. A builder is
    anything whose `writer` is a RecordWriter. Returns for each span the position of the first row not written. Raises
    ValueError for a row that cannot be encoded: an index outside the columns, a null header key, a timestamp beyond
    +-9.2e15 ms; rows and spans before it are written.
    """
    size = len(spans)
    all_rows = rows is None
    if rows is None:
        index = _NO_ROWS
        available = source.count
    else:
        index = rows
        available = len(index)
    # For each span: the address of its open batch (compiled), first, last; then the reached position in place of first.
    table = memoryview(bytearray(24 * size + 8)).cast("q")
    for i in range(size):
        builder, first, last = spans[i]
        writer = builder.writer
        if writer is None or writer.closed:
            raise ValueError("the batch is closed")
        if first < 0 or last < first or last > available:
            raise ValueError(f"[{first}, {last}) is no range or more rows than the {available} there are")
        if cython.compiled:
            table[3 * i] = cython.cast(cython.longlong, cython.address(writer._batch))
        table[3 * i + 1] = first
        table[3 * i + 2] = last
    with cython.nogil:
        for i in range(size):
            if cython.compiled:
                batch = cython.cast("OpenBatch *", table[3 * i])
            else:
                batch = spans[i][0].writer._batch
            reached = write_rows(batch, source, index, all_rows, table[3 * i + 1], table[3 * i + 2])
            table[3 * i + 1] = reached
            if reached < 0:
                break
    positions = []
    for i in range(size):
        reached = table[3 * i + 1]
        if reached < 0:
            reached = -2 - reached
            bad = reached if all_rows else index[reached]
            raise ValueError(f"row {bad} cannot be encoded: index, header key or timestamp out of bounds")
        positions.append(reached)
    return positions


def write_rows(batch: _OpenBatch, source: Source, index: memoryview, all_rows: bool, first: int, last: int) -> int:
    """Write rows into one open batch while they fit: the position of the first not written, -2 - it for a bad one."""
    limit = 9223372036854775
    out = batch.out
    pos = batch.pos
    end = batch.end
    count = batch.count
    base_timestamp = batch.base_timestamp
    max_timestamp = batch.max_timestamp
    reached = last
    for i in range(first, last):
        row = i if all_rows else index[i]
        if row < 0 or row >= source.count:
            reached = -2 - i
            break
        timestamp = source.timestamp(row)
        key = source.key_size(row)
        value = source.value_size(row)
        headers = source.headers_size(row)
        if timestamp > limit or timestamp < -limit or key < -1 or value < -1 or headers < 0:
            reached = -2 - i
            break
        delta = 0 if count == 0 else timestamp - base_timestamp
        body = 1 + varlong_size(delta) + varlong_size(count) + varlong_size(key) + varlong_size(value) + headers
        if key > 0:
            body += key
        if value > 0:
            body += value
        if varlong_size(body) + body > end - pos:
            reached = i
            break
        pos = write_varlong(out, pos, body)
        out[pos] = 0
        pos = write_varlong(out, pos + 1, delta)
        pos = write_varlong(out, pos, count)
        pos = write_varlong(out, pos, key)
        if key > 0:
            copy_out(out, pos, source._keys, source._key_offsets[row + source._key_shift], key)
            pos += key
        pos = write_varlong(out, pos, value)
        if value > 0:
            copy_out(out, pos, source._values, source._value_offsets[row + source._value_shift], value)
            pos += value
        if headers == 1:
            out[pos] = 0
            pos += 1
        else:
            pos = write_headers(out, pos, source, row)
        if count == 0:
            base_timestamp = timestamp
            max_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        count += 1
    batch.pos = pos
    batch.count = count
    batch.base_timestamp = base_timestamp
    batch.max_timestamp = max_timestamp
    return reached


def write_headers(out: memoryview, pos: int, source: Source, row: int) -> int:
    """Write the headers of a row whose `headers_size` was checked; return the pos after them."""
    first = source._list_offsets[row + source._list_shift]
    last = source._list_offsets[row + source._list_shift + 1]
    pos = write_varlong(out, pos, last - first)
    for i in range(first, last):
        item = i + source._header_key_shift
        start = source._header_key_offsets[item]
        size = source._header_key_offsets[item + 1] - start
        pos = write_varlong(out, pos, size)
        copy_out(out, pos, source._header_keys, start, size)
        pos += size
        item = i + source._header_value_shift
        if is_valid(source._header_value_valid, item):
            start = source._header_value_offsets[item]
            size = source._header_value_offsets[item + 1] - start
            pos = write_varlong(out, pos, size)
            copy_out(out, pos, source._header_values, start, size)
            pos += size
        else:
            pos = write_varlong(out, pos, -1)
    return pos


_NO_ROWS = memoryview(bytes(4)).cast("i")


def mix(h: int, word: int) -> int:
    """One step of a 64-bit hash: a multiplication carries each bit upwards, the shift carries it back down."""
    m = 0x2127599BF4325C37
    h ^= word
    h *= m
    if not cython.compiled:
        h &= 0xFFFFFFFFFFFFFFFF
    h ^= h >> 32
    return h


def mix_bytes(h: int, data: memoryview, start: int, size: int) -> int:
    """`mix` with the size (-1 for null), then with the bytes.

    Each word of eight bytes is hashed together with its place, and the hashes are added up. So the processor works on
    several words at a time. The last word overlaps the word before.
    """
    m = 0x2127599BF4325C37
    place = 0
    total = 0
    pos = start
    for _i in range(size >> 3 if size > 0 else 0):
        place += m
        word = (word_at(data, pos) + place) * m
        if not cython.compiled:
            word &= 0xFFFFFFFFFFFFFFFF
        total += (word ^ (word >> 32)) * m
        pos += 8
    left = size & 7 if size > 0 else 0
    if left > 0:
        if size >= 8:
            word = word_at(data, pos + left - 8)
        else:
            word = 0
            for i in range(left):
                word = (word << 8) | data[pos + i]
        word = (word + place + m) * m
        if not cython.compiled:
            word &= 0xFFFFFFFFFFFFFFFF
        total += (word ^ (word >> 32)) * m
    if not cython.compiled:
        total &= 0xFFFFFFFFFFFFFFFF
    return mix(mix(h, size), total)


def word_at(data: memoryview, pos: int) -> int:
    """Eight bytes, little endian."""
    if cython.compiled:
        return little_endian_word(data + pos)  # type: ignore  # noqa: F821
    return int.from_bytes(data[pos : pos + 8], "little")


def content_sum(source: Source, rows: memoryview | None, first: int, last: int) -> int:
    """The sum, modulo 2**64, of a hash of each record: of its key, value, headers, and of its timestamp where the row
    has one of its own. So it depends neither on the order of rows nor on how they are cut into columns.

    `rows` and [first, last) as for `write_spans`. Raises ValueError for a row that cannot be encoded.
    """
    all_rows = rows is None
    if rows is None:
        index = _NO_ROWS
        available = source.count
    else:
        index = rows
        available = len(index)
    if first < 0 or last < first or last > available:
        raise ValueError(f"[{first}, {last}) is no range or more rows than the {available} there are")
    # By address: a call with a view would copy its 208 bytes.
    nothing = _NO_BYTES
    keys = source._keys if len(source._keys) > 0 else nothing
    values = source._values if len(source._values) > 0 else nothing
    header_keys = source._header_keys if len(source._header_keys) > 0 else nothing
    header_values = source._header_values if len(source._header_values) > 0 else nothing
    key_data = cython.address(keys[0]) if cython.compiled else keys
    value_data = cython.address(values[0]) if cython.compiled else values
    header_key_data = cython.address(header_keys[0]) if cython.compiled else header_keys
    header_value_data = cython.address(header_values[0]) if cython.compiled else header_values
    total = 0
    bad = -1
    with cython.nogil:
        for i in range(first, last):
            row = i if all_rows else index[i]
            if row < 0 or row >= source.count:
                bad = i
                break
            key = source.key_size(row)
            value = source.value_size(row)
            headers = source.headers_size(row)
            if key < -1 or value < -1 or headers < 0:
                bad = i
                break
            # A null has no bytes to read, wherever its column begins.
            h = mix_bytes(7, key_data, source._key_offsets[row + source._key_shift] if key > 0 else 0, key)
            h = mix_bytes(h, value_data, source._value_offsets[row + source._value_shift] if value > 0 else 0, value)
            if source._has_timestamps and is_valid(source._timestamp_valid, row + source._timestamp_shift):
                h = mix(mix(h, 1), source._timestamps[row + source._timestamp_shift])
            if headers > 1:
                start = source._list_offsets[row + source._list_shift]
                end = source._list_offsets[row + source._list_shift + 1]
                h = mix(h, end - start)
                for header in range(start, end):
                    item = header + source._header_key_shift
                    at = source._header_key_offsets[item]
                    h = mix_bytes(h, header_key_data, at, source._header_key_offsets[item + 1] - at)
                    item = header + source._header_value_shift
                    at = source._header_value_offsets[item]
                    size = source._header_value_offsets[item + 1] - at
                    if not is_valid(source._header_value_valid, item):
                        size = -1
                    h = mix_bytes(h, header_value_data, at, size)
            total += mix(mix(h, headers), 0)
    if bad >= 0:
        row = bad if all_rows else index[bad]
        raise ValueError(f"row {row} cannot be encoded: index or header key out of bounds")
    return total if cython.compiled else total & 0xFFFFFFFFFFFFFFFF


_NO_BYTES = memoryview(bytes(1))


def murmur2(data: memoryview, start: int, size: int) -> int:
    """Java's `Utils.murmur2` of `data[start:start+size)`, unsigned."""
    m = 0x5BD1E995
    h = 0x9747B28C
    h ^= size
    pos = start
    left = size
    while left >= 4:
        k = data[pos + 3]
        k = (k << 8) | data[pos + 2]
        k = (k << 8) | data[pos + 1]
        k = (k << 8) | data[pos]
        k *= m
        if not cython.compiled:
            k &= 0xFFFFFFFF
        k ^= k >> 24
        k *= m
        h *= m
        h ^= k
        if not cython.compiled:
            h &= 0xFFFFFFFF
        pos += 4
        left -= 4
    if left > 0:
        k = data[pos]
        if left > 1:
            k |= data[pos + 1] << 8
        if left > 2:
            k |= data[pos + 2] << 16
        h ^= k
        h *= m
    if not cython.compiled:
        h &= 0xFFFFFFFF
    h ^= h >> 13
    h *= m
    if not cython.compiled:
        h &= 0xFFFFFFFF
    h ^= h >> 15
    return h


def partition_keys(
    offsets: memoryview, data: memoryview, valid: memoryview, shift: int, count: int, partitions: int, out: memoryview
) -> int:
    """Java's default partition of each key, -1 for null. Returns `count`, or -3 - a row whose offsets are bad."""
    if shift < 0 or count < 0 or partitions < 1 or len(offsets) < count + shift + 1 or len(out) < count:
        raise ValueError("views of different row counts")
    if len(valid) > 0 and len(valid) * 8 < count + shift:
        raise ValueError("a validity bitmap is shorter than the rows")
    # By address: a call with a view would copy its 208 bytes.
    keys = cython.address(data[0]) if cython.compiled else data
    with cython.nogil:
        for row in range(count):
            index = row + shift
            if not is_valid(valid, index):
                out[row] = -1
                continue
            start = offsets[index]
            size = offsets[index + 1] - start
            if start < 0 or size < 0 or start + size > len(data):
                return -3 - row
            out[row] = (murmur2(keys, start, size) & 0x7FFFFFFF) % partitions
    return count


def group(partitions: memoryview, starts: memoryview, rows: memoryview) -> list[tuple[int, int, int]]:
    """Stable counting sort: `rows` gets the row numbers by partition; returned are those that have any.

    (partition, first, last) says that `rows[first:last]` are its rows. `starts` is scratch, two entries longer than
    there are partitions. Raises ValueError for a partition outside.
    """
    size = len(starts) - 2
    total: int = len(partitions)
    bad = -1
    if size < 1 or len(rows) < total:
        raise ValueError("views of different row counts")
    with cython.nogil:
        # starts[p + 2] counts p; summed up, starts[p + 1] is where p begins, and where it ends once it is placed.
        for p in range(size + 2):
            starts[p] = 0
        for row in range(total):
            partition = partitions[row]
            if partition < 0 or partition >= size:
                bad = row
                break
            starts[partition + 2] += 1
        if bad < 0:
            for p in range(2, size + 2):
                starts[p] += starts[p - 1]
            for row in range(total):
                partition = partitions[row]
                rows[starts[partition + 1]] = row
                starts[partition + 1] += 1
    if bad >= 0:
        raise ValueError(f"row {bad} has partition {partitions[bad]}, outside [0, {size})")
    spans = []
    for p in range(size):
        first = starts[p]
        last = starts[p + 1]
        if first < last:
            spans.append((p, first, last))
    return spans
