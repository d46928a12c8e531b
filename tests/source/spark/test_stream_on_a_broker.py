"""A stream whose logs are not what they were when it read them, on a real broker; the test plays Spark's part."""

import json
import os

import pytest
from confluent_topic import Topic, eventually, rows_of

from kafkasource import options
from kafkasource.errors import DataLoss
from kafkasource.source.spark.stream import StreamReader
from kafkasource.testing.broker import Broker

pytestmark = pytest.mark.broker


@pytest.fixture
def open_stream():
    opened = []

    def open_(topic, **given):
        needed = {"kafka.bootstrap.servers": topic.bootstrap_servers, "subscribe": topic.name}
        opened.append(StreamReader(options.parse(needed | {"startingOffsets": "earliest"} | given, "source")))
        return opened[-1]

    yield open_
    for stream in opened:
        stream.stop()


def wire(offset):
    """Spark keeps offsets as JSON text."""
    return json.loads(json.dumps(offset))


def values(stream, start, end):
    return [row["value"] for row in rows_of(stream, stream.partitions(start, end))]


def records(name, count):
    return [{"value": b"%s %d" % (name, number), "partition": 0} for number in range(count)]


def test_a_topic_that_was_recreated_and_grew_longer_is_data_loss_and_then_read_whole(kafka_broker, open_stream):
    topic = Topic(kafka_broker.bootstrap_servers)
    topic.write(records(b"old", 5))
    stream = open_stream(topic)
    start = wire(stream.latestOffset(wire(stream.initialOffset())))
    topic.delete()
    topic.create()
    topic.write(records(b"new", 20))
    end = wire(stream.latestOffset(start))
    assert (start[topic.name], end[topic.name]) == ({"0": 5}, {"0": 20})
    with pytest.raises(DataLoss, match=r"TOPIC_RECREATED.*" + topic.name):
        stream.partitions(start, end)
    assert values(open_stream(topic, failOnDataLoss="false"), start, end) == [b"new %d" % n for n in range(20)]


def test_a_log_that_lost_its_tail_and_grew_longer_is_data_loss_and_then_read_on_from_the_cut(open_stream):
    with Broker(use_existing=False) as broker:
        topic = Topic(broker.bootstrap_servers)
        for record in records(b"old", 5):  # a batch each
            topic.write([record])
        stream = open_stream(topic)
        start = wire(stream.latestOffset(wire(stream.initialOffset())))
        broker.kill()
        cut_before(3, broker.folder / "node-1" / f"{topic.name}-0" / f"{0:020}.log")  # what a power cut does
        broker.restart()
        topic.write(records(b"new", 20))
        end = wire(stream.latestOffset(start))
        assert (start[topic.name], end[topic.name]) == ({"0": 5}, {"0": 23})
        with pytest.raises(DataLoss, match=rf"LOG_TRUNCATED.*{topic.name}-0 was truncated to offset 3.*\[3, 5\)"):
            stream.partitions(start, end)
        assert values(open_stream(topic, failOnDataLoss="false"), start, end) == [b"new %d" % n for n in range(20)]


def cut_before(offset, log):
    """Cut a log segment (record batch v2: base offset, length of the rest) before the batch of an offset."""
    data, pos = log.read_bytes(), 0
    while int.from_bytes(data[pos : pos + 8], "big") < offset:
        pos += 12 + int.from_bytes(data[pos + 8 : pos + 12], "big")
    log.write_bytes(data[:pos])


def test_a_checkpoint_behind_an_open_transaction_waits_under_read_committed_and_goes_on_from_there(
    kafka_broker, open_stream
):
    topic = Topic(kafka_broker.bootstrap_servers)
    topic.write(records(b"old", 3))
    producer = topic.transactional_producer()
    producer.begin_transaction()
    for record in records(b"transaction", 4):
        producer.produce(topic.name, **record)
    producer.flush(30)
    stream = open_stream(topic)
    start = wire(stream.latestOffset(wire(stream.initialOffset())))
    assert start[topic.name] == {"0": 7}
    committed = {"kafka.isolation.level": "read_committed"}
    stream = open_stream(topic, **committed)
    assert stream.latestOffset(start) == start
    assert topic.rows(startingOffsets=topic.from_offset(7), **committed) == []
    producer.produce(topic.name, value=b"transaction 4", partition=0)
    producer.flush(30)
    assert stream.latestOffset(start) == start
    producer.abort_transaction(30)
    topic.write(records(b"new", 2))
    eventually(lambda: stream.latestOffset(start)[topic.name] == {"0": 11})  # with the marker of the end
    assert values(stream, start, wire(stream.latestOffset(start))) == [b"new 0", b"new 1"]


def test_a_bounded_stream_reads_up_to_a_timestamp_and_no_further(kafka_broker, open_stream):
    topic = Topic(kafka_broker.bootstrap_servers)
    topic.write([one | {"timestamp": 1000 + number} for number, one in enumerate(records(b"t", 10))])
    stream = open_stream(topic, endingTimestamp="1004", maxOffsetsPerTrigger="3")
    stream.prepareForTriggerAvailableNow()
    offset, read = wire(stream.initialOffset()), []
    while (end := wire(stream.latestOffset(offset, stream.getDefaultReadLimit()))) != offset:
        read.append(values(stream, offset, end))
        offset = end
    assert read == [[b"t 0", b"t 1", b"t 2"], [b"t 3"]]


def test_records_of_a_megabyte_are_shared_out_by_their_bytes(kafka_broker, open_stream):
    """68 MB in 68 offsets; by offsets alone they are one task, as the same number of small ones is."""
    for value, tasks in ((b"small", [4]), (os.urandom(1_000_000), [2, 2])):
        topic = Topic(kafka_broker.bootstrap_servers, partitions=4)
        topic.write([{"value": value, "partition": n % 4} for n in range(68)], message_max_bytes=2_000_000)
        stream = open_stream(topic)
        start = wire(stream.initialOffset())
        end = wire(stream.latestOffset(start))
        assert [len(task.value) for task in stream.partitions(start, end)] == tasks
        topic.delete()
