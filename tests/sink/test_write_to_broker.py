"""Reads the sink's records back from a real Kafka with another client (confluent-kafka, on librdkafka)."""

import json
import multiprocessing
import pickle
import random
import threading
import time

import pyarrow as pa
import pytest
from confluent_producer import ordered_producer
from confluent_reader import messages_of
from pyspark.sql.types import StructType

from kafkasource.errors import MessageTooLarge
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.metadata import Metadata
from kafkasource.kafka.producer.accumulator import RecordTooLarge
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.reader import Reader
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.targets import ONLY
from kafkasource.sink.writer import BatchWriter
from kafkasource.types import TopicPartition as OurTopicPartition

pytestmark = pytest.mark.broker

SPARK_TYPES = {
    "topic": "string",
    "key": "binary",
    "value": "binary",
    "partition": "integer",
    "timestamp": "timestamp",
    "headers": {
        "type": "array",
        "containsNull": True,
        "elementType": {
            "type": "struct",
            "fields": [
                {"name": "key", "type": "string", "nullable": True, "metadata": {}},
                {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
            ],
        },
    },
}
ARROW_TYPES = {
    "topic": pa.string(),
    "key": pa.binary(),
    "value": pa.binary(),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "headers": HEADERS_TYPE,
}


@pytest.fixture
def write(kafka_broker):
    """Write columns, as one task would: `write(topic, value=[...], key=[...])` -> what the task did in its cluster, or
    its whole report where the options name several."""

    def write(to, written=(), rows_per_batch=1000, **columns):
        fields = [{"name": n, "type": SPARK_TYPES[n], "nullable": True, "metadata": {}} for n in columns]
        settings = dict(written) | ({} if to is None else {"topic": to})
        if "clusters" not in settings:
            settings["kafka.bootstrap.servers"] = kafka_broker.bootstrap_servers
        writer = BatchWriter(targets.parse(settings), StructType.fromJson({"type": "struct", "fields": fields}))
        table = pa.table({name: pa.array(column, ARROW_TYPES[name]) for name, column in columns.items()})
        report = pickle.loads(pickle.dumps(writer)).write(iter(table.to_batches(rows_per_batch)))
        return report.clusters.get(ONLY, report)

    return write


@pytest.fixture
def read(kafka_broker):
    """Every message of a topic, partition by partition, by librdkafka with CRCs checked."""

    def read(topic, partitions=1):
        found = messages_of(kafka_broker.bootstrap_servers, topic, range(partitions), settled=True)
        return sorted(found, key=lambda m: (m.partition(), m.offset()))

    return read


@pytest.mark.peers
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_another_client_reads_what_was_written_with_every_codec(codec, write, read, kafka_topic):
    topic, count = kafka_topic(partitions=3), 20_000
    values = [None if i % 7 == 1 else b"" if i % 7 == 2 else b"value %d " % i * (i % 20) for i in range(count)]
    keys = [None if i % 5 == 1 else b"" if i % 5 == 2 else b"%d" % (i % 50) for i in range(count)]
    headers = [
        None if i % 3 else [("n", b"%d" % i), ("n", None), ("ümlaut", b"")] if i % 2 else [] for i in range(count)
    ]
    times = [1_700_000_000_000_000 + 1000 * i for i in range(count)]
    report = write(topic, {"kafka.compression.type": codec}, key=keys, value=values, headers=headers, timestamp=times)
    found = read(topic, 3)
    assert report.records == len(found) == count
    written = [(times[i] // 1000, repr((keys[i], values[i], headers[i] or None))) for i in range(count)]
    came = [(m.timestamp()[1], repr((m.key(), m.value(), m.headers() or None))) for m in found]
    assert sorted(came) == sorted(written)
    for key in {m.key() for m in found} - {None}:
        of_key = [m for m in found if m.key() == key]
        assert len({m.partition() for m in of_key}) == 1
        stamps = [m.timestamp()[1] for m in of_key]
        assert stamps == sorted(stamps), "the order of a key's records is the order of the rows"
    ends = {p: max(m.offset() for m in found if m.partition() == p) for p in range(3)}
    last_offsets = {tp: one.last_offset for tp, one in report.written.items()}
    assert last_offsets == {OurTopicPartition(topic, p): end for p, end in ends.items()}


@pytest.mark.peers
@pytest.mark.parametrize("several", [False, True], ids=["one cluster", "several"])
def test_records_without_a_timestamp_are_read_and_written_as_such(kafka_broker, write, read, kafka_topic, several):
    """librdkafka writes -1 as it is given. Ours reads it, a time 1 ms before 1970, and writes what it has read."""
    origin, copy = kafka_topic(), kafka_topic()
    producer = ordered_producer(kafka_broker.bootstrap_servers, **{"linger.ms": 100})
    now = int(time.time() * 1000)  # what is older than a week goes away at once
    times = [-1, now, -1, -1, now + 1]
    for ms in times:
        producer.produce(origin, value=b"%d" % ms, timestamp=ms)
    assert producer.flush(30) == 0
    with Reader({"kafka.bootstrap.servers": kafka_broker.bootstrap_servers, "subscribe": origin}) as reader:
        rows = pa.Table.from_batches(list(reader))
    assert rows["timestamp"].cast(pa.int64()).to_pylist() == [ms * 1000 for ms in times]
    clusters = {name: {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers} for name in ("east", "west")}
    to = {"clusters": json.dumps(clusters)} if several else {}
    write(copy, to, value=rows["value"].to_pylist(), timestamp=rows["timestamp"].to_pylist())
    found = [(m.value(), m.timestamp()[1]) for m in read(copy)]
    assert sorted(found) == sorted([(b"%d" % ms, ms) for ms in times] * (2 if several else 1))


@pytest.mark.peers
def test_keys_go_to_the_partitions_that_librdkafkas_murmur2_chooses(kafka_broker, write, read, kafka_topic):
    keys = [b"key-%d" % i for i in range(500)] + [bytes([i]) for i in range(256)] + [b""]
    ours, theirs = kafka_topic(partitions=7), kafka_topic(partitions=7)
    write(ours, key=keys, value=keys)
    producer = ordered_producer(kafka_broker.bootstrap_servers, partitioner="murmur2")
    for key in keys:
        producer.produce(theirs, key=key, value=key)
    assert producer.flush(30) == 0
    assert {m.key(): m.partition() for m in read(ours, 7)} == {m.key(): m.partition() for m in read(theirs, 7)}


def test_rows_choose_topic_and_partition(write, read, kafka_topic):
    first, second = kafka_topic(partitions=2), kafka_topic(partitions=4)
    report = write(
        None,
        topic=[first, second, first, second],
        value=[b"a", b"b", b"c", b"d"],
        partition=[1, 3, 1, 0],
    )
    assert [(m.partition(), m.value()) for m in read(first, 2)] == [(1, b"a"), (1, b"c")]
    assert [(m.partition(), m.value()) for m in read(second, 4)] == [(0, b"d"), (3, b"b")]
    assert report.records == 4


def test_topics_that_one_batch_names_are_asked_about_together(write, read, kafka_topic, monkeypatch):
    """With a question for each, and all known topics in each answer, the first write to 2,000 topics took minutes."""
    topics = [kafka_topic(prefix="many") for _ in range(12)]
    answers = []
    update = Metadata.update

    def counted(metadata, body, *args, **more):
        answers.append({topic["name"] for topic in body["topics"]} & {*topics})
        return update(metadata, body, *args, **more)

    monkeypatch.setattr(Metadata, "update", counted)
    write(None, topic=[*topics, *topics], value=[b"v"] * 24)
    assert [len(read(topic)) for topic in topics] == [2] * 12
    named = [len(names) for names in answers if names]
    assert named[0] == 12
    assert len(named) <= 4, named  # one more where a leader was missing, and the like


def test_a_large_record_passes_and_a_larger_one_names_the_option(write, read, kafka_topic):
    topic = kafka_topic()
    write(topic, value=[b"x" * 1_000_000])
    assert len(read(topic)[0].value()) == 1_000_000
    with pytest.raises(RecordTooLarge, match=r"kafka\.max\.request\.size"):
        write(topic, value=[b"x" * 1_100_000])


def test_the_topics_own_limit_is_told_and_the_next_task_is_none_the_worse(write, read, kafka_topic):
    topic = kafka_topic(config={"max.message.bytes": "1000"})
    with pytest.raises(MessageTooLarge, match=r"max\.message\.bytes"):
        write(topic, value=[random.Random(1).randbytes(5000)])  # no codec makes them fewer
    assert write(topic, value=[b"ok"] * 3).records == 3
    (written,) = write(topic, value=[b"ok"] * 3).written.values()
    assert (written.first_offset, written.last_offset) == (3, 5)


def test_rows_for_a_partition_that_is_being_added_wait_for_it(write, kafka_broker, kafka_topic):
    topic = kafka_topic(partitions=4)
    write(topic, value=[b"before"], partition=[3])  # the producer knows the topic now
    reports = []
    task = threading.Thread(target=lambda: reports.append(write(topic, value=[b"after"], partition=[7])))
    task.start()
    task.join(1)
    assert task.is_alive()
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as cluster:
        cluster.topics.add_partitions({topic: 8})
    task.join(30)
    assert [list(report.written) for report in reports] == [[OurTopicPartition(topic, 7)]]


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_every_acks_delivers(acks, write, read, kafka_topic):
    topic = kafka_topic()
    assert write(topic, {"kafka.acks": acks}, value=[b"%d" % i for i in range(100)]).records == 100
    if acks == "0":  # nobody promised that they are there by now; an acknowledged write to the same leader comes after
        write(topic, value=[b"last"])
    assert len(read(topic)) == 100 + (acks == "0")


def _write_in_child(kafka_settings, topic, queue):
    schema = StructType().add("value", "binary")
    writer = BatchWriter(targets.parse(kafka_settings | {"topic": topic}), schema)
    rows = pa.record_batch([pa.array([b"child"] * 10)], names=["value"])
    queue.put(writer.write(iter([rows])).clusters[ONLY].records)


def test_a_forked_worker_makes_its_own_producer(kafka_broker, write, read, kafka_topic):
    topic = kafka_topic()
    write(topic, value=[b"parent"] * 10)
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    settings = {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers}
    child = fork.Process(target=_write_in_child, args=(settings, topic, queue))
    child.start()
    assert queue.get(timeout=60) == 10
    child.join(60)
    write(topic, value=[b"parent"] * 10)
    assert [m.value() for m in read(topic)] == [b"parent"] * 10 + [b"child"] * 10 + [b"parent"] * 10
