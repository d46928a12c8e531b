"""Exactly once, the driver's side: begin a batch, decide it, end its transactions; recover what an earlier run left.

Each task writes in a transaction of its own (a task transaction). When all tasks have written, the driver commits a
decision record in a transaction of *its* own, and only then the task transactions. So at any moment a batch is decided
or not, which is all that a restart has to know:

    begin    fence an older driver, read the last decision, commit its task transactions (again), abort all others
    tasks    a batch that is decided already is not written again; else each task writes in its transaction
    commit   note that the batch is about to be decided, decide, commit the task transactions, note that they have ended
    abort    finish what was decided; else abort the task transactions, also those of tasks that sent no message

Between the decision and the last commit, read_committed shows some task transactions and not others. The next begin
commits the rest after a crash there, if it comes before the brokers abort open transactions
(`kafka.transaction.timeout.ms`). If it comes later, transactions are lost, and `lostTransactions` says what happens:
the loss is never silent. (After a batch write, the next one under its prefix warns; it has other rows.) The same holds
where a decision may have been made and no record of it is left: `decision_status` has a table of the points of a crash.

With `atomicBatch` the tasks write in the driver's own transaction. Its commit is the decision and shows the rows.

`begin` runs in the process that pickles the writer, `commit` and `abort` in another: nothing is kept here. Whatever
they have to know comes with the tasks' messages. All three move the batch by the table `states.BATCH`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kafkasource.exactly_once.counts import TransactionCounts
from kafkasource.exactly_once.decision import DecisionLog
from kafkasource.exactly_once.decision_status import StatusLog
from kafkasource.exactly_once.driver.abort import BatchAbort
from kafkasource.exactly_once.driver.begin import BatchBegin
from kafkasource.exactly_once.driver.commit import BatchCommit
from kafkasource.exactly_once.driver.without_rows import BatchWithoutRows
from kafkasource.exactly_once.driver_transaction import DriverTransaction
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.exactly_once.prefix import Prefix
from kafkasource.exactly_once.query_identity import QueryIdentity
from kafkasource.exactly_once.task.plan import BegunBatch, OnLost, TaskResult, driver_of
from kafkasource.exactly_once.task.transactions import TaskTransactions

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster

log = logging.getLogger("kafkasource.sink")


class ExactlyOnce:
    """The driver's side. See the module. Each call blocks."""

    def __init__(
        self,
        cluster: Cluster,
        identity: QueryIdentity | TransactionalIds,
        *,
        timeout_ms: int,
        atomic: bool = False,
        on_lost: OnLost = "fail",
        topic: str | None = None,
        wall_clock_ms: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        """`timeout_ms`: `kafka.transaction.timeout.ms`; `topic`: that all rows go to, None where rows name theirs."""
        found = identity if isinstance(identity, QueryIdentity) else QueryIdentity(identity)
        self._prefix = Prefix(
            cluster,
            found,
            DecisionLog(cluster.groups, found.ids),
            StatusLog(cluster, found.ids, topic),
            TaskTransactions(cluster.transactions, found.ids, timeout_ms),
            timeout_ms,
            atomic,
            on_lost,
            wall_clock_ms,
        )

    def begin(self, write_id: str | None = None) -> BegunBatch:
        """Begin a batch, before its tasks. Afterwards no transaction of this prefix is open, and all decided rows are
        visible.

        `write_id`: of a batch write; None: a stream's micro-batch.
        """
        return BatchBegin(self._prefix, write_id).run()

    def commit(self, results: Sequence[TaskResult], batch_id: int) -> TransactionCounts:
        """After all tasks succeeded. Raises NotDecided and others; after the decision, what a restart makes good."""
        replaces = any(self._makes_good(result) for result in results)
        if replaces or any(result.partitions for result in results):
            return BatchCommit(self._prefix, results, batch_id, replaces=replaces).run()
        return BatchWithoutRows(self._prefix, results, batch_id).run()  # empty, or decided already

    def _makes_good(self, result: TaskResult) -> bool:
        """Are lost transactions of this batch to be written again? Yes also where no task came that could do it."""
        return result.replaces or (result.skipped and bool(result.driver.lost) and self._prefix.on_lost == "rewrite")

    def abort(
        self,
        results: Sequence[TaskResult],
        batch_id: int,
        slots: Iterable[int] = (),
        driver: DriverTransaction | None = None,
    ) -> None:
        """After a task or commit failed; comes after a commit that decided, too. Correctness rests on begin, not here.

        The driver's own transaction is aborted first if it is open, so that no decision comes after it was looked for.
        `slots` are those of the tasks that sent no message. Where there are some, nothing was decided, and their
        transactions are aborted as well, unless another driver is there by now. `driver` is the batch's, where no task
        sent it.
        """
        query_id = ""
        if results:
            driver, query_id = driver_of(results)
        if driver is None:
            log.info(
                "batch %d failed before any task reported: the query's next start aborts its open transactions",
                batch_id,
            )
            return
        BatchAbort(self._prefix, driver, query_id, batch_id, results, slots).run()
