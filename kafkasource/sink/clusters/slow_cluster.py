"""Decides about a slow cluster: `Health` knows whether it answers at all, `Refusals` which topics it does not take, and
`step` what to do about its queue.

`step` decides over plain values. `FanOut` calls it before it puts more into a cluster's queue, and carries the decision
out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

log = logging.getLogger("kafkasource.sink")

_TENTH = 10  # a slow cluster may cost the others a tenth of the time, and so may a dead one


class Health:
    """Knows when a cluster last acknowledged something, and whether to wait for it. For any thread; kept from task to
    task."""

    def __init__(self, wait_ms: int, clock_ms: Callable[[], float], cluster: str = "") -> None:
        self._cluster = cluster
        self._wait_ms = wait_ms
        self._clock_ms = clock_ms
        self._answer_due_ms = clock_ms()  # or the time of the last answer
        self._dead_until_ms: float | None = None
        self._was_dead = False
        self._warned_of_order = False
        self._allowance_ms, self._allowed_at_ms = float(wait_ms), clock_ms()

    def handed_over(self, linger_ms: int, nothing_before: bool) -> None:
        """The sink sends the cluster something within `linger_ms`. From then on an answer is due, if the cluster owed
        none before, or if it counted as dead and the sink tries it again."""
        if nothing_before or (self._dead_until_ms is not None and not self.dead):
            self._answer_due_ms = self._clock_ms() + linger_ms
            if not self.dead:
                self._dead_until_ms = None

    def flushed(self) -> None:
        """Nothing lingers any more. What lingered until now, if for longer than an answer may take, owes none yet."""
        self._answer_due_ms = self._clock_ms()

    def keeps_no_order(self) -> None:
        """Warns once. With a map of offsets the options demand idempotence, so it is the brokers that lack it."""
        if not self._warned_of_order:
            self._warned_of_order = True
            log.warning(
                "cluster %r: its brokers are older than Kafka 0.11 and keep no order over retries: 'offsetMap' leaves "
                "these rows out",
                self._cluster,
            )

    def answered(self) -> None:
        self._answer_due_ms = self._clock_ms()
        if self._was_dead:
            self._was_dead = False
            log.warning("cluster %r answers again", self._cluster)
        self._dead_until_ms = None

    @property
    def silent_ms(self) -> float:
        """How long the cluster has not answered, although something was sent."""
        return self._clock_ms() - self._answer_due_ms

    def waited_in_vain(self) -> None:
        if not self._was_dead:
            self._was_dead = True
            log.warning("cluster %r acknowledged nothing for %d ms: not waited for", self._cluster, self._wait_ms)
        self._dead_until_ms = self._clock_ms() + _TENTH * self._wait_ms

    @property
    def allowance_ms(self) -> float:
        """How long the cluster may hold up others now: at most `slowClusterWait`. Used time grows back, by a tenth of
        the time that passes."""
        now_ms = self._clock_ms()
        grown = self._allowance_ms + (now_ms - self._allowed_at_ms) / _TENTH
        self._allowance_ms, self._allowed_at_ms = min(float(self._wait_ms), grown), now_ms
        return self._allowance_ms

    def held_up(self, others_ms: float) -> None:
        """Record that this cluster has delayed the others for this long. For the task's thread, as is
        `allowance_ms`."""
        self._allowance_ms = self.allowance_ms - others_ms

    @property
    def dead(self) -> bool:
        """Whether the sink waited for this cluster without success a short time ago."""
        return self._dead_until_ms is not None and self._clock_ms() < self._dead_until_ms

    @property
    def patience_ms(self) -> int:
        """How long the sink may wait for the cluster now."""
        return 0 if self.dead else self._wait_ms


class Refusals:
    """Topics that a cluster does not take although it answers. For any thread; kept from task to task.

    A topic that is not there, or that the user may not see, is asked for again after ten times `slowClusterWait`.
    """

    def __init__(
        self, wait_ms: int, clock_ms: Callable[[], float], cluster: str = "", listed: Iterable[str] = ()
    ) -> None:
        """`listed`: the topics that the mirror knew to be refused when it started."""
        self._wait_ms, self._clock_ms, self._cluster = wait_ms, clock_ms, cluster
        self._listed = set(listed)  # without those that have been there since
        self._ask_at_ms: dict[str, float] = {}  # by topic
        self._warned: set[str] = set()

    def __contains__(self, topic: str) -> bool:
        """Was it not there when the sink last asked? If the sink has not asked yet: when the mirror started?"""
        return topic in self._ask_at_ms or topic in self._listed

    def holds(self, topic: str) -> bool:
        """Is it too early to ask again?"""
        return self._clock_ms() < self._ask_at_ms.get(topic, float("-inf"))

    def add(self, topic: str, error: BaseException) -> None:
        self._ask_at_ms[topic] = self._clock_ms() + _TENTH * self._wait_ms
        self.warn(topic, error)

    def found(self, topic: str) -> None:
        self._ask_at_ms.pop(topic, None)
        self._listed.discard(topic)

    def warn(self, topic: str, error: BaseException) -> None:
        """Once, until it is taken. An empty name: every topic."""
        if topic not in self._warned:
            self._warned.add(topic)
            what = f"topic {topic}" if topic else "any record"
            log.warning(
                "cluster %r does not take %s, so the sink discards the rows for it: %s", *(self._cluster, what, error)
            )

    def taken(self, topic: str) -> None:
        """It has stored records."""
        if self._warned and not self._warned.isdisjoint((topic, "")):
            self._warned -= {topic, ""}
            log.warning("cluster %r takes topic %s again", self._cluster, topic)


@dataclass(frozen=True, slots=True)
class Queue:
    """The state of one cluster at one moment."""

    bytes: int  # size of the rows that were handed over and are not settled
    low: int  # watermark, in bytes
    high: int  # likewise
    silent_ms: float = 0.0  # see `Health`
    patience_ms: float = 0.0  # how long it may be silent; 0: it counts as dead
    allowance_ms: float = 0.0  # how long it may hold up other clusters now, though it answers


class QueueStep(Enum):
    GO_ON = "go on"
    WAIT = "wait"
    HOLD_UP = "wait, at the cost of others"
    ACT = "act"  # as `onSlowCluster` says


def step(queue: Queue, others: Sequence[Queue]) -> QueueStep:
    """The step to take before more goes into the queue of a cluster with `discard` or `fail`. `others`: clusters that
    are alive.

    Above the high watermark the sink waits for the cluster as long as it answers and the others have something to send
    meanwhile. No record is lost only because reading is faster than all clusters, or because one of them pauses for a
    moment.
    """
    if queue.bytes <= queue.high:
        return QueueStep.GO_ON
    if queue.silent_ms >= queue.patience_ms:
        return QueueStep.ACT
    if not others or any(other.bytes > other.low for other in others):
        return QueueStep.WAIT
    return QueueStep.HOLD_UP if queue.allowance_ms > 0 else QueueStep.ACT


def excess(queue: Queue) -> int:
    """Bytes to drop."""
    return max(0, queue.bytes - queue.low)
