"""A real leader dies while a task reads from it."""

import uuid

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkasource import options
from kafkasource.broker import Broker
from kafkasource.source.batch import BatchReader

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_a_killed_leader_costs_time_and_no_record():
    with Broker(nodes=3, use_existing=False) as broker:  # a cluster that may be hurt
        topic, count = f"failover-{uuid.uuid4().hex[:8]}", 20_000
        leader = write(broker.bootstrap_servers, topic, count)
        given = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "subscribe": topic,
            "kafka.max.partition.fetch.bytes": "20000",
        }
        reader = BatchReader(options.parse(given, "source"))
        (task,) = reader.partitions()
        batches = reader.read(task)
        read = [next(batches)]
        broker.kill(leader)
        read += batches
    assert len(read) > 10
    assert pa.Table.from_batches(read).column("offset").to_pylist() == list(range(count))


def write(bootstrap_servers, topic, count):
    """`count` records in one partition on three nodes, all in sync; its leader's node id."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(60)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "batch.size": 5000})
    for number in range(count):
        producer.produce(topic, value=b"%d" % number, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    return admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader
