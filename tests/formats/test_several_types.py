"""Records of several types in one column (`recordTypes`). fastavro and Google's protobuf write them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from kept_schemas import KeptSchemas, framed

from kafkasource.errors import SchemaError
from kafkasource.formats.record_formats import record_format
from kafkasource.formats.rows import RegisteredRows
from kafkasource.formats.schema_source import AVRO, PROTOBUF, RecordType, RegisteredSchema

MANY_BYTES = 16 << 20
ORDER = {
    "type": "record", "name": "shop.Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "tags", "type": {"type": "array", "items": "string"}}],
}  # fmt: skip
OLD_ORDER = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "int"}]}
READ_ORDER = {**ORDER, "fields": [ORDER["fields"][0], {**ORDER["fields"][1], "default": ["none"]}]}
REFUND = {
    "type": "record", "name": "shop.Refund",
    "fields": [{"name": "id", "type": "long"}, {"name": "why", "type": ["null", "string"]}],
}  # fmt: skip
LOGIN = {"type": "record", "name": "users.Login", "fields": [{"name": "id", "type": "long"}]}
BOTH = [ORDER, REFUND, LOGIN]

PROTO = """syntax = "proto3"; package shop;
message Order { int64 id = 1; repeated string tags = 2; }
message Refund { int64 id = 1; string why = 2; message Part { int32 n = 1; } }
message Login { int64 id = 1; }
"""


def avro_types(*schemas):
    return [RecordType(schema["name"], RegisteredSchema(AVRO, json.dumps(schema))) for schema in schemas]


def rows_of(types, sources, values, most_bytes=MANY_BYTES):
    """(values, (row, schema id, reason) of each bad row)."""
    rows = RegisteredRows(types[0].schema, KeptSchemas(sources), types=types)
    found, bad = [], []
    for piece in rows.pieces(pa.array(values, pa.binary()), None, most_bytes):
        piece.array.validate(full=True)
        assert piece.array.type == rows.type
        found += piece.array.to_pylist()
        bad += [(bad_row.row, bad_row.schema_id, f"{bad_row.place} {bad_row.reason}".strip()) for bad_row in piece.bad]
    return found, bad


def test_each_avro_record_fills_the_column_of_its_type():
    orders = [{"id": n, "tags": [f"t{n}"] * (n % 3)} for n in range(40)]
    refunds = [{"id": -n, "why": None if n % 2 else f"w{n}"} for n in range(40)]
    values = []
    for order, refund in zip(orders, refunds, strict=True):
        values += [framed(1, ORDER, order), framed(2, REFUND, refund), framed(3, OLD_ORDER, {"id": order["id"]})]
    values += [None, framed(4, LOGIN, {"id": 1}), framed(1, ORDER, orders[1])[:-1]]
    sources = {1: ORDER, 2: REFUND, 3: OLD_ORDER, 4: LOGIN}
    found, bad = rows_of(avro_types(READ_ORDER, REFUND), sources, values)
    expected = []
    for order, refund in zip(orders, refunds, strict=True):
        expected += [
            {"Order": order, "Refund": None},
            {"Order": None, "Refund": refund},
            {"Order": {"id": order["id"], "tags": ["none"]}, "Refund": None},
        ]
    assert found == [*expected, None, None, None]
    assert [(row, schema_id) for row, schema_id, _ in bad] == [(121, 4), (122, 1)]
    assert "users.Login, which recordTypes does not name (shop.Order, shop.Refund)" in bad[0][2]
    assert bad[1][2].startswith("$.tags")


def test_one_type_alone_takes_no_other_record_though_its_fields_would_fit():
    values = [framed(4, LOGIN, {"id": 1}), framed(3, OLD_ORDER, {"id": 2})]
    found, bad = rows_of(avro_types(OLD_ORDER), {3: OLD_ORDER, 4: LOGIN}, values)
    assert found == [None, {"Order": {"id": 2}}]
    assert [row for row, *_ in bad] == [0]


def test_a_record_in_a_union_that_is_not_named_is_bad_though_its_name_ends_like_one_that_is():
    legacy = {**OLD_ORDER, "name": "legacy.Order"}
    union = [OLD_ORDER, REFUND, legacy]
    written = [("legacy.Order", {"id": 7}), ("shop.Order", {"id": 8})]
    values = [framed(1, union, text) for text in written]
    found, bad = rows_of(avro_types(OLD_ORDER, REFUND), {1: union}, values)
    assert found == [None, {"Order": {"id": 8}, "Refund": None}]
    assert [row for row, *_ in bad] == [0]


@pytest.mark.parametrize("types", [(REFUND, LOGIN), (REFUND,)])
def test_a_writer_may_be_a_union_of_the_records(types):
    """Return the schema of a topic's subject that refers to the schemas of its types."""
    values = [
        framed(1, BOTH, ("shop.Refund", {"id": 1, "why": "w"})),
        framed(1, BOTH, ("shop.Order", {"id": 2, "tags": []})),
    ]
    found, bad = rows_of(avro_types(*types), {1: BOTH}, values)
    assert found == [{"Refund": {"id": 1, "why": "w"}, **({"Login": None} if len(types) > 1 else {})}, None]
    assert [(row, reason) for row, _, reason in bad] == [
        (1, "$(0) the reader's schema has no type that takes this branch of the writer's union")
    ]


def test_the_types_may_be_named_in_one_schema():
    schema = RegisteredSchema(AVRO, json.dumps(BOTH))
    kind = record_format(schema, None, [RecordType("users.Login", schema), RecordType("shop.Order", schema)]).type
    assert kind == pa.struct(
        [
            ("Login", pa.struct([pa.field("id", pa.int64(), False)])),
            ("Order", pa.struct([pa.field("id", pa.int64(), False),
                                 pa.field("tags", pa.list_(pa.field("element", pa.string(), False)), False)])),
        ]
    )  # fmt: skip
    with pytest.raises(SchemaError, match=r"no record shop\.None"):
        record_format(schema, None, [RecordType("shop.None", schema)])


def test_columns_of_types_with_the_same_last_name_have_the_whole_names():
    other = {**LOGIN, "name": "shop.Login"}
    kind = record_format(RegisteredSchema(AVRO, "[]"), None, avro_types(LOGIN, other)).type
    assert [field.name for field in kind] == ["users.Login", "shop.Login"]


def message_classes():
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    for name, second in (("Order", "tags"), ("Refund", "why"), ("Login", None)):
        message = file.message_type.add(name=name)
        message.field.add(name="id", number=1, type=3, label=1)
        if second:
            message.field.add(name=second, number=2, type=9, label=3 if second == "tags" else 1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{each}"))
        for each in ("Order", "Refund", "Login")
    ]


@pytest.mark.parametrize(
    "most_bytes", [MANY_BYTES, 1 << 20, 10_000], ids=["many bytes", "1 MiB", "less than one row needs"]
)
def test_each_protobuf_message_fills_the_column_of_its_type(most_bytes):
    order, refund, login = message_classes()
    frame = b"\0\0\0\0\1"
    values, expected = [], []
    for n in range(1, 2000):
        values += [
            frame + b"\0" + order(id=n, tags=[f"t{n}"] * (n % 3) * 9).SerializeToString(),
            frame + b"\2\2" + refund(id=n, why="w" * (n % 90 + 1)).SerializeToString(),
        ]
        expected += [
            {"Order": {"id": n, "tags": [f"t{n}"] * (n % 3) * 9}, "Refund": None},
            {"Order": None, "Refund": {"id": n, "why": "w" * (n % 90 + 1)}},
        ]
    values += [
        frame + b"\2\4" + login(id=1).SerializeToString(), None, frame + b"\2\2\x12\x05w", frame + b"\4\2\0" + b"\x08\1"
    ]  # fmt: skip
    schema = RegisteredSchema(PROTOBUF, PROTO)
    types = [RecordType("shop.Order", schema), RecordType("shop.Refund", schema)]
    found, bad = rows_of(types, {1: schema}, values, most_bytes)
    assert found == [*expected, None, None, None, None]
    first, *_ = (row for row, *_ in bad)
    assert [row - first for row, *_ in bad] == [0, 2, 3]
    assert "shop.Login, which recordTypes does not name (shop.Order, shop.Refund)" in bad[0][2]
    assert bad[1][2].startswith("$.Refund.why")
    assert "shop.Refund.Part" in bad[2][2]


def test_records_of_one_protobuf_type_alone_fill_its_column():
    schema = RegisteredSchema(PROTOBUF, PROTO)
    types = [RecordType(name, schema) for name in ("shop.Refund", "shop.Order")]
    found, bad = rows_of(types, {1: schema}, [b"\0\0\0\0\1\2\2\x08\7", None])
    assert (found, bad) == ([{"Refund": {"id": 7, "why": None}, "Order": None}, None], [])
