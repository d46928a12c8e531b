"""A typed column to a binary column of records, in pieces of bounded memory: what the formats share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from kafkasource.errors import KafkaSourceError
from kafkasource.formats.encoding import input as arrow_input
from kafkasource.formats.encoding import kernel
from kafkasource.formats.encoding.opcodes import CAUSES, ERRORS, TOO_LARGE
from kafkasource.formats.encoding.program import Program

MOST_OFFSET = (1 << 31) - 1
_LEAST_BYTES = 1 << 12
_FULL = -1


class CannotEncode(KafkaSourceError, ValueError):
    """A row has a value that the writer's schema does not take. The text never has the value."""

    def __init__(self, row: int, place: str, code: int) -> None:
        """`code`: of `opcodes.ERRORS`."""
        self.reason = ERRORS[code]
        super().__init__(f"{place}: {self.reason}")
        self.row = row  # of the column
        self.place = place  # in the writer's schema: `$.lines[].price`
        self.code = code

    @property
    def cause(self) -> str:
        """The kind of reason, of few: a label."""
        return CAUSES[self.code]


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows [start, end) of a column, as records. Null stays null; a row that cannot be encoded has an empty record."""

    records: pa.BinaryArray
    start: int
    end: int
    faults: tuple[CannotEncode, ...] = ()  # by row; only where they are asked for


class ColumnEncoder:
    """Encodes by a program that a format has made. Threads may encode at once."""

    def __init__(self, program: Program, may_fail: Sequence[str]) -> None:
        """`may_fail`: where the column may be null and the schema's type may not: a null there is an error of its
        row."""
        self._program = program
        self.may_fail = tuple(may_fail)

    def pieces(
        self,
        values: pa.Array,
        most_bytes: int,
        *,
        passing_over: bool = False,
        most_bytes_alone: int = MOST_OFFSET,
    ) -> Iterator[Piece]:
        """Call the function `pieces` for an array of any form of the type."""
        plain = arrow_input.plain(values)
        return pieces(self._program, plain, most_bytes, passing_over=passing_over, most_bytes_alone=most_bytes_alone)


def pieces(
    program: Program,
    values: pa.Array,
    most_bytes: int,
    *,
    passing_over: bool = False,
    most_bytes_alone: int = MOST_OFFSET,
) -> Iterator[Piece]:
    """All rows of an array of a plain type, in pieces of at most `most_bytes` of records, or of one larger record, of
    at most `most_bytes_alone`.

    Raises CannotEncode for the first row that the schema does not take, behind the pieces before it; or, where such
    rows are passed over, has it among the faults of its piece.
    """
    if not len(values):
        return
    encoding = program.encoding(arrow_input.columns_within(values.type))
    arrow_input.place(encoding, values)
    start, bytes_of_a_row = 0, 64
    while start < len(values):
        most = most_bytes, most_bytes_alone
        piece = _piece(program, encoding, values, start, most, bytes_of_a_row, passing_over)
        bytes_of_a_row = encoding.pos * 9 // 8 // max(piece.end - start, 1) + 16
        yield piece
        start = piece.end


def _piece(
    program: Program,
    encoding: kernel.Encoding,
    values: pa.Array,
    start: int,
    most_of: tuple[int, int],
    bytes_of_a_row: int,
    passing_over: bool,
) -> Piece:
    most_bytes, most_bytes_alone = most_of
    last = len(values)
    rows = min(last - start, max(most_bytes // 8, 1))  # offsets are a part of the bound, too
    room = min(max(rows * bytes_of_a_row, _LEAST_BYTES), max(most_bytes, _LEAST_BYTES))
    offsets = pa.allocate_buffer(4 * (rows + 1))
    places = memoryview(offsets).cast("B").cast("i")
    places[0] = 0
    valid = pa.py_buffer(bytearray(rows // 8 + 1)) if values.null_count else None
    bits = memoryview(valid).cast("B") if valid else memoryview(bytearray())
    out = pa.allocate_buffer(room)
    encoding.start(start)
    faults: list[CannotEncode] = []
    while True:
        code = encoding.run(memoryview(out).cast("B"), places, bits, start, start + rows)
        alone = encoding.row == start
        most = most_bytes_alone if alone else most_bytes
        if code == _FULL and alone and room >= most:
            code = TOO_LARGE
        place = "$" if code == TOO_LARGE else program.place_of(encoding.pc)
        if code > 0 and passing_over:
            faults.append(CannotEncode(encoding.row, place, code))
            encoding.pass_over(places, start)
            continue
        if code > 0 and alone:
            raise CannotEncode(start, place, code)
        if code != _FULL or room >= most:
            break  # where a row behind others is wrong, the next piece begins with it
        room = min(2 * room, most)
        larger = pa.allocate_buffer(room)
        memoryview(larger).cast("B")[: encoding.pos] = memoryview(out).cast("B")[: encoding.pos]
        out = larger
    count = encoding.row - start
    buffers = [valid, offsets.slice(0, 4 * (count + 1)), out.slice(0, encoding.pos)]
    return Piece(pa.Array.from_buffers(pa.binary(), count, buffers), start, encoding.row, tuple(faults))
