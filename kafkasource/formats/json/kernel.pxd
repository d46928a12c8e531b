# C types of kernel.py: see kafkasource/kafka/records/kernel.pxd and kafkasource/formats/decoding/kernel.pxd.
cimport cython
from libc.string cimport memcmp, memcpy

cdef extern from *:
    """
    #ifndef KAFKASOURCE_KERNEL_FINGERPRINT
    #define KAFKASOURCE_KERNEL_FINGERPRINT 0
    #endif
    """
    const long long KAFKASOURCE_KERNEL_FINGERPRINT

cdef enum:
    NODE_OP = 0
    NODE_COLUMN = 1
    NODE_NULL = 2
    NODE_FIRST = 3
    NODE_SECOND = 4

cdef enum:
    BLOCK_MASK = 0
    BLOCK_SLOTS = 1
    BLOCK_REQUIRED = 2
    BLOCK_REQUIRED_AT = 3
    BLOCK_EXPECTED = 4

cdef enum:
    ENTRY_NAME = 0
    ENTRY_SIZE = 1
    ENTRY_NODE = 2
    ENTRY_EXPECTED = 3
    ENTRY_PLAIN = 4

cdef enum:
    READ_STRUCT = 1
    READ_LIST = 2
    READ_MAP = 3
    READ_TEXT = 4
    READ_INTEGER = 5
    READ_DOUBLE = 6
    READ_FLOAT = 7
    READ_BOOLEAN = 8
    READ_DECIMAL = 9
    READ_DATE = 10
    READ_TIMESTAMP = 11
    READ_LOCAL_TIMESTAMP = 12
    READ_BASE64 = 13

cdef enum:
    BITS = 1
    NUMBER = 2
    BINARY = 3
    ITEM_LIST = 4

cdef enum:
    CUT = 1
    BAD_UTF8 = 5
    TRAILING = 11
    TOO_LARGE = 12
    MISSING = 17
    BAD_JSON = 32
    BAD_ESCAPE = 33
    TOO_DEEP = 34
    WRONG_TYPE = 35
    BAD_NULL = 36
    BAD_NUMBER = 37
    BAD_DATE = 38
    BAD_INSTANT = 39
    BAD_LOCAL_TIME = 40
    BAD_BASE64 = 41
    EMPTY = 42
    BAD_FRAME = 43

cdef enum:
    MOST_DEPTH = 1000
    MOST_DIGITS = 19
    MOST_ESCAPED = 512

cdef enum:
    KIND = 0
    WIDTH = 1
    LEVEL = 2
    LAST = 3
    VALID_AT = 4
    VALUES_AT = 5
    DATA_AT = 6
    ROOM = 7

cdef enum:
    FRAME_NODE = 0
    FRAME_INDEX = 1
    FRAME_ENTRY = 2

cdef enum:
    AT_VALUE = 0
    AT_FIRST_KEY = 1
    AT_KEY = 2
    AT_FIRST_ITEM = 3
    AT_ITEM = 4
    BEHIND_VALUE = 5

cdef enum:
    ESCAPED = 1
    WIDE = 2

@cython.locals(raw=cython.int)
cdef inline Py_ssize_t offset_at(const unsigned char* out, Py_ssize_t index) noexcept nogil

@cython.locals(four=cython.int, two=cython.short)
cdef inline void store(unsigned char* out, Py_ssize_t index, Py_ssize_t width, unsigned long long value) noexcept nogil

cdef inline void store_offset(unsigned char* out, Py_ssize_t index, int value) noexcept nogil

@cython.locals(byte=cython.int, mask=cython.int)
cdef inline void put_bit(unsigned char* out, Py_ssize_t index, int bit) noexcept nogil

cdef inline int bit_at(const unsigned char* bitmap, Py_ssize_t index) noexcept nogil

cdef inline bint same(const unsigned char* left, Py_ssize_t at, const unsigned char* right, Py_ssize_t pos, Py_ssize_t size) noexcept nogil

@cython.locals(lead=cython.int, byte=cython.int, least=cython.int, most=cython.int, more=cython.int)
cdef bint is_utf8(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

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

@cython.locals(mask=cython.ulonglong, low=cython.ulonglong, first=cython.ulonglong, second=cython.ulonglong, middle=cython.ulonglong)
cdef inline (unsigned long long, unsigned long long) product(unsigned long long left, unsigned long long right) noexcept nogil

@cython.locals(size=cython.int, bias=cython.int, beyond=cython.int, least_even=cython.int, most_even=cython.int, above=cython.ulonglong, zeros=cython.int,
               at=Py_ssize_t, high=cython.ulonglong, low=cython.ulonglong, mask=cython.ulonglong, more=cython.ulonglong, rest=cython.ulonglong,
               upper=cython.int, shift=cython.int, found=cython.ulonglong, exponent=cython.int, one=cython.ulonglong)
cdef unsigned long long nearest(const unsigned long long* fives, unsigned long long mantissa, int power, bint wide) noexcept nogil

@cython.locals(mask=cython.ulonglong, first=cython.ulonglong, second=cython.ulonglong)
cdef inline (unsigned long long, unsigned long long) times_ten(unsigned long long high, unsigned long long low, int more) noexcept nogil


@cython.final
cdef class Decoding:
    cdef int[::1] _code
    cdef const unsigned char[::1] _constants
    cdef const unsigned long long[::1] _fives
    cdef long long[:, ::1] _table, _stack
    cdef unsigned char[::1] _passed, _scratch
    cdef list _views
    cdef readonly Py_ssize_t columns, row, bad, wanted_column
    cdef readonly long long wanted
    cdef Py_ssize_t _base, _entry, _node, _pos, _index, _depth, _longest
    cdef int _failure, _state
    cdef bint _paused, _negative, _whole, _exact
    cdef unsigned long long _mantissa
    cdef long long _exponent

    cpdef place(self, Py_ssize_t column, int which, unsigned char[::1] view)

    cpdef set_room(self, Py_ssize_t column, long long room)

    cpdef start(self, Py_ssize_t row)

    cpdef refuse(self)

    cpdef bint run(self, const unsigned char[::1] data, const int[::1] offsets, const unsigned char[::1] valid, Py_ssize_t shift,
                   Py_ssize_t skip_bytes, const int[::1] programs, unsigned char[::1] codes, int[::1] places, Py_ssize_t last) except? -99

    @cython.locals(data="const unsigned char*", bitmap="const unsigned char*", has_nulls=cython.bint, row=Py_ssize_t, at=Py_ssize_t, code=cython.int,
                   begin=Py_ssize_t, end=Py_ssize_t)
    cdef bint _run(self, const unsigned char[::1] input, const int[::1] offsets, const unsigned char[::1] valid, Py_ssize_t shift,
                   Py_ssize_t skip_bytes, const int[::1] programs, unsigned char[::1] codes, int[::1] places, Py_ssize_t last) noexcept nogil

    cdef void _begin(self, Py_ssize_t index) noexcept nogil

    @cython.locals(size=Py_ssize_t)
    cdef int _unframed(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

    cdef unsigned char* _buffer(self, Py_ssize_t column, int which) noexcept nogil

    @cython.locals(level=cython.longlong, column=Py_ssize_t, kind=cython.longlong, width=Py_ssize_t, out="unsigned char*")
    cdef void _nulls(self, Py_ssize_t first, Py_ssize_t last, Py_ssize_t index) noexcept nogil

    cdef int _full(self, Py_ssize_t column, long long wanted, int state, Py_ssize_t pos, Py_ssize_t index, Py_ssize_t depth) noexcept nogil

    @cython.locals(code="int*", constants="const unsigned char*", state=cython.int, pos=Py_ssize_t, index=Py_ssize_t, depth=Py_ssize_t, node=Py_ssize_t,
                   byte=cython.int, op=cython.int, column=Py_ssize_t, out="unsigned char*", entry=Py_ssize_t, field=Py_ssize_t, size=Py_ssize_t,
                   start=Py_ssize_t, flags=cython.int)
    cdef int _record(self, const unsigned char* data, Py_ssize_t end) noexcept nogil

    @cython.locals(at=Py_ssize_t, i=Py_ssize_t)
    cdef bint _has_required(self, Py_ssize_t block, Py_ssize_t index) noexcept nogil

    @cython.locals(mask=Py_ssize_t, slots=Py_ssize_t, i=Py_ssize_t, entry=Py_ssize_t, hashed=cython.uint, size=Py_ssize_t, constants="const unsigned char*")
    cdef Py_ssize_t _named(self, Py_ssize_t block, const unsigned char* data, Py_ssize_t begin, Py_ssize_t end, int flags) noexcept nogil

    @cython.locals(scratch="unsigned char*", at=Py_ssize_t, after=Py_ssize_t)
    cdef Py_ssize_t _unescaped(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t most) noexcept nogil

    @cython.locals(begin=Py_ssize_t, quote=Py_ssize_t, flags=cython.int, size=Py_ssize_t, out="unsigned char*", into="unsigned char*", start=Py_ssize_t)
    cdef Py_ssize_t _text(self, Py_ssize_t column, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t index) noexcept nogil

    cdef void _copy(self, unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos, Py_ssize_t size) noexcept nogil

    @cython.locals(after=Py_ssize_t, out="unsigned char*", start=Py_ssize_t)
    cdef Py_ssize_t _json_text(self, Py_ssize_t column, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t index,
                               Py_ssize_t depth) noexcept nogil

    @cython.locals(out="unsigned char*", after=Py_ssize_t)
    cdef bint _from_base64(self, Py_ssize_t column, Py_ssize_t index) noexcept nogil

    @cython.locals(op=cython.int, out="unsigned char*", byte=cython.int, start=Py_ssize_t, flags=cython.int, code=cython.int, after=Py_ssize_t)
    cdef Py_ssize_t _scalar(self, Py_ssize_t node, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t index,
                            Py_ssize_t depth) noexcept nogil

    @cython.locals(op=cython.int, which=cython.int, bits=cython.ulonglong, days=cython.longlong, stop=Py_ssize_t, least=cython.longlong, micros=cython.longlong,
                   right=cython.bint)
    cdef int _quoted(self, Py_ssize_t node, unsigned char* out, const unsigned char* data, Py_ssize_t begin, Py_ssize_t end, int flags,
                     Py_ssize_t index) noexcept nogil

    @cython.locals(mantissa=cython.ulonglong, exponent=cython.longlong, digits=cython.int, exact=cython.bint, minus=cython.bint, given=cython.longlong)
    cdef Py_ssize_t _number(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

    @cython.locals(width=Py_ssize_t, least=cython.ulonglong, mantissa=cython.ulonglong, high=cython.ulonglong, low=cython.ulonglong, right=cython.bint,
                   value=cython.ulonglong)
    cdef bint _put_integer(self, unsigned char* out, Py_ssize_t node, const unsigned char* data, Py_ssize_t start, Py_ssize_t end,
                           Py_ssize_t index) noexcept nogil

    @cython.locals(high=cython.ulonglong, low=cython.ulonglong, right=cython.bint, little=cython.bint, one=cython.uint, first=cython.uchar)
    cdef bint _put_decimal(self, unsigned char* out, Py_ssize_t node, const unsigned char* data, Py_ssize_t start, Py_ssize_t end,
                           Py_ssize_t index) noexcept nogil

    @cython.locals(first=Py_ssize_t, last=Py_ssize_t, point=Py_ssize_t, stop=Py_ssize_t, pos=Py_ssize_t, high=cython.ulonglong, low=cython.ulonglong,
                   given=cython.longlong, minus=cython.bint, zeros=cython.longlong, count=cython.longlong)
    cdef (unsigned long long, unsigned long long, bint) _digits(self, const unsigned char* data, Py_ssize_t start, Py_ssize_t end, int scale,
                                                                int most) noexcept nogil

    @cython.locals(size=cython.int, mantissa=cython.ulonglong, exponent=cython.longlong, value=cython.double, ten=cython.double, power=cython.int,
                   fives="const unsigned long long*", bits=cython.ulonglong, beyond=cython.ulonglong, sign=cython.ulonglong)
    cdef bint _put_double(self, unsigned char* out, bint wide, const unsigned char* data, Py_ssize_t start, Py_ssize_t end,
                          Py_ssize_t index) noexcept nogil

    @cython.locals(within=Py_ssize_t, byte=cython.int, flags=cython.int)
    cdef Py_ssize_t _pass(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t depth) noexcept nogil

    @cython.locals(flags=cython.int)
    cdef Py_ssize_t _pass_key(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
