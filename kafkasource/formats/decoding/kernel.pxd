# C types of kernel.py: see kafkasource/kafka/records/kernel.pxd. setup.py makes the file of enums.
cimport cython
from libc.string cimport memcpy
from kafkasource.formats.buffers cimport bit_at, is_little, put_bit, signed32, signed64, store32, store64

include "decoding_opcodes.pxi"

cdef extern from *:
    """
    #ifndef KAFKASOURCE_KERNEL_FINGERPRINT
    #define KAFKASOURCE_KERNEL_FINGERPRINT 0
    #endif
    """
    const long long KAFKASOURCE_KERNEL_FINGERPRINT

@cython.locals(raw=cython.ulonglong, bits=cython.ulonglong, byte=cython.uchar, shift=cython.int, left=Py_ssize_t, word=cython.ulonglong, high=cython.ulonglong,
               stops=cython.ulonglong, order=cython.ulonglong, size=Py_ssize_t, seven=cython.ulonglong, pairs=cython.ulonglong, fours=cython.ulonglong,
               eights=cython.ulonglong)
cdef (unsigned long long, Py_ssize_t) read_several(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int most_last) noexcept nogil

cdef inline (unsigned long long, Py_ssize_t) read_varint(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(raw=cython.ulonglong, half=cython.longlong, sign=cython.longlong, after=Py_ssize_t)
cdef inline (long long, Py_ssize_t) read_long(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(value=cython.longlong, after=Py_ssize_t, low=cython.longlong, high=cython.longlong)
cdef (long long, Py_ssize_t) read_int(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(most_items=cython.longlong, value=cython.longlong, size=cython.longlong, after=Py_ssize_t)
cdef inline (long long, Py_ssize_t) read_count(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(mask=cython.ulonglong)
cdef unsigned long long low32(unsigned long long raw) noexcept nogil

@cython.locals(raw=cython.uint, whole=cython.uint)
cdef inline unsigned int load32(const unsigned char* data, Py_ssize_t at) noexcept nogil

@cython.locals(low=cython.ulonglong, high=cython.ulonglong, whole=cython.ulonglong)
cdef inline unsigned long long load64(const unsigned char* data, Py_ssize_t at) noexcept nogil

@cython.locals(single=cython.float)
cdef void store_as_float(unsigned char* out, Py_ssize_t index, long long value) noexcept nogil

@cython.locals(wide=cython.double)
cdef void store_as_double(unsigned char* out, Py_ssize_t index, long long value) noexcept nogil

@cython.locals(limit=cython.longlong, rest=cython.longlong)
cdef inline (long long, bint) scaled(long long value, long long factor, bint divides) noexcept nogil

@cython.locals(single=cython.float, wide=cython.double)
cdef void store_widened(unsigned char* out, Py_ssize_t index, unsigned int bits) noexcept nogil

cdef void copy(unsigned char* out, Py_ssize_t out_pos, const unsigned char* data, Py_ssize_t pos, Py_ssize_t size, Py_ssize_t left) noexcept nogil

@cython.locals(high=cython.ulonglong, word=cython.ulonglong, first=cython.uint, second=cython.uint, lead=cython.int, byte=cython.int, least=cython.int, most=cython.int, more=cython.int)
cdef bint is_utf8(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(fill=cython.int, low=cython.ulonglong, high=cython.ulonglong, byte=cython.ulonglong, above=cython.ulonglong, below=cython.ulonglong,
               most_above=cython.ulonglong, most_below=cython.ulonglong, i=Py_ssize_t)
cdef bint put_decimal(unsigned char* out, Py_ssize_t index, const unsigned char* data, Py_ssize_t pos, Py_ssize_t size,
                      const unsigned char* constants, Py_ssize_t limit) noexcept nogil

@cython.locals(size=Py_ssize_t, value=cython.longlong, places=cython.longlong)
cdef Py_ssize_t put_decimal_text(unsigned char* out, Py_ssize_t at, long long value) noexcept nogil


cpdef Py_ssize_t match_frames(const unsigned char[::1] data, const int[::1] offsets, const unsigned char[::1] valid, Py_ssize_t shift,
                              const unsigned char[::1] starts, const int[::1] ends, int[::1] numbers, Py_ssize_t row,
                              Py_ssize_t last) except? -99

@cython.locals(has_nulls=cython.bint, known=Py_ssize_t, data="const unsigned char*", bitmap="const unsigned char*", frames="const unsigned char*",
               number=Py_ssize_t, begin=Py_ssize_t, end=Py_ssize_t, tried=Py_ssize_t, first=Py_ssize_t, size=Py_ssize_t, same=cython.bint, i=Py_ssize_t)
cdef Py_ssize_t match_known(const unsigned char[::1] input, const int[::1] offsets, const unsigned char[::1] valid, Py_ssize_t shift,
                            const unsigned char[::1] starts, const int[::1] ends, int[::1] numbers, Py_ssize_t row,
                            Py_ssize_t last) noexcept nogil


cdef class Decoding:
    cdef const int[::1] _code, _entries
    cdef const unsigned char[::1] _constants
    cdef long long[:, ::1] _table, _stack
    cdef long long* _cells
    cdef list _views
    cdef readonly Py_ssize_t columns, row, bad, wanted_column
    cdef readonly long long wanted
    cdef Py_ssize_t _base, _pc, _pos, _index, _depth, _limit, _most_frames
    cdef int[::1] _groups
    cdef int _failure, _group
    cdef bint _paused, _unnamed

    cpdef place(self, Py_ssize_t column, int which, unsigned char[::1] view)

    cpdef set_room(self, Py_ssize_t column, long long room)

    cpdef start(self, Py_ssize_t row)

    cpdef refuse(self)

    cpdef bint run(self, const unsigned char[::1] data, const int[::1] offsets, const unsigned char[::1] valid, Py_ssize_t shift,
                   Py_ssize_t skip_bytes, const int[::1] programs, unsigned char[::1] codes, int[::1] places, Py_ssize_t last) except? -99

    @cython.locals(data="const unsigned char*", bitmap="const unsigned char*", has_nulls=cython.bint, row=Py_ssize_t, at=Py_ssize_t, writer=cython.int, code=cython.int, begin=Py_ssize_t,
                   end=Py_ssize_t, pos=Py_ssize_t)
    cdef bint _run(self, const unsigned char[::1] input, const int[::1] offsets, const unsigned char[::1] valid, Py_ssize_t shift,
                   Py_ssize_t skip_bytes, const int[::1] programs, unsigned char[::1] codes, int[::1] places, Py_ssize_t last) noexcept nogil

    @cython.locals(level=cython.longlong, column=Py_ssize_t, kind=cython.longlong, width=Py_ssize_t, i=Py_ssize_t, out="unsigned char*")
    cdef void _nulls(self, Py_ssize_t first, Py_ssize_t last, Py_ssize_t index) noexcept nogil

    cdef int _full(self, Py_ssize_t column, long long wanted, Py_ssize_t pc, Py_ssize_t pos, Py_ssize_t index, Py_ssize_t depth) noexcept nogil

    cdef inline int _failed(self, int code, Py_ssize_t pc) noexcept nogil

    @cython.locals(code="const int*", pc=Py_ssize_t, pos=Py_ssize_t, index=Py_ssize_t, depth=Py_ssize_t, op=cython.int, failure=cython.int,
                   value=cython.longlong, after=Py_ssize_t, column=Py_ssize_t, size=cython.longlong, start=Py_ssize_t, raw=cython.ulonglong,
                   parent=Py_ssize_t, fits=cython.bint, out="unsigned char*")
    cdef int _record(self, const unsigned char* data, Py_ssize_t end, Py_ssize_t data_end) noexcept nogil

    @cython.locals(code="const int*", pc=Py_ssize_t, pos=Py_ssize_t, index=Py_ssize_t, depth=Py_ssize_t, op=cython.int,
                   value=cython.longlong, after=Py_ssize_t, column=Py_ssize_t, size=cython.longlong, start=Py_ssize_t, which=Py_ssize_t, bits=cython.uint,
                   constants="const unsigned char*", out="unsigned char*")
    cdef int _value(self, const unsigned char* data, Py_ssize_t end, Py_ssize_t data_end) noexcept nogil

    @cython.locals(code="const int*", pc=Py_ssize_t, pos=Py_ssize_t, depth=Py_ssize_t, op=cython.int, value=cython.longlong, after=Py_ssize_t,
                   size=cython.longlong, least=cython.longlong)
    cdef int _pass_over(self, const unsigned char* data, Py_ssize_t end) noexcept nogil

    @cython.locals(code="const int*", pc=Py_ssize_t, pos=Py_ssize_t, index=Py_ssize_t, depth=Py_ssize_t, op=cython.int,
                   value=cython.longlong, after=Py_ssize_t, column=Py_ssize_t, size=cython.longlong, start=Py_ssize_t, parent=Py_ssize_t,
                   out="unsigned char*")
    cdef int _rest(self, const unsigned char* data, Py_ssize_t end) noexcept nogil

    @cython.locals(out="unsigned char*", width=Py_ssize_t, i=Py_ssize_t)
    cdef void _store_constant(self, Py_ssize_t column, Py_ssize_t index, Py_ssize_t at) noexcept nogil

    @cython.locals(out="unsigned char*", i=Py_ssize_t)
    cdef void _constant(self, Py_ssize_t column, Py_ssize_t start, Py_ssize_t at, Py_ssize_t size) noexcept nogil



cdef inline unsigned char* buffer_of(Decoding decoding, Py_ssize_t column, int which) noexcept nogil:
    return <unsigned char*><size_t>decoding._cells[8 * column + which]

cdef inline long long cell_of(Decoding decoding, Py_ssize_t column, int which) noexcept nogil:
    return decoding._cells[8 * column + which]


# Inline methods are final: they are called directly.
cdef class ProtobufDecoding(Decoding):

    @cython.locals(i=Py_ssize_t, out="unsigned char*")
    cdef inline void _begin(self, Py_ssize_t lists, Py_ssize_t index) noexcept nogil

    @cython.locals(code="const int*", pos=Py_ssize_t, index=Py_ssize_t, depth=Py_ssize_t, block=Py_ssize_t, limit=Py_ssize_t, failure=cython.int,
                   tag=cython.ulonglong, after=Py_ssize_t, number=cython.longlong, wire=cython.int, field=Py_ssize_t, following=Py_ssize_t, op=cython.int, moved=Py_ssize_t,
                   column=Py_ssize_t, items=Py_ssize_t, at=Py_ssize_t, raw=cython.ulonglong, left=cython.ulonglong, size=Py_ssize_t, group=cython.int)
    cdef int _record(self, const unsigned char* data, Py_ssize_t end, Py_ssize_t data_end) noexcept nogil

    @cython.locals(low=Py_ssize_t, first=Py_ssize_t, count=Py_ssize_t, begin=Py_ssize_t, middle=Py_ssize_t)
    cdef inline Py_ssize_t _search(self, Py_ssize_t block, long long number) noexcept nogil

    @cython.locals(i=Py_ssize_t)
    cdef inline void _clear(self, Py_ssize_t nulls, Py_ssize_t index) noexcept nogil

    @cython.locals(out="unsigned char*", raw=cython.ulonglong, after=Py_ssize_t, half=cython.longlong, sign=cython.longlong)
    cdef inline Py_ssize_t _number(self, int op, Py_ssize_t column, int presence, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos,
                                   Py_ssize_t end) noexcept nogil

    @cython.locals(raw=cython.ulonglong, after=Py_ssize_t, left=cython.ulonglong, size=Py_ssize_t, column=Py_ssize_t, presence=cython.int,
                   out="unsigned char*", start=Py_ssize_t)
    cdef inline Py_ssize_t _text(self, Py_ssize_t field, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end,
                                 Py_ssize_t data_end) noexcept nogil

    @cython.locals(raw=cython.ulonglong, after=Py_ssize_t, value=cython.longlong, beyond=cython.longlong, names=Py_ssize_t, begin=Py_ssize_t, count=Py_ssize_t,
                   middle=Py_ssize_t, known=cython.bint, column=Py_ssize_t, out="unsigned char*", start=Py_ssize_t, size=Py_ssize_t, presence=cython.int)
    cdef inline Py_ssize_t _name(self, Py_ssize_t field, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

    @cython.locals(raw=cython.ulonglong, after=Py_ssize_t, left=cython.ulonglong, size=Py_ssize_t, stop=Py_ssize_t, op=cython.int, items=Py_ssize_t,
                   column=Py_ssize_t, out="unsigned char*", at=Py_ssize_t, count=Py_ssize_t, i=Py_ssize_t)
    cdef inline Py_ssize_t _packed(self, Py_ssize_t field, Py_ssize_t index, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

    @cython.locals(depth=cython.int, raw=cython.ulonglong, tag=cython.ulonglong, left=cython.ulonglong, size=Py_ssize_t)
    cdef inline Py_ssize_t _skip(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, long long number, int wire) noexcept nogil

    @cython.locals(op=cython.int, within=Py_ssize_t, column=Py_ssize_t, seconds=cython.longlong, nanos=cython.longlong, limit=cython.longlong,
                   micros=cython.longlong, out="unsigned char*", start=Py_ssize_t, nullable=cython.bint, size=Py_ssize_t)
    cdef inline int _ended(self, Py_ssize_t at, Py_ssize_t index) noexcept nogil

    cdef inline bint _is_there(self, Py_ssize_t column, Py_ssize_t index) noexcept nogil
