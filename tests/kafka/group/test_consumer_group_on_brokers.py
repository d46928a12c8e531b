"""Groups whose coordinator assigns (KIP-848) on a real broker, with librdkafka's members beside ours."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from test_members_on_brokers import WAIT_S, settle
from test_mixed_group import PARTITIONS, Group

from kafkasource.errors import BrokerError, CommitFailed, GroupInUse, UnsupportedApiVersion
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.routing import GROUP
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.group.member import GroupMember
from kafkasource.kafka.group.membership import Changes
from kafkasource.kafka.protocol.apis import CONSUMER_GROUP_HEARTBEAT
from kafkasource.source.commits.owner import GroupOwner
from kafkasource.testing.broker import Broker
from kafkasource.tools.cli import main
from kafkasource.types import TopicPartition

pytestmark = [pytest.mark.broker, pytest.mark.peers, pytest.mark.slow]

SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 6_000,
}


@pytest.fixture(scope="module")
def broker():
    with Broker(properties=SETTINGS) as made:
        yield made


@pytest.fixture(scope="module")
def servers(broker):
    return broker.bootstrap_servers


@pytest.fixture
def topic(servers, request):
    name = request.node.name[:60].replace("[", "-").replace("]", "")
    with Cluster(ClientConfig.of(servers)) as cluster:
        cluster.topics.create([name], partitions=PARTITIONS)
    return name


@pytest.fixture
def group(servers, topic):
    made = Group(servers, topic)
    yield made
    made.end()


@pytest.fixture
def join(topic):
    with contextlib.ExitStack() as stack:

        def make(servers, **settings):
            cluster = stack.enter_context(Cluster(ClientConfig.of(servers, group_protocol="consumer")))
            return stack.enter_context(GroupMember(cluster, f"{topic}-group", [topic], **settings))

        yield make


def committed(servers, topic):
    """As librdkafka's admin client sees it."""
    group = f"{topic}-group"
    admin = AdminClient({"bootstrap.servers": servers})
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    return {each.partition: each.offset for each in found.topic_partitions}


def described(servers, topic):
    with Cluster(ClientConfig.of(servers)) as cluster:
        return cluster.groups.describe([f"{topic}-group"])[f"{topic}-group"]


def test_two_of_ours_and_one_of_librdkafkas_share_and_every_record_is_consumed_once(group, servers, topic):
    group.start("ours", "consumer")
    group.expect_shares(6)
    group.start("confluent", "consumer")
    group.expect_shares(3, 3)
    group.start("ours", "consumer", name="ours too")
    group.expect_shares(2, 2, 2)
    assert described(servers, topic).type == "consumer"
    group.produce(600)
    group.expect_all_consumed_once()
    group.kill("ours too")
    group.expect_shares(3, 3)
    group.produce(600)
    group.expect_all_consumed_once()
    group.kill("confluent")
    group.expect_shares(6)
    group.produce(600)
    group.expect_all_consumed_once()
    assert committed(servers, topic) == dict.fromkeys(range(PARTITIONS), 300)


def test_a_group_goes_over_from_the_classic_protocol_member_by_member(group, servers, topic):
    for name in ("one", "two"):
        group.start("ours", "range", name=name)
    group.start("confluent", "range")
    group.expect_shares(2, 2, 2)
    assert described(servers, topic).type == "classic"
    for name, client in (("one", "ours"), ("confluent", "confluent"), ("two", "ours")):
        group.produce(60)
        group.expect_all_consumed_once()
        group.kill(name)
        group.start(client, "consumer", name=name)
        group.expect_shares(2, 2, 2)
    group.produce(60)
    group.expect_all_consumed_once()
    assert described(servers, topic).type == "consumer"
    assert committed(servers, topic) == dict.fromkeys(range(PARTITIONS), 40)


def test_two_share_and_one_takes_over(join, servers, topic):
    first = join(servers)
    assert len(first.poll(WAIT_S).assigned) == 6
    second = join(servers)
    settle([3, 3], first, second)
    assert not second.awaits_more()
    first.commit(dict.fromkeys(first.assignment, 5))
    second.commit(dict.fromkeys(second.assignment, 6))
    expected = {tp.partition: 5 for tp in first.assignment} | {tp.partition: 6 for tp in second.assignment}
    first.close()
    settle([6], second)
    assert committed(servers, topic) == expected


@pytest.mark.parametrize("instance_id", [None, "one"])
def test_a_member_that_an_admin_removed_comes_back(join, servers, topic, instance_id):
    member = join(servers, instance_id=instance_id)
    mine = member.poll(WAIT_S).assigned
    leave = {"group_id": member.group, "member_id": member.member_id, "member_epoch": -1, "instance_id": instance_id}
    with Cluster(ClientConfig.of(servers)) as cluster:
        cluster.coordinators.ask(GROUP, member.group, CONSUMER_GROUP_HEARTBEAT, leave)
    with pytest.raises(CommitFailed, match="UNKNOWN_MEMBER_ID"):
        member.commit(dict.fromkeys(mine, 1))
    assert member.poll(WAIT_S).lost == mine
    settle([6], member)
    member.commit(dict.fromkeys(mine, 2))


def test_a_fenced_member_comes_back(join, servers):
    """The coordinator knows another epoch, as after a loss of its log."""
    member = join(servers)
    mine = member.poll(WAIT_S).assigned
    with member._changed.lock:
        membership = member._membership
        membership.identity = replace(membership.identity, generation_id=membership.identity.generation_id + 7)
    assert member.poll(WAIT_S).lost == mine
    settle([6], member)


def test_a_static_member_has_its_partitions_again_after_a_restart(join, servers):
    one, two = join(servers, instance_id="one"), join(servers, instance_id="two")
    settle([3, 3], one, two)
    mine = one.assignment
    one.close()
    again = join(servers, instance_id="one")
    assert again.poll(WAIT_S) == Changes(assigned=mine)
    assert two.poll(0) == Changes()  # nobody else noticed


def test_of_two_with_one_instance_id_the_newer_is_refused(join, servers):
    older = join(servers, instance_id="one")
    mine = older.poll(WAIT_S).assigned
    newer = join(servers, instance_id="one")
    with pytest.raises(BrokerError, match="UNRELEASED_INSTANCE_ID"):
        newer.poll(WAIT_S)
    newer.close()
    older.commit(dict.fromkeys(mine, 1))
    assert older.poll(1) == Changes()


def test_a_topic_that_grows_is_shared_out(join, servers, topic):
    member = join(servers)
    assert len(member.poll(WAIT_S).assigned) == 6
    with Cluster(ClientConfig.of(servers)) as cluster:
        cluster.topics.add_partitions({topic: 8})
    assert member.poll(WAIT_S).assigned == {TopicPartition(topic, 6), TopicPartition(topic, 7)}


def test_pykafka_read_waits_for_its_share_and_reads_it(join, group, servers, topic, capfd):
    first, done = join(servers), threading.Event()
    assert len(first.poll(WAIT_S).assigned) == 6

    def keep_polling():
        while not done.is_set():
            first.poll(0.05)

    thread = threading.Thread(target=keep_polling)
    thread.start()
    try:
        group.produce(600)
        command = ["read", topic, "-b", servers, "--group", f"{topic}-group", "-X", "group.protocol=consumer"]
        assert main(command) == 0
    finally:
        done.set()
        thread.join()
    assert capfd.readouterr().out == "x\n" * 300
    assert sorted(committed(servers, topic).values()) == [100] * 3


def test_a_query_owns_its_group_until_a_consumer_joins(join, servers, topic):
    config = ClientConfig.of(servers, group_protocol="consumer")
    first, second = GroupOwner(config, f"{topic}-group"), GroupOwner(config, f"{topic}-group", clock=lambda: 0.0)
    with contextlib.closing(first), contextlib.closing(second):
        first.hold(lambda: [topic])
        second._members = list  # as if both had started at the same moment
        deadline = iter([0.0, 100.0])
        second._clock = lambda: next(deadline)
        with pytest.raises(GroupInUse, match="has other members"):
            second.hold(lambda: [topic])
        first.hold(lambda: [topic])
        first.commit({TopicPartition(topic, 0): 1})
        assert join(servers).poll(WAIT_S).assigned
        with pytest.raises(GroupInUse, match="was joined by another consumer"):
            first.hold(lambda: [topic])
    assert committed(servers, topic) == {0: 1}
    with contextlib.closing(GroupOwner(config, f"{topic}-other")) as owner:
        owner.hold(lambda: [topic])


@pytest.mark.extended
def test_a_broker_that_has_only_classic_groups_is_an_error_that_names_the_option(join):
    wanted = r"'kafka.group.protocol'=consumer needs"
    with Broker(version="3.9.2") as old, pytest.raises(UnsupportedApiVersion, match=wanted):
        join(old.bootstrap_servers).poll(WAIT_S)


def test_a_member_outlives_its_coordinator(three_brokers):
    config = ClientConfig.of(three_brokers.bootstrap_servers, group_protocol="consumer")
    with Cluster(config) as cluster:
        cluster.topics.create(["outlives-848"], partitions=4)
        with GroupMember(cluster, "outlives-848-group", ["outlives-848"]) as member:
            mine = member.poll(WAIT_S).assigned
            member.commit(dict.fromkeys(mine, 1))
            before = member.member_id
            three_brokers.kill(cluster.coordinators.of(GROUP, "outlives-848-group"))
            member.commit(dict.fromkeys(mine, 2))
            assert member.poll(8) == Changes()  # longer than a heartbeat takes to come
            assert (member.assignment, member.member_id) == (mine, before)
