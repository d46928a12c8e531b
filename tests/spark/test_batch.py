"""Batch reads and writes through Spark, on a real Kafka."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.types import TopicPartition
from kafkasource.writer import Writer

pytestmark = [pytest.mark.broker, pytest.mark.spark]

# The schema that Spark's guide gives for its JVM connector.
JVM_SCHEMA = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
]
JVM_HEADERS = ("headers", "array<struct<key:string,value:binary>>")


def test_the_schema_is_the_jvm_connectors(pykafka, kafka_topic):
    topic = kafka_topic(partitions=1)
    assert pykafka.read(topic).dtypes == JVM_SCHEMA
    assert pykafka.read(topic, includeHeaders="true").dtypes == [*JVM_SCHEMA, JVM_HEADERS]


@pytest.mark.each_kind
def test_what_is_written_is_read_back(pykafka, kafka_topic):
    topic = kafka_topic(partitions=3)
    frame = pykafka.spark.range(1000).selectExpr("CAST(id AS STRING) AS key", "CONCAT('v', id) AS value")
    pykafka.write(frame, topic)
    rows = pykafka.read(topic).collect()
    assert sorted((bytes(r.key).decode(), bytes(r.value).decode()) for r in rows) == sorted(
        (str(i), f"v{i}") for i in range(1000)
    )
    assert {r.partition for r in rows} == {0, 1, 2}
    for partition in range(3):
        offsets = sorted(r.offset for r in rows if r.partition == partition)
        assert offsets == list(range(len(offsets)))


def test_rows_read_without_a_timestamp_are_written_without_one(pykafka, kafka_topic):
    """A topic from before Kafka 0.10, copied. Other times before 1970 are refused, as by Java's producer."""
    origin, copy = kafka_topic(partitions=1), kafka_topic(partitions=1)
    millis = [-1, int(time.time() * 1000), -1]
    with Writer({"kafka.bootstrap.servers": pykafka.bootstrap_servers, "topic": origin}) as writer:
        writer.write(
            pa.table(
                {"value": ["a", "b", "c"], "timestamp": pa.array([1000 * ms for ms in millis], pa.timestamp("us"))}
            )
        )
    pykafka.write(pykafka.read(origin).select("value", "timestamp"), copy)
    for topic in (origin, copy):
        rows = pykafka.read(topic).selectExpr("value", "unix_millis(timestamp) AS ms").collect()
        assert sorted((bytes(r.value), r.ms) for r in rows) == sorted(zip([b"a", b"b", b"c"], millis, strict=True))
    with pytest.raises(PySparkException, match="must not be before 1970-01-01 00:00:00 UTC"):
        pykafka.write(pykafka.spark.sql("SELECT 'x' AS value, timestamp_millis(-2) AS timestamp"), copy)


@pytest.fixture
def cluster(kafka_broker):
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as cluster:
        yield cluster


def test_each_action_on_a_dataframe_reads_what_is_there_at_its_time(pykafka, kafka_topic, cluster):
    """A second action sees new records; those that aged out before it are not lost, as with the JVM connector."""
    topic = kafka_topic(partitions=2)  # the second of them stays empty until the plan is made
    first, more = (
        pykafka.spark.range(*ids).coalesce(1).selectExpr("CAST(id AS STRING) AS value", f"{partition} AS partition")
        for partition, ids in enumerate([(0, 10), (10, 20)])
    )
    pykafka.write(first, topic)
    frame = pykafka.read(topic).selectExpr("CAST(CAST(value AS STRING) AS INT) AS number")
    assert sorted(row.number for row in frame.collect()) == list(range(10))
    pykafka.write(more, topic)
    assert sorted(row.number for row in frame.collect()) == list(range(20))
    cluster.offsets.delete_records({TopicPartition(topic, 0): 7})
    assert sorted(row.number for row in frame.collect()) == list(range(7, 20))


def test_a_batch_starts_where_a_group_stands(pykafka, kafka_topic, cluster):
    topic = kafka_topic(partitions=1)
    pykafka.write(pykafka.spark.range(10).coalesce(1).selectExpr("CAST(id AS STRING) AS value"), topic)
    committed = {"startingOffsets": "committed", "kafka.group.id": topic}
    with pytest.raises(PySparkException, match=r"has no committed offset for.*committed:earliest"):
        pykafka.values(topic, **committed)
    cluster.groups.commit(topic, {TopicPartition(topic, 0): 8})
    assert pykafka.values(topic, **committed) == ["8", "9"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"startingOffsets": "{"}, "startingOffsets"),
        ({"assign": '{"t":[0]}'}, "Only one of the following options can be specified"),
        ({"failOnDataLoss": "maybe"}, "'failOnDataLoss': expected true or false"),
    ],
)
def test_a_wrong_option_fails_on_the_driver_before_any_broker_is_asked(pykafka, options, says):
    reader = pykafka.spark.read.format("pykafka").option("kafka.bootstrap.servers", "127.0.0.1:1")
    with pytest.raises(PySparkException, match=says):
        reader.option("subscribe", "t").options(**options).load().collect()


def test_a_topic_that_does_not_exist_is_an_error_that_names_subscribe(pykafka):
    with pytest.raises(PySparkException, match="subscribe"):
        pykafka.read("there-is-no-such-topic", **{"kafka.default.api.timeout.ms": "1000"}).collect()


def test_an_unreachable_broker_is_named_with_its_reason(spark, pykafka):
    reader = spark.read.format("pykafka").option("kafka.bootstrap.servers", "127.0.0.1:1")
    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:1: .*refused"):
        reader.option("subscribe", "t").option("kafka.default.api.timeout.ms", "1000").load().collect()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (["'x' AS key"], "Required attribute 'value' not found"),
        (["1 AS value"], "value must be a"),
        (["'v' AS value", "1.5 AS key"], "key must be a"),
        (["'v' AS value", "'0' AS partition"], "partition must be a"),
    ],
)
def test_wrong_columns_are_refused_before_anything_is_written(pykafka, kafka_topic, columns, says):
    topic = kafka_topic(partitions=1)
    with pytest.raises(PySparkException, match=says):
        pykafka.write(pykafka.spark.range(1).selectExpr(*columns), topic)
    assert pykafka.values(topic) == []


def test_a_write_without_topic_or_with_overwrite_is_refused(pykafka):
    frame = pykafka.spark.range(1).selectExpr("'v' AS value")
    with pytest.raises(PySparkException, match="topic option required when no 'topic' attribute is present"):
        pykafka.write(frame)
    writer = frame.write.format("pykafka").option("kafka.bootstrap.servers", pykafka.bootstrap_servers)
    with pytest.raises(PySparkException, match="Save mode Overwrite not allowed for Kafka"):
        writer.option("topic", "t").mode("overwrite").save()
