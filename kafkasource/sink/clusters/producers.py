"""The producers of one cluster in an executor's Python worker, all on one buffer pool. Kept between tasks, so that the
next one finds their connections open.

A forked child inherits neither threads nor the right to its parent's sockets: it starts with none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from kafkasource.kafka import counters, memory
from kafkasource.kafka.process import ProcessCache, Use
from kafkasource.kafka.producer.batch import ProducerBatch
from kafkasource.kafka.producer.client import Client
from kafkasource.kafka.producer.pool import BufferPool
from kafkasource.kafka.producer.producer import Producer, monotonic_ms
from kafkasource.sink.clusters.deliveries import Dropped
from kafkasource.sink.clusters.slow_cluster import Health, Queue, Refusals
from kafkasource.sink.clusters.targets import ClusterTarget

_MAX_CLUSTERS = 8  # kept by one process, unless one write has more; each may hold its memory and many connections


class ClusterProducers:
    """The producers of one cluster, their memory and the cluster's health. Methods are for the task's thread."""

    def __init__(
        self,
        target: ClusterTarget,
        *,
        clients: Sequence[Client] = (),
        clock_ms: Callable[[], float] = monotonic_ms,
    ) -> None:
        """`clients`: one for each producer, in tests."""
        config = target.config
        self.target = target
        self.use = Use(lambda: clock_ms() / 1000)
        self.health = Health(target.wait_ms, clock_ms, target.name)
        self.refusals = Refusals(target.wait_ms, clock_ms, target.name, target.refused or ())
        self._budget = memory.process_budget()
        self.pool = BufferPool(
            config.buffer_memory_bytes,
            min(config.batch_bytes, config.max_request_bytes),
            new_memory=self._budget.accounts[memory.ACCUMULATOR].view,
        )
        self.producers = [
            Producer(
                config,
                client=clients[number] if clients else None,
                pool=self.pool,
                on_wait=self._wake_all,
                clock_ms=clock_ms,
            )
            for number in range(target.producers)
        ]

    def _wake_all(self) -> None:
        for producer in self.producers:
            producer.sender.wakeup()

    @contextmanager
    def leased_memory(self) -> Iterator[None]:
        """The cluster's share of the process's memory, for a task. Its watermarks move with it."""
        config = self.target.config
        lease = self._budget.lease(
            memory.ACCUMULATOR,
            config.memory_wish,
            self.pool.resize,
            total_bytes=config.memory_budget_bytes,
            keeper=self.pool,
        )
        with self.use.using(), lease:
            yield

    @property
    def queued_bytes(self) -> int:
        """The bytes that were handed over and are not settled: batches that wait, and batches on the wire."""
        return self.pool.in_use_bytes

    @property
    def usable(self) -> bool:
        return all(producer.usable for producer in self.producers)

    def queue(self) -> Queue:
        target = self.target
        now, usual = self.pool.total_bytes, target.config.buffer_memory_bytes
        return Queue(
            self.queued_bytes,
            target.low_watermark_bytes * now // usual,
            target.high_watermark_bytes * now // usual,
            self.health.silent_ms,
            self.health.patience_ms,
            self.health.allowance_ms,
        )

    def drop_oldest(self, size: int) -> int:
        """Give up waiting batches that no broker has seen, oldest first, until about `size` bytes are free. Returns
        their number.

        The lock of each producer's queues is taken twice for all batches.
        """
        unsent: list[tuple[float, int, ProducerBatch]] = []
        for number, producer in enumerate(self.producers):
            unsent += ((batch.created_ms, number, batch) for batch in producer.queues.unsent())
        unsent.sort(key=lambda row: row[0])
        chosen: list[set[ProducerBatch]] = [set() for _ in self.producers]
        freed = 0
        for _, number, batch in unsent:
            if freed >= size:
                break
            chosen[number].add(batch)
            freed += len(batch.allotment.buffer)
        freed = 0
        error = Dropped(f"cluster {self.target.name!r} is too slow")
        for producer, batches in zip(self.producers, chosen, strict=True):
            for batch in producer.queues.take_unsent(batches) if batches else ():
                freed += len(batch.allotment.buffer)
                producer.queues.release(batch)
                batch.delivery.gave_up(batch.topic_partition.topic, error)
        return freed

    def close(self, timeout_ms: float | None = None) -> None:
        """Close all producers, as `Producer.close` does."""
        for producer in self.producers:
            producer.close(timeout_ms)


def _made(target: ClusterTarget) -> ClusterProducers:
    producers = ClusterProducers(target)
    for producer in producers.producers:
        producer.retire = lambda: _cache.retire(target, producers)  # all producers of the cluster end, or none
    return producers


_cache: ProcessCache[ClusterTarget, ClusterProducers] = ProcessCache(
    _made,
    is_usable=lambda producers: producers.usable,
    idle_s=lambda producers: producers.use.idle_s,
    let_go=lambda producers: producers.close(0),
    hand_out=lambda producers: producers.use.hand_out(),
)
counters.keeps("producers", lambda: len(_cache.values))


def shared_producers(targets: Mapping[str, ClusterTarget]) -> dict[str, ClusterProducers]:
    """The producers of this process for these clusters. Missing ones are made.

    Producers that are unused for five minutes end in their own threads.
    """
    return dict(zip(targets, _cache.get(targets.values(), _MAX_CLUSTERS), strict=True))
