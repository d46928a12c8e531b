"""Records to the columns of a layout, in pieces of bounded memory: what the formats share.

What a piece's columns may take is given in bytes. Records are decoded until the next one does not fit: then the piece
ends, and the caller goes on with the next. Only a record that does not fit by itself is bad (`TOO_LARGE`). While a
buffer grows, the old one is there too; both count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from kafkasource.formats.decoding import kernel
from kafkasource.formats.decoding.columns import Column, DecodedNode, Layout, table
from kafkasource.formats.decoding.opcodes import BINARY, BITS, ERRORS, ITEM_LIST, NUMBER

MOST_OFFSET = (1 << 31) - 1
NOT_DECODED = -1  # in place of a program's number: the row is null, and not bad
_ROW_BYTES = 5  # of code and place
_EMPTY = memoryview(bytearray())
_NO_PROGRAMS = memoryview(bytearray()).cast("i")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a record is bad."""

    row: int  # of the column that was decoded
    code: int  # of opcodes.ERRORS
    place: str  # in the schema: `$.lines[].price`

    @property
    def why(self) -> str:
        return ERRORS[self.code]

    @property
    def reason(self) -> str:
        return f"{self.place}: {self.why}"


class DecodingPrograms(Protocol):
    """The words that the kernel runs for a record, of one reader."""

    def decoding(self, columns: Sequence[tuple[int, int, int, int]]) -> kernel.Decoding:
        """Make a decoding of the programs that exist now."""

    def place_of(self, pc: int) -> str:
        """The place in the schema that a word of the programs is about."""


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """Rows [start, end) of a column."""

    array: pa.Array
    start: int
    end: int  # go on here
    bad: int
    codes: memoryview  # uint8 for each row: 0, or why it is bad
    places: memoryview  # int32 for each row: the pc in the programs
    _programs: DecodingPrograms

    def faults(self) -> Iterator[Fault]:
        for at in range(self.end - self.start if self.bad else 0):
            if self.codes[at]:
                yield Fault(self.start + at, self.codes[at], self._programs.place_of(self.places[at]))


class Decoder:
    """Decodes the records of one layout. Threads may decode at once."""

    def __init__(self, layout: Layout, programs: DecodingPrograms) -> None:
        self._layout = layout
        self._programs = programs
        self.type: pa.DataType = layout.root.type

    def decode(
        self,
        values: pa.Array,
        most_bytes: int,
        *,
        skip_bytes: int = 0,
        programs: memoryview | None = None,
        start: int = 0,
    ) -> DecodedColumn:
        """Decode rows of a binary column from `start` on, as many as `most_bytes` of columns can hold, at least one.

        Where not even one row fits, the columns take the memory of a single row. The first `skip_bytes` of each value
        are not part of the record. `programs`: int32, of each row of `values` the number of its program, or
        NOT_DECODED; without it, all rows have the first. Null stays null and is not bad.
        """
        if values.type != pa.binary():
            raise TypeError(f"expected a binary column, not {values.type}")
        if not 0 <= start <= len(values):
            raise ValueError(f"no row {start}")
        return _Piece(self._layout, self._programs, values, most_bytes, skip_bytes, programs, start).decoded()

    def batches(self, values: pa.Array, most_bytes: int, **more: object) -> Iterator[DecodedColumn]:
        """All rows, in pieces; keywords as of `decode`."""
        start = 0
        while start < len(values):
            piece = self.decode(values, most_bytes, start=start, **more)  # type: ignore[arg-type]
            yield piece
            start = piece.end


class _Piece:
    """The buffers of one `decode`."""

    def __init__(
        self,
        layout: Layout,
        programs: DecodingPrograms,
        values: pa.Array,
        most_bytes: int,
        skip_bytes: int,
        of_rows: memoryview | None,
        start: int,
    ) -> None:
        self._layout = layout
        self._programs = programs
        self._values = values
        self._most_bytes = max(most_bytes, 4 * self._least_bytes())  # of one row, whatever the budget
        self._skip_bytes = skip_bytes
        self._of_rows = _NO_PROGRAMS if of_rows is None else of_rows
        self._start = start
        self._row_bytes = _ROW_BYTES + _bytes_of_level(layout.columns, 0, 64) // 64 + 1

    def _least_bytes(self) -> int:
        return 4096 + 2 * sum(_bytes_of_level(self._layout.columns, level, 1) for level in range(self._layout.levels))

    def decoded(self) -> DecodedColumn:
        rows = max(1, min(len(self._values) - self._start, self._most_bytes // 4 // self._row_bytes))
        rows = min(rows, len(self._values) - self._start)
        end = self._fill(rows, True)
        if end == self._start and rows:  # not even one record fits beside the room for all rows
            end = self._fill(1, False)
        codes, places = self._codes[: end - self._start], self._places[: end - self._start]
        return DecodedColumn(
            self._array(end - self._start), self._start, end, self._decoding.bad, codes, places, self._programs
        )

    def _fill(self, rows: int, several: bool) -> int:
        """Decode at most `rows` rows; return the row behind the last that fits. `several`: do not give up a record."""
        self._allocate(rows, several)
        valid, offsets, data = self._values.buffers()
        places = view_of(offsets).cast("i")
        input = (
            view_of(data),
            places if len(places) else memoryview(bytes(4)).cast("i"),
            view_of(valid),
            self._values.offset,
            self._skip_bytes,
            self._of_rows,
            self._codes,
            self._places,
        )
        while not self._decoding.run(*input, self._start + rows):
            if self._grow(self._decoding.wanted_column, self._decoding.wanted, rows):
                continue
            if several:
                return int(self._decoding.row)
            self._decoding.refuse()
        return int(self._decoding.row)

    def _allocate(self, rows: int, several: bool) -> None:
        programs, columns = self._programs, self._layout.columns
        self._decoding = programs.decoding(table(self._layout))
        self._decoding.start(self._start)
        self._codes = memoryview(bytearray(rows))
        self._places = memoryview(bytearray(4 * rows)).cast("i")
        self._buffers: dict[tuple[int, int], pa.Buffer] = {}
        self._sizes = [0] * (3 * len(columns))
        self._capacity = [0] * self._layout.levels
        self._held = _ROW_BYTES * rows
        self._make_level(0, rows)
        texts = sum(column.kind == BINARY for column in columns)
        guess = self._payload_bytes(rows) // max(texts, 1) + 64
        fits = several and guess * texts <= self._most_bytes // 4
        for number, column in enumerate(columns):
            if column.kind == BINARY:
                self._make(number, 2, (guess if fits and column.level == 0 else 64) + kernel.READ_AHEAD)
                self._decoding.set_room(number, self._sizes[3 * number + 2] - kernel.READ_AHEAD)
            elif column.kind == ITEM_LIST:
                self._make_level(column.items, 1)
                self._decoding.set_room(number, 1)

    def _payload_bytes(self, rows: int) -> int:
        _, offsets, _ = self._values.buffers()
        if not rows or offsets is None:
            return 0
        ends = view_of(offsets).cast("i")
        first = self._values.offset + self._start
        return int(ends[first + rows] - ends[first])

    def _make_level(self, level: int, capacity: int) -> None:
        """Make buffers for this many values in the columns of a level, and copy the smaller ones into them."""
        self._held += capacity - self._capacity[level]  # so that items without any column have a bound, too
        self._capacity[level] = capacity
        for number, column in enumerate(self._layout.columns):
            if column.level == level:
                if column.nullable:
                    self._make(number, 0, capacity // 8 + 1)
                size = _values_bytes(column, capacity)
                if size:
                    self._make(number, 1, size)

    def _make(self, column: int, which: int, size: int) -> None:
        """A larger buffer in place of a column's: 0 its validity, 1 its values, 2 its bytes."""
        buffer = pa.allocate_buffer(size)
        view = memoryview(buffer).cast("B")
        old = self._buffers.get((column, which))
        if old is not None:
            view[: old.size] = memoryview(old).cast("B")
        elif which < 2:
            view[:] = bytes(size)  # the first offset is 0; a kernel may count on the others
        self._decoding.place(column, which, view)
        self._buffers[column, which] = buffer
        self._held += size - self._sizes[3 * column + which]
        self._sizes[3 * column + which] = size

    def _grow(self, number: int, wanted: int, rows: int) -> bool:
        """Make room for `wanted` bytes or items, and more where it is likely to be needed. False: it does not fit."""
        column = self._layout.columns[number]
        done = int(self._decoding.row) - self._start
        likely = wanted * rows // done * 9 // 8 if done >= 64 else 0
        each = 1 if column.kind == BINARY else _bytes_of_level(self._layout.columns, column.items, 64) // 64 + 2
        spare = (self._most_bytes - self._held) // each - 64
        room = min(max(likely, 2 * wanted), MOST_OFFSET, spare)
        if room < wanted:
            return False
        if column.kind == BINARY:
            self._make(number, 2, room + kernel.READ_AHEAD)
        else:
            self._make_level(column.items, room)
        self._decoding.set_room(number, room)
        return True

    def _array(self, rows: int) -> pa.Array:
        return self._array_of(self._layout.root, rows)

    def _array_of(self, node: DecodedNode, length: int) -> pa.Array:
        """Make the array of a node from its buffers and its children."""
        column = self._layout.columns[node.column]
        if pa.types.is_null(node.type):
            return pa.nulls(length)
        valid = self._buffers[node.column, 0] if column.nullable and not column.never_null else None
        if pa.types.is_struct(node.type):
            children = [self._array_of(child, length) for child in node.children]
            return pa.Array.from_buffers(node.type, length, [valid], children=children)
        values = self._buffers[node.column, 1]
        if column.kind == ITEM_LIST:
            count = memoryview(values).cast("B").cast("i")[length] if length else 0
            return self._list_of(node, length, valid, values, count)
        if column.kind == BINARY:
            used = memoryview(values).cast("B").cast("i")[length] if length else 0
            data = self._buffers[node.column, 2].slice(0, used)
            return pa.Array.from_buffers(node.type, length, [valid, values.slice(0, 4 * (length + 1)), data])
        return pa.Array.from_buffers(node.type, length, [valid, values])

    def _list_of(
        self, node: DecodedNode, length: int, valid: pa.Buffer | None, offsets: pa.Buffer, count: int
    ) -> pa.Array:
        items = [self._array_of(child, count) for child in node.children]
        if pa.types.is_map(node.type):
            pairs = pa.struct([node.type.key_field, node.type.item_field])
            items = [pa.Array.from_buffers(pairs, count, [None], children=items)]
        return pa.Array.from_buffers(node.type, length, [valid, offsets.slice(0, 4 * (length + 1))], children=items)


def _values_bytes(column: Column, capacity: int) -> int:
    if column.kind == BITS:
        return capacity // 8 + 1
    if column.kind == NUMBER:
        return column.width * max(capacity, 1)
    return 4 * (capacity + 1) if column.kind in (BINARY, ITEM_LIST) else 0


def _bytes_of_level(columns: Sequence[Column], level: int, capacity: int) -> int:
    """The bytes that this many values take in the columns of a level."""
    there = [column for column in columns if column.level == level]
    valid = sum(column.nullable for column in there) * (capacity // 8 + 1)
    return capacity + valid + sum(_values_bytes(column, capacity) for column in there)


def view_of(buffer: pa.Buffer | None) -> memoryview:
    """Its bytes; of no buffer none."""
    return _EMPTY if buffer is None else memoryview(buffer).cast("B")
