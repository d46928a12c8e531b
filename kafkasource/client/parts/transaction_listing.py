"""Transactions as brokers tell of them (KIP-664): one by one, or listed by each broker that coordinates some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafkasource.client.caller import Caller
from kafkasource.client.network.pending import Pending
from kafkasource.errors import ConnectFailed, ConnectionLost, KafkaSourceError, ProtocolError, RequestTimeout, error_for
from kafkasource.protocol.apis import LIST_TRANSACTIONS
from kafkasource.protocol.schema import Fields
from kafkasource.types import ProducerId, TopicPartition, known

ONGOING = "Ongoing"

# An impatient listing: how often it asks a broker, how long it waits, and how long where connecting failed before.
_TRIES, _PATIENCE_MS, _PATIENCE_AGAIN_MS = 2, 5_000, 500


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

    A patient listing needs the answer of every broker. An impatient one leaves out a broker that cannot be reached
    within seconds, as long as another one answers.
    """

    def __init__(self, caller: Caller, prefix: str, states: Collection[str], *, patient: bool) -> None:
        self._caller = caller
        self._prefix = prefix
        self._states = states
        self._patient = patient
        self._rows: dict[str, ListedTransaction] = {}
        self._answered: set[int] = set()
        self._failures: Counter[int] = Counter()
        self._unreachable: dict[int, KafkaSourceError] = {}

    def ask(self, left_ms: float) -> dict[int, Pending]:
        """Send one request to each broker of the metadata that has not answered. Does not wait."""
        pendings = {}
        for node in self._caller.metadata.nodes():
            node_id = node.node_id
            if node_id not in self._answered and node_id not in self._unreachable:
                timeout_ms = self._patience_ms(node_id, left_ms)
                pendings[node_id] = self._caller.send(node_id, LIST_TRANSACTIONS, self._body, timeout_ms=timeout_ms)
        return pendings

    def _patience_ms(self, node_id: int, left_ms: float) -> float:
        timeout_ms = self._caller.timeout_ms(left_ms)
        if self._patient:
            return timeout_ms
        failed_before = self._caller.network.connect_failures(node_id)
        self._failures[node_id] += bool(failed_before)
        return min(timeout_ms, _PATIENCE_AGAIN_MS if failed_before else _PATIENCE_MS)

    def _body(self, version: int) -> Fields:
        pattern = {"transactional_id_pattern": _pattern(self._prefix)} if version >= 2 and self._prefix else {}
        return {"state_filters": list(self._states), **pattern}

    def result(self, sent: dict[int, Pending] | None = None) -> Listed:
        """All rows, by id, with retries. `sent`: requests of `ask` that are under way, to brokers just looked up."""

        def attempt(left_ms: float) -> None:
            nonlocal sent
            pendings, sent = sent, None
            if pendings is None:
                self._caller.ask_metadata([], left_ms)
                pendings = self.ask(left_ms)
            self._caller.wait(*pendings.values())
            again = [error for node_id, pending in pendings.items() if (error := self._take(node_id, pending))]
            if not self._answered and self._unreachable:  # no broker answers: it is this client that is cut off
                again.extend(self._unreachable.values())
                self._unreachable.clear()
            if again:
                raise again[-1]
            nodes = {node.node_id for node in self._caller.metadata.nodes()}
            if nodes - self._answered - set(self._unreachable):  # brokers that came while we asked
                attempt(left_ms)

        self._caller.retrying(f"ListTransactions of {self._prefix!r}", attempt)
        return Listed([self._rows[name] for name in sorted(self._rows)], self._unreachable)

    def _take(self, node_id: int, pending: Pending) -> KafkaSourceError | None:
        """Keep the rows of an answer; an error to retry after, or None. Raises the error code of an answer."""
        try:
            answer = pending.result()
        except (ConnectFailed, ConnectionLost, RequestTimeout) as error:
            self._failures[node_id] += 1
            if self._patient or self._failures[node_id] < _TRIES:
                return error
            self._unreachable[node_id] = error
            return None
        if answer["error_code"]:
            raise error_for(answer["error_code"], f"ListTransactions of broker {node_id}")
        self._answered.add(node_id)
        for row in answer["transaction_states"]:
            name = row["transactional_id"]
            if name.startswith(self._prefix):  # a broker before 4.0 knows no pattern
                self._rows[name] = ListedTransaction(name, row["producer_id"], row["transaction_state"], node_id)
        return None


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
