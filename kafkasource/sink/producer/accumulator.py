"""Puts rows into record batches, on the task's thread. It is Kafka's RecordAccumulator.

It has the queues from which the sender thread takes the batches (`PartitionQueues`). One call appends an Arrow batch's
rows to all their partitions: the open batches take what they have room for, in one call of the kernel and without the
lock; then new ones are opened for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkasource import metrics
from kafkasource.errors import ClientClosed, KafkaSourceError
from kafkasource.records.builder import RecordColumns, append_spans
from kafkasource.sink.producer import log as producer_log
from kafkasource.sink.producer import refused
from kafkasource.sink.producer.batch import Allotment, ProducerBatch
from kafkasource.sink.producer.config import ProducerConfig
from kafkasource.sink.producer.delivery import Delivery
from kafkasource.sink.producer.pool import BufferPoolExhausted
from kafkasource.sink.producer.queues import PartitionQueues, Span
from kafkasource.types import TopicPartition

_SMALLEST_BATCH_BYTES = 16 * 1024  # Java's batch.size: what is left of ours when rows spread over very many partitions


class RecordTooLarge(KafkaSourceError):
    """One record alone is larger than a request may be. Nothing of it was sent."""


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
    ) -> None:
        """Encode rows into the batches of their partitions: each span's rows are `order[first:last]`.

        `order` and `spans` are as `order_by_partition` gives them; an order of None means the columns' own rows. Blocks
        up to `max.block.ms` for new batches' memory; raises the delivery's error when it failed meanwhile,
        RecordTooLarge, and what BufferPool.allocate raises.
        """
        if self._queues.closed:
            delivery.raise_if_failed()  # its error says why
            raise ClientClosed("the producer is closed")
        producer_log.sending(topic, spans)
        rest = self._append_to_open(topic, columns, order, spans, delivery)
        buffer_bytes = self._buffer_bytes(topic, len(spans))
        while rest:
            rest = self._append_to_new(topic, columns, order, rest, buffer_bytes, delivery)

    def _append_to_open(
        self, topic: str, columns: RecordColumns, order: memoryview | None, spans: Sequence[Span], delivery: Delivery
    ) -> list[Span]:
        """Fill this task's open batches. Returns the spans, or ends of spans, that did not fit."""
        batches, taken, rest = self._queues.take_open(topic, spans, delivery)
        if batches:
            try:
                self._fill(columns, order, batches, taken, rest)
            finally:
                for batch in batches:
                    batch.appending = False
        return rest

    @staticmethod
    def _fill(
        columns: RecordColumns,
        order: memoryview | None,
        batches: list[ProducerBatch],
        spans: Sequence[Span],
        rest: list[Span],
    ) -> None:
        """Append each span to its batch. Adds to `rest` the ends that did not fit."""
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
        order: memoryview | None,
        spans: Sequence[Span],
        buffer_bytes: int,
        delivery: Delivery,
    ) -> list[Span]:
        """Open a batch for each span: for as many as there is memory now, and for at least one. Returns the spans that
        are left."""
        batches: list[ProducerBatch] = []
        try:
            for span in spans:
                tp = TopicPartition(topic, span[0])
                batch = self._open(tp, buffer_bytes, delivery, wait=not batches)
                if batch is None:
                    break
                batches.append(batch)
            spans, rest = spans[: len(batches)], list(spans[len(batches) :])
            self._fill(columns, order, batches, spans, rest)
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
            self._append_large(TopicPartition(topic, partition), columns, order, first, delivery)
            rest.remove((partition, first, last))
            if first + 1 < last:
                rest.append((partition, first + 1, last))
        return rest

    def _append_large(
        self,
        tp: TopicPartition,
        columns: RecordColumns,
        order: memoryview | None,
        position: int,
        delivery: Delivery,
    ) -> None:
        """Make a batch of its own for a row that is too large for a common one."""
        row = position if order is None else order[position]
        needed = columns.max_record_bytes(row)
        outlet = delivery.outlet
        # A dead letter has the bytes that were too large for its own topic: only the broker's limit is left for it.
        if needed > self._config.max_request_bytes and (outlet is None or tp.topic != outlet.topic):
            reason = (
                f"a record for {tp} takes up to {needed} bytes, more than 'kafka.max.request.size' "
                f"({self._config.max_request_bytes})"
            )
            if outlet is None:
                raise RecordTooLarge(f"{reason}: raise that option, and the topic's max.message.bytes if smaller")
            delivery.set_aside(refused.dead_letters(outlet.topic, tp, columns, {row: reason}))
            refused.count(self._config.cluster_name, tp, "max.request.size")
            return
        batch = self._open(tp, needed, delivery, wait=True)
        assert batch is not None
        batch.full = True
        try:
            append_spans(columns, order, [(batch.builder, position, position + 1)])
        except BaseException:
            self._queues.release(batch)
            raise
        self._add([batch])

    def _open(self, tp: TopicPartition, size: int, delivery: Delivery, *, wait: bool) -> ProducerBatch | None:
        """A new batch that only this thread knows. None: there is no memory and `wait` is false."""
        delivery.raise_if_failed()
        if wait:
            producer_log.allocating(size, *tp)
            began_ms = self._clock_ms()
            try:
                max_block_ms = self._config.max_block_ms if delivery.max_block_ms is None else delivery.max_block_ms
                buffer = self._pool.allocate(size, max_block_ms, self._on_wait)
            except BufferPoolExhausted as error:
                raise BufferPoolExhausted(f"{error}; {self._queues.holders()}") from None
            except ClientClosed:
                delivery.raise_if_failed()
                raise
            finally:
                waited_ms = self._clock_ms() - began_ms
                if waited_ms >= 1:
                    name = self._config.cluster_name
                    metrics.count("kafkasource_pool_wait_seconds_total", waited_ms / 1000, name)
        else:
            found = self._pool.try_allocate(size)
            if found is None:
                return None
            producer_log.allocating(size, *tp)
            buffer = found
        try:
            delivery.raise_if_failed()  # while this thread waited
            return ProducerBatch(tp, delivery, Allotment(buffer), self._queues.new_builder(buffer), self._clock_ms())
        except BaseException:
            self._pool.deallocate(buffer)
            raise

    def _add(self, batches: list[ProducerBatch]) -> None:
        """Show new batches of one delivery to the sender."""
        if not batches:
            return
        batches[0].delivery.opened(len(batches))
        self._queues.add(batches)
        producer_log.added(batches)
        self._wake_sender()

    def _buffer_bytes(self, topic: str, partitions: int) -> int:
        """`batch.size`, or less: if the pool could not hold a batch for each partition that is written, and if the
        topic's brokers have refused larger ones.

        Only half of the pool counts, because while some batches fill, others are in flight.
        """
        fair = self._pool.total_bytes // (2 * max(partitions, self._queues.open_partitions(), 1))
        largest = self._queues.fitting_bytes(topic) or self._batch_bytes
        return min(self._batch_bytes, largest, max(fair, _SMALLEST_BATCH_BYTES))
