# C types of kernel.py. A name typed here is C in the compiled kernel and an ordinary Python object in the interpreted one.
# Functions in `noexcept nogil` report errors by return value; every check of a length is written in kernel.py itself.
cimport cython
from libc.string cimport memcpy

cdef extern from *:
    """
    #ifndef KAFKASOURCE_KERNEL_FINGERPRINT
    #define KAFKASOURCE_KERNEL_FINGERPRINT 0
    #endif
    static inline unsigned long long little_endian_word(const unsigned char* data) {
        unsigned long long word;
        memcpy(&word, data, 8);
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
    #endif
        return word;
    }
    """
    const long long KAFKASOURCE_KERNEL_FINGERPRINT
    unsigned long long little_endian_word(const unsigned char* data) noexcept nogil

cdef extern from "crc32c.h":
    bint crc32c_is_supported() noexcept nogil
    unsigned int crc32c_of(const unsigned char* data, size_t size) noexcept nogil

cdef int TRUNCATED, BAD_LENGTH, BAD_OFFSET, BAD_TIMESTAMP, BAD_KEY, BAD_VALUE, BAD_HEADERS, TRAILING, OVERFLOW

@cython.locals(raw=cython.ulonglong, half=cython.longlong, sign=cython.longlong, byte=cython.uchar, shift=cython.int)
cdef (long long, Py_ssize_t) read_varint(const unsigned char[::1] data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(raw=cython.ulonglong, bits=cython.ulonglong, half=cython.longlong, sign=cython.longlong, byte=cython.uchar, shift=cython.int)
cdef (long long, Py_ssize_t) read_varlong(const unsigned char[::1] data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(raw=cython.uint)
cdef unsigned int uint32_at(const unsigned char[::1] data, Py_ssize_t pos) noexcept nogil

@cython.locals(raw=cython.uint)
cdef int int32_at(const unsigned char[::1] data, Py_ssize_t pos) noexcept nogil

@cython.locals(raw=cython.ulonglong)
cdef long long int64_at(const unsigned char[::1] data, Py_ssize_t pos) noexcept nogil

@cython.locals(raw=cython.ulonglong)
cdef long long wrapped_sum(long long a, long long b) noexcept nogil

@cython.locals(raw=cython.ulonglong, size=cython.int)
cdef int varlong_size(long long value) noexcept nogil

@cython.locals(raw=cython.ulonglong)
cdef Py_ssize_t write_varlong(unsigned char* out, Py_ssize_t pos, long long value) noexcept nogil

cdef void copy(unsigned char[::1] out, Py_ssize_t out_pos, const unsigned char[::1] data, Py_ssize_t pos, Py_ssize_t size) noexcept nogil

cdef void copy_out(unsigned char* out, Py_ssize_t out_pos, const unsigned char[::1] data, Py_ssize_t pos, Py_ssize_t size) noexcept nogil

cdef int is_valid(const unsigned char[::1] bitmap, Py_ssize_t index) noexcept nogil


cdef int LENGTH_POS, MAGIC_POS, CRC_POS, ATTRIBUTES_POS, LAST_DELTA_POS, BASE_TIMESTAMP_POS, MAX_TIMESTAMP_POS
cdef int RECORDS_POS, HEADER_BYTES, PREFIX_BYTES, CODEC_MASK, LOG_APPEND_FLAG, SPECIAL_MASK, MIN_RECORD_BYTES
cdef int POS, START, END, RECORDS, BASE_OFFSET, LAST_DELTA, BASE_TIMESTAMP, MAX_TIMESTAMP, ATTRIBUTES, IN_SCRATCH
cdef int ROWS, SECTION_FIELDS

@cython.locals(max_offset=cython.longlong, left=Py_ssize_t, length=Py_ssize_t, base_offset=cython.longlong,
               last_delta=cython.longlong)
cdef bint follows(const unsigned char[::1] data, Py_ssize_t pos, long long expected) noexcept nogil

@cython.locals(pos=Py_ssize_t, batches=Py_ssize_t, next_offset=cython.longlong)
cpdef tuple survey(const unsigned char[::1] data)

cdef bint crc_is_right(const unsigned char[::1] data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(crc=cython.uint)
cdef unsigned int crc32c_at(const unsigned char[::1] data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

cpdef unsigned int crc32c(const unsigned char[::1] data) except? 0


cdef class Sections:
    cdef long long[:, ::1] _table
    cdef readonly Py_ssize_t capacity, count, pos, rows
    cdef readonly long long next_offset, bytes

    cpdef scan(self, const unsigned char[::1] data, long long start_offset, long long end_offset, bint check_crc)

    @cython.locals(pos=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, i=Py_ssize_t, expected=cython.longlong, base_offset=cython.longlong, last_delta=cython.longlong, records=cython.longlong,
                   attributes=cython.int)
    cdef void _scan(self, const unsigned char[::1] data, long long start_offset, long long end_offset,
                    bint check_crc) noexcept nogil

    cpdef truncate(self, Py_ssize_t count)

    @cython.locals(i=Py_ssize_t)
    cpdef list special(self)

    cpdef tuple batch(self, Py_ssize_t i)

    cpdef skip(self, Py_ssize_t i)

    cpdef bint replace(self, Py_ssize_t i, Py_ssize_t start, Py_ssize_t end) except? -99

    cdef int _check(self, Py_ssize_t i) except -1

    @cython.locals(limit=cython.longlong, rows=Py_ssize_t, size=cython.longlong, log_append=cython.longlong,
                   i=Py_ssize_t, records=cython.longlong, more=cython.longlong)
    cpdef tuple group(self, Py_ssize_t first)


cdef class RowColumns:
    cdef int[::1] _key_offsets, _value_offsets
    cdef unsigned char[::1] _keys, _values, _key_valid, _value_valid
    cdef long long[::1] _offsets, _timestamps, _header_positions
    cdef readonly Py_ssize_t rows, key_bytes, value_bytes, key_nulls, value_nulls, failed
    cdef readonly Py_ssize_t headers, header_key_bytes, header_value_bytes
    cdef Py_ssize_t _capacity

    @cython.locals(code=cython.int, i=Py_ssize_t)
    cpdef int fill(self, const unsigned char[::1] data, const unsigned char[::1] scratch, Sections sections,
                   Py_ssize_t first, Py_ssize_t last, long long start_offset, long long end_offset) except? -99

    @cython.locals(i=cython.longlong, dense=cython.bint, row=Py_ssize_t, key_pos=Py_ssize_t, value_pos=Py_ssize_t, record_end=Py_ssize_t,
                   length=cython.longlong, timestamp=cython.longlong, age=cython.longlong, delta=cython.longlong, previous=cython.longlong,
                   offset=cython.longlong, kept=cython.bint, headers=cython.longlong, _j=cython.longlong,
                   limit=cython.longlong, pos=Py_ssize_t, end=Py_ssize_t, count=cython.longlong,
                   base_offset=cython.longlong, last_offset_delta=cython.longlong, base_timestamp=cython.longlong,
                   max_timestamp=cython.longlong, log_append=cython.bint, with_headers=cython.bint, with_keys=cython.bint,
                   with_values=cython.bint, with_offsets=cython.bint, with_timestamps=cython.bint)
    cdef int _fill(self, const unsigned char[::1] data, Sections sections, Py_ssize_t section, long long start_offset,
                   long long end_offset) noexcept nogil


cdef class HeaderColumns:
    cdef int[::1] _list_offsets, _key_offsets, _value_offsets
    cdef unsigned char[::1] _list_valid, _keys, _values, _value_valid
    cdef const long long[::1] _positions
    cdef readonly Py_ssize_t rows, headers, key_bytes, value_bytes, list_nulls, value_nulls, failed

    @cython.locals(code=cython.int, i=Py_ssize_t)
    cpdef int fill(self, const unsigned char[::1] data, const unsigned char[::1] scratch, Sections sections,
                   Py_ssize_t first, Py_ssize_t last) except? -99

    @cython.locals(row=Py_ssize_t, header=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, last=Py_ssize_t,
                   key_pos=Py_ssize_t, value_pos=Py_ssize_t, length=cython.longlong, headers=cython.longlong,
                   _j=cython.longlong, pos=Py_ssize_t)
    cdef int _fill(self, const unsigned char[::1] data, Sections sections, Py_ssize_t section) noexcept nogil


@cython.locals(bits=cython.uchar, i=Py_ssize_t)
cpdef bint is_ascii(const unsigned char[::1] data) except? -99


cdef class Source:
    cdef readonly Py_ssize_t count
    cdef bint _has_keys, _has_values, _has_timestamps, _has_headers
    cdef const unsigned char[::1] _key_valid, _keys, _value_valid, _values, _timestamp_valid
    cdef const unsigned char[::1] _list_valid, _header_key_valid, _header_keys, _header_value_valid, _header_values
    cdef const int[::1] _key_offsets, _value_offsets, _list_offsets, _header_key_offsets, _header_value_offsets
    cdef const long long[::1] _timestamps
    cdef Py_ssize_t _key_shift, _value_shift, _timestamp_shift, _list_shift, _header_key_shift, _header_value_shift
    cdef long long _default_timestamp

    @cython.locals(index=Py_ssize_t)
    cdef inline long long timestamp(self, Py_ssize_t row) noexcept nogil

    @cython.locals(index=Py_ssize_t, start=cython.longlong, size=cython.longlong)
    cdef inline long long key_size(self, Py_ssize_t row) noexcept nogil

    @cython.locals(index=Py_ssize_t, start=cython.longlong, size=cython.longlong)
    cdef inline long long value_size(self, Py_ssize_t row) noexcept nogil

    @cython.locals(index=Py_ssize_t, first=cython.longlong, last=cython.longlong, i=Py_ssize_t, total=cython.longlong,
                   start=cython.longlong, size=cython.longlong)
    cdef long long headers_size(self, Py_ssize_t row) noexcept nogil

    @cython.locals(key=cython.longlong, value=cython.longlong, headers=cython.longlong, total=cython.longlong)
    cpdef long long record_size(self, Py_ssize_t row) except? -2


cdef struct OpenBatch:
    unsigned char* out
    Py_ssize_t pos, end, count
    long long base_timestamp, max_timestamp


cdef class RecordWriter:
    cdef unsigned char[::1] _out  # holds the memory that _batch.out points to
    cdef OpenBatch _batch
    cdef public bint closed


@cython.locals(i=Py_ssize_t, size=Py_ssize_t, all_rows=cython.bint, index="const int[::1]", available=Py_ssize_t,
               table="long long[::1]", first=Py_ssize_t, last=Py_ssize_t, reached=Py_ssize_t, bad=Py_ssize_t,
               writer=RecordWriter, batch="OpenBatch*", positions=list)
cpdef list write_spans(Source source, rows, spans)

@cython.locals(i=Py_ssize_t, row=Py_ssize_t, timestamp=cython.longlong, delta=cython.longlong, key=cython.longlong,
               value=cython.longlong, headers=cython.longlong, body=cython.longlong, pos=Py_ssize_t, end=Py_ssize_t,
               count=Py_ssize_t, base_timestamp=cython.longlong, max_timestamp=cython.longlong, reached=Py_ssize_t,
               limit=cython.longlong, out="unsigned char*")
cdef Py_ssize_t write_rows(OpenBatch* batch, Source source, const int[::1] index, bint all_rows, Py_ssize_t first,
                           Py_ssize_t last) noexcept nogil

@cython.locals(item=Py_ssize_t, first=cython.longlong, last=cython.longlong, i=Py_ssize_t, start=cython.longlong, size=cython.longlong)
cdef Py_ssize_t write_headers(unsigned char* out, Py_ssize_t pos, Source source, Py_ssize_t row) noexcept nogil


@cython.locals(m=cython.ulonglong)
cdef inline unsigned long long mix(unsigned long long h, unsigned long long word) noexcept nogil

@cython.locals(m=cython.ulonglong, place=cython.ulonglong, total=cython.ulonglong, pos=Py_ssize_t,
               left=cython.longlong, word=cython.ulonglong, i=cython.longlong, _i=cython.longlong)
cdef inline unsigned long long mix_bytes(unsigned long long h, const unsigned char* data, Py_ssize_t start,
                                         long long size) noexcept nogil

cdef inline unsigned long long word_at(const unsigned char* data, Py_ssize_t pos) noexcept nogil

@cython.locals(i=Py_ssize_t, row=Py_ssize_t, all_rows=cython.bint, index="const int[::1]", available=Py_ssize_t,
               nothing="const unsigned char[::1]", keys="const unsigned char[::1]", values="const unsigned char[::1]",
               header_keys="const unsigned char[::1]", header_values="const unsigned char[::1]",
               key_data="const unsigned char*", value_data="const unsigned char*",
               header_key_data="const unsigned char*", header_value_data="const unsigned char*",
               total=cython.ulonglong, h=cython.ulonglong, bad=Py_ssize_t, key=cython.longlong, value=cython.longlong,
               headers=cython.longlong, start=cython.longlong, end=cython.longlong, header=cython.longlong,
               item=Py_ssize_t, at=Py_ssize_t, size=cython.longlong)
cpdef object content_sum(Source source, rows, Py_ssize_t first, Py_ssize_t last)

@cython.locals(h=cython.uint, k=cython.uint, m=cython.uint, pos=Py_ssize_t, left=Py_ssize_t)
cdef unsigned int murmur2(const unsigned char* data, Py_ssize_t start, Py_ssize_t size) noexcept nogil

@cython.locals(row=Py_ssize_t, index=Py_ssize_t, start=cython.longlong, size=cython.longlong,
               keys="const unsigned char*")
cpdef Py_ssize_t partition_keys(const int[::1] offsets, const unsigned char[::1] data, const unsigned char[::1] valid,
                                Py_ssize_t shift, Py_ssize_t count, int partitions, int[::1] out) except? -2

@cython.locals(row=Py_ssize_t, partition=cython.int, total=Py_ssize_t, size=Py_ssize_t, p=Py_ssize_t, bad=Py_ssize_t,
               first=cython.int, last=cython.int)
cpdef list group(const int[::1] partitions, int[::1] starts, int[::1] rows)
