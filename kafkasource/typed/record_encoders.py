"""The formats that a column can be written in, by the kind of their schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from kafkasource.errors import SchemaError
from kafkasource.typed.avro.encode import AvroEncoder
from kafkasource.typed.avro.parse import parse_schema
from kafkasource.typed.encoding.encode import Piece
from kafkasource.typed.schema_source import AVRO, RegisteredSchema


class RecordEncoder(Protocol):
    """Of one column type and one writer's schema. Threads may encode at once."""

    @property
    def may_fail(self) -> tuple[str, ...]:
        """Where the column may be null and the schema's type may not: a null there is an error of its row."""

    def pieces(self, values: pa.Array, most_bytes: int) -> Iterator[Piece]:
        """As `typed.encoding.encode.pieces`."""


def record_encoder(schema: RegisteredSchema, kind: pa.DataType, prefix: bytes) -> RecordEncoder:
    """`prefix`: in front of each record. SchemaError with the place where the schema does not take the type."""
    if schema.kind != AVRO:
        raise SchemaError(f"$: the writer's schema is {schema.kind}; records are written by schemas that are {AVRO}")
    return AvroEncoder(kind, parse_schema(schema.text, schema.texts_by_name), prefix)
