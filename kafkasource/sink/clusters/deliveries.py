"""Counts what a task handed over to one cluster, and what became of it.

Handed over = acknowledged + discarded, for every topic-partition. Records are discarded in many places and threads, and
are not counted there: the ledger finds them as the difference at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from kafkasource.errors import DeadlineExceeded, KafkaSourceError, OutOfOrderSequenceNumber
from kafkasource.sink.clusters.offset_spans import StoredAt
from kafkasource.sink.clusters.slow_cluster import Health
from kafkasource.sink.producer.delivery import Delivery
from kafkasource.sink.producer.producer_id import TaskTransaction
from kafkasource.types import Discarded, TopicPartition, Written


class Dropped(KafkaSourceError):
    """The sink gave batches up because their cluster is too slow. Only their delivery sees this error."""


class ClusterDelivery(Delivery):
    """One task's rows for one producer of a cluster. Some may be discarded."""

    def __init__(
        self, transaction: TaskTransaction | None, health: Health, news: threading.Condition, *, may_discard: bool
    ) -> None:
        """Every batch that is settled notifies `news`. `may_discard`: late or dropped batches do not fail the task."""
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
    """The records that one task handed over to one cluster. For the task's thread."""

    def __init__(self) -> None:
        self._handed_over: dict[TopicPartition, tuple[int, float]] = {}  # records, bytes

    def hand_over(self, topic: str, records: Mapping[int, int], record_bytes: float) -> None:
        """`records` by partition, -1: the cluster never said which partitions the topic has."""
        for partition, count in records.items():
            tp = TopicPartition(topic, partition)
            before, size = self._handed_over.get(tp, (0, 0.0))
            self._handed_over[tp] = before + count, size + count * record_bytes

    def discarded(self, written: Mapping[TopicPartition, Written]) -> dict[TopicPartition, Discarded]:
        """The records that were handed over and are not written. Leaves out partitions that are written whole."""
        found = {}
        for tp, (records, size) in self._handed_over.items():
            missing = records - (written[tp].records if tp in written else 0)
            if missing:
                found[tp] = Discarded(missing, round(size * missing / records))
        return found
