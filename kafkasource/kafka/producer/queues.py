"""The record batches by topic-partition, waiting and in flight, with the questions and actions of the sender thread.

They know which partitions are `ready`, the order of their turns, which batches must be sent again, and which expire.
The task's thread adds batches through a `RecordAccumulator`, which has these queues.

Memory: every batch lives in one buffer of the pool from its first row until `release`, which the sender calls on a
reply or a closed socket, never earlier (CVE-2026-35554: a buffer reused too early carried its data to another
topic).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kafkasource.kafka.producer.batch import (
    PartitionBatches,
    ProducerBatch,
    columns_of,
    pieces_of,
    rest_of,
    target_bytes,
)
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.delivery import Delivery
from kafkasource.kafka.producer.fitting import Fitting
from kafkasource.kafka.producer.pool import Buffer, BufferPool
from kafkasource.kafka.producer.rows import Span
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns
from kafkasource.types import NEVER, TopicPartition

LeaderOf = Callable[[TopicPartition], "int | None"]

_NAMED_HOLDERS = 3  # in an error


@dataclass(frozen=True)
class ReadyCheck:
    """Partitions worth draining now by their leader, when to look again, and topics whose leaders are not known."""

    nodes: dict[int, list[PartitionBatches]]
    next_check_delay_ms: float | None  # None: nothing waits
    unknown_leader_topics: set[str]
    wants_producer_id: bool = False  # some batch is ready except for the producer's own id


class PartitionQueues:
    """See the module. It has a lock of its own."""

    def __init__(self, config: ProducerConfig, pool: BufferPool, new_builder: Callable[[Buffer], BatchBuilder]) -> None:
        self.config = config
        self.pool = pool
        self.new_builder = new_builder
        self._lock = threading.Lock()
        self._partitions: dict[tuple[str, int], PartitionBatches] = {}  # with batches, in any state
        # Partitions with waiting batches, in the order of their turns: a partition that was drained goes to the end,
        # so that none starves.
        self._waiting: dict[PartitionBatches, None] = {}
        self._oldest_ms: float = NEVER  # no waiting batch was created earlier
        self._next_check_ms: float = NEVER  # the sender calls `ready` again by then, unless it is woken
        self._fitting: dict[str, Fitting] = {}  # of topics whose brokers have refused a batch as too large
        self._closed = False

    def close(self) -> None:
        """Take no more rows. A thread that waits for memory fails. Waiting batches are ready to be sent at once. For
        any thread."""
        self._closed = True
        self.pool.close()

    @property
    def closed(self) -> bool:
        return self._closed

    def holders(self) -> str:
        """List the partitions whose batches hold the memory, for the text of an error. For any thread."""
        with self._lock:
            held = sorted(((p.held_bytes, str(p)) for p in self._partitions.values()), reverse=True)
        names = "; ".join(name for _, name in held[:_NAMED_HOLDERS])
        more = f"; and {len(held) - _NAMED_HOLDERS} partitions more" if len(held) > _NAMED_HOLDERS else ""
        return f"it is held by {names or 'rows that are being written'}{more}"

    # The task's thread.

    def open_partitions(self) -> int:
        """How many partitions have batches, in any state."""
        return len(self._partitions)

    def fitting_bytes(self, topic: str) -> int | None:
        """How large a batch of the topic may be before compression, if its brokers have refused larger ones."""
        fitting = self._fitting.get(topic)
        return None if fitting is None else fitting.plain_bytes

    def take_open(
        self, topic: str, spans: Sequence[Span], delivery: Delivery
    ) -> tuple[list[ProducerBatch], list[Span], list[Span]]:
        """This task's open batches, marked as `appending`, the spans for them, and the spans without an open batch."""
        batches: list[ProducerBatch] = []
        taken: list[Span] = []
        rest: list[Span] = []
        with self._lock:
            for span in spans:
                known = self._partitions.get((topic, span[0]))
                batch = known.open_for(delivery) if known is not None else None
                if batch is None:
                    rest.append(span)
                else:
                    batch.appending = True
                    batches.append(batch)
                    taken.append(span)
        return batches, taken, rest

    def add(self, batches: Sequence[ProducerBatch]) -> bool:
        """Show new batches to the sender, behind those that wait already. Returns whether it must be woken, because one
        of its partitions may be sent before it looks again by itself."""
        due_ms = NEVER
        with self._lock:
            for batch in batches:
                tp = batch.topic_partition
                known = self._partitions.get(tp)
                if known is None:
                    known = self._partitions[tp] = PartitionBatches(tp)
                known.waiting.append(batch)
                self._waiting[known] = None
                self._oldest_ms = min(self._oldest_ms, batch.created_ms)
                lingers = len(known.waiting) == 1 and not batch.full
                due_ms = min(due_ms, batch.created_ms + self.config.linger_ms if lingers else batch.created_ms)
            return due_ms < self._next_check_ms

    def unsent(self) -> list[ProducerBatch]:
        """The waiting batches that were never sent. Any thread; they may be on their way when the caller looks at
        them."""
        with self._lock:
            return [batch for partition in self._waiting for batch in partition.waiting if batch.number < 0]

    def take_unsent(self, chosen: Collection[ProducerBatch]) -> list[ProducerBatch]:
        """Remove those of the batches that still wait and were never sent. Only for the thread that appends."""
        return self._take(lambda batch: batch.number < 0 and batch in chosen)

    # The sender thread.

    def ready(self, leader_of: LeaderOf, now_ms: float, producer_id: int | None = -1) -> ReadyCheck:
        """The partitions, by leader, whose first batch is full, has lingered, is flushed, or must free memory. Once the
        accumulator is closed, all partitions.

        `producer_id` is the id that batches without a transaction get now. None: there is no id yet.
        """
        nodes: dict[int, list[PartitionBatches]] = {}
        unknown: set[str] = set()
        delay = NEVER
        wants_producer_id = False
        in_a_hurry = self._closed or self.pool.queued > 0
        with self._lock:
            for partition in self._waiting:
                wait_ms = partition.wait_ms(self.config, in_a_hurry, producer_id, now_ms)
                if wait_ms == NEVER:
                    continue
                leader = leader_of(partition.topic_partition)
                if leader is None:  # it is found while the batch lingers
                    unknown.add(partition.topic_partition.topic)
                elif wait_ms > 0:
                    delay = min(delay, wait_ms)
                elif producer_id is None and partition.waiting[0].delivery.transaction is None:
                    wants_producer_id = True
                else:
                    nodes.setdefault(leader, []).append(partition)
            self._next_check_ms = now_ms + delay
        return ReadyCheck(nodes, None if delay == NEVER else delay, unknown, wants_producer_id)

    def drain(self, partitions: Sequence[PartitionBatches]) -> list[ProducerBatch]:
        """Take one batch of each of these ready partitions, in turn, up to `max.request.size`. They are in flight then.

        All have the transaction of the first, or all have none: a request names one transactional id.
        """
        taken: list[ProducerBatch] = []
        size = 0
        with self._lock:
            for partition in partitions:
                if not partition.waiting:  # `take_unsent`, since `ready` looked
                    continue
                batch = partition.waiting[0]
                if batch.held_back:  # likewise
                    continue
                if taken and batch.delivery.transaction is not taken[0].delivery.transaction:
                    continue
                size += batch.size
                if taken and size > self.config.max_request_bytes:
                    break
                taken.append(partition.send_first())
                del self._waiting[partition]
                if partition.waiting:
                    self._waiting[partition] = None
        return taken

    def encoded(self, batch: ProducerBatch) -> None:
        """A batch was encoded: its size says how well records of its topic compress."""
        topic = batch.topic_partition.topic
        if (fitting := self._fitting.get(topic)) is not None:
            self._fitting[topic] = fitting.seen(batch.builder.estimated_size, batch.size)

    def put_back(self, batch: ProducerBatch) -> None:
        """Send the batch again, before any batch of its partition that was first sent later or not yet."""
        with self._lock:
            partition = self._partitions[batch.topic_partition]
            partition.put_back(batch)
            self._waiting[partition] = None
            self._oldest_ms = min(self._oldest_ms, batch.created_ms)

    def split(self, batch: ProducerBatch, *, too_large: bool = True) -> int:
        """Replace a batch in flight with its pieces (`pieces_of`). Returns their number. Its request has been answered,
        or it was encoded but not sent.

        `too_large`: batches of its topic that are opened from now on are no larger than the pieces, until their
        records compress better (`Fitting`). If it raises CorruptRecordBatch, nothing has changed.
        """
        pieces = pieces_of(batch, self.new_builder)
        tp = batch.topic_partition
        if too_large:
            self._fitting[tp.topic] = Fitting.halved(
                batch.builder.estimated_size, batch.size, target_bytes(batch), self._fitting.get(tp.topic)
            )
        batch.encoded = None
        batch.builder = None  # type: ignore[assignment]  # as in release
        batch.allotment.holders += len(pieces) - 1
        batch.delivery.opened(len(pieces) - 1)
        with self._lock:
            partition = self._partitions[tp]
            partition.replace(batch, pieces)
            self._waiting[partition] = None
            self._oldest_ms = min(self._oldest_ms, batch.created_ms)
        return len(pieces)

    def may_be_stored(self, batch: ProducerBatch) -> bool:
        """May a broker have stored an earlier attempt of a batch with sequences, or of one behind it? Then none of them
        may get other sequences: the broker would take a late copy for other records, or these for the copy."""
        with self._lock:
            behind = self._partitions[batch.topic_partition].sequenced_behind(batch)
        return batch.sequenced and (batch.unanswered or any(other.unanswered for other in behind))

    def open_gap(self, batch: ProducerBatch) -> None:
        """A batch with sequences is given up: brokers refuse those of the batches behind it."""
        with self._lock:
            partition = self._partitions.get(batch.topic_partition)
            for other in partition.sequenced_behind(batch) if partition is not None else ():
                other.behind_gap = True

    def take_out(self, batch: ProducerBatch, numbers: Collection[int]) -> tuple[RecordColumns, bool]:
        """Take these records out of a batch in flight, which the broker has refused whole. The rest goes again in its
        place, and batches behind it move up by as many sequences.

        Returns the batch's records as they were, and whether any are left in it. If none are, nothing is sent in its
        place, and the caller settles the batch. If it raises CorruptRecordBatch, nothing has changed.
        """
        columns = columns_of(batch)
        rest = rest_of(batch, columns, numbers, self.new_builder) if len(numbers) < batch.record_count else None
        with self._lock:
            partition = self._partitions[batch.topic_partition]
            for other in partition.sequenced_behind(batch):
                other.records_gone += len(numbers)
            if rest is not None:
                batch.encoded = None
                batch.builder = None  # type: ignore[assignment]  # as in release
                partition.replace(batch, [rest])
                self._waiting[partition] = None
                self._oldest_ms = min(self._oldest_ms, batch.created_ms)
        return columns, rest is not None

    def answered(self, batch: ProducerBatch, *, stored: bool) -> None:
        """The batch in flight has its final answer."""
        with self._lock:
            partition = self._partitions[batch.topic_partition]
            partition.in_flight.remove(batch)
            if stored and batch.delivery.transaction is not None:
                batch.delivery.transaction.known_to_leader.add(batch.topic_partition)
            elif stored:
                partition.known_producer_id = batch.producer_id
            self._forget_if_empty(partition)

    def is_next(self, batch: ProducerBatch) -> bool:
        """Whether every batch that was sent to its partition before this batch has its final answer."""
        with self._lock:
            return self._partitions[batch.topic_partition].is_next(batch)

    def is_alone(self, batch: ProducerBatch) -> bool:
        """Has every other batch that was sent to its partition its final answer?"""
        with self._lock:
            return self._partitions[batch.topic_partition].is_alone(batch)

    def release(self, batch: ProducerBatch) -> None:
        """Give the batch's memory back: its request was answered or its socket closed, or it was never sent."""
        batch.encoded = None
        batch.builder = None  # type: ignore[assignment]  # no view of the buffer may outlive this
        batch.allotment.holders -= 1
        if not batch.allotment.holders:
            self.pool.deallocate(batch.allotment.buffer)

    def take_of(self, deliveries: Collection[Delivery]) -> list[ProducerBatch]:
        """Remove the waiting batches of deliveries that have failed and append no more."""
        return self._take(lambda batch: batch.delivery in deliveries)

    def take_expired(self, now_ms: float) -> list[ProducerBatch]:
        """Remove waiting batches older than `delivery.timeout.ms`."""
        oldest = now_ms - self.config.delivery_timeout_ms
        return self._take(lambda batch: batch.created_ms <= oldest) if self._oldest_ms <= oldest else []

    def _take(self, unwanted: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        taken: list[ProducerBatch] = []
        with self._lock:
            self._oldest_ms = NEVER
            for partition in list(self._waiting):
                for batch in list(partition.waiting):
                    if unwanted(batch) and not batch.appending:
                        partition.waiting.remove(batch)
                        taken.append(batch)
                    else:
                        self._oldest_ms = min(self._oldest_ms, batch.created_ms)
                if not partition.waiting:
                    del self._waiting[partition]
                    self._forget_if_empty(partition)
        return taken

    def _forget_if_empty(self, partition: PartitionBatches) -> None:
        if not partition.waiting and not partition.in_flight:
            del self._partitions[partition.topic_partition]

    def next_expiry_ms(self) -> float:
        """No waiting batch expires earlier; NEVER when nothing waits."""
        return self._oldest_ms + self.config.delivery_timeout_ms
