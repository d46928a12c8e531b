"""Records that a real Kafka refuses one by one, and where confluent-kafka (librdkafka) finds them and the others."""

import json
import pickle
import random
import time
import uuid

import plain_producer
import pyarrow as pa
import pytest
from confluent_reader import cluster_id_of, messages_of
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructField, StructType, TimestampType

from kafkasource.errors import InvalidRecord, MessageTooLarge
from kafkasource.formats.dead_letters.makers import topic_for_records
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.producer.delivery import Delivery
from kafkasource.kafka.producer.partitioner import Partitioner
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.producer.rows import Rows
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.sink.clusters import targets
from kafkasource.sink.writer import StreamWriter
from kafkasource.testing.broker import Broker
from kafkasource.types import TopicPartition
from kafkasource.writer import Writer

pytestmark = pytest.mark.broker

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
PARTITIONS, COUNT = 2, 600
HOUR_MS = 3_600_000
# The settings with which a topic refuses a record, and the error's text: the broker's, or ours if it sends only a code.
REFUSALS = {
    "too large": ({"max.message.bytes": "2000"}, b"MESSAGE_TOO_LARGE: A record batch is larger than the topic allows"),
    "no key": ({"cleanup.policy": "compact"}, b"INVALID_RECORD: Compacted topic cannot accept message without key"),
    "too old": ({"message.timestamp.before.max.ms": str(HOUR_MS)}, b"INVALID_TIMESTAMP: Timestamp "),
}
SMALL_BATCHES = {"kafka.batch.size": "4096", "kafka.linger.ms": "0", "kafka.compression.type": "none"}


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.2", marks=pytest.mark.extended)])
def kafka(request):
    if request.param == "4.3.1":
        yield from client_of(request.getfixturevalue("kafka_broker"))
    else:
        with Broker(version=request.param) as broker:
            yield from client_of(broker)


def client_of(broker):
    with Cluster(ClientConfig.of(broker.bootstrap_servers)) as cluster:
        yield Kafka(broker.bootstrap_servers, cluster)


class Kafka:
    def __init__(self, servers, cluster):
        self.servers, self.cluster = servers, cluster
        self.dialect = 2 if (cluster.transactions.version() or 0) >= 2 else 1

    def topic(self, partitions=PARTITIONS, **configs):
        name = f"t-{uuid.uuid4().hex[:10]}"
        self.cluster.topics.create([name], partitions=partitions, configs=configs)
        return name

    def messages(self, topic, partitions=PARTITIONS, *, settled=True):
        return messages_of(self.servers, topic, range(partitions), settled=settled)


class Input:
    """Rows of one topic. About one in twenty is bad, all in the same way."""

    def __init__(self, kind):
        chosen = random.Random(kind)
        now_ms = int(time.time() * 1000)
        self.bad = {number for number in range(COUNT) if chosen.random() < 0.05}
        large = self.bad if kind == "too large" else ()
        self.values = [b"%06d" % n + b"v" * (5000 if n in large else n % 90) for n in range(COUNT)]
        self.keys = [None if kind == "no key" and n in self.bad else b"key %d" % n for n in range(COUNT)]
        old = self.bad if kind == "too old" else ()
        self.times_ms = [now_ms + n - (2 * HOUR_MS if n in old else 0) for n in range(COUNT)]
        self.headers = [[("n", b"%d" % n)] if n % 2 else None for n in range(COUNT)]
        self.partitions = [n % PARTITIONS for n in range(COUNT)]

    def rows(self, topic):
        return Rows(
            topic,
            COUNT,
            pa.array(self.keys, pa.binary()),
            pa.array(self.values, pa.binary()),
            pa.array(self.headers, HEADERS_TYPE),
            pa.array(self.partitions, pa.int32()),
            pa.array(self.times_ms, pa.int64()),
        )

    def record(self, number):
        return self.keys[number], self.values[number], self.times_ms[number], self.headers[number] or []

    def check(self, kafka, topic, dead, words):
        """The good ones lie in their partitions in order, the bad ones in `dead`, all once and as they were."""
        found = [[], []]
        for message in kafka.messages(topic):
            found[message.partition()].append(record_of(message))
        assert found == [
            [self.record(n) for n in range(COUNT) if n % PARTITIONS == partition and n not in self.bad]
            for partition in range(PARTITIONS)
        ]
        letters = {}
        for letter in kafka.messages(dead, 1):
            key, value, time_ms, headers = record_of(letter)
            why = dict(headers[-4:])
            number = int(value[:6])
            assert number not in letters
            letters[number] = key, value, time_ms, headers[:-4]
            assert list(why) == [f"__dlq.errors.{name}" for name in ("topic", "partition", "message", "cluster.id")]
            assert why["__dlq.errors.cluster.id"] == cluster_id_of(kafka.servers).encode()
            assert (why["__dlq.errors.topic"], why["__dlq.errors.partition"]) == (
                topic.encode(),
                b"%d" % (number % PARTITIONS),
            )
            assert why["__dlq.errors.message"].startswith(words)
        assert letters == {number: self.record(number) for number in self.bad}


def record_of(message):
    return message.key(), message.value(), message.timestamp()[1], message.headers() or []


@pytest.mark.parametrize("kind", REFUSALS)
def test_in_a_transaction_good_rows_and_dead_letters_are_seen_together(kafka, kind):
    configs, words = REFUSALS[kind]
    topic, dead, rows = kafka.topic(**configs), kafka.topic(1), Input(kind)
    producer = plain_producer.producer(kafka.servers, **SMALL_BATCHES)
    partitioner = Partitioner(4096)
    try:
        for commit in (False, True):
            name = f"p-{topic}"
            transaction = TaskTransaction.open(kafka.cluster.transactions, name, 60_000, kafka.dialect)
            dead_letters = topic_for_records(dead, partitioner, cluster_id_of(kafka.servers))
            with producer.delivery(delivery=Delivery(transaction, dead_letters)) as delivery:
                producer.append(rows.rows(topic), partitioner, delivery)
            assert kafka.messages(topic, settled=False) == kafka.messages(dead, 1, settled=False) == []
            kafka.cluster.transactions.end(name, transaction.producer, commit, kafka.dialect)
    finally:
        producer.close()
    assert delivery.written[TopicPartition(dead, 0)].records == len(rows.bad)
    assert delivery.records == COUNT
    rows.check(kafka, topic, dead, words)


def table_of(rows):
    """As Spark would hand them over."""
    return pa.table(
        {
            "key": rows.keys,
            "value": rows.values,
            "headers": rows.headers,
            "partition": rows.partitions,
            "timestamp": rows.timestamps_ms.cast(pa.timestamp("ms", "UTC")),
        }
    )


@pytest.mark.parametrize("kind", REFUSALS)
def test_each_of_several_clusters_has_the_dead_letters_of_what_it_refuses(kafka, kind):
    configs, words = REFUSALS[kind]
    topic, lax, dead, rows = kafka.topic(**configs), kafka.topic(), kafka.topic(1), Input(kind)
    clusters = {
        name: {"kafka.bootstrap.servers": kafka.servers, "topic": to} for name, to in (("east", topic), ("west", lax))
    }
    wanted = targets.parse({"clusters": json.dumps(clusters), "badRecords": f"topic:{dead}"} | SMALL_BATCHES)
    types = {"key": BinaryType(), "value": BinaryType(), "headers": HEADERS, "partition": IntegerType()}
    schema = StructType([StructField(name, of) for name, of in (types | {"timestamp": TimestampType()}).items()])
    writer = pickle.loads(pickle.dumps(StreamWriter(wanted, schema)))
    reports = writer.write(iter(table_of(rows.rows("t")).to_batches(100))).clusters
    assert reports["east"].written[TopicPartition(dead, 0)].records == len(rows.bad)
    assert [report.records for report in reports.values()] == [COUNT, COUNT]
    assert not any(report.discarded for report in reports.values())
    assert len(kafka.messages(lax)) == COUNT
    rows.check(kafka, topic, dead, words)


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_writer_does_the_same_without_a_transaction(kafka, kind):
    configs, words = REFUSALS[kind]
    topic, dead, rows = kafka.topic(**configs), kafka.topic(1), Input(kind)
    table = table_of(rows.rows(topic))
    base = {"kafka.bootstrap.servers": kafka.servers, "topic": topic, "badRecords": f"topic:{dead}"}
    with Writer(base | SMALL_BATCHES) as writer:
        for start in range(0, COUNT, 100):
            writer.write(table.slice(start, 100))
    assert sum(one.records for one in writer.written.values()) == COUNT
    rows.check(kafka, topic, dead, words)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({}, b"more than 'kafka.max.request.size' (1048576)"),
        ({"kafka.buffer.memory": "1000000"}, b"more than 'kafka.buffer.memory' (1000000)"),
    ],
    ids=["request", "memory"],
)
def test_a_record_beyond_a_request_or_the_memory_goes_to_a_topic_that_takes_it(kafka, written, reason):
    topic, dead = kafka.topic(1), kafka.topic(1, **{"max.message.bytes": "3000000"})
    large = random.Random(1).randbytes(2_000_000)
    base = {"kafka.bootstrap.servers": kafka.servers, "topic": topic, "badRecords": f"topic:{dead}"}
    with Writer(base | written) as writer:
        writer.write(pa.table({"key": [b"a", b"b", b"c"], "value": [b"before", large, b"behind"]}))
    assert [message.value() for message in kafka.messages(topic, 1)] == [b"before", b"behind"]
    (letter,) = kafka.messages(dead, 1)
    assert (letter.key(), letter.value()) == (b"b", large)
    assert reason in dict(letter.headers())["__dlq.errors.message"]


@pytest.mark.parametrize(
    ("refuses", "configs", "columns", "error"),
    [
        ({}, {"max.message.bytes": "1000000"}, {"value": [b"v" * 2_000_000]}, MessageTooLarge),
        (
            {"cleanup.policy": "compact"},
            {"cleanup.policy": "compact"},
            {"value": [b"without a key"]},
            InvalidRecord,
        ),
    ],
    ids=["too large", "compacted"],
)
def test_what_the_topic_of_dead_letters_refuses_fails_the_write_and_says_why(kafka, refuses, configs, columns, error):
    topic, dead = kafka.topic(1, **refuses), kafka.topic(1, **configs)
    base = {"kafka.bootstrap.servers": kafka.servers, "topic": topic, "badRecords": f"topic:{dead}"}
    with (
        pytest.raises(error, match=rf"{dead}-0.*topic of 'badRecords' must take every record.*max\.message\.bytes"),
        Writer(base | {"kafka.compression.type": "none"}) as writer,
    ):
        writer.write(pa.table(columns))
    assert kafka.messages(dead, 1) == []
