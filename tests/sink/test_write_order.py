"""Rows of one task stay in their order, key by key, and are stored once, while leaders move and answers get lost."""

import random
import time
import uuid
from contextlib import closing
from itertools import pairwise

import kafka
import plain_producer
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from confluent_reader import messages_of
from proxy import Proxy, ThroughProxy

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.network_client import NetworkClient
from kafkasource.kafka.producer.partitioner import Partitioner
from kafkasource.kafka.producer.producer import Producer
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.sink.columns import checked_rows
from kafkasource.sink.schema import SinkSchema

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PARTITIONS, KEYS, BATCHES, ROWS = 2, 17, 30, 500
SMALL = {
    "kafka.batch.size": "4096",
    "kafka.buffer.memory": "65536",  # so little that a task cannot run ahead of what happens on the wire
    "kafka.linger.ms": "0",
    "kafka.retry.backoff.ms": "20",
}


def made(brokers, configs):
    name = f"order-{uuid.uuid4().hex[:8]}"
    configs = {"min.insync.replicas": "2", **configs}  # what is acknowledged survives its leader
    with Cluster(ClientConfig.of(brokers.bootstrap_servers)) as cluster:
        cluster.topics.create([name], partitions=PARTITIONS, replication_factor=3, configs=configs)
    return name


ANY_WAY = pytest.mark.parametrize("dialect", [None, pytest.param(1, marks=pytest.mark.extended), 2])
"""Outside of a transaction, or in one of this dialect."""
SPLITS = {"max.message.bytes": "1500"}  # each batch is too large for the topic, and goes on in pieces


def rows():
    """Arrow batches of keys and values; the values of each key ascend."""
    for number in range(BATCHES):
        rows = range(number * ROWS, (number + 1) * ROWS)
        keys, values = [b"key %d" % (row % KEYS) for row in rows], [b"%06d" % row + b"." * 60 for row in rows]
        yield pa.record_batch([pa.array(keys, pa.binary()), pa.array(values, pa.binary())], names=["key", "value"])


def write(brokers, topic, disturb, *, proxy=None, dialect=None):
    """As one task; `disturb(number)` is called before each batch."""
    config = plain_producer.config(brokers.bootstrap_servers, topic=topic, **SMALL)
    connector = ThroughProxy(config.client, proxy) if proxy else None
    producer = Producer(config, client=NetworkClient(config.client, connector=connector))
    schema, partitioner = SinkSchema(topic, {"key": 0, "value": 1}), Partitioner(config.batch_bytes)
    with Cluster(ClientConfig.of(brokers.bootstrap_servers)) as cluster, closing(producer):
        transactions, transaction = cluster.transactions, None
        if dialect is not None:
            transaction = TaskTransaction.open(transactions, f"transaction-{topic}", 60_000, dialect)
        with producer.delivery(transaction) as delivery:
            for number, batch in enumerate(rows()):
                disturb(number)
                for part in checked_rows(schema, batch):
                    producer.append(part, partitioner, delivery)
        assert delivery.records == BATCHES * ROWS
        assert producer.pool.available_bytes == producer.pool.total_bytes
        if transaction is not None:
            transactions.end(transaction.transactional_id, transaction.producer, True, dialect)


def check_each_row_once_and_in_order(brokers, topic):
    found = {}
    for message in messages_of(brokers.bootstrap_servers, topic, range(PARTITIONS), settled=True):
        found.setdefault((message.partition(), message.key()), []).append(message.value())
    assert sorted(key for _, key in found) == sorted(b"key %d" % number for number in range(KEYS))
    for values in found.values():
        assert all(a < b for a, b in pairwise(values))
    assert sorted(value[:6] for values in found.values() for value in values) == [
        b"%06d" % row for row in range(BATCHES * ROWS)
    ]


class Leaders:
    """Moves them from one living broker to the next."""

    def __init__(self, brokers, topic):
        self._admin = kafka.KafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers)
        self._asking = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
        self._topic = topic
        self.moves = 0

    def close(self):
        self._admin.close()

    def now(self):
        """By partition."""
        topic = self._asking.list_topics(self._topic, timeout=30).topics[self._topic]
        return {number: partition.leader for number, partition in topic.partitions.items()}

    def move(self):
        """Another replica becomes the preferred one, and is elected; nobody is killed."""
        turned = {number: [(leader + turn) % 3 + 1 for turn in range(3)] for number, leader in self.now().items()}
        self._admin.alter_partition_reassignments(
            {kafka.TopicPartition(self._topic, number): nodes for number, nodes in turned.items()}
        )
        self._admin.elect_leaders(0, {self._topic: list(turned)})
        until = time.monotonic() + 60
        while self.now() != {number: nodes[0] for number, nodes in turned.items()}:
            assert time.monotonic() < until, "the election does not happen"
        self.moves += 1


@pytest.fixture
def leaders(three_brokers):
    made = []

    def of(topic):
        made.append(Leaders(three_brokers, topic))
        return made[-1]

    yield of
    for leaders in made:
        leaders.close()


@pytest.mark.parametrize(
    ("configs", "dialect"), [pytest.param(SPLITS, None, marks=pytest.mark.extended, id="split"), ({}, 2)]
)
def test_when_leaders_move_between_living_brokers(three_brokers, leaders, configs, dialect):
    topic = made(three_brokers, configs)
    leaders = leaders(topic)
    write(three_brokers, topic, lambda number: leaders.move() if number % 10 == 5 else None, dialect=dialect)
    assert leaders.moves == 3
    check_each_row_once_and_in_order(three_brokers, topic)


@ANY_WAY
def test_when_a_leader_is_killed_and_comes_back(three_brokers, leaders, dialect):
    """Batches in flight to the old leader, others already sent to the new one."""
    topic, killed = made(three_brokers, {}), []
    leaders = leaders(topic)

    def kill(number):
        if number == 10:
            killed.append(leaders.now()[0])
            three_brokers.kill(killed[0])
        elif number == 20:
            three_brokers.restart(killed[0])

    write(three_brokers, topic, kill, dialect=dialect)
    check_each_row_once_and_in_order(three_brokers, topic)


@pytest.mark.parametrize(("configs", "dialect"), [({}, None), (SPLITS, None), ({}, 1), ({}, 2)])
def test_when_answers_are_lost_after_the_append(kafka_broker, kafka_topic, configs, dialect):
    """All through one proxy, so of one broker. Where batches are too large, answers to pieces are lost, too."""
    topic, randomness = kafka_topic(partitions=PARTITIONS, config=configs), random.Random(1)
    host, port = kafka_broker.bootstrap_servers.rsplit(":", 1)

    def cut(number):
        proxy.cut(after=randomness.randrange(100))  # a produce response is some 60 to 100 bytes

    with Proxy((host, int(port))) as proxy:
        write(kafka_broker, topic, cut, proxy=proxy, dialect=dialect)
        assert proxy.harmed >= 10
    check_each_row_once_and_in_order(kafka_broker, topic)
