"""Tests which columns may be written, with the JVM connector's messages, and the rows that the encoder gets."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from kafkasource.kafka.producer.rows import InvalidRow
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.sink.columns import checked_rows, joined
from kafkasource.sink.schema import InvalidSchema, SinkSchema


def spark_schema(ddl):
    fields = []
    for column in ddl.split(";"):
        name, kind = column.strip().split(" ", 1)
        fields.append({"name": name, "type": KINDS.get(kind, kind), "nullable": True, "metadata": {}})
    return StructType.fromJson({"type": "struct", "fields": fields})


def header_array(key="string", value="binary"):
    entries = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in [("key", key), ("value", value)]]
    return {"type": "array", "containsNull": True, "elementType": {"type": "struct", "fields": entries}}


KINDS = {"int": "integer", "bigint": "long", "headers": header_array(), "headers!": header_array(value="string")}


def rows_of(columns, ddl, topic="t"):
    batch = pa.record_batch(columns, names=[column.strip().split(" ")[0] for column in ddl.split(";")])
    return list(checked_rows(SinkSchema.check(spark_schema(ddl), topic), batch))


@pytest.mark.parametrize(
    ("ddl", "topic", "text"),
    [
        ("key string", "t", "Required attribute 'value' not found"),
        ("Value string", "t", "Required attribute 'value' not found"),  # exact names
        ("value string", None, "topic option required when no 'topic' attribute is present."),
        ("value int", "t", "value must be a(n) string or binary"),
        ("value string; key bigint", "t", "key must be a(n) string or binary"),
        ("value int", "t", "Write CAST(value AS STRING) AS value, or set valueFormat=json"),
        ("value string; topic binary", None, "topic must be a(n) string"),
        ("value string; partition bigint", "t", "partition must be a(n) int"),
        ("value string; headers string", "t", "headers must be a(n) array<struct<key:string,value:binary>>"),
        ("value string; headers headers!", "t", "headers must be a(n) array<struct<key:string,value:binary>>"),
        ("value string; timestamp bigint", "t", "timestamp must be a(n) timestamp"),
    ],
)
def test_a_wrong_schema_is_refused_in_the_words_of_the_jvm_connector_and_the_next_step_in_ours(ddl, topic, text):
    with pytest.raises(InvalidSchema) as caught:
        SinkSchema.check(spark_schema(ddl), topic)
    assert text in str(caught.value)


def test_a_struct_as_value_is_refused_with_the_ways_to_write_it():
    with pytest.raises(InvalidSchema, match=r"Write to_json\(value\) AS value, or set valueFormat=json$"):
        SinkSchema.check(StructType().add("value", StructType().add("a", "integer")), "t")


def test_other_columns_are_ignored_and_the_check_survives_pickling():
    schema = SinkSchema.check(spark_schema("extra bigint; value binary; offset bigint; topic string"), None)
    assert pickle.loads(pickle.dumps(schema)) == schema
    batch = pa.record_batch([pa.array([1]), pa.array([b"v"]), pa.array([7]), pa.array(["t"])], names=list("abcd"))
    (rows,) = checked_rows(schema, batch)
    assert (rows.topic, rows.count, rows.values.to_pylist()) == ("t", 1, [b"v"])
    assert rows.keys is rows.headers is rows.partitions is rows.timestamps_ms is None


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()]
)
def test_strings_of_any_arrow_kind_become_their_utf8_bytes(kind):
    column = pa.array(["skipped", "grün", None, ""]).cast(kind).slice(1)
    (rows,) = rows_of([column], "value string")
    assert rows.values.type == pa.binary()
    assert rows.values.to_pylist() == ["grün".encode(), None, b""]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary())])
def test_binaries_of_any_arrow_kind_keep_their_bytes(kind):
    column = pa.array([b"\xff\x00", None, b""]).cast(kind)
    (rows,) = rows_of([column, column], "value binary; key binary")
    assert rows.values.to_pylist() == rows.keys.to_pylist() == [b"\xff\x00", None, b""]


def test_headers_keep_order_duplicates_null_values_and_rows_without():
    entries = [[("a", b"1"), ("a", None)], None, []]
    large = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    for kind in (HEADERS_TYPE, large):
        (rows,) = rows_of([pa.array(["x", "y", "z"]), pa.array(entries, kind)], "value string; headers headers")
        assert rows.headers.type == HEADERS_TYPE
        as_pairs = [h if h is None else [(e["key"], e["value"]) for e in h] for h in rows.headers.to_pylist()]
        assert as_pairs == entries


@pytest.mark.parametrize("bad", [[[None]], [[(None, b"v")]]])
def test_a_null_header_or_header_key_is_refused(bad):
    with pytest.raises(InvalidRow, match="headers"):
        rows_of([pa.array(["x"]), pa.array(bad, HEADERS_TYPE)], "value string; headers headers")


@pytest.mark.parametrize("column", [pa.array([1]), pa.array([-1]), pa.array(["2020-01-01"]), pa.array([1.5])])
def test_a_timestamp_of_another_type_is_refused_by_its_name(column):
    """A DataFrame's is checked on the driver; `kafkasource.writer.Writer` takes any table."""
    schema = SinkSchema("t", {"value": 0, "timestamp": 1})
    with pytest.raises(InvalidRow, match=r"column 'timestamp' of type .* must be a timestamp"):
        list(checked_rows(schema, pa.record_batch([pa.array(["v"]), column], ["value", "timestamp"])))


def test_a_topic_that_is_not_utf_8_is_refused_by_its_column():
    """Spark's cast of bytes to a string does not look at them."""
    topics = pa.array([b"to\xff"], pa.binary()).view(pa.string())
    with pytest.raises(InvalidRow, match=r"column 'topic'.*not UTF-8"):
        list(
            checked_rows(
                SinkSchema(None, {"value": 0, "topic": 1}), pa.record_batch([pa.array(["v"]), topics], ["v", "t"])
            )
        )


def test_timestamps_become_milliseconds_rounded_down_and_a_record_without_passes_as_it_was_read():
    """-1 ms is how a record without a timestamp is read; null is the time of writing, as ever."""
    column = pa.array([-1_000, 1_999, None, 0], pa.timestamp("us", "UTC"))
    (rows,) = rows_of([pa.array(["a", "b", "c", "d"]), column], "value string; timestamp timestamp")
    assert rows.timestamps_ms.to_pylist() == [-1, 1, None, 0]


@pytest.mark.parametrize(("unit", "none"), [("ms", -1), ("ns", -1_000_000), ("s", None)])
def test_a_record_without_a_timestamp_passes_in_each_unit_of_arrow_that_can_say_so(unit, none):
    """`Writer` takes tables of any unit."""

    def milliseconds(times):
        column = pa.array(times, pa.timestamp(unit))
        (rows,) = rows_of([pa.array(["a"] * len(times)), column], "value string; timestamp timestamp")
        return rows.timestamps_ms.to_pylist()

    if none is not None:
        assert milliseconds([none, 0]) == [-1, 0]
    with pytest.raises(InvalidRow, match="1970"):
        milliseconds([-1 if none is None else 2 * none])


@pytest.mark.parametrize("before", [-1, -999, -1_001, -2_000, -(10**15)])
def test_a_timestamp_before_1970_is_refused(before):
    """But -1 ms; Java's producer refuses them as well ("Timestamp should always be non-negative or null")."""
    column = pa.array([-1_000, before, 5_000], pa.timestamp("us", "UTC"))
    with pytest.raises(InvalidRow, match="'timestamp': a record's timestamp must not be before 1970-01-01 00:00:00"):
        rows_of([pa.array(["a", "b", "c"]), column], "value string; timestamp timestamp")


def test_rows_go_to_the_topic_they_name_in_their_order():
    columns = [pa.array(["b", "a", "b"]), pa.array(["1", "2", "3"]), pa.array([None, None, 0], pa.int32())]
    found = rows_of(columns, "topic string; value string; partition int", topic=None)
    assert [(r.topic, r.values.to_pylist()) for r in found] == [("b", [b"1", b"3"]), ("a", [b"2"])]
    assert found[0].partitions.to_pylist() == [None, 0]


def test_the_option_wins_over_the_column_even_where_that_is_null():
    (rows,) = rows_of([pa.array(["b", None]), pa.array(["1", "2"])], "topic string; value string", topic="mine")
    assert (rows.topic, rows.count) == ("mine", 2)


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c", ""]),
            st.none() | st.binary(max_size=3),
            st.none() | st.integers(0, 3),
            st.none() | st.lists(st.text(max_size=2), max_size=2),
        ),
        min_size=1,
        max_size=40,
    ),
    before=st.integers(0, 3),
)
def test_each_topic_gets_its_rows_whole_and_in_their_order(rows, before):
    topics, keys, partitions, headers = zip(*(rows[:1] * before + rows), strict=True)
    values = [b"%d" % number for number in range(len(topics))]
    lists = [None if each is None else [{"key": key, "value": None} for key in each] for each in headers]
    kinds = pa.string(), pa.binary(), pa.binary(), pa.int32(), HEADERS_TYPE
    columns = [
        pa.array(column, kind) for column, kind in zip((topics, keys, values, partitions, lists), kinds, strict=True)
    ]
    batch = pa.record_batch(columns, ["topic", "key", "value", "partition", "headers"]).slice(before)
    found = {}
    for each in checked_rows(SinkSchema(None, {name: at for at, name in enumerate(batch.schema.names)}), batch):
        parts = each.keys, each.values, each.partitions, each.headers
        found[each.topic] = [*zip(*([None] * each.count if p is None else p.to_pylist() for p in parts), strict=True)]
    wanted = {}
    for row in list(zip(topics, keys, values, partitions, lists, strict=True))[before:]:
        wanted.setdefault(row[0], []).append(row[1:])
    assert found == wanted


def test_rows_of_many_topics_are_copied_once_for_all_topics():
    topics, values = pa.array([f"t{n % 100}" for n in range(1000)]), pa.array([b"%d" % n for n in range(1000)])
    found = rows_of([topics, values], "topic string; value binary", topic=None)
    assert len(found) == 100
    assert len({rows.values.buffers()[2].address for rows in found}) == 1


@pytest.mark.parametrize(
    ("topics", "value_bytes", "counts"),
    [(1, 1, [100] * 10), (100, 1, [1000]), (5, 1, [100] * 10), (50, 1, [800, 200]), (100, 20_000, [200] * 5)],
)
def test_small_batches_of_many_topics_are_joined_up_to_a_size_and_keep_their_rows_in_order(topics, value_bytes, counts):
    schema = SinkSchema.check(spark_schema("topic string; value binary"), None)
    rows = [(f"t{n * 7 % topics}", b"%d" % n * value_bytes) for n in range(1000)]
    batches = [
        pa.record_batch(
            [pa.array(column) for column in zip(*rows[first : first + 100], strict=True)], ["topic", "value"]
        )
        for first in range(0, 1000, 100)
    ]
    found = list(joined(schema, iter(batches)))
    assert [batch.num_rows for batch in found] == counts
    assert [tuple(row.values()) for batch in found for row in batch.to_pylist()] == rows


def test_batches_for_the_topic_of_the_option_are_not_joined():
    schema = SinkSchema.check(spark_schema("topic string; value binary"), "mine")
    batches = [pa.record_batch([pa.array([f"t{n}"]), pa.array([b"v"])], ["topic", "value"]) for n in range(3)]
    assert list(joined(schema, iter(batches))) == batches


def test_a_null_topic_without_the_option_is_refused():
    with pytest.raises(InvalidRow, match="KAFKA_NULL_TOPIC_IN_DATA"):
        rows_of([pa.array(["b", None]), pa.array(["1", "2"])], "topic string; value string", topic=None)


def test_a_batch_without_rows_gives_nothing():
    assert rows_of([pa.array([], pa.string())], "value string") == []
