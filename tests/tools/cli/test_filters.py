"""`pykafka read --filter`: which records it prints."""

import argparse
from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.tools.cli.filters import Selection, parsed
from kafkasource.types import BAD_RECORD_COLUMN

VALUES = [
    b'{"a": {"b": 7, "c": ["x", {"d": true}]}, "n": null, "t": "7", "f": 0.50, "e": "", "big": 9007199254740993}',
    b'{"a": 1}',
    b"no json",
    b"\xff",
    None,
    b"[" * 100_000,
    b"[7]",
]


def holds(text, values=VALUES, data_type=None):
    return parsed(text)(pa.RecordBatch.from_pydict({"value": pa.array(values, data_type or pa.binary())}))


@pytest.mark.parametrize(
    "text",
    [
        "$.a.b=7", "$.a.b=7.0", "$.a.c[0]=x", "$.a.c[1].d=true", "$.n=null", "$.t=7", "$.f=0.5", "$.e=",
        "$.big=9007199254740993", '$.a.c=["x", {"d": true}]',
    ],
)  # fmt: skip
def test_a_place_in_the_json_of_a_value_matches_what_stands_there(text):
    assert holds(text) == [True, *[False] * 6]


@pytest.mark.parametrize(
    "text",
    [
        "$.a.b=8", "$.a.b=true", "$.a.c[1].d=1", '$.t="7"', "$.a.c[2]=x", "$.missing=null", "$.n=", "$.a.b.c=7",
        "$.a[0]=7", "$.e=null", "$.f=0,5", "$.big=9007199254740992",
    ],
)  # fmt: skip
def test_what_is_something_else_or_not_there_matches_nothing(text):
    assert not any(holds(text))


def test_a_value_that_is_a_list_has_places_too():
    assert holds("$[0]=7") == [*[False] * 6, True]


def test_typed_values_match_as_they_are_printed():
    data_type = pa.struct(
        {"at": pa.timestamp("us", "UTC"), "price": pa.decimal128(9, 2), "tags": pa.list_(pa.string())}
    )
    values = [
        {"at": datetime(2026, 11, 21, 22, 30, 5, tzinfo=timezone.utc), "price": Decimal("1.50"), "tags": ["x"]},
        None,
    ]
    for text in ("$.at=2026-11-21T22:30:05.000000Z", "$.price=1.50", "$.tags[0]=x"):
        assert holds(text, values, data_type) == [True, False]
    assert holds("$.a=1", ['{"a": 1}', None], pa.string()) == [True, False]


def test_a_key_matches_its_text():
    batch = pa.RecordBatch.from_pydict({"key": pa.array([b"ada", b"", None, "é=".encode()], pa.binary())})
    assert parsed("key=ada")(batch) == [True, False, False, False]
    assert parsed("key=")(batch) == [False, True, False, False]
    assert parsed("key=é=")(batch) == [False, False, False, True]


def test_a_header_matches_if_one_of_its_name_has_the_value():
    headers = [
        [{"key": "a.b", "value": b"1"}, {"key": "a.b", "value": b"2"}],
        [{"key": "a.b", "value": None}, {"key": "x", "value": b"2"}],
        None,
    ]
    batch = pa.RecordBatch.from_pydict({"headers": pa.array(headers, HEADERS_TYPE)})
    assert parsed("header.a.b=2")(batch) == [True, False, False]
    assert parsed("header.a.b=2")(batch.slice(2)) == [False]


@pytest.mark.parametrize(
    "text", ["", "key", "=x", "value=x", "header=x", "header.=x", "$=1", "$.=1", "$.a", "$.a..b=1", "$.a[x]=1", "a.b=1"]
)
def test_what_is_no_filter_is_refused_with_the_forms_that_there_are(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"is not key=TEXT, header\.NAME=TEXT or \$\.place"):
        parsed(text)


def at_least(least):
    return lambda batch: [number >= least for number in batch.column("n").to_pylist()]


def numbers(*values):
    return pa.RecordBatch.from_pydict({"n": list(values)})


def test_all_filters_must_hold_and_a_count_counts_the_records_that_match():
    selection = Selection([at_least(2), at_least(4)], most=3)
    part, done = selection.of(numbers(3, 4, 1, 5))
    assert (part.column("n").to_pylist(), done, selection.ended) == ([4, 5], 4, False)
    part, done = selection.of(numbers(1, 1))
    assert (part.num_rows, done, selection.ended) == (0, 2, False)
    part, done = selection.of(numbers(0, 9, 8, 7))
    assert (part.column("n").to_pylist(), done, selection.ended) == ([9], 2, True)


def test_rows_behind_the_last_wanted_record_are_not_done_when_a_batch_has_exactly_the_wanted_number():
    part, done = Selection([at_least(2)], most=2).of(numbers(3, 4, 1))
    assert (part.column("n").to_pylist(), done) == ([3, 4], 2)


def test_bad_records_are_named_up_to_the_last_record_that_is_wanted_whether_they_match_or_not(capsys):
    bad = pa.array([{"reason": "cut off"}, None, {"reason": "behind it"}])
    rows = {"topic": ["t"] * 3, "partition": [0] * 3, "offset": [5, 6, 7], "n": [1, 2, 3], BAD_RECORD_COLUMN: bad}
    part, _ = Selection([at_least(2)], most=1).of(pa.RecordBatch.from_pydict(rows))
    assert part.column("offset").to_pylist() == [6]
    assert capsys.readouterr().err == "t-0, offset 5: cut off\n"
