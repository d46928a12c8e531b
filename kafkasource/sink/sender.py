"""The sender thread's work: from waiting batches to produce requests, and from their answers to settled deliveries.

Kafka's Sender. One per executor worker process; `run_once` is one turn of its loop: expire, look what is ready,
drain it per broker, send, poll, settle. It owns the client and the producer's id; the task's thread touches only the
accumulator, its delivery and `await_topic`.

Order and duplicates: a partition has at most one batch in flight, a batch sent again carries the same bytes,
producer id and sequence, so the broker knows a copy when it sees one (KIP-98). When a batch that the broker may or
may not have is given up, its sequences must not be used for other records (the broker would drop those as
duplicates), so the producer id is given up with it; the next batches get a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kafkasource.client.metadata import Metadata, TopicMetadata
from kafkasource.errors import (
    BootstrapFailed,
    DeadlineExceeded,
    DuplicateSequenceNumber,
    KafkaSourceError,
    MessageTooLarge,
    ProtocolError,
    error_for,
)
from kafkasource.protocol.apis import INIT_PRODUCER_ID, PRODUCE
from kafkasource.sink.accumulator import ProducerBatch, RecordAccumulator
from kafkasource.sink.config import ProducerConfig
from kafkasource.sink.delivery import Delivery
from kafkasource.types import TopicPartition

_LAST_VERSION_BY_NAME = 12  # from Produce v13 on topics go by id (KIP-516)
_IDLE_POLL_MS = 60_000.0
_UNKNOWN_TOPIC = 3


class Pending(Protocol):
    """A request on its way, as the client hands it out."""

    @property
    def done(self) -> bool: ...
    @property
    def error(self) -> BaseException | None: ...
    def result(self) -> dict[str, Any]: ...


class Client(Protocol):
    """What the sender needs of `client.network.NetworkClient`."""

    @property
    def metadata(self) -> Metadata: ...
    @property
    def fatal(self) -> KafkaSourceError | None: ...
    @property
    def bootstrap_errors(self) -> Mapping[str, KafkaSourceError]: ...
    def send(
        self,
        node_id: int,
        api: Any,
        body: dict[str, Any],
        *,
        timeout_ms: float | None = None,
        expect_response: bool = True,
        max_version: int | None = None,
    ) -> Pending: ...
    def poll(self, timeout_ms: float) -> object: ...
    def wakeup(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class _InFlight:
    node_id: int
    pending: Pending
    batches: list[ProducerBatch]


@dataclass
class _ProducerId:
    producer_id: int
    producer_epoch: int
    next_sequences: dict[TopicPartition, int]

    def take(self, tp: TopicPartition, count: int) -> int:
        """The base sequence of the partition's next `count` records; wraps at 2^31."""
        sequence = self.next_sequences.get(tp, 0)
        self.next_sequences[tp] = (sequence + count) & 0x7FFFFFFF
        return sequence


_NOT_IDEMPOTENT = _ProducerId(-1, -1, {})


class Sender:
    """State of the sender thread. Methods are for that thread, except those that say otherwise."""

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: RecordAccumulator,
        client: Client,
        *,
        clock_ms: Callable[[], float],
    ) -> None:
        self.config = config
        self._accumulator = accumulator
        self._client = client
        self._clock_ms = clock_ms
        self._in_flight: list[_InFlight] = []
        self._producer_id: _ProducerId | None = None
        self._initialising: Pending | None = None
        self._init_not_before_ms = 0.0
        self._init_failures = 0
        self._news = threading.Condition()  # guards the three below
        self._awaited: dict[str, int] = {}  # topic -> callers waiting for its metadata
        self._deliveries: set[Delivery] = set()
        self._failure: BaseException | None = None  # why this sender is of no more use

    # Any thread.

    def begin(self) -> Delivery:
        """A delivery for one task; `end` must follow, whatever happens."""
        delivery = Delivery()
        with self._news:
            if self._failure is not None:
                raise self._failure
            self._deliveries.add(delivery)
        return delivery

    def end(self, delivery: Delivery) -> None:
        with self._news:
            self._deliveries.discard(delivery)

    @property
    def broken(self) -> bool:
        """The thread has ended; a new producer is needed."""
        return self._failure is not None

    def wakeup(self) -> None:
        """Make a poll that is going on, or the next one, return at once."""
        self._client.wakeup()

    def await_topic(self, topic: str) -> TopicMetadata:
        """Metadata of a topic, waited for up to `max.block.ms`; the JVM connector's text when it does not come."""
        known = self._client.metadata.topic(topic)
        if known is not None and known.partitions:
            return known
        with self._news:
            self._awaited[topic] = self._awaited.get(topic, 0) + 1
            self.wakeup()
            try:
                return self._wait_for_topic(topic)
            finally:
                self._awaited[topic] -= 1
                if not self._awaited[topic]:
                    del self._awaited[topic]

    def _wait_for_topic(self, topic: str) -> TopicMetadata:
        metadata = self._client.metadata
        deadline_ms = self._clock_ms() + self.config.max_block_ms
        before = metadata.version  # what went wrong earlier may be right by now (an ACL granted): ask again
        while True:
            known = metadata.topic(topic)
            if known is not None and known.partitions:
                return known
            if self._failure is not None:
                raise self._failure
            code = metadata.topic_errors.get(topic, 0) if metadata.version > before else 0
            error = error_for(code, f"topic {topic!r}") if code else None
            if error is not None and not error.retriable and code != _UNKNOWN_TOPIC:
                raise error
            remaining_ms = deadline_ms - self._clock_ms()
            if remaining_ms <= 0:
                if not metadata.nodes():
                    attempts = tuple((address, str(why)) for address, why in self._client.bootstrap_errors.items())
                    raise BootstrapFailed(attempts, self.config.max_block_ms)
                why = f" ({error})" if error else ""
                raise DeadlineExceeded(
                    f"Topic {topic} not present in metadata after {self.config.max_block_ms} ms.{why} Create it first: "
                    "the sink creates no topics. The wait is 'kafka.max.block.ms'."
                )
            self._news.wait(remaining_ms / 1000)

    # The sender thread.

    def run_once(self) -> None:
        """One turn. Raises ClusterMismatch when brokers of two clusters answered; nothing may be sent after that."""
        now_ms = self._clock_ms()
        self._want_topics()
        self._expire(now_ms)
        delay_ms = self._send_ready(now_ms)
        self._client.poll(max(0.0, delay_ms))
        if self._client.fatal is not None:
            raise self._client.fatal
        self._settle()
        with self._news:
            if self._awaited:
                self._news.notify_all()

    def fail_all(self, error: BaseException, *, for_good: bool) -> None:
        """Fail every delivery that is going on; `for_good`: and every later one."""
        with self._news:
            if for_good:
                self._failure = error
            for delivery in self._deliveries:
                delivery.fail(error)
            self._news.notify_all()

    def _want_topics(self) -> None:
        with self._news:
            awaited = list(self._awaited)
        if awaited:
            self._client.metadata.want(awaited)
            if any(self._client.metadata.topic(topic) is None for topic in awaited):
                self._client.metadata.request_update()  # its own backoff spaces the questions

    def _expire(self, now_ms: float) -> None:
        """Fail what was not delivered in time. In flight, it keeps its buffer until the answer or the closed socket."""
        for batch in self._accumulator.take_doomed(now_ms):
            self._give_up(batch, self._too_late(batch))
            self._accumulator.release(batch)
        for request in self._in_flight:
            for batch in request.batches:
                if batch.created_ms + self.config.delivery_timeout_ms <= now_ms:
                    batch.delivery.fail(self._too_late(batch))

    def _too_late(self, batch: ProducerBatch) -> DeadlineExceeded:
        last = f" after {batch.attempts} attempts; the last error: {batch.last_error}" if batch.last_error else ""
        return DeadlineExceeded(
            f"records for {batch.topic_partition} were not acknowledged within 'kafka.delivery.timeout.ms' "
            f"({self.config.delivery_timeout_ms}){last}"
        )

    def _send_ready(self, now_ms: float) -> float:
        """Send what can be sent; returns how long the poll may last."""
        waits = [_IDLE_POLL_MS]
        check = self._accumulator.ready(self._client.metadata.leader_id, now_ms)
        if check.unknown_leader_topics:
            self._client.metadata.want(check.unknown_leader_topics)
            self._client.metadata.request_update()
            waits.append(self.config.retry_backoff_ms)
        if check.next_check_delay_ms is not None:
            waits.append(check.next_check_delay_ms)
        nodes = {node for node in check.nodes if self._requests_to(node) < self.config.max_in_flight}
        if nodes:
            identity = self._identity(nodes, now_ms)
            if identity is None:
                if self._initialising is None:
                    waits.append(self._init_not_before_ms - now_ms)
                elif self._initialising.done:
                    waits.append(0.0)
            else:
                drained = self._accumulator.drain(self._client.metadata.leader_id, nodes, now_ms)
                for node_id, batches in drained.items():
                    self._send(node_id, self._closed(batches, identity), now_ms)
                if drained:
                    waits.append(0.0)  # more of the same partitions may go to other brokers meanwhile
        expiry_ms = self._next_expiry_ms()
        if expiry_ms is not None:
            waits.append(expiry_ms - now_ms)
        return min(waits)

    def _next_expiry_ms(self) -> float | None:
        """When the next batch runs out of time, waiting or in flight; those whose task was told do not count."""
        times = [
            batch.created_ms + self.config.delivery_timeout_ms
            for request in self._in_flight
            for batch in request.batches
            if not batch.delivery.failed
        ]
        waiting = self._accumulator.next_expiry_ms()
        if waiting is not None:
            times.append(waiting)
        return min(times, default=None)

    def _requests_to(self, node_id: int) -> int:
        return sum(request.node_id == node_id for request in self._in_flight)

    def _identity(self, nodes: set[int], now_ms: float) -> _ProducerId | None:
        """The producer id to send with; None while it is being asked for."""
        if not self.config.idempotent:
            return _NOT_IDEMPOTENT
        if self._producer_id is None and self._initialising is None and now_ms >= self._init_not_before_ms:
            body = {"transactional_id": None, "transaction_timeout_ms": 2**31 - 1}  # Java's values without transactions
            self._initialising = self._client.send(
                min(nodes), INIT_PRODUCER_ID, body, timeout_ms=self.config.request_timeout_ms
            )
        return self._producer_id

    def _closed(self, batches: list[ProducerBatch], identity: _ProducerId) -> list[ProducerBatch]:
        """Encode those that are sent for the first time; a batch that cannot be encoded fails its task alone."""
        closed = []
        for batch in batches:
            if batch.encoded is None:
                try:
                    sequence = -1
                    if identity.producer_id >= 0:
                        sequence = identity.take(batch.topic_partition, batch.builder.record_count)
                    batch.close(identity.producer_id, identity.producer_epoch, sequence)
                except Exception as error:
                    batch.sequenced = identity.producer_id >= 0  # the sequences are taken
                    self._give_up(batch, error)
                    self._finish(batch)
                    continue
            closed.append(batch)
        return closed

    def _send(self, node_id: int, batches: list[ProducerBatch], now_ms: float) -> None:
        if not batches:
            return
        topics: dict[str, list[dict[str, Any]]] = {}
        for batch in batches:
            batch.attempts += 1
            batch.last_attempt_ms = now_ms
            tp = batch.topic_partition
            topics.setdefault(tp.topic, []).append({"index": tp.partition, "records": batch.encoded})
        body = {
            "transactional_id": None,
            "acks": self.config.acks,
            "timeout_ms": self.config.request_timeout_ms,
            "topic_data": [{"name": name, "partition_data": data} for name, data in topics.items()],
        }
        pending = self._client.send(
            node_id,
            PRODUCE,
            body,
            timeout_ms=self.config.request_timeout_ms,
            expect_response=self.config.acks != 0,
            max_version=_LAST_VERSION_BY_NAME,
        )
        self._in_flight.append(_InFlight(node_id, pending, batches))

    def _settle(self) -> None:
        """Take in every answer that has come."""
        if self._initialising is not None and self._initialising.done:
            pending, self._initialising = self._initialising, None
            self._take_producer_id(pending)
        answered = [request for request in self._in_flight if request.pending.done]
        if answered:
            self._in_flight = [request for request in self._in_flight if not request.pending.done]
            for request in answered:
                self._take_answer(request)

    def _take_producer_id(self, pending: Pending) -> None:
        error = pending.error
        if error is None:
            body = pending.result()
            if body["error_code"] == 0:
                self._producer_id = _ProducerId(body["producer_id"], body["producer_epoch"], {})
                self._init_failures = 0
                return
            error = error_for(body["error_code"], "InitProducerId for an idempotent producer")
        if not _is_retriable(error):
            self.fail_all(error, for_good=False)
        # Retried without an end of its own: the batches that wait for it expire by delivery.timeout.ms.
        self._init_failures += 1
        self._init_not_before_ms = self._clock_ms() + self.config.retry_backoff(self._init_failures)
        self._client.metadata.request_update()

    def _take_answer(self, request: _InFlight) -> None:
        error = request.pending.error
        if error is not None:
            for batch in request.batches:
                self._failed(batch, error)
            return
        if self.config.acks == 0:
            for batch in request.batches:
                self._acknowledged(batch, -1)
            return
        answers = {
            TopicPartition(topic["name"], partition["index"]): partition
            for topic in request.pending.result()["responses"]
            for partition in topic["partition_responses"]
        }
        for batch in request.batches:
            answer = answers.get(batch.topic_partition)
            where = f"produce to {batch.topic_partition} on node {request.node_id}"
            if answer is None:
                missing = ProtocolError(f"{where}: the broker's response does not speak of the partition")
                missing.retriable = True
                self._failed(batch, missing)
            elif answer["error_code"] == 0:
                self._acknowledged(batch, answer["base_offset"])
            else:
                failure = error_for(answer["error_code"], where + _detail(answer))
                if isinstance(failure, DuplicateSequenceNumber):
                    self._acknowledged(batch, -1)  # stored by an earlier attempt; the broker no longer knows where
                else:
                    self._failed(batch, failure)

    def _acknowledged(self, batch: ProducerBatch, base_offset: int) -> None:
        last_offset = base_offset + batch.record_count - 1 if base_offset >= 0 else None
        batch.delivery.acknowledged(batch.topic_partition, batch.record_count, batch.size, last_offset)
        self._finish(batch)

    def _failed(self, batch: ProducerBatch, error: BaseException) -> None:
        """Send it again where that can help and its task still wants it; else its task fails."""
        batch.last_error = error
        if getattr(error, "refresh_metadata", False):
            self._client.metadata.request_update()
        expired = batch.created_ms + self.config.delivery_timeout_ms <= self._clock_ms()
        if _is_retriable(error) and batch.attempts <= self.config.retries and not batch.delivery.failed and not expired:
            self._accumulator.put_back(batch)
            return
        self._give_up(batch, self._too_late(batch) if expired else _explained(error, batch))
        self._finish(batch)

    def _give_up(self, batch: ProducerBatch, error: BaseException) -> None:
        """The batch will never be sent again. The caller releases its memory."""
        batch.delivery.fail(error)
        if batch.sequenced:
            self._producer_id = None

    def _finish(self, batch: ProducerBatch) -> None:
        """Nothing of the batch is on the wire any more."""
        self._accumulator.release(batch)
        self._accumulator.unmute(batch.topic_partition)


def _is_retriable(error: BaseException) -> bool:
    return bool(getattr(error, "retriable", False))


def _detail(answer: dict[str, Any]) -> str:
    """What the broker says beyond the code (KIP-467): its text and which records, never their content."""
    text = ""
    if answer.get("record_errors"):
        indexes = [entry["batch_index"] for entry in answer["record_errors"][:20]]
        text += f", records {indexes} of the batch"
    if answer.get("error_message"):
        text += f" ({answer['error_message'][:500]!r})"
    return text


def _explained(error: BaseException, batch: ProducerBatch) -> BaseException:
    """What to do about it, where the error itself cannot know."""
    if isinstance(error, MessageTooLarge):
        return MessageTooLarge(
            error.code,
            f"{error.context}: a batch of {batch.record_count} records in {batch.size} bytes; lower "
            "'kafka.batch.size' or raise the topic's max.message.bytes (and "
            "'kafka.max.request.size' where that is smaller)",
        )
    return error if isinstance(error, KafkaSourceError) else KafkaSourceError(f"{type(error).__name__}: {error}")
