"""A streaming query's metrics as they come out of Spark: what workers count, what survives them, what a page shows."""

import json
import time
import uuid
from pathlib import Path

import confluent_kafka
import pytest
from confluent_transactions import open_transactions
from python_workers import kill_idle_workers
from served_page import get, number, of_topic, samples, wait_for

import kafkasource

pytestmark = [pytest.mark.spark]

ROWS = 3000


def rows(spark, first, last):
    return spark.range(first, last).selectExpr(
        "cast(cast(id as string) as binary) key", "cast(repeat('x', 50) as binary) value"
    )


@pytest.fixture(scope="module")
def served(spark):
    with kafkasource.serve_metrics(spark, cluster_name="test") as served:
        yield served


@pytest.fixture
def copying(pykafka, spark, served, kafka_topic, tmp_path):
    """A query that copies ROWS rows from one topic to another, 1000 at a time; done when the test begins."""
    source, target = kafka_topic(partitions=3), kafka_topic(partitions=3)
    pykafka.write(rows(spark, 0, ROWS), source)
    query = (
        pykafka.reading(
            source, stream=True, startingOffsets="earliest", maxOffsetsPerTrigger=1000, trigger="processingTime"
        )
        .load()
        .writeStream.format("pykafka")
        .option("kafka.bootstrap.servers", pykafka.bootstrap_servers)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .queryName("copy")
        .start()
    )
    wait_for(lambda: any(one["id"] == str(query.id) and one["rows"] == ROWS for one in served.queries()))
    yield query, source, target
    query.stop()


def test_a_query_is_seen_from_outside_and_its_counters_survive_its_workers(copying, served, spark, pykafka, browse):
    query, source, target = copying
    found = samples(served)
    assert of_topic(found, "kafkasource_records_written_total", source) == ROWS  # by the batch write before
    assert of_topic(found, "kafkasource_records_written_total", target) == ROWS
    assert of_topic(found, "kafkasource_records_read_total", source) == ROWS
    assert of_topic(found, "kafkasource_bytes_read_total", source) > ROWS * 50
    offsets = {
        int(labels["partition"]): value
        for labels, value in found["kafka_consumergroup_group_offset"]
        if (labels["topic"], labels["group"], labels["cluster_name"]) == (source, "copy", "test")
    }
    assert len(offsets) == 3
    assert sum(offsets.values()) == ROWS
    assert of_topic(found, "kafka_consumergroup_group_lag", source) == 0
    assert of_topic(found, "kafka_consumergroup_group_lag_seconds", source) == 0
    assert ({"query": "copy"}, ROWS) in found["kafkasource_query_input_rows_total"]

    page = browse(served.url + "/")
    shown = next(one for one in json.loads(get(served.url + "/api/queries")) if one["id"] == str(query.id))
    assert number(page.tiles[shown["id"], "rows"]) == shown["rows"] == ROWS
    assert number(page.tiles[shown["id"], "lag"]) == shown["lag"]

    assert kill_idle_workers(spark)
    pykafka.write(rows(spark, ROWS, ROWS + 500), source)
    wait_for(lambda: of_topic(samples(served), "kafkasource_records_written_total", target) == ROWS + 500)
    found = samples(served)
    assert of_topic(found, "kafkasource_records_written_total", source) == ROWS + 500
    assert of_topic(found, "kafkasource_records_read_total", source) == ROWS + 500
    assert len(json.loads((served.folder / "folded.json").read_text())["of"]) >= 2


@pytest.mark.needs_spark("lag_seconds")
def test_a_log_that_does_not_grow_any_more_says_how_far_a_query_is_behind(
    pykafka, served, kafka_broker, kafka_topic, tmp_path, browse
):
    """Partition 0 was written two hours ago and rests, partition 1 is read whole: the ends do not tell the time."""
    topic, written_s = kafka_topic(partitions=2), time.time() - 7200
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for record in range(5000):
        producer.produce(topic, value=b"x", partition=0, timestamp=int(written_s * 1000) + record)
    producer.produce(topic, value=b"x", partition=1)
    assert producer.flush(30) == 0
    query = (
        pykafka.reading(
            topic, stream=True, startingOffsets="earliest", maxOffsetsPerTrigger=100, trigger="processingTime"
        )
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="1 hour")
        .queryName("behind")
        .start()
    )
    try:
        shown = wait_for(lambda: [one for one in served.queries() if one["name"] == "behind" and one["partitions"]])[0]
        page = browse(served.url + "/")
        found = samples(served)
    finally:
        query.stop()
    assert shown["lag"] > 4000
    oldest_s = time.time() - written_s
    lags = {one["partition"]: one["lag_seconds"] for one in shown["partitions"]}
    assert oldest_s - 120 < lags[0] <= oldest_s
    assert lags[1] == 0.0
    assert shown["lag_seconds"] == lags[0]
    assert page.tiles[shown["id"], "lag_seconds"] == "2.0 h"
    (gauge,) = (
        value for labels, value in found["kafka_consumergroup_group_max_lag_seconds"] if labels["group"] == "behind"
    )
    assert gauge == shown["lag_seconds"]


@pytest.fixture
def open_transaction(kafka_broker, kafka_topic):
    """`open_transaction(transactional_id)`: one of another client, which has written and stays open until the end."""
    topic = kafka_topic()
    with open_transactions({"bootstrap.servers": kafka_broker.bootstrap_servers}) as begin:
        yield lambda transactional_id: begin(transactional_id, topic)


def test_open_transactions_of_sinks_are_asked_of_their_brokers(pykafka, spark, open_transaction, tmp_path, kafka_topic):
    """One sink has written to one cluster, one has several clusters, and one has a cluster that is away."""
    checkpoint, source, target = tmp_path / "checkpoint", kafka_topic(), kafka_topic()
    to = {"kafka.bootstrap.servers": pykafka.bootstrap_servers}
    once = {"deliveryGuarantee": "exactly_once", "topic": target}
    orders = {**to, **once, "checkpointLocation": str(checkpoint)}
    pykafka.write(rows(spark, 0, 10), source)
    reading = pykafka.reading(source, stream=True, startingOffsets="earliest").load().select("key", "value")
    query = reading.writeStream.format("pykafka").options(**orders).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    dead = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "1000"}
    both, half = uuid.uuid4().hex, uuid.uuid4().hex
    sinks = {
        "orders": orders,
        "both": {**once, "transactionalIdPrefix": both, "clusters": json.dumps({"east": to, "west": to})},
        "half": {**once, "transactionalIdPrefix": half, "clusters": json.dumps({"east": to, "west": dead})},
    }

    def gauges(name):
        with kafkasource.serve_metrics(spark, sinks=sinks) as serving:
            found = samples(serving)[name]
        return {(labels["sink"], labels["cluster_name"]): value for labels, value in found}

    none_open = {("orders", ""): 0, ("both", "east"): 0, ("both", "west"): 0, ("half", "east"): 0}
    assert gauges("kafkasource_open_transactions") == none_open
    query_id = json.loads((checkpoint / "metadata").read_text())["id"]
    for name in (f"kafkasource-{query_id}-0", f"{both}-west-driver", f"{both}-west-1", f"{half}-east-0"):
        open_transaction(name)
    began_s = time.monotonic()
    now_open = {("orders", ""): 1, ("both", "east"): 0, ("both", "west"): 2, ("half", "east"): 1}
    assert gauges("kafkasource_open_transactions") == now_open
    ages = gauges("kafkasource_oldest_transaction_seconds")
    assert {labels for labels, age in ages.items() if age > 0} == {labels for labels, n in now_open.items() if n}
    assert max(ages.values()) < time.monotonic() - began_s + 60


@pytest.mark.slow
@pytest.mark.extended
def test_executors_elsewhere_report_what_they_wrote(tmp_path):
    """Executors of a cluster have folders of their own: what they wrote comes with their tasks' reports."""
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "elsewhere_app.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["processes"] >= 2
    assert told["written"] == [1000, 2000]
