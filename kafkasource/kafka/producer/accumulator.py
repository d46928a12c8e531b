"""Puts rows into record batches, on the task's thread. It is Kafka's RecordAccumulator.

It has the queues from which the sender thread takes the batches (`PartitionQueues`). One call appends an Arrow batch's
rows to all their partitions: the open batches take what they have room for, in one call of the kernel and without the
lock; then new ones are opened for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkasource.errors import ClientClosed, KafkaSourceError
from kafkasource.kafka import counters
from kafkasource.kafka.producer import log as producer_log
from kafkasource.kafka.producer import unwritable
from kafkasource.kafka.producer.batch import Allotment, ProducerBatch
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.delivery import Delivery
from kafkasource.kafka.producer.pool import BufferPoolExhausted
from kafkasource.kafka.producer.queues import PartitionQueues
from kafkasource.kafka.producer.rows import Span
from kafkasource.kafka.producer.sharing import Origin, SharedRows
from kafkasource.kafka.records.builder import RecordColumns, append_spans
from kafkasource.types import TopicPartition

# Java's batch.size: the size of our batches when rows spread over very many partitions.
_SMALLEST_BATCH_BYTES = 16 * 1024


class RecordTooLarge(KafkaSourceError):
    """One record alone is larger than a request may be, or than the memory for all batches. Nothing of it was sent."""


@dataclass(frozen=True)
class _Appended:
    """The rows of one call, all of one topic and one delivery."""

    topic: str
    columns: RecordColumns
    order: memoryview | None
    shared: SharedRows | None
    delivery: Delivery

    def new_origin(self) -> Origin | None:
        return None if self.shared is None else Origin(self.shared.clusters)

    def fill(self, batches: list[ProducerBatch], spans: Sequence[Span], rest: list[Span], *, new: bool) -> None:
        """Append each span to its batch. Adds to `rest` the ends that did not fit, or that belong to another batch.
        `new`: nothing was appended to the batches before."""
        shared = self.shared
        ends = [last if shared is None else shared.end(first, last, new=new) for _, first, last in spans]
        pieces = [(batch.builder, span[1], end) for batch, span, end in zip(batches, spans, ends, strict=True)]
        try:
            reached = append_spans(self.columns, self.order, pieces)
        except BaseException:
            for batch in batches:
                if batch.origin is not None:
                    batch.origin.lost()
            raise
        for batch, (partition, first, last), position in zip(batches, spans, reached, strict=True):
            if batch.origin is not None:
                batch.origin.took(shared, first, position)
            if new and shared is not None and position > first:
                shared.began(first)
            if position < last:
                batch.full = True
                rest.append((partition, position, last))


class RecordAccumulator:
    """See the module. One thread at a time for each delivery."""

    def __init__(
        self,
        config: ProducerConfig,
        queues: PartitionQueues,
        clock_ms: Callable[[], float],
        wake_sender: Callable[[], None],
        on_wait: Callable[[], None] | None = None,
    ) -> None:
        """It calls `wake_sender` when there is something to send, and `on_wait` before it waits for memory. By default
        both are the same; otherwise `on_wait` wakes all senders whose batches hold memory of the pool."""
        self._config = config
        self._queues = queues
        self._pool = queues.pool
        self._clock_ms = clock_ms
        self._wake_sender = wake_sender
        self._on_wait = on_wait or wake_sender
        # A batch larger than a request could never be sent.
        self._batch_bytes = min(config.batch_bytes, config.max_request_bytes)

    def append(
        self,
        topic: str,
        columns: RecordColumns,
        order: memoryview | None,
        spans: Sequence[Span],
        delivery: Delivery,
        shared: SharedRows | None = None,
    ) -> None:
        """Encode rows into the batches of their partitions: each span's rows are `order[first:last]`.

        `order` and `spans` are as `order_by_partition` gives them; an order of None means the columns' own rows.
        `shared`: other clusters get the rows in this order, too. Blocks up to `max.block.ms` for new batches' memory;
        raises the delivery's error when it failed meanwhile, RecordTooLarge, or an error of BufferPool.allocate.
        """
        if self._queues.closed:
            delivery.raise_if_failed()  # its error says why
            raise ClientClosed("the producer is closed")
        producer_log.sending(topic, spans)
        rows = _Appended(topic, columns, order, shared, delivery)
        rest = self._append_to_open(rows, spans)
        buffer_bytes = self._buffer_bytes(topic, len(spans))
        while rest:
            rest = self._append_to_new(rows, rest, buffer_bytes)

    def _append_to_open(self, rows: _Appended, spans: Sequence[Span]) -> list[Span]:
        """Fill this task's open batches. Returns the spans, or ends of spans, that did not fit."""
        batches, taken, rest = self._queues.take_open(rows.topic, spans, rows.delivery)
        if batches:
            try:
                rows.fill(batches, taken, rest, new=False)
            finally:
                for batch in batches:
                    batch.appending = False
        return rest

    def _append_to_new(self, rows: _Appended, spans: Sequence[Span], buffer_bytes: int) -> list[Span]:
        """Open a batch for each span: for as many as there is memory now, and for at least one. Returns the spans that
        are left."""
        batches: list[ProducerBatch] = []
        try:
            for span in spans:
                tp = TopicPartition(rows.topic, span[0])
                batch = self._open(tp, buffer_bytes, rows, wait=not batches)
                if batch is None:
                    break
                batches.append(batch)
            spans, rest = spans[: len(batches)], list(spans[len(batches) :])
            rows.fill(batches, spans, rest, new=True)
        except BaseException:
            for batch in batches:
                self._queues.release(batch)
            raise
        empty = [span for span, batch in zip(spans, batches, strict=True) if not batch.builder.record_count]
        for batch in batches:
            if not batch.builder.record_count:
                self._queues.release(batch)
        self._add([batch for batch in batches if batch.builder is not None])
        for partition, first, last in empty:
            self._append_large(TopicPartition(rows.topic, partition), rows, first)
            rest.remove((partition, first, last))
            if first + 1 < last:
                rest.append((partition, first + 1, last))
        return rest

    def _append_large(self, tp: TopicPartition, rows: _Appended, position: int) -> None:
        """Make a batch of its own for a row that is too large for a common one."""
        row = position if rows.order is None else rows.order[position]
        needed = rows.columns.max_record_bytes(row)
        dead_letters = rows.delivery.dead_letters
        # A dead letter has the bytes that were too large for its own topic: only the broker's limit is left for it.
        is_dead_letter = dead_letters is not None and tp.topic == dead_letters.topic
        limit, option = min(
            (self._config.max_request_bytes, "max.request.size"), (self._pool.total_bytes, "buffer.memory")
        )
        if needed > limit and not is_dead_letter:
            reason = f"a record for {tp} takes up to {needed} bytes, more than 'kafka.{option}' ({limit})"
            if dead_letters is None:
                raise RecordTooLarge(f"{reason}: raise that option, and the topic's max.message.bytes if smaller")
            rows.delivery.set_aside(tp, dead_letters.letters_of(tp, rows.columns, {row: reason}))
            unwritable.count(self._config.cluster_name, tp, option)
            return
        batch = self._open(tp, needed, rows, wait=True, beyond=is_dead_letter)
        assert batch is not None
        batch.full = True
        try:
            rows.fill([batch], [(tp.partition, position, position + 1)], [], new=True)
        except BaseException:
            self._queues.release(batch)
            raise
        self._add([batch])

    def _open(
        self, tp: TopicPartition, size: int, rows: _Appended, *, wait: bool, beyond: bool = False
    ) -> ProducerBatch | None:
        """A new batch that only this thread knows. None: there is no memory and `wait` is false. `beyond`: it may be
        larger than the pool."""
        delivery = rows.delivery
        delivery.raise_if_failed()
        if wait:
            producer_log.allocating(size, *tp)
            began_ms = self._clock_ms()
            try:
                max_block_ms = self._config.max_block_ms if delivery.max_block_ms is None else delivery.max_block_ms
                buffer = self._pool.allocate(size, max_block_ms, self._on_wait, beyond=beyond)
            except BufferPoolExhausted as error:
                raise BufferPoolExhausted(f"{error}; {self._queues.holders()}") from None
            except ClientClosed:
                delivery.raise_if_failed()
                raise
            finally:
                waited_ms = self._clock_ms() - began_ms
                if waited_ms >= 1:
                    name = self._config.cluster_name
                    counters.count("kafkasource_pool_wait_seconds_total", waited_ms / 1000, name)
        else:
            found = self._pool.try_allocate(size)
            if found is None:
                return None
            producer_log.allocating(size, *tp)
            buffer = found
        try:
            delivery.raise_if_failed()  # while this thread waited
            builder = self._queues.new_builder(buffer)
            return ProducerBatch(tp, delivery, Allotment(buffer), builder, self._clock_ms(), rows.new_origin())
        except BaseException:
            self._pool.deallocate(buffer)
            raise

    def _add(self, batches: list[ProducerBatch]) -> None:
        """Show new batches of one delivery to the sender."""
        if not batches:
            return
        batches[0].delivery.opened(len(batches))
        wake = self._queues.add(batches)
        producer_log.added(batches)
        if wake:
            self._wake_sender()

    def _buffer_bytes(self, topic: str, partitions: int) -> int:
        """`batch.size`, or less: if the pool could not hold a batch for each partition that is written, and if the
        topic's brokers have refused larger ones.

        Only half of the pool counts, because while some batches fill, others are in flight.
        """
        fair = self._pool.total_bytes // (2 * max(partitions, self._queues.open_partitions(), 1))
        largest = self._queues.fitting_bytes(topic) or self._batch_bytes
        return min(self._batch_bytes, largest, max(fair, _SMALLEST_BATCH_BYTES))
