"""Reads of some columns through Spark, on a real Kafka: batch, stream, and Spark's error for a wrong `.schema()`."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from kafkasource.reader import Reader

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture
def topic(pykafka, kafka_topic):
    name = kafka_topic(partitions=2)
    rows = pykafka.spark.range(60).selectExpr(
        "CAST(id % 7 AS STRING) AS key",
        "CONCAT('v', id) AS value",
        "array(struct('n' AS key, CAST(CAST(id AS STRING) AS BINARY) AS value)) AS headers",
    )
    pykafka.write(rows, name)
    return name


def texts(rows):
    return sorted(bytes(row.value).decode() for row in rows)


EXPECTED = sorted(f"v{number}" for number in range(60))


@pytest.mark.each_kind
def test_a_batch_read_has_the_columns_that_are_named(pykafka, topic):
    by_option = pykafka.read(topic, columns="timestamp,value")
    assert by_option.dtypes == [("timestamp", "timestamp"), ("value", "binary")]
    by_schema = pykafka.reading(topic).schema("timestamp TIMESTAMP, value BINARY").load()
    assert by_schema.dtypes == by_option.dtypes
    assert texts(by_option.collect()) == texts(by_schema.collect()) == EXPECTED
    whole = {(row.timestamp, bytes(row.value)) for row in pykafka.read(topic).collect()}
    assert {(row.timestamp, bytes(row.value)) for row in by_option.collect()} == whole
    numbers = pykafka.reading(topic).schema("partition INT, offset BIGINT").load()
    assert {tuple(row) for row in numbers.collect()} == {
        (row.partition, row.offset) for row in pykafka.read(topic).collect()
    }
    assert pykafka.read(topic, columns="topic").distinct().collect()[0].topic == topic
    assert pykafka.read(topic, columns="value").count() == 60


def test_headers_come_where_they_are_named_or_included(pykafka, topic):
    for rows in (
        pykafka.read(topic, columns="value,headers"),
        pykafka.read(topic, columns="value", includeHeaders="true"),
        pykafka.reading(topic).schema("value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>").load(),
    ):
        assert rows.columns == ["value", "headers"]
        found = {bytes(row.value).decode(): bytes(row.headers[0].value).decode() for row in rows.collect()}
        assert found == {f"v{number}": str(number) for number in range(60)}


@pytest.mark.each_kind
def test_a_stream_has_the_columns_that_are_named_and_restarts(pykafka, kafka_topic, tmp_path):
    name = kafka_topic(partitions=1)
    for first in (0, 30):  # the second run chooses by `.schema()` and goes on from the checkpoint of the first
        pykafka.write(pykafka.spark.range(first, first + 30).selectExpr("CONCAT('v', id) AS value"), name)
        reading = pykafka.reading(name, stream=True, startingOffsets="earliest")
        reading = reading.schema("value BINARY, offset BIGINT") if first else reading.option("columns", "value,offset")
        writing = reading.load().writeStream.format("parquet").option("path", str(tmp_path / "data"))
        writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        for query in pykafka.spark.streams.active:
            query.awaitTermination()
    rows = pykafka.spark.read.parquet(str(tmp_path / "data")).collect()
    assert texts(rows) == EXPECTED
    assert sorted(row.offset for row in rows) == list(range(60))


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
def test_a_wrong_schema_is_an_error_that_names_the_column(pykafka, topic, stream, tmp_path):
    reading = pykafka.reading(topic, stream=stream).schema("value BINARY, offset STRING")

    def run():
        rows = reading.load()
        if stream:
            rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start().awaitTermination()
        else:
            rows.collect()

    with pytest.raises(PySparkException, match=r"the column 'offset' is bigint, and \.schema\(\) says string"):
        run()


def test_a_reader_without_spark_makes_the_same_choice(pykafka, topic):
    given = {"kafka.bootstrap.servers": pykafka.bootstrap_servers, "subscribe": topic, "columns": "offset,value"}
    with Reader(given) as reader:
        batches = list(reader)
    assert {tuple(batch.schema.names) for batch in batches} == {("offset", "value")}
    assert sorted(value.decode() for batch in batches for value in batch.column("value").to_pylist()) == EXPECTED
