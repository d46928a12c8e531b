"""`groupOwnership=exclusive` with `kafka.group.protocol=consumer`: the same promise where the coordinator assigns."""

import logging
from dataclasses import replace

import pytest
from fake_broker import serve
from fake_consumer_groups import ConsumerKafka, FakeConsumer, FakeConsumerGroup
from group_members import WAIT_S, Clock, config_of, hold, owners_with
from group_wire import tps

from kafkasource.errors import GroupInUse, UnsupportedApiVersion
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.group.member import GroupMember
from kafkasource.kafka.protocol.apis import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT, OFFSET_COMMIT
from kafkasource.options import parse
from kafkasource.source.commits.committer import GroupCommitter
from kafkasource.source.commits.owner import INSTANCE_ID, OUTLIVE_CONSUMER_S, owner_of

P0 = tps("t:0")[0]


@pytest.fixture
def kafka():
    return ConsumerKafka(nodes=1, topics={"t": 2})


@pytest.fixture
def config(kafka):
    with serve(kafka) as (host, port):
        yield config_of(host, port, group_protocol="consumer")


@pytest.fixture
def owner(config):
    with owners_with(config) as make:
        yield make


def test_a_second_query_is_refused_and_the_first_does_not_notice(owner, kafka):
    first, clock = owner(), Clock()
    hold(first)
    (member_id,) = kafka.consumers["g"].members
    with pytest.raises(GroupInUse, match=rf"'g' has other members \({member_id} on 10.0.0.7\)"):
        hold(owner(clock))
    assert clock.now >= OUTLIVE_CONSUMER_S
    hold(first)
    assert list(kafka.consumers["g"].members) == [member_id]
    assert kafka.consumers["g"].epoch == 1


def test_of_two_that_start_at_the_same_moment_one_is_refused(owner, monkeypatch):
    """Both saw an empty group: the coordinator decides."""
    first, clock = owner(), Clock()
    hold(first)
    second = owner(clock)
    monkeypatch.setattr(second, "_members", list)
    with pytest.raises(GroupInUse):
        hold(second)
    hold(first)


def test_a_consumer_that_joins_ends_the_query(owner, config, kafka):
    first = owner()
    hold(first)
    with Cluster(config) as cluster, GroupMember(cluster, "g", ["t"]) as consumer:
        assert consumer.poll(WAIT_S).assigned  # the query has given it up
        with pytest.raises(GroupInUse, match=r"was joined by another consumer \("):
            hold(first)


def test_a_group_that_consumers_use_cannot_be_owned_and_they_do_not_notice(owner, config, kafka):
    with Cluster(config) as cluster, GroupMember(cluster, "g", ["t"]) as consumer:
        assert len(consumer.poll(WAIT_S).assigned) == 2
        with pytest.raises(GroupInUse, match="has other members"):
            hold(owner())
        assert kafka.consumers["g"].epoch == 1


def test_a_query_that_stopped_leaves_the_group_to_the_next_at_once(owner, kafka):
    first, clock = owner(), Clock()
    hold(first)
    first.close()
    assert kafka.consumers["g"].members == {}
    hold(owner(clock))
    assert clock.naps == []


def test_a_query_that_was_killed_is_waited_out(owner, kafka):
    group = kafka.consumers["g"] = FakeConsumerGroup(members={"dead": FakeConsumer(["t"], INSTANCE_ID, epoch=1)})
    group.target["dead"] = set()

    class UntilSessionEnds(Clock):
        def sleep(self, seconds):
            super().sleep(seconds)
            if self.now >= 40 and "dead" in group.members:
                kafka.forget("g", "dead")

    clock = UntilSessionEnds()
    hold(owner(clock))
    assert 40 <= clock.now < OUTLIVE_CONSUMER_S


def test_who_is_in_the_group_is_asked_only_when_the_epoch_has_changed(owner, kafka):
    ours = owner()
    for _ in range(5):
        hold(ours)
    assert len(kafka.asked(CONSUMER_GROUP_DESCRIBE)) == 1
    with kafka.moved:
        kafka._bump(kafka.consumers["g"])
    kafka.expect(lambda: kafka.asked(CONSUMER_GROUP_HEARTBEAT)[-1].body["member_epoch"] == 2)
    for _ in range(5):
        hold(ours)
    assert len(kafka.asked(CONSUMER_GROUP_DESCRIBE)) == 2


def test_commits_are_the_members(owner, kafka, config):
    ours = owner()
    hold(ours)
    committer = GroupCommitter(config, "g", open_cluster=ours.committer)
    committer.offer({P0: 5})
    committer.close(WAIT_S)
    body = kafka.asked(OFFSET_COMMIT)[-1].body
    assert ([body["member_id"]], body["generation_id_or_member_epoch"]) == (list(kafka.consumers["g"].members), 1)
    assert kafka.committed == {("g", "t", 0): 5}


def test_a_broker_without_the_protocol_is_an_error_at_once(owner, kafka):
    del kafka.versions[CONSUMER_GROUP_HEARTBEAT.key]
    clock = Clock()
    with pytest.raises(UnsupportedApiVersion, match="set it to classic"):
        hold(owner(clock))
    assert clock.naps == []


def test_the_option_without_a_member_is_a_warning(config, caplog):
    options = parse({"kafka.bootstrap.servers": "b:1", "subscribe": "t", "kafka.group.protocol": "consumer"}, "source")
    parsed = ClientConfig.from_options(options)
    assert parsed.group_protocol == "consumer"
    with caplog.at_level(logging.WARNING):
        assert owner_of(options, parsed) is None
    assert "'kafka.group.protocol' has no effect" in caplog.text
    caplog.clear()
    assert owner_of(options, replace(parsed, group_protocol="classic")) is None
    assert not caplog.text
