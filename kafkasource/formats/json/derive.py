"""The JSON Schema of a column, for `writerSchema=register`.

A field is required unless it is nullable. No field's type allows null: a record leaves a null out. Objects are closed
(`additionalProperties: false`), so a registry with BACKWARD compatibility accepts a schema with one more field. With
open objects it refuses such a schema, because older records may have anything under that name.
"""

from __future__ import annotations

import json
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as types

from kafkasource.errors import SchemaError
from kafkasource.formats.encoding.input import children, plain_type
from kafkasource.formats.json.encode import JsonEncoder

Json: TypeAlias = "str | dict[str, Json] | list[Json] | bool"

_DRAFT = "http://json-schema.org/draft-07/schema#"
_PLAIN: dict[pa.DataType, dict[str, Json]] = {
    pa.null(): {"type": "null"},
    pa.bool_(): {"type": "boolean"},
    **{each: {"type": "integer"} for each in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{each: {"type": "number"} for each in (pa.float32(), pa.float64())},
    **{each: {"type": "string"} for each in (pa.string(), pa.timestamp("us"), pa.time64("us"))},
    pa.binary(): {"type": "string", "contentEncoding": "base64"},
    pa.date32(): {"type": "string", "format": "date"},
}


def derived_json_schema(data_type: pa.DataType) -> str:
    """The schema's text. SchemaError with the place where JSON has no value for a type."""
    flat = plain_type(data_type)
    JsonEncoder(flat)  # for its errors
    return json.dumps({"$schema": _DRAFT, **_schema(flat, "$")}, separators=(",", ":"), ensure_ascii=False)


def _schema(data_type: pa.DataType, place: str) -> dict[str, Json]:
    if types.is_struct(data_type):
        fields = children(data_type)
        properties: dict[str, Json] = {field.name: _schema(field.type, f"{place}.{field.name}") for field in fields}
        if not fields:
            raise SchemaError(f"{place}: a struct without fields says nothing of its records. Name a schema")
        required: list[Json] = [field.name for field in fields if not field.nullable]
        more: dict[str, Json] = {"required": required} if required else {}
        return {"type": "object", "properties": properties, **more, "additionalProperties": False}
    if types.is_list(data_type):
        return {"type": "array", "items": _of_item(data_type.value_field, f"{place}[]")}
    if types.is_map(data_type):
        return {"type": "object", "additionalProperties": _of_item(data_type.item_field, f"{place}{{}}")}
    if types.is_decimal(data_type):
        return {"type": "integer" if data_type.scale == 0 else "number"}
    if types.is_timestamp(data_type) and data_type.tz is not None:
        return {"type": "string", "format": "date-time"}
    return dict(_PLAIN[data_type])


def _of_item(field: pa.Field, place: str) -> dict[str, Json]:
    """An item of an array, or a value of a map: its nulls are kept."""
    schema = _schema(field.type, place)
    return {"oneOf": [{"type": "null"}, schema]} if field.nullable and schema != {"type": "null"} else schema
