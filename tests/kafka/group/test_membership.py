"""Every transition of a group member, driven from outside, with no network and no clock."""

from dataclasses import replace

import pytest
from group_wire import tps

from kafkasource.errors import TABLE, ConnectionLost, DeadlineExceeded, ProtocolError, RequestTimeout, error_for
from kafkasource.kafka.group.assignors import assignors_named
from kafkasource.kafka.group.consumer_protocol import Assignment, Subscription
from kafkasource.kafka.group.membership import Changes, Membership, Terms
from kafkasource.kafka.group.states import TRANSITIONS, MemberAction, MemberEvent, MemberState
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
    assert driven.member.state is MemberState.JOINING


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
J, S, H, L = MemberAction.JOIN, MemberAction.SYNC, MemberAction.HEARTBEAT, MemberAction.LEAVE
FIND, ABANDON = MemberAction.FIND_COORDINATOR, MemberAction.ABANDON
NEW, KEPT = "a new member", "the same member"
NOTHING = frozenset()

SYNC_ALL = MemberAction.SYNC_AS_LEADER


def late(driven):
    """The user does not poll in time."""
    driven.pass_ms(REBALANCE)


def leads(driven):
    driven.join(leader=True)


def closes(driven):
    driven.member.close(driven.now)


def session_ends(driven):
    driven.pass_ms(SESSION)


# assignors, how it got here, event, what happens | the state after, actions to carry out, what it owns, member id
CASES = [
    (EAGER, unjoined, MemberEvent.READY, lambda d: d.pass_ms(0), MemberState.JOINING, [J], NOTHING, NEW),
    (COOPERATIVE, unjoined_again, MemberEvent.READY, lambda d: d.pass_ms(BACKOFF), MemberState.JOINING, [J], ALL, KEPT),
    (COOPERATIVE, unjoined_again, MemberEvent.SESSION_EXPIRED, session_ends, MemberState.JOINING, [J], NOTHING, KEPT),
    (COOPERATIVE, unjoined_again, MemberEvent.POLL_EXPIRED, late, MemberState.ABSENT, [L], NOTHING, NEW),
    (COOPERATIVE, unjoined_again, MemberEvent.CLOSE, closes, MemberState.CLOSED, [L], NOTHING, NEW),
    (EAGER, unjoined, MemberEvent.CLOSE, closes, MemberState.CLOSED, [], NOTHING, NEW),
    (EAGER, joining, MemberEvent.JOINED_AS_LEADER, leads, MemberState.SYNCING, [SYNC_ALL], NOTHING, KEPT),
    (EAGER, joining, MemberEvent.JOINED_AS_FOLLOWER, lambda d: d.join(), MemberState.SYNCING, [S], NOTHING, KEPT),
    (EAGER, joining, MemberEvent.MEMBER_ID_GIVEN, code(79), MemberState.JOINING, [J], NOTHING, KEPT),
    (EAGER, joining, MemberEvent.REJOIN, code(27), MemberState.UNJOINED, [], NOTHING, NEW),
    (COOPERATIVE, rejoining, MemberEvent.REJOIN, code(27), MemberState.UNJOINED, [], ALL, KEPT),
    (COOPERATIVE, rejoining, MemberEvent.UNKNOWN_MEMBER, code(25), MemberState.UNJOINED, [], NOTHING, NEW),
    (COOPERATIVE, rejoining, MemberEvent.STALE_GENERATION, code(22), MemberState.UNJOINED, [], NOTHING, KEPT),
    (COOPERATIVE, rejoining, MemberEvent.COORDINATOR_GONE, code(16), MemberState.UNJOINED, [FIND], ALL, KEPT),
    (COOPERATIVE, rejoining, MemberEvent.NOT_YET, code(14), MemberState.UNJOINED, [], ALL, KEPT),
    (COOPERATIVE, rejoining, MemberEvent.REFUSED, code(30), MemberState.FAILED, [L], NOTHING, NEW),
    (COOPERATIVE, rejoining, MemberEvent.POLL_EXPIRED, late, MemberState.ABSENT, [ABANDON, L], NOTHING, NEW),
    (COOPERATIVE, rejoining, MemberEvent.CLOSE, closes, MemberState.CLOSED, [ABANDON, L], NOTHING, NEW),
    (EAGER, syncing, MemberEvent.SYNCED, lambda d: d.sync(), MemberState.STABLE, [], ALL, KEPT),
    (COOPERATIVE, resyncing, MemberEvent.SYNCED, lambda d: d.sync(), MemberState.STABLE, [], ALL, KEPT),
    (COOPERATIVE, resyncing, MemberEvent.SYNCED_LESS, lambda d: d.sync(SOME), MemberState.REVOKING, [], ALL, KEPT),
    (EAGER, syncing, MemberEvent.REJOIN, code(27), MemberState.JOINING, [J], NOTHING, KEPT),
    (COOPERATIVE, resyncing, MemberEvent.REJOIN, code(27), MemberState.JOINING, [J], ALL, KEPT),
    (COOPERATIVE, resyncing, MemberEvent.UNKNOWN_MEMBER, code(25), MemberState.UNJOINED, [], NOTHING, NEW),
    (COOPERATIVE, resyncing, MemberEvent.STALE_GENERATION, code(22), MemberState.UNJOINED, [], NOTHING, KEPT),
    (COOPERATIVE, resyncing, MemberEvent.COORDINATOR_GONE, code(15), MemberState.UNJOINED, [FIND], ALL, KEPT),
    (COOPERATIVE, resyncing, MemberEvent.NOT_YET, code(14), MemberState.UNJOINED, [], ALL, KEPT),
    (COOPERATIVE, resyncing, MemberEvent.REFUSED, code(30), MemberState.FAILED, [L], NOTHING, NEW),
    (COOPERATIVE, resyncing, MemberEvent.POLL_EXPIRED, late, MemberState.ABSENT, [ABANDON, L], NOTHING, NEW),
    (COOPERATIVE, resyncing, MemberEvent.CLOSE, closes, MemberState.CLOSED, [ABANDON, L], NOTHING, NEW),
    (EAGER, stable, MemberEvent.HEARTBEAT_DUE, lambda d: d.pass_ms(HEARTBEAT), MemberState.STABLE, [H], ALL, KEPT),
    (EAGER, stable, MemberEvent.HEARTBEAT_DONE, heartbeat_answered, MemberState.STABLE, [H], ALL, KEPT),
    (EAGER, stable, MemberEvent.REBALANCE, code(27), MemberState.REVOKING, [H], ALL, KEPT),
    (COOPERATIVE, stable, MemberEvent.REJOIN, code(27), MemberState.JOINING, [J], ALL, KEPT),
    (EAGER, stable, MemberEvent.UNKNOWN_MEMBER, code(25), MemberState.UNJOINED, [H], NOTHING, NEW),
    (EAGER, stable, MemberEvent.STALE_GENERATION, code(22), MemberState.UNJOINED, [H], NOTHING, KEPT),
    (EAGER, stable, MemberEvent.COORDINATOR_GONE, code(16), MemberState.STABLE, [H, FIND], ALL, KEPT),
    (EAGER, stable, MemberEvent.NOT_YET, code(14), MemberState.STABLE, [H], ALL, KEPT),
    (EAGER, stable, MemberEvent.REFUSED, code(82), MemberState.FAILED, [L], NOTHING, NEW),
    (EAGER, stable, MemberEvent.SESSION_EXPIRED, session_ends, MemberState.UNJOINED, [FIND], NOTHING, KEPT),
    (EAGER, stable, MemberEvent.CLOSE, closes, MemberState.CLOSED, [L], NOTHING, NEW),
    (EAGER, revoking, MemberEvent.GIVEN_UP, polls_twice, MemberState.JOINING, [J], NOTHING, KEPT),
    (EAGER, revoking, MemberEvent.HEARTBEAT_DUE, lambda d: d.pass_ms(HEARTBEAT), MemberState.REVOKING, [H], ALL, KEPT),
    (EAGER, revoking, MemberEvent.HEARTBEAT_DONE, heartbeat_answered, MemberState.REVOKING, [H], ALL, KEPT),
    (EAGER, revoking, MemberEvent.REBALANCE, code(27), MemberState.REVOKING, [H], ALL, KEPT),
    (EAGER, revoking, MemberEvent.UNKNOWN_MEMBER, code(25), MemberState.UNJOINED, [H], NOTHING, NEW),
    (EAGER, revoking, MemberEvent.STALE_GENERATION, code(22), MemberState.UNJOINED, [H], NOTHING, KEPT),
    (EAGER, revoking, MemberEvent.COORDINATOR_GONE, code(16), MemberState.REVOKING, [H, FIND], ALL, KEPT),
    (EAGER, revoking, MemberEvent.NOT_YET, code(14), MemberState.REVOKING, [H], ALL, KEPT),
    (EAGER, revoking, MemberEvent.REFUSED, code(30), MemberState.FAILED, [L], NOTHING, NEW),
    (EAGER, revoking, MemberEvent.SESSION_EXPIRED, session_ends, MemberState.UNJOINED, [FIND], NOTHING, KEPT),
    (EAGER, revoking, MemberEvent.CLOSE, closes, MemberState.CLOSED, [L], NOTHING, NEW),
    (EAGER, absent, MemberEvent.POLLED, lambda d: d.poll(), MemberState.UNJOINED, [], NOTHING, NEW),
    (EAGER, absent, MemberEvent.CLOSE, closes, MemberState.CLOSED, [], NOTHING, NEW),
    (EAGER, failed, MemberEvent.CLOSE, closes, MemberState.CLOSED, [], NOTHING, NEW),
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
    assert (driven.member.error is not None) is (state is MemberState.FAILED or arrive is failed)


PATHS = {
    unjoined: MemberState.UNJOINED,
    unjoined_again: MemberState.UNJOINED,
    joining: MemberState.JOINING,
    rejoining: MemberState.JOINING,
    syncing: MemberState.SYNCING,
    resyncing: MemberState.SYNCING,
    stable: MemberState.STABLE,
    revoking: MemberState.REVOKING,
    absent: MemberState.ABSENT,
    failed: MemberState.FAILED,
}

# An eager member that joins holds nothing, and a cooperative one has nothing to give up before it does: the first two
# cannot happen, and would do as REJOIN does. REJOIN while REVOKING: as REBALANCE. The next two are told as tales. The
# last three are of members whose coordinator assigns: test_consumer_membership.py.
BY_THEMSELVES = {
    (MemberState.JOINING, MemberEvent.REBALANCE),
    (MemberState.SYNCING, MemberEvent.REBALANCE),
    (MemberState.REVOKING, MemberEvent.REJOIN),
    (MemberState.STABLE, MemberEvent.POLL_EXPIRED),
    (MemberState.REVOKING, MemberEvent.POLL_EXPIRED),
    (MemberState.JOINING, MemberEvent.SYNCED),
    (MemberState.STABLE, MemberEvent.SYNCED_LESS),
    (MemberState.REVOKING, MemberEvent.RELEASED),
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
    assert driven.member.state is MemberState.JOINING
    driven.join(generation=2)
    driven.sync(SOME)
    assert driven.member.state is MemberState.STABLE
    assert driven.poll() == Changes(assigned=SOME)


@pytest.mark.parametrize("must_poll", [True, False])
def test_a_poll_while_an_eager_member_joins_again_reports_nothing_of_the_generation_before(must_poll):
    driven = Driven(must_poll=must_poll)
    syncing(driven)
    driven.sync()
    driven.pass_ms(HEARTBEAT)
    driven.fail(27)
    assert driven.member.state is MemberState.JOINING
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
    assert driven.member.state is MemberState.JOINING
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
    assert driven.member.state is MemberState.ABSENT
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
    assert driven.member.state is MemberState.REVOKING
    driven.pass_ms(HEARTBEAT)
    assert driven.member.state is MemberState.ABSENT


def test_a_user_who_waits_in_its_poll_is_not_late():
    driven = Driven()
    stable(driven)
    driven.member.polling(True, driven.now)
    for _ in range(2 * REBALANCE // HEARTBEAT):
        heartbeat_answered(driven)
    assert driven.member.state is MemberState.STABLE


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
    for number, state in (
        (22, MemberState.UNJOINED),
        (25, MemberState.UNJOINED),
        (27, MemberState.REVOKING),
        (82, MemberState.FAILED),
    ):
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
    assert driven.member.state is MemberState.STABLE


def test_an_answer_to_a_request_that_was_replaced_does_not_count():
    driven = Driven()
    revoking(driven)
    driven.pass_ms(HEARTBEAT)
    polls_twice(driven)
    assert driven.member.under_way is J
    driven.member.heartbeat_done(driven.now)
    driven.member.failed(H, error_for(25), driven.now)
    assert driven.member.state is MemberState.JOINING


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


@pytest.mark.parametrize("arrive", [joining, syncing, stable, revoking])
def test_a_code_is_answered_as_its_row_says(monkeypatch, arrive):
    monkeypatch.setitem(TABLE, 9999, replace(TABLE[16], code=9999))  # of a later Kafka
    for row in [row for row in TABLE.values() if row.retriable]:
        driven = Driven()
        arrive(driven)
        driven.pass_ms(HEARTBEAT)
        driven.actions()
        driven.fail(row.code)
        finds = row.refresh_coordinator and row.name != "COORDINATOR_LOAD_IN_PROGRESS"
        assert driven.actions() == ([FIND] if finds else []), row
        assert driven.member.error is None


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
    assert driven.member.state is MemberState.REVOKING
    assert all(Subscription.decode(data).owned_partitions == () for _, data in driven.member.protocols())


def test_a_member_whom_nobody_polls_keeps_its_place():
    driven = Driven(must_poll=False)
    syncing(driven)
    driven.sync()
    for _ in range(2 * REBALANCE // HEARTBEAT):
        heartbeat_answered(driven)
    assert driven.member.state is MemberState.STABLE
    driven.pass_ms(HEARTBEAT)
    driven.fail(27)
    assert driven.member.state is MemberState.JOINING


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
