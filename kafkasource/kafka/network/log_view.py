"""Is the log that brokers show now the log that was known before? One comparison, for driver, readers and tasks.

A topic's name does not identify a log: its topic id does (KIP-516, brokers from 2.8 on). Its leader epoch grows with
each election (KIP-320) and never falls within one topic. So of two views of a log by one name:

    what is seen now                      it is
    no such partition                     ABSENT
    another topic id                      ANOTHER_TOPIC
    an older epoch, the same topic id     OLD_NEWS: it comes from a broker or a leader of before
    an older epoch, an id is not known    ANOTHER_TOPIC, or old news that nothing tells from it
    a newer epoch                         NEWER_LEADER: what was read, or planned, may have been cut off
    anything else                         SAME, as far as is known

One answer is not enough for a loss. `is_doubtful` says which verdicts must be asked for again, from another node,
before anybody acts on them: any broker answers, also one that is cut off from the controllers and knows old things
(decision 163).
"""

from __future__ import annotations

import uuid
from enum import Enum, auto
from typing import NamedTuple


class LogView(NamedTuple):
    """Holds what identifies a log, as far as a broker or a checkpoint says it. None: not known."""

    topic_id: uuid.UUID | None = None  # brokers before 2.8 have none
    leader_epoch: int | None = None  # brokers before 2.1 have none


class Verdict(Enum):
    """Says what the log seen now is, beside the log known before."""

    SAME = auto()
    NEWER_LEADER = auto()
    OLD_NEWS = auto()
    ANOTHER_TOPIC = auto()
    ABSENT = auto()

    @property
    def is_denial(self) -> bool:
        """Is the log that was known not there any more, if this view is true?"""
        return self in (Verdict.ANOTHER_TOPIC, Verdict.ABSENT)

    @property
    def is_doubtful(self) -> bool:
        """May a broker say this that has not heard of the log that was known?"""
        return self is Verdict.OLD_NEWS or self.is_denial


def compare(known: LogView, now: LogView | None) -> Verdict:
    """Compare the view `now` with the view `known`. `now` None: a broker says that there is no such partition."""
    if now is None:
        return Verdict.ABSENT
    have_ids = known.topic_id is not None and now.topic_id is not None
    if have_ids and known.topic_id != now.topic_id:
        return Verdict.ANOTHER_TOPIC
    if known.leader_epoch is None or now.leader_epoch is None or known.leader_epoch == now.leader_epoch:
        return Verdict.SAME
    if now.leader_epoch > known.leader_epoch:
        return Verdict.NEWER_LEADER
    return Verdict.OLD_NEWS if have_ids else Verdict.ANOTHER_TOPIC
