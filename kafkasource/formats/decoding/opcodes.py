"""The instructions of a program: int32 words, the first the opcode, the others as the comment says.

A program is run for each record. `index` is where the values go: the row, or within a list the item. `c` is a column.
setup.py makes an enum of C of all numbers here, for the compiled kernel, so that its chain of ifs is a switch.
"""

from __future__ import annotations

# The ways of a program.
END = 0  # the record's bytes must end here
VALID = 1  # c: the value at index is not null
NULLS = 2  # first, last: null, or zero, at index in the columns [first, last) that are not within lists
OPTIONAL = 3  # c, null branch, pc: reads the branch of a union with null; null: null at c and within it, and goes to pc
SWITCH = 4  # n, pc of each branch: reads the branch of a union and goes there
JUMP = 5  # pc
FAIL = 6  # error code: the record has no meaning for the reader

# Values to columns.
BOOLEAN = 7  # c
INT32 = 8  # c: an int
INT64 = 9  # c: an int as a long
LONG = 10  # c
MULTIPLY = 11  # c, factor: a long, times the factor
DIVIDE = 12  # c, divisor: a long, by the divisor, rounded down
COPY4 = 13  # c: a float
COPY8 = 14  # c: a double
FLOAT_TO_DOUBLE = 15  # c
TO_FLOAT = 16  # c: an int or a long
TO_DOUBLE = 17  # c: an int or a long
BYTES = 18  # c
STRING = 19  # c: bytes that must be UTF-8
FIXED = 20  # c, size
ENUM = 21  # c, n, (where in the constants, size) of each symbol; size -1: the reader does not know it
DECIMAL = 22  # c, where in the constants its limit is
DECIMAL_FIXED = 23  # c, where its limit is, size

# Lists and maps.
LIST = 24  # c: index becomes the first item's
BLOCK = 25  # c, least bytes of an item, pc behind the list: reads how many items follow, goes on at the first
NEXT = 26  # pc of the BLOCK: the next item

# Values that the reader leaves out.
SKIP = 27  # bytes
SKIP_VARINT = 28
SKIP_SIZED = 29  # bytes or a string
SKIP_LIST = 30
SKIP_BLOCK = 31  # least bytes of an item, pc behind the list
SKIP_NEXT = 32  # pc of the SKIP_BLOCK

CALL = 38  # pc of a routine, its frames: skips a record that contains itself, and comes back
RETURN = 39

# Defaults of fields that the writer lacks.
CONST = 33  # c, where in the constants its bytes are
CONST_BYTES = 34  # c, where, size
ITEMS = 35  # c, n: index becomes the first item's; room for n
STEP = 36  # the next item
ITEMS_END = 37  # c: n items are there

# Kinds of columns.
NOTHING, BITS, NUMBER, BINARY, ITEM_LIST, STRUCT = range(6)

# A row of the kernel's table of columns: the first four are given, the others say where its buffers are.
KIND, WIDTH, LEVEL, LAST, VALID_AT, VALUES_AT, DATA_AT, ROOM = range(8)
# A frame of the kernel's stack: items left of the block, the list's own index.
LEFT, PARENT = range(2)

# Error codes of a record.
CUT = 1
BAD_VARINT = 2
BAD_LENGTH = 3
BAD_BOOLEAN = 4
BAD_UTF8 = 5
BAD_BRANCH = 6
BAD_SYMBOL = 7
BAD_DECIMAL = 8
BAD_TIMESTAMP = 9
BAD_COUNT = 10
TRAILING = 11
TOO_LARGE = 12
UNREADABLE_BRANCH = 13
UNKNOWN_SYMBOL = 14
BAD_TAG = 15
BAD_GROUP = 16
MISSING = 17
RECURSION = 18

ERRORS = {
    CUT: "the bytes end within the value",
    BAD_VARINT: "a number has more bytes or bits than its type",
    BAD_LENGTH: "a length is negative or beyond the bytes of the record",
    BAD_BOOLEAN: "a boolean is neither 0 nor 1",
    BAD_UTF8: "a string is not UTF-8",
    BAD_BRANCH: "the writer's union has no branch of this number",
    BAD_SYMBOL: "the writer's enum has no symbol of this number",
    BAD_DECIMAL: "a decimal has no bytes, or more digits than its precision",
    BAD_TIMESTAMP: "a timestamp is beyond what microseconds can hold",
    BAD_COUNT: "a number of items is beyond the bytes of the record",
    TRAILING: "bytes are left over after the record",
    TOO_LARGE: "the record's columns take more memory than a piece may have",
    UNREADABLE_BRANCH: "the reader's schema has no type that takes this branch of the writer's union",
    UNKNOWN_SYMBOL: "the reader's enum has neither this symbol nor a default",
    BAD_TAG: "a field has a number or a wire type that Protobuf does not have",
    BAD_GROUP: "a group ends where none of its number has begun, or too many are within each other",
    MISSING: "a required field is missing",
    RECURSION: "records stand within themselves too deeply",
}
