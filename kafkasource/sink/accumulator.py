"""Record batches that wait to be sent: one deque per topic-partition, the last batch open for more rows.

Kafka's RecordAccumulator. The task's thread appends; the sender thread asks what is `ready`, drains it per broker,
and puts batches back at the front when they must be sent again. A partition with a batch in flight is muted: its
next batch is sent only after the answer, so the order within a partition holds whatever is retried.

Memory: every batch lives in one buffer of the pool from its first row until `release`, which the sender calls on a
reply or a closed socket, never earlier (CVE-2026-35554: a buffer reused too early carried its data to another
topic).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafkasource.errors import KafkaSourceError
from kafkasource.records.builder import BatchBuilder, RecordColumns
from kafkasource.sink.buffer_pool import BufferPool
from kafkasource.sink.config import ProducerConfig
from kafkasource.sink.delivery import Delivery
from kafkasource.types import TopicPartition

LeaderOf = Callable[[TopicPartition], "int | None"]


class RecordTooLarge(KafkaSourceError):
    """One record alone exceeds what a request may hold. Nothing of it was sent."""


@dataclass(eq=False)
class ProducerBatch:
    """Rows of one task for one partition. Built by the task's thread until full or drained, then the sender's."""

    topic_partition: TopicPartition
    delivery: Delivery
    buffer: bytearray
    builder: BatchBuilder
    created_ms: float
    full: bool = False
    attempts: int = 0  # times it was sent
    last_attempt_ms: float = 0.0
    encoded: Any = None  # bytes or memoryview once closed: what is sent, the same at every attempt
    record_count: int = 0  # of `encoded`
    last_error: BaseException | None = None  # of the last attempt
    sequenced: bool = False  # carries a producer id and sequence: the broker knows it from other batches

    def close(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Encode for sending; -1 for all three where the producer is not idempotent. Raises what the codec raises."""
        self.record_count = self.builder.record_count
        self.encoded = self.builder.close(producer_id, producer_epoch, base_sequence)
        self.sequenced = producer_id >= 0

    @property
    def size(self) -> int:
        """Bytes on the wire; before `close`, bytes before compression."""
        return len(self.encoded) if self.encoded is not None else self.builder.estimated_size


@dataclass(frozen=True)
class ReadyCheck:
    """Brokers worth draining now, when to look again, and topics whose leaders are not known."""

    nodes: set[int]
    next_check_delay_ms: float | None  # None: nothing waits
    unknown_leader_topics: set[str]


@dataclass
class RecordAccumulator:
    config: ProducerConfig
    pool: BufferPool
    clock_ms: Callable[[], float]
    new_builder: Callable[[bytearray], BatchBuilder]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _batches: dict[TopicPartition, deque[ProducerBatch]] = field(default_factory=dict)
    _muted: set[TopicPartition] = field(default_factory=set)
    _drain_index: dict[int, int] = field(default_factory=dict)  # by node: where the next drain begins

    @property
    def batch_bytes(self) -> int:
        """A batch larger than a request could never be sent, so `max.request.size` bounds `batch.size`."""
        return min(self.config.batch_bytes, self.config.max_request_bytes)

    # The task's thread.

    def append(
        self,
        tp: TopicPartition,
        columns: RecordColumns,
        rows: Any,
        first: int,
        last: int,
        delivery: Delivery,
        wake_sender: Callable[[], None],
    ) -> None:
        """Encode rows into the partition's batches: those in `rows[first:last]`; [first, last) where that is None.

        Blocks up to `max.block.ms` for each new batch's memory; raises the delivery's error when it failed meanwhile,
        RecordTooLarge, and what BufferPool.allocate raises. `wake_sender` is called when there is something to send.
        """
        position = self._append_to_open(tp, columns, rows, first, last, delivery)
        while position < last:
            delivery.raise_if_failed()
            row = position if rows is None else rows[position]
            batch = self._new_batch(tp, columns.max_record_bytes(row), delivery, wake_sender)
            try:
                position = self._fill(batch, columns, rows, position, last)
            except BaseException:
                self.release(batch)
                raise
            delivery.opened()
            with self._lock:
                self._batches.setdefault(tp, deque()).append(batch)
            wake_sender()

    def _append_to_open(
        self, tp: TopicPartition, columns: RecordColumns, rows: Any, first: int, last: int, delivery: Delivery
    ) -> int:
        """Fill the batch at the back, if it is this task's and still open; the first position that found no room."""
        with self._lock:
            waiting = self._batches.get(tp)
            if not waiting:
                return first
            batch = waiting[-1]
            if batch.delivery is not delivery or batch.full or batch.encoded is not None:
                return first
            return self._fill(batch, columns, rows, first, last)

    @staticmethod
    def _fill(batch: ProducerBatch, columns: RecordColumns, rows: Any, first: int, last: int) -> int:
        position = batch.builder.append(columns, rows, first, last)
        batch.full = position < last
        return position

    def _new_batch(
        self, tp: TopicPartition, needed: int, delivery: Delivery, wake_sender: Callable[[], None]
    ) -> ProducerBatch:
        """An empty batch with room for a record that may need so many bytes."""
        if needed > self.config.max_request_bytes:
            raise RecordTooLarge(
                f"a record for {tp} takes up to {needed} bytes, more than 'kafka.max.request.size' "
                f"({self.config.max_request_bytes}): raise that option, and the topic's max.message.bytes if smaller"
            )
        buffer = self.pool.allocate(max(self.batch_bytes, needed), self.config.max_block_ms, wake_sender)
        return ProducerBatch(tp, delivery, buffer, self.new_builder(buffer), self.clock_ms())

    # The sender thread.

    def ready(self, leader_of: LeaderOf, now_ms: float) -> ReadyCheck:
        """Brokers leading a partition whose first batch is full, has lingered, is being flushed, or must make room."""
        nodes: set[int] = set()
        unknown: set[str] = set()
        delay: float | None = None
        exhausted = self.pool.queued > 0
        with self._lock:
            for tp, waiting in self._batches.items():
                if not waiting or tp in self._muted:
                    continue
                leader = leader_of(tp)
                if leader is None:
                    unknown.add(tp.topic)
                    continue
                wait_ms = self._wait_ms(waiting, exhausted, now_ms)
                if wait_ms <= 0:
                    nodes.add(leader)
                else:
                    delay = wait_ms if delay is None else min(delay, wait_ms)
        return ReadyCheck(nodes, delay, unknown)

    def _wait_ms(self, waiting: deque[ProducerBatch], exhausted: bool, now_ms: float) -> float:
        """How long until the first batch of a partition may be sent; <= 0: now."""
        batch = waiting[0]
        if batch.attempts:
            return batch.last_attempt_ms + self.config.retry_backoff(batch.attempts) - now_ms
        if len(waiting) > 1 or batch.full or batch.delivery.flushing or batch.delivery.failed or exhausted:
            return 0
        return batch.created_ms + self.config.linger_ms - now_ms

    def drain(self, leader_of: LeaderOf, nodes: set[int], now_ms: float) -> dict[int, list[ProducerBatch]]:
        """Take at most one batch per partition for each broker, up to `max.request.size`, and mute their partitions.

        Begins where the last drain of that broker ended, so that no partition starves behind busy ones.
        """
        exhausted = self.pool.queued > 0
        drained: dict[int, list[ProducerBatch]] = {}
        with self._lock:
            by_node: dict[int, list[TopicPartition]] = {}
            for tp, waiting in self._batches.items():
                if waiting and tp not in self._muted:
                    leader = leader_of(tp)
                    if leader is not None and leader in nodes:
                        by_node.setdefault(leader, []).append(tp)
            for node, partitions in by_node.items():
                partitions.sort()
                start = self._drain_index.get(node, 0) % len(partitions)
                size = 0
                taken: list[ProducerBatch] = []
                for step in range(len(partitions)):
                    tp = partitions[(start + step) % len(partitions)]
                    waiting = self._batches[tp]
                    if self._wait_ms(waiting, exhausted, now_ms) > 0:
                        continue
                    if taken and size + waiting[0].size > self.config.max_request_bytes:
                        self._drain_index[node] = start + step
                        break
                    batch = waiting.popleft()
                    self._muted.add(tp)
                    size += batch.size
                    taken.append(batch)
                if taken:
                    drained[node] = taken
        return drained

    def put_back(self, batch: ProducerBatch) -> None:
        """At the front, to be sent again before anything else of its partition. The partition is heard again."""
        with self._lock:
            self._batches.setdefault(batch.topic_partition, deque()).appendleft(batch)
            self._muted.discard(batch.topic_partition)

    def unmute(self, tp: TopicPartition) -> None:
        """The batch in flight was answered for good."""
        with self._lock:
            self._muted.discard(tp)
            if not self._batches.get(tp):
                self._batches.pop(tp, None)

    def release(self, batch: ProducerBatch) -> None:
        """Give the batch's memory back: its request was answered or its socket closed, or it was never sent."""
        batch.encoded = None
        batch.builder = None  # type: ignore[assignment]  # no view of the buffer may outlive this
        self.pool.deallocate(batch.buffer)

    def take_doomed(self, now_ms: float) -> list[ProducerBatch]:
        """Remove waiting batches that will not be sent: of failed deliveries, or older than `delivery.timeout.ms`."""
        oldest = now_ms - self.config.delivery_timeout_ms
        doomed: list[ProducerBatch] = []
        with self._lock:
            for tp, waiting in list(self._batches.items()):
                if any(batch.delivery.failed or batch.created_ms <= oldest for batch in waiting):
                    kept: deque[ProducerBatch] = deque()
                    for batch in waiting:
                        gone = batch.delivery.failed or batch.created_ms <= oldest
                        (doomed if gone else kept).append(batch)
                    self._batches[tp] = kept
        return doomed

    def next_expiry_ms(self) -> float | None:
        """When the oldest waiting batch expires; None when nothing waits."""
        with self._lock:
            created = [waiting[0].created_ms for waiting in self._batches.values() if waiting]
        return min(created) + self.config.delivery_timeout_ms if created else None

    @property
    def has_waiting(self) -> bool:
        """Is there a batch that was not drained yet?"""
        with self._lock:
            return any(self._batches.values())
