# C types of kernel.py: see kafkasource/kafka/records/kernel.pxd. setup.py makes the file of enums.
cimport cython
from libc.string cimport memcmp, memcpy
from kafkasource.formats.decoding.kernel cimport (
    BAD_UTF8, CUT, DATA_AT, LAST, MISSING, ROOM, TRAILING, VALID_AT, VALUES_AT, Decoding, buffer_of, is_utf8)
from kafkasource.formats.buffers cimport bit_at, is_little, product, put_bit, signed32, store32

include "json_opcodes.pxi"

cdef extern from *:
    """
    #ifndef KAFKASOURCE_KERNEL_FINGERPRINT
    #define KAFKASOURCE_KERNEL_FINGERPRINT 0
    #endif
    """
    const long long KAFKASOURCE_KERNEL_FINGERPRINT

@cython.locals(four=cython.int, two=cython.short)
cdef inline void store(unsigned char* out, Py_ssize_t index, Py_ssize_t width, unsigned long long value) noexcept nogil

cdef inline bint same(const unsigned char* left, Py_ssize_t at, const unsigned char* right, Py_ssize_t pos, Py_ssize_t size) noexcept nogil

cdef inline Py_ssize_t behind_space(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

cdef inline bint is_digit(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(found=cython.int, byte=cython.int, digit=cython.int, i=cython.int)
cdef int hex_of(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(byte=cython.int, found=cython.int)
cdef Py_ssize_t behind_escape(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(begin=Py_ssize_t, flags=cython.int, stop=Py_ssize_t, ones=cython.ulonglong, word=cython.ulonglong, quotes=cython.ulonglong,
               slashes=cython.ulonglong, found=cython.ulonglong, byte=cython.int)
cdef (Py_ssize_t, int) scan_string(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(byte=cython.uchar, point=cython.int, low=cython.int)
cdef Py_ssize_t unescape(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, unsigned char* out, Py_ssize_t at) noexcept nogil

@cython.locals(byte=cython.int)
cdef inline Py_ssize_t behind_word(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(sign=cython.int)
cdef int infinite(const unsigned char* data, Py_ssize_t pos, Py_ssize_t size) noexcept nogil

cdef inline int two_digits(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

@cython.locals(sign=cython.int, begin=Py_ssize_t, year=cython.longlong, month=cython.int, day=cython.int, last=cython.int, eras=cython.longlong,
               days=cython.longlong)
cdef (long long, Py_ssize_t) days_of(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int most) noexcept nogil

@cython.locals(days=cython.longlong, seconds=cython.longlong, hour=cython.int, minute=cython.int, second=cython.int, part=cython.int, worth=cython.int,
               sign=cython.int, most=cython.longlong)
cdef (long long, bint) micros_of(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint has_zone) noexcept nogil

cdef int base64_digit(int byte) noexcept nogil

@cython.locals(pos=Py_ssize_t, at=Py_ssize_t, bits=cython.int, count=cython.int, digit=cython.int, i=cython.int)
cdef Py_ssize_t from_base64(unsigned char* out, Py_ssize_t begin, Py_ssize_t end) noexcept nogil

@cython.locals(size=cython.int, bias=cython.int, beyond=cython.int, least_even=cython.int, most_even=cython.int, above=cython.ulonglong, zeros=cython.int,
               at=Py_ssize_t, high=cython.ulonglong, low=cython.ulonglong, mask=cython.ulonglong, more=cython.ulonglong, rest=cython.ulonglong,
               upper=cython.int, shift=cython.int, found=cython.ulonglong, exponent=cython.int, one=cython.ulonglong)
cdef unsigned long long nearest(const unsigned long long* fives, unsigned long long mantissa, int power, bint wide) noexcept nogil

@cython.locals(mask=cython.ulonglong, first=cython.ulonglong, second=cython.ulonglong)
cdef inline (unsigned long long, unsigned long long) times_ten(unsigned long long high, unsigned long long low, int more) noexcept nogil


# Inline methods are final: they are called directly.
cdef class JsonDecoding(Decoding):
    cdef int[::1] _words
    cdef const unsigned long long[::1] _fives
    cdef unsigned char[::1] _passed, _scratch
    cdef Py_ssize_t _longest, _field, _rescued, _member
    cdef int _state
    cdef bint _negative, _whole, _exact, _lacks
    cdef unsigned long long _mantissa
    cdef long long _exponent

    @cython.locals(size=Py_ssize_t)
    cdef inline int _unframed(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

    cdef inline int _wait(self, Py_ssize_t column, long long wanted, int state, Py_ssize_t pos, Py_ssize_t index, Py_ssize_t depth) noexcept nogil

    @cython.locals(code="const int*", failure=cython.int, state=cython.int, pos=Py_ssize_t, index=Py_ssize_t, depth=Py_ssize_t, node=Py_ssize_t,
                   byte=cython.int, op=cython.int, column=Py_ssize_t, out="unsigned char*", field=Py_ssize_t,
                   start=Py_ssize_t)
    cdef int _record(self, const unsigned char* data, Py_ssize_t end, Py_ssize_t data_end) noexcept nogil

    @cython.locals(size=Py_ssize_t, out="unsigned char*", begin=Py_ssize_t, at=Py_ssize_t, into="unsigned char*")
    cdef bint _rescue(self, const unsigned char* data, Py_ssize_t end, Py_ssize_t index) noexcept nogil

    @cython.locals(words="int*", constants="const unsigned char*", column=Py_ssize_t, start=Py_ssize_t, entry=Py_ssize_t, field=Py_ssize_t, size=Py_ssize_t,
                   flags=cython.int)
    cdef inline Py_ssize_t _name(self, Py_ssize_t node, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t index,
                                 Py_ssize_t depth) noexcept nogil

    @cython.locals(op=cython.int, column=Py_ssize_t)
    cdef inline Py_ssize_t _scalar_or_text(self, Py_ssize_t node, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t index,
                           Py_ssize_t depth) noexcept nogil

    @cython.locals(at=Py_ssize_t, i=Py_ssize_t)
    cdef inline bint _has_required(self, Py_ssize_t block, Py_ssize_t index) noexcept nogil

    @cython.locals(mask=Py_ssize_t, slots=Py_ssize_t, i=Py_ssize_t, entry=Py_ssize_t, hashed=cython.uint, size=Py_ssize_t, constants="const unsigned char*")
    cdef inline Py_ssize_t _named(self, Py_ssize_t block, const unsigned char* data, Py_ssize_t begin, Py_ssize_t end, int flags) noexcept nogil

    @cython.locals(scratch="unsigned char*", at=Py_ssize_t, after=Py_ssize_t)
    cdef inline Py_ssize_t _unescaped(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t most) noexcept nogil

    @cython.locals(begin=Py_ssize_t, quote=Py_ssize_t, flags=cython.int, size=Py_ssize_t, out="unsigned char*", into="unsigned char*", start=Py_ssize_t)
    cdef inline Py_ssize_t _text(self, Py_ssize_t column, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t index) noexcept nogil

    cdef inline void _copy(self, unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos, Py_ssize_t size) noexcept nogil

    @cython.locals(after=Py_ssize_t, out="unsigned char*", start=Py_ssize_t)
    cdef inline Py_ssize_t _json_text(self, Py_ssize_t column, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t index,
                               Py_ssize_t depth) noexcept nogil

    @cython.locals(out="unsigned char*", after=Py_ssize_t)
    cdef inline bint _from_base64(self, Py_ssize_t column, Py_ssize_t index) noexcept nogil

    @cython.locals(op=cython.int, out="unsigned char*", byte=cython.int, start=Py_ssize_t, flags=cython.int, code=cython.int, after=Py_ssize_t)
    cdef inline Py_ssize_t _scalar(self, Py_ssize_t node, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t index,
                            Py_ssize_t depth) noexcept nogil

    @cython.locals(op=cython.int, which=cython.int, bits=cython.ulonglong, days=cython.longlong, stop=Py_ssize_t, least=cython.longlong, micros=cython.longlong,
                   right=cython.bint)
    cdef inline int _quoted(self, Py_ssize_t node, unsigned char* out, const unsigned char* data, Py_ssize_t begin, Py_ssize_t end, int flags,
                     Py_ssize_t index) noexcept nogil

    @cython.locals(mantissa=cython.ulonglong, exponent=cython.longlong, digits=cython.int, exact=cython.bint, minus=cython.bint, given=cython.longlong)
    cdef inline Py_ssize_t _number(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

    @cython.locals(width=Py_ssize_t, least=cython.ulonglong, mantissa=cython.ulonglong, high=cython.ulonglong, low=cython.ulonglong, right=cython.bint,
                   value=cython.ulonglong)
    cdef inline bint _put_integer(self, unsigned char* out, Py_ssize_t node, const unsigned char* data, Py_ssize_t start, Py_ssize_t end,
                           Py_ssize_t index) noexcept nogil

    @cython.locals(high=cython.ulonglong, low=cython.ulonglong, right=cython.bint, little=cython.bint)
    cdef inline bint _put_decimal(self, unsigned char* out, Py_ssize_t node, const unsigned char* data, Py_ssize_t start, Py_ssize_t end,
                           Py_ssize_t index) noexcept nogil

    @cython.locals(first=Py_ssize_t, last=Py_ssize_t, point=Py_ssize_t, stop=Py_ssize_t, pos=Py_ssize_t, high=cython.ulonglong, low=cython.ulonglong,
                   given=cython.longlong, minus=cython.bint, zeros=cython.longlong, count=cython.longlong)
    cdef inline (unsigned long long, unsigned long long, bint) _digits(self, const unsigned char* data, Py_ssize_t start, Py_ssize_t end, int scale,
                                                                int most) noexcept nogil

    @cython.locals(size=cython.int, mantissa=cython.ulonglong, exponent=cython.longlong, value=cython.double, ten=cython.double, power=cython.int,
                   fives="const unsigned long long*", bits=cython.ulonglong, beyond=cython.ulonglong, sign=cython.ulonglong)
    cdef inline bint _put_double(self, unsigned char* out, bint wide, const unsigned char* data, Py_ssize_t start, Py_ssize_t end,
                          Py_ssize_t index) noexcept nogil

    @cython.locals(within=Py_ssize_t, byte=cython.int, flags=cython.int)
    cdef inline Py_ssize_t _pass(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t depth) noexcept nogil

    @cython.locals(flags=cython.int)
    cdef inline Py_ssize_t _pass_key(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
