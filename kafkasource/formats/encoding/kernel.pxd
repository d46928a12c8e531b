# C types of kernel.py: see kafkasource/kafka/records/kernel.pxd. setup.py makes the file of enums.
cimport cython
from libc.string cimport memcpy, memmove
from kafkasource.formats.buffers cimport bit_at, is_little, product, signed32, signed64

include "encoding_opcodes.pxi"

cdef extern from *:
    """
    #ifndef KAFKASOURCE_KERNEL_FINGERPRINT
    #define KAFKASOURCE_KERNEL_FINGERPRINT 0
    #endif
    """
    const long long KAFKASOURCE_KERNEL_FINGERPRINT

cdef extern from *:
    """
    #define TRUE_WORD 0x65757274ULL
    #define FALSE_WORD 0x65736c6166ULL
    #define NULL_WORD 0x6c6c756eULL
    #define ZERO_WORD 0x302e30ULL
    #define NAN_WORD 0x4e614eULL
    #define INFINITY_WORD 0x7974696e69666e49ULL
    """
    const unsigned long long TRUE_WORD
    const unsigned long long FALSE_WORD
    const unsigned long long NULL_WORD
    const unsigned long long ZERO_WORD
    const unsigned long long NAN_WORD
    const unsigned long long INFINITY_WORD

cdef inline Py_ssize_t put_varint(unsigned char* out, Py_ssize_t pos, unsigned long long raw) noexcept nogil

@cython.locals(raw=cython.ulonglong, sign=cython.longlong)
cdef inline Py_ssize_t put_long(unsigned char* out, Py_ssize_t pos, long long value) noexcept nogil

@cython.locals(raw=cython.short)
cdef inline int signed16(const unsigned char* data, Py_ssize_t index) noexcept nogil

cdef inline void copy(unsigned char* out, Py_ssize_t out_pos, const unsigned char* data, Py_ssize_t pos, Py_ssize_t size) noexcept nogil

@cython.locals(i=Py_ssize_t)
cdef inline void copy_little(unsigned char* out, Py_ssize_t out_pos, const unsigned char* data, Py_ssize_t index, Py_ssize_t size) noexcept nogil

@cython.locals(single=cython.float, wide=cython.double, raw=cython.ulonglong, i=cython.int)
cdef void copy_widened(unsigned char* out, Py_ssize_t out_pos, const unsigned char* data, Py_ssize_t index) noexcept nogil

@cython.locals(low=cython.longlong, high=cython.longlong, fill=cython.int, size=Py_ssize_t, first=cython.int, second=cython.int, _each=Py_ssize_t)
cdef Py_ssize_t put_decimal(unsigned char* out, Py_ssize_t pos, const unsigned char* data, Py_ssize_t index, Py_ssize_t fixed) noexcept nogil

@cython.locals(rest=cython.ulonglong, size=Py_ssize_t)
cdef inline Py_ssize_t varint_size(unsigned long long raw) noexcept nogil

cdef inline unsigned long long low32(long long value) noexcept nogil

cdef void move(unsigned char* out, Py_ssize_t to, Py_ssize_t start, Py_ssize_t size) noexcept nogil

@cython.locals(size=Py_ssize_t, after=Py_ssize_t)
cdef Py_ssize_t put_size_before(unsigned char* out, Py_ssize_t start, Py_ssize_t pos) noexcept nogil

@cython.locals(seconds=cython.longlong, micros=cython.longlong, start=Py_ssize_t)
cdef Py_ssize_t put_time(unsigned char* out, Py_ssize_t pos, long long value, bint floor) noexcept nogil

cdef inline int decimal_byte(long long low, long long high, Py_ssize_t which) noexcept nogil

cdef inline unsigned long long negated(long long value) noexcept nogil

@cython.locals(size=Py_ssize_t, rest=cython.ulonglong)
cdef inline Py_ssize_t put_digits(unsigned char* out, Py_ssize_t pos, unsigned long long value) noexcept nogil

@cython.locals(at=Py_ssize_t)
cdef inline Py_ssize_t put_padded(unsigned char* out, Py_ssize_t pos, unsigned long long value, Py_ssize_t size) noexcept nogil

@cython.locals(_each=Py_ssize_t)
cdef inline Py_ssize_t put_word(unsigned char* out, Py_ssize_t pos, unsigned long long word, Py_ssize_t size) noexcept nogil

@cython.locals(mask=cython.ulonglong, carried=cython.ulonglong, high=cython.ulonglong, low=cython.ulonglong, _rest=cython.ulonglong)
cdef inline unsigned long long rounded_to_odd(const unsigned long long* tens, Py_ssize_t power, unsigned long long value) noexcept nogil

@cython.locals(one=cython.ulonglong, closer=cython.bint, digits=cython.ulonglong, scale=cython.int)
cdef (unsigned long long, int) shortest(const unsigned long long* tens, unsigned long long fraction, int exponent, bint wide) noexcept nogil

@cython.locals(scale=cython.int, shift=cython.int, lower=cython.ulonglong, upper=cython.ulonglong, value=cython.ulonglong, short=cython.ulonglong,
               ten=cython.ulonglong, below=cython.bint, above=cython.bint)
cdef (unsigned long long, int) shortest_of(const unsigned long long* tens, unsigned long long fraction, int exponent, bint closer, int odd) noexcept nogil

@cython.locals(size=Py_ssize_t, point=Py_ssize_t, at=Py_ssize_t, first=Py_ssize_t, _each=Py_ssize_t)
cdef Py_ssize_t put_real(unsigned char* out, Py_ssize_t pos, unsigned long long digits, int power) noexcept nogil

@cython.locals(low=cython.ulonglong, high=cython.ulonglong, size=Py_ssize_t, first=Py_ssize_t, one=cython.ulonglong, rest=cython.ulonglong,
               billion=cython.ulonglong, third=cython.ulonglong, second=cython.ulonglong, mask=cython.ulonglong, signed_low=cython.longlong,
               signed_high=cython.longlong, negative=cython.bint, _each=Py_ssize_t)
cdef Py_ssize_t put_decimal_text(unsigned char* out, Py_ssize_t pos, const unsigned char* data, Py_ssize_t index, Py_ssize_t scale) noexcept nogil

cdef inline long long floored(long long value, long long divisor) noexcept nogil

@cython.locals(era=cython.longlong, day=cython.longlong, year_of_era=cython.longlong, day_of_year=cython.longlong, month=cython.longlong,
               year=cython.longlong)
cdef Py_ssize_t put_date(unsigned char* out, Py_ssize_t pos, long long days) noexcept nogil

cdef Py_ssize_t put_clock(unsigned char* out, Py_ssize_t pos, long long seconds) noexcept nogil

@cython.locals(day=cython.longlong)
cdef Py_ssize_t put_timestamp(unsigned char* out, Py_ssize_t pos, long long micros) noexcept nogil

cdef Py_ssize_t put_time_of_day(unsigned char* out, Py_ssize_t pos, long long micros) noexcept nogil

cdef inline int base64_digit(int value) noexcept nogil

@cython.locals(end=Py_ssize_t, three=cython.int)
cdef Py_ssize_t put_base64(unsigned char* out, Py_ssize_t pos, const unsigned char* data, Py_ssize_t start, Py_ssize_t size) noexcept nogil

@cython.locals(lead=cython.int, more=cython.int, least=cython.int, most=cython.int, second=cython.int, i=cython.int)
cdef (int, bint) character(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

cdef Py_ssize_t put_escape(unsigned char* out, Py_ssize_t pos, int byte) noexcept nogil

@cython.locals(end=Py_ssize_t, byte=cython.int, length=cython.int, right=cython.bint, word=cython.ulonglong, ones=cython.ulonglong,
               unsafe=cython.ulonglong, i=Py_ssize_t)
cdef Py_ssize_t put_text(unsigned char* out, Py_ssize_t pos, Py_ssize_t room, const unsigned char* data, Py_ssize_t start, Py_ssize_t size) noexcept nogil


cdef class Encoding:
    cdef const int[::1] _code
    cdef const unsigned char[::1] _constants
    cdef const unsigned long long[::1] _tens
    cdef long long[:, ::1] _table, _stack
    cdef long long* _cells
    cdef list _views
    cdef readonly Py_ssize_t columns, row, pos
    cdef Py_ssize_t _pc

    cpdef place(self, Py_ssize_t column, int which, const unsigned char[::1] view)

    cpdef set_shift(self, Py_ssize_t column, long long shift)

    cpdef start(self, Py_ssize_t row)

    @cython.locals(at=Py_ssize_t)
    cpdef pass_over(self, int[::1] offsets, Py_ssize_t first)

    @cython.locals(rows=Py_ssize_t)
    cpdef int run(self, unsigned char[::1] out, int[::1] offsets, unsigned char[::1] valid, Py_ssize_t first, Py_ssize_t last) except? -99

    @cython.locals(room=Py_ssize_t, out="unsigned char*", has_nulls=cython.bint, row=Py_ssize_t, code=cython.int, at=Py_ssize_t, byte=cython.int)
    cdef int _run(self, unsigned char[::1] output, int[::1] offsets, unsigned char[::1] valid, Py_ssize_t first, Py_ssize_t last) noexcept nogil

    cdef inline const unsigned char* _buffer(self, Py_ssize_t column, int which) noexcept nogil

    cdef inline long long _cell(self, Py_ssize_t column, int which) noexcept nogil

    cdef inline bint _is_null(self, Py_ssize_t column, Py_ssize_t index) noexcept nogil

    @cython.locals(at=Py_ssize_t, values="const unsigned char*", i=Py_ssize_t)
    cdef inline bint _is_unset(self, Py_ssize_t column, Py_ssize_t width, Py_ssize_t index) noexcept nogil

    @cython.locals(at=Py_ssize_t, values="const unsigned char*", value=cython.longlong)
    cdef inline long long _number(self, Py_ssize_t column, Py_ssize_t width, Py_ssize_t index) noexcept nogil

    cdef inline int _failed(self, int code, Py_ssize_t pc) noexcept nogil

    @cython.locals(begin=Py_ssize_t, count=Py_ssize_t, middle=Py_ssize_t, at=Py_ssize_t, order=Py_ssize_t, i=Py_ssize_t)
    cdef Py_ssize_t _symbol(self, Py_ssize_t pc, const unsigned char* data, Py_ssize_t start, Py_ssize_t size) noexcept nogil

    @cython.locals(bits=cython.ulonglong, exponent=cython.int, limit=cython.ulonglong, one=cython.ulonglong, digits=cython.ulonglong, power=cython.int,
                   negative=cython.bint, largest=cython.int)
    cdef Py_ssize_t _put_real(self, unsigned char* out, Py_ssize_t pos, const unsigned char* data, Py_ssize_t index, int width, int rule) noexcept nogil

    cdef Py_ssize_t _put_special(self, unsigned char* out, Py_ssize_t pos, bint is_nan, bint negative, int rule) noexcept nogil

    @cython.locals(column=Py_ssize_t, at=Py_ssize_t, start=Py_ssize_t, size=Py_ssize_t, value=cython.longlong)
    cdef Py_ssize_t _json(self, unsigned char* out, Py_ssize_t pos, Py_ssize_t room, Py_ssize_t pc, Py_ssize_t index, int op) noexcept nogil

    @cython.locals(column=Py_ssize_t, at=Py_ssize_t, start=Py_ssize_t, size=Py_ssize_t, value=cython.longlong, values="const unsigned char*",
                   data="const unsigned char*")
    cdef Py_ssize_t _value(self, unsigned char* out, Py_ssize_t pos, Py_ssize_t room, Py_ssize_t pc, Py_ssize_t index, int op) noexcept nogil

    cdef inline Py_ssize_t _words(self, Py_ssize_t pc, int op) noexcept nogil

    cdef inline Py_ssize_t _constant(self, unsigned char* out, Py_ssize_t pos, Py_ssize_t start, Py_ssize_t size) noexcept nogil

    @cython.locals(code="const int*", pc=Py_ssize_t, pos=Py_ssize_t, index=Py_ssize_t, depth=Py_ssize_t, op=cython.int, column=Py_ssize_t,
                   values="const unsigned char*", at=Py_ssize_t, start=Py_ssize_t, size=Py_ssize_t, after=Py_ssize_t, least=Py_ssize_t)
    cdef int _record(self, unsigned char* out, Py_ssize_t room, Py_ssize_t row) noexcept nogil
