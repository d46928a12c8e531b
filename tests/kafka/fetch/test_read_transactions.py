"""Transactions as confluent-kafka reads them: committed, aborted, open, and nothing but their markers."""

import random

import pytest
from confluent_topic import Topic, eventually

pytestmark = pytest.mark.broker

COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.fixture
def topic(kafka_broker):
    return Topic(kafka_broker.bootstrap_servers)


def ours(topic, start=0, **given):
    rows = topic.rows(startingOffsets=topic.from_offset(start), **given)
    return [(row["offset"], row["key"], row["value"]) for row in rows]


def leave_open(producer, topic):
    producer.begin_transaction()
    producer.produce(topic.name, value=b"open", partition=0)
    producer.flush(30)


def test_transactions_side_by_side_are_read_as_confluent_kafka_reads_them_from_any_offset(topic):
    rng = random.Random("side by side")
    producers, busy = [topic.transactional_producer() for _ in range(4)], []
    for step in range(60):
        producer = rng.choice(producers)
        if producer not in busy:
            producer.begin_transaction()
            busy.append(producer)
        for n in range(rng.randrange(4)):
            producer.produce(topic.name, key=b"%d" % step, value=b"%d" % n * rng.choice([1, 300]), partition=0)
        producer.flush(30)
        if rng.random() < 0.4:
            busy.remove(producer)
            producer.commit_transaction(30) if rng.random() < 0.5 else producer.abort_transaction(30)
    for producer in busy:
        producer.commit_transaction(30)
    leave_open(producers[0], topic)
    (task,) = topic.reader(**COMMITTED).partitions()
    ends = {
        "read_committed": task.value[0].end_offset,
        "read_uncommitted": topic.as_confluent_reads(isolation_level="read_uncommitted")[-1][0] + 1,
    }
    assert 10 < ends["read_committed"] < ends["read_uncommitted"]
    for level, end in ends.items():
        for start in [0, *rng.sample(range(end), 2)]:
            seen = topic.as_confluent_reads(start, isolation_level=level)
            expected = [row for row in seen if row[0] < end]  # a marker may have come since
            for limit in ("1", "100000"):
                given = {"kafka.isolation.level": level, "kafka.max.partition.fetch.bytes": limit}
                assert ours(topic, start, endingOffsets=topic.from_offset(end), **given) == expected


def test_an_open_transaction_ends_what_is_read_until_it_is_committed(topic):
    topic.transaction([b"before"], commit=True)
    producer = topic.transactional_producer()
    leave_open(producer, topic)
    topic.write([{"value": b"behind"}])
    eventually(
        lambda: topic.as_confluent_reads(isolation_level="read_committed")
    )  # the broker writes markers by and by
    assert ours(topic, **COMMITTED) == [(0, None, b"before")]
    assert [value for _, _, value in ours(topic)] == [b"before", b"open", b"behind"]
    producer.commit_transaction(30)
    eventually(lambda: len(topic.as_confluent_reads(isolation_level="read_committed")) == 3)
    assert [value for _, _, value in ours(topic, **COMMITTED)] == [b"before", b"open", b"behind"]


def test_a_topic_of_aborted_records_and_markers_alone_gives_no_rows_and_no_wait(topic):
    topic.transaction([b"a", b"b"], commit=False)
    topic.transaction([b"c"], commit=False)
    impatient = {"kafkaConsumer.pollTimeoutMs": "5000"}
    assert ours(topic, **COMMITTED, **impatient) == []
    assert ours(topic, 2, **COMMITTED, **impatient) == []  # a marker first
    assert [offset for offset, _, _ in ours(topic)] == [0, 1, 3]
