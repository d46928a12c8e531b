"""Spark's JSON of a type (`StructType.json()`) to an Arrow type, and Spark's names of plain types."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from kafkasource.errors import SchemaError

MOST_DEPTH = 100
MOST_PRECISION = 38

_PLAIN = {
    **dict.fromkeys(("boolean",), pa.bool_()),
    **dict.fromkeys(("byte", "tinyint"), pa.int8()),
    **dict.fromkeys(("short", "smallint"), pa.int16()),
    **dict.fromkeys(("integer", "int"), pa.int32()),
    **dict.fromkeys(("long", "bigint"), pa.int64()),
    **dict.fromkeys(("float", "real"), pa.float32()),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    **dict.fromkeys(("timestamp", "timestamp_ltz"), pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal(?:\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\))?")


def plain_type(name: str, place: str) -> pa.DataType:
    """Return the Arrow type of a type without parts. SchemaError where JSON has no value for it."""
    if name not in _PLAIN:
        raise SchemaError(
            f"{place}: no column of a JSON record has the type {name!r}; there are {', '.join(_PLAIN)}, decimal, "
            "struct, array and map"
        )
    return _PLAIN[name]


def decimal_type(precision: int, scale: int, place: str) -> pa.DataType:
    if not 0 <= scale <= precision <= MOST_PRECISION or precision == 0:
        raise SchemaError(f"{place}: decimal({precision}, {scale}); Spark has 1 to {MOST_PRECISION} digits")
    return pa.decimal128(precision, scale)


def type_of_spark_json(kind: object, place: str = "$", depth: int = 0) -> pa.DataType:
    """`kind`: what the JSON says."""
    if depth > MOST_DEPTH:
        raise SchemaError(f"{place}: more than {MOST_DEPTH} types within each other")
    if isinstance(kind, str):
        decimal = _DECIMAL.fullmatch(kind)
        if decimal is not None:
            return decimal_type(int(decimal[1] or 10), int(decimal[2] or 0), place)
        return plain_type(kind, place)
    if not isinstance(kind, Mapping):
        raise SchemaError(f"{place}: expected a type as Spark's JSON has it, got {str(kind)[:100]}")
    name = kind.get("type")
    if name == "struct":
        return _struct(kind, place, depth)
    if name == "array":
        item = type_of_spark_json(kind.get("elementType"), f"{place}[]", depth + 1)
        return pa.list_(pa.field("element", item, kind.get("containsNull") is not False))
    if name == "map":
        key = type_of_spark_json(kind.get("keyType"), f"{place}{{}}", depth + 1)
        value = type_of_spark_json(kind.get("valueType"), f"{place}{{}}", depth + 1)
        return pa.map_(key, pa.field("value", value, kind.get("valueContainsNull") is not False))
    raise SchemaError(f"{place}: no column of a JSON record has the type {str(name)[:100]!r}")


def _struct(kind: Mapping[str, object], place: str, depth: int) -> pa.DataType:
    fields = kind.get("fields")
    if not isinstance(fields, list):
        raise SchemaError(f"{place}: a struct without a list of fields")
    found = []
    for field in fields:
        name = field.get("name") if isinstance(field, Mapping) else None
        if not isinstance(name, str):
            raise SchemaError(f"{place}: a field without a name")
        within = type_of_spark_json(field.get("type"), f"{place}.{name}", depth + 1)
        found.append(pa.field(name, within, field.get("nullable") is not False))
    return pa.struct(found)
