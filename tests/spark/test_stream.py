"""Streaming reads and writes through Spark, on a real Kafka."""

from __future__ import annotations

import pytest
from python_workers import kill_idle_workers

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def numbers(pykafka, first, end):
    return pykafka.spark.range(first, end).coalesce(1).selectExpr("CAST(id AS STRING) AS value")


def run_to_end(query):
    """Wait for an AvailableNow query, and give its micro-batches that had rows."""
    query.awaitTermination()
    return [progress for progress in query.recentProgress if progress["numInputRows"]]


def to_parquet(frame, folder):
    """An AvailableNow run that appends to files, with its checkpoint beside them."""
    return (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "data"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def values_in(pykafka, folder):
    return sorted(int(bytes(row.value)) for row in pykafka.spark.read.parquet(str(folder / "data")).collect())


@pytest.mark.each_kind
def test_a_restart_goes_on_from_its_checkpoint(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=2)
    stream = pykafka.reading(topic, stream=True, startingOffsets="earliest").load()
    pykafka.write(numbers(pykafka, 0, 50), topic)
    run_to_end(to_parquet(stream, tmp_path))
    pykafka.write(numbers(pykafka, 50, 120), topic)
    run_to_end(to_parquet(stream, tmp_path))
    run_to_end(to_parquet(stream, tmp_path))  # nothing new
    assert values_in(pykafka, tmp_path) == list(range(120))


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_append_and_complete_write(pykafka, kafka_topic, tmp_path, mode):
    source, target = kafka_topic(partitions=2), kafka_topic(partitions=2)
    pykafka.write(
        pykafka.spark.range(30).selectExpr("CAST(id AS STRING) AS key", "CAST(id % 3 AS STRING) AS value"), source
    )
    stream = pykafka.reading(source, stream=True, startingOffsets="earliest").load()
    result = stream.select("value") if mode == "append" else stream.groupBy("value").count()
    if mode != "append":
        result = result.selectExpr("concat(CAST(value AS STRING), ':', count) AS value")
    query = (
        result.writeStream.format("pykafka")
        .option("kafka.bootstrap.servers", pykafka.bootstrap_servers)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path))
        .outputMode(mode)
        .trigger(availableNow=True)
        .start()
    )
    run_to_end(query)
    expected = sorted(str(i % 3) for i in range(30)) if mode == "append" else ["0:10", "1:10", "2:10"]
    assert pykafka.values(target) == expected


@pytest.mark.needs_spark("limited_available_now")
def test_update_mode_writes_through_foreach_batch(pykafka, kafka_topic, tmp_path):
    """Spark refuses update mode to every Python sink; this is the way that docs/writing.md gives."""
    source, target = kafka_topic(partitions=1), kafka_topic(partitions=1)
    pykafka.write(numbers(pykafka, 0, 6).selectExpr("CAST(value % 2 AS STRING) AS value"), source)
    stream = pykafka.reading(source, stream=True, startingOffsets="earliest", maxOffsetsPerTrigger="3").load()
    counts = stream.groupBy("value").count().selectExpr("concat(CAST(value AS STRING), ':', count) AS value")
    query = (
        counts.writeStream.foreachBatch(lambda frame, _: pykafka.write(frame, target))
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    run_to_end(query)
    assert pykafka.values(target) == ["0:2", "0:3", "1:1", "1:3"]


def test_workers_that_end_between_two_micro_batches_are_replaced(pykafka, kafka_topic):
    """Workers end, as Spark ends them after an idle minute: their connections and all they knew are gone."""
    topic = kafka_topic(partitions=2)
    stream = pykafka.reading(topic, stream=True, startingOffsets="earliest").load()
    query = stream.writeStream.format("memory").queryName("workers_replaced").start()
    try:
        pykafka.write(numbers(pykafka, 0, 10), topic)
        query.processAllAvailable()
        assert kill_idle_workers(pykafka.spark)
        pykafka.write(numbers(pykafka, 10, 20), topic)
        query.processAllAvailable()
    finally:
        query.stop()
    rows = pykafka.spark.table("workers_replaced").collect()
    assert sorted(int(bytes(row.value)) for row in rows) == list(range(20))
