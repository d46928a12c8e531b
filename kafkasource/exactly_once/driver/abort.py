"""The abort of a batch: what was decided is finished, all else of it is aborted. The steps of `states.BATCH`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from kafkasource.exactly_once.decision import Decision
from kafkasource.exactly_once.driver.moves import move
from kafkasource.exactly_once.driver_transaction import DriverTransaction
from kafkasource.exactly_once.names import WrittenTransaction
from kafkasource.exactly_once.prefix import Prefix
from kafkasource.exactly_once.states import BatchAction, BatchEvent, BatchState
from kafkasource.exactly_once.task.plan import TaskResult

log = logging.getLogger("kafkasource.sink")


class BatchAbort:
    """One abort. `run` is called once and blocks."""

    def __init__(
        self,
        prefix: Prefix,
        driver: DriverTransaction,
        query_id: str,
        batch_id: int,
        results: Sequence[TaskResult],
        silent: Iterable[int],
    ) -> None:
        """`silent`: the slots of the tasks that sent no message; `query_id`: empty where no task sent one."""
        self._prefix = prefix
        self._driver = driver
        self._query_id = query_id
        self._batch_id = batch_id
        self._results = results
        self._silent = sorted(silent)
        # Known as it goes on.
        self._producer = driver.producer
        self._last: Decision | None = None
        self._decided: tuple[WrittenTransaction, ...] = ()
        self._lost: Sequence[WrittenTransaction] = ()

    def run(self) -> None:
        steps = {
            BatchAction.END_OWN: self._end_own,
            BatchAction.READ_RECORD: self._read_record,
            BatchAction.COMMIT_TASKS: self._commit_tasks,
            BatchAction.ABORT_REPORTED: self._abort_reported,
            BatchAction.ABORT_TASKS: self._abort_tasks,
            BatchAction.TELL_LOST: lambda: self._prefix.tell_lost(self._driver.kind, self._batch_id, self._lost),
        }
        ended = move(f"batch {self._batch_id}", BatchState.FAILED, BatchEvent.ABORT, steps)
        if ended is BatchState.COMMITTED and self._driver.kind == "write":
            log.warning(
                "batch write %s under %r had failed after it was decided, and is complete now: do not run it again",
                self._query_id,
                self._prefix.ids.prefix,
            )

    def _end_own(self) -> BatchEvent:
        event, self._producer = self._prefix.end_own(self._driver)
        return event

    def _read_record(self) -> BatchEvent:
        self._last = self._prefix.decisions.last(tp for result in self._results for tp in result.partitions)
        if self._last is None or not self._last.is_of(self._query_id, self._batch_id):
            return BatchEvent.NO_RECORD
        self._decided = self._last.transactions
        return BatchEvent.RECORD

    def _commit_tasks(self) -> BatchEvent:
        assert self._last is not None
        self._lost = self._prefix.tasks.commit_all(self._last, self._decided)
        return BatchEvent.SOME_LOST if self._lost else BatchEvent.ALL_COMMITTED

    def _abort_reported(self) -> BatchEvent:
        reported = [each.transaction for each in self._results if each.transaction]
        undecided = [each for each in reported if each not in self._decided]
        self._prefix.tasks.abort(undecided, self._driver.transaction_version)
        return BatchEvent.ABORTED

    def _abort_tasks(self) -> BatchEvent:
        self._abort_reported()
        if self._silent:
            self._prefix.tasks.abort_silent(self._producer, self._last, self._silent)
        return BatchEvent.ABORTED
