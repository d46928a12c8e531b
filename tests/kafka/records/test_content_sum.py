"""The sum of records' contents: the same for the same records in whatever order and cut, and for others another one."""

from array import array
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.kafka.records.builder import RecordColumns

maybe_bytes = st.none() | st.binary(max_size=20)
record = st.tuples(
    maybe_bytes,
    maybe_bytes,
    st.none() | st.integers(-1, 2**50),
    st.lists(st.tuples(st.text(max_size=3), maybe_bytes), max_size=3),
)
records = st.lists(record, max_size=8)


def columns(found, headers=True):
    keys, values, timestamps, entries = ([each[i] for each in found] for i in range(4))
    # An empty list of headers is written as none.
    lists = [[{"key": name, "value": value} for name, value in some] or None for some in entries]
    return RecordColumns(
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(timestamps, pa.int64()),
        pa.array(lists, HEADERS_TYPE) if headers else None,
        default_timestamp_ms=len(found),
        num_rows=len(found),
    )


def total(found):
    return columns(found).content


@given(st.data(), records)
def test_order_and_cuts_do_not_matter(data, found):
    shuffled = data.draw(st.permutations(found))
    cut = data.draw(st.integers(0, len(found)))
    assert (total(shuffled[:cut]) + total(shuffled[cut:])) % 2**64 == total(found)


@given(st.data(), st.lists(record, min_size=1, max_size=8))
def test_rows_by_number_and_slices_of_columns_are_those_rows(data, found):
    first = data.draw(st.integers(0, len(found)))
    last = data.draw(st.integers(first, len(found)))
    order = data.draw(st.permutations(range(len(found))))
    picked = [found[i] for i in order[first:last]]
    assert columns(found).content_of(array("i", order), first, last) == total(picked)
    assert columns(found).content_of(None, first, last) == total(found[first:last])
    whole = columns(found)
    parts = (whole.keys, whole.values, whole.timestamps_ms, whole.headers)
    sliced = RecordColumns(*(part.slice(first, last - first) for part in parts), num_rows=last - first)
    assert sliced.content == total(found[first:last])


def content(found):
    return Counter((*each[:3], tuple(each[3])) for each in found)


@given(records, records)
def test_other_records_have_another_sum(one, other):
    assert (total(one) == total(other)) == (content(one) == content(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([(b"a", b"b", None, [])], [(b"b", b"a", None, [])]),
        ([(None, b"ab", None, [])], [(b"a", b"b", None, [])]),
        ([(b"", b"", None, [])], [(None, b"", None, [])]),
        ([(b"", b"", None, [])], [(b"", None, None, [])]),
        ([(None, b"v", None, [])], [(None, b"v", 0, [])]),
        ([(None, b"v", -1, [])], [(None, b"v", None, [])]),
        ([(None, b"12345678a", None, [])], [(None, b"12345678b", None, [])]),
        ([(None, bytes(8), None, [])], [(None, bytes(9), None, [])]),
        ([(None, b"v" * 8 + b"w" * 8, None, [])], [(None, b"w" * 8 + b"v" * 8, None, [])]),
        ([(None, b"v", None, [("k", b"1"), ("l", b"2")])], [(None, b"v", None, [("l", b"2"), ("k", b"1")])]),
        ([(None, b"v", None, [("k", None)])], [(None, b"v", None, [("k", b"")])]),
        ([(None, b"v", None, [("k", b"")])], [(None, b"v", None, [])]),
        ([(b"a", b"1", None, []), (b"b", b"2", None, [])], [(b"a", b"2", None, []), (b"b", b"1", None, [])]),
        ([(b"a", b"1", None, [])], [(b"a", b"1", None, [])] * 2),
    ],
)
def test_what_looks_alike_is_told_apart(one, other):
    assert total(one) != total(other)


def test_a_column_that_is_absent_is_one_of_nulls_and_the_time_of_writing_does_not_count():
    found = [(None, b"v", None, [])] * 3
    values = pa.array([b"v"] * 3, pa.binary())
    for now_ms in (5, 6):
        assert RecordColumns(None, values, default_timestamp_ms=now_ms).content == total(found)
    assert columns(found, headers=False).content == total(found)


def test_a_sum_stays_the_same_from_release_to_release_in_both_builds():
    """Brokers keep it in decision records. As both builds gave it when it was made."""
    assert total([]) == 0
    found = total([(b"key", b"a value of some bytes", 1_700_000_000_000, [("h", b"x"), ("", None)])])
    assert found == 12930710644912715707


def test_a_row_that_cannot_be_encoded_is_refused():
    with pytest.raises(ValueError, match="row 7"):
        columns([(b"k", b"v", None, [])]).content_of(array("i", [7]), 0, 1)
    with pytest.raises(ValueError, match="more rows than the 1"):
        columns([(b"k", b"v", None, [])]).content_of(None, 0, 2)
