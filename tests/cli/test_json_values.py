"""Typed columns as JSON: every type that a format gives, also where a column is a part of another."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from kafkasource.cli.json_values import as_bytes, encode, json_values

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


@pytest.mark.parametrize("microseconds", [2**62, -(2**62)])
def test_a_moment_beyond_the_years_of_python_is_no_error(microseconds):
    (text,) = json_values(pa.array([microseconds], pa.timestamp("us", "UTC")))
    assert str(text).endswith("Z")


def test_a_line_of_text_is_the_text_the_bytes_or_the_json():
    assert as_bytes(pa.array(["é", None])) == ["é".encode(), None]
    assert as_bytes(pa.array([b"\xff", None])) == [b"\xff", None]
    assert as_bytes(pa.array([7, None])) == [b"7", None]
    assert as_bytes(pa.array([{"flag": True, "at": None}, None], INNER)) == [b'{"flag": true, "at": null}', None]
