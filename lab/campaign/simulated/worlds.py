"""A world is one run under one seed, and what was injected into it. Each part of the table is a kind of world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NamedTuple

LOST_REQUEST = "a request is lost, and its process dies"
LOST_ANSWER = "an answer is lost, and its process dies"
NO_REQUEST = "a request is lost, and the call fails"
NO_ANSWER = "an answer is lost, and the call fails"
TIME_UP = "brokers abort open transactions"
REFUSED = "a member's request fails"
COMMIT_REFUSED = "a member's commit is refused"
LATE = "a member hears nothing for its session"
OLD_NEWS = "a broker tells of a topic as it was"
WRONG_END = "a leader gives a wrong end of an epoch"
CUT = "an unclean election truncates a log"
MADE_AGAIN = "a topic is deleted and made again"

KINDS = (
    LOST_REQUEST,
    LOST_ANSWER,
    NO_REQUEST,
    NO_ANSWER,
    TIME_UP,
    REFUSED,
    COMMIT_REFUSED,
    LATE,
    OLD_NEWS,
    WRONG_END,
    CUT,
    MADE_AGAIN,
)


class Outcome(NamedTuple):
    faults: Counter[str]  # that took effect
    records: int  # that were read
    findings: Counter[str]  # by rule
    texts: tuple[str, ...] = ()  # of the first findings


World = Callable[[Random], Outcome]
