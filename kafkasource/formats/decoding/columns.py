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


class Node(Protocol):
    """A type, and the column where its values go."""

    @property
    def column(self) -> int: ...

    @property
    def type(self) -> pa.DataType: ...

    @property
    def children(self) -> Sequence[Node]:
        """Of a struct its fields, of a list its items, of a map its keys and values."""


class Layout(Protocol):
    """The columns of a schema. The first is nullable whatever the schema says: a bad record is null."""

    @property
    def root(self) -> Node: ...

    @property
    def columns(self) -> Sequence[Column]: ...

    @property
    def levels(self) -> int: ...


def table(layout: Layout) -> list[tuple[int, int, int, int]]:
    """The columns as `kernel.Decoding` takes them."""
    return [(column.kind, column.width, column.level, column.last) for column in layout.columns]


def column_of(kind: pa.DataType, level: int, may_be_null: bool) -> Column:
    if pa.types.is_null(kind):
        return Column(NOTHING, 0, level, False)
    if pa.types.is_boolean(kind):
        return Column(BITS, 0, level, may_be_null)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return Column(BINARY, 0, level, may_be_null)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return Column(ITEM_LIST, 0, level, may_be_null)
    if pa.types.is_struct(kind):
        return Column(STRUCT, 0, level, may_be_null)
    return Column(NUMBER, kind.bit_width // 8, level, may_be_null)
