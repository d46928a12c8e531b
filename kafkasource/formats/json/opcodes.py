"""The words by which the kernel reads JSON: int32, one program for a type, whose root node is the entry.

    node     NODE_WORDS: how it is read, its column, whether it may be null, two arguments
               READ_STRUCT   its block
               READ_LIST     the node of an item
               READ_MAP      the node of a value, the column of the keys
               READ_INTEGER  bytes of the number
               READ_DECIMAL  digits behind the point, digits in all
    block    BLOCK_WORDS: slots less one, where the slots are, how many fields must be there, where those are, the entry
             that is expected first. Slots: entries by the hash of their names, 0 where there is none. Of a field that
             must be there: column, node
    entry    ENTRY_WORDS: where in the constants its name is, its size, its node, the entry that is expected next, the
             size once more, or more than any record has where JSON has the name only with escapes: equal bytes would
             mean another name

Which entry is expected next is what came next in the record before: the kernel writes that into the words, so each
`Decoding` has words of its own.

setup.py makes an enum of C of all numbers here, for the compiled kernel.
"""

from __future__ import annotations

NODE_WORDS = 5
BLOCK_WORDS = 5
ENTRY_WORDS = 5
MOST_DEPTH = 1000  # objects and arrays within each other; Jackson, which Spark uses, has the same limit

NODE_OP, NODE_COLUMN, NODE_NULL, NODE_FIRST, NODE_SECOND = range(5)
BLOCK_MASK, BLOCK_SLOTS, BLOCK_REQUIRED, BLOCK_REQUIRED_AT, BLOCK_EXPECTED = range(5)
ENTRY_NAME, ENTRY_SIZE, ENTRY_NODE, ENTRY_EXPECTED, ENTRY_PLAIN = range(5)

# States of the machine. A frame of its stack: the node, the index of its own value, the entry whose name came last.
AT_VALUE, AT_FIRST_KEY, AT_KEY, AT_FIRST_ITEM, AT_ITEM, BEHIND_VALUE = range(6)
FRAME_NODE, FRAME_INDEX, FRAME_ENTRY = range(3)

ESCAPED, WIDE = 1, 2  # a string has escapes; not all of it is ASCII
MOST_DIGITS = 19  # that a mantissa of 64 bits holds
MOST_ESCAPED = 512  # bytes of a time or number in a string with escapes

READ_STRUCT = 1
READ_LIST = 2
READ_MAP = 3
READ_TEXT = 4  # a string, or the JSON of another value
READ_INTEGER = 5
READ_DOUBLE = 6
READ_FLOAT = 7
READ_BOOLEAN = 8
READ_DECIMAL = 9
READ_DATE = 10
READ_TIMESTAMP = 11  # with a zone
READ_LOCAL_TIMESTAMP = 12  # without one
READ_BASE64 = 13

# Error codes of a record. JSON also uses some codes of `formats.decoding.opcodes`.
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

ERRORS = {
    BAD_JSON: "the bytes are not JSON",
    BAD_ESCAPE: "a string has an escape that JSON does not have, or half of a surrogate pair",
    TOO_DEEP: f"objects and arrays are more than {MOST_DEPTH} deep",
    WRONG_TYPE: "the value is not of the column's type",
    BAD_NULL: "the value is null, and the column cannot be",
    BAD_NUMBER: "a number is beyond the column's type, or has digits that it cannot hold",
    BAD_DATE: "the text is not a date such as 2024-05-06",
    BAD_INSTANT: "the text is not a timestamp with a zone, such as 2024-05-06T07:08:09.123Z",
    BAD_LOCAL_TIME: "the text is not a timestamp without a zone, such as 2024-05-06T07:08:09.123",
    BAD_BASE64: "the text is not base64",
    EMPTY: "the record is empty; a tombstone is null, not empty",
    BAD_FRAME: "the first byte is 0x00, and no schema id follows it",
}
