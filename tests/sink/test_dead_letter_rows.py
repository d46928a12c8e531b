"""Rows whose column `badRecord` is not null: dead letters, or an error that names the record."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from kafkasource import options
from kafkasource.errors import BadRecord, OptionError
from kafkasource.formats.reading.formats import BAD_RECORD_TYPE
from kafkasource.kafka.producer.rows import InvalidRow
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.sink.clusters import targets
from kafkasource.sink.columns import InvalidSchema, SinkSchema

TYPES = {
    "value": pa.binary(),
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "headers": HEADERS_TYPE,
    "badRecord": BAD_RECORD_TYPE,
}
BASE = {"kafka.bootstrap.servers": "localhost:9092"}


def schema_of(*names):
    found = StructType()
    for name in names:
        found = found.add(name, from_arrow_type(TYPES[name]))
    return found


def bad(number, key=b"k", cluster_id="of the source"):
    return {
        "reason": f"the value of schema id 7: reason {number}",
        "schemaId": 7,
        "key": key,
        "value": b"\0%d" % number,
        "clusterId": cluster_id,
    }


def batch(names, **columns):
    return pa.record_batch([pa.array(columns[name], TYPES[name]) for name in names], names=list(names))


ROWS = {
    "value": [b"good 0", None, b"good 2", None],
    "key": [b"a", None, b"b", None],
    "topic": ["orders", "orders", "orders", "payments"],
    "partition": [None, 1, None, 2],
    "offset": [10, 11, 12, 2**40],
    "timestamp": [1_000_000, 2_000_000, 3_000_000, None],
    "headers": [None, [("x", b"1"), ("x", None)], None, None],
    "badRecord": [None, bad(1), None, bad(3, key=None, cluster_id=None)],
}


def test_dead_letters_are_the_records_as_they_were_read_and_say_from_where_and_why():
    schema = pickle.loads(pickle.dumps(SinkSchema.check(schema_of(*TYPES), "clean", dead_letter_topic="dlq.orders")))
    dead, good = schema.rows(batch(TYPES, **ROWS))
    assert (dead.topic, dead.count, dead.keys.to_pylist()) == ("dlq.orders", 2, [b"k", None])
    assert dead.values.to_pylist() == [b"\x001", b"\x003"]
    assert dead.timestamps_ms.to_pylist() == [2000, None]
    assert dead.partitions is None  # the topic of dead letters need not have the partition
    assert [[(each["key"], each["value"]) for each in row] for row in dead.headers.to_pylist()] == [
        [
            ("x", b"1"),
            ("x", None),
            ("__dlq.errors.topic", b"orders"),
            ("__dlq.errors.partition", b"1"),
            ("__dlq.errors.offset", b"11"),
            ("__dlq.errors.message", b"the value of schema id 7: reason 1"),
            ("__dlq.errors.cluster.id", b"of the source"),
        ],
        [
            ("__dlq.errors.topic", b"payments"),
            ("__dlq.errors.partition", b"2"),
            ("__dlq.errors.offset", b"1099511627776"),
            ("__dlq.errors.message", b"the value of schema id 7: reason 3"),
        ],
    ]
    assert (good.topic, good.values.to_pylist(), good.keys.to_pylist()) == (
        "clean",
        [b"good 0", b"good 2"],
        [b"a", b"b"],
    )
    assert good.headers is good.partitions is None


def test_a_batch_of_only_good_or_only_bad_rows_is_one():
    schema = SinkSchema.check(schema_of(*TYPES), None, dead_letter_topic="dlq")
    rows = batch(TYPES, **ROWS)
    assert [each.topic for each in schema.rows(rows.slice(0, 1))] == ["orders"]
    assert [each.topic for each in schema.rows(rows.slice(1, 1))] == ["dlq"]
    assert list(schema.rows(rows.slice(0, 0))) == []


@pytest.mark.parametrize("name", ["topic", "partition", "offset"])
def test_a_dead_letter_without_its_place_is_refused(name):
    schema = SinkSchema.check(schema_of(*TYPES), "clean", dead_letter_topic="dlq")
    with pytest.raises(InvalidRow, match=f"column '{name}' is null"):
        list(schema.rows(batch(TYPES, **{**ROWS, name: [None] * 4})))


@pytest.mark.parametrize("name", ["topic", "partition", "offset", "headers"])
def test_a_plan_without_a_column_that_dead_letters_need_is_refused_before_a_task(name):
    names = [each for each in TYPES if each != name]
    with pytest.raises(InvalidSchema, match=f"needs the column '{name}'"):
        SinkSchema.check(schema_of(*names), "clean", dead_letter_topic="dlq")


def test_without_bad_records_a_plan_needs_no_more_columns_for_what_cannot_be_written():
    schema = SinkSchema.check(schema_of("value"), "clean", dead_letter_topic="dlq")
    assert (schema.positions, schema.dead_letter_topic) == ({"value": 0}, "dlq")
    packed = SinkSchema.check(StructType().add("records", "binary"), None, dead_letter_topic="dlq")
    assert (packed.positions, packed.dead_letter_topic) == ({"records": 0}, "dlq")


def test_another_column_of_that_name_is_refused_with_dead_letters_and_ignored_without():
    schema = schema_of(*TYPES)
    schema = StructType([each for each in schema if each.name != "badRecord"]).add("badRecord", "string")
    with pytest.raises(InvalidSchema, match="badRecord attribute unsupported type string"):
        SinkSchema.check(schema, "clean", dead_letter_topic="dlq")
    assert "badRecord" not in SinkSchema.check(schema, "clean").positions


def test_without_a_topic_for_it_a_bad_record_fails_the_task_and_is_named():
    """As a null value, it would delete its key from a compacted topic."""
    with pytest.raises(BadRecord, match=r"topic orders, partition 1, offset 11: .*reason 1.*badRecords=topic:NAME"):
        list(SinkSchema.check(schema_of(*TYPES), "clean").rows(batch(TYPES, **ROWS)))
    few = ("value", "badRecord")
    with pytest.raises(BadRecord, match="a row: "):
        list(SinkSchema.check(schema_of(*few), "clean").rows(batch(few, **ROWS)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"badRecords": "column"}, "is for reading"),
        ({"badRecords": "topic"}, "expected fail, column"),
        ({"badRecords": "topic:"}, "expected fail, column"),
        ({"badRecords": "topic:a b"}, "expected fail, column"),
        ({"badRecords": "topic:.."}, "expected fail, column"),
        ({"badRecords": "topic:t", "topic": "t"}, "both name 't'"),
        (
            {
                **{"badRecords": "topic:dlq", "topic": "t", "atomicBatch": "true"},
                **{"deliveryGuarantee": "exactly_once", "transactionalIdPrefix": "p"},
            },
            "cannot be combined with 'atomicBatch'",
        ),
    ],
)
def test_what_a_write_cannot_do_with_bad_records_is_refused(given, words):
    with pytest.raises(OptionError, match=words):
        targets.parse({**BASE, **given})


def test_a_read_has_no_dead_letters():
    with pytest.raises(OptionError, match="is for writing"):
        options.parse({**BASE, "subscribe": "t", "badRecords": "topic:dlq"}, "source")


@pytest.mark.parametrize("given", [{"topic": "dlq"}, {"topic": "t", "clusters.east.topic": "dlq"}])
def test_the_dead_letters_of_a_cluster_need_another_topic_than_its_rows(given):
    with pytest.raises(OptionError, match="both name 'dlq'"):
        targets.parse({"clusters.east.kafka.bootstrap.servers": "e:1", "badRecords": "topic:dlq", **given})


def test_the_topic_keeps_its_case():
    assert targets.parse({**BASE, "badRecords": "TOPIC:Dlq.Orders"}).dead_letter_topic == "Dlq.Orders"
    assert targets.parse(BASE).dead_letter_topic is None
