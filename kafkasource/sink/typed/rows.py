"""A task's rows with their keys and values encoded, in pieces of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.records.arrow.columns import HEADERS_TYPE
from kafkasource.sink.typed.formats import WriteFormat
from kafkasource.typed.encoding.encode import CannotEncode
from kafkasource.typed.framing import Side

Column: TypeAlias = pa.Array

MOST_BYTES = 1 << 20  # of the records of a piece


class CannotEncodeColumn(CannotEncode):
    """With the column that it is about."""

    def __init__(self, side: Side, error: CannotEncode) -> None:
        super().__init__(error.row, error.place, error.reason)
        self.side = side


def encoded(
    batch: pa.RecordBatch, positions: Mapping[str, int], formats: Sequence[WriteFormat]
) -> Iterator[tuple[pa.RecordBatch, dict[str, Column]]]:
    """The rows in pieces, each with the records of its typed columns. Raises CannotEncodeColumn."""
    there = [each for each in formats if each.side in positions]
    if not there:
        yield batch, {}
        return
    one, *others = there
    column = batch.column(positions[one.side])
    try:
        for piece in one.encoder(column.type).pieces(column, MOST_BYTES):
            count = piece.end - piece.start
            done = 0
            for part, more in encoded(batch.slice(piece.start, count), positions, others):
                yield part, {**more, one.side: piece.records.slice(done, part.num_rows)}
                done += part.num_rows
    except CannotEncodeColumn:
        raise
    except CannotEncode as error:
        raise CannotEncodeColumn(one.side, error) from None


def with_schema_ids(
    headers: Column | None, records: Mapping[str, Column], formats: Sequence[WriteFormat]
) -> Column | None:
    """The rows' headers, and behind them those that say by which schema a record was written. A row that has no record
    (a tombstone) gets none."""
    for one in formats:
        header = one.header
        if header is not None and one.side in records:
            headers = _with_header(headers, records[one.side].is_valid(), *header)
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
