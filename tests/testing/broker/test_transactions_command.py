"""`pykafka transactions` on a real Kafka, with another client's transactions."""

import uuid

import pytest

from kafkasource.errors import BrokerError
from kafkasource.exactly_once.decision import Decision
from kafkasource.exactly_once.names import TransactionalIds, WrittenTransaction
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.tools.cli import main
from kafkasource.types import TopicPartition

pytestmark = pytest.mark.broker


@pytest.fixture
def cluster(kafka_broker):
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as cluster:
        yield cluster


@pytest.fixture
def ids():
    return TransactionalIds(f"orders-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def command(kafka_broker, ids, capsys):
    def run(*words):
        code = main(
            ["transactions", *words, "--prefix", ids.prefix, "--bootstrap-servers", kafka_broker.bootstrap_servers]
        )
        return code, capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def transaction(kafka_broker):
    """A transaction of confluent-kafka that has written to a topic and is open."""
    from confluent_kafka import Producer

    opened = []

    def begin(transactional_id, topic):
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": transactional_id})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, b"row", partition=0)
        producer.flush(30)
        opened.append(producer)
        return producer

    return begin


def decide(cluster, ids, tp, driver, transactions):
    """Decide batch 7 of these transactions."""
    tv = cluster.transactions.version()
    if tv == 1:
        cluster.transactions.add_offsets(ids.driver, driver, ids.marker_group)
    placed = Decision(1, "query", 7, tv, transactions).placed([tp])
    cluster.transactions.commit_offsets(ids.driver, driver, ids.marker_group, placed, tv)
    cluster.transactions.end(ids.driver, driver, True, tv)
    cluster.groups.committed(ids.marker_group)  # waits until it is there


def test_what_is_decided_outlives_an_abort_and_the_rest_does_not(cluster, ids, command, transaction, kafka_topic):
    topic = kafka_topic()
    decided, undecided = transaction(ids.task(0), topic), transaction(ids.task(1), topic)
    other = transaction(f"{ids.prefix}-eu-0", topic)
    held = cluster.transactions.describe([ids.task(0)])[ids.task(0)]
    transactions = (WrittenTransaction(0, held.producer_id, held.producer_epoch, 1, 0),)
    decide(cluster, ids, TopicPartition(topic, 0), cluster.transactions.init_producer_id(ids.driver), transactions)

    code, lines = command("list")
    assert code == 0
    assert [line.partition(":")[0] for line in lines] == [ids.task(0), ids.task(1)]
    assert [f"in {topic}-0" in line for line in lines] == [True, True]
    assert [line.endswith("; batch 7 is decided with it") for line in lines] == [True, False]

    code, lines = command("abort")
    assert code == 1
    assert [line.partition(":")[0] for line in lines] == [f"aborted {ids.task(1)}", f"left alone {ids.task(0)}"]
    with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
        undecided.commit_transaction(30)
    decided.commit_transaction(30)
    other.commit_transaction(30)
    assert command("list") == (0, [f"no transaction of {ids.prefix!r} is open"])


def test_a_query_that_still_runs_can_decide_nothing_after_an_abort(cluster, ids, command, kafka_topic):
    driver = cluster.transactions.init_producer_id(ids.driver)
    assert command("abort") == (0, [f"no transaction of {ids.prefix!r} was open"])
    with pytest.raises(BrokerError):
        decide(cluster, ids, TopicPartition(kafka_topic(), 0), driver, (WrittenTransaction(0, 1, 1, 1, 0),))


def test_a_prefix_mistyped_makes_nothing(cluster, ids, command):
    assert command("abort") == (0, [f"no transaction of {ids.prefix!r} was open"])
    assert cluster.transactions.describe([ids.driver]) == {ids.driver: None}
