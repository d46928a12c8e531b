"""The columns of a reader's schema as the kernel fills them: a flat table, and the tree over it.

A column comes before those within it. Columns of one level have their values at the same index: level 0 is the rows,
each list or map has a level of its own for its items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from kafkasource.formats.decoding.opcodes import BINARY, BITS, ITEM_LIST, NOTHING, NUMBER, STRUCT


@dataclass(slots=True)
class Column:
    kind: int
    width: int  # bytes of a number
    level: int
    nullable: bool
    last: int = 0  # behind the columns within this one
    items: int = -1  # the level of a list's items
    never_null: bool = False  # its validity is the kernel's own; rows that lack the value are bad


class DecodedNode(Protocol):
    """A type, and the column where its values go."""

    @property
    def column(self) -> int: ...

    @property
    def type(self) -> pa.DataType: ...

    @property
    def children(self) -> Sequence[DecodedNode]:
        """The fields of a struct, the items of a list, the keys and values of a map."""


class Layout(Protocol):
    """The columns of a schema. The first is nullable whatever the schema says: a bad record is null."""

    @property
    def root(self) -> DecodedNode: ...

    @property
    def columns(self) -> Sequence[Column]: ...

    @property
    def levels(self) -> int: ...


def table(layout: Layout) -> list[tuple[int, int, int, int]]:
    """The columns as `kernel.Decoding` takes them."""
    return [(column.kind, column.width, column.level, column.last) for column in layout.columns]


def column_of(data_type: pa.DataType, level: int, may_be_null: bool) -> Column:
    if pa.types.is_null(data_type):
        return Column(NOTHING, 0, level, False)
    if pa.types.is_boolean(data_type):
        return Column(BITS, 0, level, may_be_null)
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return Column(BINARY, 0, level, may_be_null)
    if pa.types.is_list(data_type) or pa.types.is_map(data_type):
        return Column(ITEM_LIST, 0, level, may_be_null)
    if pa.types.is_struct(data_type):
        return Column(STRUCT, 0, level, may_be_null)
    return Column(NUMBER, data_type.bit_width // 8, level, may_be_null)
