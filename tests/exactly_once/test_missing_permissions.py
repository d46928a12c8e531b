"""A permission that is missing: the error names the resource, the operation to grant, and the option. No retry."""

import re

import plain_producer
import pytest
from fake_broker import Error, FakeKafka, serve

from kafkasource.errors import AuthorizationFailed
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.names import TransactionalIds, WrittenTransaction
from kafkasource.exactly_once.task.plan import TaskResult
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.protocol import apis
from kafkasource.sink.new_topic import create_in
from kafkasource.types import NewTopic, TopicPartition

IDS = TransactionalIds("orders")
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 29, 30, 31, 53
GRANTS = {
    TOPIC: r"grant Describe plus .* Write \(to write\) on it, or correct the option .*'topic'",
    GROUP: r"grant Read on it\..*'transactionalIdPrefix' with -marker and with -kept added",
    CLUSTER: r"'kafka\.enable\.idempotence', grant IdempotentWrite on it .* or set the option to false",
    TRANSACTIONAL_ID: r"grant Write and Describe on all that begin with the query's 'transactionalIdPrefix'",
}


class World:
    def __init__(self, kafka, servers):
        self.kafka = kafka
        self.cluster = Cluster(ClientConfig.of(servers))
        self.producer = plain_producer.producer(servers)
        self.driver = ExactlyOnce(self.cluster, IDS, timeout_ms=60_000)

    def close(self):
        self.producer.close()
        self.cluster.close()

    def refused(self, api, code, act, resource, requests=1):
        self.kafka.fault(api, Error(code))
        with pytest.raises(AuthorizationFailed) as caught:
            act()
        text = str(caught.value)
        assert caught.value.code == code
        assert resource in text
        assert re.search(GRANTS[code], text), text
        assert len(self.kafka.asked(api)) == requests, "asked again in vain"

    def write(self, transaction=None):
        with self.producer.delivery(transaction) as delivery:
            plain_producer.append(self.producer, delivery, "t", [b"v"])

    def commit(self):
        """As after a task that wrote in transaction 0."""
        decider = self.driver.begin().driver
        transaction = self.cluster.transactions.init_producer_id(IDS.task(0), 60_000)
        written = WrittenTransaction(0, *transaction, 1, 0)
        self.cluster.transactions.add_partitions(IDS.task(0), transaction, [TopicPartition("t", 0)])
        result = TaskResult(decider, "query", transaction=written, partitions=(TopicPartition("t", 0),))
        return lambda: self.driver.commit([result], 0)


@pytest.fixture
def world():
    kafka = FakeKafka(nodes=1, topics={"t": 1})
    kafka.transaction_version = 1
    with serve(kafka) as (host, port):
        world = World(kafka, f"{host}:{port}")
        yield world
        world.close()


def test_to_write_to_a_topic(world):
    world.refused(apis.PRODUCE, TOPIC, world.write, "produce to t-0")


def test_to_know_a_topic(world):
    world.kafka.fault(apis.METADATA, *[Error(TOPIC)] * 10)  # the first is asked for the brokers' sake
    with pytest.raises(AuthorizationFailed, match=rf"topic 't': .*{GRANTS[TOPIC]}"):
        world.write()


def test_to_be_idempotent(world):
    world.refused(apis.INIT_PRODUCER_ID, CLUSTER, world.write, "InitProducerId for an idempotent producer")


def test_to_make_a_topic(world, monkeypatch):
    monkeypatch.setitem(GRANTS, TOPIC, "grant Create on it")
    new = NewTopic(1, 1, ())
    world.refused(apis.CREATE_TOPICS, TOPIC, lambda: create_in(world.cluster, "new", new), "option 'createTopic'")


@pytest.mark.parametrize("api", [apis.INIT_PRODUCER_ID, apis.FIND_COORDINATOR])
def test_to_begin_a_transaction(world, api):
    def begin():
        TaskTransaction.open(world.cluster.transactions, "orders-0", 60_000, 1)

    world.refused(api, TRANSACTIONAL_ID, begin, "'orders-0'")


def test_to_write_to_a_topic_in_a_transaction(world):
    transaction = TaskTransaction.open(world.cluster.transactions, "orders-0", 60_000, 1)
    world.refused(apis.ADD_PARTITIONS_TO_TXN, TOPIC, lambda: world.write(transaction), "t-0")


@pytest.mark.parametrize(("code", "resource"), [(TOPIC, "t-0"), (TRANSACTIONAL_ID, "'orders-0'")])
def test_to_produce_in_a_transaction(world, code, resource):
    transaction = TaskTransaction.open(world.cluster.transactions, "orders-0", 60_000, 1)
    world.refused(apis.PRODUCE, code, lambda: world.write(transaction), resource)


def test_to_read_the_decision_record(world):
    world.refused(apis.OFFSET_FETCH, GROUP, world.driver.begin, "'orders-kept'")


@pytest.mark.parametrize(
    ("api", "code", "resource"),
    [
        (apis.DESCRIBE_TRANSACTIONS, TRANSACTIONAL_ID, "'orders-0'"),
        (apis.ADD_OFFSETS_TO_TXN, GROUP, "'orders-driver'"),
        (apis.ADD_OFFSETS_TO_TXN, TRANSACTIONAL_ID, "'orders-driver'"),
        (apis.TXN_OFFSET_COMMIT, GROUP, "'orders-marker'"),
        (apis.TXN_OFFSET_COMMIT, TOPIC, "t-0"),
        (apis.OFFSET_COMMIT, GROUP, "'orders-kept'"),
        (apis.OFFSET_COMMIT, TOPIC, "t-0"),
    ],
)
def test_to_decide(world, monkeypatch, api, code, resource):
    if (api, code) in ((apis.TXN_OFFSET_COMMIT, TOPIC), (apis.OFFSET_COMMIT, TOPIC)):
        monkeypatch.setitem(GRANTS, TOPIC, r"grant Read on it: with exactly_once")
    commit = world.commit()
    requests = 2 if api is apis.DESCRIBE_TRANSACTIONS else 1  # the transaction's and the driver's go together
    world.refused(api, code, commit, resource, requests)
