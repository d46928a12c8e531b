"""Lanes against the fake Kafka: partitions are in the transaction before their records, whoever puts them there."""

import pyarrow as pa
import pytest
from fake_broker import FakeKafka, serve

from kafkasource import options
from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig
from kafkasource.errors import InvalidProducerEpoch, InvalidTxnState, TransactionAbortable
from kafkasource.protocol.apis import ADD_PARTITIONS_TO_TXN, PRODUCE
from kafkasource.sink.columns import Rows
from kafkasource.sink.partitioner import Partitioner
from kafkasource.sink.producer.config import ProducerConfig
from kafkasource.sink.producer.producer import Producer
from kafkasource.sink.producer.producer_id import Lane


class World:
    def __init__(self, kafka, servers):
        self.kafka = kafka
        self.cluster = Cluster(ClientConfig.of(servers))
        self.dialect = self.cluster.transaction_version()
        written = {"kafka.bootstrap.servers": servers}
        self.producer = Producer(ProducerConfig.from_options(options.parse(written, "sink")))

    def lane(self, name="p-0"):
        return Lane.open(self.cluster, name, 60_000, self.dialect)

    def write(self, lane, topic="t", partitions=(0, 1)):
        with self.producer.delivery(lane) as delivery:
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


def test_what_a_lane_writes_is_in_its_transaction(world):
    lane = world.lane()
    with world.producer.delivery(lane) as delivery:
        world.append(delivery, "t", (0, 1))
        world.append(delivery, "u", (0,))
        world.append(delivery, "t", (1, 3))
    assert delivery.records == 5
    transaction = world.kafka.transactions["p-0"]
    assert (transaction.state, transaction.partitions) == ("Ongoing", {("t", 0), ("t", 1), ("u", 0), ("t", 3)})
    added = [
        (topic["name"], topic["partitions"])
        for asked in world.kafka.asked(ADD_PARTITIONS_TO_TXN)
        for topic in asked.body["v3_and_below_topics"]
    ]
    assert added == ([("t", [0, 1]), ("u", [0]), ("t", [3])] if world.dialect == 1 else [])
    assert {asked.version for asked in world.kafka.asked(PRODUCE)} == {11 if world.dialect == 1 else 12}
    world.cluster.end_txn("p-0", lane.producer, True, world.dialect)
    assert transaction.state == "CompleteCommit"


@pytest.mark.parametrize(
    ("last_version", "error"),
    [(11, TransactionAbortable), (10, InvalidTxnState)],  # as Kafka 3.9 and 4.3 answer v11, and all answer v10
)
def test_a_partition_that_is_not_in_the_transaction_takes_no_record(world, monkeypatch, last_version, error):
    if world.dialect == 2:
        pytest.skip("produce requests add partitions by themselves")
    first, _ = world.kafka.versions[PRODUCE.key]
    world.kafka.versions[PRODUCE.key] = first, last_version
    lane = world.lane()
    monkeypatch.setattr(lane, "enroll", lambda partitions: None)
    with pytest.raises(error, match=r"'p-0'.*is not open any more"):
        world.write(lane)
    assert [asked.version for asked in world.kafka.asked(PRODUCE)] == [last_version]


def test_the_attempt_before_is_fenced_and_the_next_one_writes(world):
    old = world.lane()
    world.write(old)
    new = world.lane()
    with pytest.raises(InvalidProducerEpoch, match=r"'p-0'.*another attempt of the task"):
        world.write(old)
    assert world.write(new).records == 2


def test_a_transaction_that_timed_out_names_the_option(world):
    lane = world.lane()
    world.write(lane)
    world.kafka.time_out("p-0")
    with pytest.raises(InvalidProducerEpoch, match=r"'kafka\.transaction\.timeout\.ms'"):
        world.write(lane)
