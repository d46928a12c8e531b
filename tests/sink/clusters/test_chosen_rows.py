"""Tests which rows each of several clusters gets."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkasource.errors import OptionError
from kafkasource.kafka.producer.rows import Rows
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.chosen import Chosen
from kafkasource.sink.clusters.origin import PlannedFlow, UnlessFrom

HEADERS = st.none() | st.lists(
    st.tuples(
        st.sampled_from(["mirror.origin", "other"]),
        st.sampled_from([b"A/t", b"B/t", b"A/other", b"here/t", b"A", b"", None]),
    ),
    max_size=3,
)
NOT_FROM_A = Chosen(unless_from=UnlessFrom("here", "A"))


def been_in_a(headers):
    """Applies the rule of the documents: a header counts if it and all headers behind it name this topic."""
    for key, value in reversed(headers or []):
        if key == "mirror.origin":
            if value not in (b"A/t", b"B/t", b"here/t"):
                return False
            if value == b"A/t":
                return True
    return False


def rows(headers):
    count = len(headers)
    dicts = [None if one is None else [{"key": key, "value": value} for key, value in one] for one in headers]
    return Rows(
        topic="t",
        count=count,
        keys=None,
        values=pa.array([str(number).encode() for number in range(count)], pa.binary()),
        headers=pa.array(dicts, HEADERS_TYPE),
        partitions=pa.array(range(count), pa.int32()),
        timestamps_ms=None,
        offsets=pa.array(range(100, 100 + count), pa.int64()),
    )


@given(headers=st.lists(HEADERS, min_size=1, max_size=12), cut=st.integers(0, 3))
@settings(deadline=None)  # the first call imports
def test_a_row_with_the_header_is_left_out_and_no_other(headers, cut):
    whole = rows(headers)
    part = whole.take(pa.array(range(cut, len(headers)), pa.int64())) if cut < len(headers) else whole
    kept = NOT_FROM_A.rows(part)
    first = cut if cut < len(headers) else 0
    expected = [number for number in range(first, len(headers)) if not been_in_a(headers[number])]
    assert (kept.partitions.to_pylist() if expected else []) == expected  # of no rows there may be no column
    assert [int(value) for value in kept.values.to_pylist()] == expected
    assert kept.offsets.to_pylist() == [100 + number for number in expected]
    assert kept.count == len(expected)


@given(headers=st.lists(HEADERS, min_size=4, max_size=12))
@settings(deadline=None)  # the first call imports
def test_headers_that_are_a_slice_of_a_larger_column_are_read_at_their_place(headers):
    whole = rows(headers)
    sliced = Rows("t", len(headers) - 2, None, whole.values[1:-1], whole.headers[1:-1], None, None, whole.offsets[1:-1])
    kept = NOT_FROM_A.rows(sliced)
    expected = [n for n in range(1, len(headers) - 1) if not been_in_a(headers[n])]
    assert [int(value) for value in kept.values.to_pylist()] == expected


def test_rows_that_all_may_go_are_not_copied():
    whole = rows([None, [("other", b"A")]])
    assert NOT_FROM_A.rows(whole) is whole
    assert Chosen().rows(whole) is whole


@pytest.mark.parametrize(
    ("topic", "headers", "left_out"),
    [
        ("orders", ["east/orders", "west/orders"], True),
        ("orders", ["east/orders"], True),  # a read that adds no header of its own
        ("orders", ["west/orders"], False),
        ("orders-enriched", ["east/orders", "west/orders-enriched"], False),  # forwarded by an application in west
        ("orders", ["east/orders", "hub/orders", "west/orders"], True),
        ("enriched", ["east/orders", "hub/enriched", "west/enriched"], False),  # forwarded in hub, mirrored from there
        ("orders", ["hub/orders", "west/orders"], False),
        ("copy.orders", ["east/orders", "west/copy.orders"], True),  # by a flow that renames
        ("copy.orders", ["hub/orders", "west/copy.orders"], False),
        ("orders", ["east", "west/orders"], False),
        ("orders", ["east/orders", "", "west/orders"], False),
    ],
)
def test_a_record_is_a_copy_only_where_its_headers_lead_from_topic_to_topic(topic, headers, left_out):
    """A record that an application writes with the headers of its input is a new record."""
    unless = UnlessFrom("west", "east", (PlannedFlow("east", "west", "copy.${topic}", "^.*$"),))
    assert UnlessFrom.from_json(unless.to_json()) == unless
    whole = replace(rows([[("mirror.origin", each.encode()) for each in headers], None]), topic=topic)
    assert Chosen(unless_from=unless).rows(whole).values.to_pylist() == ([b"1"] if left_out else [b"0", b"1"])


def test_topics_are_chosen_by_a_java_pattern_that_is_found_in_their_names():
    chosen = Chosen(only_topics=r"^(?!test-)\p{Alpha}+-orders$")
    assert [name for name in ("eu-orders", "test-orders", "eu-orders2") if chosen.topic(name)] == ["eu-orders"]


@pytest.mark.parametrize(
    ("own", "text"),
    [
        ({"onlyTopics": "["}, "cluster 'east' of 'clusters': option 'onlyTopics'"),
        ({"unlessOrigin": "east"}, "expected JSON"),
        ({"unlessOrigin": '{"here": "a"}'}, "option 'unlessOrigin': expected JSON"),
        ({"unlessOrigin": "[]"}, "option 'unlessOrigin': expected JSON"),
        ({"offsetMap": "m", "partitioning": "key"}, "'offsetMap' is for rows that keep"),
    ],
)
def test_a_choice_that_cannot_be_meant_is_refused(own, text):
    with pytest.raises(OptionError, match=text):
        targets.parse({f"clusters.east.{key}": value for key, value in own.items()} | EAST)


def test_rows_of_one_topic_by_option_have_no_offsets_to_map():
    with pytest.raises(OptionError, match="neither with the option 'topic'"):
        targets.parse(EAST | {"clusters.east.offsetMap": "m", "topic": "t"})


EAST = {"clusters.east.kafka.bootstrap.servers": "e:1"}
