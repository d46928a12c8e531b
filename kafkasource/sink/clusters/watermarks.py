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
    allowance_ms: float = 0.0  # how long it may hold up others now, though it answers


class Step(Enum):
    GO_ON = "go on"
    WAIT = "wait"
    HOLD_UP = "wait, at the cost of others"
    ACT = "act"  # as `onSlowCluster` says


def step(queue: Queue, others: Sequence[Queue]) -> Step:
    """For a cluster that does not block. `others`: those that are alive.

    Above the high watermark it is waited for as long as the others have something to send meanwhile, and as long as it
    answers: that reading is faster than all clusters is no reason to lose anything, nor is a short hiccup of one.
    """
    if queue.bytes <= queue.high:
        return Step.GO_ON
    if queue.silent_ms >= queue.patience_ms:
        return Step.ACT
    if not others or any(other.bytes > other.low for other in others):
        return Step.WAIT
    return Step.HOLD_UP if queue.allowance_ms > 0 else Step.ACT


def excess(queue: Queue) -> int:
    """Bytes to drop."""
    return max(0, queue.bytes - queue.low)
