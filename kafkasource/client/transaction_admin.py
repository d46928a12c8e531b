"""Transactions as an operator sees them, and as a restarted writer does (KIP-664): who has one open, and ending it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkasource.client.connection import Body
from kafkasource.client.coordinators import TRANSACTION
from kafkasource.client.leaders import indexes_by_topic
from kafkasource.client.transactions import TransactionCaller, init_body, producer_id_of
from kafkasource.errors import BrokerError, ProtocolError, TransactionalIdNotFound, error_for
from kafkasource.protocol.apis import DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, INIT_PRODUCER_ID, LIST_TRANSACTIONS
from kafkasource.types import ProducerId, TopicPartition

ONGOING = "Ongoing"


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str  # Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, ...
    coordinator_id: int  # the node that told


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int  # of who holds the id now
    timeout_ms: int  # after so long the coordinator aborts it
    start_time_ms: int | None  # since the Unix epoch; None: nothing is open
    partitions: tuple[TopicPartition, ...]  # where it has written; while it ends, those that do not know yet

    def open_for_ms(self, now_ms: float) -> float | None:
        """Since its first record, by the coordinator's clock against ours; None: nothing is open."""
        return None if self.start_time_ms is None else max(0.0, now_ms - self.start_time_ms)


class ActiveProducer(NamedTuple):
    """One that a partition's leader remembers."""

    producer: ProducerId
    last_sequence: int | None  # of its last record here
    last_timestamp_ms: int | None  # when that was
    txn_start_offset: int | None  # of the transaction that is open here; readers of read_committed stop before it


class TransactionAdmin(TransactionCaller):
    """What `Cluster` knows of others' transactions."""

    def init_producer_ids(
        self, transactional_ids: Iterable[str], transaction_timeout_ms: int = 60_000
    ) -> dict[str, ProducerId | BrokerError]:
        """`init_producer_id` of many, pipelined to their coordinators: aborts and fences what is open under each."""
        bodies: dict[str, Body] = {name: init_body(name, transaction_timeout_ms) for name in transactional_ids}
        answers = self.ask_each(TRANSACTION, INIT_PRODUCER_ID, bodies)
        return {name: each if isinstance(each, BrokerError) else producer_id_of(each) for name, each in answers.items()}

    def list_transactions(self, prefix: str, states: Collection[str] = (ONGOING,)) -> list[ListedTransaction]:
        """Those whose id begins with `prefix`, by id; of all states where none is named. Every broker is asked.

        Leaves out, without a word, what the ACLs (Describe on the transactional id) do not let us see. Brokers from
        3.0 on.
        """

        def body(version: int) -> dict[str, Any]:
            pattern = {"transactional_id_pattern": _pattern(prefix)} if version >= 2 and prefix else {}
            return {"state_filters": list(states), **pattern}

        def attempt(left_ms: float) -> dict[str, ListedTransaction]:
            found: dict[str, ListedTransaction] = {}
            self._ask_metadata([], left_ms)
            timeout = min(left_ms, self.config.request_timeout_ms)
            pendings = {
                node.node_id: self.send(node.node_id, LIST_TRANSACTIONS, body, timeout_ms=timeout)
                for node in self.metadata.nodes()
            }
            self.wait(*pendings.values())
            for node_id, pending in pendings.items():
                answer = pending.result()
                if answer["error_code"]:
                    raise error_for(answer["error_code"], f"ListTransactions of broker {node_id}")
                for row in answer["transaction_states"]:
                    name = row["transactional_id"]
                    if name.startswith(prefix):
                        found[name] = ListedTransaction(name, row["producer_id"], row["transaction_state"], node_id)
            return found

        found = self._retrying(f"ListTransactions of {prefix!r}", attempt)
        return [found[name] for name in sorted(found)]

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, DescribedTransaction | None]:
        """Each one's state, from its coordinator. None: no such id, or it expired (7 days after its last use)."""
        bodies: dict[str, Body] = {name: {"transactional_ids": [name]} for name in transactional_ids}
        described: dict[str, DescribedTransaction | None] = {}
        for name, answer in self.ask_each(TRANSACTION, DESCRIBE_TRANSACTIONS, bodies).items():
            if isinstance(answer, TransactionalIdNotFound):
                described[name] = None
            elif isinstance(answer, BrokerError):
                raise answer
            else:
                row = next((row for row in answer["transaction_states"] if row["transactional_id"] == name), None)
                if row is None:
                    raise ProtocolError(f"DescribeTransactions of {name!r}: the answer does not speak of it")
                described[name] = _described(row)
        return described

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


def _pattern(prefix: str) -> str:
    """The RE2 expression of ids that begin so; it is held against the whole id."""
    return "".join("\\" + c if c.isascii() and not c.isalnum() else c for c in prefix) + ".*"


def _described(row: Mapping[str, Any]) -> DescribedTransaction:
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
