"""Arrow arrays as the kernel takes them: types of one form, and a flat list of columns.

A column comes before those within it: of a struct its fields, of a list its items, of a map its keys, then its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import pyarrow as pa
import pyarrow.types as types

from kafkasource.errors import SchemaError
from kafkasource.formats.decoding.decode import view_of
from kafkasource.formats.encoding import kernel
from kafkasource.formats.encoding.opcodes import DATA_AT, VALID_AT, VALUES_AT

_PLAIN = {
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """The type to which a column is cast before it is encoded. Only Spark's large types change."""
    if types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    if types.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz)
    if types.is_duration(data_type) or types.is_time(data_type):
        return pa.duration("us") if types.is_duration(data_type) else pa.time64("us")
    if types.is_fixed_size_binary(data_type):
        return pa.binary()
    if types.is_decimal(data_type):
        return data_type if data_type.precision > 38 else pa.decimal128(data_type.precision, data_type.scale)
    if types.is_struct(data_type):
        return pa.struct([_plain_field(data_type.field(number)) for number in range(data_type.num_fields)])
    if types.is_map(data_type):
        return pa.map_(_plain_field(data_type.key_field), _plain_field(data_type.item_field))
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        return pa.list_(_plain_field(data_type.value_field))
    return _PLAIN.get(data_type, data_type)


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, plain_type(field.type), field.nullable)


def is_text(data_type: pa.DataType) -> bool:
    return bool(plain_type(data_type) == pa.string())


def children(data_type: pa.DataType) -> list[pa.Field]:
    """The columns directly within one of a plain type."""
    if types.is_struct(data_type):
        return [data_type.field(number) for number in range(data_type.num_fields)]
    if types.is_map(data_type):
        return [data_type.key_field, data_type.item_field]
    return [data_type.value_field] if types.is_list(data_type) else []


def columns_within(data_type: pa.DataType) -> int:
    """How many columns a type has, itself among them."""
    return 1 + sum(columns_within(field.type) for field in children(data_type))


def columns_of(data_type: pa.DataType, column: int) -> list[int]:
    """The numbers of the columns directly within one."""
    sizes = [columns_within(field.type) for field in children(data_type)]
    return list(accumulate(sizes, initial=column + 1))[:-1]


def place(encoding: kernel.Encoding, values: pa.Array) -> None:
    """Hand the buffers of an array of a plain type to the kernel."""
    for number, column in enumerate(_columns(values)):
        encoding.set_shift(number, column.offset)
        if types.is_null(column.type):
            continue
        buffers = column.buffers()
        if column.null_count:
            encoding.place(number, VALID_AT, view_of(buffers[0]))
        if types.is_struct(column.type):
            continue
        for which, buffer in ((VALUES_AT, 1), (DATA_AT, 2)):
            if which == VALUES_AT or types.is_binary(column.type) or types.is_string(column.type):
                view = view_of(buffers[buffer])
                if len(view):  # else there is no value that has bytes there
                    encoding.place(number, which, view)


def _columns(values: pa.Array) -> Iterator[pa.Array]:
    yield values
    if types.is_struct(values.type):
        for number in range(values.type.num_fields):
            yield from _columns(values.field(number))
    elif types.is_list(values.type):
        yield from _columns(values.values)
    elif types.is_map(values.type):
        pairs = values.values
        for number in range(2):
            yield from _columns(pairs.field(number))


def plain(values: pa.Array) -> pa.Array:
    """The array in its plain type, as it is where it has that. SchemaError where a value does not fit."""
    wanted = plain_type(values.type)
    if values.type == wanted:
        return values
    try:
        return values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(f"$: a column of {values.type} cannot be written as {wanted}: {error}") from None
