"""The Avro schema of a column, as Spark's `to_avro` derives it: for `writerSchema=register`.

A nullable type is [T, null], a field without a default; a decimal is a fixed; records are named for their fields, in
the namespace of the record around them, and the outermost is `topLevelRecord`. The outermost is never nullable: a null
value is a tombstone.
"""

from __future__ import annotations

import json
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as types

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.encoding.input import plain_type

Json: TypeAlias = "str | dict[str, Json] | list[Json] | int"

_TOP = "topLevelRecord"
_PLAIN: dict[pa.DataType, Json] = {
    pa.null(): "null",
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
    pa.duration("us"): "long",
}


def derived_schema(data_type: pa.DataType) -> str:
    """The schema's JSON. SchemaError with the place where Avro has no such type or name."""
    text = json.dumps(_schema(plain_type(data_type), _TOP, "", "$"), separators=(",", ":"))
    parse_schema(text)
    return text


def _schema(data_type: pa.DataType, name: str, namespace: str, place: str) -> Json:
    if types.is_struct(data_type):
        inner = f"{namespace}.{name}" if namespace else name
        fields: list[Json] = [
            {"name": field.name, "type": _of_field(field, field.name, inner, f"{place}.{field.name}")}
            for field in (data_type.field(number) for number in range(data_type.num_fields))
        ]
        return {"type": "record", **_named(name, namespace), "fields": fields}
    if types.is_list(data_type):
        return {"type": "array", "items": _of_field(data_type.value_field, name, namespace, f"{place}[]")}
    if types.is_map(data_type) and data_type.key_type == pa.string():
        return {"type": "map", "values": _of_field(data_type.item_field, name, namespace, f"{place}{{}}")}
    if types.is_decimal(data_type):
        within = f"{namespace}.{name}" if namespace else name
        logical: dict[str, Json] = {
            "logicalType": "decimal",
            "precision": data_type.precision,
            "scale": data_type.scale,
        }
        return {"type": "fixed", **_named("fixed", within), "size": _bytes_of(data_type.precision), **logical}
    if types.is_timestamp(data_type) and data_type.tz is not None:
        return {"type": "long", "logicalType": "timestamp-micros"}
    if data_type not in _PLAIN:
        raise SchemaError(f"{place}: Avro has no type for a column of {data_type}")
    return _PLAIN[data_type]


def _of_field(field: pa.Field, name: str, namespace: str, place: str) -> Json:
    schema = _schema(field.type, name, namespace, place)
    return [schema, "null"] if field.nullable and schema != "null" else schema


def _named(name: str, namespace: str) -> dict[str, Json]:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _bytes_of(precision: int) -> int:
    """The fewest bytes that hold this many digits and a sign."""
    return int((10**precision - 1).bit_length()) // 8 + 1
