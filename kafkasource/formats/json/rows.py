"""A column of JSON records, bare or behind a schema id, to a typed column. No schema of a writer is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kafkasource.formats.decoding.opcodes import ERRORS
from kafkasource.formats.framing import HEADER_NAMES, MOST_FRAME_BYTES, Side, frame_of, frame_of_header
from kafkasource.formats.json.decode import JsonDecoder
from kafkasource.formats.json.opcodes import ERRORS as JSON_ERRORS
from kafkasource.formats.rows import BadRow, TypedPiece
from kafkasource.formats.schema_source import SchemaId

REASONS = {**ERRORS, **JSON_ERRORS}


class JsonRows:
    """`formats.rows.TypedRows`."""

    def __init__(self, data_type: pa.DataType, side: Side = "value") -> None:
        """SchemaError with the place where there is no column for the type."""
        self._decoder = JsonDecoder(data_type)
        self._side: Side = side
        self.type: pa.DataType = data_type

    def pieces(self, values: pa.BinaryArray, headers: pa.ListArray | None, most_bytes: int) -> Iterator[TypedPiece]:
        for piece in self._decoder.batches(values, most_bytes):
            bad = tuple(
                BadRow(
                    fault.row,
                    REASONS[fault.code],
                    schema_id_of(values[fault.row].as_py(), headers and headers[fault.row], self._side),
                    fault.place,
                    REASONS[fault.code],
                )
                for fault in piece.faults()
            )
            yield TypedPiece(piece.array, piece.start, piece.end, bad)


def schema_id_of(value: bytes, headers: pa.Scalar | None, side: Side) -> SchemaId | None:
    """The id that a record says, if any: as `framing.frames_of` finds it."""
    name = HEADER_NAMES[side]
    for entry in reversed((headers.as_py() if headers is not None else None) or ()):
        if entry["key"] == name:
            return frame_of_header(entry["value"], name).schema_id
    return frame_of(value[:MOST_FRAME_BYTES]).schema_id
