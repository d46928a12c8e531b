"""Record batches that wait to be sent, by topic-partition. Kafka's RecordAccumulator.

The task's thread appends; the sender thread asks what is `ready`, drains it per broker, and puts batches back that
must be sent again. One call appends an Arrow batch's rows to all their partitions: the open batches take what they have
room for, in one call of the kernel and without the lock, then new ones are opened for the rest.

Memory: every batch lives in one buffer of the pool from its first row until `release`, which the sender calls on a
reply or a closed socket, never earlier (CVE-2026-35554: a buffer reused too early carried its data to another
topic).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkasource.errors import ClientClosed, KafkaSourceError
from kafkasource.records.builder import BatchBuilder, RecordColumns, append_spans
from kafkasource.sink import producer_log
from kafkasource.sink.batch import NEVER, Allotment, PartitionBatches, ProducerBatch
from kafkasource.sink.buffer_pool import BufferPool, BufferPoolExhausted
from kafkasource.sink.config import ProducerConfig
from kafkasource.sink.delivery import Delivery
from kafkasource.sink.splitting import pieces_of, target_bytes
from kafkasource.types import TopicPartition

LeaderOf = Callable[[TopicPartition], "int | None"]
Span = tuple[int, int, int]
"""A partition and [first, last): its positions in the order of rows."""

_SMALLEST_BATCH_BYTES = 16 * 1024  # Java's batch.size: what is left of ours when rows spread over very many partitions
_SMALLEST_SPLIT_BYTES = 1024  # batch.size cannot be less
_NAMED_HOLDERS = 3  # in an error


class RecordTooLarge(KafkaSourceError):
    """One record alone exceeds what a request may hold. Nothing of it was sent."""


@dataclass(frozen=True)
class ReadyCheck:
    """Partitions worth draining now by their leader, when to look again, and topics whose leaders are not known."""

    nodes: dict[int, list[PartitionBatches]]
    next_check_delay_ms: float | None  # None: nothing waits
    unknown_leader_topics: set[str]
    wants_producer_id: bool = False  # something is ready but for the producer's own id


@dataclass
class RecordAccumulator:
    config: ProducerConfig
    pool: BufferPool
    clock_ms: Callable[[], float]
    new_builder: Callable[[bytearray], BatchBuilder]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _partitions: dict[tuple[str, int], PartitionBatches] = field(default_factory=dict)  # with batches, in any state
    # Those with waiting batches. The order is that of turns: who was drained goes to the end, so that nobody starves.
    _waiting: dict[PartitionBatches, None] = field(default_factory=dict)
    _oldest_ms: float = NEVER  # no waiting batch was created earlier
    _fitting_bytes: dict[str, int] = field(default_factory=dict)  # by topic: what batches were split to
    _closed: bool = False

    @property
    def batch_bytes(self) -> int:
        """A batch larger than a request could never be sent, so `max.request.size` bounds `batch.size`."""
        return min(self.config.batch_bytes, self.config.max_request_bytes)

    # The task's thread.

    def append(
        self,
        topic: str,
        columns: RecordColumns,
        order: Any,
        spans: Sequence[Span],
        delivery: Delivery,
        wake_sender: Callable[[], None],
    ) -> None:
        """Encode rows into the batches of their partitions: each span's rows are `order[first:last]`.

        `order` and `spans` are as `order_by_partition` gives them; an order of None means the columns' own rows. Blocks
        up to `max.block.ms` for new batches' memory; raises the delivery's error when it failed meanwhile,
        RecordTooLarge, and what BufferPool.allocate raises. `wake_sender` is called when there is something to send.
        """
        if self._closed:
            delivery.raise_if_failed()  # which says why
            raise ClientClosed("the producer is closed")
        producer_log.sending(topic, spans)
        rest = self._append_to_open(topic, columns, order, spans, delivery)
        buffer_bytes = self._buffer_bytes(topic, len(spans))
        while rest:
            rest = self._append_to_new(topic, columns, order, rest, buffer_bytes, delivery, wake_sender)

    def _append_to_open(
        self, topic: str, columns: RecordColumns, order: Any, spans: Sequence[Span], delivery: Delivery
    ) -> list[Span]:
        """Fill this task's open batches; the spans, or their ends, that found no room."""
        rest: list[Span] = []
        taken: list[Span] = []
        batches: list[ProducerBatch] = []
        with self._lock:
            partitions = self._partitions
            for span in spans:
                known = partitions.get((topic, span[0]))
                batch = known.open_for(delivery) if known is not None else None
                if batch is None:
                    rest.append(span)
                else:
                    batch.appending = True
                    batches.append(batch)
                    taken.append(span)
        if batches:
            try:
                self._fill(columns, order, batches, taken, rest)
            finally:
                for batch in batches:
                    batch.appending = False
        return rest

    @staticmethod
    def _fill(
        columns: RecordColumns, order: Any, batches: list[ProducerBatch], spans: Sequence[Span], rest: list[Span]
    ) -> None:
        """Append each span to its batch; add to `rest` what found no room."""
        pieces = [(batch.builder, first, last) for batch, (_, first, last) in zip(batches, spans, strict=True)]
        reached = append_spans(columns, order, pieces)
        for batch, (partition, _, last), position in zip(batches, spans, reached, strict=True):
            if position < last:
                batch.full = True
                rest.append((partition, position, last))

    def _append_to_new(
        self,
        topic: str,
        columns: RecordColumns,
        order: Any,
        spans: Sequence[Span],
        buffer_bytes: int,
        delivery: Delivery,
        wake_sender: Callable[[], None],
    ) -> list[Span]:
        """Open a batch for each span, for as many as there is memory now, but one at least; what is left of them."""
        batches: list[ProducerBatch] = []
        try:
            for span in spans:
                tp = TopicPartition(topic, span[0])
                batch = self._open(tp, buffer_bytes, delivery, wake_sender, wait=not batches)
                if batch is None:
                    break
                batches.append(batch)
            spans, rest = spans[: len(batches)], list(spans[len(batches) :])
            self._fill(columns, order, batches, spans, rest)
        except BaseException:
            for batch in batches:
                self.release(batch)
            raise
        empty = [span for span, batch in zip(spans, batches, strict=True) if not batch.builder.record_count]
        for batch in batches:
            if not batch.builder.record_count:
                self.release(batch)
        self._add([batch for batch in batches if batch.builder is not None], wake_sender)
        for partition, first, last in empty:
            self._append_large(TopicPartition(topic, partition), columns, order, first, delivery, wake_sender)
            rest.remove((partition, first, last))
            if first + 1 < last:
                rest.append((partition, first + 1, last))
        return rest

    def _append_large(
        self,
        tp: TopicPartition,
        columns: RecordColumns,
        order: Any,
        position: int,
        delivery: Delivery,
        wake_sender: Callable[[], None],
    ) -> None:
        """A batch of its own for a row that no common one has room for."""
        needed = columns.max_record_bytes(position if order is None else order[position])
        if needed > self.config.max_request_bytes:
            raise RecordTooLarge(
                f"a record for {tp} takes up to {needed} bytes, more than 'kafka.max.request.size' "
                f"({self.config.max_request_bytes}): raise that option, and the topic's max.message.bytes if smaller"
            )
        batch = self._open(tp, needed, delivery, wake_sender, wait=True)
        assert batch is not None
        batch.full = True
        try:
            append_spans(columns, order, [(batch.builder, position, position + 1)])
        except BaseException:
            self.release(batch)
            raise
        self._add([batch], wake_sender)

    def _open(
        self, tp: TopicPartition, size: int, delivery: Delivery, wake_sender: Callable[[], None], *, wait: bool
    ) -> ProducerBatch | None:
        """A new batch that only this thread knows; None where there is no memory and `wait` is false."""
        delivery.raise_if_failed()
        if wait:
            producer_log.allocating(size, *tp)
            try:
                buffer = self.pool.allocate(size, self.config.max_block_ms, wake_sender)
            except BufferPoolExhausted as error:
                raise BufferPoolExhausted(f"{error}; {self._holders()}") from None
            except ClientClosed:
                delivery.raise_if_failed()
                raise
        else:
            found = self.pool.try_allocate(size)
            if found is None:
                return None
            producer_log.allocating(size, *tp)
            buffer = found
        try:
            delivery.raise_if_failed()  # while this thread waited
            return ProducerBatch(tp, delivery, Allotment(buffer), self.new_builder(buffer), self.clock_ms())
        except BaseException:
            self.pool.deallocate(buffer)
            raise

    def _holders(self) -> str:
        """Whose batches hold the memory, for the text of an error."""
        with self._lock:
            held = sorted(((p.held_bytes, str(p)) for p in self._partitions.values()), reverse=True)
        names = "; ".join(name for _, name in held[:_NAMED_HOLDERS])
        more = f"; and {len(held) - _NAMED_HOLDERS} partitions more" if len(held) > _NAMED_HOLDERS else ""
        return f"it is held by {names or 'rows that are being written'}{more}"

    def _add(self, batches: list[ProducerBatch], wake_sender: Callable[[], None]) -> None:
        """Show new batches of one delivery to the sender."""
        if not batches:
            return
        batches[0].delivery.opened(len(batches))
        with self._lock:
            for batch in batches:
                tp = batch.topic_partition
                known = self._partitions.get(tp)
                if known is None:
                    known = self._partitions[tp] = PartitionBatches(tp)
                known.waiting.append(batch)
                self._waiting[known] = None
            self._oldest_ms = min(self._oldest_ms, batches[0].created_ms)
        producer_log.added(batches)
        wake_sender()

    def _buffer_bytes(self, topic: str, partitions: int) -> int:
        """`batch.size`; less where so many partitions are written to that the pool could not hold one for each, and
        where the topic's brokers have called larger ones too large.

        The pool is halved, since while some batches fill others are in flight.
        """
        fair = self.pool.total_bytes // (2 * max(partitions, len(self._partitions), 1))
        largest = self._fitting_bytes.get(topic, self.batch_bytes)
        return min(self.batch_bytes, largest, max(fair, _SMALLEST_BATCH_BYTES))

    def close(self) -> None:
        """Take no more rows; whoever waits for memory fails; what waits is ready to be sent at once. Any thread."""
        self._closed = True
        self.pool.close()

    # The sender thread.

    def ready(self, leader_of: LeaderOf, now_ms: float, producer_id: int | None = -1) -> ReadyCheck:
        """Partitions whose first batch is full, has lingered, is being flushed, or must make room, and all of them once
        the accumulator is closed; by leader.

        `producer_id` is the one that batches without a lane get now; None: there is none to be had yet.
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
                if leader is None:  # found while the batch lingers
                    unknown.add(partition.topic_partition.topic)
                elif wait_ms > 0:
                    delay = min(delay, wait_ms)
                elif producer_id is None and partition.waiting[0].delivery.lane is None:
                    wants_producer_id = True
                else:
                    nodes.setdefault(leader, []).append(partition)
        return ReadyCheck(nodes, None if delay == NEVER else delay, unknown, wants_producer_id)

    def drain(self, partitions: Sequence[PartitionBatches]) -> list[ProducerBatch]:
        """Take one batch of each of these ready partitions, in turn, up to `max.request.size`; they are in flight.

        All of one lane or all of none, as the first: a request names one transactional id.
        """
        taken: list[ProducerBatch] = []
        size = 0
        with self._lock:
            for partition in partitions:
                batch = partition.waiting[0]
                if batch.appending:  # since `ready` looked
                    continue
                if taken and batch.delivery.lane is not taken[0].delivery.lane:
                    continue
                size += batch.size
                if taken and size > self.config.max_request_bytes:
                    break
                taken.append(partition.send_first())
                del self._waiting[partition]
                if partition.waiting:
                    self._waiting[partition] = None
        return taken

    def put_back(self, batch: ProducerBatch) -> None:
        """To be sent again, before anything else of its partition that was first sent later or not yet."""
        with self._lock:
            partition = self._partitions[batch.topic_partition]
            partition.put_back(batch)
            self._waiting[partition] = None
            self._oldest_ms = min(self._oldest_ms, batch.created_ms)

    def split(self, batch: ProducerBatch) -> int:
        """Put the pieces of a batch in flight in its place, as `pieces_of`; how many. Its request has been answered, or
        it was encoded but not sent.

        Batches of its topic that are opened from now on are no larger than the pieces. Nothing is changed where
        CorruptRecordBatch is raised.
        """
        pieces = pieces_of(batch, self.new_builder)
        tp, fitting = batch.topic_partition, max(target_bytes(batch), _SMALLEST_SPLIT_BYTES)
        batch.encoded = None
        batch.builder = None  # type: ignore[assignment]  # as in release
        batch.allotment.holders += len(pieces) - 1
        batch.delivery.opened(len(pieces) - 1)
        with self._lock:
            partition = self._partitions[tp]
            partition.replace(batch, pieces)
            self._waiting[partition] = None
            self._oldest_ms = min(self._oldest_ms, batch.created_ms)
            self._fitting_bytes[tp.topic] = min(fitting, self._fitting_bytes.get(tp.topic, fitting))
        return len(pieces)

    def answered(self, batch: ProducerBatch, *, stored: bool) -> None:
        """The batch in flight was answered for good."""
        with self._lock:
            partition = self._partitions[batch.topic_partition]
            partition.in_flight.remove(batch)
            if stored and batch.delivery.lane is not None:
                batch.delivery.lane.known_to_leader.add(batch.topic_partition)
            elif stored:
                partition.known_producer_id = batch.producer_id
            self._forget_if_empty(partition)

    def is_next(self, batch: ProducerBatch) -> bool:
        """Is nothing that was sent to its partition before this batch still without its final answer?"""
        with self._lock:
            return self._partitions[batch.topic_partition].is_next(batch)

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
