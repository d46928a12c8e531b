"""A checkpoint goes on under another release of Spark: an exactly-once query loses no row and doubles none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_reader import values_of
from other_sparks import python_of, run_on
from upgrade_app import ROWS_PER_BATCH

from lab.jvm_connector import jvm_connector_jars

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.extended]
APP = Path(__file__).with_name("upgrade_app.py")
VALUES = [str(i).encode() for i in range(3_000)]


def numbers_in(log):
    return [int(path.name) for path in log.iterdir() if path.name.isdigit()]


def leave_the_last_batch_unfinished(checkpoint):
    """Leave the state after a driver's death between the sink's commit and Spark's: the next release runs it again."""
    last = max(numbers_in(checkpoint / "commits"))
    if max(numbers_in(checkpoint / "offsets")) == last:
        for name in (f"{last}", f".{last}.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)


def produce(servers, topic):
    producer = Producer({"bootstrap.servers": servers})
    for i, value in enumerate(VALUES):
        producer.produce(topic, value, partition=i % 2)
    assert producer.flush(60) == 0


def copy_in_two_runs(broker, kafka_topic, folder, first, then, first_format="pykafka", jars=""):
    python_of(first), python_of(then)  # skips before anything runs
    servers, source, target = broker.bootstrap_servers, kafka_topic(partitions=2), kafka_topic(partitions=2)
    produce(servers, source)
    before = run_on(first, APP, servers, source, target, folder, first_format, 3, jars)
    leave_the_last_batch_unfinished(folder / "checkpoint")
    copied = values_of(servers, target, (0, 1))
    assert 2 * ROWS_PER_BATCH < len(copied[0] + copied[1]) < len(VALUES)

    after = run_on(then, APP, servers, source, target, folder, "pykafka", 0)
    copied = values_of(servers, target, (0, 1))
    assert sorted(copied[0] + copied[1]) == sorted(VALUES)
    assert max(before["rows_of_batches"] + after["rows_of_batches"]) <= ROWS_PER_BATCH


@pytest.mark.parametrize(
    "before",
    ["at_least_once", pytest.param("kafka", marks=pytest.mark.peers)],
    ids=["our sink at least once", "the JVM connector"],
)
def test_a_query_that_died_in_a_batch_it_wrote_at_least_once_goes_on_exactly_once(
    kafka_broker, kafka_topic, tmp_path, before
):
    """Rows of that batch may come once more, as at least once allows. Those of the last batch of the first run that
    wrote exactly once do not, though Spark runs it again, too."""
    jars = ",".join(map(str, jvm_connector_jars())) if before == "kafka" else ""
    servers, source, target = kafka_broker.bootstrap_servers, kafka_topic(partitions=2), kafka_topic(partitions=2)
    produce(servers, source)
    for batches, sink in ((3, before), (3, "exactly_once"), (0, "exactly_once")):
        how = (before, batches, jars, "kafka") if sink == "kafka" else ("pykafka", batches, jars, sink)
        run_on("4.2", APP, servers, source, target, tmp_path, *how)
        if batches:
            leave_the_last_batch_unfinished(tmp_path / "checkpoint")
    copied = values_of(servers, target, (0, 1))
    times = Counter(copied[0] + copied[1])
    assert times.keys() == set(VALUES)
    assert len(copied[0] + copied[1]) - len(VALUES) <= ROWS_PER_BATCH


@pytest.mark.parametrize(
    ("first", "then"), [("4.0", "4.3"), ("4.0", "4.2"), ("4.1", "4.3"), ("4.2", "4.0"), ("4.3", "4.0")]
)
def test_a_query_that_stopped_on_one_release_of_spark_goes_on_under_another(
    kafka_broker, kafka_topic, tmp_path, first, then
):
    copy_in_two_runs(kafka_broker, kafka_topic, tmp_path, first, then)


@pytest.mark.peers
@pytest.mark.parametrize("then", ["4.0", "4.3"])
def test_a_checkpoint_of_the_jvm_connector_on_4_0_goes_on_with_ours(kafka_broker, kafka_topic, tmp_path, then):
    """Spark finds the sink's part of the checkpoint again, too: both runs write with ours."""
    jars = ",".join(map(str, jvm_connector_jars("4.0.0")))
    copy_in_two_runs(kafka_broker, kafka_topic, tmp_path, "4.0", then, "kafka", jars)
