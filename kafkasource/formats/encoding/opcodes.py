"""The instructions of a program that encodes: int32 words, the first the opcode, the others as the comment says.

The program is run for each row. `index` is where values are taken from: the row, or within a list the item. `c` is a
column. `branch`: of a union, its number as a zigzag varint would have it before it is cut into bytes; -1: none.

setup.py makes an enum of C of all numbers here, for the compiled kernel, so that its chain of ifs is a switch.
"""

from __future__ import annotations

# The ways of a program.
END = 0
CONST = 1  # where in the constants, size: bytes as they are
REQUIRED = 2  # c: a null is an error
OPTIONAL = 3  # c, branch if null, branch if not, pc: writes the branch; null goes to pc
MEMBER = 4  # c, branch, pc: null goes to pc, else writes the branch
JUMP = 5  # pc
FAIL = 6  # error code
WRITE_BRANCH = 7  # branch

# Values of columns.
BOOLEAN = 8  # c
INT8 = 9  # c; these four as a zigzag varint
INT16 = 10  # c
INT32 = 11  # c
INT64 = 12  # c
DIVIDED = 13  # c, divisor: an int64 by the divisor, rounded down, as a zigzag varint
COPY4 = 14  # c
COPY8 = 15  # c
WIDENED = 16  # c: a float as a double
SIZED = 17  # c: bytes or a string with its size in front
FIXED = 18  # c, size: that many bytes, or an error
ENUM = 19  # c, n, (where in the constants, size, number) of each symbol, by size and then by bytes
DECIMAL = 20  # c: a decimal128 as big-endian bytes, as few as can be, with their size in front
DECIMAL_FIXED = 21  # c, size
ITEMS = 22  # c, pc behind the list: how many items, goes on at the first; the list ends with 0 items
NEXT = 23  # pc of the first instruction of an item: the next item, or the end of the list

# Protobuf: numbers are varints without zigzag; a tag says field and wire type.
TAG = 24  # c, tag, pc: null goes to pc, else writes the tag
UNSET = 25  # c, width, pc: null, or `width` bytes of zeros, goes to pc; width 0: a bit; -1: without bytes or items
VARINT = 26  # c, width, 1 if it is unsigned and of 32 bits: a whole number of `width` bytes
TEXT = 27  # c: bytes or a string with its size in front
NAME = 28  # c, n, as ENUM, then tag, flags: NAME_TAG writes the tag, NAME_SET goes on where the number is 0
OPEN = 29  # what follows has its size in front
CLOSE = 30
PARTS = 31  # c, pc behind the list: goes on at the first item
NEXT_PART = 32  # pc of the first instruction of an item
TIME = 33  # c, 1 if it is rounded down: microseconds as a message of seconds and nanos

# JSON: its text. A `quoted` value stands between quotation marks, as the name of a map's entry does.
PUT = 34  # byte
COMMA = 35  # a comma, but not behind the bracket that begins an object or an array
PROPERTY = 36  # c, where in the constants, size, 1 if a null is written, pc: COMMA and a name; null goes to pc
NULL_ITEM = 37  # c, pc: null is written as null, and goes to pc
TRUTH = 38  # c
WHOLE = 39  # c, width: a whole number of `width` bytes
REAL = 40  # c, width, how NaN and infinity are written: REAL_QUOTED, REAL_BARE, REAL_REFUSED
DECIMAL_TEXT = 41  # c, digits behind the point
QUOTED = 42  # c: a string
BASE64 = 43  # c: bytes
DATE = 44  # c
TIMESTAMP = 45  # c, 1 if it has a zone: microseconds
TIME_OF_DAY = 46  # c: microseconds
SYMBOL = 47  # c, n, as ENUM: another text is an error; writes nothing

NAME_TAG, NAME_SET = 1, 2
REAL_QUOTED, REAL_BARE, REAL_REFUSED = 0, 1, 2

MOST_VARINT = 10  # bytes of a number
MOST_NUMBER = 160  # the room for a number, a date or a time, with what is written to on the way
LEAST_TEN = -292  # of the powers of ten that the kernel has

# A row of the kernel's table of input columns: where the buffers are, and where in them the column begins.
VALID_AT, VALUES_AT, DATA_AT, SHIFT = range(4)

# Error codes of a row.
NULL_VALUE = 1
UNKNOWN_SYMBOL = 2
BAD_SIZE = 3
BAD_DECIMAL = 4
NO_MEMBER = 5
TOO_LARGE = 6
NOT_FINITE = 7

CAUSES = {  # of few kinds: a label
    NULL_VALUE: "null value",
    UNKNOWN_SYMBOL: "unknown symbol",
    BAD_SIZE: "wrong size",
    BAD_DECIMAL: "decimal too large",
    NO_MEMBER: "no member of the union",
    TOO_LARGE: "record too large",
    NOT_FINITE: "not a finite number",
}
ERRORS = {
    NULL_VALUE: "the value is null or not there, and the writer's schema has no null there",
    UNKNOWN_SYMBOL: "the text is not a symbol of the schema's enum",
    BAD_SIZE: "the bytes are more or fewer than the schema's fixed has",
    BAD_DECIMAL: "the decimal needs more bytes than the schema's fixed has",
    NO_MEMBER: "all members of the union are null, and the writer's schema has no null there",
    TOO_LARGE: "the record takes more than 2 GiB",
    NOT_FINITE: "JSON has no NaN and no infinity, and the writer's schema has a number there",
}
