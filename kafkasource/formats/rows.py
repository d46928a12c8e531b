"""A column of framed records to a typed column: each row by its own writer's schema, in the rows' order.

What is bad is null in the typed column, and a `BadRow` says why. A tombstone is null and not bad.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.errors import SchemaError, UnknownSchemaId
from kafkasource.formats.avro.fingerprint import fingerprint_of
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.bounds import reading_a_schema
from kafkasource.formats.decoding.decode import MOST_OFFSET, NOT_DECODED
from kafkasource.formats.framing import Frame, Frames, Side, frames_of, rows_with_header
from kafkasource.formats.glue import plain_parts
from kafkasource.formats.protobuf.message_index import MessageIndex
from kafkasource.formats.protobuf.rendering import AS_FROM_PROTOBUF, Rendering
from kafkasource.formats.record_formats import AvroFormat, ProtobufFormat, record_format
from kafkasource.formats.rescue import Rescue, rescued_pieces
from kafkasource.formats.schema_source import AVRO, Fingerprint, RecordType, RegisteredSchema, SchemaId, SchemaSource
from kafkasource.formats.typed_pieces import BadRow, Lacking, TypedPiece, marked

# Causes; the others are opcodes.ERRORS.
NO_ID = "no schema id"
UNKNOWN_ID = "unknown schema id"
UNREADABLE = "the schema does not fit the reader's"
NOT_UTF8 = "the bytes are not UTF-8"

MIB = 1 << 20
SIZES_OF_INPUT = 4  # a record counts its columns, and old buffers while they grow

_BEHIND = "behind a bad record"  # nobody sees it
_MOST_WRITERS = 1_000  # where this many are kept, no further bad ones are kept
_MOST_SEARCHES = 8  # for versions: records can name any number of message indexes


@dataclass(frozen=True, slots=True)
class _Writer:
    """The reader's program for a schema id, or why there is none."""

    program: int = NOT_DECODED
    fault: str = ""
    cause: str = ""
    rescue: Rescue | None = None  # what the columns lack of its records


class RegisteredRows:
    """Records in a registry's framing, of the format that the reader's schema has."""

    def __init__(
        self,
        reader: RegisteredSchema,
        source: SchemaSource,
        side: Side = "value",
        *,
        message_name: str | None = None,
        types: Sequence[RecordType] = (),
        rendering: Rendering = AS_FROM_PROTOBUF,
        to_first_bad: bool = False,
        rescues: bool = False,
    ) -> None:
        """Take the arguments of `record_format`. `to_first_bad`: the caller stops at the first bad row, so no schema is
        asked for that only later rows name. `rescues`: pieces have the fields that the columns lack."""
        self._format = record_format(reader, message_name, types, rendering)
        self.type: pa.DataType = self._format.type
        self._readers = {reader, *(record_type.schema for record_type in types)}
        self._source = source
        self._side: Side = side
        self._to_first_bad = to_first_bad
        self._rescues = rescues
        self._searches = 0
        self._writers: dict[tuple[SchemaId, MessageIndex | None], _Writer] = {}
        # Ids of the same schema share a program.
        self._by_schema: dict[tuple[RegisteredSchema, MessageIndex | None], _Writer] = {}

    def pieces(self, values: pa.BinaryArray, headers: pa.ListArray | None, most_bytes: int) -> Iterator[TypedPiece]:
        """Raises what the source of schemas raises, but UnknownSchemaId: such a record is bad."""
        found = self._frames_of(values, headers)
        if not found.has_compressed:
            yield from self._pieces(values, found, most_bytes)
            return
        for start, part in plain_parts(values, rows_with_header(headers, self._side)):
            of_part = self._frames_of(part, None if headers is None else headers.slice(start, len(part)))
            for piece in self._pieces(part, of_part, max(most_bytes, SIZES_OF_INPUT * part.nbytes + MIB)):
                yield piece.behind(start)

    def _frames_of(self, values: pa.BinaryArray, headers: pa.ListArray | None) -> Frames:
        return frames_of(values, self._side, headers, indexed=self._format.has_index)

    def _pieces(self, values: pa.BinaryArray, found: Frames, most_bytes: int) -> Iterator[TypedPiece]:
        writers = self._writers_of(found)
        without = [
            BadRow(row, writers[number].fault, found.frames[number].schema_id, cause=writers[number].cause)
            for row, number in _rows_without_program(found, writers)
        ]
        if all(writer.program == NOT_DECODED for writer in writers):
            yield TypedPiece(pa.nulls(len(values), self.type), 0, len(values), tuple(without))
            return
        floor = SIZES_OF_INPUT * values.nbytes + MIB
        skip_bytes, values = _without_frames(values, found, [writer.program for writer in writers])
        programs = _programs_of(found, writers)
        lacking = tuple(
            Lacking(frame.schema_id, writer.rescue.lacking)
            for frame, writer in zip(found.frames, writers, strict=True)
            if writer.rescue is not None
        )
        if lacking:  # for columns, the columns of rescued fields, their texts
            most_bytes = max(most_bytes // 3, floor)
        for piece in self._format.batches(values, most_bytes, skip_bytes=skip_bytes, programs=programs):
            bad = [bad_row for bad_row in without if piece.start <= bad_row.row < piece.end]
            for fault in piece.faults():
                frame = found.frames[found.rows[fault.row].as_py()]
                bad.append(BadRow(fault.row, fault.why, frame.schema_id, fault.place, fault.why))
            rows = tuple(sorted(bad, key=lambda each: each.row))
            typed = TypedPiece(piece.array, piece.start, piece.end, rows, lacking=lacking)
            if lacking:
                yield from self._rescued(typed, values, skip_bytes, found, writers, most_bytes)
            else:
                yield typed

    def _rescued(
        self,
        piece: TypedPiece,
        values: pa.BinaryArray,
        skip_bytes: int,
        found: Frames,
        writers: Sequence[_Writer],
        most_bytes: int,
    ) -> Iterator[TypedPiece]:
        """The piece with the fields that the columns lack, in pieces."""
        there = found.rows.slice(piece.start, piece.end - piece.start).unique().to_pylist()
        of_writers = {id(writers[number].rescue): writers[number].rescue for number in there}
        rescues = [rescue for rescue in of_writers.values() if rescue is not None and rescue.decoder is not None]
        if not rescues:
            yield piece
            return
        programs = [
            _of_rows(found, [0 if each.rescue is rescue else NOT_DECODED for each in writers]) for rescue in rescues
        ]
        pairs = list(zip(rescues, programs, strict=True))
        for part in rescued_pieces(piece, values, skip_bytes, pairs, most_bytes):
            bad = [replace(each, schema_id=found.frames[found.rows[each.row].as_py()].schema_id) for each in part.bad]
            yield replace(part, bad=tuple(bad))

    def _writers_of(self, found: Frames) -> list[_Writer]:
        """The reader's programs by the frame's number."""
        if not self._to_first_bad:
            return [self._writer(frame) for frame in found.frames]
        writers = [_Writer(fault=_BEHIND, cause=_BEHIND)] * len(found.frames)
        writers[0] = _Writer()
        for number in found.rows.dictionary_encode().dictionary.to_pylist():  # as they come in the rows
            writers[number] = self._writer(found.frames[number])
            if writers[number].fault:
                break
        return writers

    def _writer(self, frame: Frame) -> _Writer:
        if frame.schema_id is None:
            return _Writer(fault=frame.fault, cause=NO_ID if frame.fault else "")
        key = (frame.schema_id, frame.message)
        writer = self._writers.get(key)
        if writer is None:
            try:
                schema = self._schema(frame.schema_id)
            except UnknownSchemaId as error:
                return _Writer(fault=str(error), cause=UNKNOWN_ID)  # not kept: it may be registered in a moment
            writer = self._compiled_once(schema, frame.message)
            if writer.cause == UNREADABLE:
                writer = replace(writer, fault=f"{writer.fault}{self._since(frame.schema_id, frame.message)}")
            if writer.fault and len(self._writers) >= _MOST_WRITERS:
                return writer  # records can name any number of message indexes
            self._writers[key] = writer
        return writer

    def _compiled_once(self, schema: RegisteredSchema, message: MessageIndex | None) -> _Writer:
        key = (schema, message)
        writer = self._by_schema.get(key) or self._compiled(schema, message)
        if not writer.fault or len(self._by_schema) < _MOST_WRITERS:
            self._by_schema[key] = writer
        return writer

    def _since(self, schema_id: SchemaId, message: MessageIndex | None) -> str:
        """The version of the subject with which began what the reader cannot read, as a sentence."""
        first = ""
        if self._searches == _MOST_SEARCHES:
            return ""
        self._searches += 1
        for version, schema in self._source.versions_from(schema_id):
            if not self._compiled_once(schema, message).fault:
                break
            first = version
        return f". It has been so since {first}" if first else ""

    def _schema(self, schema_id: SchemaId) -> RegisteredSchema:
        """The fingerprints of the readers' own schemas need no source."""
        if isinstance(schema_id, Fingerprint) and self._format.kind == AVRO:
            found = self._own_fingerprints.get(schema_id)
            if found is not None:
                return found
        return self._source.schema(schema_id)

    @cached_property
    def _own_fingerprints(self) -> dict[Fingerprint, RegisteredSchema]:
        return {fingerprint_of(parse_schema(reader.text, reader.texts_by_name)): reader for reader in self._readers}

    def _compiled(self, schema: RegisteredSchema, message: MessageIndex | None) -> _Writer:
        if schema.kind != self._format.kind:
            return _Writer(fault=f"the record's schema is {schema.kind}, not {self._format.kind}", cause=UNREADABLE)
        try:
            with reading_a_schema():
                program, rescue = self._format.program(schema, message), None
                if self._rescues and isinstance(self._format, (AvroFormat, ProtobufFormat)):
                    rescue = self._format.rescue(schema, message)
                return _Writer(program, rescue=rescue)
        except SchemaError as error:
            return _Writer(fault=f"the record's schema does not fit the reader's: {error}", cause=UNREADABLE)


class BareRows:
    """Records without a frame, which name no schema: that of the reader has written all of them."""

    def __init__(
        self, schema: RegisteredSchema, message_name: str | None = None, rendering: Rendering = AS_FROM_PROTOBUF
    ) -> None:
        """Take the arguments of `record_format`. Raises SchemaError."""
        self._format = record_format(schema, message_name, (), rendering)
        if not self._format.has_index:  # with one, there is one program from the beginning
            self._format.program(schema, None)
        self.type: pa.DataType = self._format.type

    def pieces(self, values: pa.BinaryArray, headers: pa.ListArray | None, most_bytes: int) -> Iterator[TypedPiece]:
        for piece in self._format.batches(values, most_bytes, skip_bytes=0, programs=None):
            bad = [BadRow(fault.row, fault.why, None, fault.place, fault.why) for fault in piece.faults()]
            yield TypedPiece(piece.array, piece.start, piece.end, tuple(bad))


class TextRows:
    """Records that are UTF-8 text, without a frame."""

    type: pa.DataType = pa.string()

    def pieces(self, values: pa.BinaryArray, headers: pa.ListArray | None, most_bytes: int) -> Iterator[TypedPiece]:
        """One piece: it takes no memory of its own, as the column has the bytes of `values`."""
        try:
            yield TypedPiece(values.cast(self.type), 0, len(values))
            return
        except pa.ArrowInvalid:
            pass
        wrong = [row for row in range(len(values)) if not _is_text(values[row])]
        mask = marked(wrong, len(values))
        right = pc.replace_with_mask(
            values, mask, pa.scalar(None, pa.binary())
        )  # of a slice, pyarrow 18's if_else errs
        yield TypedPiece(
            right.cast(self.type), 0, len(values), tuple(BadRow(row, NOT_UTF8, cause=NOT_UTF8) for row in wrong)
        )


def _is_text(value: pa.Scalar) -> bool:
    try:
        return not value.is_valid or value.as_buffer().to_pybytes().decode() is not None
    except UnicodeDecodeError:
        return False


def _without_frames(values: pa.BinaryArray, found: Frames, programs: list[int]) -> tuple[int, pa.BinaryArray]:
    """(bytes to skip in each row, rows). A copy only where the rows have frames of several sizes."""
    sizes = {frame.size for frame, program in zip(found.frames, programs, strict=True) if program != NOT_DECODED}
    if len(sizes) <= 1:
        return next(iter(sizes), 0), values
    of_rows = pa.array([frame.size for frame in found.frames], pa.int32()).take(found.rows)
    cut = pa.nulls(len(values), pa.binary())
    for size in sizes:  # with an end: without, pyarrow's bound of the result overflows where rows are an even number
        cut = pc.if_else(pc.equal(of_rows, size), pc.binary_slice(values, size, MOST_OFFSET), cut)
    return 0, cut


def _programs_of(found: Frames, writers: list[_Writer]) -> memoryview | None:
    """Each row's program number, as int32. None: all rows have the first program."""
    programs = [writer.program for writer in writers]
    if programs == [NOT_DECODED, 0]:  # null rows need no program
        return None
    return _of_rows(found, programs)


def _of_rows(found: Frames, of_frames: Sequence[int]) -> memoryview:
    """Each row's number, as int32, from that of its frame."""
    of_rows = pa.array(of_frames, pa.int32()).take(found.rows)
    return memoryview(of_rows.buffers()[1]).cast("B").cast("i")


def _rows_without_program(found: Frames, writers: list[_Writer]) -> list[tuple[int, int]]:
    """(row, number of its frame) of the rows that no program decodes, tombstones not among them."""
    numbers = [number for number, writer in enumerate(writers) if writer.program == NOT_DECODED and number]
    if not numbers:
        return []
    rows = pc.indices_nonzero(pc.is_in(found.rows, pa.array(numbers, pa.int32())))
    return list(zip(rows.to_pylist(), found.rows.take(rows).to_pylist(), strict=True))
