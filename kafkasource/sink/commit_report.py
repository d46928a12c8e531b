"""Reports what a micro-batch, or a batch write, has put into the topics. The driver collects it, logs it and calls a
listener.

Runs in the process of `commit`, after the tasks and, with exactly once, after the transactions. The reported rows are
written already. So an error of the listener is only a warning: raising it would make Spark write the batch again. A
listener that hangs is an error in the log after `LISTENER_S`, and stays behind in a thread of its own. Spark runs
`commit` again after a crash at the wrong moment. So a listener may hear of a batch twice, or never of the last one
before a crash; `query_id` and `batch_id` identify a repeated one.

A Python sink has no other way out of Spark: its process is not the user's, and Spark 4.2 and 4.3 carry neither metrics
nor accumulators from it. So this module counts the transactions of exactly once, too. `kafkasource.open_transactions`
shows those that are open.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kafkasource import metrics
from kafkasource.errors import few
from kafkasource.exactly_once.counts import TransactionCounts
from kafkasource.options.user_functions import load
from kafkasource.types import Discarded, TopicPartition, Written

log = logging.getLogger("kafkasource.sink")

LISTENER_S = 60.0
"""How long a commit waits for its listener."""

_NAMED_IN_LOG = 20


class Report(Protocol):
    """One task's report about one cluster: `reports.ClusterReport`."""

    @property
    def written(self) -> Mapping[TopicPartition, Written]: ...
    @property
    def discarded(self) -> Mapping[TopicPartition, Discarded]: ...


@dataclass(frozen=True)
class SinkCommit:
    """The argument of a commit listener.

    `written` is empty for a batch without rows. It is also empty if exactly once found that an earlier run had decided
    the batch, and only committed the transactions that the run had left (`TransactionCounts.recovered`): the written
    rows are not known then.
    """

    written: dict[TopicPartition, Written]  # sorted; only partitions that got records
    tasks: int  # tasks that wrote anything
    batch_id: int | None = None  # id of the micro-batch; None: a batch write
    query_id: str | None = None  # survives restarts; None: a batch write, or no task reported it
    query_name: str | None = None
    transactions: TransactionCounts | None = None  # with exactly once
    cluster: str | None = None  # with the option `clusters`: each cluster has a commit of its own
    discarded: dict[TopicPartition, Discarded] = field(default_factory=dict)  # not written, on purpose

    @property
    def records(self) -> int:
        return sum(one.records for one in self.written.values())

    @property
    def bytes(self) -> int:
        """The size of record batches as sent, compressed."""
        return sum(one.bytes for one in self.written.values())

    def __str__(self) -> str:
        what = "a batch write" if self.batch_id is None else f"batch {self.batch_id}"
        name = self.query_name or self.query_id
        of = f" of query {name}" if name else ""
        of += f" to cluster {self.cluster}" if self.cluster else ""
        besides = self._discarded() + (
            f"; {self.transactions}" if self.transactions is not None and str(self.transactions) else ""
        )
        if not self.written:
            return f"committed {what}{of}: no records{besides}"
        named = few([f"{tp} {_span(one)}" for tp, one in self.written.items()], _NAMED_IN_LOG)
        return (
            f"committed {what}{of}: {_count(self.records, 'record')} in {_count(self.bytes, 'byte')} from "
            f"{_count(self.tasks, 'task')} to {_count(len(self.written), 'partition')} ({named}){besides}"
        )

    def _discarded(self) -> str:
        if not self.discarded:
            return ""
        records, size = (sum(column) for column in zip(*self.discarded.values(), strict=True))
        named = few([f"{tp} {one.records}" for tp, one in self.discarded.items()], _NAMED_IN_LOG)
        return f"; discarded {_count(records, 'record')} of {_count(size, 'byte')} ({named})"


def gathered(
    reports: Iterable[Report],
    *,
    batch_id: int | None = None,
    query_id: str | None = None,
    query_name: str | None = None,
    transactions: TransactionCounts | None = None,
    cluster: str | None = None,
) -> SinkCommit:
    """The reports of all tasks about one cluster, as one commit."""
    written: dict[TopicPartition, Written] = {}
    discarded: dict[TopicPartition, Discarded] = {}
    tasks = 0
    for report in reports:
        tasks += bool(report.written)
        for tp, one in report.written.items():
            written[tp] = written[tp].merged(one) if tp in written else one
        for tp, lost in report.discarded.items():
            discarded[tp] = discarded[tp].merged(lost) if tp in discarded else lost
    return SinkCommit(
        written=dict(sorted(written.items())),
        tasks=tasks,
        batch_id=batch_id,
        query_id=query_id,
        query_name=query_name,
        transactions=transactions,
        cluster=cluster,
        discarded=dict(sorted(discarded.items())),
    )


def tell(commit: SinkCommit, listener: str | None, *, by_earlier_run: bool = False) -> None:
    """One line in the log at INFO, or WARNING where records were discarded, and a call of the listener that the option
    `commitListener` names. Never raises.

    `by_earlier_run`: exactly once found the batch committed already. The rows that it wrote are not known any more, and
    the listener may have heard of the batch. So the call happens only if this run had to end transactions, to report
    these.
    """
    _count_commit(commit)
    if by_earlier_run:
        ended = str(commit.transactions or "")
        told = f" ({ended})" if ended else ""
        log.info("batch %s was committed by an earlier run: nothing is written again%s", commit.batch_id, told)
        if not ended:
            return
    else:
        log.log(logging.WARNING if commit.discarded else logging.INFO, "%s", commit)
    if listener is not None:
        _call(listener, commit)


_left_behind: threading.Thread | None = None  # a call for which the commit did not wait


def _call(listener: str, commit: SinkCommit) -> None:
    """Call the listener in a thread of its own. So nothing that it does, `sys.exit` and waiting for ever included,
    fails the commit or holds it up. While a call hangs, further calls are left out: otherwise each micro-batch would
    add a thread."""
    global _left_behind
    if _left_behind is not None and _left_behind.is_alive():
        log.error("the commit listener %s is not called: an earlier call of it has not returned; %s", listener, commit)
        return

    def call() -> None:
        try:
            load(listener, "commitListener")(commit)
        except BaseException:
            log.warning("the commit listener %s failed; %s all the same", listener, commit, exc_info=True)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(call,), name="kafkasource-commit-listener", daemon=True)
    thread.start()
    thread.join(LISTENER_S)
    if thread.is_alive():
        _left_behind = thread
        log.error(
            "the commit listener %s has not returned after %d s, and the sink no longer waits for it; %s all the same",
            listener,
            LISTENER_S,
            commit,
        )


def _count_commit(commit: SinkCommit) -> None:
    metrics.count("kafkasource_commits_total", 1, commit.query_name or commit.query_id or "", commit.cluster or "")
    transactions = commit.transactions or TransactionCounts()
    for outcome, number in (
        ("committed", transactions.committed),
        ("lost", transactions.opened - transactions.committed),
        ("recovered", transactions.recovered),
        ("aborted", transactions.aborted),
    ):
        if number:
            metrics.count("kafkasource_transactions_total", number, outcome)
    metrics.publish()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _span(one: Written) -> str:
    if one.first_offset is None:
        return f"{one.records}"
    return f"{one.records} at {one.first_offset}-{one.last_offset}"
