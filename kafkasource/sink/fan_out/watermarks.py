"""What to do about a cluster's queue before more is put into it. Decisions only, over plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Queue:
    """One cluster at one moment."""

    bytes: int  # handed over and not settled
    low: int
    high: int
    silent_ms: float = 0.0  # see `Health`
    patience_ms: float = 0.0  # how long it may be silent; 0: it is known to be dead


class Step(Enum):
    GO_ON = "go on"
    WAIT = "wait"
    ACT = "act"  # as `onSlowCluster` says


def step(queue: Queue, others: Sequence[Queue]) -> Step:
    """For a cluster that does not block. `others`: those that are alive.

    Above the high watermark it is waited for as long as the others have something to send meanwhile, and as long as it
    answers: that reading is faster than all clusters is no reason to lose anything.
    """
    if queue.bytes <= queue.high:
        return Step.GO_ON
    holds_up_others = bool(others) and all(other.bytes <= other.low for other in others)
    return Step.ACT if holds_up_others or queue.silent_ms >= queue.patience_ms else Step.WAIT


def excess(queue: Queue) -> int:
    """Bytes to drop."""
    return max(0, queue.bytes - queue.low)
