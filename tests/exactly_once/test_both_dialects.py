"""Task transactions against the fake Kafka: a partition is in the transaction before its records, in both dialects."""

import pyarrow as pa
import pytest
from fake_broker import FakeKafka, serve

from kafkasource import options
from kafkasource.errors import InvalidProducerEpoch, InvalidTxnState, TransactionAbortable
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.partitioner import Partitioner
from kafkasource.kafka.producer.producer import Producer
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.producer.rows import Rows
from kafkasource.kafka.protocol.apis import ADD_PARTITIONS_TO_TXN, PRODUCE


class World:
    def __init__(self, kafka, servers):
        self.kafka = kafka
        self.cluster = Cluster(ClientConfig.of(servers))
        self.dialect = self.cluster.transactions.version()
        written = {"kafka.bootstrap.servers": servers}
        self.producer = Producer(ProducerConfig.from_options(options.parse(written, "sink")))

    def transaction(self, name="p-0"):
        return TaskTransaction.open(self.cluster.transactions, name, 60_000, self.dialect)

    def write(self, transaction, topic="t", partitions=(0, 1)):
        with self.producer.delivery(transaction) as delivery:
            self.append(delivery, topic, partitions)
        return delivery

    def append(self, delivery, topic, partitions):
        count = len(partitions)
        chosen = pa.array(partitions, pa.int32())
        rows = Rows(topic, count, None, pa.array([b"v"] * count, pa.binary()), None, chosen, None)
        self.producer.append(rows, Partitioner(1024), delivery)


@pytest.fixture(params=[1, 2])
def world(request):
    kafka = FakeKafka(nodes=1, topics={"t": 4, "u": 1})
    kafka.transaction_version = request.param
    with serve(kafka) as (host, port):
        world = World(kafka, f"{host}:{port}")
        yield world
        world.producer.close()
        world.cluster.close()


def test_what_a_task_writes_is_in_its_transaction(world):
    transaction = world.transaction()
    with world.producer.delivery(transaction) as delivery:
        world.append(delivery, "t", (0, 1))
        world.append(delivery, "u", (0,))
        world.append(delivery, "t", (1, 3))
    assert delivery.records == 5
    stored = world.kafka.transactions["p-0"]
    assert (stored.state, stored.partitions) == ("Ongoing", {("t", 0), ("t", 1), ("u", 0), ("t", 3)})
    added = [
        (topic["name"], topic["partitions"])
        for asked in world.kafka.asked(ADD_PARTITIONS_TO_TXN)
        for topic in asked.body["v3_and_below_topics"]
    ]
    assert added == ([("t", [0, 1]), ("u", [0]), ("t", [3])] if world.dialect == 1 else [])
    assert {asked.version for asked in world.kafka.asked(PRODUCE)} == {11 if world.dialect == 1 else 12}
    world.cluster.transactions.end("p-0", transaction.producer, True, world.dialect)
    assert stored.state == "CompleteCommit"


@pytest.mark.parametrize(
    ("last_version", "error"),
    [(11, TransactionAbortable), (10, InvalidTxnState)],  # as Kafka 3.9 and 4.3 answer v11, and all answer v10
)
def test_a_partition_that_is_not_in_the_transaction_takes_no_record(world, monkeypatch, last_version, error):
    if world.dialect == 2:
        pytest.skip("produce requests add partitions by themselves")
    first, _ = world.kafka.versions[PRODUCE.key]
    world.kafka.versions[PRODUCE.key] = first, last_version
    transaction = world.transaction()
    monkeypatch.setattr(transaction, "enroll", lambda partitions: None)
    with pytest.raises(error, match=r"'p-0'.*is not open any more"):
        world.write(transaction)
    assert [asked.version for asked in world.kafka.asked(PRODUCE)] == [last_version]


def test_the_attempt_before_is_fenced_and_the_next_one_writes(world):
    old = world.transaction()
    world.write(old)
    new = world.transaction()
    with pytest.raises(InvalidProducerEpoch, match=r"'p-0'.*another attempt of the task"):
        world.write(old)
    assert world.write(new).records == 2


def test_a_transaction_that_timed_out_names_the_option(world):
    transaction = world.transaction()
    world.write(transaction)
    world.kafka.time_out("p-0")
    with pytest.raises(InvalidProducerEpoch, match=r"'kafka\.transaction\.timeout\.ms'"):
        world.write(transaction)
