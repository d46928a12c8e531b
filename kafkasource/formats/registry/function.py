"""The option `schemaRegistry=module:function`: schemas by their ids from the user's code, in place of a registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kafkasource.errors import RegistryError, UnknownSchemaId
from kafkasource.formats.schema_source import AVRO, JSON, PROTOBUF, RegisteredSchema, SchemaId, SchemaSource
from kafkasource.options import user_functions
from kafkasource.options.types import is_json

FUNCTION = "schemaRegistry"


@dataclass(frozen=True, slots=True)
class FunctionSchemas:
    """The option `schemaRegistry`."""

    function: str  # module:function

    def for_tasks(self, _subjects: Sequence[str]) -> FunctionSchemas:
        return self

    def source(self) -> SchemaSource:
        return self

    def schema(self, schema_id: SchemaId) -> RegisteredSchema:
        """A process asks the function once for an id. What it raises fails the task; None is an unknown id."""
        text = _asked(self.function, schema_id)
        return RegisteredSchema(AVRO if is_json(text) else PROTOBUF, text)

    def versions_from(self, schema_id: SchemaId) -> Iterator[tuple[str, RegisteredSchema]]:
        yield from ()

    def schema_as(self, schema_id: SchemaId, kind: str) -> RegisteredSchema:
        """Return the schema as a JSON Schema where one is wanted: its text looks like Avro's."""
        found = self.schema(schema_id)
        return RegisteredSchema(JSON, found.text) if kind == JSON else found


@lru_cache(maxsize=4096)
def _asked(function: str, schema_id: SchemaId) -> str:
    loaded = user_functions.load(function, FUNCTION)
    try:
        text = loaded(schema_id)
    except Exception as error:  # the user's code may raise anything
        raise RegistryError(
            f"option {FUNCTION!r}: {function} failed for schema id {schema_id}: {type(error).__name__}: {error}. Let it"
            " return None where there is no such id"
        ) from error
    if text is None:
        raise UnknownSchemaId(f"{function} returned None for schema id {schema_id}")
    if not isinstance(text, str):
        raise RegistryError(
            f"option {FUNCTION!r}: {function} gave {type(text).__name__} for schema id {schema_id}; expected the "
            "schema's text (str), or None"
        )
    return text
