"""Columns written as JSON. The texts are what Spark's `to_json` wrote (4.2.0, Java 17, in UTC); Python's `json` and
`repr` say what others mean."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import random
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_inputs import examples

from kafkasource.errors import SchemaError
from kafkasource.formats.encoding import COMPILED
from kafkasource.formats.encoding.encode import CannotEncode
from kafkasource.formats.json.decode import JsonDecoder
from kafkasource.formats.json.derive import derived_json_schema
from kafkasource.formats.json.encode import JsonEncoder
from kafkasource.formats.json.types_of import column_type, written_of
from kafkasource.formats.schema_source import JSON, RegisteredSchema

UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
TIMESTAMP = pa.timestamp("us", "UTC")


def written(values, kind, schema=None, most_bytes=1 << 20, **options):
    """The records of an array, or of values of a type."""
    shape = {} if schema is None else {"schema": written_of(RegisteredSchema(JSON, json.dumps(schema)))}
    found = []
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    for piece in JsonEncoder(kind, **shape, **options).pieces(array, most_bytes):
        piece.records.validate(full=True)
        assert len(piece.records) == piece.end - piece.start
        found += piece.records.to_pylist()
    return found


def one(value, kind, **options):
    (record,) = written([{"a": value}], pa.struct([("a", kind)]), **options)
    return record.decode().removeprefix('{"a":').removesuffix("}")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (Decimal("0.0000001"), pa.decimal128(10, 7), "1E-7"),
        (Decimal("0.0000000"), pa.decimal128(10, 7), "0E-7"),
        (Decimal("-12.50"), pa.decimal128(38, 2), "-12.50"),
        (Decimal(10) ** 20, pa.decimal128(38, 0), "100000000000000000000"),
        (Decimal("0.000001"), pa.decimal128(10, 6), "0.000001"),
        (Decimal("-0.00000123"), pa.decimal128(18, 8), "-0.00000123"),
        (Decimal("0.00"), pa.decimal128(5, 2), "0.00"),
        (math.nan, pa.float64(), '"NaN"'),
        (-math.inf, pa.float64(), '"-Infinity"'),
        (1.0e10, pa.float64(), "1.0E10"),
        (0.001, pa.float64(), "0.001"),
        (0.0001, pa.float64(), "1.0E-4"),
        (1.0e7, pa.float64(), "1.0E7"),
        (9999999.5, pa.float64(), "9999999.5"),
        (-0.0, pa.float64(), "-0.0"),
        (4.9e-324, pa.float64(), "4.9E-324"),
        (1.1, pa.float32(), "1.1"),
        (math.inf, pa.float32(), '"Infinity"'),
        (3.4028234663852886e38, pa.float32(), "3.4028235E38"),
        (1.401298464324817e-45, pa.float32(), "1.4E-45"),
        (123456789.125, pa.float64(), "1.23456789125E8"),
        (1.7976931348623157e308, pa.float64(), "1.7976931348623157E308"),
        (0.0, pa.float64(), "0.0"),
        (16777216.0, pa.float32(), "1.6777216E7"),
        (EPOCH + dt.timedelta(microseconds=1715000000123000), TIMESTAMP, '"2024-05-06T12:53:20.123Z"'),
        (dt.datetime(2024, 5, 6, 7, 8, 9), pa.timestamp("us"), '"2024-05-06T07:08:09.000"'),
        (dt.date(2024, 5, 6), pa.date32(), '"2024-05-06"'),
        ('q"b\\s/t\t\n\r\b\f\x01\x1f\x7fé😀\0\x85\u2028', pa.string(),
         '"q\\"b\\\\s/t\\t\\n\\r\\b\\f\\u0001\\u001F\x7fé😀\\u0000\x85\u2028"'),
        (b"\x00\xff\x10", pa.binary(), '"AP8Q"'),
        (b"", pa.binary(), '""'),
        (-128, pa.int8(), "-128"),
        (-32768, pa.int16(), "-32768"),
        (-(2**31), pa.int32(), "-2147483648"),
        (-(2**63), pa.int64(), "-9223372036854775808"),
        (True, pa.bool_(), "true"),
        ([1, None], pa.list_(pa.int32()), "[1,null]"),
        ([("k", None), ("l", 1)], pa.map_(pa.string(), pa.int32()), '{"k":null,"l":1}'),
        ({"x": None}, pa.struct([("x", pa.int32())]), "{}"),
        ([{"y": None}], pa.list_(pa.struct([("y", pa.string())])), "[{}]"),
        ([], pa.map_(pa.string(), pa.string()), "{}"),
        ([], pa.list_(pa.null()), "[]"),
        ([(1, 2)], pa.map_(pa.int32(), pa.int32()), '{"1":2}'),
        ([(True, 1)], pa.map_(pa.bool_(), pa.int32()), '{"true":1}'),
        ([(dt.date(2024, 5, 6), 1)], pa.map_(pa.date32(), pa.int32()), '{"19849":1}'),
        ([(Decimal("1.50"), 1)], pa.map_(pa.decimal128(5, 2), pa.int32()), '{"1.50":1}'),
        ([(1.5, 1)], pa.map_(pa.float64(), pa.int32()), '{"1.5":1}'),
        ([(EPOCH + dt.timedelta(microseconds=5), 1)], pa.map_(TIMESTAMP, pa.int32()), '{"5":1}'),
        (dt.time(1, 2, 3, 500000), pa.time64("ns"), '"01:02:03.5"'),
    ],
)  # fmt: skip
def test_a_value_has_the_text_of_to_json(value, kind, text):
    assert one(value, kind) == text


@pytest.mark.parametrize(
    ("kind", "number", "text"),
    [
        (pa.date32(), 2932897, '"+10000-01-01"'),
        (pa.date32(), -719562, '"-0001-11-28"'),
        (TIMESTAMP, -1000, '"1969-12-31T23:59:59.999Z"'),
        (TIMESTAMP, 253402300800000000, '"+10000-01-01T00:00:00.000Z"'),
        (TIMESTAMP, -62135596800001000, '"0000-12-31T23:59:59.999Z"'),
        # to_json cuts microseconds off; they stay here
        (TIMESTAMP, 1715000000123456, '"2024-05-06T12:53:20.123456Z"'),
        (TIMESTAMP, -1, '"1969-12-31T23:59:59.999999Z"'),
    ],
)
def test_times_that_python_does_not_have(kind, number, text):
    column = pa.StructArray.from_arrays(
        [pa.array([number], pa.int64() if kind == TIMESTAMP else pa.int32()).view(kind)], ["a"]
    )
    assert written(column, column.type) == [b'{"a":%s}' % text.encode()]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("61FFE28240F09F62", "a\ufffd\ufffd@\ufffdb"),
        ("EDA080", "\ufffd"),
        ("C3", "\ufffd"),
        ("61E282", "a\ufffd"),
        ("F4908080", "\ufffd\ufffd\ufffd\ufffd"),
        ("C0AF", "\ufffd\ufffd"),
        ("E28200", "\ufffd\\u0000"),
    ],
)
def test_bytes_that_are_no_utf8_are_what_java_makes_of_them(raw, text):
    data = bytes.fromhex(raw)
    texts = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(struct.pack("=2i", 0, len(data))), pa.py_buffer(data)]
    )
    column = pa.StructArray.from_arrays([texts], ["a"])
    assert written(column, column.type) == [f'{{"a":"{text}"}}'.encode()]


def test_a_null_row_is_a_tombstone_and_a_null_field_is_left_out():
    kind = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.null())])
    rows = [{"a": None, "b": "x"}, None, {"a": 1, "b": None}, {"a": None, "b": None}]
    assert written(rows, kind) == [b'{"b":"x"}', None, b'{"a":1}', b"{}"]


def test_names_are_escaped_as_texts_are():
    assert written([{'a"\n\x1f\\u00ab': 1}], pa.struct([('a"\n\x1f\\u00ab', pa.int32())])) == [
        b'{"a\\"\\n\\u001F\\\\u00ab":1}'
    ]


def digits_of(text):
    return Decimal(text).normalize().as_tuple()


def test_a_double_has_the_fewest_digits_that_are_read_as_it_and_a_float_too():
    drawn = random.Random(7)
    count = 50_000 if COMPILED else 1_000
    doubles = [struct.unpack("d", drawn.randbytes(8))[0] for _ in range(count)]
    doubles += [2.0**power for power in range(-1074, 1024)]
    doubles += [round(drawn.uniform(0, 1e6), drawn.randrange(10)) for _ in range(count)]
    doubles += [float(drawn.randrange(10 ** drawn.randrange(1, 20))) for _ in range(count)]
    doubles = [double for double in doubles if math.isfinite(double) and double]
    records = written([{"a": double} for double in doubles], pa.struct([("a", pa.float64())]))
    for value, record in zip(doubles, records, strict=True):
        text = record[5:-1].decode()
        assert float(text) == value
        if len(digits_of(repr(value)).digits) > 1:  # Java counts two digits at least
            assert digits_of(text) == digits_of(repr(value))
    floats = pa.array([drawn.randbytes(4) for _ in range(count)], pa.binary(4)).view(pa.float32())
    column = pa.StructArray.from_arrays([floats], ["a"])
    for value, record in zip(floats.to_pylist(), written(column, column.type), strict=True):
        if math.isfinite(value):
            assert struct.unpack("f", struct.pack("f", float(record[5:-1])))[0] == value


SCALARS = {
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=40),
    pa.binary(): st.binary(max_size=40),
    pa.date32(): st.dates(),
    TIMESTAMP: st.datetimes(timezones=st.just(UTC)),
    pa.timestamp("us"): st.datetimes(),
    pa.decimal128(38, 10): st.decimals(min_value=-(10**27), max_value=10**27, places=10),
    pa.decimal128(20, 0): st.decimals(min_value=-(10**19), max_value=10**19, places=0),
    pa.decimal128(12, 12): st.decimals(min_value=Decimal("-0.9"), max_value=Decimal("0.9"), places=12),
}


def _nested(inner):
    names = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4, unique=True)
    return st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        names.flatmap(lambda found: st.tuples(*[st.tuples(st.just(name), inner) for name in found]).map(pa.struct)),
    )


TYPES = _nested(st.recursive(st.sampled_from(list(SCALARS)), _nested, max_leaves=6))


def values_of(kind):
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: st.none() | values_of(field.type) for field in kind})
    if pa.types.is_map(kind):
        entries = st.dictionaries(st.text(max_size=8), st.none() | values_of(kind.item_type), max_size=3)
        return entries.map(lambda found: list(found.items()))
    if pa.types.is_list(kind):
        return st.lists(st.none() | values_of(kind.value_type), max_size=3)
    return SCALARS[kind]


def meant(value, kind):
    """Return what Python's json should read of a value, by the table of formats.json.encode; numbers as Decimal."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: meant(value[field.name], field.type) for field in kind if value[field.name] is not None}
    if pa.types.is_map(kind):
        return {key: meant(each, kind.item_type) for key, each in value}
    if pa.types.is_list(kind):
        return [meant(item, kind.value_type) for item in value]
    if pa.types.is_floating(kind):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}[value]
    if kind == pa.binary():
        return base64.b64encode(value).decode()
    if pa.types.is_timestamp(kind):
        digits = 3 if value.microsecond % 1000 == 0 else 6
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds" if digits == 3 else "microseconds")
        return text + ("Z" if kind.tz else "")
    if kind == pa.date32():
        return value.isoformat()
    return value


def same(read, value):
    if isinstance(value, dict):
        return list(read) == list(value) and all(same(read[name], value[name]) for name in value)
    if isinstance(value, list):
        return len(read) == len(value) and all(map(same, read, value))
    if isinstance(value, float):
        return float(read) == value or struct.pack("f", float(read)) == struct.pack("f", value)
    return read == value and isinstance(read, bool) == isinstance(value, bool)


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_records_are_json_that_means_the_values_and_are_read_back_as_they_were(data):
    kind = data.draw(TYPES)
    values = data.draw(st.lists(st.none() | values_of(kind), min_size=1, max_size=5))
    array = pa.array([None, *values], kind)[1:]  # buffers that do not begin with the first row
    records = written(array, kind, most_bytes=data.draw(st.sampled_from([1, 100, 1 << 20])))
    for record, value in zip(records, values, strict=True):
        if value is None:
            assert record is None
        else:
            assert same(json.loads(record, parse_float=Decimal), meant(value, kind))
    (piece,) = JsonDecoder(kind).batches(pa.array(records, pa.binary()), 1 << 26)
    assert piece.array.equals(array), list(piece.faults())


def test_a_record_that_is_larger_than_a_piece_is_a_piece_of_its_own():
    values = [{"a": "x" * 10, "b": "\x01" * 5000}, {"a": "é" * 4000, "b": ""}, {"a": "", "b": "y"}]
    kind = pa.struct([("a", pa.string()), ("b", pa.string())])
    assert list(map(json.loads, written(values, kind, most_bytes=64))) == values


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (pa.string(), "from a struct, a map or an array"),
        (pa.int64(), "from a struct, a map or an array"),
        (pa.struct([("a", pa.struct([("b", pa.duration("us"))]))]), r"\$\.a\.b: JSON has no value for .*duration"),
        (pa.map_(pa.binary(), pa.int32()), r"\$\{\}: a key of type binary"),
    ],
)
def test_a_type_without_json_is_refused_with_its_place(kind, words):
    with pytest.raises(SchemaError, match=words):
        JsonEncoder(kind)


def test_any_type_is_written_where_that_is_asked_for():
    assert written([1, None], pa.duration("us"), any_type=True) == [b"1", None]
    kind = pa.map_(pa.binary(), pa.duration("ms"))
    assert written([[(b"k", 3)]], kind, any_type=True) == [b'[{"key":"aw==","value":3000}]']


ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "seen": {"type": ["null", "integer"]},
        "colour": {"enum": ["RED", "BLUE"]},
        "price": {"type": "number"},
        "more": {},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
        },
    },
    "required": ["id", "note"],
}  # fmt: skip


def test_a_schema_says_which_nulls_stand_in_the_record_and_how_names_are_spelled():
    kind = pa.struct([("ID", pa.int32()), ("seen", pa.int64()), ("more", pa.list_(pa.bool_()))])
    assert written([{"ID": 1, "seen": None, "more": [True]}], kind, ORDER) == [b'{"note":null,"id":1,"more":[true]}']
    kind = pa.struct([("id", pa.int32()), ("note", pa.string())])
    assert written([{"id": 1, "note": None}], kind, ORDER) == [b'{"id":1,"note":null}']


@pytest.mark.parametrize("order", [("a.b", "a"), ("a", "a.b")])
def test_a_name_with_a_dot_is_not_a_field_within_another(order):
    """jsonschema takes {"a.b": "x", "a": {"b": "free"}}, and not "free" in the place of "x"."""
    properties = {
        "a.b": {"type": "string", "enum": ["x"]},
        "a": {"type": "object", "properties": {"b": {"type": "string"}}},
    }
    schema = {"type": "object", "properties": {name: properties[name] for name in order}}
    kind = pa.struct([("a.b", pa.string()), ("a", pa.struct([("b", pa.string())]))])
    assert written([{"a.b": "x", "a": {"b": "free"}}], kind, schema) == [b'{"a.b":"x","a":{"b":"free"}}']
    with pytest.raises(CannotEncode, match="not a symbol of"):
        written([{"a.b": "free", "a": {"b": "x"}}], kind, schema)


LINE = pa.struct([("item", pa.string())])


@pytest.mark.parametrize(
    ("more", "value", "place", "words"),
    [
        ([], {"id": None}, r"\$\.id", "null"),
        ([("colour", pa.string())], {"id": 1, "colour": "GREEN"}, r"\$\.colour", "not a symbol of"),
        ([("price", pa.float64())], {"id": 1, "price": math.nan}, r"\$\.price", "NaN"),
        (
            [("lines", pa.list_(LINE))],
            {"id": 1, "lines": [{"item": "a"}, {"item": None}]},
            r"\$\.lines\[\]\.item",
            "null",
        ),
    ],
)
def test_a_value_that_a_schema_does_not_take_is_an_error_of_its_row(more, value, place, words):
    kind = pa.struct([("id", pa.int64()), *more])
    good = {"id": 1, **{name: None for name, _ in more}}
    with pytest.raises(CannotEncode, match=f"{place}: .*{words}") as error:
        written([good, good, value, good], kind, ORDER)
    assert error.value.row == 2


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (pa.struct([("note", pa.string())]), r"\$\.id: the writer's schema requires this field"),
        (pa.struct([("id", pa.int64()), ("other", pa.int64())]), r"\$: the column has a field 'other'"),
        (pa.struct([("id", pa.string())]), r"\$\.id: a column of string cannot be written as integer"),
        (pa.struct([("id", pa.int64()), ("lines", LINE)]), r"\$\.lines: a column of struct.* as array"),
        (pa.struct([("id", pa.int64()), ("colour", pa.date32())]), r"\$\.colour: .* as enum"),
        (pa.list_(pa.int64()), r"\$: a column of list.* as object"),
    ],
)
def test_a_type_that_a_schema_does_not_take_is_refused_with_its_place(kind, words):
    with pytest.raises(SchemaError, match=words):
        JsonEncoder(kind, schema=written_of(RegisteredSchema(JSON, json.dumps(ORDER))))


def test_a_schema_may_contain_itself_where_it_is_written_by():
    tree = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    }
    leaf = pa.struct([("name", pa.string())])
    kind = pa.struct([("name", pa.string()), ("children", pa.list_(leaf))])
    assert written([{"name": "a", "children": [{"name": "b"}]}], kind, tree) == [
        b'{"name":"a","children":[{"name":"b"}]}'
    ]


@given(TYPES)
@settings(max_examples=examples(100), deadline=None)
def test_the_schema_that_register_derives_takes_its_column_and_is_read_as_one(kind):
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        kind = pa.struct([pa.field("a", kind, False)])
    text = derived_json_schema(kind)
    JsonEncoder(kind, schema=written_of(RegisteredSchema(JSON, text)))
    read = column_type(RegisteredSchema(JSON, text))
    assert [(each.name, each.nullable) for each in read] == [(field.name, field.nullable) for field in kind]
