"""A checksum of the rows that a task writes, by which it can tell that it is given the same rows again.

The same rows in the same order have the same sum, however Spark cuts them into Arrow batches and whatever lies unused
in Arrow's buffers: each column has a running CRC32C of its lengths (-1: null) and one of its bytes. Packed records are
counted one by one, as the same records may come in other pieces; their checksum is that of the pieces.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.arrow_scalars import scalar
from kafkasource.records.checksum import extended_crc32c
from kafkasource.sink.columns import records_in

Column: TypeAlias = pa.Array
_AS_NUMBERS = {
    pa.bool_().id: pa.int8(),
    pa.timestamp("us").id: pa.int64(),
    pa.date32().id: pa.int32(),
    pa.duration("us").id: pa.int64(),
    pa.time64("us").id: pa.int64(),
}
_NO_LENGTH = scalar(-1, pa.int32())  # of a null


class RowSum:
    """Takes the batches of one task, in order; all of one schema, of which only `positions` count."""

    def __init__(self, positions: dict[str, int]) -> None:
        self._by_name = positions
        self._positions = [positions[name] for name in sorted(positions)]
        self._sums: dict[tuple[int, ...], int] = {}
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += records_in(batch, self._by_name)
        for position in self._positions:
            self._add((position,), batch.column(position))

    @property
    def crc(self) -> int:
        crc = 0
        for key in sorted(self._sums):
            crc = extended_crc32c(crc, struct.pack(">I", self._sums[key]))
        return crc

    def _add(self, key: tuple[int, ...], column: Column) -> None:
        if isinstance(column.type, pa.DictionaryType):
            column = column.dictionary_decode()
        kind = column.type
        if pa.types.is_struct(kind):
            self._add_flags(key, column)
            for number in range(kind.num_fields):
                self._add((*key, number), pc.struct_field(column, [number]))
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            self._extend((*key, -1), pc.list_value_length(column).cast(pa.int32()).fill_null(_NO_LENGTH))
            self._add((*key, -2), column.flatten())
        elif pa.types.is_map(kind):
            self._add(key, column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
        elif pa.types.is_string(kind) or pa.types.is_binary(kind) or _is_large(kind):
            self._extend((*key, -1), pc.binary_length(column).cast(pa.int32()).fill_null(_NO_LENGTH))
            self._add_bytes((*key, -2), column)
        elif pa.types.is_null(kind):
            self._add_flags(key, column)
        else:  # numbers, booleans and times
            self._add_flags(key, column)
            plain = column.cast(_AS_NUMBERS[kind.id]) if kind.id in _AS_NUMBERS else column
            self._extend((*key, -2), plain.fill_null(0) if plain.null_count else plain)

    def _add_flags(self, key: tuple[int, ...], column: Column) -> None:
        self._extend((*key, -1), column.is_valid().cast(pa.int8()))

    def _add_bytes(self, key: tuple[int, ...], column: Column) -> None:
        if column.null_count:
            column = column.drop_null()  # a null may have bytes nobody sees
        _, offsets, data = column.buffers()
        if len(column) and data is not None:
            ends = memoryview(offsets).cast("B")
            ends = ends.cast("q") if _is_large(column.type) else ends.cast("i")
            start, end = ends[column.offset], ends[column.offset + len(column)]
            self._sums[key] = extended_crc32c(self._sums.get(key, 0), memoryview(data)[start:end])

    def _extend(self, key: tuple[int, ...], column: Column) -> None:
        """A column of numbers without nulls."""
        size = column.type.bit_width // 8
        data = memoryview(column.buffers()[1]) if len(column) else b""
        data = data[column.offset * size : (column.offset + len(column)) * size]
        self._sums[key] = extended_crc32c(self._sums.get(key, 0), data)


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))
