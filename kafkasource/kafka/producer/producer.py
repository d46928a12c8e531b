"""A producer: pool, accumulator, and the thread that runs the sender."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import pyarrow.compute as pc

from kafkasource.errors import BrokerError, ClientClosed, KafkaSourceError
from kafkasource.kafka import counters, memory
from kafkasource.kafka.network.metadata import Metadata, TopicMetadata
from kafkasource.kafka.network.network_client import NetworkClient
from kafkasource.kafka.process import IDLE_S, Use
from kafkasource.kafka.producer.accumulator import RecordAccumulator
from kafkasource.kafka.producer.client import Client, Wakeup
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.delivery import Delivery
from kafkasource.kafka.producer.partitioner import Partitioner, by_partition
from kafkasource.kafka.producer.pool import Buffer, BufferPool
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.producer.queues import PartitionQueues
from kafkasource.kafka.producer.request import of_transaction
from kafkasource.kafka.producer.rows import Column, InvalidRow, Rows, Span
from kafkasource.kafka.producer.sender import Sender
from kafkasource.kafka.producer.sharing import SharedRows
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns
from kafkasource.types import TopicPartition

log = logging.getLogger("kafkasource.sink")


def monotonic_ms() -> float:
    return time.monotonic() * 1000


class Producer:
    """Writes rows of Arrow columns. Tasks of one process may share it, each with a delivery of its own."""

    def __init__(
        self,
        config: ProducerConfig,
        *,
        client: Client | None = None,
        pool: BufferPool | None = None,
        on_wait: Callable[[], None] | None = None,
        clock_ms: Callable[[], float] = monotonic_ms,
        wall_clock_ms: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        """`pool`: memory that this producer shares with others that are closed together. `on_wait` then wakes all their
        senders, because another's batches may hold the memory for which one of them waits."""
        log.debug("Starting the Kafka producer")
        self.config = config
        self._wall_clock_ms = wall_clock_ms

        def new_builder(buffer: Buffer) -> BatchBuilder:
            return BatchBuilder(buffer, codec=config.compression, level=config.compression_level)

        self._client: Client = client or NetworkClient(config.client)
        batch_bytes = min(config.batch_bytes, config.max_request_bytes)
        self._budget = memory.process_budget()
        self._leases_memory = pool is None
        new_memory = self._budget.accounts[memory.ACCUMULATOR].view
        self.pool = pool or BufferPool(config.buffer_memory_bytes, batch_bytes, new_memory=new_memory)
        counters.poll(self.pool, partial(_gauges, config.cluster_name))
        wakeup = Wakeup(self._client)
        self.queues = PartitionQueues(config, self.pool, new_builder)
        self._accumulator = RecordAccumulator(config, self.queues, clock_ms, wakeup, on_wait)
        self.sender = Sender(config, self.queues, self._client, wakeup, clock_ms=clock_ms)
        self.use = Use(lambda: clock_ms() / 1000)
        self.retire: Callable[[], bool] = lambda: False  # called after long disuse; True: end
        self._closing = False
        self._forced = False  # give up requests that are on their way
        self._thread = threading.Thread(target=self._run, name="kafkasource-sender", daemon=True)
        self._thread.start()
        log.debug("Kafka producer started")

    @contextmanager
    def delivery(
        self, transaction: TaskTransaction | None = None, delivery: Delivery | None = None
    ) -> Iterator[Delivery]:
        """One task's writes. They go into `transaction`, and the counts into `delivery`, if these are given.

        The end of the block returns when all rows are acknowledged. An error in the block gives all of them up: the
        sender thread drops the batches. A batch that is on the wire at that moment may still be stored.
        """
        with self.use.using(), self._room(), self._delivery(self.sender.begin(transaction, delivery)) as begun:
            yield begun

    def _room(self) -> AbstractContextManager[None]:
        """The pool's part of the process's memory, unless others lease it."""
        if not self._leases_memory:
            return nullcontext()
        return self._budget.lease(
            memory.ACCUMULATOR,
            self.config.memory_wish,
            self.pool.resize,
            total_bytes=self.config.memory_budget_bytes,
            keeper=self.pool,
        )

    @contextmanager
    def _delivery(self, delivery: Delivery) -> Iterator[Delivery]:
        try:
            yield delivery
            log.debug("Flushing accumulated records in producer")
            self._flush(delivery)
            while self._append_set_aside(delivery):
                self._flush(delivery)
        except BaseException as error:
            delivery.fail(error)
            self.sender.wakeup()
            raise
        finally:
            self.sender.end(delivery)

    def _flush(self, delivery: Delivery) -> None:
        delivery.flushing = True
        self.sender.wakeup()
        delivery.wait(self._thread.is_alive)

    def _append_set_aside(self, delivery: Delivery) -> bool:
        """Append what was set aside as dead letters. False: nothing was."""
        letters = delivery.take_set_aside()
        for _, rows in letters:
            assert delivery.dead_letters is not None
            self._append(rows, delivery.dead_letters.partitioner, delivery)
        return bool(letters)

    def append(self, rows: Rows, partitioner: Partitioner, delivery: Delivery) -> None:
        """Hand over rows of one topic, and before them what brokers have refused of earlier ones, where dead letters
        are wanted. Blocks while the memory is full. Raises the error that makes the task fail."""
        self._append_set_aside(delivery)
        self._append(rows, partitioner, delivery)

    def _append(self, rows: Rows, partitioner: Partitioner, delivery: Delivery) -> None:
        topic = self.sender.await_topic(rows.topic, rows.last_partition)
        count = max(topic.partitions) + 1
        order, spans = by_partition(partitioner.partitions(rows, count, available(topic)), count)
        columns = RecordColumns(
            rows.keys, rows.values, rows.timestamps_ms, rows.headers, default_timestamp_ms=int(self._wall_clock_ms())
        )
        self.hand_over(rows.topic, columns, order, spans, delivery)

    def hand_over(
        self,
        topic: str,
        columns: RecordColumns,
        order: memoryview | None,
        spans: Sequence[Span],
        delivery: Delivery,
        shared: SharedRows | None = None,
    ) -> None:
        """Do what `append` does, for rows that have their partitions: see `RecordAccumulator.append`."""
        delivery.has_timestamps = delivery.has_timestamps or _has_timestamps(columns.timestamps_ms)
        if delivery.transaction is not None:
            try:
                delivery.transaction.enroll(TopicPartition(topic, partition) for partition, _, _ in spans)
            except BrokerError as error:
                raise of_transaction(error, delivery.transaction.transactional_id) from None
        try:
            self._accumulator.append(topic, columns, order, spans, delivery, shared)
        except ValueError as error:
            if isinstance(error, KafkaSourceError):
                raise
            raise InvalidRow(f"a row for topic {topic!r} cannot be written: {error}") from None

    @property
    def metadata(self) -> Metadata:
        """The sender thread's metadata. Only for reading."""
        return self._client.metadata

    def alive(self) -> bool:
        """Does the sender thread still settle deliveries?"""
        return self._thread.is_alive()

    @property
    def usable(self) -> bool:
        return self._thread.is_alive() and not self.sender.broken and not self._closing

    def close(self, timeout_ms: float | None = None) -> None:
        """Take no more rows, send what tasks have handed over, then stop the thread and close the sockets.

        A batch that is not acknowledged after `timeout_ms` fails its task; by default `delivery.timeout.ms` bounds the
        wait. Deliveries end by themselves, so this waits only while other threads write. Not for the sender thread.
        """
        self._closing = True
        self.queues.close()
        self.sender.wakeup()
        if timeout_ms is not None:
            self._thread.join(timeout_ms / 1000)
            self._forced = True
            self.sender.wakeup()
        self._thread.join()

    def _run(self) -> None:
        """The sender thread."""
        log.debug("Starting Kafka producer I/O thread")
        try:
            while not self._closing or (self.sender.waited_for and not self._forced):
                self.sender.run_once()
                if self.use.idle_s >= IDLE_S and self.retire():
                    log.debug("The Kafka producer was not used for %d s", IDLE_S)
                    self._closing = True
        except BaseException as error:
            # After this no thread settles deliveries, so each task must get the error.
            self.sender.fail_all(error, for_good=True)
        else:
            self.sender.fail_all(ClientClosed("the producer was closed"), for_good=True)
        finally:
            self.queues.close()
            self._client.close()
            self.pool.trim()
            log.debug("Shutdown of Kafka producer I/O thread has completed")


def _has_timestamps(column: Column | None) -> bool:
    """Does any row have its own timestamp?"""
    latest_ms = None if column is None else pc.max(column).as_py()
    return latest_ms is not None and latest_ms >= 0


def _gauges(cluster: str, pool: BufferPool) -> counters.Polled:
    yield "kafkasource_queue_bytes", (cluster,), pool.in_use_bytes
    yield "kafkasource_queue_limit_bytes", (cluster,), pool.total_bytes
    yield "kafkasource_pool_waiters", (cluster,), pool.queued


def available(topic: TopicMetadata) -> list[int]:
    """Partitions for rows without a key: those with a leader; all, where none has one at the moment."""
    led = [number for number, partition in topic.partitions.items() if partition.leader_id is not None]
    return sorted(led or topic.partitions)
