"""What a task handed over to one cluster and what became of it; and whether the cluster answers at all.

Handed over = acknowledged + discarded, for every topic-partition: what is discarded is never counted where it happens,
in many places and threads, but by this difference at the end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from kafkasource.errors import DeadlineExceeded, KafkaSourceError, OutOfOrderSequenceNumber
from kafkasource.sink.clusters.source_offsets import StoredAt
from kafkasource.sink.producer.delivery import Delivery
from kafkasource.sink.producer.producer_id import TaskTransaction
from kafkasource.types import Discarded, TopicPartition, Written

log = logging.getLogger("kafkasource.sink")

_TENTH = 10  # of the time is what a slow cluster may cost the others, and a dead one


class Dropped(KafkaSourceError):
    """Batches were given up because their cluster is too slow. Seen by nobody but the delivery that counts them."""


class Health:
    """When a cluster last acknowledged something, and whether it is worth waiting for. Any thread; kept over tasks."""

    def __init__(self, wait_ms: int, clock_ms: Callable[[], float], cluster: str = "") -> None:
        self._cluster = cluster
        self._wait_ms = wait_ms
        self._clock_ms = clock_ms
        self._answer_due_ms = clock_ms()  # or the last one came
        self._dead_until_ms: float | None = None
        self._was_dead = False
        self._told_of_order = False
        self._allowance_ms, self._allowed_at_ms = float(wait_ms), clock_ms()

    def handed_over(self, linger_ms: int, nothing_before: bool) -> None:
        """It will be sent something within `linger_ms`. An answer is due from then on where there was nothing before
        that it owes one to, or where it is time to try a dead one again."""
        if nothing_before or (self._dead_until_ms is not None and not self.dead):
            self._answer_due_ms = self._clock_ms() + linger_ms
            if not self.dead:
                self._dead_until_ms = None

    def flushed(self) -> None:
        """Nothing lingers any more."""
        self._answer_due_ms = min(self._answer_due_ms, self._clock_ms())

    def keeps_no_order(self) -> None:
        """Said once. The options ask for idempotence where there is a map of offsets, so the brokers have none."""
        if not self._told_of_order:
            self._told_of_order = True
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
        """For how long nothing has come, though something was sent."""
        return self._clock_ms() - self._answer_due_ms

    def waited_in_vain(self) -> None:
        if not self._was_dead:
            self._was_dead = True
            log.warning("cluster %r acknowledged nothing for %d ms: not waited for", self._cluster, self._wait_ms)
        self._dead_until_ms = self._clock_ms() + _TENTH * self._wait_ms

    @property
    def allowance_ms(self) -> float:
        """How long it may hold up other clusters: `slowClusterWait`, which grows again by a tenth of the time."""
        now_ms = self._clock_ms()
        grown = self._allowance_ms + (now_ms - self._allowed_at_ms) / _TENTH
        self._allowance_ms, self._allowed_at_ms = min(float(self._wait_ms), grown), now_ms
        return self._allowance_ms

    def held_up(self, others_ms: float) -> None:
        """Others were held up for so long. The task's thread, as `allowance_ms`."""
        self._allowance_ms = self.allowance_ms - others_ms

    @property
    def dead(self) -> bool:
        """It was waited for in vain, and not long ago."""
        return self._dead_until_ms is not None and self._clock_ms() < self._dead_until_ms

    @property
    def patience_ms(self) -> int:
        """How long it may be waited for now."""
        return 0 if self.dead else self._wait_ms


class ClusterDelivery(Delivery):
    """One task's rows for one lane of a cluster, of which some may be discarded."""

    def __init__(
        self, transaction: TaskTransaction | None, health: Health, news: threading.Condition, *, may_discard: bool
    ) -> None:
        """`news` is notified whenever something was settled; `may_discard`: what is late or dropped is no failure."""
        super().__init__(transaction)
        self._health = health
        self._news = news
        self._may_discard = may_discard
        self.stored_at: dict[TopicPartition, StoredAt] | None = None  # filled where it is not None

    @property
    def settled(self) -> bool:
        return not self.waits

    def acknowledged(
        self, tp: TopicPartition, records: int, size: int, last_offset: int | None, *, in_order: bool = True
    ) -> None:
        self._health.answered()
        if self.stored_at is not None and not in_order:
            self._health.keeps_no_order()
        super().acknowledged(tp, records, size, last_offset, in_order=in_order)
        self._tell()

    def stored(self, tp: TopicPartition, records: int, first_offset: int | None) -> None:
        if self.stored_at is not None:
            self.stored_at.setdefault(tp, StoredAt()).add(first_offset, records)

    def gave_up(self, error: BaseException) -> None:
        # Out of order: a batch before it was given up.
        if self._may_discard and isinstance(error, (Dropped, DeadlineExceeded, OutOfOrderSequenceNumber)):
            self.drop()
        else:
            self.fail(error)
        self._tell()

    def late(self, error: BaseException) -> None:
        if not self._may_discard:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self._tell()

    def _tell(self) -> None:
        with self._news:
            self._news.notify_all()


class Ledger:
    """Of one cluster and one task. The task's thread."""

    def __init__(self) -> None:
        self._handed_over: dict[TopicPartition, tuple[int, float]] = {}  # records, bytes

    def hand_over(self, topic: str, records: Mapping[int, int], record_bytes: float) -> None:
        """`records` by partition, -1: the cluster never said which partitions the topic has."""
        for partition, count in records.items():
            tp = TopicPartition(topic, partition)
            before, size = self._handed_over.get(tp, (0, 0.0))
            self._handed_over[tp] = before + count, size + count * record_bytes

    def discarded(self, written: Mapping[TopicPartition, Written]) -> dict[TopicPartition, Discarded]:
        """What was handed over and is not written; partitions of which all is written are left out."""
        found = {}
        for tp, (records, size) in self._handed_over.items():
            missing = records - (written[tp].records if tp in written else 0)
            if missing:
                found[tp] = Discarded(missing, round(size * missing / records))
        return found
