"""Finds the open transactions of a query with exactly_once, for monitors, and aborts them, for operators.

Open transactions hold back every reader at read_committed. A query that starts again ends its own. This is for a query
that will not start again. The transactions of a batch that is decided are as good as committed, so they are not aborted
unless the operator asks for that by name. Aborting first fences the query, as its own restart would. After that the
query cannot decide anything, so the decision that is read then is the last.

A transaction whose end is under way (PrepareCommit, PrepareAbort) is not open: nobody can abort it, and its markers
arrive within milliseconds, or as soon as the partition has a leader again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.exactly_once.decision import Decision, last_decision
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.exactly_once.query_identity import IdentitySource, QueryIdentity
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.transactions import ONGOING, DescribedTransaction
from kafkasource.kafka.config import ClientConfig
from kafkasource.options import parse
from kafkasource.sink.clusters import targets


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transactional id of the query, and its open transaction."""

    transaction: DescribedTransaction
    decided_batch_id: int | None  # the batch whose decision says to commit it; None: it may be aborted
    cluster: str | None = None  # with the option `clusters`: the name of the transaction's cluster

    @property
    def name(self) -> str:
        return self.transaction.transactional_id

    def open_for_ms(self, now_ms: float | None = None) -> float | None:
        """Time since its first record: the coordinator's clock against ours. The brokers abort it after its
        `timeout_ms`. Until it has ended, they show readers at read_committed no record behind it."""
        return self.transaction.open_for_ms(time.time() * 1000 if now_ms is None else now_ms)


def of_sink(options: Mapping[str, str]) -> list[OpenTransaction]:
    """The open transactions of the query whose sink has these options, in all its clusters. Blocks.

    Raises OptionError, and the error of the first cluster that cannot be asked.
    """
    found = []
    for each in of_clusters(options).values():
        if isinstance(each, KafkaSourceError):
            raise each
        found += each
    return found


def of_clusters(options: Mapping[str, str]) -> dict[str | None, list[OpenTransaction] | KafkaSourceError]:
    """The same for each cluster: its transactions, or the error if it cannot be asked. The key is None without
    `clusters`. Blocks.

    Raises OptionError, also if there can be no transactions, because the sink writes at least once.
    """
    several = targets.parse(options) if targets.named(options) else None
    parsed = parse(options, "sink") if several is None else several.shared
    if parsed["deliveryGuarantee"] != "exactly_once":
        raise OptionError("only a sink with 'deliveryGuarantee'=exactly_once has transactions")
    identity = IdentitySource.of(parsed["transactionalIdPrefix"], parsed.sparks_own).find()
    if several is None:
        return {None: _asked(ClientConfig.from_options(parsed), identity)}
    found: dict[str | None, list[OpenTransaction] | KafkaSourceError] = {}
    for name, target in several.by_name.items():
        of_one = _asked(target.config.client, identity.of_cluster(name))
        if not isinstance(of_one, KafkaSourceError):
            of_one = [replace(each, cluster=name) for each in of_one]
        found[name] = of_one
    return found


def _asked(config: ClientConfig, identity: QueryIdentity) -> list[OpenTransaction] | KafkaSourceError:
    try:
        with Cluster(config) as cluster:
            return open_transactions(cluster, identity.ids)
    except KafkaSourceError as error:
        return error


def clusters_of(cluster: Cluster, ids: TransactionalIds) -> list[str]:
    """The names of `clusters` under which a sink with this prefix writes here. Another query's prefix may begin with
    the same text, unless it was made of a query's id."""
    pattern = re.compile(re.escape(ids.prefix) + r"-([\w-]+)-driver")
    listed = cluster.transactions.list(f"{ids.prefix}-", states=())
    return sorted({found[1] for each in listed if (found := pattern.fullmatch(each.transactional_id))})


def open_transactions(cluster: Cluster, ids: TransactionalIds) -> list[OpenTransaction]:
    """The transactions of driver and tasks, the driver's first. Changes nothing. May be out of date if the query
    runs."""
    return _open(cluster, ids, require_stable=False)


def abort(
    cluster: Cluster, ids: TransactionalIds, *, even_decided: bool = False
) -> tuple[list[OpenTransaction], list[OpenTransaction]]:
    """Fence the query and abort its open transactions. Returns those that were aborted, and those that stay because
    their batch is decided.

    `even_decided`: abort the latter, too; their rows are lost then. A query that still runs fails. If brokers refuse,
    raises their error; transactions that were aborted by then stay so.
    """
    aborted = []
    if cluster.transactions.describe([ids.driver])[ids.driver] is not None:  # never create an id for a mistyped prefix
        driver = cluster.transactions.abort(ids.driver)
        if driver.state == ONGOING:
            aborted.append(OpenTransaction(driver, None))
    left = []
    for each in _open(cluster, ids, require_stable=True):
        if each.decided_batch_id is not None and not even_decided:
            left.append(each)
        else:
            cluster.transactions.abort(each.name)
            aborted.append(each)
    return aborted, left


def _open(cluster: Cluster, ids: TransactionalIds, *, require_stable: bool) -> list[OpenTransaction]:
    listed = cluster.transactions.list(ids.prefix)
    slots = {each.transactional_id: ids.slot(each.transactional_id) for each in listed}
    mine = sorted((name for name in slots if slots[name] is not None), key=lambda name: slots[name] or 0)
    if ids.driver in slots:
        mine.insert(0, ids.driver)
    if not mine:
        return []
    described = cluster.transactions.describe(mine)
    decision = last_decision(cluster.groups.committed(ids.marker_group, None, require_stable))
    still = (described[name] for name in mine)  # this answer is newer, so some have ended by now
    return [
        OpenTransaction(each, _decided(decision, ids, each))
        for each in still
        if each is not None and each.state == ONGOING
    ]


def _decided(decision: Decision | None, ids: TransactionalIds, open_: DescribedTransaction) -> int | None:
    """The batch id of the decision that names this very transaction, not an earlier one of the same task."""
    for transaction in decision.transactions if decision is not None else ():
        written = ids.task(transaction.slot), transaction.producer_id, transaction.producer_epoch
        if written == (open_.transactional_id, open_.producer_id, open_.producer_epoch):
            assert decision is not None
            return decision.batch_id
    return None
