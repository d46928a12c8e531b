"""Counts the records that a task handed over for writing, and their outcome. The task waits on it before its success.

The task's thread owns a delivery, and the sender thread settles it. A delivery fails once, with its first error. The
sender drops batches of a failed delivery, and they leave no trace in the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.types import TopicPartition, Written

if TYPE_CHECKING:
    from kafkasource.kafka.producer.partitioner import Partitioner
    from kafkasource.kafka.producer.rows import Rows
    from kafkasource.kafka.producer.sharing import Compressor
    from kafkasource.kafka.records.builder import RecordColumns


@dataclass(frozen=True)
class DeadLetterTopic:
    """The topic for a task's records that cannot be written to their own topic: `badRecords=topic:NAME`."""

    topic: str
    partitioner: Partitioner
    # Makes dead letters of the records with these numbers, by the reason of each.
    letters_of: Callable[[TopicPartition, RecordColumns, Mapping[int, str]], Rows]


class Delivery:
    """Batches opened, acknowledged, failed. Any thread may call any method."""

    def __init__(self, transaction: TaskTransaction | None = None, dead_letters: DeadLetterTopic | None = None) -> None:
        self.transaction = transaction  # None: at least once, under the producer's own id
        self.dead_letters = dead_letters  # None: such a record fails the task
        # Dead letters that the task's thread has not handed over: at most the records that the pool held when it last
        # did, and those of the Arrow batch that it is appending.
        self._set_aside: list[tuple[TopicPartition, Rows]] = []
        self._settled = threading.Condition()
        self._open_batches = 0
        self._error: BaseException | None = None
        self._abandoned = False
        self.has_timestamps = False  # rows have their own: a broker that cannot store timestamps must not get them
        self.flushing = False  # the task has handed over its last row: its batches are sent without lingering
        self.told_of_retries = False  # the log says that brokers refuse batches for some time
        self.max_block_ms: int | None = None  # how long the task waits for memory; None: as configured
        self.compressor: Compressor | None = None  # of batches that other clusters get, too
        self.written: dict[TopicPartition, Written] = {}  # acknowledged

    @property
    def records(self) -> int:
        """Acknowledged."""
        return sum(one.records for one in self.written.values())

    @property
    def bytes(self) -> int:
        """The acknowledged bytes as sent: encoded and compressed."""
        return sum(one.bytes for one in self.written.values())

    @property
    def last_offsets(self) -> dict[TopicPartition, int]:
        """The last offset of each partition, inclusive. Missing where the broker did not say it (acks=0)."""
        return {tp: one.last_offset for tp, one in self.written.items() if one.last_offset is not None}

    @property
    def failed(self) -> bool:
        return self._error is not None

    @property
    def error(self) -> BaseException | None:
        return self._error

    @property
    def waits(self) -> bool:
        """Is there a batch or a dead letter whose outcome is open, and a task that wants to know it?"""
        return (self._open_batches > 0 or bool(self._set_aside)) and self._error is None

    def opened(self, batches: int) -> None:
        """Count this many more batches whose outcome is open."""
        with self._settled:
            self._open_batches += batches

    def acknowledged(
        self, tp: TopicPartition, records: int, size: int, last_offset: int | None, *, in_order: bool = True
    ) -> None:
        """One batch is stored as `acks` demands. `last_offset` is inclusive, or None if the broker did not say it.

        `in_order`: the broker keeps order over retries, so batches that were handed over earlier lie before this one.
        """
        first_offset = None if last_offset is None else last_offset - records + 1
        with self._settled:
            self._open_batches -= 1
            if not self._abandoned:
                new, before = Written(records, size, first_offset, last_offset), self.written.get(tp)
                self.written[tp] = new if before is None else before.merged(new)
                self.stored(tp, records, first_offset if in_order else None)
            self._settled.notify_all()

    def stored(self, tp: TopicPartition, records: int, first_offset: int | None) -> None:
        """Note, in a subclass, that a written batch begins at `first_offset`. None: that is not certain.

        Called by the sender thread, under the delivery's lock.
        """

    def fail(self, error: BaseException) -> None:
        """Give the delivery up. Only the first error counts: the others follow from it. Does nothing if the task has
        handed over its last row and all rows are acknowledged."""
        with self._settled:
            if self._error is None and not (self.flushing and not self._open_batches and not self._set_aside):
                self._error = error
            self._settled.notify_all()

    def gave_up(self, topic: str, error: BaseException) -> None:
        """One batch for the topic will never be sent (again)."""
        self.fail(error)

    def drop(self) -> None:
        """Settle a batch that will not be sent (again) without failing the delivery: the task continues without it."""
        with self._settled:
            self._open_batches -= 1
            self._settled.notify_all()

    def set_aside(self, tp: TopicPartition, letters: Rows, *, batches: int = 0) -> None:
        """Set aside the letters of records that cannot be written to `tp`, and settle this many batches."""
        with self._settled:
            self._open_batches -= batches
            self._set_aside.append((tp, letters))
            self._settled.notify_all()

    def take_set_aside(self) -> list[tuple[TopicPartition, Rows]]:
        """The dead letters that the task's thread must append now, with the partitions of their records. For that
        thread."""
        if not self._set_aside:
            return []
        with self._settled:
            taken, self._set_aside = self._set_aside, []
            self.flushing = False  # there is more to append
        return taken

    def abandon(self, error: BaseException) -> None:
        """Count nothing more as written, and let `wait` return. Does nothing if all batches are settled. For the task's
        thread.

        The batches that still wait get `error`, so that the sender drops them.
        """
        with self._settled:
            if self.waits:
                self._abandoned = True
                self._error = error

    def late(self, error: BaseException) -> None:
        """One batch has been on the wire for longer than it may. Nobody knows yet whether it is stored."""
        self.fail(error)

    def raise_if_failed(self) -> None:
        if self._error is not None:
            raise self._error

    def wait(self, sender_is_alive: Callable[[], bool]) -> None:
        """Return when every batch is acknowledged, the delivery is abandoned, or records were set aside. Raises the
        delivery's error as soon as there is one.

        The sender bounds the wait: it settles every batch within `delivery.timeout.ms`. A sender thread that has died
        settles nothing, so this checks that it lives.
        """
        if self._abandoned:
            return
        with self._settled:
            while self._open_batches and not self._set_aside and self._error is None:
                if not self._settled.wait(1.0) and not sender_is_alive():
                    self._error = KafkaSourceError("the sender thread of this executor worker has ended")
        self.raise_if_failed()
