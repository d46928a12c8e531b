"""The sender thread's work: from waiting batches to produce requests, and from their answers to settled deliveries.

Kafka's Sender. One per executor worker process; `run_once` is one turn of its loop: expire batches, find ready ones,
drain them per broker, send, poll, settle. It owns the client and the producer's id (a task transaction's comes with its
delivery). The task's thread touches only the accumulator, its delivery and `await_topic`.

Order and duplicates: up to `max.in.flight` requests are unanswered on a connection, so as many batches of a partition.
A batch sent again carries the same bytes, producer id and sequence, so the broker recognizes a copy, and refuses a
batch whose turn has not come (KIP-98). `PartitionBatches` keeps the order. When the sender gives up a batch that the
broker may have stored, it gives up the producer id, too. It also takes another id where a broker has forgotten this
one: `outcome_of` knows when a batch may go again under that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kafkasource.errors import (
    CorruptRecordBatch,
    DeadlineExceeded,
    InvalidRecord,
    InvalidTimestamp,
    refusal,
)
from kafkasource.kafka import counters
from kafkasource.kafka.cluster.caller import servers_of
from kafkasource.kafka.network.metadata import TopicMetadata
from kafkasource.kafka.producer import log as producer_log
from kafkasource.kafka.producer import unwritable
from kafkasource.kafka.producer.batch import ProducerBatch
from kafkasource.kafka.producer.client import AwaitedTopics, Client, PendingAnswer, Wakeup
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.delivery import Delivery
from kafkasource.kafka.producer.producer_id import Identity, ProducerIdentity, TaskTransaction
from kafkasource.kafka.producer.queues import PartitionQueues
from kafkasource.kafka.producer.request import (
    Answer,
    Outcome,
    ProduceRequest,
    answers_of,
    explained,
    nothing_stored,
    outcome_of,
)
from kafkasource.kafka.protocol.apis import PRODUCE
from kafkasource.types import NEVER

_LAST_VERSION_BY_NAME = 12  # from Produce v13 on topics go by id (KIP-516)
_LAST_VERSION_OF_ENROLLED = 11  # v12 would add partitions to the transaction (KIP-890): not its dialect
_IDLE_POLL_MS = 60_000.0


@dataclass(frozen=True)
class _InFlight:
    node_id: int
    pending: PendingAnswer
    batches: list[ProducerBatch]
    request: ProduceRequest
    sent_ms: float


class Sender:
    """The state of the sender thread. Methods are for that thread, except those that say otherwise."""

    def __init__(
        self,
        config: ProducerConfig,
        queues: PartitionQueues,
        client: Client,
        wakeup: Wakeup,
        *,
        clock_ms: Callable[[], float],
    ) -> None:
        """`wakeup` ends a poll of `client`."""
        self.config = config
        self._queues = queues
        self._client = client
        client.metadata.max_idle_ms = config.metadata_max_idle_ms
        self._clock_ms = clock_ms
        self._identity = ProducerIdentity(config, client, clock_ms)
        self.wakeup = wakeup
        self._topics = AwaitedTopics(config, client, wakeup, clock_ms)
        self._in_flight: list[_InFlight] = []
        self._leaving: set[Delivery] = set()  # failed: no more of their batches are sent, some may be on the wire
        self._lock = threading.Lock()  # of what follows
        self._deliveries: set[Delivery] = set()
        self._without_transaction = 0  # how many of them are without a transaction
        self._ended_in_failure: set[Delivery] = set()  # their batches may still wait
        self._failure: BaseException | None = None

    # Any thread.

    def begin(self, transaction: TaskTransaction | None = None, delivery: Delivery | None = None) -> Delivery:
        """A new delivery that this sender will settle, or this one. Raises the reason when the sender has ended."""
        delivery = delivery or Delivery(transaction)
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if delivery.transaction is not None:
                delivery.transaction.left.clear()
            self._deliveries.add(delivery)
            self._without_transaction += delivery.transaction is None
        return delivery

    def end(self, delivery: Delivery) -> None:
        """The delivery's task appends no more rows."""
        with self._lock:
            self._deliveries.discard(delivery)
            self._without_transaction -= delivery.transaction is None
            if delivery.failed:
                self._ended_in_failure.add(delivery)
        if delivery.failed:
            self.wakeup()
        elif delivery.transaction is not None:
            delivery.transaction.left.set()

    @property
    def broken(self) -> bool:
        """Has the thread ended? Then a new producer is needed."""
        return self._failure is not None

    @property
    def waited_for(self) -> bool:
        """Is there a task that waits for the outcome of batches?"""
        with self._lock:
            return any(delivery.waits for delivery in self._deliveries)

    def await_topic(self, topic: str, partition: int = 0, max_block_ms: int | None = None) -> TopicMetadata:
        """Metadata of a topic, as `AwaitedTopics.await_topic`."""
        return self._topics.await_topic(topic, partition, max_block_ms)

    def expect_topics(self, topics: Iterable[str]) -> None:
        """Announce topics whose rows come next: see `AwaitedTopics.expect`."""
        self._topics.expect(topics)

    # The sender thread.

    def run_once(self) -> None:
        """Do one turn. Raises ClusterMismatch if brokers of two clusters answered: nothing may be sent after that."""
        self.wakeup.turn_begins()
        now_ms = self._clock_ms()
        self._topics.ask()
        self._drop(now_ms)
        if self._without_transaction:
            self._identity.ask(now_ms)
        wait_ms = self._send_ready(now_ms)
        self._let_go()
        self._client.poll(max(0.0, wait_ms))
        if self._client.fatal is not None:
            raise self._client.fatal
        self._settle()
        self._topics.tell()

    def fail_all(self, error: BaseException, *, for_good: bool) -> None:
        """Fail every delivery that is going on, and every later one. If not `for_good`: only those without a
        transaction."""
        with self._lock:
            if for_good:
                self._failure = error
            for delivery in self._deliveries:
                if for_good or delivery.transaction is None:
                    delivery.fail(error)
        if for_good:
            self._topics.fail(error)

    def _drop(self, now_ms: float) -> None:
        """Drop batches that no task wants any more; fail batches that were not delivered in time.

        A batch in flight keeps its buffer until its answer comes or its socket closes.
        """
        expired = self._queues.take_expired(now_ms)
        producer_log.expired(len(expired))
        for batch in expired:
            self._count("kafkasource_batches_expired_total", batch)
            self._drop_waiting(batch, self._too_late(batch))
        for request in self._in_flight:
            for batch in request.batches:
                if self._is_late(batch, now_ms):
                    batch.delivery.late(self._too_late(batch))
        with self._lock:  # only now, so that this turn sends nothing of a delivery that has just failed
            unwanted = {delivery for delivery in self._deliveries if delivery.failed} | self._ended_in_failure
            self._leaving |= self._ended_in_failure
            self._ended_in_failure.clear()
        for batch in self._queues.take_of(unwanted) if unwanted else ():
            self._drop_waiting(batch, batch.delivery.error or self._too_late(batch))

    def _drop_waiting(self, batch: ProducerBatch, error: BaseException) -> None:
        self._give_up(batch, error)
        self._queues.release(batch)

    def _is_late(self, batch: ProducerBatch, now_ms: float) -> bool:
        return batch.created_ms + self.config.delivery_timeout_ms <= now_ms

    def _too_late(self, batch: ProducerBatch) -> DeadlineExceeded:
        last = f" after {batch.attempts} attempts; the last error: {batch.last_error}" if batch.last_error else ""
        return DeadlineExceeded(
            f"records for {batch.topic_partition} were not acknowledged by the cluster at "
            f"{servers_of(self.config.client)} within 'kafka.delivery.timeout.ms' "
            f"({self.config.delivery_timeout_ms}){last}"
        )

    def _send_ready(self, now_ms: float) -> float:
        """Send the batches that can be sent. Returns how long the poll may last."""
        sent = True
        while sent:  # a request has one batch of a partition
            sent = False
            identity = self._identity.current
            producer_id = identity.in_line if identity is not None else None
            check = self._queues.ready(self._client.metadata.leader_id, now_ms, producer_id)
            nodes = [node for node in check.nodes if self._requests_to(node) < self.config.max_in_flight]
            for node_id in nodes:
                drained = self._queues.drain(check.nodes[node_id])
                self._send(node_id, self._closed(drained, identity), now_ms)
                sent = sent or bool(drained)
        waits = [_IDLE_POLL_MS, self._next_expiry_ms(now_ms) - now_ms]
        if check.unknown_leader_topics:
            self._client.metadata.want(check.unknown_leader_topics)
            self._client.metadata.request_update()
            waits.append(self.config.retry_backoff_ms)
        if check.next_check_delay_ms is not None:
            waits.append(check.next_check_delay_ms)
        if nodes:
            waits.append(1.0)
        if check.wants_producer_id:
            waits.append(self._wait_for_identity_ms(now_ms))
        return min(waits)

    def _wait_for_identity_ms(self, now_ms: float) -> float:
        """How long the poll may last while a producer id is missing, apart from the coming of its answer."""
        if self._identity.ask(now_ms):
            return 0.0 if self._identity.answer_is_here else _IDLE_POLL_MS
        return max(self._identity.retry_at_ms - now_ms, 1.0)

    def _next_expiry_ms(self, now_ms: float) -> float:
        """When the time of the next batch is over, waiting or in flight. Batches of failed deliveries do not count."""
        created = (
            batch.created_ms
            for request in self._in_flight
            for batch in request.batches
            if not batch.delivery.failed and not self._is_late(batch, now_ms)
        )
        in_flight = min(created, default=NEVER) + self.config.delivery_timeout_ms
        return min(in_flight, self._queues.next_expiry_ms())

    def _requests_to(self, node_id: int) -> int:
        return sum(request.node_id == node_id for request in self._in_flight)

    def _closed(self, batches: list[ProducerBatch], own: Identity | None) -> list[ProducerBatch]:
        """Encode the batches that are sent for the first time. A batch that cannot be encoded fails only its own
        task."""
        closed = []
        for batch in others_last(batches):
            if batch.encoded is None:
                identity = batch.delivery.transaction or own
                assert identity is not None  # otherwise `ready` gave no batch without a transaction
                try:
                    sequence = identity.take(batch.topic_partition, batch.builder.record_count)
                    batch.close(identity.producer_id, identity.producer_epoch, sequence)
                except Exception as error:
                    batch.producer_id = identity.producer_id  # the sequences are taken
                    self._give_up(batch, explained(error, batch))
                    self._finish(batch)
                    continue
                self._queues.encoded(batch)
                if batch.size > self.config.max_request_bytes and batch.record_count > 1:  # compression made it grow
                    self._split(batch, None)
                    continue
            elif batch.forgotten:
                assert own is not None  # as above
                sequence = own.take(batch.topic_partition, batch.record_count)
                batch.renew(own.producer_id, own.producer_epoch, sequence)
            elif batch.records_gone:
                batch.renumber()
            closed.append(batch)
        return closed

    def _send(self, node_id: int, batches: list[ProducerBatch], now_ms: float) -> None:
        if not batches:
            return
        for batch in batches:
            batch.attempts += 1
            batch.last_attempt_ms = now_ms
        transaction = batches[0].delivery.transaction
        enrolled = transaction is not None and transaction.transaction_version < 2
        request = ProduceRequest(batches, self.config, node_id)
        producer_log.created(self._client.metadata, node_id, request, batches)
        pending = self._client.send(
            node_id,
            PRODUCE,
            request,
            timeout_ms=self.config.request_timeout_ms,
            expect_response=self.config.acks != 0,
            max_version=_LAST_VERSION_OF_ENROLLED if enrolled else _LAST_VERSION_BY_NAME,
        )
        producer_log.sent(node_id)
        self._in_flight.append(_InFlight(node_id, pending, batches, request, now_ms))

    def _settle(self) -> None:
        """Process every answer that has come."""
        no_identity = self._identity.settle()
        if no_identity is not None:
            self.fail_all(no_identity, for_good=False)
        answered = [request for request in self._in_flight if request.pending.done]
        if answered:
            self._in_flight = [request for request in self._in_flight if not request.pending.done]
            now_ms = self._clock_ms()
            for request in answered:
                error = request.pending.error
                producer_log.received(request.node_id, error, request.batches)
                seconds = (now_ms - request.sent_ms) / 1000
                counters.observe("kafkasource_produce_latency_seconds", seconds, self.config.cluster_name)
                body = {} if error is not None else request.pending.result()
                for batch in request.batches if error is not None else ():
                    if batch.delivery.transaction is not None:
                        batch.delivery.transaction.unanswered = True
                refused = request.request.refused
                if request.request.lost_idempotence:
                    self._identity.do_without(
                        f"node {request.node_id} stores no sequences: it is older than Kafka 0.11"
                    )
                sent = [batch for batch in request.batches if batch not in refused]
                for answer in answers_of(body, error, sent, request.node_id):
                    self._take(answer, now_ms)
                for batch, refusal in refused.items():
                    self._take(Answer(batch, refusal), now_ms)

    def _let_go(self) -> None:
        """Notify failed tasks when none of their batches is on the wire any more."""
        if self._leaving:
            held = {batch.delivery for request in self._in_flight for batch in request.batches}
            for delivery in self._leaving - held:
                if delivery.transaction is not None:
                    delivery.transaction.left.set()
            self._leaving &= held

    def _take(self, answer: Answer, now_ms: float) -> None:
        """Send a batch again if that can help and its task still wants it. Otherwise fail the task."""
        batch, error = answer.batch, answer.error
        failed = error is not None  # else nobody asks for the batches beside it
        is_next, is_alone = failed and self._queues.is_next(batch), failed and self._queues.is_alone(batch)
        outcome = outcome_of(answer, is_next=is_next, is_alone=is_alone, retries=self.config.retries)
        if outcome is Outcome.STORED:
            producer_log.produced(answer)
            self._count("kafkasource_records_written_total", batch, batch.record_count)
            self._count("kafkasource_bytes_written_total", batch, batch.size)
            batch.delivery.acknowledged(
                batch.topic_partition, batch.record_count, batch.size, answer.last_offset, in_order=batch.sequenced
            )
            self._finish(batch, stored=True)
            return
        assert error is not None
        batch.last_error = refusal(error, PRODUCE.name, self._client.identity)
        if getattr(error, "refresh_metadata", False):
            self._client.metadata.request_update()
        late = self._is_late(batch, now_ms)
        if outcome in (Outcome.RETRY, Outcome.RENEW) and not batch.delivery.failed and not late:
            producer_log.retrying(batch, self.config.retries, error)
            producer_log.still_retrying(batch, now_ms - batch.created_ms, self.config.delivery_timeout_ms)
            self._count("kafkasource_produce_retries_total", batch)
            if outcome is Outcome.RENEW:
                batch.forgotten = True
                if (current := self._identity.current) is not None and current.producer_id == batch.producer_id:
                    self._identity.forget()
            else:
                batch.unanswered |= not nothing_stored(error)
            if batch.records_gone:
                batch.attempts = 0  # those with its old sequence
            self._queues.put_back(batch)
            return
        if outcome is Outcome.SPLIT and not batch.delivery.failed and not late:
            self._split(batch, error)
            return
        if outcome is Outcome.SET_ASIDE and not batch.delivery.failed and not late and self._set_aside(answer):
            return
        if late:
            self._count("kafkasource_batches_expired_total", batch)
        self._give_up(batch, self._too_late(batch) if late else explained(error, batch))
        self._finish(batch)

    def _count(self, name: str, batch: ProducerBatch, amount: int = 1) -> None:
        counters.count(name, amount, self.config.cluster_name, batch.topic_partition.topic)

    def _split(self, batch: ProducerBatch, refused: BaseException | None) -> None:
        """Send a batch in pieces: the broker refused it, or would refuse it."""
        try:
            if refused is not None:
                producer_log.splitting(batch, refused)
            self._queues.split(batch, too_large=not isinstance(refused, (InvalidRecord, InvalidTimestamp)))
            self._count("kafkasource_batches_split_total", batch)
        except CorruptRecordBatch as error:  # its bytes in memory have changed since they were written
            self._give_up(batch, error)
            self._finish(batch)

    def _set_aside(self, answer: Answer) -> bool:
        """Hand the records that the broker refused to the task, as dead letters, and send the others again. False: the
        batch must be given up."""
        batch = answer.batch
        if self._queues.may_be_stored(batch):
            return False
        identity = batch.delivery.transaction or self._identity.current
        try:
            some_left = unwritable.set_aside(answer, self._queues, identity)
        except CorruptRecordBatch as error:  # as in `_split`
            self._give_up(batch, error)
            some_left = False
        if not some_left:
            self._finish(batch)
        return True

    def _give_up(self, batch: ProducerBatch, error: BaseException) -> None:
        """The batch will never be sent again. The caller releases its memory."""
        producer_log.gave_up(batch.topic_partition, error)
        batch.delivery.gave_up(batch.topic_partition.topic, error)
        if batch.sequenced and batch.delivery.transaction is None:
            self._queues.open_gap(batch)
            self._identity.forget()

    def _finish(self, batch: ProducerBatch, *, stored: bool = False) -> None:
        """The batch is not on the wire any more."""
        self._queues.release(batch)
        self._queues.answered(batch, stored=stored)


def others_last(batches: Sequence[ProducerBatch]) -> Iterator[ProducerBatch]:
    """The batches, last those that another cluster's thread compresses when their turn comes: so the threads divide the
    work among them instead of waiting for each other."""
    later = []
    for batch in batches:
        if batch.encoded is None and batch.is_compressed_elsewhere:
            later.append(batch)
        else:
            yield batch
    yield from later
