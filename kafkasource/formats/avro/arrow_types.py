"""The Arrow type of a schema, as Spark's `from_avro` has it, so that jobs move without a change.

| Avro | column |
|---|---|
| [null, T] | T, nullable; all else is not nullable, except null itself and the members below |
| [int, long]; [float, double] | long; double |
| any other union | struct of member0, member1, ..., null not counted; the member that is there is not null |
| enum, string with uuid | string |
| fixed, bytes | binary; decimal(precision, scale) where they are decimals |
| map | map of string |
| date | date |
| timestamp-millis, timestamp-micros | timestamp in microseconds, UTC |
| local-timestamp-millis, local-timestamp-micros | timestamp in microseconds without a zone |
| every other logical type, nanoseconds too | its base type |
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.schema import (
    Again,
    AvroArray,
    AvroEnum,
    AvroRecord,
    Fixed,
    Map,
    Schema,
    Union,
    is_null,
    kind_of,
)

MOST_PRECISION = 38  # of Arrow's decimal128, and of Spark
NUMBERS = (({"int", "long"}, "long"), ({"float", "double"}, "double"))  # unions that are one number

_UTC = pa.timestamp("us", "UTC")
_LOCAL = pa.timestamp("us")
_PRIMITIVE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": _UTC,
    "timestamp-micros": _UTC,
    "local-timestamp-millis": _LOCAL,
    "local-timestamp-micros": _LOCAL,
}


def arrow_type(schema: Schema, place: str = "$") -> pa.DataType:
    """The type of the schema's column. SchemaError with the place where Arrow and Spark have none."""
    if isinstance(schema, AvroRecord):
        return pa.struct([arrow_field(field.name, field.schema, f"{place}.{field.name}") for field in schema.fields])
    if isinstance(schema, AvroArray):
        return pa.list_(arrow_field("element", schema.items, f"{place}[]"))
    if isinstance(schema, Map):
        return pa.map_(pa.string(), arrow_field("value", schema.values, f"{place}{{}}"))
    if isinstance(schema, Union):
        return _union_type(schema, place)
    if isinstance(schema, AvroEnum):
        return pa.string()
    if isinstance(schema, Again):
        raise SchemaError(
            f"{place}: {schema.name} contains itself, and Spark has no type for that. Give a reader schema without "
            "this field"
        )
    if schema.logical is not None and schema.logical.precision:
        if schema.logical.precision > MOST_PRECISION:
            raise SchemaError(
                f"{place}: a decimal of {schema.logical.precision} digits; Spark has {MOST_PRECISION} at most."
                " Give a reader schema without the field, or with plain bytes"
            )
        return pa.decimal128(schema.logical.precision, schema.logical.scale)
    if isinstance(schema, Fixed):
        return pa.binary()
    return _LOGICAL.get(schema.logical.name if schema.logical else "", _PRIMITIVE[schema.kind])


def arrow_field(name: str, schema: Schema, place: str = "$") -> pa.Field:
    return pa.field(name, arrow_type(schema, place), nullable(schema))


def nullable(schema: Schema) -> bool:
    return is_null(schema) or (isinstance(schema, Union) and any(map(is_null, schema.branches)))


def members(union: Union) -> tuple[Schema, ...]:
    """The branches but null."""
    return tuple(branch for branch in union.branches if not is_null(branch))


def number_of(branches: Sequence[Schema]) -> str | None:
    """`long` or `double` where the branches, null not counted, are one number; else None."""
    kinds = {kind_of(branch) for branch in branches}
    return next((wide for both, wide in NUMBERS if kinds == both), None)


def _union_type(union: Union, place: str) -> pa.DataType:
    branches = members(union)
    if not branches:
        return pa.null()
    if len(branches) == 1:
        return arrow_type(branches[0], f"{place}({union.branches.index(branches[0])})")
    number = number_of(branches)
    if number:
        return _PRIMITIVE[number]
    places = {id(branch): f"{place}({number})" for number, branch in enumerate(union.branches)}
    return pa.struct(
        [pa.field(f"member{i}", arrow_type(branch, places[id(branch)])) for i, branch in enumerate(branches)]
    )
