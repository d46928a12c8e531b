"""Records of several types in one column: a struct with a nullable member for each type; each record fills one member.

The types are named (`recordTypes`). A record of a type that is not named is bad.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.decode import AvroDecoder
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.avro.schema import AvroRecord, Schema, Union, records_of, short
from kafkasource.formats.decoding.decode import NOT_DECODED, DecodedColumn, Fault, view_of
from kafkasource.formats.protobuf.decode import ProtobufDecoder
from kafkasource.formats.protobuf.message_index import MessageIndex
from kafkasource.formats.protobuf.rendering import AS_FROM_PROTOBUF, Rendering
from kafkasource.formats.protobuf.resolution import check_fits, only_message
from kafkasource.formats.protobuf.schema import MessageType, ProtobufSchema, read_schema
from kafkasource.formats.protobuf.writer_schema import schema_of
from kafkasource.formats.schema_source import AVRO, PROTOBUF, RecordType, RegisteredSchema
from kafkasource.formats.typed_pieces import marked

_NO_OTHER = AvroRecord("kafkasource.NoOther", ())
_NOT_NAMED = "NotInRecordTypes"


def named_record(schema: RegisteredSchema, name: str) -> str | None:
    """The full name of the record or message that a schema has under a name; None: it has none. Raises SchemaError."""
    if schema.kind == AVRO:
        found = _record(parse_schema(schema.text, schema.texts_by_name, defaults=False), name)
        return None if found is None else found.name
    read = read_schema(schema.text, schema.texts_by_name)
    names = [message for message in read.messages if message == name] or [
        message for message in read.messages if message.endswith(f".{name}")
    ]
    return names[0] if len(names) == 1 else None


def only_record(schema: RegisteredSchema) -> str:
    """The full name of the record that a schema is, or of the only message that it declares. Raises SchemaError."""
    if schema.kind != AVRO:
        return only_message(read_schema(schema.text, schema.texts_by_name)).full_name
    found = parse_schema(schema.text, schema.texts_by_name, defaults=False)
    if not isinstance(found, AvroRecord):
        raise SchemaError("$: the schema is not a record")
    return found.name


def column_names(full_names: Sequence[str]) -> list[str]:
    """The last part of each name, or the whole where two have the same last part."""
    shorts = [name.rpartition(".")[2] for name in full_names]
    often = Counter(shorts)
    return [full if often[last] > 1 else last for full, last in zip(full_names, shorts, strict=True)]


def _record(schema: Schema, name: str) -> AvroRecord | None:
    """Find a record by its full name, or by a last part that only one record has."""
    found = records_of(schema)
    if name in found:
        return found[name]
    lasts = [record for record in found.values() if short(record.name) == name]
    return lasts[0] if len(lasts) == 1 else None


class AvroTypes:
    """`record_formats.RecordFormat`. The reader is a union of the records, and so a writer may be one, too."""

    kind = AVRO
    has_index = False

    def __init__(self, types: Sequence[RecordType]) -> None:
        """Raises SchemaError."""
        records = []
        for each in types:
            record = _record(parse_schema(each.schema.text, each.schema.texts_by_name), each.name)
            if record is None:
                raise SchemaError(f"$: the schema has no record {each.name}")
            records.append(record)
        self._names = [each.name for each in records]
        self._known = {name for each in records for name in (each.name, *each.aliases)}
        # A union of one record would be that record, and take records of any name.
        self._decoder = AvroDecoder(Union((*records, *([_NO_OTHER] if len(records) == 1 else []))))
        members = list(self._decoder.type)[: len(records)]
        names = column_names(self._names)
        self.type = pa.struct([pa.field(name, each.type) for name, each in zip(names, members, strict=True)])

    def program(self, writer: RegisteredSchema, message: MessageIndex | None) -> int:
        schema = parse_schema(writer.text, writer.texts_by_name, defaults=False)
        records = records_of(schema)
        branches = schema.branches if isinstance(schema, Union) else (schema,)
        if not any(isinstance(branch, AvroRecord) and branch.name in self._known for branch in branches):
            shown = schema.name if isinstance(schema, AvroRecord) else "no record"
            raise _not_named(shown, self._names)
        if isinstance(schema, Union):
            schema = Union(tuple(self._named_or_unreadable(branch) for branch in branches))
        return self._decoder.add(schema, records)

    def _named_or_unreadable(self, branch: Schema) -> Schema:
        """Resolution compares the last parts of names, too: what is not named must not pass for what is."""
        if isinstance(branch, AvroRecord) and branch.name not in self._known:
            return replace(branch, name=f"{branch.name}.{_NOT_NAMED}")
        return branch

    def batches(
        self, values: pa.Array, most_bytes: int, *, skip_bytes: int, programs: memoryview | None
    ) -> Iterator[DecodedColumn]:
        for piece in self._decoder.batches(values, most_bytes, skip_bytes=skip_bytes, programs=programs):
            members = piece.array.flatten()[: self.type.num_fields]
            yield replace(piece, array=_struct(members, self.type, piece.array.is_null()))


@dataclass(frozen=True, slots=True)
class Pieces:
    """Rows that several decoders have decoded, each its own. As `decoding.decode.DecodedColumn`."""

    array: pa.Array
    start: int
    end: int
    found: tuple[Fault, ...]

    def faults(self) -> Iterator[Fault]:
        yield from self.found


class ProtobufTypes:
    """`record_formats.RecordFormat`. A record says which message it is, and each message has a decoder."""

    kind = PROTOBUF
    has_index = True

    def __init__(self, types: Sequence[RecordType], rendering: Rendering = AS_FROM_PROTOBUF) -> None:
        """Raises SchemaError."""
        self._readers: list[tuple[ProtobufSchema, MessageType]] = []
        for each in types:
            schema = read_schema(each.schema.text, each.schema.texts_by_name)
            self._readers.append((schema, schema.message_named(each.name)))
        self._numbers = {message.full_name: number for number, (_, message) in enumerate(self._readers)}
        self._decoders = [ProtobufDecoder(*reader, rendering) for reader in self._readers]
        self._columns = column_names(list(self._numbers))
        members = zip(self._columns, self._decoders, strict=True)
        self.type = pa.struct([pa.field(name, each.type) for name, each in members])

    def program(self, writer: RegisteredSchema, message: MessageIndex | None) -> int:
        """The number of the type."""
        schema = schema_of(writer)
        assert message is not None
        found = schema.message_at(message)
        number = self._numbers.get(found.full_name)
        if number is None:
            raise _not_named(found.full_name, list(self._numbers))
        check_fits(schema, found, *self._readers[number])
        return number

    def batches(
        self, values: pa.Array, most_bytes: int, *, skip_bytes: int, programs: memoryview | None
    ) -> Iterator[Pieces]:
        given = memoryview(bytes(4 * len(values))).cast("i") if programs is None else programs
        numbers = pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(given)])
        of_members = [_programs(numbers, number) for number in range(len(self._decoders))]
        there = pc.and_(pc.not_equal(numbers, NOT_DECODED), values.is_valid())
        start = 0
        while start < len(values):
            parts = [
                decoder.decode(
                    values, most_bytes // len(self._decoders), skip_bytes=skip_bytes, programs=of_rows, start=start
                )
                for decoder, of_rows in zip(self._decoders, of_members, strict=True)
            ]
            end = min(part.end for part in parts)
            faults = sorted(self._faults(parts, end), key=lambda each: each.row)
            array = _struct(
                [part.array.slice(0, end - start) for part in parts],
                self.type,
                _nulls(there.slice(start, end - start), [fault.row - start for fault in faults]),
            )
            yield Pieces(array, start, end, tuple(faults))
            start = end

    def _faults(self, parts: Sequence[DecodedColumn], end: int) -> Iterator[Fault]:
        for name, part in zip(self._columns, parts, strict=True):
            for fault in part.faults():
                if fault.row < end:
                    yield replace(fault, place=f"$.{name}{fault.place.removeprefix('$')}")


def _programs(numbers: pa.Array, number: int) -> memoryview:
    """0 in the rows of a type, NOT_DECODED in the others."""
    rows = pc.if_else(pc.equal(numbers, number), pa.scalar(0, pa.int32()), pa.scalar(NOT_DECODED, pa.int32()))
    return view_of(rows.buffers()[1]).cast("i")


def _nulls(there: pa.Array, bad: Sequence[int]) -> pa.Array:
    """Mark the rows that are null: rows without a record, and bad ones."""
    null = pc.invert(there)
    return pc.or_(null, marked(bad, len(there))) if bad else null


def _struct(members: Sequence[pa.Array], data_type: pa.StructType, null: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(members), fields=list(data_type), mask=null)


def _not_named(name: str, named: Sequence[str]) -> SchemaError:
    return SchemaError(f"the record is {name}, which recordTypes does not name ({', '.join(named)})")
