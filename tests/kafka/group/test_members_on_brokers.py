"""Members of ours with real coordinators, the oldest and the newest."""

from __future__ import annotations

import contextlib

import pytest

from kafkasource.errors import BrokerError, CommitFailed, UnsupportedApiVersion
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.routing import GROUP
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.group.member import GroupMember
from kafkasource.kafka.group.membership import Changes
from kafkasource.testing.broker import Broker
from kafkasource.types import TopicPartition

pytestmark = pytest.mark.broker
WAIT_S = 30.0
SETTINGS = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200}


@pytest.fixture
def join():
    with contextlib.ExitStack() as stack:

        def make(servers, topic, **settings):
            cluster = stack.enter_context(Cluster(ClientConfig.of(servers)))
            return stack.enter_context(GroupMember(cluster, f"{topic}-group", [topic], **{**SETTINGS, **settings}))

        yield make


def settle(shares, *members):
    for _ in range(3_000):
        for member in members:
            member.poll(0.01)
        if [len(member.assignment) for member in members] == shares and all(member.joined for member in members):
            return
    raise AssertionError([member.assignment for member in members])


def share_and_take_over(join, servers, topic, assignor):
    """Two share four partitions, both commit, one leaves; the other has all and knows where to go on."""
    first = join(servers, topic, assignors=[assignor])
    assert len(first.poll(WAIT_S).assigned) == 4
    second = join(servers, topic, assignors=[assignor])
    settle([2, 2], first, second)
    first.commit(dict.fromkeys(first.assignment, 5))
    second.commit(dict.fromkeys(second.assignment, 6))
    mine, given_up = second.assignment, first.assignment
    first.close()
    settle([4], second)
    with Cluster(ClientConfig.of(servers)) as cluster:
        expected = {**dict.fromkeys(given_up, 5), **dict.fromkeys(mine, 6)}
        assert cluster.groups.committed_offsets(f"{topic}-group", expected) == expected
        with pytest.raises(BrokerError, match="UNKNOWN_MEMBER_ID"):
            cluster.groups.commit(f"{topic}-group", {TopicPartition(topic, 0): 1})  # from outside
    second.close()


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_two_share_and_one_takes_over(join, kafka_broker, kafka_topic, assignor):
    share_and_take_over(join, kafka_broker.bootstrap_servers, kafka_topic(partitions=4), assignor)


@pytest.mark.slow
def test_the_first_broker_with_groups_has_them_too(join):
    with Broker(version="0.9.0.1", properties={"num.partitions": 4}) as broker:
        share_and_take_over(join, broker.bootstrap_servers, "t", "range")
        with pytest.raises(UnsupportedApiVersion, match="static membership"):
            join(broker.bootstrap_servers, "t", instance_id="one").poll(WAIT_S)


def test_a_static_member_has_its_partitions_again_after_a_restart(join, kafka_broker, kafka_topic):
    topic = kafka_topic(partitions=4)
    servers = kafka_broker.bootstrap_servers
    one, two = join(servers, topic, instance_id="one"), join(servers, topic, instance_id="two")
    settle([2, 2], one, two)
    mine = one.assignment
    one.close()
    again = join(servers, topic, instance_id="one")
    assert again.poll(WAIT_S) == Changes(assigned=mine)
    assert two.poll(0) == Changes()  # nobody else noticed


def test_of_two_with_one_instance_id_the_older_is_fenced(join, kafka_broker, kafka_topic):
    topic = kafka_topic(partitions=1)
    older = join(kafka_broker.bootstrap_servers, topic, instance_id="one")
    (tp,) = older.poll(WAIT_S).assigned
    newer = join(kafka_broker.bootstrap_servers, topic, instance_id="one")
    assert newer.poll(WAIT_S).assigned == {tp}
    with pytest.raises((CommitFailed, BrokerError), match="FENCED_INSTANCE_ID"):
        older.commit({tp: 1})
    with pytest.raises(BrokerError, match="FENCED_INSTANCE_ID"):
        older.poll(WAIT_S)
    newer.commit({tp: 2})


@pytest.mark.slow
def test_a_member_outlives_its_coordinator(join, three_brokers):
    """The group's next coordinator knows it: nothing is lost, and commits go on."""
    with Cluster(ClientConfig.of(three_brokers.bootstrap_servers)) as cluster:
        cluster.topics.create(["outlives"], partitions=4)
        member = join(three_brokers.bootstrap_servers, "outlives", session_timeout_ms=30_000)
        mine = member.poll(WAIT_S).assigned
        member.commit(dict.fromkeys(mine, 1))
        before = member.member_id
        three_brokers.kill(cluster.coordinators.of(GROUP, "outlives-group"))
        member.commit(dict.fromkeys(mine, 2))
        assert member.poll(1) == Changes()
        assert (member.assignment, member.member_id) == (mine, before)
        assert member.joined
        member.close()
