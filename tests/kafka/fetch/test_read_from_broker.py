"""Readers and fetcher on a real Kafka. confluent-kafka writes, so what is read was not encoded by us."""

import pytest
from confluent_topic import Topic, rows_of

from kafkasource import options
from kafkasource.errors import DataLoss
from kafkasource.source.spark.input_partition import KafkaInputPartition
from kafkasource.source.spark.stream import StreamReader
from kafkasource.types import OffsetRange, TopicPartition

pytestmark = pytest.mark.broker


@pytest.fixture
def topic(kafka_broker):
    return lambda partitions=1, **config: Topic(kafka_broker.bootstrap_servers, partitions, **config)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_another_client_wrote_is_read_value_by_value(topic, codec):
    topic = topic()
    records = [
        {"key": b"k", "value": b"v", "headers": [("h", b"1"), ("h", None), ("e", b"")], "timestamp": 1_700_000_000_123},
        {"key": None, "value": b"", "timestamp": 1},
        {"key": b"", "value": None, "timestamp": 2},
        *({"key": b"%d" % n, "value": b"x" * (n % 300), "timestamp": 10 + n} for n in range(2000)),
    ]
    topic.write(records, compression_type=codec)
    rows = topic.rows(includeHeaders="true")
    assert [(r["key"], r["value"], r["offset"]) for r in rows] == [
        (r["key"], r["value"], n) for n, r in enumerate(records)
    ]
    assert [int(r["timestamp"].timestamp() * 1000 + 0.5) for r in rows] == [r["timestamp"] for r in records]
    assert rows[0]["headers"] == [
        {"key": "h", "value": b"1"},
        {"key": "h", "value": None},
        {"key": "e", "value": b""},
    ]
    assert rows[1]["headers"] is None
    assert {(r["topic"], r["partition"], r["timestampType"]) for r in rows} == {(topic.name, 0, 0)}


def test_every_record_comes_once_whatever_the_fetch_size(topic):
    topic = topic(partitions=3)
    topic.write(
        [{"value": b"%d" % n, "partition": n % 3} for n in range(3000)], batch_size=2000, compression_type="lz4"
    )
    for limit in ("1", "3000", "100000"):
        rows = topic.rows(**{"kafka.max.partition.fetch.bytes": limit})
        assert sorted(int(r["value"]) for r in rows) == list(range(3000))


def test_a_part_of_a_partition_is_read_to_the_offset(topic):
    topic = topic()
    topic.write([{"value": b"%d" % n} for n in range(100)])
    starts, ends = f'{{"{topic.name}":{{"0":17}}}}', f'{{"{topic.name}":{{"0":42}}}}'
    assert [r["offset"] for r in topic.rows(startingOffsets=starts, endingOffsets=ends)] == list(range(17, 42))


def test_a_record_larger_than_the_fetch_size_comes_whole(topic):
    topic = topic()
    topic.write([{"value": b"x" * 500_000}, {"value": b"y"}])
    rows = topic.rows(**{"kafka.max.partition.fetch.bytes": "1000"})
    assert [len(r["value"]) for r in rows] == [500_000, 1]


def test_an_end_that_never_comes_is_a_loss_once_the_poll_timeout_has_ended(topic):
    topic = topic()
    topic.write([{"value": b"v"}])
    impatient = {"kafkaConsumer.pollTimeoutMs": "300", "kafka.fetch.max.wait.ms": "50"}
    task = KafkaInputPartition((OffsetRange(TopicPartition(topic.name, 0), 0, 5),))
    with pytest.raises(DataLoss, match=rf"offset \[1, 5\) for topic partition {topic.name}-0: the log ends at 1"):
        list(topic.reader(**impatient).read(task))
    reader = topic.reader(**impatient, failOnDataLoss="false")
    assert [row["value"] for row in rows_of(reader, [task])] == [b"v"]


def test_an_end_beyond_the_log_is_a_loss_before_any_task_runs(topic):
    topic = topic()
    topic.write([{"value": b"v"}])
    given = {"endingOffsets": f'{{"{topic.name}":{{"0":5}}}}'}
    with pytest.raises(DataLoss, match=r"Could not read records in offset \[1, 5\) for topic partition .*-0"):
        topic.reader(**given).partitions()
    assert [row["value"] for row in topic.rows(**given, failOnDataLoss="false")] == [b"v"]


def test_a_stream_reads_in_micro_batches_to_the_end(topic):
    topic = topic(partitions=2)
    topic.write([{"value": b"%d" % n, "partition": n % 2} for n in range(100)])
    given = {
        "kafka.bootstrap.servers": topic.bootstrap_servers,
        "subscribePattern": f"^{topic.name}$",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "30",
    }
    stream = StreamReader(options.parse(given, "source"))
    offset, sizes, values = stream.initialOffset(), [], []
    while (end := stream.latestOffset(offset, stream.getDefaultReadLimit())) != offset:
        rows = [
            row
            for task in stream.partitions(offset, end)
            for batch in stream.read(task)
            for row in batch.column("value").to_pylist()
        ]
        stream.commit(end)
        offset, sizes, values = end, [*sizes, len(rows)], values + rows
    stream.stop()
    assert sizes == [30, 30, 30, 10]
    assert sorted(map(int, values)) == list(range(100))
