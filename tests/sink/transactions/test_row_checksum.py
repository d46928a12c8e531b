"""The sum of rows depends on the rows and their order, and on nothing else."""

import datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.records.arrow.columns import HEADERS_TYPE
from kafkasource.sink.transactions.task.row_checksum import RowSum

SCHEMA = pa.schema(
    [
        ("other", pa.string()),
        ("topic", pa.string()),
        ("key", pa.string()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
POSITIONS = {name: number for number, name in enumerate(SCHEMA.names) if name != "other"}

header = st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.none() | st.binary(max_size=3)})
row = st.fixed_dictionaries(
    {
        "other": st.text(max_size=2),
        "topic": st.sampled_from(["a", "b"]),
        "key": st.none() | st.text(max_size=3),
        "value": st.none() | st.binary(max_size=3),
        "headers": st.none() | st.lists(header, max_size=3),
        "partition": st.none() | st.integers(0, 5),
        "timestamp": st.none() | st.datetimes(datetime.datetime(2000, 1, 1), timezones=st.just(datetime.timezone.utc)),
    }
)
rows = st.lists(row, max_size=12)


def total(found, cuts=()):
    batch = pa.RecordBatch.from_pylist(found, SCHEMA)
    row_sum = RowSum(POSITIONS)
    edges = [0, *sorted(cuts), len(found)]
    for start, end in pairwise(edges):
        row_sum.add(batch.slice(start, end - start))
    assert row_sum.rows == len(found)
    return row_sum.crc


def seen(found):
    return [{name: each[name] for name in POSITIONS} for each in found]


@given(st.data(), rows)
def test_how_rows_are_cut_into_batches_does_not_matter(data, found):
    cuts = data.draw(st.lists(st.integers(0, len(found)), max_size=4))
    copied = [dict(each, other="x") for each in found]
    assert total(found, cuts) == total(copied)


@given(rows, rows)
def test_other_rows_have_another_sum(one, other):
    assert (total(one) == total(other)) == (seen(one) == seen(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([{"value": b"ab"}, {"value": b"c"}], [{"value": b"a"}, {"value": b"bc"}]),
        ([{"value": b""}], [{"value": None}]),
        ([{"headers": []}], [{"headers": None}]),
        ([{"key": "a"}, {"key": "b"}], [{"key": "b"}, {"key": "a"}]),
        ([{"partition": 0}], [{"partition": None}]),
    ],
)
def test_what_looks_alike_is_told_apart(one, other):
    empty = dict.fromkeys(SCHEMA.names)
    assert total([empty | each for each in one]) != total([empty | each for each in other])


def test_dictionaries_and_large_types_count_as_their_values():
    sums = set()
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        row_sum = RowSum({"value": 0})
        row_sum.add(pa.record_batch([pa.array(["a", None, "bc", "a"], kind)], names=["value"]))
        sums.add(row_sum.crc)
    assert len(sums) == 1


TYPED: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, None, False, True],
    pa.int8(): [1, None, -1, 2],
    pa.float64(): [0.5, None, 1.5, -0.5],
    pa.date32(): [0, None, 1, 2],
    pa.time64("us"): [0, None, 1, 2],
    pa.duration("us"): [0, None, 1, 2],
    pa.decimal128(38, 2): [1, None, -1, 10**30],
    pa.list_(pa.bool_()): [[True], None, [], [False, None]],
    pa.map_(pa.string(), pa.int64()): [[("a", 1)], None, [], [("a", None), ("b", 2)]],
    pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.date32()))), ("n", pa.null())]): [
        {"m": [("a", [1, None])], "n": None},
        None,
        {"m": [("a", [1, 2])], "n": None},
        {"m": None, "n": None},
    ],
}


@pytest.mark.parametrize("kind", TYPED, ids=str)
def test_columns_of_any_type_that_a_write_encodes_count(kind):
    def sum_of(values, cut=0):
        row_sum, batch = RowSum({"value": 0}), pa.record_batch([pa.array(values, kind)], names=["value"])
        for part in (batch.slice(0, cut), batch.slice(cut)):
            row_sum.add(part)
        return row_sum.crc

    values = TYPED[kind]
    sums = {sum_of([*values[:at], *values[at + 1 :], values[at]]) for at in range(4)}
    assert len(sums) == 4
    assert {sum_of(values, cut) for cut in range(5)} == {sum_of(values)}
