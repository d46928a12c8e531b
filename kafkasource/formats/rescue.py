"""The fields of records that the reader's columns lack, as JSON (`rescuedColumn`), where the writer's schema is known.

A field of the record is rescued whole, as the writer wrote it, if the columns lack the field or anything within it. A
second program decodes just these fields by the writer's own schema, and the encoder of `valueFormat=json` makes their
text. So the records of a writer whose fields the columns have are not looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.decode import AvroDecoder
from kafkasource.formats.avro.resolution import branch_for, matched_fields
from kafkasource.formats.avro.schema import (
    Again,
    AvroArray,
    AvroField,
    AvroRecord,
    Map,
    Schema,
    Union,
    describe,
    is_null,
    records_of,
)
from kafkasource.formats.bounds import reading_a_schema
from kafkasource.formats.decoding.decode import Decoder
from kafkasource.formats.decoding.opcodes import ERRORS, TOO_LARGE
from kafkasource.formats.protobuf.decode import ProtobufDecoder
from kafkasource.formats.protobuf.descriptors import GROUP, MESSAGE
from kafkasource.formats.protobuf.rendering import Rendering
from kafkasource.formats.protobuf.schema import MessageType, ProtobufSchema
from kafkasource.formats.typed_pieces import BadRow, TypedPiece, marked

_MOST_TRIED = 64  # fields that are tried one by one, after all of them together could not be decoded
_MOST_PATH = 200  # characters


class Rescue:
    """Makes the JSON of the fields of one writer's records that a reader's columns lack."""

    def __init__(self, decoder: Decoder | None, lacking: Sequence[str], *, empty_is_absent: bool = False) -> None:
        """`decoder`: decodes the lacking fields of the record; None: none of them can be in the JSON. `lacking`: their
        paths, for people. `empty_is_absent`: an array or map without items counts as absent from the record."""
        from kafkasource.formats.json.encode import JsonEncoder  # only here: it brings the kernel that writes

        self.lacking = tuple(lacking)
        self.decoder = decoder
        self._encoder = None if decoder is None else JsonEncoder(decoder.type, any_type=True)
        self._empty_is_absent = empty_is_absent

    def texts(
        self, values: pa.BinaryArray, start: int, most_bytes: int, skip_bytes: int, programs: memoryview
    ) -> tuple[pa.StringArray, list[BadRow]]:
        """The texts of rows from `start` on, as many as fit, at least one; arguments as of `Decoder.decode`."""
        assert self.decoder is not None
        assert self._encoder is not None
        column = self.decoder.decode(values, most_bytes, skip_bytes=skip_bytes, programs=programs, start=start)
        fields = _without_empty(column.array) if self._empty_is_absent else column.array
        piece = next(self._encoder.pieces(fields, most_bytes, passing_over=True, most_bytes_alone=most_bytes))
        texts = piece.records.cast(pa.string())
        texts = pc.replace_with_mask(texts, pc.equal(texts, "{}").fill_null(False), pa.scalar(None, pa.string()))
        bad = [BadRow(fault.row, fault.why, None, fault.place, fault.why) for fault in column.faults()]
        large = ERRORS[TOO_LARGE]
        bad += [BadRow(start + fault.row, large, None, "", large) for fault in piece.faults]
        return texts, bad


def rescued_pieces(
    piece: TypedPiece,
    values: pa.BinaryArray,
    skip_bytes: int,
    rescues: Sequence[tuple[Rescue, memoryview]],
    most_bytes: int,
) -> Iterator[TypedPiece]:
    """The piece with its rescued fields, in pieces whose texts take at most `most_bytes`. `rescues`: with the programs
    of all rows of `values`, as `Decoder.decode` takes them."""
    there = values.slice(0, piece.end)
    start = piece.start
    while start < piece.end:
        # Only the row at `start` can be too large: later ones wait for the next piece. So its writer gets all of it.
        share = most_bytes // (4 * len(rescues))
        found = [
            rescue.texts(there, start, most_bytes if programs[start] >= 0 else share, skip_bytes, programs)
            for rescue, programs in rescues
        ]
        count = min(len(texts) for texts, _ in found)
        end = start + count
        bad = {bad_row.row: bad_row for bad_row in piece.bad if start <= bad_row.row < end}
        more = {row.row: row for _, rows in found for row in rows if row.row < end and row.row not in bad}
        array = piece.array.slice(start - piece.start, count)
        texts = pc.coalesce(*(texts.slice(0, count) for texts, _ in found))
        if more:
            null = pc.or_(array.is_null(), marked([row - start for row in more], count))
            parts = [array.field(number) for number in range(array.type.num_fields)]
            array = pa.StructArray.from_arrays(parts, fields=list(array.type), mask=null)
        bad |= more
        if bad:
            no_text = pa.scalar(None, pa.string())
            texts = pc.replace_with_mask(texts, marked([row - start for row in bad], count), no_text)
        rows = tuple(bad[row] for row in sorted(bad))
        yield replace(piece, array=array, start=start, end=end, bad=rows, rescued=texts)
        start = end


def _without_empty(fields: pa.StructArray) -> pa.StructArray:
    """Null in place of arrays and maps without items. `fields`: a whole array, as a decoder makes it."""
    parts = []
    for number, field in enumerate(fields.type):
        part = fields.field(number)
        if pa.types.is_list(field.type) or pa.types.is_map(field.type):
            places = part.buffers()[1]
            ends = pa.Array.from_buffers(pa.int32(), len(part) + 1, [None, places])
            valid = pc.not_equal(ends[1:], ends[:-1]).buffers()[1]
            part = pa.Array.from_buffers(field.type, len(part), [valid, places], children=[part.values])
        parts.append(part)
    return pa.StructArray.from_arrays(parts, fields=list(fields.type), mask=fields.is_null())


def _rescue(
    paths: Mapping[str, str], decoder_of: Callable[[Sequence[str]], Decoder], *, empty_is_absent: bool = False
) -> Rescue | None:
    """Make the rescue of these fields, or None where the columns lack nothing. `paths`: from each field of the record
    to what the columns lack in it. A field whose type cannot be a column (it contains itself) is left out."""
    if not paths:
        return None
    try:
        with reading_a_schema():
            return Rescue(decoder_of(list(paths)), list(paths.values()), empty_is_absent=empty_is_absent)
    except SchemaError as error:
        left_out = dict.fromkeys(paths, str(error))
    for name in list(paths)[:_MOST_TRIED]:
        try:
            with reading_a_schema():
                Rescue(decoder_of([name]), ())
            del left_out[name]
        except SchemaError as error:
            left_out[name] = str(error)
    lacking = [
        f"{path} (left out: {left_out[name].partition('. ')[0]})" if name in left_out else path
        for name, path in paths.items()
    ]
    kept = [name for name in paths if name not in left_out]
    return Rescue(decoder_of(kept) if kept else None, lacking, empty_is_absent=empty_is_absent)


# Avro.


def only_record(schema: Schema) -> AvroRecord | None:
    """The record that a schema is, perhaps beside null."""
    branches = [branch for branch in schema.branches if not is_null(branch)] if isinstance(schema, Union) else [schema]
    return branches[0] if len(branches) == 1 and isinstance(branches[0], AvroRecord) else None


def avro_rescue(writer: Schema, reader: Schema) -> Rescue | None:
    """None: the columns have all fields. `reader`: can read the writer, and is a record."""
    paths = _AvroPaths(writer)
    record, ours = only_record(writer), only_record(reader)
    assert ours is not None
    if record is None:
        path = paths.first(writer, reader)
        why = f"the writer's schema is {describe(writer)[:_MOST_PATH]}"
        return None if path is None else Rescue(None, [f"{path[1:]} (left out: {why})"])
    fields = {field.name: field for field in record.fields}

    def decoder_of(names: Sequence[str]) -> Decoder:
        shape = AvroRecord(record.name, tuple(AvroField(name, fields[name].schema) for name in names))
        if not isinstance(writer, Union):
            return AvroDecoder(shape, [writer])
        return AvroDecoder(Union(tuple(shape if each is record else each for each in writer.branches)), [writer])

    return _rescue(paths.by_field(record, ours), decoder_of)


class _AvroPaths:
    """Finds what a reader's types lack of a writer's. A reader's schema does not contain itself, so this ends."""

    def __init__(self, writer: Schema) -> None:
        self._records = records_of(writer)
        self._known: dict[tuple[int, int], str | None] = {}

    def by_field(self, writer: AvroRecord, reader: AvroRecord) -> dict[str, str]:
        found = {}
        for part, theirs, ours in self._parts(writer, reader):
            within = "" if ours is None else self.first(theirs, ours)
            if within is not None:
                found[part[1:]] = f"{part[1:]}{within}"
        return found

    def first(self, writer: Schema, reader: Schema) -> str | None:
        """The path of a field within the writer's type that the reader's type lacks."""
        if isinstance(writer, Again):
            writer = self._records[writer.name]
        key = id(writer), id(reader)
        if key not in self._known:
            self._known[key] = next(self._paths(writer, reader), None)
        return self._known[key]

    def _paths(self, writer: Schema, reader: Schema) -> Iterator[str]:
        for part, theirs, ours in self._parts(writer, reader):
            within = "" if ours is None else self.first(theirs, ours)
            if within is not None:
                yield f"{part}{within}"[:_MOST_PATH]

    def _parts(self, writer: Schema, reader: Schema) -> Iterator[tuple[str, Schema, Schema | None]]:
        """List the parts of the writer's type: each part's place in the path, its type, the reader's type for it."""
        if isinstance(writer, Union):
            yield from (("", branch, reader) for branch in writer.branches)
        elif isinstance(reader, Union):
            index = branch_for(writer, reader)
            if index is not None:
                yield "", writer, reader.branches[index]
        elif isinstance(writer, AvroRecord) and isinstance(reader, AvroRecord):
            taken = matched_fields(writer, reader)
            for field in writer.fields:
                ours = reader.fields[taken[field.name]].schema if field.name in taken else None
                yield f".{field.name}", field.schema, ours
        elif isinstance(writer, AvroArray) and isinstance(reader, AvroArray):
            yield "[]", writer.items, reader.items
        elif isinstance(writer, Map) and isinstance(reader, Map):
            yield "{}", writer.values, reader.values


# Protobuf.


_Pair: TypeAlias = tuple[str, str]
"""The full names of a message type, as the writer and as the reader has it."""


def protobuf_rescue(
    writers: ProtobufSchema, writer: MessageType, readers: ProtobufSchema, reader: MessageType, rendering: Rendering
) -> Rescue | None:
    """None: the columns have all fields. `reader`: can read the writer."""
    lacking = _lacking_messages(writers, writer, readers, reader)
    paths = {}
    for field, other in _both(writers, readers, (writer.full_name, reader.full_name)):
        within = "" if other is None else lacking.get(other)
        if within is not None:
            paths[field] = f"{field}{within}"
    if not paths:
        return None
    # A field that the writer did not write gets no default, and its absence is no error.
    schema = replace(
        writers,
        messages={
            name: replace(each, fields=tuple(replace(one, required=False, default=None) for one in each.fields))
            for name, each in writers.messages.items()
        },
    )
    whole = schema.messages[writer.full_name]
    as_written = replace(rendering, emit_default_values=False)

    def decoder_of(names: Sequence[str]) -> Decoder:
        wanted = set(names)
        fields = tuple(field for field in whole.fields if field.name in wanted)
        return ProtobufDecoder(schema, replace(whole, fields=fields), as_written)

    return _rescue(paths, decoder_of, empty_is_absent=True)


def _both(writers: ProtobufSchema, readers: ProtobufSchema, pair: _Pair) -> Iterator[tuple[str, _Pair | None]]:
    """The fields of a message that the reader lacks (None), or that have a message in which it may lack some."""
    ours = {field.number: field for field in readers.messages[pair[1]].fields}
    for field in writers.messages[pair[0]].fields:
        other = ours.get(field.number)
        if other is None:
            yield field.name, None
        elif field.kind in (MESSAGE, GROUP) and other.kind in (MESSAGE, GROUP):
            yield field.name, (field.type_name, other.type_name)


def _lacking_messages(
    writers: ProtobufSchema, writer: MessageType, readers: ProtobufSchema, reader: MessageType
) -> dict[_Pair, str]:
    """Find the message types of which the reader lacks something, with the path to it. Messages may contain
    themselves."""
    first = (writer.full_name, reader.full_name)
    within: dict[_Pair, list[tuple[_Pair, str]]] = {first: []}  # where a type is used, and by which field
    found: dict[_Pair, str] = {}
    waiting = [first]
    while waiting:
        message = waiting.pop()
        for name, other in _both(writers, readers, message):
            if other is None:
                found.setdefault(message, f".{name}"[:_MOST_PATH])
                continue
            if other not in within:
                within[other] = []
                waiting.append(other)
            within[other].append((message, name))
    waiting = list(found)
    while waiting:
        message = waiting.pop()
        for outer, name in within[message]:
            if outer not in found:
                found[outer] = f".{name}{found[message]}"[:_MOST_PATH]
                waiting.append(outer)
    return found
