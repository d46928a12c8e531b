"""The columns of an Avro reader's schema."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from kafkasource.formats.avro.arrow_types import arrow_type, members, nullable, number_of
from kafkasource.formats.avro.schema import AvroArray, AvroPrimitive, AvroRecord, Map, Schema, Union, is_null
from kafkasource.formats.decoding.columns import Column, column_of


@dataclass(frozen=True, slots=True)
class AvroNode:
    """A reader's type and where its values go. A union and the branch that it is by nullability share a column."""

    schema: Schema
    column: int
    type: pa.DataType
    parts: tuple[AvroNode, ...] = ()  # of a record its fields, of an array its items, of a map its keys and values
    branches: tuple[AvroNode | None, ...] = ()  # of a union; None: null
    members: bool = False  # a union that is a struct

    @property
    def children(self) -> tuple[AvroNode, ...]:
        """Return the column's parts: a union of null and one branch has the parts of that branch."""
        there = tuple(branch for branch in self.branches if branch is not None)
        if self.members or not there:
            return there or self.parts
        return there[0].children


@dataclass(slots=True)
class AvroLayout:
    """The columns of a schema. The first is nullable whatever the schema says: a bad record is null."""

    root: AvroNode
    columns: list[Column]
    levels: int

    def __init__(self, schema: Schema) -> None:
        builder = _Builder()
        self.root = builder.add(schema, 0, True)
        self.columns = builder.columns
        self.levels = builder.levels


_STRING = AvroPrimitive("string")


@dataclass(slots=True)
class _Builder:
    columns: list[Column] = field(default_factory=list)
    levels: int = 1

    def add(self, schema: Schema, level: int, may_be_null: bool) -> AvroNode:
        """The node of a type, whose columns are the next ones."""
        kind = arrow_type(schema)
        number, column = len(self.columns), column_of(kind, level, may_be_null or nullable(schema))
        self.columns.append(column)
        node = self._within(schema, number, column, kind)
        column.last = len(self.columns)
        return node

    def _within(self, schema: Schema, number: int, column: Column, data_type: pa.DataType) -> AvroNode:
        if isinstance(schema, AvroRecord):
            parts = tuple(self.add(member.schema, column.level, False) for member in schema.fields)
            return AvroNode(schema, number, data_type, parts)
        if isinstance(schema, (AvroArray, Map)):
            column.items = self.levels
            self.levels += 1
            inner: tuple[Schema, ...] = (schema.items,) if isinstance(schema, AvroArray) else (_STRING, schema.values)
            return AvroNode(schema, number, data_type, tuple(self.add(each, column.items, False) for each in inner))
        if isinstance(schema, Union):
            return self._union(schema, number, column, data_type)
        return AvroNode(schema, number, data_type)

    def _union(self, schema: Union, number: int, column: Column, data_type: pa.DataType) -> AvroNode:
        others = members(schema)
        if len(others) == 1 or number_of(others):
            shared = iter([self._within(branch, number, column, data_type) for branch in others])
        else:
            shared = iter([self.add(branch, column.level, True) for branch in others])
        branches = tuple(None if is_null(branch) else next(shared) for branch in schema.branches)
        return AvroNode(schema, number, data_type, (), branches, members=len(others) > 1 and not number_of(others))
