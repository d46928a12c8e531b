"""The identity by which brokers know a producer: its id and epoch, and the next sequence of each partition (KIP-98).

There are two kinds. The producer's own identity is for deliveries at least once; all tasks share it. A
`TaskTransaction` is the transaction in which one task writes: it comes with the delivery and ends with it.

The sender thread has the producer's own identity. It asks for an id when there is something to write. It gives the id
up for good (`forget`) when it gives up a batch that the broker may have stored: the batch's sequences must never stand
for other records, which the broker would drop as duplicates. A batch in flight under the old id is sent again under the
old id.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkasource.errors import BrokerError, UnsupportedApiVersion, error_for, refusal
from kafkasource.kafka.producer.client import Client, PendingAnswer
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.protocol.apis import INIT_PRODUCER_ID
from kafkasource.types import ProducerId, TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.transactions import Transactions

log = logging.getLogger("kafkasource.sink")

_QUIET_S = 5.0  # Spark kills a task that it has cancelled after two to four seconds: a longer wait ends nowhere
_NO_TRANSACTION = {"transactional_id": None, "transaction_timeout_ms": 2**31 - 1}  # Java's values


def sequence_after(sequence: int, records: int) -> int:
    """The sequence that is `records` further on. It wraps at 2^31."""
    return (sequence + records) & 0x7FFFFFFF


@dataclass
class Identity:
    """One producer id, or none: the id -1."""

    producer_id: int = -1
    producer_epoch: int = -1
    keeps_order_alone: bool = False  # no id protects the order of retries, so one batch of a partition is in flight
    _next_sequences: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def producer(self) -> ProducerId:
        return ProducerId(self.producer_id, self.producer_epoch)

    @property
    def in_line(self) -> int:
        """The producer id under which a batch may follow others in flight. -2, which no batch has: it never may."""
        return -2 if self.keeps_order_alone else self.producer_id

    def take(self, tp: TopicPartition, count: int) -> int:
        """The base sequence of the partition's next `count` records. -1 without an id."""
        if self.producer_id < 0:
            return -1
        sequence = self._next_sequences.get(tp, 0)
        self._next_sequences[tp] = sequence_after(sequence, count)
        return sequence

    def give_back(self, tp: TopicPartition, count: int) -> None:
        """Records that had sequences will never be stored: those behind them move up."""
        if self.producer_id >= 0:
            self._next_sequences[tp] = sequence_after(self._next_sequences.get(tp, 0), -count)


@dataclass(eq=False)
class TaskTransaction(Identity):
    """One transactional id under one epoch, for the rows of one task. Readers with read_committed see them once the
    driver commits.

    The task's thread makes and enrolls it. The sender thread uses sequences and `known_to_leader`.
    """

    transactional_id: str = ""
    transaction_version: int = 2  # KIP-890: from 2 on a produce request (v12) adds its partitions
    transactions: Transactions | None = None
    known_to_leader: set[TopicPartition] = field(default_factory=set)  # partitions with a batch stored under this epoch
    left: threading.Event = field(default_factory=threading.Event)  # none of its batches is on the wire, nor will be
    unanswered: bool = False  # brokers may have acted on a request that was sent, or may still act on it
    _enrolled: set[TopicPartition] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.left.set()

    @classmethod
    def open(
        cls, transactions: Transactions, transactional_id: str, timeout_ms: int, transaction_version: int
    ) -> TaskTransaction:
        """Begin a new epoch of the id, which aborts and fences anything that an earlier attempt left open. Blocks."""
        given = transactions.init_producer_id(transactional_id, timeout_ms)
        log.debug("%s: ProducerId set to %d with epoch %d", transactional_id, *given)
        return cls.join(transactions, transactional_id, given, transaction_version)

    @classmethod
    def join(
        cls, transactions: Transactions, transactional_id: str, producer_id: ProducerId, transaction_version: int
    ) -> TaskTransaction:
        """Join a transaction that the driver has opened. No other task may write to this task's partitions."""
        return cls(
            producer_id.producer_id,
            producer_id.producer_epoch,
            transactional_id=transactional_id,
            transaction_version=transaction_version,
            transactions=transactions,
        )

    def following(self, given: ProducerId) -> TaskTransaction:
        """The next transaction of this id, after the commit that answered with `given`.

        In dialect 1 the epoch stays, and the sequences go on: this object. In dialect 2 each transaction has its own.
        """
        if given == self.producer:
            self._enrolled.clear()
            return self
        assert self.transactions is not None
        return self.join(self.transactions, self.transactional_id, given, self.transaction_version)

    def may_be_aborted(self) -> bool:
        """Whether an abort under this epoch ends it for good. Waits some seconds for batches that are on the wire.

        In dialect 1 the epoch outlives the transaction: a request that reaches a leader after the abort would begin
        another one.
        """
        return self.transaction_version >= 2 or (self.left.wait(_QUIET_S) and not self.unanswered)

    def enroll(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction before their first batch. Blocks. Does nothing from version 2 on."""
        if self.transaction_version >= 2:
            return
        new = [tp for tp in partitions if tp not in self._enrolled]
        if new:
            assert self.transactions is not None
            log.debug("%s: Begin adding %d new partitions to transaction", self.transactional_id, len(new))
            self.transactions.add_partitions(self.transactional_id, self.producer, new)
            self._enrolled.update(new)


class ProducerIdentity:
    """The producer's own identity, for which it asks when it has none. A producer that is not idempotent uses one
    without an id."""

    def __init__(self, config: ProducerConfig, client: Client, clock_ms: Callable[[], float]) -> None:
        self._config = config
        self._client = client
        self._clock_ms = clock_ms
        self._asked: PendingAnswer | None = None
        self._asked_node = -1
        self._failures = 0
        self._in_vain: Counter[int] = Counter()  # by node: how often it was asked since the last id came, and gave none
        self.retry_at_ms = 0.0  # do not ask again before this time
        self.current: Identity | None = None if config.idempotent else Identity()

    def forget(self) -> None:
        """Never use the present id for another batch."""
        if self._config.idempotent:
            self.current = None

    def do_without(self, why: str) -> None:
        """Use no id from now on: some broker is too old. The first batch of a partition under an id goes alone, so no
        batch has overtaken it.
        """
        if self.current is None or not self.current.keeps_order_alone:
            log.warning(
                "%s. Records are written without idempotence: in order, but a batch whose answer gets lost may be "
                "stored twice ('kafka.enable.idempotence'=true makes this an error)",
                why,
            )
            self.current = Identity(keeps_order_alone=True)

    def ask(self, now_ms: float) -> bool:
        """Ask for an id, if one is needed: the least loaded broker, and another one at each retry. False: an id is
        needed, but cannot be had now.
        """
        if self.current is not None or self._asked is not None:
            return True
        if not self._client.metadata.nodes() or now_ms < self.retry_at_ms:
            return False
        node_id, wait_ms = self._client.least_loaded(now_ms, self._in_vain)
        if node_id is None:
            self.retry_at_ms = now_ms + wait_ms
            return False
        self._asked_node = node_id
        self._asked = self._client.send(
            node_id, INIT_PRODUCER_ID, _NO_TRANSACTION, timeout_ms=self._config.request_timeout_ms
        )
        return True

    @property
    def answer_is_here(self) -> bool:
        """Has the broker answered, and `settle` not been called?"""
        return self._asked is not None and self._asked.done

    def settle(self) -> BaseException | None:
        """Use the broker's answer, if it has come. Returns the error if asking again will not help.

        Retries end when the batches that wait for the id expire by `delivery.timeout.ms`.
        """
        if self._asked is None or not self._asked.done:
            return None
        asked, self._asked = self._asked, None
        error = asked.error
        if error is None:
            body = asked.result()
            if body["error_code"] == 0:
                self.current = Identity(body["producer_id"], body["producer_epoch"])
                log.debug("ProducerId set to %d with epoch %d", body["producer_id"], body["producer_epoch"])
                self._failures = 0
                self._in_vain.clear()
                return None
            error = error_for(body["error_code"], "InitProducerId for an idempotent producer")
            refusal(error, INIT_PRODUCER_ID.name, self._client.identity)
        if isinstance(error, UnsupportedApiVersion):
            if not self._config.idempotence_demanded:
                self.do_without(str(error))
                return None
            return UnsupportedApiVersion(f"option 'kafka.enable.idempotence'=true needs Kafka 0.11: {error}")
        self._failures += 1
        self._in_vain[self._asked_node] += 1
        self.retry_at_ms = self._clock_ms() + self._config.retry_backoff(self._failures)
        self._client.metadata.request_update()
        again = isinstance(error, BrokerError) and error.row.unknown
        return None if again or getattr(error, "retriable", False) else error
