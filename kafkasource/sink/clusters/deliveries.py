"""Counts the records that a task handed over to one cluster, and their outcome.

Handed over = acknowledged + discarded, for every topic-partition. Records are discarded in many places and threads, and
are not counted there: the ledger finds them as the difference at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from kafkasource.errors import AuthorizationFailed, DeadlineExceeded, KafkaSourceError, OutOfOrderSequenceNumber
from kafkasource.exactly_once.task.content import ContentSum
from kafkasource.kafka.producer.delivery import DeadLetterTopic, Delivery
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.producer.rows import Span
from kafkasource.kafka.records.builder import RecordColumns
from kafkasource.sink.clusters.offset_spans import StoredAt
from kafkasource.sink.clusters.slow_cluster import Health, Refusals
from kafkasource.types import Discarded, TopicPartition, Written


class Dropped(KafkaSourceError):
    """The sink gave batches up because their cluster is too slow. Only their delivery sees this error."""


class ClusterDelivery(Delivery):
    """One task's rows for one producer of a cluster. Some may be discarded."""

    def __init__(
        self,
        transaction: TaskTransaction | None,
        health: Health,
        refusals: Refusals,
        news: threading.Condition,
        dead_letters: DeadLetterTopic | None = None,
        *,
        discards: bool = False,
        ages: bool = False,
    ) -> None:
        """Every batch that is settled notifies `news`. `ages`: a batch that is late does not fail the task.
        `discards`: nor does one that was dropped, or that the cluster does not let this user write."""
        super().__init__(transaction, dead_letters)
        self._health, self._refusals = health, refusals
        self._news = news
        self._discards, self._ages = discards, ages
        self.refused = False  # the cluster gives this user no producer id, so no row of the delivery is written
        self.content = ContentSum()  # of what was handed over, with exactly once
        self.stored_at: dict[TopicPartition, StoredAt] | None = None  # filled where it is not None

    def takes(self, topic: str, columns: RecordColumns, order: memoryview | None, spans: Sequence[Span]) -> None:
        """Count these rows, which are about to be handed over (exactly once)."""
        if self.transaction is not None:
            self.content.add(topic, columns, order, spans)

    @property
    def settled(self) -> bool:
        return not self.waits

    def acknowledged(
        self, tp: TopicPartition, records: int, size: int, last_offset: int | None, *, in_order: bool = True
    ) -> None:
        self._health.answered()
        self._refusals.taken(tp.topic)
        if self.stored_at is not None and not in_order:
            self._health.keeps_no_order()
        super().acknowledged(tp, records, size, last_offset, in_order=in_order)
        self._tell()

    def stored(self, tp: TopicPartition, records: int, first_offset: int | None) -> None:
        if self.stored_at is not None:
            self.stored_at.setdefault(tp, StoredAt()).add(first_offset, records)

    def gave_up(self, topic: str, error: BaseException) -> None:
        if self._discards and isinstance(error, AuthorizationFailed):
            if not self.refused:
                self._refusals.warn(topic, error)
            self.drop()
        # Out of order: a batch before it was given up. Its own rows may be fresh: only `discards` may drop them.
        elif (self._discards and isinstance(error, (Dropped, OutOfOrderSequenceNumber))) or (
            (self._discards or self._ages) and isinstance(error, DeadlineExceeded)
        ):
            self.drop()
        else:
            self.fail(error)
        self._tell()

    def late(self, error: BaseException) -> None:
        if not (self._discards or self._ages):
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        if self._discards and isinstance(error, AuthorizationFailed):  # no producer id for this user
            self._refusals.warn("", error)
            self.refused = True
            self.abandon(error)
        else:
            super().fail(error)
        self._tell()

    def _tell(self) -> None:
        with self._news:
            self._news.notify_all()


class Ledger:
    """The records of a task that were handed over to one cluster. For the task's thread."""

    def __init__(self) -> None:
        self._handed_over: dict[TopicPartition, tuple[int, float]] = {}  # records, bytes

    def hand_over(self, topic: str, records: Mapping[int, int], record_bytes: float) -> None:
        """`records` by partition, -1: the cluster never said which partitions the topic has."""
        for partition, count in records.items():
            tp = TopicPartition(topic, partition)
            before, size = self._handed_over.get(tp, (0, 0.0))
            self._handed_over[tp] = before + count, size + count * record_bytes

    def take_back(self, tp: TopicPartition, count: int) -> None:
        """Uncount records of this partition that become dead letters, which are handed over themselves."""
        before, size = self._handed_over[tp]
        self._handed_over[tp] = before - count, size * (before - count) / before

    def discarded(self, written: Mapping[TopicPartition, Written]) -> dict[TopicPartition, Discarded]:
        """The records that were handed over and are not written. Leaves out partitions that are written whole."""
        found = {}
        for tp, (records, size) in self._handed_over.items():
            missing = records - (written[tp].records if tp in written else 0)
            if missing:
                found[tp] = Discarded(missing, round(size * missing / records))
        return found
