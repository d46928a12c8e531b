"""A member whose coordinator assigns (KIP-848), driven from outside, with no network and no clock."""

import uuid

import pytest
from group_wire import tps
from hypothesis import given, settings
from hypothesis import strategies as st
from random_inputs import examples
from test_membership import ALL, BACKOFF, HEARTBEAT, NOTHING, REBALANCE, SESSION, SOME
from test_membership_runs import PARTITIONS, User, check_what_holds, step

from kafkasource.errors import ConnectionLost, ProtocolError, error_for
from kafkasource.kafka.group import requests
from kafkasource.kafka.group.consumer_membership import ConsumerMembership
from kafkasource.kafka.group.membership import Changes, Terms
from kafkasource.kafka.group.states import MemberAction, MemberState
from kafkasource.types import NEVER, TopicPartition

T_ID, UNKNOWN_ID = uuid.UUID(int=7), uuid.UUID(int=8)
NAMES = {T_ID: "t"}
J, H, L, FIND = MemberAction.JOIN, MemberAction.HEARTBEAT, MemberAction.LEAVE, MemberAction.FIND_COORDINATOR
INTERVAL = 5_000


class Driven:
    """A membership, the clock it is told, and shorthands for what can happen to it."""

    def __init__(self, **terms):
        self.now = 1_000_000.0
        self.member = ConsumerMembership(Terms(("t",), (), SESSION, REBALANCE, HEARTBEAT, **terms), self.now)

    def actions(self):
        return self.member.take_actions()

    def pass_ms(self, ms):
        self.now += ms
        self.member.tick(self.now)

    def sent(self):
        """The heartbeat as it goes out now."""
        return requests.request_of(self.member.under_way, "g", self.member, {})[1](1)

    def answer(self, partitions=None, epoch=1, interval_ms=INTERVAL, topic_id=T_ID):
        rows = [{"topic_id": topic_id, "partitions": sorted(tp.partition for tp in partitions or ())}]
        assignment = None if partitions is None else {"topic_partitions": rows}
        answer = {"member_epoch": epoch, "heartbeat_interval_ms": interval_ms, "assignment": assignment}
        self.member.answered(self.member.under_way, answer, NAMES, self.now)

    def fail(self, error):
        error = error_for(error) if isinstance(error, int) else error
        self.member.failed(self.member.under_way, error, self.now)

    def heartbeat(self, *answer, **more):
        self.pass_ms(INTERVAL)
        sent = self.sent()
        self.answer(*answer, **more)
        return sent

    def poll(self):
        return self.member.poll(self.now)


@pytest.fixture
def stable():
    """Holds ALL with epoch 1, has said so, and its next heartbeat is 5 s away."""
    driven = Driven()
    driven.pass_ms(0)
    assert driven.actions() == [J]
    assert driven.sent()["member_epoch"] == 0
    driven.answer(ALL)
    assert driven.poll() == Changes(assigned=ALL)
    assert owned(driven.heartbeat(ALL)) == ALL
    driven.actions()
    return driven


def owned(sent):
    rows = sent.get("topic_partitions")
    return None if rows is None else {TopicPartition("t", n) for row in rows for n in row["partitions"]}


def test_a_heartbeat_comes_when_the_broker_wants_it_and_says_nothing_new(stable):
    assert stable.member.wait_ms(stable.now) == INTERVAL
    stable.pass_ms(INTERVAL)
    assert stable.actions() == [H]
    identity = stable.member.identity
    assert stable.sent() == {
        "group_id": "g",
        "member_id": identity.member_id,
        "member_epoch": 1,
        "instance_id": None,
    }
    stable.answer(epoch=2)
    assert stable.member.identity.generation_id == 2
    assert stable.member.state is MemberState.STABLE


def test_an_interval_of_nothing_is_no_reason_to_hurry(stable):
    stable.heartbeat(interval_ms=0)
    assert stable.member.wait_ms(stable.now) == HEARTBEAT


def test_what_is_revoked_is_owned_until_the_user_polls_again_and_then_reported_at_once(stable):
    stable.heartbeat(SOME)
    assert stable.member.state is MemberState.REVOKING
    assert stable.poll() == Changes(revoked=ALL - SOME)
    assert owned(stable.heartbeat()) == ALL  # because what it gets has changed; it still owns what it gives up
    assert owned(stable.heartbeat()) is None
    assert stable.member.held == ALL
    assert stable.poll() == Changes()
    assert (stable.member.state, stable.member.held) == (MemberState.STABLE, SOME)
    stable.pass_ms(0)
    assert owned(stable.sent()) == SOME
    stable.answer(SOME, epoch=2)
    assert stable.poll() == Changes()


def test_while_it_revokes_an_answer_changes_nothing_but_the_epoch(stable):
    stable.heartbeat(SOME)
    stable.poll()
    stable.heartbeat(NOTHING, epoch=4)
    assert stable.member.owned == ALL
    assert stable.member.identity.generation_id == 4
    stable.poll()
    stable.pass_ms(0)
    stable.sent()
    stable.answer(NOTHING, epoch=4)
    assert stable.poll() == Changes(revoked=SOME)


def test_what_comes_with_what_goes_is_assigned_at_once(stable):
    new = frozenset(tps("t:9"))
    stable.heartbeat(SOME | new)
    assert stable.poll() == Changes(revoked=ALL - SOME, assigned=new)
    assert stable.poll() == Changes()
    assert stable.member.held == SOME | new


def test_a_member_that_need_not_poll_gives_up_at_once():
    driven = Driven(must_poll=False)
    driven.pass_ms(0)
    driven.sent()
    driven.answer(ALL)
    driven.poll()
    driven.heartbeat(ALL)
    driven.heartbeat(SOME)
    assert driven.member.owned == SOME
    driven.pass_ms(0)
    assert owned(driven.sent()) == SOME
    assert driven.poll() == Changes(lost=ALL - SOME)


@pytest.mark.parametrize("error", [14, 15, 16, ConnectionLost("reset")], ids=str)
def test_after_an_error_everything_is_said(stable, error):
    stable.pass_ms(INTERVAL)
    assert owned(stable.sent()) is None
    stable.fail(error)
    stable.pass_ms(BACKOFF)
    assert owned(stable.sent()) == ALL
    stable.answer(ALL)
    assert stable.poll() == Changes()
    assert owned(stable.heartbeat()) is None


@pytest.mark.parametrize(("code", "same"), [(110, True), (25, False)])
def test_a_member_that_was_given_up_joins_again_with_nothing(stable, code, same):
    before = stable.member.identity.member_id
    stable.pass_ms(INTERVAL)
    stable.sent()
    stable.fail(code)
    assert stable.member.identity.generation_id == -1  # no commits
    stable.pass_ms(0)
    assert stable.actions()[-1] is J
    sent = stable.sent()
    assert (sent["member_epoch"], owned(sent), sent["member_id"] == before) == (0, NOTHING, same)
    stable.answer(SOME, epoch=5)
    assert stable.poll() == Changes(lost=ALL, assigned=SOME)


def test_a_join_that_is_fenced_is_tried_as_another_member():
    driven = Driven()
    driven.pass_ms(0)
    before = driven.sent()["member_id"]
    driven.fail(110)
    driven.pass_ms(0)
    assert driven.sent()["member_id"] not in (before, "")


def test_a_join_whose_answer_is_lost_is_tried_again_with_the_same_id():
    driven = Driven()
    driven.pass_ms(0)
    before = driven.sent()["member_id"]
    driven.fail(ConnectionLost("reset"))
    driven.pass_ms(BACKOFF)
    assert driven.sent()["member_id"] == before


@pytest.mark.parametrize("code", [30, 42, 69, 81, 82, 111, 112, 128])
def test_what_does_not_pass_is_raised(stable, code):
    stable.pass_ms(INTERVAL)
    stable.fail(code)
    assert stable.member.state is MemberState.FAILED
    with pytest.raises(type(error_for(code))):
        stable.poll()


def test_after_a_session_without_an_answer_it_owns_nothing_but_keeps_its_epoch(stable):
    stable.heartbeat(SOME)
    stable.poll()
    for _ in range(SESSION // BACKOFF):
        stable.pass_ms(BACKOFF)
        if stable.member.under_way:
            stable.sent()
            stable.fail(ConnectionLost("reset"))
    assert stable.poll() == Changes(lost=SOME)  # it heard of the rest before
    assert stable.member.identity.generation_id == 1
    stable.pass_ms(BACKOFF)
    assert owned(stable.sent()) == NOTHING
    stable.answer(ALL)
    assert stable.poll() == Changes(assigned=ALL)
    assert stable.member.wait_ms(stable.now) != NEVER


def test_a_stale_commit_hastens_the_next_heartbeat(stable):
    stable.member.commit_failed(stable.member.identity, error_for(113), stable.now)
    stable.pass_ms(0)
    assert stable.actions() == [H]
    assert stable.member.held == ALL


def test_a_commit_may_be_the_first_to_hear_that_the_coordinator_gave_it_up(stable):
    stable.member.commit_failed(stable.member.identity, error_for(25), stable.now)
    assert stable.member.state is MemberState.UNJOINED


def test_a_topic_without_a_name_is_assigned_when_it_has_one(stable):
    stable.heartbeat(ALL, topic_id=UNKNOWN_ID)
    stable.poll()
    stable.poll()
    stable.pass_ms(0)
    assert owned(stable.sent()) == NOTHING
    stable.answer(ALL, topic_id=UNKNOWN_ID)
    assert owned(stable.heartbeat(ALL)) == NOTHING
    assert stable.poll() == Changes(assigned=ALL)


def test_a_negative_epoch_is_none(stable):
    stable.pass_ms(INTERVAL)
    with pytest.raises(ProtocolError, match="epoch -2"):
        stable.answer(epoch=-2)


@pytest.mark.parametrize(
    ("terms", "epoch"), [({}, -1), ({"instance_id": "one"}, -2), ({"instance_id": "one", "leave_group": True}, -1)]
)
def test_how_a_member_leaves(terms, epoch):
    driven = Driven(**terms)
    driven.pass_ms(0)
    driven.sent()
    driven.answer(ALL)
    driven.member.close(driven.now)
    assert L in driven.actions()
    sent = requests.leave_request("g", driven.member, driven.member.leaving)[1](1)
    assert sent == {
        "group_id": "g",
        "member_id": driven.member.leaving.member_id,
        "member_epoch": epoch,
        "instance_id": terms.get("instance_id"),
    }


def test_a_user_who_does_not_poll_leaves_and_comes_back(stable):
    for _ in range(REBALANCE // INTERVAL):
        stable.pass_ms(INTERVAL)
        if stable.member.under_way:
            stable.sent()
            stable.answer()
    assert stable.member.state is MemberState.ABSENT
    assert stable.poll() == Changes(lost=ALL)
    stable.pass_ms(0)
    assert stable.actions()[-1] is J


steps = st.one_of(
    st.tuples(st.just("poll"), st.none()),
    st.tuples(st.just("pass"), st.sampled_from([0, BACKOFF, INTERVAL, SESSION, REBALANCE])),
    st.tuples(st.just("hear"), st.one_of(st.none(), st.sets(st.sampled_from(PARTITIONS)))),
    st.tuples(st.just("hear"), st.sets(st.sampled_from(PARTITIONS))),
    st.tuples(st.just("fail"), st.sampled_from([14, 15, 16, 25, 27, 30, 79, 82, 110, 113, None])),
    st.tuples(st.just("commit fails"), st.sampled_from([25, 82, 113, 3])),
    st.tuples(st.just("close"), st.none()),
)


def act(driven, user, what, value):
    if what == "hear":
        if driven.member.under_way in (J, H):
            sent = driven.sent()
            assert owned(sent) in (None, driven.member.owned)
            assert sent["member_epoch"] > 0 or owned(sent) == NOTHING
            driven.answer(value, epoch=max(driven.member.identity.generation_id, 0) + 1)
    else:
        step(driven, user, what, value)


@settings(max_examples=examples(300))
@given(run=st.lists(steps, max_size=60), must_poll=st.booleans(), static=st.booleans())
def test_whatever_happens_the_user_is_told_what_is_true(run, must_poll, static):
    driven, user = Driven(must_poll=must_poll, instance_id="one" if static else None), User()
    for what, value in run:
        act(driven, user, what, value)
        check_what_holds(driven, user, static=False)
    if driven.member.state is MemberState.STABLE:
        user.hear(driven.poll())
        assert user.has == driven.member.held


@given(run=st.lists(steps, max_size=30))
def test_from_wherever_it_is_a_member_that_is_answered_becomes_stable(run):
    driven, user = Driven(), User()
    for what, value in run:
        act(driven, user, what, value)
    for _ in range(12):
        if driven.member.state in (MemberState.CLOSED, MemberState.FAILED):
            return
        act(driven, user, "poll", None)
        driven.pass_ms(BACKOFF)
        act(driven, user, "hear", set(PARTITIONS))
    assert driven.member.state is MemberState.STABLE
    user.hear(driven.poll())
    assert user.has == driven.member.held == driven.member.owned
