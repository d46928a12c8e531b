"""Task transactions on real Kafkas, in both dialects; confluent-kafka (librdkafka) says what readers see."""

import threading
import time
import uuid

import plain_producer
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_reader import values_of
from plain_producer import append

from kafkasource.errors import (
    BrokerError,
    InvalidProducerEpoch,
    InvalidTxnState,
    MessageTooLarge,
    ProducerFenced,
    TransactionAbortable,
)
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.sink.new_topic import create_in
from kafkasource.testing.broker import Broker
from kafkasource.types import NewTopic, ProducerId, TopicPartition

pytestmark = pytest.mark.broker


@pytest.fixture(
    scope="module",
    params=[("3.9.2", 1), pytest.param(("4.3.1", 1), marks=pytest.mark.extended), ("4.3.1", 2)],
    ids=lambda p: f"{p[0]}-dialect-{p[1]}",
)
def kafka(request):
    version, dialect = request.param
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
    with Broker(version=version, properties=often, use_existing=False) as broker:
        kafka = Kafka(broker.bootstrap_servers, dialect)
        yield kafka
        kafka.cluster.close()


class Kafka:
    def __init__(self, servers, dialect):
        self.servers, self.dialect = servers, dialect
        self.cluster = Cluster(ClientConfig.of(servers))
        if dialect == 2:
            assert self.cluster.transactions.version() == 2

    def topic(self, partitions=1, **configs):
        name = f"t-{uuid.uuid4().hex[:10]}"
        self.cluster.topics.create([name], partitions=partitions, configs=configs)
        return name

    def transaction(self, name, timeout_ms=60_000):
        return TaskTransaction.open(self.cluster.transactions, name, timeout_ms, self.dialect)

    def end(self, transaction, commit=True):
        who = transaction.producer
        self.cluster.transactions.end(transaction.transactional_id, who, commit, self.dialect)

    def producer(self, **written):
        return plain_producer.producer(self.servers, **written)

    def read(self, topic, partitions=1, isolation="read_committed"):
        """Values by partition, up to the ends that a reader of this isolation sees."""
        return values_of(self.servers, topic, range(partitions), isolation)


@pytest.fixture
def producer(kafka):
    producer = kafka.producer()
    yield producer
    producer.close()


def test_a_transaction_is_seen_when_it_is_committed_and_not_before(kafka, producer):
    topic = kafka.topic(partitions=2)
    transaction = kafka.transaction(f"p-{topic}")
    with producer.delivery(transaction) as delivery:
        for partition in (0, 1):
            append(producer, delivery, topic, [b"%d" % i for i in range(100)], partition)
    assert delivery.last_offsets == {TopicPartition(topic, p): 99 for p in (0, 1)}
    assert kafka.read(topic, 2) == {0: [], 1: []}
    assert len(kafka.read(topic, 2, "read_uncommitted")[0]) == 100
    kafka.end(transaction)
    until = time.monotonic() + 60
    while kafka.read(topic, 2) != {p: [b"%d" % i for i in range(100)] for p in (0, 1)}:
        assert time.monotonic() < until, "the markers do not come"


def test_many_batches_in_many_epochs_keep_order_and_number(kafka):
    """Small batches, five in flight, the same transactional id again and again: every other transaction is aborted."""
    topic, expected = kafka.topic(partitions=3), {p: [] for p in range(3)}
    producer = kafka.producer(**{"kafka.batch.size": "1024", "kafka.linger.ms": "0"})
    try:
        for turn in range(6):
            transaction = kafka.transaction(f"p-{topic}")
            with producer.delivery(transaction) as delivery:
                for partition in range(3):
                    values = [b"%d %d %050d" % (turn, partition, i) for i in range(500)]
                    append(producer, delivery, topic, values, partition)
                    if turn % 2 == 0:
                        expected[partition] += values
            assert delivery.records == 1500
            kafka.end(transaction, commit=turn % 2 == 0)
        assert transaction.producer_epoch >= 5
    finally:
        producer.close()
    kafka.transaction(f"p-{topic}")  # waits for the markers of the last one
    assert kafka.read(topic, 3) == expected


def test_two_transactions_and_none_share_a_partition_and_a_producer(kafka, producer):
    topic = kafka.topic()
    transactions = [kafka.transaction(f"p-{topic}-{i}") for i in range(2)]
    with (
        producer.delivery(transactions[0]) as first,
        producer.delivery(transactions[1]) as second,
        producer.delivery() as plain,
    ):
        for i in range(50):
            append(producer, first, topic, [b"first %d" % i])
            append(producer, second, topic, [b"second %d" % i])
            append(producer, plain, topic, [b"plain %d" % i])
    kafka.end(transactions[0])
    kafka.end(transactions[1], commit=False)
    for i in range(2):
        kafka.transaction(f"p-{topic}-{i}")
    found = kafka.read(topic)[0]
    assert [v for v in found if v.startswith(b"first")] == [b"first %d" % i for i in range(50)]
    assert [v for v in found if v.startswith(b"plain")] == [b"plain %d" % i for i in range(50)]
    assert len(found) == 100


def test_an_attempt_that_is_fenced_hears_so_and_leaves_nothing(kafka, producer):
    topic = kafka.topic()
    old = kafka.transaction(f"p-{topic}")
    transactions = [old]

    def zombie():
        with producer.delivery(old) as delivery:
            append(producer, delivery, topic, [b"old"] * 10)
            delivery.flushing = True
            producer.sender.wakeup()
            delivery.wait(lambda: True)
            transactions.append(kafka.transaction(f"p-{topic}"))
            append(producer, delivery, topic, [b"late"] * 10)

    with pytest.raises((InvalidProducerEpoch, ProducerFenced), match=r"another attempt of the task"):
        zombie()
    new = transactions[1]
    with producer.delivery(new) as delivery:
        append(producer, delivery, topic, [b"new"] * 10)
    kafka.end(new)
    kafka.transaction(f"p-{topic}")
    assert kafka.read(topic) == {0: [b"new"] * 10}


def test_a_transaction_that_took_too_long_names_its_timeout(kafka, producer):
    topic = kafka.topic()
    transaction = kafka.transaction(f"p-{topic}", timeout_ms=500)

    def slow():
        with producer.delivery(transaction) as delivery:
            for _ in range(100):
                append(producer, delivery, topic, [b"x"])
                threading.Event().wait(0.1)

    with pytest.raises(BrokerError, match=r"kafka\.transaction\.timeout\.ms") as raised:
        slow()
    assert isinstance(raised.value, (InvalidProducerEpoch, InvalidTxnState, ProducerFenced, TransactionAbortable))
    assert kafka.read(topic) == {0: []}


def test_tasks_share_a_transaction_when_each_has_its_own_partition(kafka, producer):
    topic = kafka.topic(partitions=2)
    driver = kafka.transaction(f"p-{topic}")
    who = ProducerId(driver.producer_id, driver.producer_epoch)
    for partition in range(2):
        part = TaskTransaction.join(kafka.cluster.transactions, driver.transactional_id, who, kafka.dialect)
        with producer.delivery(part) as delivery:
            append(producer, delivery, topic, [b"%d" % partition] * 10, partition)
    kafka.end(driver)
    kafka.transaction(driver.transactional_id)
    assert kafka.read(topic, 2) == {0: [b"0"] * 10, 1: [b"1"] * 10}


@pytest.mark.parametrize(
    ("codec", "transaction"),
    [
        ("none", True),
        ("lz4", False),
        pytest.param("none", False, marks=pytest.mark.extended),
        pytest.param("lz4", True, marks=pytest.mark.extended),
    ],
)
def test_batches_beyond_the_topics_limit_arrive_in_pieces(kafka, codec, transaction):
    topic = kafka.topic(**{"max.message.bytes": "2000"})
    producer = kafka.producer(**{"kafka.compression.type": codec, "kafka.linger.ms": "0"})
    values = [b"%d %s" % (i, uuid.uuid4().hex.encode() * (1 + i % 5)) for i in range(2000)]
    mine = kafka.transaction(f"p-{topic}") if transaction else None
    try:
        with producer.delivery(mine) as delivery:
            append(producer, delivery, topic, values, 0)
        if mine is not None:
            kafka.end(mine)
            kafka.transaction(f"p-{topic}")
        assert kafka.read(topic) == {0: values}
        assert delivery.records == 2000
        with pytest.raises(MessageTooLarge, match=r"one record.*max\.message\.bytes"), producer.delivery() as delivery:
            append(producer, delivery, topic, [b"".join(uuid.uuid4().bytes for _ in range(200))])
    finally:
        producer.close()


def test_a_topic_is_made_with_its_settings(kafka):
    name = f"made-{uuid.uuid4().hex[:10]}"
    for _ in range(2):
        create_in(
            kafka.cluster, name, NewTopic(6, 1, (("cleanup.policy", "compact,delete"), ("retention.ms", "1000000")))
        )
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    assert len(admin.list_topics(name, timeout=30).topics[name].partitions) == 6
    (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)]).values()
    settings = {entry.name: entry.value for entry in described.result(30).values()}
    assert (settings["cleanup.policy"], settings["retention.ms"]) == ("compact,delete", "1000000")


def test_what_is_left_out_of_a_topic_is_the_brokers_default(kafka):
    name = f"made-{uuid.uuid4().hex[:10]}"
    create_in(kafka.cluster, name, NewTopic())
    assert len(kafka.cluster.topics.describe([name])[name].partitions) >= 1


@pytest.mark.parametrize("new", [NewTopic(1, 3), NewTopic(1, 1, (("no.such.setting", "1"),))])
def test_a_topic_that_cannot_be_made_so_says_why(kafka, new):
    with pytest.raises(BrokerError, match=r"option 'createTopic'.*(brokers?|no\.such\.setting)"):
        create_in(kafka.cluster, f"made-{uuid.uuid4().hex[:10]}", new)
