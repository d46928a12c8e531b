"""JSON records to columns: by hand here, and by Python's json over random types and records (fuzz/json_oracle.py)."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
import struct
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import lying_json
import pyarrow as pa
import pytest
from json_oracle import Bad, expected, plain

from kafkasource.formats.decoding import opcodes as shared_opcodes
from kafkasource.formats.json import opcodes
from kafkasource.formats.json.decode import JsonDecoder
from kafkasource.formats.json.encode import JsonEncoder
from kafkasource.formats.json.rows import REASONS, JsonRows
from kafkasource.formats.json.types_of import column_type
from kafkasource.formats.schema_source import JSON, RegisteredSchema
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE

INPUTS = int(os.environ.get("KAFKASOURCE_JSON_INPUTS", 400))
MANY_BYTES = 64 << 20
DDL = (
    "id BIGINT, name STRING, price DOUBLE, part FLOAT, exact DECIMAL(10, 2), small TINYINT, flag BOOLEAN, raw BINARY, "
    "day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, tags ARRAY<STRING>, counts MAP<STRING, INT>, "
    "lines ARRAY<STRUCT<sku: STRING NOT NULL, n: SMALLINT>>"
)


def kind_of(text):
    return column_type(RegisteredSchema(JSON, text))


def decoded(ddl, *records):
    """(values, (row, place, code) of each bad row)."""
    values, faults = [], []
    for piece in JsonDecoder(kind_of(ddl)).batches(pa.array(records, pa.binary()), MANY_BYTES):
        piece.array.validate(full=True)
        values += piece.array.to_pylist()
        faults += [(fault.row, fault.place, fault.code) for fault in piece.faults()]
    return values, faults


def test_every_type_takes_its_json():
    record = (
        b'{"id": 9007199254740993, "name": "\\u00e9\\ud83d\\ude00\\n", "price": 0.1, "part": 0.1, "exact": 12.3, '
        b'"small": -128, "flag": true, "raw": "aGk=", "day": "2024-02-29", "at": "2024-05-06T07:08:09.1+02:00", '
        b'"local": "2024-05-06 07:08:09", "tags": ["a", null], "counts": {"x": 1, "y": null}, '
        b'"lines": [{"sku": "s", "n": 2, "more": [{}]}, null], "unknown": {"a": [1, {"b": null}]}}'
    )
    (row,), faults = decoded(DDL, record)
    assert faults == []
    assert row.pop("at") == dt.datetime(2024, 5, 6, 5, 8, 9, 100000, tzinfo=dt.timezone.utc)
    assert row.pop("part") == struct.unpack("f", struct.pack("f", 0.1))[0]
    assert row == {
        "id": 9007199254740993, "name": "é😀\n", "price": 0.1, "exact": Decimal("12.30"), "small": -128, "flag": True,
        "raw": b"hi", "day": dt.date(2024, 2, 29), "local": dt.datetime(2024, 5, 6, 7, 8, 9), "tags": ["a", None],
        "counts": [("x", 1), ("y", None)], "lines": [{"sku": "s", "n": 2}, None],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ddl", "record", "place", "code"),
    [
        ("a INT", b"", "$", opcodes.EMPTY),
        ("a INT", b" ", "$", shared_opcodes.CUT),
        ("a INT", b"null", "$", opcodes.BAD_NULL),
        ("a INT", b"[]", "$", opcodes.WRONG_TYPE),
        ("a INT", b'{"a":1}{"a":2}', "$", shared_opcodes.TRAILING),
        ("a INT", b'{"a":1} x', "$", shared_opcodes.TRAILING),
        ("a INT", b'{"a":1', "$", shared_opcodes.CUT),
        ("a INT", b'{"a":2147483648}', "$.a", opcodes.BAD_NUMBER),
        ("a INT", b'{"a":1.5}', "$.a", opcodes.BAD_NUMBER),
        ("a INT", b'{"a":"1"}', "$.a", opcodes.WRONG_TYPE),
        ("a INT", b'{"a":true}', "$.a", opcodes.WRONG_TYPE),
        ("a INT", b"{'a':1}", "$", opcodes.BAD_JSON),
        ("a INT", b'{"a":1,}', "$", opcodes.BAD_JSON),
        ("a INT", b'{"a":NaN}', "$.a", opcodes.BAD_JSON),
        ("a INT", b'{"a":01}', "$.a", opcodes.BAD_JSON),
        ("a INT", b'{"b":"\xff"}', "$", shared_opcodes.BAD_UTF8),
        ("a STRING", b'{"a":"\xc3"}', "$.a", shared_opcodes.BAD_UTF8),
        ("a STRING", b'{"a":"\\ud800"}', "$.a", opcodes.BAD_ESCAPE),
        ("a STRING", b'{"a":"\\udc00\\ud800"}', "$.a", opcodes.BAD_ESCAPE),
        ("a STRING", b'{"a":"\\x41"}', "$.a", opcodes.BAD_ESCAPE),
        ("a STRING", b'{"a":"\n"}', "$.a", opcodes.BAD_JSON),
        ("a STRING NOT NULL", b"{}", "$.a", shared_opcodes.MISSING),
        ("a STRING NOT NULL", b'{"a":null}', "$.a", opcodes.BAD_NULL),
        ("a ARRAY<STRUCT<b: MAP<STRING, INT>>>", b'{"a":[{"b":{"x":"y"}}]}', "$.a[].b{}", opcodes.WRONG_TYPE),
        ("a DOUBLE", b'{"a":1e400}', "$.a", opcodes.BAD_NUMBER),
        ("a DECIMAL(4, 2)", b'{"a":1.001}', "$.a", opcodes.BAD_NUMBER),
        ("a DECIMAL(4, 2)", b'{"a":100}', "$.a", opcodes.BAD_NUMBER),
        ("a TIMESTAMP", b'{"a":"2024-05-06T07:08:09"}', "$.a", opcodes.BAD_INSTANT),
        ("a TIMESTAMP", b'{"a":1700000000}', "$.a", opcodes.WRONG_TYPE),
        ("a TIMESTAMP_NTZ", b'{"a":"2024-05-06T07:08:09Z"}', "$.a", opcodes.BAD_LOCAL_TIME),
        ("a DATE", b'{"a":"2023-02-29"}', "$.a", opcodes.BAD_DATE),
        ("a BINARY", b'{"a":"aGk"}', "$.a", opcodes.BAD_BASE64),
        ("a INT", b'{"b":' + b"[" * 100_000, "$", opcodes.TOO_DEEP),
        ("a STRING", b'{"a":' + b'{"b":' * 100_000, "$.a", opcodes.TOO_DEEP),
        ("a INT", b'{"a":' + b"1" * 10_000 + b"}", "$.a", opcodes.BAD_NUMBER),
        ("a INT", b"\0\0\0", "$", opcodes.BAD_FRAME),
        ("a INT", b"\0\0\0\0\1", "$", opcodes.EMPTY),
        ("a INT", b"\xef\xbb\xbf{}", "$", opcodes.BAD_JSON),
    ],
)
def test_a_record_that_does_not_fit_is_null_and_says_where_and_why(ddl, record, place, code):
    right = b'{"a":null}' if "NOT NULL" not in ddl else b'{"a":"x"}'
    values, faults = decoded(ddl, right, record, right)
    assert (values[1], faults) == (None, [(1, place, code)])
    assert values[0] == values[2] is not None
    assert code in REASONS


@pytest.mark.parametrize(
    ("ddl", "record", "value"),
    [
        ("a INT", b'{"a":1,"a":2}', 2),  # of fields that come twice the last counts, as in Python and in from_json
        ("a INT", b'{"\\u0061":7}', 7),
        ("a INT", b'{"a":1.0}', 1),
        ("a INT", b'{"a":2e3}', 2000),
        ("a INT", b'{"A":1}', None),  # names are compared as they are
        ("a INT", b"{}", None),
        ("a STRING", b'{"a":{"b": [1, 2]}}', '{"b": [1, 2]}'),
        ("a STRING", b'{"a":1' + b"0" * 10_000 + b"}", "1" + "0" * 10_000),
        ("a DOUBLE", b'{"a":0.' + b"0" * 10_000 + b"1e10001}", 1.0),
        ("a DOUBLE", b'{"a":1e-400}', 0.0),
        ("a DOUBLE", b'{"a":"Infinity"}', math.inf),
        ("a DECIMAL(4, 2)", b'{"a":"-99.99"}', Decimal("-99.99")),
        ("a DECIMAL(4, 2)", b'{"a":1.0000000000000000000000000000000000000000000}', Decimal("1.00")),
        ("a STRING", b'\0\0\0\0\7{"a":"framed"}', "framed"),
        ("a STRING", b'\0\0\0\0\0\0\0\0\7{"a":"by Apicurio"}', "by Apicurio"),
        ("a ARRAY<ARRAY<INT>>", b'{"a":[[],[1],null,[2,3]]}', [[], [1], None, [2, 3]]),
    ],
)
def test_what_a_record_means_where_it_may_be_doubted(ddl, record, value):
    assert decoded(ddl, record) == ([{"a": value}], [])


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0000-01-01", -719528), ("0000-02-29", -719469), ("0000-12-31", -719163), ("-0001-12-31", -719529),
        ("-0004-02-29", -720930), ("-0001-02-29", None), ("-0000-01-01", -719528), ("+2024-05-06", 19849),
        ("+10000-01-01", 2932897), ("10000-01-01", 2932897), ("+10000-02-30", None), ("-12345-06-07", -5228289),
        ("+123456-01-02", 44371851), ("+1000000-01-01", 364522972), ("+02024-01-01", 19723), ("+024-01-01", None),
        ("+5881580-07-11", 2147483647), ("+5881580-07-12", None), ("-5877641-06-23", -2147483648),
        ("-5877641-06-22", None), ("+10000000-01-01", None), ("--2024-01-01", None), ("+-2024-01-01", None),
        ("+", None), ("-", None), ("", None),
    ],
)  # fmt: skip
def test_dates_of_any_year_are_those_of_spark(text, days):
    """Expected: unix_date(from_json(...)) of Spark 4.2.0."""
    record = f'{{"a":"{text}"}}'.encode()
    (piece,) = JsonDecoder(kind_of("a DATE")).batches(pa.array([record], pa.binary()), MANY_BYTES)
    assert plain(piece.array) == [None if days is None else {"a": days}]
    assert [fault.code for fault in piece.faults()] == ([opcodes.BAD_DATE] if days is None else [])


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("0000-01-01T00:00:00", -62167219200000000), ("0000-12-31T07:59:59.123456", -62135654400876544),
        ("-0001-12-31T23:59:59.999999", -62167219200000001), ("-0004-02-29T07:59:59.123456", -62288323200876544),
        ("+10000-01-01T07:59:59.000", 253402329599000000), ("123456-01-02T00:00:00", 3833727926400000000),
        ("-12345-06-07T07:59:59.123456", -451724140800876544), ("+1000000-01-01T00:00:00", None),
        ("+294247-01-10T04:00:54.775807", (1 << 63) - 1), ("+294247-01-10T04:00:54.775808", None),
        ("-290308-12-21T19:59:05.224192", -(1 << 63)), ("-290308-12-21T19:59:05.224191", None),
        ("+294247-01-11T00:00:00", None), ("-290308-12-21T00:00:00", None), ("+999999-12-31T07:59:59.123456", None),
        ("-999999-01-01T00:00:00", None), ("+T00:00:00", None),
    ],
)  # fmt: skip
def test_timestamps_of_any_year_are_those_of_spark(text, micros):
    """Expected: unix_micros(from_json(...)) of Spark 4.2.0, for a TIMESTAMP with Z behind it and a TIMESTAMP_NTZ."""
    for ddl, zone, fault in (
        ("a TIMESTAMP", "Z", opcodes.BAD_INSTANT),
        ("a TIMESTAMP_NTZ", "", opcodes.BAD_LOCAL_TIME),
    ):
        record = f'{{"a":"{text}{zone}"}}'.encode()
        (piece,) = JsonDecoder(kind_of(ddl)).batches(pa.array([record], pa.binary()), MANY_BYTES)
        assert plain(piece.array) == [None if micros is None else {"a": micros}]
        assert [each.code for each in piece.faults()] == ([fault] if micros is None else [])


def test_every_time_that_is_written_is_read_as_it_was():
    days = [-(1 << 31), -719529, -719528, -719163, -719162, 0, 2932896, 2932897, (1 << 31) - 1]
    micros = [-(1 << 63), *(day * 86_400_000_000 - 1 for day in days[1:-1]), (1 << 63) - 1]
    kinds = [(pa.date32(), days), (pa.timestamp("us", "UTC"), micros), (pa.timestamp("us"), micros)]
    columns = [pa.array(each, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind) for kind, each in kinds]
    rows = pa.StructArray.from_arrays(columns, ["day", "at", "local"])
    (written,) = JsonEncoder(rows.type).pieces(rows, MANY_BYTES)
    (piece,) = JsonDecoder(rows.type).batches(written.records, MANY_BYTES)
    assert plain(piece.array) == plain(rows)


def test_a_thousand_levels_are_read_and_one_more_is_not():
    for levels, bad in ((998, 0), (999, 1)):
        record = b'{"b":' + b"[" * (levels + 1) + b"]" * (levels + 1) + b"}"
        assert len(decoded("a INT", record)[1]) == bad


def test_one_bad_record_in_a_hundred_leaves_the_others_right():
    records = [b'{"id":%d,"name":"n%d"}' % (n, n) for n in range(10_000)]
    for n in range(50, 10_000, 100):
        records[n] = records[n][: n % 15]
    values, faults = decoded("id BIGINT, name STRING", *records)
    assert [row for row, _, _ in faults] == list(range(50, 10_000, 100))
    assert values == [None if n % 100 == 50 else {"id": n, "name": f"n{n}"} for n in range(10_000)]


def test_doubles_are_those_of_python_and_floats_those_of_the_c_library():
    rng = random.Random(19)
    texts = [repr(struct.unpack("d", rng.randbytes(8))[0]) for _ in range(5000)]
    texts += [f"{rng.randrange(10**18)}{rng.randrange(10**6)}e{rng.randrange(-340, 300)}" for _ in range(5000)]
    texts += [f"{struct.unpack('f', rng.randbytes(4))[0]:.40f}" for _ in range(5000)]
    for kind in (pa.float64(), pa.float32()):
        column = [b'{"a":%s}' % text.encode() for text in texts if text not in ("nan", "inf", "-inf")]
        struct_kind = pa.struct([("a", kind)])
        (piece,) = JsonDecoder(struct_kind).batches(pa.array(column, pa.binary()), MANY_BYTES)
        assert plain(piece.array) == [_or_none(struct_kind, value) for value in column]


@pytest.mark.parametrize(("kind", "code", "bits"), [(pa.float32(), "fi", 32), (pa.float64(), "dq", 64)])
def test_a_number_beside_the_middle_of_two_floating_point_numbers_is_the_nearer_one(kind, code, bits):
    """And in the middle the even one: IEEE 754. By Fractions, however many digits the number has."""
    rng, texts, nearest = random.Random(bits), [], []
    for _ in range(500):
        low = rng.randrange(1, (255 << 23) - 1 if bits == 32 else (2047 << 52) - 1)
        below, above = (struct.unpack(f"={code[0]}", struct.pack(f"={code[1]}", each))[0] for each in (low, low + 1))
        if math.isinf(above):
            continue
        middle = (Fraction(below) + Fraction(above)) / 2
        digits = middle.denominator.bit_length() + 3  # a denominator of 2**n has n decimals
        scaled = middle.numerator * 10**digits // middle.denominator
        even = below if low % 2 == 0 else above
        for sign, number, value in (
            (1, scaled - 1, below),
            (1, scaled, even),
            (-1, scaled, even),
            (1, scaled + 1, above),
        ):
            text = f"{number:0{digits + 1}d}"
            texts.append(f"{'-' if sign < 0 else ''}{text[:-digits]}.{text[-digits:]}")
            nearest.append(sign * value)
    (piece,) = JsonDecoder(pa.struct([("a", kind)])).batches(
        pa.array([b'{"a":%s}' % each.encode() for each in texts], pa.binary()), MANY_BYTES
    )
    assert [row["a"] for row in piece.array.to_pylist()] == nearest


def _or_none(kind, record):
    try:
        return expected(kind, record)
    except Bad:
        return None


def test_wrong_records_and_right_ones_are_what_pythons_json_makes_of_them():
    taken = sum(lying_json.decode(random.Random(number)) for number in range(INPUTS))
    assert INPUTS // 20 < taken < INPUTS


def test_damaged_schemas_are_taken_or_an_error_of_ours():
    assert 0 < sum(lying_json.read_schema(random.Random(number)) for number in range(INPUTS)) < INPUTS


def test_columns_take_no_more_memory_than_they_may_whatever_a_record_claims():
    kind = kind_of("a ARRAY<STRUCT<b: BIGINT, c: STRING, d: ARRAY<INT>>>")
    wide = b'{"a":[' + b",".join([b"{}"] * 100_000) + b"]}"
    small = b'{"a":[{"b":1}]}'
    rows = []
    for piece in JsonDecoder(kind).batches(pa.array([small, wide, small], pa.binary()), 1 << 20):
        assert piece.array.get_total_buffer_size() <= 1 << 20
        rows += [(row["a"] if row else None) for row in piece.array.to_pylist()]
        assert {fault.code for fault in piece.faults()} <= {shared_opcodes.TOO_LARGE}
    assert rows == [[{"b": 1, "c": None, "d": None}], None, [{"b": 1, "c": None, "d": None}]]


def test_the_names_of_a_wide_type_are_told_apart():
    names = [f"{'a long name that all have in common ' * 2}{n}" for n in range(300)]
    kind = pa.struct([(name, pa.int32()) for name in names])
    rng = random.Random(7)
    some = [rng.sample(range(300), rng.randrange(1, 300)) for _ in range(20)]
    texts = [f'"\\u0061{name[1:]}"' if n % 3 == 0 else f'"{name}"' for n, name in enumerate(names)]
    more = '"' + "\\u0061" * 500 + '": 0'
    records = [("{" + ",".join(f"{texts[n]}:{n}" for n in each) + f",{more}}}").encode() for each in some]
    (piece,) = JsonDecoder(kind).batches(pa.array(records, pa.binary()), MANY_BYTES)
    for row, each in zip(piece.array.to_pylist(), some, strict=True):
        assert row == {name: n if n in each else None for n, name in enumerate(names)}


def test_a_name_that_needs_escapes_is_not_taken_for_its_own_bytes():
    kind = pa.struct([("a", pa.int32()), ("\\", pa.int32()), ('"', pa.int32())])
    records = [rb'{"a":1,"\\":2,"\"":3}', rb'{"a":1,"\"x":4,"\u005c":5}', rb'{"a":1,"\"":6}']
    (piece,) = JsonDecoder(kind).batches(pa.array(records, pa.binary()), MANY_BYTES)
    assert [tuple(row.values()) for row in piece.array.to_pylist()] == [(1, 2, 3), (1, 5, None), (1, None, 6)]


def test_a_bad_record_tells_the_schema_id_that_it_names():
    values = pa.array([b"\0\0\0\0\7{", b"{", b"{", b"\0\0\0\0\7{}"], pa.binary())
    guid = UUID(int=5)
    of_header = [("__value_schema_id", b"\1" + guid.bytes)]
    headers = pa.array([None, None, of_header, None], HEADERS_TYPE)
    (piece,) = JsonRows(kind_of("a INT")).pieces(values, headers, MANY_BYTES)
    assert [(bad_row.row, bad_row.schema_id) for bad_row in piece.bad] == [(0, 7), (1, None), (2, guid)]
    assert piece.bad[0].reason == "the bytes end within the value"
