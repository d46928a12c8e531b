"""The columns of a type. The type of a column decides how its JSON values are read.

| column | JSON |
|---|---|
| byte, short, int, long | a number that is whole, however it is written |
| float, double | a number; the strings NaN, Infinity, -Infinity |
| decimal(precision, scale) | a number, or a string with one, that needs no rounding |
| boolean | true, false |
| string | a string; of every other value its JSON, as the record has it |
| binary | a string in base64 |
| date | a string such as 2024-05-06 |
| timestamp, timestamp_ntz | a string as ISO 8601 has it: with a zone, without one |
| struct | an object; names that are not fields are left out, or go to the column of rescued fields |
| map of string | an object |
| array | an array |
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from kafkasource.errors import SchemaError
from kafkasource.formats.decoding.columns import Column, column_of
from kafkasource.formats.decoding.opcodes import ITEM_LIST

MOST_COLUMNS = 20_000
MOST_LEVELS = 100  # types within each other

SCALARS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary()),
    *(pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")),
)


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A type and where its values go."""

    column: int
    type: pa.DataType
    nullable: bool
    children: tuple[JsonNode, ...] = ()  # of a struct its fields, of a list its items, of a map its keys and values


@dataclass(slots=True)
class JsonLayout:
    """The columns of a type. SchemaError with the place where there is no column for it."""

    root: JsonNode
    columns: list[Column]
    levels: int
    record: JsonNode  # as the records are: the root without the column of rescued fields
    rescued: int  # that column, the last within the root; 0: there is none

    def __init__(self, data_type: pa.DataType, rescues: bool = False) -> None:
        """`rescues`: add a column of rescued fields to a struct."""
        if not (pa.types.is_struct(data_type) or pa.types.is_list(data_type) or pa.types.is_map(data_type)):
            raise SchemaError(f"$: a record is read as a struct, a map or an array, not as {data_type}")
        builder = _Builder()
        self.root = self.record = builder.add(pa.field("", data_type, False), 0, "$", 0)
        self.columns = builder.columns
        self.rescued = 0
        if rescues:
            if not pa.types.is_struct(data_type):
                raise SchemaError(f"$: a record is read as {data_type}, which lacks no fields: only a struct does")
            self.rescued = len(self.columns)
            column = builder.add(pa.field("", pa.string()), 0, "$", 0)
            self.columns[0].last = len(self.columns)
            fields = [*data_type, pa.field("", pa.string())]
            self.root = JsonNode(0, pa.struct(fields), False, (*self.record.children, column))
        self.columns[0].never_null = False  # a bad record is null
        self.levels = builder.levels


@dataclass(slots=True)
class _Builder:
    columns: list[Column] = field(default_factory=list)
    levels: int = 1

    def add(self, each: pa.Field, level: int, place: str, depth: int) -> JsonNode:
        """The node of a field, whose columns are the next ones."""
        data_type = each.type
        if len(self.columns) >= MOST_COLUMNS or depth > MOST_LEVELS:
            raise SchemaError(f"{place}: more than {MOST_COLUMNS} fields, or more than {MOST_LEVELS} within each other")
        number = len(self.columns)
        # Nullable, whatever the field says: the kernel looks for missing fields in the validity.
        column = column_of(data_type, level, True)
        column.never_null = not each.nullable
        self.columns.append(column)
        if column.kind == ITEM_LIST:
            column.items, self.levels = self.levels, self.levels + 1
        within = column.items if column.kind == ITEM_LIST else level
        children = tuple(
            self.add(part, within, f"{place}{shown}", depth + 1) for part, shown in _parts(data_type, place)
        )
        column.last = len(self.columns)
        return JsonNode(number, data_type, each.nullable, children)


def _parts(data_type: pa.DataType, place: str) -> list[tuple[pa.Field, str]]:
    """Return the fields within a type, each with its part of the place. SchemaError: JSON cannot fill such a column."""
    if pa.types.is_struct(data_type):
        twice = [name for name, count in Counter(each.name for each in data_type).items() if count > 1]
        if twice or data_type.num_fields == 0:
            raise SchemaError(f"{place}: a struct {f'has two fields {twice[0]!r}' if twice else 'without fields'}")
        return [(each, f".{each.name}") for each in data_type]
    if pa.types.is_list(data_type):
        return [(data_type.value_field, "[]")]
    if pa.types.is_map(data_type):
        if data_type.key_type != pa.string():
            raise SchemaError(f"{place}: the keys of a map are strings, not {data_type.key_type}")
        return [(data_type.key_field, "{}"), (data_type.item_field, "{}")]
    if data_type not in SCALARS and not pa.types.is_decimal128(data_type):
        raise SchemaError(f"{place}: JSON has no value for a column of type {data_type}")
    return []
