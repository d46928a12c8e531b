"""Other clients see in the consumer group how far a query has come."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, TopicPartition

import kafkasource
from kafkasource.types import TopicPartition as TP

pytestmark = [pytest.mark.broker, pytest.mark.spark]
PATIENCE_S = 60  # for what comes on another thread; passes at once where all is well


class Monitor:
    """librdkafka, looking at a group without joining it."""

    def __init__(self, bootstrap_servers, group, topic, partitions=1):
        self.consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
        self.partitions = [TopicPartition(topic, n) for n in range(partitions)]

    def committed(self):
        """Offsets by partition; None where there is none."""
        found = self.consumer.committed(self.partitions, timeout=30)
        return [None if tp.offset < 0 else tp.offset for tp in found]

    def ends(self):
        return [self.consumer.get_watermark_offsets(tp, timeout=30)[1] for tp in self.partitions]

    def lag(self):
        return [
            None if committed is None else end - committed
            for end, committed in zip(self.ends(), self.committed(), strict=True)
        ]

    def await_lag(self, expected):
        deadline = time.monotonic() + PATIENCE_S
        while (lag := self.lag()) != expected and time.monotonic() < deadline:
            time.sleep(0.05)
        assert lag == expected


@pytest.fixture
def monitor(kafka_broker):
    made = []

    def make(group, topic, partitions=1):
        made.append(Monitor(kafka_broker.bootstrap_servers, group, topic, partitions))
        return made[-1]

    yield make
    for each in made:
        each.consumer.close()


def numbers(pykafka, count, partition=None):
    columns = ["CAST(id AS STRING) AS value"] + ([] if partition is None else [f"{partition} AS partition"])
    return pykafka.spark.range(count).coalesce(1).selectExpr(*columns)


def start(pykafka, topic, folder, group, **options):
    trigger = {name: options.pop(name) for name in ("once", "availableNow", "processingTime") if name in options}
    stream = pykafka.reading(
        topic, stream=True, startingOffsets="earliest", **{"kafka.group.id": group, **options}
    ).load()
    writing = stream.writeStream.format("noop").option("checkpointLocation", str(folder))
    return (writing.trigger(**trigger) if trigger else writing).start()


@pytest.mark.needs_spark("last_group_commit")
def test_available_now_leaves_no_lag_when_it_ends(pykafka, kafka_topic, monitor, tmp_path):
    topic = kafka_topic(partitions=2)
    pykafka.write(numbers(pykafka, 30, partition=0), topic)
    pykafka.write(numbers(pykafka, 7, partition=1), topic)
    group = f"{topic}-group"
    query = start(pykafka, topic, tmp_path, group, maxOffsetsPerTrigger="10", availableNow=True)
    query.awaitTermination()
    assert monitor(group, topic, 2).committed() == [30, 7]
    assert kafkasource.lag(query) == {TP(topic, 0): 0, TP(topic, 1): 0}
    read = 0
    for progress in query.recentProgress:
        read += progress["numInputRows"]
        assert sum(kafkasource.lag(progress).values()) == 37 - read


def test_a_running_query_shows_no_lag_when_it_has_caught_up(pykafka, kafka_topic, monitor, tmp_path):
    topic = kafka_topic(partitions=1)
    group = f"{topic}-group"
    seen = monitor(group, topic)
    pykafka.write(numbers(pykafka, 20), topic)
    query = start(pykafka, topic, tmp_path, group, processingTime="100 milliseconds")
    try:
        seen.await_lag([0])
        pykafka.write(numbers(pykafka, 5), topic)
        query.processAllAvailable()
        seen.await_lag([0])
        assert seen.committed() == [25]
        assert kafkasource.lag(query) == {TP(topic, 0): 0}
    finally:
        query.stop()


def test_a_query_that_is_stopped_sends_its_last_commit(pykafka, kafka_topic, monitor, tmp_path):
    topic = kafka_topic(partitions=1)
    group = f"{topic}-group"
    query = start(pykafka, topic, tmp_path, group)
    for _ in range(3):
        pykafka.write(numbers(pykafka, 10), topic)
        query.processAllAvailable()
    query.stop()  # within a second of the last commit
    monitor(group, topic).await_lag([0])


@pytest.mark.each_kind
def test_the_end_of_a_trigger_once_is_told_by_the_next_start(pykafka, kafka_topic, monitor, tmp_path):
    """Spark tells a source that a micro-batch has finished when it plans the next one: here, in the next run."""
    topic = kafka_topic(partitions=1)
    group = f"{topic}-group"
    pykafka.write(numbers(pykafka, 10), topic)
    for _ in range(2):
        start(pykafka, topic, tmp_path, group, once=True).awaitTermination()
    monitor(group, topic).await_lag([0])


def test_a_group_with_live_members_does_not_stop_the_query(pykafka, kafka_broker, kafka_topic, monitor, tmp_path):
    topic = kafka_topic(partitions=1)
    group = f"{topic}-group"
    pykafka.write(numbers(pykafka, 10), topic)
    member = Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": group})
    member.subscribe([topic])
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not member.assignment() and time.monotonic() < deadline:
            member.poll(0.1)
        assert member.assignment()
        query = start(pykafka, topic, tmp_path, group, availableNow=True)
        query.awaitTermination()
        assert sum(progress["numInputRows"] for progress in query.recentProgress) == 10
        assert monitor(group, topic).committed() == [None]
    finally:
        member.close()


def test_without_a_group_nothing_is_committed(pykafka, kafka_topic, monitor, tmp_path):
    topic = kafka_topic(partitions=1)
    pykafka.write(numbers(pykafka, 10), topic)
    group = f"{topic}-group"
    start(pykafka, topic, tmp_path, group, commitOffsets="false", availableNow=True).awaitTermination()
    assert monitor(group, topic).committed() == [None]
