"""`groupOwnership=exclusive`: one query has the group, and who comes second hears who has it."""

import pytest
from fake_broker import serve
from fake_groups import GroupKafka
from group_members import WAIT_S, Clock, config_of, hold, owners_with
from group_wire import tps

from kafkasource.errors import BrokerError, CommitFailed, GroupInUse, OptionError, UnsupportedApiVersion
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.group.consumer_protocol import Assignment
from kafkasource.kafka.group.member import GroupMember
from kafkasource.kafka.protocol.apis import LEAVE_GROUP, OFFSET_COMMIT
from kafkasource.options import parse
from kafkasource.source.commits.committer import GroupCommitter
from kafkasource.source.commits.owner import OUTLIVE_S, owner_of

P0 = tps("t:0")[0]


@pytest.fixture
def kafka():
    return GroupKafka(nodes=1, topics={"t": 2})


@pytest.fixture
def config(kafka):
    with serve(kafka) as (host, port):
        yield config_of(host, port)


@pytest.fixture
def owner(config):
    with owners_with(config) as make:
        yield make


def test_a_second_query_is_refused_and_told_who_has_the_group(owner, kafka):
    first, clock = owner(), Clock()
    hold(first)
    second = owner(clock)
    with pytest.raises(GroupInUse, match=r"'g' has other members \(member-1 on 10.0.0.7\).*kafka.group.id of its own"):
        hold(second)
    assert clock.now >= OUTLIVE_S
    hold(first)
    assert list(kafka.groups["g"].members) == ["member-1"]


def test_a_consumer_cannot_come_into_an_owned_group(owner, config):
    hold(owner())
    with Cluster(config) as cluster, GroupMember(cluster, "g", ["t"]) as consumer:  # noqa: SIM117
        with pytest.raises(BrokerError, match="INCONSISTENT_GROUP_PROTOCOL"):
            consumer.poll(WAIT_S)


def test_a_group_that_consumers_use_cannot_be_owned(owner, config):
    with Cluster(config) as cluster, GroupMember(cluster, "g", ["t"], heartbeat_interval_ms=10) as consumer:
        assert consumer.poll(WAIT_S).assigned
        with pytest.raises(GroupInUse):
            hold(owner())
        assert consumer.poll() == type(consumer.poll())()


def test_a_query_that_stopped_leaves_the_group_to_the_next_at_once(owner, kafka):
    first, clock = owner(), Clock()
    hold(first)
    first.close()
    assert len(kafka.asked(LEAVE_GROUP)) == 1
    hold(owner(clock))
    assert clock.naps == []


def test_a_query_that_was_killed_is_waited_out(owner, kafka):
    hold(owner())

    class UntilSessionEnds(Clock):
        def sleep(self, seconds):
            super().sleep(seconds)
            if self.now >= 5:
                kafka.expire("g", "member-1")

    clock = UntilSessionEnds()
    hold(owner(clock))
    assert 5 <= clock.now < OUTLIVE_S


def test_commits_are_the_members(owner, kafka, config):
    ours = owner()
    hold(ours)
    committer = GroupCommitter(config, "g", open_cluster=ours.committer)
    committer.offer({P0: 5})
    committer.close(WAIT_S)
    body = kafka.asked(OFFSET_COMMIT)[-1].body
    assert (body["member_id"], body["generation_id_or_member_epoch"]) == ("member-1", 1)
    assert kafka.committed == {("g", "t", 0): 5}


def test_who_lost_the_group_can_commit_no_more_and_hears_it(owner, kafka):
    first = owner()
    hold(first)
    with kafka.moved:
        kafka.expire("g", "member-1")
        taken = kafka.groups["g"].members  # by somebody of another protocol, before the first one comes back
        taken["other"] = {"protocols": [{"name": "range", "metadata": b""}], "group_instance_id": None}
    with pytest.raises(CommitFailed):
        first.commit({P0: 5})
    assert kafka.committed == {}
    with pytest.raises(BrokerError):
        first._mine.get().member.poll(WAIT_S)  # when it has heard
    with pytest.raises(GroupInUse, match="was taken over"):
        hold(first)


def test_a_group_that_a_newer_consumer_was_let_into_is_no_longer_owned(owner, kafka):
    """Kafka 4 converts the group (KIP-848) and places partitions itself: our member has one of two."""
    kafka._sync_group = lambda request: {"error_code": 0, "assignment": Assignment((P0,)).encode()}
    with pytest.raises(GroupInUse, match="newer group protocol"):
        hold(owner())


def test_a_broker_without_groups_is_an_error_at_once(owner, kafka):
    kafka.become("0.8.2")
    clock = Clock()
    with pytest.raises(UnsupportedApiVersion, match="JoinGroup"):
        hold(owner(clock))
    assert clock.naps == []


def test_the_option_needs_a_group_and_commits(config):
    def options(**settings):
        base = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "groupOwnership": "exclusive"}
        return parse({**base, **settings}, "source")

    for settings, text in (
        ({}, "kafka.group.id"),
        ({"kafka.group.id": "g", "commitOffsets": "false"}, "commitOffsets"),
    ):
        with pytest.raises(OptionError, match=text):
            options(**settings)
    assert owner_of(options(**{"kafka.group.id": "g"}), config) is not None
    assert owner_of(options(**{"kafka.group.id": "g", "groupOwnership": "shared"}), config) is None
