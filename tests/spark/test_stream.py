"""Streaming reads and writes through Spark, on a real Kafka."""

from __future__ import annotations

import json

import pytest
from python_workers import kill_idle_workers

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig

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


def test_the_offset_in_the_checkpoint_is_the_jvm_connectors_json(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    pykafka.write(numbers(pykafka, 0, 7), topic)
    run_to_end(to_parquet(pykafka.reading(topic, stream=True, startingOffsets="earliest").load(), tmp_path))
    logged = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1]
    assert json.loads(logged)[topic] == {"0": 7}


@pytest.mark.needs_spark("limited_available_now")
def test_max_offsets_per_trigger_bounds_each_micro_batch(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    pykafka.write(numbers(pykafka, 0, 25), topic)
    stream = pykafka.reading(topic, stream=True, startingOffsets="earliest", maxOffsetsPerTrigger="10").load()
    batches = run_to_end(to_parquet(stream, tmp_path))
    assert [progress["numInputRows"] for progress in batches] == [10, 10, 5]
    assert values_in(pykafka, tmp_path) == list(range(25))


@pytest.mark.needs_spark("limited_available_now")
def test_available_now_leaves_what_came_later_to_the_next_run(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    pykafka.write(numbers(pykafka, 0, 10), topic)
    seen = []

    def write_more(frame, batch_id):
        seen.append(frame.count())
        if batch_id == 0:
            pykafka.write(numbers(pykafka, 10, 20), topic)

    stream = pykafka.reading(topic, stream=True, startingOffsets="earliest", maxOffsetsPerTrigger="5").load()
    run_to_end(
        stream.writeStream.foreachBatch(write_more)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert seen == [5, 5]


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


def test_a_new_partition_is_read_from_its_start(pykafka, kafka_broker, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    stream = pykafka.reading(topic, stream=True, startingOffsets="earliest").load()
    pykafka.write(numbers(pykafka, 0, 5), topic)
    run_to_end(to_parquet(stream, tmp_path))
    cluster = Cluster(ClientConfig.of(kafka_broker.bootstrap_servers))
    cluster.topics.add_partitions({topic: 2})
    cluster.close()
    pykafka.write(numbers(pykafka, 5, 9).selectExpr("value", "1 AS partition"), topic)
    run_to_end(to_parquet(stream, tmp_path))
    assert values_in(pykafka, tmp_path) == list(range(9))


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
    """As when nothing comes for a minute, and Spark ends them: their connections and all they knew are gone."""
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
