"""The formats that a column can be written in, by the kind of their schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.encode import AvroEncoder
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.bounds import reading_a_schema
from kafkasource.formats.encoding.encode import Piece
from kafkasource.formats.json.encode import JsonEncoder
from kafkasource.formats.json.types_of import written_of
from kafkasource.formats.protobuf.encode import ProtobufEncoder
from kafkasource.formats.protobuf.message_index import index_bytes
from kafkasource.formats.protobuf.resolution import only_message
from kafkasource.formats.protobuf.schema import MessageType, ProtobufSchema, read_schema
from kafkasource.formats.schema_source import AVRO, JSON, PROTOBUF, RegisteredSchema


class RecordEncoder(Protocol):
    """Encodes one column type by one writer's schema. Threads may encode at once."""

    @property
    def may_fail(self) -> tuple[str, ...]:
        """Places where the column may be null and the schema's type may not: a null there is an error of its row."""

    def pieces(self, values: pa.Array, most_bytes: int, *, passing_over: bool = False) -> Iterator[Piece]:
        """Encode as `formats.encoding.encode.pieces` does."""


def record_encoder(
    schema: RegisteredSchema, data_type: pa.DataType, prefix: bytes, message_name: str | None = None
) -> RecordEncoder:
    """`prefix`: in front of each record. `message_name`: of a Protobuf schema that declares several. SchemaError with
    the place where the schema does not take the type."""
    with reading_a_schema():
        if schema.kind == AVRO:
            return AvroEncoder(data_type, parse_schema(schema.text, schema.texts_by_name), prefix)
        if schema.kind == PROTOBUF:
            return ProtobufEncoder(data_type, *message_of(schema, message_name), prefix)
        if schema.kind == JSON:
            return JsonEncoder(data_type, prefix, written_of(schema))
    raise SchemaError(f"$: the writer's schema is {schema.kind}, not {AVRO}, {PROTOBUF} or {JSON}")


def message_of(schema: RegisteredSchema, message_name: str | None) -> tuple[ProtobufSchema, MessageType]:
    """Return a schema's message. SchemaError where there is none of this name, or several and no name is given."""
    found = read_schema(schema.text, schema.texts_by_name)
    return found, only_message(found) if message_name is None else found.message_named(message_name)


def message_frame(schema: RegisteredSchema, message_name: str | None) -> bytes:
    """The bytes behind the schema's id: of Protobuf, the message index."""
    if schema.kind != PROTOBUF:
        return b""
    found, message = message_of(schema, message_name)
    return index_bytes(found.index_of(message))
