"""The columns of a schema are those of Spark's from_avro (SchemaConverters.toSqlType of Spark 4)."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.arrow_types import arrow_field
from kafkasource.formats.avro.parse import parse_schema

ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}
FIXED = {"type": "fixed", "name": "F", "size": 16}


def field_of(node):
    return arrow_field("f", parse_schema(json.dumps(node)))


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


@pytest.mark.parametrize(
    ("node", "column"),
    [
        ("null", pa.null()),
        ("int", pa.int32()),
        ("float", pa.float32()),
        ("bytes", pa.binary()),
        (ENUM, pa.string()),
        (FIXED, pa.binary()),
        (FIXED | {"logicalType": "uuid"}, pa.binary()),
        (logical("string", "uuid"), pa.string()),
        (logical("int", "date"), pa.date32()),
        (logical("int", "time-millis"), pa.int32()),
        (logical("long", "timestamp-millis"), pa.timestamp("us", "UTC")),
        (logical("long", "timestamp-micros"), pa.timestamp("us", "UTC")),
        (logical("long", "timestamp-nanos"), pa.int64()),
        (logical("long", "local-timestamp-millis"), pa.timestamp("us")),
        (logical("bytes", "decimal", precision=10, scale=2), pa.decimal128(10, 2)),
        (logical("bytes", "decimal", precision=2, scale=10), pa.binary()),
        (["int"], pa.int32()),
        (["long", "int"], pa.int64()),
        (["double", "float"], pa.float64()),
    ],
)
def test_a_type_has_the_column_that_from_avro_gives_it(node, column):
    assert field_of(node) == pa.field("f", column, nullable=node == "null")
    if node != "null":
        branches = node if isinstance(node, list) else [node]
        assert field_of(["null", *branches]) == pa.field("f", column)


def test_a_union_is_a_struct_of_its_members_null_not_counted():
    members = pa.struct([pa.field("member0", pa.int32()), pa.field("member1", pa.string())])
    assert field_of(["int", "string"]) == pa.field("f", members, nullable=False)
    assert field_of(["int", "null", "string"]) == pa.field("f", members)
    numbers = [pa.field(f"member{i}", kind) for i, kind in enumerate((pa.int32(), pa.int64(), pa.float32()))]
    assert field_of(["int", "long", "float"]).type == pa.struct(numbers)


def test_items_values_and_fields_are_nullable_where_their_schema_is():
    fields = [{"name": "a", "type": {"type": "array", "items": ["null", "int"]}}]
    fields += [{"name": "m", "type": {"type": "map", "values": "int"}}]
    struct = field_of({"type": "record", "name": "R", "fields": fields}).type
    assert struct.field("a") == pa.field("a", pa.list_(pa.field("element", pa.int32())), nullable=False)
    assert struct.field("m") == pa.field("m", pa.map_(pa.string(), pa.field("value", pa.int32(), False)), False)


def test_a_decimal_of_more_digits_than_spark_has_is_an_error_with_its_place():
    items = logical("bytes", "decimal", precision=39)
    with pytest.raises(SchemaError, match=r"\$\[\]: a decimal of 39 digits"):
        field_of({"type": "array", "items": items})
