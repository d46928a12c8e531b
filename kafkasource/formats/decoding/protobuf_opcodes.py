"""The words by which the kernel reads a Protobuf message: int32, run by `kernel.ProtobufDecoding`.

A message has a block, and each of its fields an entry. Neither is shared: a type that is used twice is there twice.

    block    how many field numbers are looked up directly (from 0), how many are searched, where what the end of the
             message checks begins (0: nothing), of a record where its lists are, the first field's entry; where the
             entry of each direct number is (0: no such field); (number, where its entry is) of each other, by number
    lists    how many; the columns of the rows that have offsets: texts, bytes, lists, maps
    entry    ENTRY_WORDS: how its values are read, the column of a value, the column of the list or map (-1: a single
             value), presence, columns to make null (0: none), the block of a message or the names of an enum, the
             number, the wire type, both as they stand before a value (-1: in more than one byte), the entry of the
             field that mostly comes next: by number, or of a list the same again
    nulls    how many; (first column, the one behind the last) of each: the other members of a oneof
    names    how many, where in the constants the start of an unknown number's name is and its size, whether the enum is
             closed (proto2: an unknown number is an unknown field); (number, where, size) of each, by number
    end      until a 0, ENDING_WORDS each: what, a message that must be there (-1: it always is), a column, two
             arguments, the entry

At 0 there is an entry of no field, whose next is itself.

setup.py makes an enum of C of all numbers here, for the compiled kernel.
"""

from __future__ import annotations

BLOCK_WORDS = 5
ENTRY_WORDS = 10
NAMES_WORDS = 4
ENDING_WORDS = 6

# A frame of the kernel's stack: the message that the field is in.
OUTER_BLOCK, OUTER_INDEX, OUTER_LIMIT, OUTER_GROUP = range(4)

# An entry.
FIELD_OP, FIELD_COLUMN, FIELD_LIST, FIELD_PRESENCE, FIELD_NULLS, FIELD_TYPE, FIELD_NUMBER, FIELD_WIRE = range(8)
FIELD_TAG, FIELD_NEXT = 8, 9

# How values are read. The numbers, which may be packed, as may enums.
READ_INT64 = 1  # uint64, too: its bits
READ_INT32 = 2  # uint32, too
READ_SINT64 = 3
READ_SINT32 = 4
READ_BOOL = 5
READ_FIXED32 = 6  # sfixed32 and float, too
READ_FIXED64 = 7  # sfixed64 and double, too
READ_ENUM = 8
READ_STRING = 9
READ_BYTES = 10
READ_MESSAGE = 11
READ_GROUP = 12

# Presence: which value is not null.
ALWAYS = 0  # an item, a map's key or value
EXPLICIT = 1  # one that is there
IMPLICIT = 2  # one that is there and not the type's default: proto3 does not tell that from absence

# Wire types.
WIRE_VARINT, WIRE_64, WIRE_SIZED, WIRE_GROUP, WIRE_GROUP_END, WIRE_32 = range(6)

# At the end of a record or of a list's item.
END_REQUIRED = 1  # the column must not be null
END_CONST = 2  # where its bytes are: the default of a number or boolean that is null
END_TEXT = 3  # where, size: the default of a text that is null, or empty in a column that cannot be null
END_TIME = 4  # microseconds of the seconds and nanoseconds in the next two columns
