"""The commit of a batch that wrote nothing. It is not decided; what is to be known of it is kept all the same."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafkasource.exactly_once.counts import TransactionCounts
from kafkasource.exactly_once.decision_status import DecisionStatus, last_batch
from kafkasource.exactly_once.driver.moves import move
from kafkasource.exactly_once.driver.same_rows import require_same_rows
from kafkasource.exactly_once.driver_transaction import DriverTransaction
from kafkasource.exactly_once.prefix import Prefix
from kafkasource.exactly_once.states import BatchAction, BatchEvent, BatchState
from kafkasource.exactly_once.task.content import total
from kafkasource.exactly_once.task.plan import TaskResult, driver_of

log = logging.getLogger("kafkasource.sink")


class BatchWithoutRows:
    """One commit. `run` is called once and blocks."""

    def __init__(self, prefix: Prefix, results: Sequence[TaskResult], batch_id: int) -> None:
        """Raises NotDecided where the tasks are not of one batch."""
        self._prefix = prefix
        self._results = results
        self._batch_id = batch_id
        self._driver: DriverTransaction | None = None
        self._query_id = prefix.identity.query_id
        if results:
            self._driver, self._query_id = driver_of(results)

    def run(self) -> TransactionCounts:
        """Raises CheckpointBehind."""
        gone_without = any(result.gone_without for result in self._results)
        if self._driver is None:  # no message carries what begin found
            last = last_batch(self._prefix.decisions.last(), self._prefix.status.read()[0], None)
        else:
            last = self._driver.last
        if not gone_without:
            require_same_rows(self._prefix, last, self._results, self._query_id, self._batch_id)
        event = BatchEvent.GONE_WITHOUT if gone_without else BatchEvent.NO_ROWS
        steps = {BatchAction.KEEP_GONE_WITHOUT: self._keep_gone_without}
        move(f"batch {self._batch_id}", BatchState.RETURNED, event, steps)
        return TransactionCounts() if self._driver is None else self._driver.counts()

    def _keep_gone_without(self) -> BatchEvent:
        assert self._driver is not None
        assert self._query_id is not None
        batch_id, query_id, number = self._batch_id, self._query_id, self._driver.number
        log.warning("batch %s of query %s: gone without, as 'lostTransactions' is skip", batch_id, query_id)
        rows, content = sum(each.rows for each in self._results), total([each.content for each in self._results])
        ended = DecisionStatus(number, query_id, batch_id, "ended", self._driver.producer, rows, content)
        self._prefix.status.write_without_rows(ended)
        return BatchEvent.KEPT
