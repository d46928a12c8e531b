"""Every transition of a group member, driven from outside, with no network and no clock."""

import pytest
from group_wire import tps

from kafkasource.errors import ConnectionLost, DeadlineExceeded, ProtocolError, RequestTimeout, error_for
from kafkasource.kafka.group.assignors import assignors_named
from kafkasource.kafka.group.consumer_protocol import Assignment, Subscription
from kafkasource.kafka.group.membership import Changes, Membership, Terms
from kafkasource.kafka.group.states import TRANSITIONS, Action, Event, State
from kafkasource.types import NEVER

SESSION, REBALANCE, HEARTBEAT, BACKOFF = 10_000, 60_000, 3_000, 100
ALL = frozenset(tps("t:0,t:1,t:2"))
SOME = frozenset(tps("t:0"))


class Driven:
    """A membership, the clock it is told, and shorthands for what can happen to it."""

    def __init__(self, assignors=("range",), **terms):
        self.now = 1_000_000.0
        chosen = assignors_named(assignors)
        self.member = Membership(Terms(("t",), chosen, SESSION, REBALANCE, HEARTBEAT, **terms), self.now)

    def actions(self):
        return self.member.take_actions()

    def pass_ms(self, ms):
        self.now += ms
        self.member.tick(self.now)

    def join(self, *, leader=False, generation=1, member_id="me", others=()):
        rows = [
            {"member_id": name, "group_instance_id": None, "metadata": Subscription(("t",)).encode()}
            for name in (member_id, *others)
        ]
        answer = {
            "generation_id": generation,
            "protocol_name": self.member.terms.assignors[0].name,
            "leader": member_id if leader else "other",
            "member_id": member_id,
            "members": rows if leader else [],
            "skip_assignment": False,
        }
        self.member.joined(answer, self.now)

    def sync(self, partitions=ALL):
        self.member.synced(Assignment(tuple(partitions)), self.now)

    def fail(self, code, member_id=""):
        self.fail_with(error_for(code), member_id)

    def fail_with(self, error, member_id=""):
        self.member.failed(self.member.under_way, error, self.now, member_id)

    def poll(self):
        return self.member.poll(self.now)


# How a member gets into each state; in the last three it holds ALL, as a member of generation 1.


def unjoined(driven):
    pass


def joining(driven):
    driven.pass_ms(0)


def syncing(driven):
    joining(driven)
    driven.join()


def stable(driven):
    syncing(driven)
    driven.sync()
    driven.poll()


def revoking(driven):
    stable(driven)
    driven.pass_ms(HEARTBEAT)
    driven.fail(27)


def rejoining(driven):
    """A cooperative member: JoinGroup is under way, and it holds ALL."""
    stable(driven)
    driven.pass_ms(HEARTBEAT)
    driven.fail(27)
    assert driven.member.state is State.JOINING


def resyncing(driven):
    rejoining(driven)
    driven.join(generation=2)


def unjoined_again(driven):
    rejoining(driven)
    driven.fail(14)


def absent(driven):
    stable(driven)
    driven.member.polling(False, driven.now)
    driven.pass_ms(REBALANCE)


def failed(driven):
    joining(driven)
    driven.fail(23)


# What happens to it. Those that an answer brings need a request under way: in STABLE and REVOKING, a heartbeat.


def code(number):
    def happen(driven):
        if driven.member.under_way is None:
            driven.pass_ms(HEARTBEAT)
        driven.fail(number, "given" if number == 79 else "")

    return happen


def heartbeat_answered(driven):
    driven.pass_ms(HEARTBEAT)
    driven.member.heartbeat_done(driven.now)


def polls_twice(driven):
    driven.poll()
    driven.poll()


EAGER, COOPERATIVE = ("range",), ("cooperative-sticky",)
J, S, H, L = Action.JOIN, Action.SYNC, Action.HEARTBEAT, Action.LEAVE
FIND, ABANDON = Action.FIND_COORDINATOR, Action.ABANDON
NEW, KEPT = "a new member", "the same member"
NOTHING = frozenset()

SYNC_ALL = Action.SYNC_AS_LEADER


def late(driven):
    """The user does not poll in time."""
    driven.pass_ms(REBALANCE)


def closes(driven):
    driven.member.close(driven.now)


def session_ends(driven):
    driven.pass_ms(SESSION)


# assignors, how it got here, event, what happens | the state after, actions to carry out, what it owns, member id
CASES = [
    (EAGER, unjoined, Event.READY, lambda d: d.pass_ms(0), State.JOINING, [J], NOTHING, NEW),
    (COOPERATIVE, unjoined_again, Event.READY, lambda d: d.pass_ms(BACKOFF), State.JOINING, [J], ALL, KEPT),
    (COOPERATIVE, unjoined_again, Event.SESSION_EXPIRED, session_ends, State.JOINING, [J], NOTHING, KEPT),
    (COOPERATIVE, unjoined_again, Event.POLL_EXPIRED, late, State.ABSENT, [L], NOTHING, NEW),
    (COOPERATIVE, unjoined_again, Event.CLOSE, closes, State.CLOSED, [L], NOTHING, NEW),
    (EAGER, unjoined, Event.CLOSE, closes, State.CLOSED, [], NOTHING, NEW),
    (EAGER, joining, Event.JOINED_AS_LEADER, lambda d: d.join(leader=True), State.SYNCING, [SYNC_ALL], NOTHING, KEPT),
    (EAGER, joining, Event.JOINED_AS_FOLLOWER, lambda d: d.join(), State.SYNCING, [S], NOTHING, KEPT),
    (EAGER, joining, Event.MEMBER_ID_GIVEN, code(79), State.JOINING, [J], NOTHING, KEPT),
    (EAGER, joining, Event.REJOIN, code(27), State.UNJOINED, [], NOTHING, NEW),
    (COOPERATIVE, rejoining, Event.REJOIN, code(27), State.UNJOINED, [], ALL, KEPT),
    (COOPERATIVE, rejoining, Event.UNKNOWN_MEMBER, code(25), State.UNJOINED, [], NOTHING, NEW),
    (COOPERATIVE, rejoining, Event.STALE_GENERATION, code(22), State.UNJOINED, [], NOTHING, KEPT),
    (COOPERATIVE, rejoining, Event.COORDINATOR_GONE, code(16), State.UNJOINED, [FIND], ALL, KEPT),
    (COOPERATIVE, rejoining, Event.NOT_YET, code(14), State.UNJOINED, [], ALL, KEPT),
    (COOPERATIVE, rejoining, Event.REFUSED, code(30), State.FAILED, [L], NOTHING, NEW),
    (COOPERATIVE, rejoining, Event.POLL_EXPIRED, late, State.ABSENT, [ABANDON, L], NOTHING, NEW),
    (COOPERATIVE, rejoining, Event.CLOSE, closes, State.CLOSED, [ABANDON, L], NOTHING, NEW),
    (EAGER, syncing, Event.SYNCED, lambda d: d.sync(), State.STABLE, [], ALL, KEPT),
    (COOPERATIVE, resyncing, Event.SYNCED, lambda d: d.sync(), State.STABLE, [], ALL, KEPT),
    (COOPERATIVE, resyncing, Event.SYNCED_LESS, lambda d: d.sync(SOME), State.REVOKING, [], ALL, KEPT),
    (EAGER, syncing, Event.REJOIN, code(27), State.JOINING, [J], NOTHING, KEPT),
    (COOPERATIVE, resyncing, Event.REJOIN, code(27), State.JOINING, [J], ALL, KEPT),
    (COOPERATIVE, resyncing, Event.UNKNOWN_MEMBER, code(25), State.UNJOINED, [], NOTHING, NEW),
    (COOPERATIVE, resyncing, Event.STALE_GENERATION, code(22), State.UNJOINED, [], NOTHING, KEPT),
    (COOPERATIVE, resyncing, Event.COORDINATOR_GONE, code(15), State.UNJOINED, [FIND], ALL, KEPT),
    (COOPERATIVE, resyncing, Event.NOT_YET, code(14), State.UNJOINED, [], ALL, KEPT),
    (COOPERATIVE, resyncing, Event.REFUSED, code(30), State.FAILED, [L], NOTHING, NEW),
    (COOPERATIVE, resyncing, Event.POLL_EXPIRED, late, State.ABSENT, [ABANDON, L], NOTHING, NEW),
    (COOPERATIVE, resyncing, Event.CLOSE, closes, State.CLOSED, [ABANDON, L], NOTHING, NEW),
    (EAGER, stable, Event.HEARTBEAT_DUE, lambda d: d.pass_ms(HEARTBEAT), State.STABLE, [H], ALL, KEPT),
    (EAGER, stable, Event.HEARTBEAT_DONE, heartbeat_answered, State.STABLE, [H], ALL, KEPT),
    (EAGER, stable, Event.REBALANCE, code(27), State.REVOKING, [H], ALL, KEPT),
    (COOPERATIVE, stable, Event.REJOIN, code(27), State.JOINING, [J], ALL, KEPT),
    (EAGER, stable, Event.UNKNOWN_MEMBER, code(25), State.UNJOINED, [H], NOTHING, NEW),
    (EAGER, stable, Event.STALE_GENERATION, code(22), State.UNJOINED, [H], NOTHING, KEPT),
    (EAGER, stable, Event.COORDINATOR_GONE, code(16), State.STABLE, [H, FIND], ALL, KEPT),
    (EAGER, stable, Event.NOT_YET, code(14), State.STABLE, [H], ALL, KEPT),
    (EAGER, stable, Event.REFUSED, code(82), State.FAILED, [L], NOTHING, NEW),
    (EAGER, stable, Event.SESSION_EXPIRED, session_ends, State.UNJOINED, [FIND], NOTHING, KEPT),
    (EAGER, stable, Event.CLOSE, closes, State.CLOSED, [L], NOTHING, NEW),
    (EAGER, revoking, Event.GIVEN_UP, polls_twice, State.JOINING, [J], NOTHING, KEPT),
    (EAGER, revoking, Event.HEARTBEAT_DUE, lambda d: d.pass_ms(HEARTBEAT), State.REVOKING, [H], ALL, KEPT),
    (EAGER, revoking, Event.HEARTBEAT_DONE, heartbeat_answered, State.REVOKING, [H], ALL, KEPT),
    (EAGER, revoking, Event.REBALANCE, code(27), State.REVOKING, [H], ALL, KEPT),
    (EAGER, revoking, Event.UNKNOWN_MEMBER, code(25), State.UNJOINED, [H], NOTHING, NEW),
    (EAGER, revoking, Event.STALE_GENERATION, code(22), State.UNJOINED, [H], NOTHING, KEPT),
    (EAGER, revoking, Event.COORDINATOR_GONE, code(16), State.REVOKING, [H, FIND], ALL, KEPT),
    (EAGER, revoking, Event.NOT_YET, code(14), State.REVOKING, [H], ALL, KEPT),
    (EAGER, revoking, Event.REFUSED, code(30), State.FAILED, [L], NOTHING, NEW),
    (EAGER, revoking, Event.SESSION_EXPIRED, session_ends, State.UNJOINED, [FIND], NOTHING, KEPT),
    (EAGER, revoking, Event.CLOSE, closes, State.CLOSED, [L], NOTHING, NEW),
    (EAGER, absent, Event.POLLED, lambda d: d.poll(), State.UNJOINED, [], NOTHING, NEW),
    (EAGER, absent, Event.CLOSE, closes, State.CLOSED, [], NOTHING, NEW),
    (EAGER, failed, Event.CLOSE, closes, State.CLOSED, [], NOTHING, NEW),
]  # fmt: skip


def name_of(case):
    return f"{case[0][0]}-{case[1].__name__}-{case[2].name}"


@pytest.mark.parametrize("case", CASES, ids=map(name_of, CASES))
def test_a_transition(case):
    assignors, arrive, _, happen, state, actions, owned, member_id = case
    driven = Driven(assignors)
    arrive(driven)
    driven.actions()
    happen(driven)
    assert driven.member.state is state
    assert driven.actions() == [each for each in actions if each is not H or actions[-1] is not L]
    assert driven.member.owned == owned
    assert driven.member.held <= owned
    assert bool(driven.member.identity.member_id) is (member_id is KEPT)
    assert (driven.member.error is not None) is (state is State.FAILED or arrive is failed)


PATHS = {
    unjoined: State.UNJOINED,
    unjoined_again: State.UNJOINED,
    joining: State.JOINING,
    rejoining: State.JOINING,
    syncing: State.SYNCING,
    resyncing: State.SYNCING,
    stable: State.STABLE,
    revoking: State.REVOKING,
    absent: State.ABSENT,
    failed: State.FAILED,
}

# An eager member that joins holds nothing, and a cooperative one has nothing to give up before it does: the first two
# cannot happen, and would do as REJOIN does. REJOIN while REVOKING: as REBALANCE. The last two are told as tales.
BY_THEMSELVES = {
    (State.JOINING, Event.REBALANCE),
    (State.SYNCING, Event.REBALANCE),
    (State.REVOKING, Event.REJOIN),
    (State.STABLE, Event.POLL_EXPIRED),
    (State.REVOKING, Event.POLL_EXPIRED),
}


def test_no_transition_goes_untested():
    assert {(PATHS[arrive], event) for _, arrive, event, *_ in CASES} | BY_THEMSELVES == TRANSITIONS.keys()


# Tales: what a user lives through.


def test_an_eager_member_keeps_what_it_has_until_the_user_polls_again():
    driven = Driven()
    stable(driven)
    driven.pass_ms(HEARTBEAT)
    driven.fail(27)
    assert driven.poll() == Changes(revoked=ALL)
    assert driven.member.held == ALL
    assert driven.member.identity.generation_id == 1  # commits are still good
    driven.actions()
    assert driven.poll() == Changes()
    assert driven.actions() == [J]
    assert driven.member.held == NOTHING
    driven.join(generation=2)
    driven.sync(SOME)
    assert driven.poll() == Changes(assigned=SOME)


def test_a_cooperative_member_reads_on_while_the_group_rebalances():
    driven = Driven(COOPERATIVE)
    rejoining(driven)
    assert driven.poll() == Changes()
    assert driven.member.held == ALL
    owned = Subscription.decode(driven.member.protocols()[0][1])
    assert set(owned.owned_partitions) == ALL
    assert owned.generation_id == 1
    driven.join(generation=2)
    driven.sync(SOME)
    assert driven.poll() == Changes(revoked=ALL - SOME)
    assert driven.member.held == ALL
    driven.actions()
    assert driven.poll() == Changes()
    assert driven.actions() == [J]
    assert driven.member.held == SOME


def test_what_the_user_was_never_told_of_need_not_be_revoked():
    driven = Driven()
    syncing(driven)
    driven.sync()
    driven.pass_ms(HEARTBEAT)
    driven.fail(27)
    assert driven.member.state is State.JOINING
    driven.join(generation=2)
    driven.sync(SOME)
    assert driven.member.state is State.STABLE
    assert driven.poll() == Changes(assigned=SOME)


@pytest.mark.parametrize("must_poll", [True, False])
def test_a_poll_while_an_eager_member_joins_again_reports_nothing_of_the_generation_before(must_poll):
    driven = Driven(must_poll=must_poll)
    syncing(driven)
    driven.sync()
    driven.pass_ms(HEARTBEAT)
    driven.fail(27)
    assert driven.member.state is State.JOINING
    assert not driven.member.has_news
    assert driven.poll() == Changes()
    assert driven.member.held == NOTHING
    driven.join(generation=2)
    assert driven.poll() == Changes()
    driven.sync(SOME)
    assert driven.poll() == Changes(assigned=SOME)


def test_a_poll_while_a_cooperative_member_joins_again_reports_what_it_keeps():
    driven = Driven(COOPERATIVE)
    syncing(driven)
    driven.sync()
    driven.pass_ms(HEARTBEAT)
    driven.fail(27)
    assert driven.member.state is State.JOINING
    assert driven.poll() == Changes(assigned=ALL)


def test_what_is_lost_is_told_once_and_may_come_back_in_the_same_poll():
    driven = Driven()
    stable(driven)
    driven.pass_ms(SESSION)
    assert driven.member.held == NOTHING
    driven.pass_ms(0)
    driven.join(generation=3)
    driven.sync(SOME)
    assert driven.poll() == Changes(lost=ALL, assigned=SOME)
    assert driven.poll() == Changes()


def test_a_user_who_does_not_poll_leaves_the_group_and_comes_back_by_polling():
    driven = Driven()
    stable(driven)
    driven.actions()
    for _ in range(REBALANCE // HEARTBEAT):
        heartbeat_answered(driven)
    assert driven.member.state is State.ABSENT
    assert driven.actions()[-1] is L
    assert driven.member.leaving.member_id == "me"
    assert driven.member.wait_ms(driven.now) == NEVER
    assert driven.poll() == Changes(lost=ALL)
    driven.pass_ms(0)
    assert driven.actions() == [J]


def test_while_the_user_has_something_to_give_up_it_can_be_late_too():
    driven = Driven()
    revoking(driven)
    for _ in range(REBALANCE // HEARTBEAT - 2):
        driven.pass_ms(HEARTBEAT)
        driven.fail(27)
    assert driven.member.state is State.REVOKING
    driven.pass_ms(HEARTBEAT)
    assert driven.member.state is State.ABSENT


def test_a_user_who_waits_in_its_poll_is_not_late():
    driven = Driven()
    stable(driven)
    driven.member.polling(True, driven.now)
    for _ in range(2 * REBALANCE // HEARTBEAT):
        heartbeat_answered(driven)
    assert driven.member.state is State.STABLE


def test_a_static_member_leaves_nothing_behind_it_but_silence():
    for arrive in (stable, rejoining):
        driven = Driven(COOPERATIVE, instance_id="worker-1")
        arrive(driven)
        driven.actions()
        driven.member.close(driven.now)
        assert L not in driven.actions()


def test_a_fenced_static_member_fails_for_good_and_tells_it_in_poll():
    driven = Driven(instance_id="worker-1")
    stable(driven)
    driven.pass_ms(HEARTBEAT)
    driven.fail(82)
    for _ in range(2):
        with pytest.raises(type(error_for(82))):
            driven.poll()


def test_a_commit_may_be_the_first_to_hear_that_the_group_went_on():
    for number, state in ((22, State.UNJOINED), (25, State.UNJOINED), (27, State.REVOKING), (82, State.FAILED)):
        driven = Driven()
        stable(driven)
        driven.member.commit_failed(driven.member.identity, error_for(number), driven.now)
        assert driven.member.state is state


def test_what_a_commit_of_an_older_generation_hears_does_not_count():
    driven = Driven(COOPERATIVE)
    stable(driven)
    old = driven.member.identity
    driven.member.rejoin(driven.now)
    driven.join(generation=2)
    driven.sync()
    driven.member.commit_failed(old, error_for(22), driven.now)
    assert driven.member.state is State.STABLE


def test_an_answer_to_a_request_that_was_replaced_does_not_count():
    driven = Driven()
    revoking(driven)
    driven.pass_ms(HEARTBEAT)
    polls_twice(driven)
    assert driven.member.under_way is J
    driven.member.heartbeat_done(driven.now)
    driven.member.failed(H, error_for(25), driven.now)
    assert driven.member.state is State.JOINING


def test_a_lost_connection_is_no_lost_membership():
    driven = Driven()
    stable(driven)
    for error in (ConnectionLost("reset"), RequestTimeout("late"), DeadlineExceeded("nobody knows the coordinator")):
        driven.pass_ms(HEARTBEAT)
        driven.actions()
        driven.fail_with(error)
        assert driven.actions() == [FIND]
    assert driven.member.held == ALL
    driven.pass_ms(BACKOFF)
    driven.member.heartbeat_done(driven.now)
    driven.pass_ms(SESSION - 1)
    assert driven.member.held == ALL


def test_the_leader_assigns_to_everybody():
    driven = Driven()
    joining(driven)
    driven.join(leader=True, others=("you",))
    placed = driven.member.assignments({"t": 3})
    assert {name: each.partitions for name, each in placed.items()} == {"me": tps("t:0,t:1"), "you": tps("t:2")}


def test_metadata_of_a_member_that_is_none_fails_the_leader_with_its_name():
    driven = Driven()
    joining(driven)
    row = {"member_id": "odd", "group_instance_id": None, "metadata": b"\x00"}
    answer = {"leader": "me", "member_id": "me", "members": [row], "skip_assignment": False}
    with pytest.raises(ProtocolError, match="'odd'"):
        driven.member.joined(answer, driven.now)


def test_with_an_eager_assignor_among_them_the_member_is_eager():
    driven = Driven(("range", "cooperative-sticky"))
    revoking(driven)
    assert driven.member.state is State.REVOKING
    assert all(Subscription.decode(data).owned_partitions == () for _, data in driven.member.protocols())


def test_a_member_whom_nobody_polls_keeps_its_place():
    driven = Driven(must_poll=False)
    syncing(driven)
    driven.sync()
    for _ in range(2 * REBALANCE // HEARTBEAT):
        heartbeat_answered(driven)
    assert driven.member.state is State.STABLE
    driven.pass_ms(HEARTBEAT)
    driven.fail(27)
    assert driven.member.state is State.JOINING


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_what_the_group_takes_from_a_member_that_need_not_poll_is_reported_as_lost_when_it_does(assignor):
    driven = Driven((assignor,), must_poll=False)
    stable(driven)
    driven.member.rejoin(driven.now)
    driven.join(generation=2)
    driven.sync(SOME)
    assert driven.member.held == SOME
    assert driven.member.has_news
    assert driven.poll() == Changes(lost=ALL - SOME)


def test_waits_grow_with_each_failure_and_end_with_success():
    driven = Driven(backoff_ms=lambda failures: 100.0 * 2**failures)
    joining(driven)
    waits = []
    for _ in range(3):
        driven.fail(14)
        waits.append(driven.member.wait_ms(driven.now))
        driven.pass_ms(waits[-1])
    assert waits == [100, 200, 400]
    driven.join()
    driven.fail(14)
    assert driven.member.wait_ms(driven.now) == 100
