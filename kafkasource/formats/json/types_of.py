"""The text of a reader's schema for JSON to an Arrow type: Spark's DDL, Spark's JSON of a type, or a JSON Schema."""

from __future__ import annotations

import pyarrow as pa

from kafkasource.errors import SchemaError
from kafkasource.formats.bounds import bounded_json, reading_a_schema
from kafkasource.formats.json.columns import JsonLayout
from kafkasource.formats.json.ddl import type_of_ddl
from kafkasource.formats.json.json_schema import type_of_json_schema
from kafkasource.formats.json.spark_types import type_of_spark_json
from kafkasource.formats.json.written_schema import Written, written_schema
from kafkasource.formats.schema_source import RegisteredSchema

_OF_SPARK = {"struct": "fields", "array": "elementType", "map": "keyType"}  # what its JSON has and JSON Schema has not


def column_type(reader: RegisteredSchema) -> pa.DataType:
    """The type of the column. SchemaError with the place where there is none."""
    with reading_a_schema():
        kind = _type_of(reader)
        JsonLayout(kind)
    return kind


def written_of(writer: RegisteredSchema) -> Written:
    """Read what a writer's JSON Schema allows. SchemaError where the text is not a JSON Schema."""
    with reading_a_schema():
        references = {name: _json(text, f"the reference {name!r}") for name, text in writer.references}
        return written_schema(_json(writer.text, "the schema"), references)


def _type_of(reader: RegisteredSchema) -> pa.DataType:
    if not reader.text.lstrip().startswith(("{", "true", "false", "[")):
        return type_of_ddl(reader.text)
    schema = _json(reader.text, "the schema")
    if isinstance(schema, dict) and _OF_SPARK.get(str(schema.get("type"))) in schema:
        return type_of_spark_json(schema)
    references = {name: _json(text, f"the reference {name!r}") for name, text in reader.references}
    kind = type_of_json_schema(schema, references)
    if kind == pa.string():
        raise SchemaError(
            "$: the JSON Schema does not say what an object has: no `properties`, and no schema in "
            "`additionalProperties`. Give a reader schema in Spark's DDL, or valueFormat=string"
        )
    return kind


def _json(text: str, what: str) -> object:
    try:
        return bounded_json(text)
    except ValueError as error:
        raise SchemaError(f"$: {what} is not JSON ({error})") from None
