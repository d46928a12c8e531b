"""GroupMember against a coordinator in this process, over real sockets: threads, commits, closing."""

import itertools
import sys
import threading

import pytest
from fake_broker import CLOSE, Error, serve
from fake_groups import GroupKafka
from group_members import ALL, WAIT_S, members_of, settle
from group_wire import tps

from kafkasource.errors import (
    BootstrapFailed,
    BrokerError,
    ClientClosed,
    ClusterMismatch,
    CommitFailed,
    OptionError,
    UnsupportedApiVersion,
)
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.routing import GROUP
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.group.consumer_protocol import Subscription
from kafkasource.kafka.group.member import GroupMember
from kafkasource.kafka.group.membership import Changes
from kafkasource.kafka.protocol.apis import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, OFFSET_COMMIT, SYNC_GROUP


@pytest.fixture
def kafka():
    return GroupKafka(nodes=1, topics={"t": 4})


@pytest.fixture
def join(kafka):
    with members_of(kafka) as make:
        yield lambda **settings: make(**{"heartbeat_interval_ms": 10, **settings})


def test_who_is_alone_has_everything(join):
    member = join()
    assert not member.joined or member.assignment == frozenset()
    assert member.poll(WAIT_S) == Changes(assigned=ALL)
    assert member.assignment == ALL
    assert member.joined


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_two_share_and_who_stays_takes_over(join, assignor):
    first = join(assignors=[assignor])
    assert first.poll(WAIT_S).assigned == ALL
    second = join(assignors=[assignor])
    told, _ = settle(first, second, shares=[2, 2])
    assert first.assignment | second.assignment == ALL
    revoked = frozenset().union(*(changes.revoked for changes in told))
    assert len(revoked) == (2 if assignor == "cooperative-sticky" else 4)
    first.close()
    settle(second, shares=[4])


def test_what_is_revoked_can_be_committed_until_the_next_poll(join, kafka):
    first = join(assignors=["range"])
    first.poll(WAIT_S)
    second = join(assignors=["range"])
    assert first.poll(WAIT_S).revoked == ALL
    first.commit(dict.fromkeys(ALL, 7))
    assert kafka.committed == {("g", "t", n): 7 for n in range(4)}
    settle(first, second, shares=[2, 2])
    with pytest.raises(CommitFailed, match="does not belong to this member"):
        first.commit(dict.fromkeys(ALL, 8))
    first.commit(dict.fromkeys(first.assignment, 9))
    assert sorted(kafka.committed.values()) == [7, 7, 9, 9]


def test_a_commit_carries_member_and_generation(join, kafka):
    member = join()
    member.poll(WAIT_S)
    member.commit({tps("t:1")[0]: 3})
    body = kafka.asked(OFFSET_COMMIT)[-1].body
    assert (body["member_id"], body["generation_id_or_member_epoch"]) == (member.member_id, 1)
    assert kafka.asked(OFFSET_COMMIT)[-1].version <= 9


def test_whom_the_coordinator_gave_up_loses_all_and_comes_back_as_another(join, kafka):
    member = join()
    member.poll(WAIT_S)
    before = member.member_id
    kafka.expire("g", before)
    changes = member.poll(WAIT_S)
    assert changes.lost == ALL
    if not changes.assigned:
        assert member.poll(WAIT_S) == Changes(assigned=ALL)
    assert member.member_id != before


def test_a_commit_of_whom_the_coordinator_gave_up_fails_and_is_heard(join, kafka):
    member = join(heartbeat_interval_ms=10_000)
    member.poll(WAIT_S)
    kafka.expire("g", member.member_id)
    with pytest.raises(CommitFailed, match="UNKNOWN_MEMBER_ID"):
        member.commit({tps("t:0")[0]: 1})
    assert member.poll(WAIT_S).lost == ALL


def test_a_topic_that_was_just_deleted_does_not_hide_that_the_coordinator_gave_the_member_up(join, kafka):
    member = join(heartbeat_interval_ms=10_000, must_poll=False)
    assert member.wait_until_stable(WAIT_S)
    kafka.expire("g", member.member_id)
    with pytest.raises(CommitFailed, match="UNKNOWN_MEMBER_ID"):
        member.commit(dict.fromkeys(tps("deleted:0,t:0"), 1))
    assert kafka.committed == {}
    assert len(kafka.asked(OFFSET_COMMIT)) == 1


def commit_while(member, offsets, before=lambda: None, refused=lambda: None):
    """A commit: `before` happens once its generation is chosen and it is under way, `refused` after it was."""
    ask, todo = member._caller.coordinators.ask, [before]

    def slow(*words, **more):
        while todo:
            todo.pop()()
        try:
            return ask(*words, **more)
        except BrokerError:
            refused()
            raise

    member._caller.coordinators.ask = slow
    try:
        member.commit(offsets)
    finally:
        member._caller.coordinators.ask = ask


def test_a_commit_that_arrives_a_generation_late_is_made_in_the_new_one_if_the_partitions_are_still_held(join, kafka):
    first = join(assignors=["cooperative-sticky"])
    first.poll(WAIT_S)

    def rebalance():
        join(assignors=["cooperative-sticky"])
        kafka.expect(lambda: first._membership.identity.generation_id == 2)

    commit_while(first, dict.fromkeys(ALL, 7), rebalance)  # it has to give up two of them, but may commit until then
    assert kafka.committed == {("g", "t", n): 7 for n in range(4)}
    assert [each.body["generation_id_or_member_epoch"] for each in kafka.asked(OFFSET_COMMIT)] == [1, 2]
    assert len(first.poll(WAIT_S).revoked) == 2


def test_a_commit_while_the_answer_to_the_join_is_on_its_way_waits_for_it(join, kafka):
    first = join(assignors=["cooperative-sticky"])
    first.poll(WAIT_S)
    joined, go = kafka._joined, threading.Event()

    def held_back(group, member_id):
        if member_id == first.member_id:
            kafka.moved.wait_for(go.is_set, WAIT_S)
        return joined(group, member_id)

    def rebalance():
        kafka._joined = held_back
        join(assignors=["cooperative-sticky"])
        kafka.expect(lambda: kafka.groups["g"].generation == 2)

    def release():
        with kafka.moved:
            go.set()
            kafka.moved.notify_all()

    commit_while(first, dict.fromkeys(ALL, 7), rebalance, release)
    assert kafka.committed == {("g", "t", n): 7 for n in range(4)}
    assert [each.body["generation_id_or_member_epoch"] for each in kafka.asked(OFFSET_COMMIT)] == [1, 2]


@pytest.mark.parametrize("polls", [True, False])
def test_a_commit_that_arrives_late_fails_if_a_partition_is_another_members_by_then(join, kafka, polls):
    settings = {"assignors": ["cooperative-sticky" if polls else "range"], "must_poll": polls}
    first = join(**settings)
    assert first.poll(WAIT_S).assigned == ALL

    def rebalance():
        second = join(**settings)
        settle(first, second, shares=[2, 2])

    with pytest.raises(CommitFailed, match="does not belong to this member"):
        commit_while(first, dict.fromkeys(ALL, 7), rebalance)
    assert kafka.committed == {}


def test_a_commit_of_whom_the_group_went_on_without_fails(join, kafka):
    member = join(heartbeat_interval_ms=10_000)
    member.poll(WAIT_S)

    def without():
        kafka.groups["g"].generation += 1

    with pytest.raises(CommitFailed, match="ILLEGAL_GENERATION"):
        commit_while(member, {tps("t:0")[0]: 1}, without)
    assert kafka.committed == {}
    assert member.poll(WAIT_S).lost == ALL


@pytest.mark.parametrize("api", [JOIN_GROUP, SYNC_GROUP, HEARTBEAT])
@pytest.mark.parametrize("fault", [Error(14), Error(16), CLOSE], ids=["loading", "moved", "closed"])
def test_what_passes_is_waited_off(join, kafka, api, fault):
    kafka.fault(api, fault, fault)
    member = join()
    assert member.poll(WAIT_S) == Changes(assigned=ALL)
    kafka.expect(lambda: len(kafka.asked(HEARTBEAT)) > 3)
    assert member.assignment == ALL


def test_what_does_not_pass_is_raised_by_poll(join, kafka):
    kafka.fault(JOIN_GROUP, Error(30))
    member = join()
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        member.poll(WAIT_S)


def test_a_static_member_comes_in_without_asking_for_an_id_and_does_not_leave(join, kafka):
    member = join(instance_id="worker-1")
    member.poll(WAIT_S)
    member.close()
    assert len(kafka.asked(JOIN_GROUP)) == 1
    assert kafka.asked(JOIN_GROUP)[0].body["group_instance_id"] == "worker-1"
    assert not kafka.asked(LEAVE_GROUP)


def test_members_of_old_brokers_use_the_first_versions(join, kafka):
    for api in (JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP):
        kafka.versions[api.key] = (0, 0)
    kafka.versions[OFFSET_COMMIT.key] = (0, 2)
    member = join()
    assert member.poll(WAIT_S) == Changes(assigned=ALL)
    member.commit({tps("t:0")[0]: 1})
    member.close()
    assert kafka.groups["g"].members == {}


def test_static_membership_on_an_old_broker_says_what_it_needs(join, kafka):
    kafka.versions[JOIN_GROUP.key] = (0, 4)
    with pytest.raises(UnsupportedApiVersion, match="static membership"):
        join(instance_id="worker-1").poll(WAIT_S)


def test_brokers_too_old_for_apiversions_have_groups_from_09_on(join, kafka):
    kafka.become("0.9.0")
    assert join().poll(WAIT_S) == Changes(assigned=ALL)
    assert kafka.asked(JOIN_GROUP)[-1].version == 0


def test_brokers_without_groups_say_so(join, kafka):
    kafka.become("0.8.2")
    with pytest.raises(UnsupportedApiVersion, match="JoinGroup"):
        join().poll(WAIT_S)


def test_a_cluster_that_cannot_be_reached_is_an_error_of_poll(kafka):
    with serve(kafka) as (host, port):
        pass  # nobody listens there any more
    config = ClientConfig.of(f"{host}:{port}", default_api_timeout_ms=100)
    with Cluster(config) as cluster, GroupMember(cluster, "g", ["t"]) as member, pytest.raises(BootstrapFailed):
        member.poll(WAIT_S)


def test_a_leader_that_came_back_leaves_the_assignment_as_it_is(join, kafka):
    """KIP-814: a static leader restarts, and nothing else changed."""

    def joined(group, member_id):
        return {**GroupKafka._joined(kafka, group, member_id), "skip_assignment": True}

    first = join(assignors=["range"])
    assert first.poll(WAIT_S).assigned == ALL
    kafka._joined = joined
    kafka.expire("g", "nobody")  # a rebalance
    assert first.poll(WAIT_S).revoked == ALL
    first.poll(0)
    kafka.expect(lambda: len(kafka.asked(SYNC_GROUP)) == 2)
    assert kafka.asked(SYNC_GROUP)[-1].body["assignments"] == []


def test_a_topic_that_grows_is_shared_out_anew(kafka):
    with serve(kafka) as (host, port):
        config = ClientConfig.of(f"{host}:{port}", metadata_max_age_ms=20)
        with Cluster(config) as cluster, GroupMember(cluster, "g", ["t"], heartbeat_interval_ms=10) as member:
            assert member.poll(WAIT_S).assigned == ALL
            kafka.topics["t"].leaders.append(1)
            settle(member, shares=[5])


def test_closing_while_others_are_waited_for_leaves_at_once(join, kafka):
    first = join(assignors=["range"])
    first.poll(WAIT_S)
    second = join(assignors=["range"])
    kafka.expect(lambda: len(kafka.groups["g"].waiting) == 1)
    second.close()
    kafka.expect(lambda: len(kafka.groups["g"].members) == 1)
    settle(first, shares=[4])


@pytest.fixture
def endless(monkeypatch):
    """What is waited for until its time is over, is waited for for ever."""
    monkeypatch.setattr("kafkasource.kafka.group.member.LOOK_UP_MS", 600_000)
    monkeypatch.setattr("kafkasource.kafka.group.loop.LEAVE_MS", 600_000)


def test_closing_while_no_broker_answers_ends_the_search_for_the_coordinator(join, kafka, endless):
    asked = threading.Event()

    def unanswered(request):
        asked.set()

    kafka._find_coordinator = unanswered
    member = join()
    assert asked.wait(WAIT_S)
    member.close(WAIT_S)
    assert not member._thread.is_alive()


def test_closing_when_the_brokers_are_gone_does_not_wait_for_them(kafka, endless):
    with serve(kafka) as (host, port):
        cluster = Cluster(ClientConfig.of(f"{host}:{port}", reconnect_backoff_ms=1, reconnect_backoff_max_ms=5))
        member = GroupMember(cluster, "g", ["t"])
        assert member.poll(WAIT_S).assigned == ALL
    member._own_cluster.coordinators.forget(GROUP, "g")  # as a lost connection makes it do sooner or later
    member.close(WAIT_S)
    cluster.close()
    assert not member._thread.is_alive()


def test_a_member_that_ctrl_c_interrupts_anywhere_can_be_closed(join):
    """Where signal handlers run: when a Python function begins, and when a C function returns. Python 3.14 runs them
    behind a lock's `__enter__`, too, and leaves the lock held: python/cpython#148874, a fault that is not ours."""
    member = join(heartbeat_interval_ms=10_000)
    assert member.poll(WAIT_S).assigned == ALL
    for nth in itertools.count(1):
        events = itertools.count(1)

        def ctrl_c(frame, event, arg, nth=nth, events=events):
            of_with = event == "c_return" and arg.__name__ == "__enter__"
            if event in ("call", "c_return") and not of_with and next(events) == nth:
                raise KeyboardInterrupt

        sys.setprofile(ctrl_c)
        try:
            member.poll(0.001)
        except KeyboardInterrupt:
            pass
        else:
            break
        finally:
            sys.setprofile(None)
        another = threading.Thread(target=lambda: member.joined, daemon=True)
        another.start()
        another.join(WAIT_S)
        assert not another.is_alive(), f"the lock is not free after {nth}"
    assert nth > 20  # it was interrupted
    member.close(WAIT_S)
    assert not member._thread.is_alive()


def test_a_member_whose_thread_died_holds_nothing_and_says_why(join):
    member = join()
    assert member.poll(WAIT_S).assigned == ALL

    def broken(timeout_ms):
        raise ClusterMismatch("another cluster answered")

    member._own_cluster.caller.poll = broken
    with pytest.raises(ClusterMismatch):
        member.poll(WAIT_S)
    assert member.assignment == frozenset()


def test_a_closed_member_says_so(join):
    member = join()
    member.close()
    member.close()
    with pytest.raises(ClientClosed):
        member.poll()
    with pytest.raises(ClientClosed):
        member.commit({tps("t:0")[0]: 1})


def test_the_metadata_names_topics_and_rack(join, kafka):
    join(rack_id="r1", assignors=["cooperative-sticky"]).poll(WAIT_S)
    sent = kafka.asked(JOIN_GROUP)[-1].body["protocols"]
    assert [each["name"] for each in sent] == ["cooperative-sticky"]
    assert Subscription.decode(sent[0]["metadata"]) == Subscription(("t",), b"\xff\xff\xff\xff", (), None, "r1")


def test_as_leader_it_places_readers_near_the_replicas(join, kafka, monkeypatch):
    """KIP-881: partitions 0 and 1 have their replicas in rack b, 2 and 3 in rack a."""

    def with_racks(request):
        answer = GroupKafka._metadata(kafka, request)
        first = answer["brokers"][0]
        answer["brokers"] = [{**first, "rack": "a"}, {**first, "node_id": 2, "rack": "b"}]
        for topic in answer["topics"]:
            for partition in topic["partitions"]:
                partition["replica_nodes"] = [2 if partition["partition_index"] < 2 else 1]
        return answer

    monkeypatch.setattr(kafka, "_metadata", with_racks)
    one = join(rack_id="a", assignors=["range"])
    one.poll(WAIT_S)
    two = join(rack_id="b", assignors=["range"])
    settle(one, two, shares=[2, 2])
    assert one.assignment == set(tps("t:2,t:3"))
    assert two.assignment == set(tps("t:0,t:1"))


def test_what_cannot_be_is_refused_before_anything_is_sent(join, kafka):
    with pytest.raises(OptionError, match="sticky"):
        join(assignors=["sticky"])
    member = join()
    member.poll(WAIT_S)
    with pytest.raises(ValueError, match="negative"):
        member.commit({tps("t:0")[0]: -1})
    assert not kafka.asked(OFFSET_COMMIT)
