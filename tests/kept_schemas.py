"""A source of schemas in memory, and records as Confluent's serializers frame them. fastavro encodes the records."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import pytest

from kafkasource.errors import UnknownSchemaId
from kafkasource.formats.schema_source import RegisteredSchema

fastavro = pytest.importorskip("fastavro")


class KeptSchemas:
    def __init__(self, schemas: Mapping[int | UUID, Any]) -> None:
        """`schemas`: RegisteredSchema, or Avro's JSON as values."""
        self._schemas = schemas
        self.asked: list[int | UUID] = []

    def schema(self, schema_id: int | UUID) -> RegisteredSchema:
        self.asked.append(schema_id)
        if schema_id not in self._schemas:
            raise UnknownSchemaId(f"no schema {schema_id}")
        found = self._schemas[schema_id]
        return found if isinstance(found, RegisteredSchema) else avro(found)

    def versions_from(self, schema_id: int | UUID) -> Iterator[tuple[str, RegisteredSchema]]:
        yield from ()


def avro(schema: Any) -> RegisteredSchema:
    return RegisteredSchema("AVRO", json.dumps(schema))


def encoded(schema: Any, record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


def framed(schema_id: int, schema: Any, record: Any) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + encoded(schema, record)
