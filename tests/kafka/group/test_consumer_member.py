"""GroupMember with `group_protocol=consumer` (KIP-848) against a coordinator in this process, over real sockets."""

import threading

import pytest
from fake_broker import CLOSE, Error
from fake_consumer_groups import ConsumerKafka
from group_members import ALL, WAIT_S, members_of, settle
from group_wire import tps

from kafkasource.errors import BrokerError, CommitFailed, UnsupportedApiVersion
from kafkasource.kafka.group.membership import Changes
from kafkasource.kafka.protocol.apis import (
    CONSUMER_GROUP_HEARTBEAT,
    JOIN_GROUP,
    OFFSET_COMMIT,
)


@pytest.fixture
def kafka():
    return ConsumerKafka(nodes=1, topics={"t": 4})


@pytest.fixture
def join(kafka):
    with members_of(kafka) as make:

        def join(assignor=None, **settings):
            return make({"group_protocol": "consumer", "group_remote_assignor": assignor}, **settings)

        yield join


def heartbeats(kafka):
    return [request.body for request in kafka.asked(CONSUMER_GROUP_HEARTBEAT)]


def test_who_is_alone_has_everything_and_asks_for_it_in_one_request(join, kafka):
    member = join(assignor="uniform", rack_id="r1", rebalance_timeout_ms=7_000)
    assert member.poll(WAIT_S) == Changes(assigned=ALL)
    first = heartbeats(kafka)[0]
    assert first.pop("member_id") == member.member_id
    assert first == {
        "group_id": "g",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": "r1",
        "rebalance_timeout_ms": 7_000,
        "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": None,
        "server_assignor": "uniform",
        "topic_partitions": [],
    }
    assert not kafka.asked(JOIN_GROUP)


def test_a_heartbeat_says_what_changed_and_then_nothing(join, kafka):
    join().poll(WAIT_S)
    kafka.expect(lambda: len(heartbeats(kafka)) > 4)
    _, second, *others = heartbeats(kafka)
    assert second["topic_partitions"] == [{"topic_id": kafka.topics["t"].topic_id, "partitions": [0, 1, 2, 3]}]
    assert {(each["topic_partitions"], each["rebalance_timeout_ms"], each["member_epoch"]) for each in others} == {
        (None, -1, 1)
    }


def test_two_share_and_who_stays_takes_over(join):
    first = join()
    assert first.poll(WAIT_S).assigned == ALL
    second = join()
    told, _ = settle(first, second, shares=[2, 2])
    assert first.assignment | second.assignment == ALL
    assert [changes.revoked for changes in told] == [ALL - first.assignment]
    first.close()
    settle(second, shares=[4])


def test_what_is_revoked_is_the_members_until_its_next_poll(join, kafka):
    first = join()
    first.poll(WAIT_S)
    second = join()
    revoked = first.poll(WAIT_S).revoked
    assert second.poll(0.1) == Changes()
    assert second.awaits_more()
    first.commit(dict.fromkeys(ALL, 7))
    assert kafka.committed == {("g", "t", n): 7 for n in range(4)}
    settle(first, second, shares=[2, 2])
    assert not second.awaits_more()
    kafka.consumers["g"].state = "Assigning"  # from Kafka 4.3 on an assignment may take its time (KIP-1263)
    assert second.awaits_more()
    with pytest.raises(CommitFailed, match="does not belong to this member"):
        first.commit(dict.fromkeys(revoked, 8))


def test_a_share_that_the_coordinator_has_given_and_no_poll_has_told_may_still_grow(join, kafka):
    member = join()
    kafka.expect(lambda: len(heartbeats(kafka)) > 2)  # the answer to the first has the assignment
    assert member.awaits_more()
    assert member.poll(WAIT_S).assigned == ALL
    assert not member.awaits_more()


def test_a_commit_carries_member_and_epoch(join, kafka):
    member = join()
    member.poll(WAIT_S)
    member.commit({tps("t:1")[0]: 3})
    request = kafka.asked(OFFSET_COMMIT)[-1]
    assert request.version == 9
    assert (request.body["member_id"], request.body["generation_id_or_member_epoch"]) == (member.member_id, 1)


def test_a_commit_with_a_stale_epoch_waits_for_the_next_heartbeat(join, kafka):
    member = join()
    member.poll(WAIT_S)
    go, answer = threading.Event(), kafka._consumer_group_heartbeat

    def held_back(request):
        found = answer(request)
        if found["member_epoch"] == 2:
            go.wait(WAIT_S)
        return found

    kafka._consumer_group_heartbeat = held_back
    with kafka.moved:
        kafka._bump(kafka.consumers["g"])
    kafka.expect(lambda: kafka.consumers["g"].members[member.member_id].epoch == 2)
    threading.Timer(0.3, go.set).start()
    member.commit({tps("t:0")[0]: 5})
    assert kafka.committed == {("g", "t", 0): 5}
    epochs = [each.body["generation_id_or_member_epoch"] for each in kafka.asked(OFFSET_COMMIT)]
    assert epochs[0] == 1
    assert epochs[-1] == 2


def test_whom_the_coordinator_gave_up_loses_all_and_comes_back_as_another(join, kafka):
    member = join()
    member.poll(WAIT_S)
    before = member.member_id
    kafka.forget("g", before)
    changes = member.poll(WAIT_S)
    assert changes.lost == ALL
    settle(member, shares=[4])
    assert member.member_id != before


def test_a_commit_of_whom_the_coordinator_gave_up_fails(join, kafka):
    member = join()
    member.poll(WAIT_S)
    kafka._consumer_group_heartbeat = lambda request: None  # heard by the commit first
    kafka.forget("g", member.member_id)
    with pytest.raises(CommitFailed, match="UNKNOWN_MEMBER_ID"):
        member.commit({tps("t:0")[0]: 1})
    assert member.poll(WAIT_S).lost == ALL


def test_a_fenced_member_loses_all_and_joins_again(join, kafka):
    member = join()
    member.poll(WAIT_S)
    kafka.fault(CONSUMER_GROUP_HEARTBEAT, Error(110))
    assert member.poll(WAIT_S).lost == ALL
    kafka.expect(lambda: heartbeats(kafka)[-1]["member_epoch"] != 1)


@pytest.mark.parametrize("fault", [Error(14), Error(15), Error(16), CLOSE], ids=["loading", "none", "moved", "closed"])
def test_after_an_error_the_member_says_everything_again(join, kafka, fault):
    member = join()
    assert member.poll(WAIT_S) == Changes(assigned=ALL)
    kafka.expect(lambda: heartbeats(kafka)[-1]["topic_partitions"] is None)
    seen = len(heartbeats(kafka))
    kafka.fault(CONSUMER_GROUP_HEARTBEAT, fault)
    kafka.expect(lambda: len(heartbeats(kafka)) > seen + 2)
    assert any(each["topic_partitions"] for each in heartbeats(kafka)[seen:])
    assert member.poll(0) == Changes()
    assert member.assignment == ALL


def test_an_assignment_of_a_topic_that_metadata_does_not_have_yet_comes_again(join, kafka):
    late = kafka.topics.pop("t")
    kafka.topics["other"] = late
    member = join()
    assert member.poll(0.1) == Changes()
    with kafka.moved:
        kafka.topics["t"] = kafka.topics.pop("other")
        kafka._bump(kafka.consumers["g"])
    settle(member, shares=[4])


def test_a_topic_that_was_created_again_has_another_id(join, kafka):
    member = join()
    member.poll(WAIT_S)
    with kafka.moved:
        kafka.topics["t"] = type(kafka.topics["t"])([1, 1])
        kafka.consumers["g"].members[member.member_id].assigned.clear()
        kafka._bump(kafka.consumers["g"])
    settle(member, shares=[2])
    kafka.expect(
        lambda: any(
            row["topic_id"] == kafka.topics["t"].topic_id
            for each in heartbeats(kafka)
            for row in each["topic_partitions"] or ()
        )
    )


def test_a_static_member_goes_for_a_while_and_has_its_partitions_again(join, kafka):
    one = join(instance_id="one")
    one.poll(WAIT_S)
    one.close()
    assert (heartbeats(kafka)[-1]["member_epoch"], heartbeats(kafka)[-1]["instance_id"]) == (-2, "one")
    again = join(instance_id="one")
    assert again.poll(WAIT_S) == Changes(assigned=ALL)


def test_of_two_with_one_instance_id_the_newer_is_refused(join):
    older = join(instance_id="one")
    assert older.poll(WAIT_S).assigned == ALL
    newer = join(instance_id="one")
    with pytest.raises(BrokerError, match="UNRELEASED_INSTANCE_ID"):
        newer.poll(WAIT_S)
    newer.close()
    older.commit(dict.fromkeys(ALL, 1))


def test_a_member_that_closes_leaves(join, kafka):
    member = join()
    member.poll(WAIT_S)
    member.close()
    assert kafka.consumers["g"].members == {}
    assert heartbeats(kafka)[-1]["member_epoch"] == -1


@pytest.mark.parametrize("versions", [None, (0, 0)])
def test_a_broker_without_the_protocol_is_an_error_that_names_the_option(join, kafka, versions):
    if versions:
        kafka.versions[CONSUMER_GROUP_HEARTBEAT.key] = versions
    else:
        del kafka.versions[CONSUMER_GROUP_HEARTBEAT.key]
    with pytest.raises(UnsupportedApiVersion, match=r"'kafka.group.protocol'=consumer needs .* set it to classic"):
        join().poll(WAIT_S)


def test_a_broker_that_has_it_switched_off_says_so_too(join, kafka):
    kafka.fault(CONSUMER_GROUP_HEARTBEAT, Error(35))
    with pytest.raises(UnsupportedApiVersion, match="set it to classic"):
        join().poll(WAIT_S)


@pytest.mark.parametrize("code", [30, 42, 81, 112])
def test_what_does_not_pass_is_raised_by_poll(join, kafka, code):
    kafka.fault(CONSUMER_GROUP_HEARTBEAT, Error(code))
    with pytest.raises(BrokerError):
        join().poll(WAIT_S)
