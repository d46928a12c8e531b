"""Columns to Avro records: what fastavro reads of them is what the columns have; what does not fit is an error."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.encode import AvroEncoder
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.encoding.encode import CannotEncode

fastavro = pytest.importorskip("fastavro")
pytestmark = pytest.mark.peers

MIB = 1 << 20
UTC = dt.timezone.utc


def record(**fields):
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def encoded(schema, column, most_bytes=MIB, prefix=b""):
    encoder = AvroEncoder(column.type, parse_schema(json.dumps(schema)), prefix)
    found = list(encoder.pieces(column, most_bytes))
    for piece in found:
        piece.records.validate(full=True)
        assert len(piece.records) == piece.end - piece.start
    assert [piece.start for piece in found] == [0, *[piece.end for piece in found[:-1]]][: len(found)]
    return [each for piece in found for each in piece.records.to_pylist()]


def read(schema, column, **more):
    """Read with fastavro; null where a record is null."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    read_one = fastavro.schemaless_reader
    values = []
    for each in encoded(schema, column, **more):
        stream = io.BytesIO(each or b"")
        values.append(None if each is None else read_one(stream, parsed))
        assert stream.read() == b"", "bytes are left"
    return values


def refusal(schema, kind):
    with pytest.raises(SchemaError) as error:
        AvroEncoder(kind, parse_schema(json.dumps(schema)))
    return str(error.value)


def logical(kind, logical_type, **more):
    return {"type": kind, "logicalType": logical_type, **more}


NUMBERS = [0, 1, -1, 63, 64, -64, -65, 2**13, -(2**31), 2**31 - 1]


@pytest.mark.parametrize(
    ("kind", "avro", "values"),
    [
        (pa.bool_(), "boolean", [True, False, True]),
        (pa.int8(), "int", [-128, 127, 0, -1]),
        (pa.int16(), "int", [-(2**15), 2**15 - 1]),
        (pa.int32(), "int", NUMBERS),
        (pa.int8(), "long", [-128, 127]),
        (pa.int32(), "long", NUMBERS),
        (pa.int64(), "long", [*NUMBERS, -(2**63), 2**63 - 1]),
        (pa.uint32(), "long", [0, 2**32 - 1]),
        (pa.float32(), "float", [0.5, -0.0, float("inf")]),
        (pa.float32(), "double", [0.5, -2.0**-149]),
        (pa.float64(), "double", [0.1, 1e308]),
        (pa.string(), "string", ["", "é", "x" * 5000]),
        (pa.large_string(), "string", ["", "é"]),
        (pa.dictionary(pa.int32(), pa.string()), "string", ["a", "b", "a"]),
        (pa.binary(), "bytes", [b"", b"\0\xff" * 100]),
        (pa.binary(), {"type": "fixed", "name": "F", "size": 3}, [b"abc", b"\0\0\0"]),
        (pa.binary(3), {"type": "fixed", "name": "F", "size": 3}, [b"abc"]),
        (pa.binary(0), {"type": "fixed", "name": "F", "size": 0}, [b"", b""]),
        (pa.string(), {"type": "enum", "name": "E", "symbols": ["RED", "BLUE", "ROT"]}, ["BLUE", "RED", "ROT"]),
        (pa.string(), logical("string", "uuid"), ["12345678-1234-5678-1234-567812345678"]),
        (pa.date32(), logical("int", "date"), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
        (pa.timestamp("us", "UTC"), logical("long", "timestamp-micros"), [dt.datetime(1969, 12, 31, 1, 2, 3, 4, UTC)]),
        (pa.timestamp("us"), logical("long", "local-timestamp-micros"), [dt.datetime(2020, 1, 1, 0, 0, 0, 1)]),
        (pa.timestamp("ms", "UTC"), logical("long", "timestamp-micros"), [dt.datetime(2020, 1, 1, tzinfo=UTC)]),
        (pa.list_(pa.int32()), {"type": "array", "items": "int"}, [[], [1], [2, 3], []]),
        (pa.large_list(pa.int32()), {"type": "array", "items": "int"}, [[], [1]]),
        (pa.map_(pa.string(), pa.int64()), {"type": "map", "values": "long"}, [{}, {"a": 1, "b": 2}, {"": 3}]),
    ],
)  # fmt: skip
def test_values_are_what_fastavro_reads(kind, avro, values):
    given = [list(value.items()) if isinstance(value, dict) else value for value in values]
    column = pa.array(given, kind)
    theirs = read(avro, column)
    assert [str(their) if str(type(their)).endswith("UUID'>") else their for their in theirs] == values
    schema = record(a=avro, b=["null", avro] if isinstance(avro, str) else "null")
    more = column if isinstance(avro, str) else pa.nulls(len(column))
    rows = read(schema, pa.StructArray.from_arrays([column, more], ["a", "b"]))
    assert [str(r["a"]) if str(type(r["a"])).endswith("UUID'>") else r["a"] for r in rows] == values


@pytest.mark.parametrize("text", ["0", "1.27", "1.28", "-1.28", "-1.29", "327.68", "-92233720368547758.08", "9" * 36])
def test_decimals_are_the_fewest_bytes_that_java_writes_and_fill_a_fixed(text):
    column = pa.array([Decimal(text)], pa.decimal128(38, 2))
    unscaled = int(Decimal(text).scaleb(2, Context(prec=60)))
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1  # BigInteger.toByteArray
    fewest = unscaled.to_bytes(size, "big", signed=True)
    schema = logical("bytes", "decimal", precision=38, scale=2)
    assert encoded(schema, column) == [bytes([2 * size]) + fewest]
    fixed = logical("fixed", "decimal", precision=38, scale=2, name="F", size=20)
    assert encoded(fixed, column) == [unscaled.to_bytes(20, "big", signed=True)]
    assert read(schema, column) == read(fixed, column) == [Decimal(text)]


def test_a_decimal_beyond_its_fixed_is_an_error_of_its_row():
    schema = record(d=logical("fixed", "decimal", precision=4, scale=0, name="F", size=2))
    kind = pa.struct([("d", pa.decimal128(4, 0))])
    buffers = [None, pa.py_buffer((40_000).to_bytes(16, "little"))]  # five digits, which Arrow does not look at
    wrong = pa.StructArray.from_arrays([pa.Array.from_buffers(pa.decimal128(4, 0), 1, buffers)], ["d"])
    assert wrong.type == kind
    with pytest.raises(CannotEncode, match=r"\$\.d: the decimal needs more bytes"):
        encoded(schema, wrong)


def test_milliseconds_are_rounded_down_as_spark_does_also_without_a_logical_type():
    column = pa.array([-1, 999, 1000, -1000, -1001], pa.int64()).cast(pa.timestamp("us", "UTC"))
    wanted = [b"\1", b"\0", b"\2", b"\1", b"\3"]  # -1, 0, 1, -1, -2
    assert encoded(logical("long", "timestamp-millis"), column) == wanted
    assert encoded("long", column) == wanted
    assert encoded(logical("long", "local-timestamp-millis"), column.cast(pa.timestamp("us"))) == wanted


def test_nulls_are_the_null_branch_wherever_it_stands_and_a_null_row_has_no_record():
    schema = record(a=["null", "long"], b=["string", "null"], c=["int"])
    rows = [{"a": 1, "b": None, "c": 1}, None, {"a": None, "b": "x", "c": 2}]
    kind = pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.int32())])
    assert read(schema, pa.array(rows, kind)) == rows
    assert encoded(schema, pa.array(rows, kind))[0] == b"\2\2\2\0\2"


def test_a_union_of_several_types_is_its_first_member_that_is_not_null():
    schema = record(u=["string", "null", "long", {"type": "array", "items": "int"}])
    members = pa.struct([("member0", pa.string()), ("member1", pa.int64()), ("member2", pa.list_(pa.int32()))])
    empty = {"member0": None, "member1": None, "member2": None}
    us = [empty | {"member0": "x"}, empty | {"member1": 5}, empty | {"member2": [1, 2]}, empty, None,
          {"member0": "first", "member1": 2, "member2": None}]  # fmt: skip
    column = pa.array([{"u": u} for u in us], pa.struct([("u", members)]))
    assert [row["u"] for row in read(schema, column)] == ["x", 5, [1, 2], None, None, "first"]
    required = record(u=["string", "long"])
    two = pa.struct([("u", pa.struct([("member0", pa.string()), ("member1", pa.int64())]))])
    with pytest.raises(CannotEncode, match=r"\$\.u: all members of the union are null"):
        encoded(required, pa.array([{"u": {"member0": None, "member1": None}}], two))


def test_a_long_is_the_long_of_a_union_with_int():
    assert encoded(["int", "null", "long"], pa.array([7], pa.int64())) == [b"\4\x0e"]
    assert encoded(["int", "null", "long"], pa.array([7], pa.int32())) == [b"\0\x0e"]
    assert encoded(["float", "double"], pa.array([0.0], pa.float64())) == [b"\2" + bytes(8)]


def test_lists_maps_and_records_within_each_other():
    tags = {"type": "map", "values": {"type": "array", "items": ["null", "string"]}}
    inner = {"type": "record", "name": "Line", "fields": [{"name": "tags", "type": tags}]}
    schema = record(lines={"type": "array", "items": ["null", inner]}, last="int")
    line = pa.struct([("tags", pa.map_(pa.string(), pa.list_(pa.string())))])
    kind = pa.struct([("lines", pa.list_(line)), ("last", pa.int32())])
    rows: list[dict[str, Any]] = [
        {"lines": [{"tags": {"a": ["x", None], "b": []}}, None, {"tags": {}}], "last": 1},
        {"lines": [], "last": 2},
        {"lines": [{"tags": {"c": [None]}}], "last": 3},
    ]
    pairs = [{**r, "lines": [x and {"tags": list(x["tags"].items())} for x in r["lines"]]} for r in rows]
    column = pa.array(pairs * 4, kind)
    assert read(schema, column) == rows * 4
    for start in range(12):
        assert read(schema, column.slice(start, 5)) == (rows * 4)[start : start + 5]


def test_slices_of_bits_and_of_nulls_begin_where_they_begin():
    kind = pa.struct([("b", pa.bool_()), ("s", pa.string())])
    rows = [{"b": n % 3 == 0, "s": None if n % 5 == 0 else str(n)} if n % 7 else None for n in range(40)]
    schema = record(b="boolean", s=["null", "string"])
    column = pa.array(rows, kind)
    for start in range(0, 30, 3):
        assert read(schema, column.slice(start, 10)) == rows[start : start + 10]


def test_fields_are_found_by_name_in_any_order_and_case():
    schema = record(id="long", Name="string")
    column = pa.array([{"name": "x", "id": 1}], pa.struct([("name", pa.string()), ("id", pa.int64())]))
    assert read(schema, column) == [{"id": 1, "Name": "x"}]


def test_a_field_that_the_column_lacks_has_its_default_or_is_null():
    schema = record(id="long", none=["long", "null"])
    inner = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}, {"name": "s", "type": "string"}]}
    schema["fields"] += [
        {"name": "s", "type": "string", "default": "dé"},
        {"name": "u", "type": ["null", "string"], "default": None},
        {"name": "l", "type": {"type": "array", "items": "long"}, "default": [1, -300]},
        {"name": "m", "type": {"type": "map", "values": "double"}, "default": {"k": 1.5}},
        {"name": "r", "type": inner, "default": {"x": 3, "s": "t"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "default": "B"},
        {"name": "f", "type": "float", "default": 0.5},
        {"name": "t", "type": "boolean", "default": True},
    ]
    found = read(schema, pa.array([{"id": 1}], pa.struct([("id", pa.int64())])))
    assert found == [{"id": 1, "none": None, "s": "dé", "u": None, "l": [1, -300], "m": {"k": 1.5},
                      "r": {"x": 3, "s": "t"}, "e": "B", "f": 0.5, "t": True}]  # fmt: skip


@pytest.mark.parametrize(
    ("default", "written"),
    [
        (1e39, "0000807f"), (-1e300, "000080ff"), (3.4028235677973362e38, "ffff7f7f"),
        (3.4028235677973366e38, "0000807f"), (1e-50, "00000000"),
    ],
)  # fmt: skip
def test_a_default_of_a_float_is_rounded_as_java_does(default, written):
    """The bytes that GenericDatumWriter of Avro 1.12.1 writes of GenericRecordBuilder's record."""
    schema = {
        **record(id="int"),
        "fields": [{"name": "id", "type": "int"}, {"name": "f", "type": "float", "default": default}],
    }
    (piece,) = AvroEncoder(pa.struct([("id", pa.int32())]), parse_schema(json.dumps(schema))).pieces(
        pa.array([{"id": 1}], pa.struct([("id", pa.int32())])), MIB
    )
    assert piece.records[0].as_py().hex() == "02" + written


def test_what_does_not_fit_is_refused_before_a_row_with_the_place():
    row = pa.struct([("a", pa.string())])
    assert "$.a: a column of string cannot be written as long" in refusal(record(a="long"), row)
    assert "$.b: the writer's schema needs this field (int)" in refusal(record(a="string", b="int"), row)
    assert "the column has a field 'a'" in refusal(record(b=["null", "int"]), row)
    assert "cannot be written as [int, string]" in refusal(record(a=["int", "string"]), row)
    assert "member0" in refusal(record(a=["int", "string"]), row)
    assert "cannot be written as decimal(5, 2)" in refusal(
        record(a=logical("bytes", "decimal", precision=5, scale=2)), pa.struct([("a", pa.decimal128(6, 2))])
    )
    assert "cannot be written as long" in refusal(record(a="long"), pa.struct([("a", pa.uint64())]))
    assert "$.a: a column of null" in refusal(record(a="string"), pa.struct([("a", pa.null())]))
    assert "$.a[].x" in refusal(
        record(a={"type": "array", "items": record(x="int") | {"name": "X"}}),
        pa.struct([("a", pa.list_(pa.struct([("x", pa.binary())])))]),
    )


def test_a_null_where_the_schema_has_none_is_an_error_of_its_row_with_the_place():
    schema = record(lines={"type": "array", "items": {**record(price="double"), "name": "Line"}})
    kind = pa.struct([("lines", pa.list_(pa.struct([("price", pa.float64())])))])
    column = pa.array([{"lines": [{"price": 1.0}]}] * 3 + [{"lines": [{"price": None}]}], kind)
    encoder = AvroEncoder(kind, parse_schema(json.dumps(schema)))
    assert encoder.may_fail == ("$.lines", "$.lines[]", "$.lines[].price")
    pieces = encoder.pieces(column, MIB)
    assert next(pieces).end == 3  # the rows before it
    with pytest.raises(CannotEncode, match=r"^\$\.lines\[\]\.price: the value is null") as error:
        next(pieces)
    assert error.value.row == 3
    required = pa.struct([pa.field("a", pa.int64(), False)])
    assert AvroEncoder(required, parse_schema(json.dumps(record(a="long")))).may_fail == ()


@pytest.mark.parametrize(
    ("avro", "kind", "value", "reason"),
    [
        ({"type": "enum", "name": "E", "symbols": ["A", "AB"]}, pa.string(), "B", "not a symbol of"),
        ({"type": "enum", "name": "E", "symbols": ["A", "AB"]}, pa.string(), "", "not a symbol of"),
        ({"type": "fixed", "name": "F", "size": 2}, pa.binary(), b"abc", "more or fewer than the schema's fixed"),
    ],
)
def test_a_value_that_the_schema_does_not_know_is_an_error_of_its_row(avro, kind, value, reason):
    with pytest.raises(CannotEncode, match=rf"\$\.a: .*{reason}"):
        encoded(record(a=avro), pa.array([{"a": value}], pa.struct([("a", kind)])))


def test_every_symbol_of_a_large_enum_is_found():
    symbols = [f"S{number}" for number in range(1000)]
    column = pa.array(symbols)
    assert read({"type": "enum", "name": "E", "symbols": symbols}, column) == symbols


@pytest.mark.parametrize("most_bytes", [1, 100, 5000, 20_000])
def test_pieces_are_as_large_as_was_asked_for_and_a_larger_record_comes_alone(most_bytes):
    texts = ["x" * (n * 37 % 9000) for n in range(60)]
    column = pa.array(texts)
    encoder = AvroEncoder(column.type, parse_schema('"string"'), b"\0\0\0\0\7")
    found = list(encoder.pieces(column, most_bytes))
    assert [piece.records.to_pylist()[0][:5] for piece in found] == [b"\0\0\0\0\7"] * len(found)
    for piece in found:
        size = sum(map(len, piece.records.to_pylist()))
        assert piece.end - piece.start == 1 or size <= max(most_bytes, 4096)
    assert read("string", column, most_bytes=most_bytes) == texts


def test_a_record_that_ends_anywhere_near_the_end_of_a_buffer_is_whole():
    """Under AddressSanitizer (`make sanitize`) this shows a room that was compared with too few bytes."""
    kinds: list[tuple[pa.DataType, Any, Any]] = [
        (pa.decimal128(38, 0), Decimal("-" + "9" * 38), logical("bytes", "decimal", precision=38, scale=0)),
        (pa.int64(), -(2**63), "long"),
        (pa.float64(), 0.5, "double"),
        (pa.string(), "xyz", ["null", "string"]),
        (pa.binary(), b"abc", {"type": "fixed", "name": "F", "size": 3}),
        (pa.list_(pa.bool_()), [True, False], {"type": "array", "items": "boolean"}),
        (pa.float32(), 0.5, "double"),
    ]
    for kind, value, avro in kinds:
        column = pa.array(
            [{"s": "x" * n, "v": value} for n in range(4050, 4100)], pa.struct([("s", pa.string()), ("v", kind)])
        )
        schema = record(s="string", v=avro)
        assert encoded(schema, column, most_bytes=4096) == encoded(schema, column, most_bytes=MIB)
