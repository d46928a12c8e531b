"""The schema of a writer, read once: each record says which message of it the record is, and may lie."""

from __future__ import annotations

from functools import lru_cache

from kafkasource.errors import SchemaError
from kafkasource.formats.protobuf.schema import ProtobufSchema, read_schema
from kafkasource.formats.schema_source import RegisteredSchema


def schema_of(writer: RegisteredSchema) -> ProtobufSchema:
    """Raises SchemaError."""
    found = _read(writer)
    if isinstance(found, SchemaError):
        raise type(found)(*found.args)  # one of its own: a traceback belongs to one call
    return found


@lru_cache(maxsize=16)
def _read(writer: RegisteredSchema) -> ProtobufSchema | SchemaError:
    """The error is kept, too: a schema that cannot be read costs as much as one that can."""
    try:
        return read_schema(writer.text, writer.texts_by_name)
    except SchemaError as error:
        return error.with_traceback(None)
