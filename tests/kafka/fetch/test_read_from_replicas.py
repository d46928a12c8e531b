"""Three brokers in three racks: records come from the replica in ours (KIP-392), whatever happens to it."""

import time

import pytest
from confluent_topic import Topic, eventually, rows_of
from three_brokers import RACKS

from kafkasource.errors import DataLoss
from kafkasource.kafka.cluster.caller import Caller
from kafkasource.kafka.protocol.apis import FETCH

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture
def broker(three_brokers):
    return three_brokers


@pytest.fixture
def topic(broker):
    return Topic(broker.bootstrap_servers, replicas=3)


@pytest.fixture
def fetched_from(monkeypatch):
    """Node ids that this process sends fetches to, in order."""
    nodes, send = [], Caller.send

    def listen(self, node_id, api, *args, **kwargs):
        if api is FETCH:
            nodes.append(node_id)
        return send(self, node_id, api, *args, **kwargs)

    monkeypatch.setattr(Caller, "send", listen)
    return nodes


def follower(topic):
    return next(node for node in (1, 2, 3) if node != topic.leader())


def test_records_come_from_the_replica_in_the_rack_and_are_those_of_the_leader(topic, fetched_from, monkeypatch):
    records = [{"key": b"%d" % n, "value": b"%07d" % n * 20} for n in range(5000)]
    topic.write(records, batch_num_messages=100)
    near = follower(topic)
    monkeypatch.setenv("RACK_OF_THIS_EXECUTOR", RACKS[near - 1])
    rows = topic.rows(**{"kafka.client.rack": "env:RACK_OF_THIS_EXECUTOR", "kafka.max.partition.fetch.bytes": "20000"})
    assert [(row["key"], row["value"]) for row in rows] == [(one["key"], one["value"]) for one in records]
    assert [row["offset"] for row in rows] == list(range(5000))
    assert fetched_from[:2] == [topic.leader(), near]
    assert fetched_from.count(near) > len(fetched_from) / 2
    fetched_from.clear()
    assert len(topic.rows(**{"kafka.client.rack": RACKS[topic.leader() - 1]})) == 5000
    assert set(fetched_from) == {topic.leader()}


def test_what_was_written_a_moment_ago_comes_whole_though_the_replica_may_not_have_it_yet(topic, fetched_from):
    given, start = {"kafka.client.rack": RACKS[follower(topic) - 1]}, 0
    for size in range(1, 31):
        topic.write([{"value": b"%d" % n} for n in range(size)], linger_ms=0)
        rows = topic.rows(startingOffsets=topic.from_offset(start), **given)
        assert [(row["offset"], int(row["value"])) for row in rows] == [(start + n, n) for n in range(size)]
        start += size
    assert follower(topic) in fetched_from


def test_a_killed_replica_costs_time_and_no_record(broker, topic, fetched_from):
    count, near = 5000, follower(topic)
    topic.write([{"value": b"%07d" % n * 20} for n in range(count)], batch_num_messages=100)
    reader = topic.reader(**{"kafka.client.rack": RACKS[near - 1], "kafka.max.partition.fetch.bytes": "20000"})
    (task,) = reader.partitions()
    batches = reader.read(task)
    read = next(batches).column("offset").to_pylist()
    assert fetched_from[1] == near
    assert topic.leader() not in fetched_from[1:]
    broker.kill(near)
    for batch in batches:
        read += batch.column("offset").to_pylist()
    assert read == list(range(count))
    assert fetched_from[-1] == topic.leader()
    broker.restart(near)


def test_a_compacted_topic_is_read_past_its_holes(broker):
    topic = Topic(
        broker.bootstrap_servers, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001"
    )
    for at in range(0, 600, 100):
        topic.write([{"key": b"%d" % (n * n % 37), "value": b"%d" % n} for n in range(at, at + 100)], linger_ms=0)
        time.sleep(0.11)  # the segment's time, not ours: the next write begins another
    topic.write([{"key": b"last", "value": b"last"}])
    eventually(lambda: len(topic.as_confluent_reads()) < 300)
    for start in (0, 1, 99, 250, 599):
        for limit in ("1", "100000"):
            given = {"startingOffsets": topic.from_offset(start), "kafka.max.partition.fetch.bytes": limit}
            eventually(lambda start=start, given=given: ours(topic, given) == topic.as_confluent_reads(start))


def ours(topic, given):
    """May differ from what another client reads a moment later: compaction goes on."""
    return [(row["offset"], row["key"], row["value"]) for row in topic.rows(**given)]


@pytest.mark.extended
def test_a_log_truncated_by_an_unclean_election_is_a_loss_though_it_is_longer_again(broker):
    topic = Topic(
        broker.bootstrap_servers,
        replica_assignment=[[1, 2]],
        min_insync_replicas="1",
        unclean_leader_election_enable="true",
    )
    topic.write([{"value": b"kept"}] * 100, acks="all")
    broker.kill(2)
    topic.write([{"value": b"lost"}] * 50, acks="1")
    eventually(lambda: len(topic.as_confluent_reads()) == 150)  # the dead replica has left the ISR
    given = {"startingOffsets": topic.from_offset(0), "endingOffsets": topic.from_offset(150)}
    reader = topic.reader(**given)
    tasks = reader.partitions()
    broker.kill(1)
    broker.restart(2)  # does not know the last 50, and leads
    eventually(lambda: topic.leader() == 2)
    topic.write([{"value": b"new"}] * 80, acks="1")
    assert len(topic.as_confluent_reads()) == 180
    with pytest.raises(
        DataLoss, match=rf"offset \[100, 150\) for topic partition {topic.name}-0.*truncated.*ends at 100"
    ):
        rows_of(reader, tasks)
    tolerant = topic.reader(**given, failOnDataLoss="false")
    assert [row["value"] for row in rows_of(tolerant, tasks)] == [b"kept"] * 100
    broker.restart(1)
