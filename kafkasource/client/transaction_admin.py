"""Transactions as an operator sees them, and as a restarted writer does (KIP-664): who has one open, and ending it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from kafkasource.client.calls import checked, few
from kafkasource.client.connection import Body
from kafkasource.client.coordinators import TRANSACTION
from kafkasource.client.leaders import indexes_by_topic
from kafkasource.client.transaction_listing import ONGOING, Ahead, Listed, ListedTransaction, TransactionLister
from kafkasource.client.transactions import init_body, producer_id_of
from kafkasource.errors import BrokerError, KafkaSourceError, ProtocolError, TransactionalIdNotFound, error_for
from kafkasource.protocol.apis import DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, INIT_PRODUCER_ID
from kafkasource.types import ProducerId, TopicPartition

__all__ = [
    "ONGOING",
    "ActiveProducer",
    "Ahead",
    "DescribedTransaction",
    "Listed",
    "ListedTransaction",
    "TransactionAdmin",
]


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int  # of who holds the id now
    timeout_ms: int  # after so long the coordinator aborts it
    start_time_ms: int | None  # since the Unix epoch; None: nothing is open
    partitions: tuple[TopicPartition, ...]  # where it has written; while it ends, those that do not know yet

    @property
    def producer(self) -> ProducerId:
        return ProducerId(self.producer_id, self.producer_epoch)

    def open_for_ms(self, now_ms: float) -> float | None:
        """Since its first record, by the coordinator's clock against ours; None: nothing is open."""
        return None if self.start_time_ms is None else max(0.0, now_ms - self.start_time_ms)


class ActiveProducer(NamedTuple):
    """One that a partition's leader remembers."""

    producer: ProducerId
    last_sequence: int | None  # of its last record here
    last_timestamp_ms: int | None  # when that was
    txn_start_offset: int | None  # of the transaction that is open here; readers of read_committed stop before it


class TransactionAdmin(TransactionLister):
    """What `Cluster` knows of others' transactions."""

    def init_producer_ids(
        self,
        transactional_ids: Iterable[str],
        transaction_timeout_ms: int = 60_000,
        held_by: Mapping[str, ProducerId] = MappingProxyType({}),
    ) -> dict[str, ProducerId | BrokerError]:
        """`init_producer_id` of many, pipelined to their coordinators: aborts and fences what is open under each."""
        bodies: dict[str, Body] = {
            name: init_body(name, transaction_timeout_ms, held_by.get(name)) for name in transactional_ids
        }
        answers = self.ask_each(TRANSACTION, INIT_PRODUCER_ID, bodies)
        return {name: each if isinstance(each, BrokerError) else producer_id_of(each) for name, each in answers.items()}

    def describe_transactions(
        self, transactional_ids: Iterable[str], without: Collection[int] = ()
    ) -> dict[str, DescribedTransaction | None]:
        """Each one's state, from its coordinator. None: no such id, or it expired (7 days after its last use).

        Ids whose coordinators are among the nodes of `without` are left out.
        """
        names = list(transactional_ids)
        if without:
            names = self._not_coordinated_by(names, without)
        bodies: dict[str, Body] = {name: {"transactional_ids": [name]} for name in names}
        described: dict[str, DescribedTransaction | None] = {}
        for name, answer in self.ask_each(TRANSACTION, DESCRIBE_TRANSACTIONS, bodies).items():
            if isinstance(answer, TransactionalIdNotFound):
                described[name] = None
            elif isinstance(answer, BrokerError):
                raise answer
            else:
                described[name] = _described(answer, name)
        return described

    def _not_coordinated_by(self, names: list[str], without: Collection[int]) -> list[str]:
        """Looked up anew: when a broker fails, what it coordinated moves to others."""
        with self._lock:
            for name in names:
                self._coordinators.pop((TRANSACTION, name), None)

        def attempt(left_ms: float) -> dict[str, int | BrokerError]:
            return self._coordinators_of(TRANSACTION, names, left_ms)

        found = self._retrying(f"coordinators of {few(names)}", attempt) if names else {}
        return [name for name in names if not isinstance(found[name], BrokerError) and found[name] not in without]

    def describing(self, transactional_id: str) -> Callable[[], DescribedTransaction | None]:
        """Ask now, and look at the answer later, by calling what is returned: it waits for the answer where that has
        not come, and gives None where it never will.

        Of a state after this call. Blocks only while the coordinator is not known.
        """
        node_id = self.coordinator(TRANSACTION, transactional_id)
        pending = self.send(node_id, DESCRIBE_TRANSACTIONS, {"transactional_ids": [transactional_id]})

        def answer() -> DescribedTransaction | None:
            self.wait(pending)
            try:
                found = checked(pending.result(), f"DescribeTransactions of {transactional_id!r}")
            except KafkaSourceError as error:
                if not error.retriable and not isinstance(error, TransactionalIdNotFound):
                    raise
                return None
            return _described(found, transactional_id)

        return answer

    def abort_transaction(self, transactional_id: str) -> DescribedTransaction:
        """Abort what is open under an id and fence whoever began it; what it was. Never invents a transactional id.

        Whoever still lives and uses the id fails from now on. Raises TransactionalIdNotFound.
        """
        found = self.describe_transactions([transactional_id])[transactional_id]
        if found is None:
            raise error_for(105, repr(transactional_id))
        self.init_producer_id(transactional_id, found.timeout_ms)
        return found

    def describe_producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[ActiveProducer]]:
        """Who writes to partitions, and whose transaction is open there, from the leaders. Brokers from 2.8 on."""

        def body(led: list[TopicPartition], left_ms: float) -> Body:
            topics = indexes_by_topic(led).items()
            return {"topics": [{"name": name, "partition_indexes": indexes} for name, indexes in topics]}

        def producers(row: dict[str, Any]) -> list[ActiveProducer]:
            return [_active(each) for each in row["active_producers"]]

        return self._ask_leaders(DESCRIBE_PRODUCERS, list(partitions), body, producers)


def _described(answer: Mapping[str, Any], name: str) -> DescribedTransaction:
    row = next((row for row in answer["transaction_states"] if row["transactional_id"] == name), None)
    if row is None:
        raise ProtocolError(f"DescribeTransactions of {name!r}: the answer does not speak of it")
    return DescribedTransaction(
        row["transactional_id"],
        row["transaction_state"],
        row["producer_id"],
        row["producer_epoch"],
        row["transaction_timeout_ms"],
        _known(row["transaction_start_time_ms"]),
        tuple(TopicPartition(each["topic"], partition) for each in row["topics"] for partition in each["partitions"]),
    )


def _active(row: Mapping[str, Any]) -> ActiveProducer:
    return ActiveProducer(
        producer_id_of(row),
        _known(row["last_sequence"]),
        _known(row["last_timestamp"]),
        _known(row["current_txn_start_offset"]),
    )


def _known(value: int) -> int | None:
    return value if value >= 0 else None
