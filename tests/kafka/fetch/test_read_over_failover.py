"""A real leader dies while a task reads from it."""

import pyarrow as pa
import pytest
from confluent_topic import Topic

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.mark.extended
def test_a_killed_leader_costs_time_and_no_record(three_brokers):
    topic, count = Topic(three_brokers.bootstrap_servers, replicas=3), 20_000
    topic.write([{"value": b"%d" % number} for number in range(count)], acks="all", batch_size=5000)
    leader = topic.leader()
    reader = topic.reader(**{"kafka.max.partition.fetch.bytes": "20000"})
    (task,) = reader.partitions()
    batches = reader.read(task)
    read = [next(batches)]
    three_brokers.kill(leader)
    read += batches
    assert len(read) > 10
    assert pa.Table.from_batches(read).column("offset").to_pylist() == list(range(count))
