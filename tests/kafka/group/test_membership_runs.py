"""Any sequence of what can happen to a member, in any order: what it tells its user stays true."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_inputs import examples
from test_membership import BACKOFF, HEARTBEAT, REBALANCE, SESSION, Driven

from kafkasource.errors import ConnectionLost, KafkaSourceError, error_for
from kafkasource.kafka.group.states import MemberAction, MemberState
from kafkasource.types import TopicPartition

PARTITIONS = [TopicPartition("t", n) for n in range(4)]
shares = st.sets(st.sampled_from(PARTITIONS))
steps = st.one_of(
    st.tuples(st.just("poll"), st.none()),
    st.tuples(st.just("pass"), st.sampled_from([0, BACKOFF, HEARTBEAT, SESSION, REBALANCE])),
    st.tuples(st.just("answer"), shares),
    st.tuples(st.just("answer"), shares),
    st.tuples(st.just("fail"), st.sampled_from([14, 15, 16, 22, 25, 27, 27, 27, 30, 79, 82, None])),
    st.tuples(st.just("commit fails"), st.sampled_from([22, 25, 27, 82, 3])),
    st.tuples(st.just("rejoin"), st.none()),
    st.tuples(st.just("close"), st.none()),
)


class User:
    """Believes what it is told, and checks that it could be so."""

    def __init__(self):
        self.has = set()
        self.giving_up = set()

    def hear(self, changes):
        assert changes.lost <= self.has
        self.has -= self.giving_up | changes.lost
        assert changes.revoked <= self.has
        self.giving_up = set(changes.revoked)
        assert not changes.assigned & self.has
        self.has |= changes.assigned


def answer(driven, share):
    request = driven.member.under_way
    if request is MemberAction.JOIN:
        generation = driven.member.identity.generation_id
        driven.join(generation=max(generation, 0) + 1, member_id=driven.member.identity.member_id or "new")
    elif request is MemberAction.SYNC:
        driven.sync(share)
    elif request is MemberAction.HEARTBEAT:
        driven.member.heartbeat_done(driven.now)


def step(driven, user, what, value):
    member = driven.member
    if what == "poll":
        try:
            changes = member.poll(driven.now)
        except KafkaSourceError:
            assert member.error is not None
        else:
            assert not changes.assigned or member.state is MemberState.STABLE or member.terms.cooperative
            user.hear(changes)
    elif what == "pass":
        driven.pass_ms(value)
    elif what == "answer":
        answer(driven, value)
    elif what == "fail" and member.under_way is not None:
        error = ConnectionLost("reset") if value is None else error_for(value)
        member.failed(member.under_way, error, driven.now, "given" if value == 79 else "")
    elif what == "commit fails":
        member.commit_failed(member.identity, error_for(value), driven.now)
    elif what == "rejoin":
        member.rejoin(driven.now)
    elif what == "close":
        member.close(driven.now)


def check_what_holds(driven, user, static):
    """At any time."""
    member, actions = driven.member, driven.actions()
    assert member.held <= member.owned
    assert member.held <= user.has  # what was lost may not be told yet, but nothing is held in secret
    assert not (static and MemberAction.LEAVE in actions)
    assert len([each for each in actions if each not in (MemberAction.FIND_COORDINATOR, MemberAction.ABANDON)]) <= 1
    if member.state in (MemberState.CLOSED, MemberState.ABSENT, MemberState.FAILED):
        assert not member.owned
    if member.state is MemberState.REVOKING:
        assert user.has


def poll_while_the_group_takes_all(*answers):
    """A member without duty to poll, polled once, whose next generation gives it nothing."""
    joined = [("pass", 0), ("answer", set()), ("answer", {PARTITIONS[0]}), ("poll", None), ("rejoin", None)]
    return [*joined, ("answer", set()), ("answer", set()), *answers]


@settings(max_examples=examples(300))
@example(assignors=("range",), run=poll_while_the_group_takes_all(), must_poll=False, static=False)
@example(
    assignors=("cooperative-sticky",),
    run=poll_while_the_group_takes_all(("answer", set()), ("answer", set())),
    must_poll=False,
    static=False,
)
@example(
    assignors=("range",),
    run=[("pass", 0), ("answer", set()), ("answer", {PARTITIONS[0]}), ("rejoin", None), ("poll", None)],
    must_poll=True,
    static=False,
)
@given(
    assignors=st.sampled_from([("range",), ("cooperative-sticky",), ("range", "cooperative-sticky")]),
    run=st.lists(steps, max_size=60),
    must_poll=st.booleans(),
    static=st.booleans(),
)
def test_whatever_happens_the_user_is_told_what_is_true(assignors, run, must_poll, static):
    driven, user = Driven(assignors, must_poll=must_poll, instance_id="one" if static else None), User()
    for what, value in run:
        step(driven, user, what, value)
        check_what_holds(driven, user, static)
    if driven.member.state in (MemberState.STABLE, MemberState.SYNCING) and driven.member.error is None:
        user.hear(driven.member.poll(driven.now))
        assert user.has == driven.member.held


@given(run=st.lists(steps, max_size=30), assignor=st.sampled_from(["range", "cooperative-sticky"]))
def test_from_wherever_it_is_a_member_that_is_answered_becomes_stable(run, assignor):
    driven, user = Driven((assignor,)), User()
    for what, value in run:
        step(driven, user, what, value)
    for _ in range(12):
        if driven.member.state in (MemberState.CLOSED, MemberState.FAILED):
            return
        step(driven, user, "poll", None)
        driven.pass_ms(BACKOFF)
        answer(driven, PARTITIONS)
    assert driven.member.state is MemberState.STABLE
    user.hear(driven.member.poll(driven.now))
    assert user.has == driven.member.held == driven.member.owned
