"""The commit of a batch that wrote nothing. It is not decided; what is to be known of it is kept all the same."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafkasource.sink.commit_report import TransactionCounts
from kafkasource.sink.transactions.batch.moves import move
from kafkasource.sink.transactions.decision_status import DecisionStatus
from kafkasource.sink.transactions.driver_transaction import DriverTransaction
from kafkasource.sink.transactions.errors import CheckpointBehind
from kafkasource.sink.transactions.prefix import Prefix
from kafkasource.sink.transactions.states import BatchAction, BatchEvent, BatchState
from kafkasource.sink.transactions.task.plan import TaskResult, driver_of
from kafkasource.types import ProducerId

log = logging.getLogger("kafkasource.sink")


class BatchWithoutRows:
    """One commit. `run` is called once and blocks."""

    def __init__(self, prefix: Prefix, results: Sequence[TaskResult], batch_id: int) -> None:
        """Raises NotDecided where the tasks are not of one batch."""
        self._prefix = prefix
        self._batch_id = batch_id
        self._gone_without = any(result.gone_without for result in results)
        self._skipped_rows = _skipped_rows(results)
        self._driver: DriverTransaction | None = None
        self._query_id = prefix.identity.query_id or "-"
        if results:
            self._driver, self._query_id = driver_of(results)

    def run(self) -> TransactionCounts:
        """Raises CheckpointBehind."""
        if self._skipped_rows is not None and self._prefix.on_lost != "skip":
            self._require_same_rows(self._skipped_rows)
        steps = {
            BatchAction.LOOK_WHETHER_FIRST: self._look_whether_first,
            BatchAction.KEEP_NONE_YET: self._keep_none_yet,
            BatchAction.KEEP_GONE_WITHOUT: self._keep_gone_without,
        }
        move(f"batch {self._batch_id}", BatchState.RETURNED, self._returned(), steps)
        return TransactionCounts() if self._driver is None else self._driver.counts()

    def _require_same_rows(self, rows: int) -> None:
        """The batch was decided, so it is skipped. Raises CheckpointBehind unless it still has as many rows.

        Spark gives a batch that it runs again the same rows. It plans a batch anew only where its checkpoint does not
        know that the batch was begun: the copy is older by a batch. Then rows that are new in it would be lost, or
        those that are no longer in it written again with the next batch.
        """
        decided = self._prefix.decisions.last()
        if decided is None or not decided.is_of(self._query_id, self._batch_id) or decided.rows in (None, rows):
            return
        raise CheckpointBehind(
            f"batch {self._batch_id} of this query (id {self._query_id}) is in the topics with {decided.rows} rows, "
            f"and now it has {rows}: the checkpoint is an older copy, so that Spark planned the batch anew. Restore "
            "the newer one, or start a new query (a new checkpoint, and a new 'transactionalIdPrefix' where one is "
            "given). If the query gives other rows each time that it runs, 'lostTransactions'=skip goes on with those "
            "that are in the topics"
        )

    def _returned(self) -> BatchEvent:
        if self._driver is None:
            return BatchEvent.NO_TASKS
        if self._gone_without:
            return BatchEvent.GONE_WITHOUT
        first = self._driver.first and self._driver.kind == "stream"
        return BatchEvent.FIRST_WITHOUT_ROWS if first else BatchEvent.NO_ROWS

    def _look_whether_first(self) -> BatchEvent:
        """After a batch without tasks, as Spark's first often is, no message carries what begin found."""
        nothing = self._prefix.status.read()[0] is None and self._prefix.decisions.last() is None
        return BatchEvent.FIRST_WITHOUT_ROWS if nothing else BatchEvent.NO_ROWS

    def _keep_none_yet(self) -> BatchEvent:
        producer = ProducerId(-1, -1) if self._driver is None else self._driver.producer
        self._prefix.status.write_first(DecisionStatus(0, self._query_id, self._batch_id, "undecided", producer))
        return BatchEvent.KEPT

    def _keep_gone_without(self) -> BatchEvent:
        assert self._driver is not None
        batch_id, query_id, number = self._batch_id, self._query_id, self._driver.number
        log.warning("batch %s of query %s: gone without, as 'lostTransactions' is skip", batch_id, query_id)
        ended = DecisionStatus(number, query_id, batch_id, "ended", self._driver.producer)
        self._prefix.status.write_without_rows(ended)
        return BatchEvent.KEPT


def _skipped_rows(results: Sequence[TaskResult]) -> int | None:
    """None: not all of these tasks skipped the batch and counted."""
    counts = [result.skipped_rows for result in results if result.skipped and result.skipped_rows is not None]
    return sum(counts) if counts and len(counts) == len(results) else None
