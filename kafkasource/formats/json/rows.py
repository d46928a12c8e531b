"""A column of JSON records, bare or behind a schema id, to a typed column. No schema of a writer is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.formats.decoding.opcodes import ERRORS
from kafkasource.formats.framing import HEADER_NAMES, MOST_FRAME_BYTES, Side, frame_of, frame_of_header
from kafkasource.formats.json.decode import JsonDecoder
from kafkasource.formats.json.opcodes import ERRORS as JSON_ERRORS
from kafkasource.formats.schema_source import SchemaId
from kafkasource.formats.typed_pieces import BadRow, Lacking, TypedPiece

REASONS = {**ERRORS, **JSON_ERRORS}
_MOST_NAMED = 1 << 16  # characters of a text whose fields are named


class JsonRows:
    """`formats.typed_pieces.TypedRows`."""

    def __init__(self, data_type: pa.DataType, side: Side = "value", *, rescues: bool = False) -> None:
        """`rescues`: pieces have the fields that the columns lack. SchemaError with the place where there is no column
        for the type."""
        self._decoder = JsonDecoder(data_type, rescues=rescues)
        self._rescues = rescues
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
            if self._rescues:
                yield _with_rescued(piece.array, piece.start, piece.end, bad)
            else:
                yield TypedPiece(piece.array, piece.start, piece.end, bad)


def _with_rescued(array: pa.StructArray, start: int, end: int, bad: tuple[BadRow, ...]) -> TypedPiece:
    """Take the last field, which is the rescued ones, out of a whole array. The fields of one record are named."""
    *fields, rescued = [array.field(number) for number in range(array.type.num_fields)]
    data_type = pa.struct(list(array.type)[:-1])
    typed = pa.Array.from_buffers(data_type, len(array), array.buffers()[:1], children=fields)
    lacking: tuple[Lacking, ...] = ()
    if rescued.null_count < len(rescued):
        text = rescued[pc.index(rescued.is_valid(), True).as_py()].as_py()
        try:
            names = tuple(json.loads(text)) if len(text) <= _MOST_NAMED else ()
        except (ValueError, RecursionError):  # a number of more digits than Python reads
            names = ()
        lacking = (Lacking(None, names or ("not named here",)),)
    return TypedPiece(typed, start, end, bad, rescued, lacking)


def schema_id_of(value: bytes, headers: pa.Scalar | None, side: Side) -> SchemaId | None:
    """The id that a record says, if any: as `framing.frames_of` finds it."""
    name = HEADER_NAMES[side]
    for entry in reversed((headers.as_py() if headers is not None else None) or ()):
        if entry["key"] == name:
            return frame_of_header(entry["value"], name).schema_id
    return frame_of(value[:MOST_FRAME_BYTES]).schema_id
