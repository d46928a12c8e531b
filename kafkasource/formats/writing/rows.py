"""A task's rows with their keys and values encoded, in pieces of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.formats.encoding.encode import CannotEncode
from kafkasource.formats.framing import Side
from kafkasource.formats.writing.formats import WriteFormat
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE

Column: TypeAlias = pa.Array

MOST_BYTES = 1 << 20  # of the records of a piece


class CannotEncodeColumn(CannotEncode):
    """`CannotEncode`, plus the column (key or value) that failed."""

    def __init__(self, side: Side, error: CannotEncode) -> None:
        super().__init__(error.row, error.place, error.code)
        self.side = side

    def __str__(self) -> str:
        return f"column {self.side!r} cannot be encoded: {super().__str__()}"


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Some rows, and the records of their typed columns."""

    batch: pa.RecordBatch
    records: Mapping[str, Column]
    refused: Mapping[int, CannotEncodeColumn]  # by row, only where such rows are passed over; they have no records

    def parted(self) -> tuple[EncodedRows, pa.RecordBatch]:
        """The rows with records, and the others."""
        bad = pa.array(list(self.refused), pa.int64())
        good = pc.invert(pc.is_in(pa.array(range(self.batch.num_rows), pa.int64()), bad))
        records = {side: each.filter(good) for side, each in self.records.items()}
        return EncodedRows(self.batch.filter(good), records, {}), self.batch.take(bad)


def encoded(
    batch: pa.RecordBatch, positions: Mapping[str, int], formats: Sequence[WriteFormat], *, passing_over: bool = False
) -> Iterator[EncodedRows]:
    """The rows in pieces. Raises CannotEncodeColumn for a row that a schema does not take, unless such rows are passed
    over."""
    there = [side_format for side_format in formats if side_format.side in positions]
    if not there:
        yield EncodedRows(batch, {}, {})
        return
    write_format, *others = there
    column = batch.column(positions[write_format.side])
    try:
        for piece in write_format.encoder(column.type).pieces(column, MOST_BYTES, passing_over=passing_over):
            faults = {fault.row - piece.start: CannotEncodeColumn(write_format.side, fault) for fault in piece.faults}
            within = batch.slice(piece.start, piece.end - piece.start)
            done = 0
            for part in encoded(within, positions, others, passing_over=passing_over):
                end = done + part.batch.num_rows
                mine = {row - done: each for row, each in faults.items() if done <= row < end}
                records = {**part.records, write_format.side: piece.records.slice(done, part.batch.num_rows)}
                yield EncodedRows(part.batch, records, dict(sorted({**part.refused, **mine}.items())))
                done = end
    except CannotEncodeColumn:
        raise
    except CannotEncode as error:
        raise CannotEncodeColumn(write_format.side, error) from None


def with_schema_ids(
    headers: Column | None, records: Mapping[str, Column], formats: Sequence[WriteFormat]
) -> Column | None:
    """The rows' headers, and behind them those that say by which schema a record was written. A row that has no record
    (a tombstone) gets none."""
    for write_format in formats:
        header = write_format.header
        if header is not None and write_format.side in records:
            headers = _with_header(headers, records[write_format.side].is_valid(), *header)
    return headers


def _with_header(headers: Column | None, there: Column, name: str, value: bytes) -> Column:
    rows = pc.indices_nonzero(there).cast(pa.int64())
    entry = pa.StructArray.from_arrays(
        [pa.repeat(pa.scalar(name, pa.string()), len(rows)), pa.repeat(pa.scalar(value, pa.binary()), len(rows))],
        fields=list(HEADERS_TYPE.value_type),
    )
    counts = there.cast(pa.int32())
    if headers is not None:
        own = headers.flatten()
        both = pa.concat_arrays([own, entry])
        # A stable sort: a row's own headers stay first, and in their order.
        order = pc.sort_indices(pa.concat_arrays([pc.list_parent_indices(headers).cast(pa.int64()), rows]))
        entry = both.take(order)
        counts = pc.add(counts, pc.list_value_length(headers).fill_null(0))
    ends = pc.cumulative_sum(counts)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    return pa.ListArray.from_arrays(offsets, entry, type=HEADERS_TYPE)
