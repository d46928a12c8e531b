"""Transactions as brokers tell of them (KIP-664): one by one, or listed by each broker that coordinates some."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafkasource.errors import KafkaSourceError, ProtocolError
from kafkasource.kafka.cluster.caller import Caller
from kafkasource.kafka.cluster.every_broker import EveryBroker
from kafkasource.kafka.network.pending import Pending
from kafkasource.kafka.protocol.apis import LIST_TRANSACTIONS
from kafkasource.kafka.protocol.schema import Body, Fields
from kafkasource.types import ProducerId, TopicPartition, known

ONGOING = "Ongoing"


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str  # Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, ...
    coordinator_id: int  # the node that listed it


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int  # of the producer that holds the id now
    timeout_ms: int  # the coordinator aborts it when it has been open for this long
    start_time_ms: int | None  # since the Unix epoch; None: nothing is open
    partitions: tuple[TopicPartition, ...]  # where it has written; while it ends, those without a marker yet

    @property
    def producer(self) -> ProducerId:
        return ProducerId(self.producer_id, self.producer_epoch)

    @property
    def committed(self) -> bool:
        """Its last transaction was committed, and the id not initialised since."""
        return self.state in ("PrepareCommit", "CompleteCommit")

    @property
    def aborted(self) -> bool:
        """Its last transaction was aborted, by its producer or by the coordinator, and the id not initialised since."""
        return self.state in ("PrepareAbort", "CompleteAbort")

    def open_for_ms(self, now_ms: float) -> float | None:
        """Since its first record, by the coordinator's clock against ours; None: nothing is open."""
        return None if self.start_time_ms is None else max(0.0, now_ms - self.start_time_ms)


class Listed(NamedTuple):
    transactions: list[ListedTransaction]
    unreachable: Mapping[int, KafkaSourceError]  # by node id: what they coordinate is not known


class Listing:
    """One question to every broker for the transactions whose id begins with `prefix`; all states where none is named.

    `patient`: see `EveryBroker`.
    """

    def __init__(self, caller: Caller, prefix: str, states: Collection[str], *, patient: bool) -> None:
        self._prefix = prefix
        self._states = states
        self._rows: dict[str, ListedTransaction] = {}
        self._brokers = EveryBroker(caller, LIST_TRANSACTIONS, self._body, self._take, patient=patient)

    def ask(self, left_ms: float) -> dict[int, Pending]:
        """Send one request to each broker of the metadata that has not answered. Does not wait."""
        return self._brokers.ask(left_ms)

    def _body(self, version: int) -> Fields:
        pattern = {"transactional_id_pattern": _pattern(self._prefix)} if version >= 2 and self._prefix else {}
        return {"state_filters": list(self._states), **pattern}

    def result(self, sent: dict[int, Pending] | None = None) -> Listed:
        """All rows, by id, with retries. `sent`: requests of `ask` that are under way, to brokers just looked up."""
        self._brokers.finish(f"ListTransactions of {self._prefix!r}", sent)
        return Listed([self._rows[name] for name in sorted(self._rows)], self._brokers.unreachable)

    def _take(self, node_id: int, answer: Body) -> None:
        for row in answer["transaction_states"]:
            name = row["transactional_id"]
            if name.startswith(self._prefix):  # a broker before 4.0 knows no pattern
                self._rows[name] = ListedTransaction(name, row["producer_id"], row["transaction_state"], node_id)


def _pattern(prefix: str) -> str:
    """The RE2 expression of ids that begin so; the broker matches it against the whole id."""
    return "".join("\\" + c if c.isascii() and not c.isalnum() else c for c in prefix) + ".*"


def described(answer: Fields, name: str) -> DescribedTransaction:
    """The row of an id in an answer to DescribeTransactions."""
    row = next((row for row in answer["transaction_states"] if row["transactional_id"] == name), None)
    if row is None:
        raise ProtocolError(f"DescribeTransactions of {name!r}: the answer does not speak of it")
    return DescribedTransaction(
        row["transactional_id"],
        row["transaction_state"],
        row["producer_id"],
        row["producer_epoch"],
        row["transaction_timeout_ms"],
        known(row["transaction_start_time_ms"]),
        tuple(TopicPartition(each["topic"], partition) for each in row["topics"] for partition in each["partitions"]),
    )
