"""Typed columns as JSON and back: every type that a format gives. An error names the place of a wrong value."""

import argparse
import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from kafkasource.tools.cli.json_columns import value_of
from kafkasource.tools.cli.json_values import as_bytes, encode, json_values
from kafkasource.tools.cli.write import _batch, _json_rows, _text_rows

INNER = pa.struct([pa.field("flag", pa.bool_()), pa.field("at", pa.timestamp("us", "UTC"))])
ROW = pa.struct(
    [
        pa.field("number", pa.int64()),
        pa.field("ratio", pa.float64()),
        pa.field("local", pa.timestamp("us")),
        pa.field("day", pa.date32()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("raw", pa.binary()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("counts", pa.map_(pa.string(), pa.int32())),
        pa.field("within", INNER),
        pa.field("nested", pa.list_(pa.list_(INNER))),
    ]
)
AT = dt.datetime(2026, 11, 24, 3, 4, 5, 6, tzinfo=dt.timezone.utc)
FULL = {
    "number": 2**62, "ratio": 0.25, "local": dt.datetime(2026, 1, 1), "day": dt.date(2026, 2, 3),
    "price": Decimal("1.20"), "raw": b"\xff\x00", "tags": ["é", None], "counts": {"a": 1, "b": None},
    "within": {"flag": True, "at": AT},
    "nested": [[{"flag": False, "at": None}], None, []],
}  # fmt: skip
AS_JSON = {
    "number": 2**62, "ratio": 0.25, "local": "2026-01-01T00:00:00.000000", "day": "2026-02-03", "price": "1.20",
    "raw": "/wA=", "tags": ["é", None], "counts": {"a": 1, "b": None},
    "within": {"flag": True, "at": "2026-11-24T03:04:05.000006Z"}, "nested": [[{"flag": False, "at": None}], None, []],
}  # fmt: skip
EMPTY = {**dict.fromkeys(FULL), "tags": [], "counts": {}}


def test_every_type_has_its_json():
    assert json_values(pa.array([FULL, None, EMPTY], ROW)) == [AS_JSON, None, EMPTY]


@pytest.mark.parametrize("start", range(5))
@pytest.mark.parametrize("count", range(3))
def test_a_part_of_a_column_is_that_part(start, count):
    rows = [FULL, None, EMPTY, {**FULL, "number": 3, "counts": {"c": 7}}, {**EMPTY, "tags": ["z"]}]
    whole = pa.array(rows, ROW)
    assert json_values(whole.slice(start, count)) == json_values(whole)[start : start + count]


def test_a_double_that_is_no_number_is_a_text_as_json_has_none():
    values = json_values(pa.array([float("nan"), float("inf"), float("-inf"), None, 1.5]))
    assert values == ["NaN", "Infinity", "-Infinity", None, 1.5]
    assert json.loads(encode(values)) == values


# The first and the last microsecond of Python's years, and beyond.
@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        (-62_135_596_800_000_000, "0001-01-01T00:00:00.000000Z"),
        (-62_135_596_800_000_001, -62_135_596_800_000_001),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
        (253_402_300_800_000_000, 253_402_300_800_000_000),
        (2**62, 2**62),
        (-(2**62), -(2**62)),
    ],
)
def test_a_moment_beyond_the_years_of_four_digits_is_its_number_and_taken_back(microseconds, shown):
    data_type = pa.timestamp("us", "UTC")
    assert json_values(pa.array([microseconds, None, 0], data_type)) == [shown, None, "1970-01-01T00:00:00.000000Z"]
    assert pa.array([value_of(json.dumps(shown).encode(), data_type)], data_type).cast(pa.int64()).to_pylist() == [
        microseconds
    ]


def test_a_line_of_text_is_the_text_the_bytes_or_the_json():
    assert as_bytes(pa.array(["é", None])) == ["é".encode(), None]
    assert as_bytes(pa.array([b"\xff", None])) == [b"\xff", None]
    assert as_bytes(pa.array([7, None])) == [b"7", None]
    assert as_bytes(pa.array([{"flag": True, "at": None}, None], INNER)) == [b'{"flag": true, "at": null}', None]


def test_every_type_is_taken_back_as_it_was_printed():
    column = pa.array([FULL, {**FULL, "ratio": float("inf"), "number": -1}], ROW)
    lines = [encode(value).encode() for value in json_values(column)]
    assert pa.array([value_of(line, ROW) for line in lines], ROW).equals(column)
    spans = pa.array([-1, 1_500_000, None, 0], pa.duration("us"))
    lines = [encode(value).encode() for value in json_values(spans)]
    assert pa.array([value_of(line, spans.type) for line in lines], spans.type).equals(spans)
    pairs = pa.map_(pa.int32(), pa.bool_())
    assert value_of(b'{"1": true, "-2": null}', pairs) == [(1, True), (-2, None)]
    assert value_of("é {".encode(), pa.string()) == "é {"
    assert value_of(b"7", pa.int64()) == 7
    assert value_of(b"{}", ROW) == dict.fromkeys(FULL)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", r"\$: not JSON"),
        ("[1]", r"\$: expected an object, got \[1\]"),
        ('{"numbr": 1}', r"no field 'numbr'; did you mean 'number'\?"),
        ('{"number": 9223372036854775808}', r"\$\.number: expected a whole number of 64 bits"),
        ('{"number": 1.5}', "whole number"),
        ('{"number": true}', "whole number"),
        ('{"ratio": "x"}', r"\$\.ratio: expected a number"),
        ('{"local": "2026-01-01T00:00:00Z"}', r"\$\.local: expected a time"),
        ('{"within": {"at": "2026-01-01T00:00:00"}}', r"\$\.within\.at: expected a time"),
        ('{"day": "2026-13-01"}', "expected a date"),
        ('{"price": "1.234"}', "no more digits"),
        ('{"price": "12345678.00"}', "no more digits"),
        ('{"price": "x"}', "no more digits"),
        ('{"raw": "*"}', "base64"),
        ('{"tags": ["a", 1]}', r"\$\.tags\[\]: expected a text, got 1"),
        ('{"counts": {"a": "b"}}', r"\$\.counts\{\}: expected a whole number of 32 bits"),
    ],
)
def test_what_is_no_value_of_the_type_is_an_error_with_the_place(text, words):
    with pytest.raises(ValueError, match=words):
        value_of(text.encode(), ROW)


def test_lines_become_typed_columns_up_to_a_line_that_is_none():
    types = {"value": pa.struct([("id", pa.int64())]), "key": pa.string()}
    given = {"key": None, "key_separator": ":", "null": "", "header": [], "partition": None, "types": types}
    arguments = argparse.Namespace(**given)
    rows, bad = _text_rows([b'a:{"id": 1}', b":{}", b"c:", b'd:{"id": "x"}', b"e:{}"], 7, arguments)
    assert str(bad) == 'line 10 cannot be encoded: the value, $.id: expected a whole number of 64 bits, got "x"'
    batch = _batch(rows, arguments)
    assert batch.column("value").to_pylist() == [{"id": 1}, {"id": None}, None]
    assert batch.column("key").to_pylist() == ["a", None, "c"]
    rows, bad = _json_rows([b'{"key": "k", "value": {"id": 2}}', b'{"value": 3}'], 1, arguments)
    assert "line 2 cannot be encoded: the value, $: expected an object, got 3" in str(bad)
    assert _batch(rows, arguments).column("value").to_pylist() == [{"id": 2}]
