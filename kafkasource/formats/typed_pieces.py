"""A typed column in pieces, as every format gives it, and why rows of it are bad."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from kafkasource.formats.schema_source import SchemaId


@dataclass(frozen=True, slots=True)
class BadRow:
    row: int  # of the column that was decoded
    reason: str
    schema_id: SchemaId | None = None  # None: the record does not say one
    place: str = ""  # in the reader's schema: `$.lines[].price`; empty: the fault is no field's
    cause: str = ""  # the kind of reason, of few: a label


@dataclass(frozen=True, slots=True)
class Lacking:
    """Fields that records of a schema have and the columns do not."""

    schema_id: SchemaId | None  # None: the records name no schema, and the fields are those of one of them
    paths: tuple[str, ...]  # for people


@dataclass(frozen=True, slots=True)
class TypedPiece:
    """Rows [start, end) of a column."""

    array: pa.Array
    start: int
    end: int
    bad: tuple[BadRow, ...] = ()  # by row
    rescued: pa.StringArray | None = None  # the fields that the columns lack, as JSON; None: none in these rows
    lacking: tuple[Lacking, ...] = ()  # by which schemas

    def behind(self, rows: int) -> TypedPiece:
        """Give the same piece, of a column with `rows` more rows in front."""
        if not rows:
            return self
        bad = tuple(replace(bad_row, row=bad_row.row + rows) for bad_row in self.bad)
        return replace(self, start=self.start + rows, end=self.end + rows, bad=bad)


def marked(rows: Iterable[int], count: int) -> pa.BooleanArray:
    """True in these of `count` rows."""
    marks = memoryview(bytearray(count))
    for row in rows:
        marks[row] = 1
    return pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(marks)]).cast(pa.bool_())


class TypedRows(Protocol):
    """Decodes one column. For one thread."""

    type: pa.DataType

    def pieces(self, values: pa.BinaryArray, headers: pa.ListArray | None, most_bytes: int) -> Iterator[TypedPiece]:
        """All rows, in pieces whose columns take at most `most_bytes`."""
