"""A member of a group to which anything happens in any order: what it tells its user stays true.

The member, its user and the steps are those of tests/kafka/group/test_membership_runs.py.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from test_membership import BACKOFF, HEARTBEAT, REBALANCE, SESSION, Driven
from test_membership_runs import PARTITIONS, User, check_what_holds, step

from kafkasource.kafka.group.states import MemberState
from lab.campaign.simulated.worlds import COMMIT_REFUSED, LATE, REFUSED, Outcome

STEPS = 200
ASSIGNORS = (("range",), ("cooperative-sticky",), ("range", "cooperative-sticky"))
ERRORS = (14, 15, 16, 22, 25, 27, 27, 27, 30, 79, 82, None)
COMMIT_ERRORS = (22, 25, 27, 82, 3)
TURNS = ("poll", "pass", "answer", "answer", "answer", "fail", "commit fails", "late", "rejoin")


def run(random: Random) -> Outcome:
    static = random.random() < 0.3
    driven = Driven(random.choice(ASSIGNORS), must_poll=random.random() < 0.5, instance_id="one" if static else None)
    user, faults = User(), Counter[str]()
    for _ in range(STEPS):
        what, value = _drawn(random)
        if driven.member.state in (MemberState.CLOSED, MemberState.FAILED):
            break
        if what == "fail":
            faults[REFUSED] += driven.member.under_way is not None
        elif what == "commit fails":
            faults[COMMIT_REFUSED] += 1
        elif value in (SESSION, REBALANCE):
            faults[LATE] += 1
        try:
            step(driven, user, what, value)
            check_what_holds(driven, user, static)
        except AssertionError as error:
            return Outcome(faults, 0, Counter({"a member's user was told what cannot be": 1}), (repr(error),))
    return Outcome(faults, 0, Counter())


def _drawn(random: Random) -> tuple[str, object]:
    what = random.choice(TURNS)
    if what == "pass":
        return what, random.choice((0, BACKOFF, HEARTBEAT))
    if what == "late":
        return "pass", random.choice((SESSION, REBALANCE))
    if what == "answer":
        return what, set(random.sample(PARTITIONS, random.randint(0, len(PARTITIONS))))
    return what, random.choice(ERRORS) if what == "fail" else random.choice(COMMIT_ERRORS)
