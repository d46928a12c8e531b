"""What a query with exactly_once has open in Kafka, for an operator: looked at, or aborted without losing a decision.

Open transactions hold back every reader at read_committed. A query that starts again ends its own; this is for one that
will not. Of a batch that is decided the transactions are as good as committed, so they are not aborted unless that is
asked for by name. Aborting first fences the query, as its own restart would: what it has not decided by then it never
will, so that the decision read afterwards is the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kafkasource.client.transaction_admin import ONGOING, DescribedTransaction, ListedTransaction
from kafkasource.sink.decision import Decision, last_decision
from kafkasource.sink.lanes import TransactionalIds
from kafkasource.types import TopicPartition

_OPEN = (ONGOING, "PrepareCommit", "PrepareAbort")  # the latter two end by themselves


class TransactionCluster(Protocol):
    """What is asked of `client.cluster.Cluster`."""

    def list_transactions(self, prefix: str, states: tuple[str, ...]) -> list[ListedTransaction]: ...
    def describe_transactions(self, transactional_ids: Iterable[str]) -> Mapping[str, DescribedTransaction | None]: ...
    def abort_transaction(self, transactional_id: str) -> DescribedTransaction: ...
    def fetch_committed(
        self, group: str, partitions: None, require_stable: bool
    ) -> Mapping[TopicPartition, tuple[int, str] | None]: ...


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """One of the query's transactional ids, and what it has open."""

    transaction: DescribedTransaction
    decided_batch_id: int | None  # the batch whose decision says to commit it; None: it may be aborted

    @property
    def name(self) -> str:
        return self.transaction.transactional_id


def open_transactions(cluster: TransactionCluster, ids: TransactionalIds) -> list[OpenTransaction]:
    """The driver's and the lanes', the driver's first. Changes nothing, and may be out of date if the query runs."""
    return _open(cluster, ids, require_stable=False)


def abort(
    cluster: TransactionCluster, ids: TransactionalIds, *, even_decided: bool = False
) -> tuple[list[OpenTransaction], list[OpenTransaction]]:
    """Fence the query and abort what it has open; what was aborted, and what is left because its batch is decided.

    `even_decided`: that too, whose rows are lost then. A query that still runs fails. Raises what the brokers refuse;
    what was aborted by then stays so.
    """
    aborted = []
    if cluster.describe_transactions([ids.driver])[ids.driver] is not None:  # never make an id for a prefix mistyped
        driver = cluster.abort_transaction(ids.driver)
        if driver.state == ONGOING:
            aborted.append(OpenTransaction(driver, None))
    left = []
    for each in _open(cluster, ids, require_stable=True):
        if each.transaction.state != ONGOING or (each.decided_batch_id is not None and not even_decided):
            left.append(each)
        else:
            cluster.abort_transaction(each.name)
            aborted.append(each)
    return aborted, left


def _open(cluster: TransactionCluster, ids: TransactionalIds, *, require_stable: bool) -> list[OpenTransaction]:
    listed = cluster.list_transactions(ids.prefix, _OPEN)
    slots = {each.transactional_id: ids.slot(each.transactional_id) for each in listed}
    mine = sorted((name for name in slots if slots[name] is not None), key=lambda name: slots[name] or 0)
    if ids.driver in slots:
        mine.insert(0, ids.driver)
    if not mine:
        return []
    described = cluster.describe_transactions(mine)
    committed = cluster.fetch_committed(ids.marker_group, None, require_stable)
    decision = last_decision({tp: each for tp, each in committed.items() if each is not None})
    found = (described[name] for name in mine)
    return [  # without those that ended since they were listed
        OpenTransaction(each, _decided(decision, ids, each))
        for each in found
        if each is not None and each.state in _OPEN
    ]


def _decided(decision: Decision | None, ids: TransactionalIds, open_: DescribedTransaction) -> int | None:
    """The batch id of the decision that names this very transaction, not an earlier one of the same lane."""
    for lane in decision.lanes if decision is not None else ():
        written = ids.lane(lane.slot), lane.producer_id, lane.producer_epoch
        if written == (open_.transactional_id, open_.producer_id, open_.producer_epoch):
            assert decision is not None
            return decision.batch_id
    return None
