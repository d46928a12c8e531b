"""Sends one task's rows to all clusters, on the task's thread. The package's docstring explains the whole."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource import metrics
from kafkasource.errors import AuthorizationFailed, BootstrapFailed, DeadlineExceeded, InvalidTopic, KafkaSourceError
from kafkasource.exactly_once.task.content import ContentSum
from kafkasource.kafka import memory
from kafkasource.kafka.cluster.caller import servers_of
from kafkasource.kafka.network.metadata import TopicMetadata
from kafkasource.kafka.producer.delivery import DeadLetterTopic
from kafkasource.kafka.producer.partitioner import by_partition
from kafkasource.kafka.producer.pool import BufferPoolExhausted
from kafkasource.kafka.producer.producer import available, monotonic_ms
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.producer.rows import Rows
from kafkasource.kafka.producer.sharing import Compressor
from kafkasource.kafka.records.arrow_scalars import scalar
from kafkasource.kafka.records.builder import RecordColumns
from kafkasource.sink.clusters.deliveries import ClusterDelivery, Dropped, Ledger
from kafkasource.sink.clusters.offset_spans import HandedOver, Mapped, gathered
from kafkasource.sink.clusters.placement import Placement
from kafkasource.sink.clusters.producers import ClusterProducers
from kafkasource.sink.clusters.routing import RowsByProducer
from kafkasource.sink.clusters.slow_cluster import Queue, QueueStep, excess, step
from kafkasource.sink.clusters.targets import ClusterTarget
from kafkasource.types import Discarded, TopicPartition, Written

log = logging.getLogger("kafkasource.sink")

OpenTransaction = Callable[[int], TaskTransaction]
"""Gives the transaction in which the producer of this number writes, and opens it with the producer's first row.
Blocks."""

_LOOK_AGAIN_MS = 50.0  # looks again after this time, even without news
_KEPT_COMPRESSED = 4  # compressed records for other clusters may take a cluster's memory divided by this


class SlowCluster(KafkaSourceError):
    """A cluster with onSlowCluster=fail does not take records as fast as the others."""


class TopicNotPresent(DeadlineExceeded):
    """Brokers answer, and say until the end of the wait that they have no such topic."""


@dataclass
class _Sending:
    """One cluster in one task."""

    cluster: ClusterProducers
    open_transaction: OpenTransaction | None
    dead_letters: DeadLetterTopic | None = None
    deliveries: dict[int, ClusterDelivery] = field(default_factory=dict)  # by the producer's number
    ledger: Ledger = field(default_factory=Ledger)
    refused: ContentSum = field(default_factory=ContentSum)  # of rows that no producer got
    taken_topics: dict[str, bool] = field(default_factory=dict)  # topics of earlier rows: does the cluster get them?
    handed_over: dict[int, HandedOver] = field(default_factory=dict)  # by the producer's number, with `offsetMap`
    left_out: HandedOver = field(default_factory=HandedOver)  # likewise: rows whose topic the cluster refuses

    def takes(self, topic: str) -> bool:
        taken = self.taken_topics.get(topic)
        if taken is None:
            taken = self.taken_topics[topic] = self.target.takes(topic)
        return taken

    def refuse(self, topic: str, columns: RecordColumns) -> None:
        """Count rows that no producer gets (exactly once)."""
        if self.open_transaction is not None:
            self.refused.add(topic, columns)

    @property
    def target(self) -> ClusterTarget:
        return self.cluster.target

    @property
    def open(self) -> bool:
        return not all(delivery.settled for delivery in self.deliveries.values())

    def flush(self) -> None:
        """Send what was handed over, without lingering."""
        for number, delivery in self.deliveries.items():
            delivery.flushing = True
            self.cluster.producers[number].sender.wakeup()

    def wait(self) -> None:
        """Return when everything is acknowledged, or something was set aside. Raises what makes the task fail."""
        for number, delivery in self.deliveries.items():
            delivery.wait(self.cluster.producers[number].alive)

    def written(self) -> dict[TopicPartition, Written]:
        found: dict[TopicPartition, Written] = {}
        for delivery in self.deliveries.values():
            for tp, one in delivery.written.items():
                found[tp] = one.merged(found[tp]) if tp in found else one
        return found

    def mapped(self) -> dict[TopicPartition, Mapped]:
        """The offsets that the rows got, by the offsets where they were read."""
        parts = [handed.spans(self.deliveries[number].stored_at or {}) for number, handed in self.handed_over.items()]
        return gathered([*parts, self.left_out.left_out()])


class FanOutDelivery:
    """One task's writes to all clusters. The results are complete at the end of the `FanOut.delivery` block."""

    def __init__(self, sending: Mapping[str, _Sending], stack: ExitStack, began_ms: float) -> None:
        self.sending = sending
        self.stack = stack
        self.began_ms = began_ms
        self.placement = Placement()
        pools = [one.cluster.pool for one in sending.values()]
        self.compressor = Compressor(
            lambda: min(pool.total_bytes for pool in pools) // _KEPT_COMPRESSED,
            memory.process_budget().accounts[memory.ACCUMULATOR].view,
        )
        self.news = threading.Condition()  # something was settled

    def written(self, cluster: str) -> dict[TopicPartition, Written]:
        """Acknowledged."""
        return self.sending[cluster].written()

    def discarded(self, cluster: str) -> dict[TopicPartition, Discarded]:
        """Partition -1: the sink discarded the rows before the cluster said which partitions their topic has."""
        one = self.sending[cluster]
        return one.ledger.discarded(one.written())

    def mapped(self, cluster: str) -> dict[TopicPartition, Mapped]:
        """The places of rows for the offset map, by the source's topic-partition. Only partitions that are
        acknowledged whole."""
        return self.sending[cluster].mapped()

    def refused(self, cluster: str) -> ContentSum:
        """The sum of the rows that no producer got, because the cluster refuses their topics."""
        return self.sending[cluster].refused

    def deliveries(self, cluster: str) -> dict[int, ClusterDelivery]:
        """The deliveries of the producers that had rows, by number."""
        return self.sending[cluster].deliveries


class FanOut:
    """Does for all clusters of a write what `Producer` does for one: one `append` sends rows to all of them. The tasks
    of a process use it one after the other.

    It places rows and then calls `Producer.hand_over`, as watermarks, ledger and exactly once need the places first.
    `Writer` and `pykafka dlq replay` need none of these: they call `Producer.append`, which takes 40 us less.
    """

    def __init__(
        self,
        clusters: Mapping[str, ClusterProducers],
        dead_letters: Mapping[str, DeadLetterTopic] | None = None,
        *,
        clock_ms: Callable[[], float] = monotonic_ms,
        wall_clock_ms: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        """`dead_letters`: the topic of each cluster; None: a record that cannot be written fails the task."""
        self._clusters = clusters
        self._dead_letters = dead_letters or {}
        self._clock_ms = clock_ms
        self._wall_clock_ms = wall_clock_ms

    @contextmanager
    def delivery(self, transactions: Mapping[str, OpenTransaction] | None = None) -> Iterator[FanOutDelivery]:
        """One task's writes. `transactions`: with exactly once, those of each cluster that gets rows.

        The end of the block returns when every cluster has acknowledged or discarded its rows. An error in the block
        gives all rows up, as in `Producer.delivery`.
        """
        with ExitStack() as stack:
            sending = {
                name: _Sending(
                    cluster,
                    None if transactions is None else transactions[name],
                    self._dead_letters.get(name),
                )
                for name, cluster in self._clusters.items()
                if transactions is None or name in transactions
            }
            for one in sending.values():
                stack.enter_context(one.cluster.leased_memory())
            delivery = FanOutDelivery(sending, stack, self._clock_ms())
            yield delivery
            self._finish(delivery)
            _count_discarded(delivery)

    def expect(self, topics: Sequence[str], delivery: FanOutDelivery) -> None:
        """Have each cluster asked about these topics, whose rows come next, at once."""
        for one in delivery.sending.values():
            taken = [one.target.topic(topic) for topic in topics if one.takes(topic)]
            one.cluster.producers[0].sender.expect_topics(taken)

    def append(self, rows: Rows, delivery: FanOutDelivery) -> None:
        """Hand over rows of one topic, and before them what brokers have refused of earlier ones, where dead letters
        are wanted. Blocks while a cluster with onSlowCluster=block is full. Raises what makes the task fail."""
        now_ms = int(self._wall_clock_ms())
        columns = _columns(rows, now_ms)
        taking = [one for one in delivery.sending.values() if one.takes(rows.topic)]
        for one in taking:
            self._append_set_aside(one, delivery)
        with delivery.placement.appending(rows, [one.target for one in taking if not one.cluster.health.dead]):
            for one in taking:
                fresh = one.target.rows(rows)
                if one.target.max_record_age_ms is not None and fresh.count and fresh.timestamps_ms is not None:
                    fresh = self._without_old(fresh, one, delivery, now_ms)
                if fresh.count:
                    self._append(fresh, columns if fresh is rows else _columns(fresh, now_ms), one, delivery)

    # Appending.

    def _without_old(self, rows: Rows, one: _Sending, delivery: FanOutDelivery, now_ms: int) -> Rows:
        """The rows that are not too old. The others go only into the ledger."""
        oldest_ms = now_ms - (one.target.max_record_age_ms or 0)
        known = pc.greater_equal(rows.timestamps_ms, scalar(0, pa.int64()))  # -1: its age is not known
        old = pc.and_(known, pc.less(rows.timestamps_ms, scalar(oldest_ms, pa.int64()))).fill_null(False)
        count = pc.sum(old).as_py()
        if not count:
            return rows
        dropped = rows.take(pc.indices_nonzero(old))
        placed = self._placed(dropped, one, delivery)
        one.ledger.hand_over(
            one.target.topic(rows.topic),
            placed.records if placed else {-1: count},
            _columns(dropped, now_ms).average_bytes,
        )
        return rows.take(pc.indices_nonzero(pc.invert(old)))

    def _append_set_aside(self, one: _Sending, delivery: FanOutDelivery) -> bool:
        """Append what was set aside as dead letters. False: nothing was."""
        letters = [each for into in one.deliveries.values() for each in into.take_set_aside()]
        for tp, rows in letters:
            one.ledger.take_back(tp, rows.count)
            self._append(rows, _columns(rows, int(self._wall_clock_ms())), one, delivery, counted=True)
        return bool(letters)

    def _append(
        self, rows: Rows, columns: RecordColumns, one: _Sending, delivery: FanOutDelivery, *, counted: bool = False
    ) -> None:
        """`counted`: the sum of the task's contents has these records already, as they came."""
        topic = one.target.topic(rows.topic)
        placed = self._placed(rows, one, delivery)
        size = columns.average_bytes if one.target.may_discard else 0.0
        one.ledger.hand_over(topic, placed.records if placed else {-1: rows.count}, size)
        if placed is None:
            _leave_out(rows, topic, columns, one, counted=counted)
            return
        one.cluster.health.handed_over(one.target.config.linger_ms, not one.cluster.queued_bytes)
        if one.target.watermarks:
            self._make_room(one, delivery)
        # Each cluster decides which records become dead letters, so it cannot share their batches.
        shared = None if one.dead_letters is not None else delivery.placement.shared(rows, placed, one.target)
        for number, spans in placed.by_producer.items():
            into = self._delivery(one, number, delivery)
            if into.refused:
                continue
            if into.stored_at is not None and rows.offsets is not None and _partitions_given(rows):
                one.handed_over.setdefault(number, HandedOver()).add(
                    rows.topic, topic, rows.offsets, placed.order, spans
                )
            if not counted:
                into.takes(topic, columns, placed.order, spans)
            if one.target.policy == "discard":
                into.max_block_ms = one.cluster.health.patience_ms
            try:
                one.cluster.producers[number].hand_over(topic, columns, placed.order, spans, into, shared)
            except BufferPoolExhausted:
                if one.target.policy != "discard":
                    raise
                one.cluster.health.waited_in_vain()  # batches on the wire fill the memory
            except AuthorizationFailed:
                if not into.refused:
                    raise

    def _placed(self, rows: Rows, one: _Sending, delivery: FanOutDelivery) -> RowsByProducer | None:
        """None: the cluster does not say which partitions the topic has, so the rows must be discarded."""
        last_named = rows.last_partition if one.target.partitioning == "source" else 0
        topic = self._topic(one, one.target.topic(rows.topic), last_named)
        if topic is None:
            return None
        return delivery.placement.place(rows, one.target, max(topic.partitions) + 1, available(topic))

    def _topic(self, one: _Sending, topic: str, partition: int) -> TopicMetadata | None:
        """Metadata of the topic. None: the rows must be discarded."""
        refusals = one.cluster.refusals
        if refusals.holds(topic):
            return None
        try:
            found = self._await_topic(one, topic, partition)
        except (AuthorizationFailed, InvalidTopic, TopicNotPresent) as error:
            of_mirror = one.target.refused is not None
            for_good = of_mirror and (isinstance(error, InvalidTopic) or topic in refusals)
            if one.target.policy != "discard" and not for_good:
                raise
            refusals.add(topic, error)
            return None
        if found is not None:
            refusals.found(topic)
        return found

    def _await_topic(  # noqa: C901, PLR0912 (three policies, each with an age)
        self, one: _Sending, topic: str, partition: int
    ) -> TopicMetadata | None:
        """Metadata of the topic. `block` waits for it as long as no broker answers, `discard` as long as the cluster
        may be silent. None: the rows must be discarded.

        A missing topic, or partition, does not make a cluster slow, because the broker answers. The sink asks again for
        as long as a sink with one cluster does: the mirror is about to create the topic.
        """
        target, health = one.target, one.cluster.health
        producer = one.cluster.producers[0]
        most_ms = target.wait_ms if topic in one.cluster.refusals else target.metadata_wait_ms
        ages = target.max_record_age_ms is not None
        deadline_ms = self._clock_ms() + target.config.delivery_timeout_ms  # not above `maxRecordAge`
        lacks_partition = False  # a broker says so
        while True:
            missing = lacks_partition or topic in producer.metadata.topic_errors
            patient = target.policy != "discard" or (missing and not health.dead)
            wait_ms = most_ms if patient else health.patience_ms
            if ages and not missing:
                wait_ms = max(0, min(wait_ms, int(deadline_ms - self._clock_ms()) + 1))
            before = producer.metadata.version
            try:
                found = producer.sender.await_topic(topic, partition, wait_ms)
                if partition in found.partitions:
                    return found
                if producer.metadata.version > before:
                    if wait_ms >= most_ms:
                        return found  # the partitioner refuses the row
                    lacks_partition = True
                    if not health.dead:
                        continue
                error: KafkaSourceError = DeadlineExceeded(
                    f"no broker of the cluster at {servers_of(target.config.client)} says whether {topic}-{partition}"
                    " exists ('kafka.max.block.ms')"
                )
            except BootstrapFailed as failed:
                error = failed
            except DeadlineExceeded as failed:
                metadata = producer.metadata
                if metadata.version > before and topic in metadata.topic_errors:  # a broker has said so
                    if wait_ms >= most_ms:
                        raise TopicNotPresent(str(failed)) from None
                    if not health.dead:
                        continue
                error = failed
            if target.policy == "discard":
                health.waited_in_vain()
                return None
            if self._clock_ms() >= deadline_ms:
                if ages:
                    return None
                raise error
            if target.policy == "fail":
                if wait_ms >= most_ms:
                    raise error
                continue
            log.warning(
                "cluster %r answers nothing; the task waits for it (onSlowCluster=block): %s", target.name, error
            )

    def _delivery(self, one: _Sending, number: int, delivery: FanOutDelivery) -> ClusterDelivery:
        """The delivery of a producer. Its first row begins it."""
        into = one.deliveries.get(number)
        if into is None:
            target = one.target
            into = ClusterDelivery(
                None if one.open_transaction is None else one.open_transaction(number),
                one.cluster.health,
                one.cluster.refusals,
                delivery.news,
                one.dead_letters,
                discards=target.policy == "discard",
                ages=target.max_record_age_ms is not None,
            )
            if target.offset_map is not None:
                into.stored_at = {}
            into.compressor = delivery.compressor
            delivery.stack.enter_context(one.cluster.producers[number].delivery(delivery=into))
            one.deliveries[number] = into
        return into

    # Watermarks.

    def _make_room(self, one: _Sending, delivery: FanOutDelivery) -> None:
        """Return when the cluster's queue is below its high watermark, or after acting on it."""
        # Only these clusters wait: another cluster that gets none of the task's rows has nothing to send.
        others = [other.cluster for other in delivery.sending.values() if other is not one and other.deliveries]
        while True:
            health, queue = one.cluster.health, one.cluster.queue()
            todo = step(queue, [other.queue() for other in others if not other.health.dead])
            if todo is QueueStep.GO_ON:
                return
            if todo is QueueStep.ACT:
                if queue.silent_ms >= queue.patience_ms and not health.dead:
                    health.waited_in_vain()
                self._act(one, queue)
                return
            began_ms = self._clock_ms()
            with delivery.news:
                delivery.news.wait(min(_LOOK_AGAIN_MS, max(1.0, queue.patience_ms - queue.silent_ms)) / 1000)
            if todo is QueueStep.HOLD_UP:
                health.held_up(self._clock_ms() - began_ms)

    @staticmethod
    def _act(one: _Sending, queue: Queue) -> None:
        target = one.target
        if target.policy == "fail":
            raise SlowCluster(
                f"cluster {target.name!r} has {queue.bytes} bytes to acknowledge, more than 'highWatermarkBytes' "
                f"({queue.high}), and holds up the others (onSlowCluster=fail)"
            )
        freed = one.cluster.drop_oldest(excess(queue))
        log.debug("cluster %r: dropped %d of %d bytes that wait", target.name, freed, queue.bytes)

    # The end of a task.

    def _finish(self, delivery: FanOutDelivery) -> None:
        """Send all rows without lingering. Returns when every cluster has acknowledged or discarded them."""
        for one in delivery.sending.values():
            one.cluster.health.flushed()
            one.flush()
        patient = [one for one in delivery.sending.values() if one.target.policy != "discard"]
        for one in patient:
            one.wait()
            while self._append_set_aside(one, delivery):
                one.flush()
                one.wait()
        self._wait_for_the_others([one for one in delivery.sending.values() if one not in patient], delivery, patient)

    def _wait_for_the_others(
        self, discarding: Sequence[_Sending], delivery: FanOutDelivery, patient: Sequence[_Sending]
    ) -> None:
        """Wait for each cluster with `discard` until it is done, or silent, or too late: later than the first cluster
        by `slowClusterWait`, or by a tenth of the task's time."""
        tenth_ms = (self._clock_ms() - delivery.began_ms) / 10
        first_done_ms = self._clock_ms() if any(one.deliveries for one in patient) else None
        waiting = list(discarding)
        while waiting:
            now_ms = self._clock_ms()
            for one in list(waiting):
                if self._append_set_aside(one, delivery):
                    one.flush()
                if not one.open:
                    waiting.remove(one)
                    if one.deliveries and first_done_ms is None:
                        first_done_ms = now_ms
                    continue
                health = one.cluster.health
                silent = health.silent_ms >= one.target.wait_ms
                behind_ms = 0.0 if first_done_ms is None else now_ms - first_done_ms
                if health.dead or silent or behind_ms >= max(one.target.wait_ms, tenth_ms):
                    self._abandon(one, silent=silent)
                    waiting.remove(one)
            if waiting:
                with delivery.news:
                    if all(one.open for one in waiting):
                        delivery.news.wait(min(_LOOK_AGAIN_MS, *(max(1, one.target.wait_ms) for one in waiting)) / 1000)

    @staticmethod
    def _abandon(one: _Sending, *, silent: bool) -> None:
        if silent and not one.cluster.health.dead:
            one.cluster.health.waited_in_vain()
        for into in one.deliveries.values():
            into.abandon(Dropped("the task has ended"))


def _leave_out(rows: Rows, topic: str, columns: RecordColumns, one: _Sending, *, counted: bool) -> None:
    """Note rows that no producer gets, and the offsets of those whose topic the cluster refuses."""
    if not counted:
        one.refuse(topic, columns)
    mapped = one.target.offset_map is not None and topic in one.cluster.refusals
    if mapped and rows.offsets is not None and _partitions_given(rows):
        order, spans = by_partition(rows.partitions, rows.last_partition + 1)
        one.left_out.add(rows.topic, topic, rows.offsets, order, spans)


def _partitions_given(rows: Rows) -> bool:
    """Does each row name its partition? A partition that the partitioner chose does not show where the row was read."""
    return rows.partitions is not None and not rows.partitions.null_count


def _count_discarded(delivery: FanOutDelivery) -> None:
    for name in delivery.sending:
        for tp, one in delivery.discarded(name).items():
            labels = name, tp.topic, str(tp.partition)
            metrics.count("kafkasource_records_discarded_total", one.records, *labels)
            metrics.count("kafkasource_bytes_discarded_total", one.bytes, *labels)


def _columns(rows: Rows, now_ms: int) -> RecordColumns:
    return RecordColumns(rows.keys, rows.values, rows.timestamps_ms, rows.headers, default_timestamp_ms=now_ms)
