"""Replies lost on the way, brokers killed in the middle of a task: each record is stored, once, in its order."""

import random
from itertools import pairwise

import pyarrow as pa
import pytest
from confluent_reader import values_of
from proxy import Proxy, ThroughProxy

from kafkasource import options
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.network_client import NetworkClient
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.partitioner import Partitioner
from kafkasource.kafka.producer.producer import Producer
from kafkasource.sink.clusters import producers as producers_module
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.targets import ONLY
from kafkasource.sink.columns import SinkSchema
from kafkasource.testing.broker import Broker

pytestmark = pytest.mark.broker

# So little memory that a task cannot run ahead of what happens on the wire.
SMALL = {
    "kafka.batch.size": "4096",
    "kafka.buffer.memory": "16384",
    "kafka.linger.ms": "0",
    "kafka.retry.backoff.ms": "20",
}


@pytest.fixture
def producer_through():
    """Makes producers of the test's own, through a proxy where one is given."""
    made = []

    def make(bootstrap_servers, topic, proxy=None, **options_written):
        written = SMALL | {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic} | options_written
        config = ProducerConfig.from_options(options.parse(written, "sink"))
        connector = ThroughProxy(config.client, proxy) if proxy else None
        made.append(Producer(config, client=NetworkClient(config.client, connector=connector)))
        return made[-1]

    yield make
    for producer in made:
        producer.close()


def write(producer, topic, batches):
    """As one task would: batches of values."""
    schema, partitioner = SinkSchema(topic, {"key": 0, "value": 0}), Partitioner(4096)
    with producer.delivery() as delivery:
        for values in batches:
            for rows in schema.rows(pa.record_batch([pa.array(values, pa.binary())], names=["value"])):
                producer.append(rows, partitioner, delivery)
    return delivery


def read(bootstrap_servers, topic, partitions):
    """Values by partition, in the order of their offsets."""
    return values_of(bootstrap_servers, topic, range(partitions), "read_uncommitted", settled=True)


def check_once_in_order(found, values):
    assert sorted(value for part in found.values() for value in part) == sorted(values)
    for part in found.values():
        assert all(a < b for a, b in pairwise(part)), "rows of a partition changed places"


# One partition: the memory lets five batches be in flight to it, so those behind a lost one are refused or copies.
@pytest.mark.parametrize(("partitions", "memory"), [pytest.param(3, "16384", marks=pytest.mark.extended), (1, "65536")])
def test_a_reply_lost_after_the_append_stores_no_record_twice(
    kafka_broker, kafka_topic, producer_through, partitions, memory
):
    topic, randomness = kafka_topic(partitions=partitions), random.Random(1)
    batches = [[b"%06d" % (i * 500 + j) + b"." * 60 for j in range(500)] for i in range(30)]
    host, port = kafka_broker.bootstrap_servers.rsplit(":", 1)
    with Proxy((host, int(port))) as proxy:
        small = {"kafka.buffer.memory": memory}
        producer = producer_through(kafka_broker.bootstrap_servers, topic, proxy, **small)

        def harmed():
            for number, values in enumerate(batches):
                if number:
                    proxy.cut(after=randomness.randrange(100))  # a produce response is some 60 to 100 bytes
                yield values

        delivery = write(producer, topic, harmed())
        assert proxy.harmed >= 10
        assert delivery.records == 15_000
        assert producer.pool.available_bytes == producer.pool.total_bytes
    check_once_in_order(
        read(kafka_broker.bootstrap_servers, topic, partitions), [v for batch in batches for v in batch]
    )


@pytest.mark.slow
@pytest.mark.extended
def test_a_broker_killed_in_the_middle_of_a_task_loses_and_repeats_nothing(producer_through):
    with Broker() as broker:
        if broker.existing:
            pytest.skip("a cluster of somebody else's is not killed")
        topic = "killed"
        with Cluster(ClientConfig.of(broker.bootstrap_servers)) as cluster:
            cluster.topics.create([topic], partitions=2)
        producer = producer_through(broker.bootstrap_servers, topic)
        batches = [[b"%06d" % (i * 500 + j) + b"." * 60 for j in range(500)] for i in range(20)]

        def with_kill():
            for number, values in enumerate(batches):
                yield values
                if number == 10:
                    broker.kill(1)
                    broker.restart(1)

        assert write(producer, topic, with_kill()).records == 10_000
        check_once_in_order(read(broker.bootstrap_servers, topic, 2), [v for batch in batches for v in batch])


def test_each_configuration_has_one_producer_and_few_are_kept(kafka_broker, monkeypatch):
    monkeypatch.setattr(producers_module._cache.get(), "producers", {})
    monkeypatch.setattr(producers_module, "_MAX_CLUSTERS", 2)
    made = []
    for linger in (1, 2, 3):
        written = {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers, "kafka.linger.ms": str(linger)}
        made.append(producers_module.shared_producers(targets.parse(written).by_name)[ONLY])
        with made[-1].leased_memory():
            pass
    assert [producer.usable for producer in made] == [False, True, True]
    for producer in made[1:]:
        producer.close()
