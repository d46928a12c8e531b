"""Every codec, many records: exactly the rows that confluent-kafka sees.

KAFKASOURCE_TEST_RECORDS=2000000 makes it two million for each codec (some minutes in all).
"""

import os
import random

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_topic import Topic

pytestmark = [pytest.mark.broker, pytest.mark.peers]

COUNT = int(os.environ.get("KAFKASOURCE_TEST_RECORDS", "50000"))
COLUMNS = ["key", "value", "offset", "timestamp", "timestampType", "headers"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_those_that_confluent_kafka_sees(kafka_broker, codec):
    topic = Topic(kafka_broker.bootstrap_servers, retention_ms=-1)  # the timestamps are old
    write(topic, codec)
    seen = as_confluent_sees(topic)
    (task,) = topic.reader(includeHeaders="true").partitions()
    count = 0
    for batch in topic.reader(includeHeaders="true").read(task):
        millis = batch.column("timestamp").cast(pa.int64()).to_pylist()
        columns = {name: batch.column(name).to_pylist() for name in COLUMNS} | {
            "timestamp": [micros // 1000 for micros in millis]
        }
        for row in zip(*columns.values(), strict=True):
            assert row == next(seen)
        assert set(batch.column("topic").to_pylist()) == {topic.name}
        assert set(batch.column("partition").to_pylist()) == {0}
        count += batch.num_rows
    assert count == COUNT


def write(topic, codec):
    rng = random.Random(codec)
    text = b"".join(b"%05d " % rng.randrange(20_000) for _ in range(2000))
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": topic.bootstrap_servers,
            "compression.type": codec,
            "linger.ms": 20,
            "batch.size": rng.choice([16_384, 1_000_000]),
        }
    )
    for number in range(COUNT):
        at, size = rng.randrange(len(text)), rng.choice((0, 20, 90, 90, 400))
        record = {
            "value": text[at : at + size] if number % 97 else None,
            "timestamp": 1_700_000_000_000 + number % 5000,
        }
        if number % 3:
            record["key"] = b"%d" % number
        if number % 50 == 0:
            record["headers"] = [("h", b"%d" % number), ("h", None)]
        while True:
            try:
                producer.produce(topic.name, partition=0, **record)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def as_confluent_sees(topic):
    """Rows as tuples of COLUMNS, in order."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": topic.bootstrap_servers,
            "group.id": topic.name,
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic.name, 0, 0)])
        left = COUNT
        while left:
            messages = consumer.consume(min(left, 10_000), timeout=30)
            assert messages
            left -= len(messages)
            for message in messages:
                assert message.error() is None
                kind, millis = message.timestamp()
                headers = message.headers()
                yield (
                    message.key(),
                    message.value(),
                    message.offset(),
                    millis,
                    kind - 1,  # librdkafka: 1 create time, 2 log-append time
                    None if headers is None else [{"key": key, "value": value} for key, value in headers],
                )
    finally:
        consumer.close()
