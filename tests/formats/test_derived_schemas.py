"""A column gets the schema that spark-avro 4.1.1's `SchemaConverters.toAvroType` derives."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.derive import derived_schema
from kafkasource.formats.avro.encode import AvroEncoder
from kafkasource.formats.avro.parse import parse_schema

EVERY = pa.struct(
    [
        pa.field("number", pa.int64(), False),
        pa.field("small", pa.int8()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us"), False),
        pa.field("day", pa.date32(), False),
        pa.field("price", pa.decimal128(9, 2), False),
        pa.field(
            "lines", pa.list_(pa.struct([pa.field("cost", pa.decimal128(38, 0)), pa.field("nothing", pa.null())]))
        ),
        pa.field("counts", pa.map_(pa.string(), pa.field("value", pa.int32(), False)), False),
        pa.field("within", pa.struct([pa.field("flag", pa.bool_(), False), pa.field("data", pa.binary())]), False),
    ]
)
COST = {"type": "fixed", "name": "fixed", "namespace": "topLevelRecord.lines.cost", "size": 16,
        "logicalType": "decimal", "precision": 38, "scale": 0}  # fmt: skip
LINES = {"type": "record", "name": "lines", "namespace": "topLevelRecord",
         "fields": [{"name": "cost", "type": [COST, "null"]}, {"name": "nothing", "type": "null"}]}  # fmt: skip
WITHIN = {"type": "record", "name": "within", "namespace": "topLevelRecord",
          "fields": [{"name": "flag", "type": "boolean"}, {"name": "data", "type": ["bytes", "null"]}]}  # fmt: skip
PRICE = {"type": "fixed", "name": "fixed", "namespace": "topLevelRecord.price", "size": 4,
         "logicalType": "decimal", "precision": 9, "scale": 2}  # fmt: skip
WANTED = {
    "type": "record",
    "name": "topLevelRecord",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "small", "type": ["int", "null"]},
        {"name": "at", "type": [{"type": "long", "logicalType": "timestamp-micros"}, "null"]},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": PRICE},
        {"name": "lines", "type": [{"type": "array", "items": [LINES, "null"]}, "null"]},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "within", "type": WITHIN},
    ],
}


def test_each_type_is_what_spark_derives_and_takes_its_own_column():
    assert json.loads(derived_schema(EVERY)) == WANTED
    assert AvroEncoder(EVERY, parse_schema(derived_schema(EVERY))).may_fail == ()
    assert derived_schema(pa.string()) == '"string"'
    assert derived_schema(pa.large_list(pa.large_string())) == '{"type":"array","items":["string","null"]}'


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (pa.struct([("a b", pa.int64())]), "'a b' is not a name"),
        (pa.struct([("m", pa.map_(pa.int32(), pa.int32()))]), r"\$\.m: Avro has no type for a column of map<int32"),
        (pa.list_(pa.uint64()), r"\$\[\]: Avro has no type for a column of uint64"),
    ],
)
def test_what_avro_cannot_name_or_hold_is_an_error_with_the_place(kind, words):
    with pytest.raises(SchemaError, match=words):
        derived_schema(kind)


@pytest.mark.parametrize("precision", range(1, 39))
def test_a_fixed_decimal_is_as_small_as_its_digits_allow(precision):
    size = json.loads(derived_schema(pa.decimal128(precision, 0)))["size"]
    assert 2 ** (8 * size - 1) > 10**precision - 1
    assert size == 1 or 2 ** (8 * size - 9) <= 10**precision - 1
