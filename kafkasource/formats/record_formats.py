"""Makes columns of the reader's schema, and a program of each writer's schema, in any format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.decode import AvroDecoder
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.bounds import reading_a_schema
from kafkasource.formats.decoding.decode import DecodedColumn
from kafkasource.formats.protobuf.decode import ProtobufDecoder
from kafkasource.formats.protobuf.message_index import MessageIndex
from kafkasource.formats.protobuf.rendering import AS_FROM_PROTOBUF, Rendering
from kafkasource.formats.protobuf.resolution import check_fits, only_message
from kafkasource.formats.protobuf.schema import read_schema
from kafkasource.formats.protobuf.writer_schema import schema_of
from kafkasource.formats.rescue import Rescue, avro_rescue, protobuf_rescue
from kafkasource.formats.schema_source import AVRO, PROTOBUF, RecordType, RegisteredSchema
from kafkasource.formats.several_types import AvroTypes, Pieces, ProtobufTypes


class RecordFormat(Protocol):
    """Decodes for one reader. Threads may decode at once; one thread at a time asks for a program."""

    kind: str
    type: pa.DataType
    has_index: bool  # behind the schema id a record says which message of the schema it is

    def program(self, writer: RegisteredSchema, message: MessageIndex | None) -> int:
        """Return the program for this writer's records. `message`: with `has_index`.

        SchemaError where the reader cannot read them.
        """

    def batches(
        self, values: pa.Array, most_bytes: int, *, skip_bytes: int, programs: memoryview | None
    ) -> Iterator[DecodedColumn | Pieces]:
        """Decode all rows as `formats.decoding.decode.Decoder` does."""


def record_format(
    reader: RegisteredSchema,
    message_name: str | None = None,
    types: Sequence[RecordType] = (),
    rendering: Rendering = AS_FROM_PROTOBUF,
) -> RecordFormat:
    """`message_name`: of a Protobuf schema that declares several; `types`: the column is a struct of these, whose
    schemas count then; `rendering`: of Protobuf. SchemaError where Spark has no column for it."""
    with reading_a_schema():
        if types and reader.kind in (AVRO, PROTOBUF):
            return AvroTypes(types) if reader.kind == AVRO else ProtobufTypes(types, rendering)
        if reader.kind == AVRO:
            return AvroFormat(reader)
        if reader.kind == PROTOBUF:
            return ProtobufFormat(reader, message_name, rendering)
    raise SchemaError(f"$: the reader's schema is {reader.kind}, neither {AVRO} nor {PROTOBUF}")


class AvroFormat:
    kind = AVRO
    has_index = False

    def __init__(self, reader: RegisteredSchema) -> None:
        self._schema = parse_schema(reader.text, reader.texts_by_name)
        self._decoder = AvroDecoder(self._schema)
        self.type: pa.DataType = self._decoder.type
        self.batches = self._decoder.batches

    def program(self, writer: RegisteredSchema, message: MessageIndex | None) -> int:
        return self._decoder.add(parse_schema(writer.text, writer.texts_by_name, defaults=False))

    def rescue(self, writer: RegisteredSchema, message: MessageIndex | None) -> Rescue | None:
        """Return what the columns lack of this writer's records, which have a program. None: nothing."""
        return avro_rescue(parse_schema(writer.text, writer.texts_by_name, defaults=False), self._schema)


class ProtobufFormat:
    kind = PROTOBUF
    has_index = True

    def __init__(self, reader: RegisteredSchema, message_name: str | None, rendering: Rendering) -> None:
        self._schema = read_schema(reader.text, reader.texts_by_name)
        self._message = only_message(self._schema) if message_name is None else self._schema.message_named(message_name)
        self._rendering = rendering
        self._decoder = ProtobufDecoder(self._schema, self._message, rendering)
        self.type: pa.DataType = self._decoder.type
        self.batches = self._decoder.batches

    def program(self, writer: RegisteredSchema, message: MessageIndex | None) -> int:
        """0, the only program."""
        schema = schema_of(writer)
        assert message is not None
        check_fits(schema, schema.message_at(message), self._schema, self._message)
        return 0

    def rescue(self, writer: RegisteredSchema, message: MessageIndex | None) -> Rescue | None:
        schema = schema_of(writer)
        assert message is not None
        return protobuf_rescue(schema, schema.message_at(message), self._schema, self._message, self._rendering)
