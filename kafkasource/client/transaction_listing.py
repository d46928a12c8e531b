"""Which transactions are open (ListTransactions, KIP-664): each broker tells of those that it coordinates.

Also what a writer needs to know before it begins, asked all at once: `ahead`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from kafkasource.client.calls import checked
from kafkasource.client.coordinators import GROUP, TRANSACTION, coordinator_rows, coordinators_body
from kafkasource.client.link import Pending
from kafkasource.client.transactions import TransactionCaller, TransactionVersion, features_body, version_in
from kafkasource.errors import ConnectFailed, ConnectionLost, KafkaSourceError, RequestTimeout, error_for
from kafkasource.protocol.apis import API_VERSIONS, FIND_COORDINATOR, LIST_TRANSACTIONS

ONGOING = "Ongoing"

# `list_reachable`: how often a broker is asked, and how long it is waited for; where it could not be reached before.
_TRIES, _PATIENCE_MS, _PATIENCE_AGAIN_MS = 2, 5_000, 500


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str  # Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, ...
    coordinator_id: int  # the node that told


class Listed(NamedTuple):
    transactions: list[ListedTransaction]
    unreachable: Mapping[int, KafkaSourceError]  # by node id: what they coordinate is not known


@dataclass
class _Listing:
    """What came so far."""

    prefix: str
    states: Collection[str]
    rows: dict[str, ListedTransaction] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    failures: Counter[int] = field(default_factory=Counter)
    unreachable: dict[int, KafkaSourceError] = field(default_factory=dict)

    def body(self, version: int) -> dict[str, Any]:
        pattern = {"transactional_id_pattern": _pattern(self.prefix)} if version >= 2 and self.prefix else {}
        return {"state_filters": list(self.states), **pattern}

    def take(self, node_id: int, pending: Pending) -> None:
        """Raises what the answer says, or why there is none."""
        answer = pending.result()
        if answer["error_code"]:
            raise error_for(answer["error_code"], f"ListTransactions of broker {node_id}")
        self.answered.add(node_id)
        for row in answer["transaction_states"]:
            name = row["transactional_id"]
            if name.startswith(self.prefix):
                self.rows[name] = ListedTransaction(name, row["producer_id"], row["transaction_state"], node_id)

    def listed(self) -> Listed:
        return Listed([self.rows[name] for name in sorted(self.rows)], self.unreachable)


@dataclass(frozen=True)
class Ahead:
    """Answers to what was asked ahead. Each is waited for where it has not come, and asked again where it failed."""

    transaction_version: Callable[[], TransactionVersion]
    open_transactions: Callable[[], Listed]


class TransactionLister(TransactionCaller):
    """What `Cluster` knows of all transactions there are."""

    def list_transactions(self, prefix: str, states: Collection[str] = (ONGOING,)) -> list[ListedTransaction]:
        """Those whose id begins with `prefix`, by id; of all states where none is named. Every broker is asked.

        Leaves out, without a word, what the ACLs (Describe on the transactional id) do not let us see. Brokers from
        3.0 on.
        """
        return self._list(_Listing(prefix, states), patient=True).transactions

    def list_reachable(self, prefix: str, states: Collection[str] = (ONGOING,)) -> Listed:
        """The same of the brokers that can be reached within seconds, and which cannot."""
        return self._list(_Listing(prefix, states), patient=False)

    def ahead(self, prefix: str, transactional_id: str, groups: Iterable[str]) -> Ahead:
        """Ask at once: the dialect, which brokers there are, what is open under the prefix, and the coordinators.

        Nothing of this depends on the rest, so it takes one round trip, and none where the caller has something else to
        ask meanwhile. Only coordinators that are not known are waited for here: the next request needs them.
        """
        with self._lock:
            node_id, _ = self.network.least_loaded()
            if node_id is None or not self.metadata.nodes():
                return Ahead(self.transaction_version, lambda: self.list_reachable(prefix))
            lookups = self._look_up_ahead(node_id, {TRANSACTION: [transactional_id], GROUP: list(groups)})
            features = self.send(node_id, API_VERSIONS, features_body())
            brokers = self.network.refresh_metadata(node_id, [])
            listing = _Listing(prefix, (ONGOING,))
            lists = self._ask_to_list(listing, self.config.request_timeout_ms, patient=False)
        self.wait(*lookups)

        def version() -> TransactionVersion:
            self.wait(features)
            try:
                return version_in(checked(features.result(), API_VERSIONS.name))
            except KafkaSourceError:
                return self.transaction_version()

        def open_transactions() -> Listed:
            self.wait(brokers, *lists.values())
            return self._list(listing, patient=False, sent=lists)

        return Ahead(version, open_transactions)

    def _look_up_ahead(self, node_id: int, wanted: Mapping[int, Collection[str]]) -> list[Pending]:
        """Coordinators that are not known; what cannot be found so is looked up when it is needed."""
        pendings = []
        for kind, keys in wanted.items():
            unknown = [key for key in keys if (kind, key) not in self._coordinators]
            if unknown:
                pending = self.send(node_id, FIND_COORDINATOR, coordinators_body(kind, unknown))
                pending.add_callback(partial(self._take_coordinators, kind, unknown))
                pendings.append(pending)
        return pendings

    def _take_coordinators(self, kind: int, keys: list[str], done: Pending) -> None:
        if done.error is None:
            for key, row in coordinator_rows(keys, done.result()).items():
                if not row["error_code"] and self.metadata.node(row["node_id"]) is not None:
                    self._coordinators[kind, key] = row["node_id"]

    def _ask_to_list(self, listing: _Listing, left_ms: float, *, patient: bool) -> dict[int, Pending]:
        """One request to each broker that has not answered."""
        pendings = {}
        for node in self.metadata.nodes():
            node_id = node.node_id
            if node_id in listing.answered or node_id in listing.unreachable:
                continue
            timeout = min(left_ms, self.config.request_timeout_ms)
            if not patient:
                failed_before = self.network.connect_failures(node_id)
                timeout = min(timeout, _PATIENCE_AGAIN_MS if failed_before else _PATIENCE_MS)
                listing.failures[node_id] += bool(failed_before)
            pendings[node_id] = self.send(node_id, LIST_TRANSACTIONS, listing.body, timeout_ms=timeout)
        return pendings

    def _list(self, listing: _Listing, *, patient: bool, sent: dict[int, Pending] | None = None) -> Listed:
        """`sent`: requests under way, and metadata are new."""

        def attempt(left_ms: float) -> None:
            nonlocal sent
            pendings, sent = sent, None
            if pendings is None:
                self._ask_metadata([], left_ms)
                pendings = self._ask_to_list(listing, left_ms, patient=patient)
            self.wait(*pendings.values())
            again: list[KafkaSourceError] = []
            for node_id, pending in pendings.items():
                try:
                    listing.take(node_id, pending)
                except (ConnectFailed, ConnectionLost, RequestTimeout) as error:
                    listing.failures[node_id] += 1
                    if patient or listing.failures[node_id] < _TRIES:
                        again.append(error)
                    else:
                        listing.unreachable[node_id] = error
            missing = {node.node_id for node in self.metadata.nodes()} - listing.answered - set(listing.unreachable)
            if not listing.answered and listing.unreachable:  # it is we who are cut off: go on to try
                again.extend(listing.unreachable.values())
                listing.unreachable.clear()
            if again:
                raise again[-1]
            if missing:  # brokers that came while we asked
                attempt(left_ms)

        self._retrying(f"ListTransactions of {listing.prefix!r}", attempt)
        return listing.listed()


def _pattern(prefix: str) -> str:
    """The RE2 expression of ids that begin so; it is held against the whole id."""
    return "".join("\\" + c if c.isascii() and not c.isalnum() else c for c in prefix) + ".*"
