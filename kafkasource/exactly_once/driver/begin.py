"""A batch begins: what an earlier process left of the last one is brought to its end. The steps of `states.BATCH`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from kafkasource.errors import UnsupportedApiVersion
from kafkasource.exactly_once.decision import Decision
from kafkasource.exactly_once.decision_status import DecisionStatus, last_batch
from kafkasource.exactly_once.driver.moves import move
from kafkasource.exactly_once.driver_transaction import DriverTransaction
from kafkasource.exactly_once.errors import lost_write_text
from kafkasource.exactly_once.names import WrittenTransaction
from kafkasource.exactly_once.prefix import Prefix
from kafkasource.exactly_once.states import BatchAction, BatchEvent, BatchState
from kafkasource.exactly_once.task.plan import BegunBatch, refuse_another
from kafkasource.exactly_once.task.transactions import Recovered
from kafkasource.kafka.cluster.transactions import DescribedTransaction, Listed
from kafkasource.kafka.process import PerProcess, Recent
from kafkasource.types import ProducerId

log = logging.getLogger("kafkasource.sink")


@dataclass(frozen=True, slots=True)
class _Begun:
    """The batch that this process began last under a prefix."""

    producer: ProducerId
    number: int

    def was_last(self, producer: ProducerId, last: Decision | None) -> bool:
        """Was it decided, and nothing begun since? `producer`: given to the driver that begins now."""
        following = self.producer._replace(producer_epoch=self.producer.producer_epoch + 1)
        return producer == following and last is not None and last.number == self.number


# The last begin under each prefix, where transactions cannot be listed.
_begun: PerProcess[Recent[str, _Begun]] = PerProcess(lambda: Recent(1_000))


class BatchBegin:
    """One begin. `run` is called once and blocks."""

    def __init__(self, prefix: Prefix, write_id: str | None) -> None:
        self._prefix = prefix
        self._write_id = write_id
        # Known once the brokers were looked at.
        self._producer = ProducerId(-1, -1)
        self._version = 0
        self._open: Callable[[], Listed] | None = None
        self._driver_before: Callable[[], DescribedTransaction | None] | None = None  # of a batch write
        self._last: Decision | None = None
        self._status: DecisionStatus | None = None
        self._decided: bool | None = None  # what the coordinator says, where P-kept says `deciding`
        self._found = Recovered()

    def run(self) -> BegunBatch:
        steps = {
            BatchAction.LOOK: self._look,
            BatchAction.RECOVER: self._recover,
            BatchAction.ABORT_OPEN: self._abort_open,
            BatchAction.KEEP_ENDED: self._keep_ended,
        }
        move(f"the last batch under {self._prefix.ids.prefix}", BatchState.LEFT, BatchEvent.BEGIN, steps)
        known = last_batch(self._last, self._status, self._decided)
        # Transactions of an older decision are lost only in name: the query went on, and used their slots again.
        of_last = known is not None and self._last is not None and known.number == self._last.number
        lost = self._found.lost if of_last and not self._went_on() else ()
        if lost and self._write_id is not None and known is not None:  # no task learns of it: this is another write
            self._warn_of_lost_write(known.query_id, lost)
        driver = DriverTransaction(
            self._prefix.ids,
            self._producer,
            self._version,
            number=1 + max(self._last.number if self._last else 0, self._status.number if self._status else 0),
            kind="stream" if self._write_id is None else "write",
            lost=tuple(each.slot for each in lost),
            recovered=self._found.recovered,
            aborted=self._found.aborted,
            last=known,
        )
        query_id, forgotten = self._prefix.identity.query_id, self._found.forgotten
        ends_left = self._found.unlisted and not self._goes_on(driver.number)
        return BegunBatch(driver, self._write_id, query_id, lost, forgotten, ends_left)

    def _went_on(self) -> bool:
        """Was another batch about to be decided after the last decision? Then the query had brought the decided one to
        its end, and the slots were in use again since. A checkpoint that runs it again has gone back."""
        last, status = self._last, self._status
        if last is None or status is None:
            return False
        return status.number > last.number and status.batch_id != last.batch_id

    def _warn_of_lost_write(self, write_id: str, lost: tuple[WrittenTransaction, ...]) -> None:
        """Only the first begin after that write can tell. Later ones find ids that were in use again since. So does one
        that finds them forgotten: they expire a week after a write that lost nothing, too."""
        assert self._driver_before is not None
        if self._found.forgotten:
            return
        try:
            before = self._driver_before()
            is_first = before is not None and before.committed
        except UnsupportedApiVersion:  # before Kafka 3.0 nobody can ask
            is_first = None
        if is_first is not False:
            log.warning("%s", lost_write_text(self._prefix.ids.prefix, write_id, lost, certain=bool(is_first)))

    def _goes_on(self, number: int) -> bool:
        """Has this process begun the last batch, and was that decided? Then no earlier run has left anything open."""
        before = _begun.get().put(self._prefix.ids.prefix, _Begun(self._producer, number))
        return before is not None and before.was_last(self._producer, self._last)

    def _look(self) -> BatchEvent:
        prefix, ids, transactions = self._prefix, self._prefix.ids, self._prefix.cluster.transactions
        ahead = transactions.ahead(f"{ids.prefix}-", ids.driver, [ids.kept_group, ids.marker_group])
        status, places = prefix.status.read()
        self._refuse_another(status)
        # InitProducerId ends what the coordinator remembers.
        status, self._decided = prefix.status.settled(status, places)
        self._status = status
        if self._write_id is not None:
            self._driver_before = transactions.describing(ids.driver)
        self._producer = transactions.init_producer_id(ids.driver, prefix.timeout_ms)  # an older driver decides no more
        self._version = ahead.version()
        self._open = ahead.open_transactions
        last = prefix.decisions.last(places if status is not None and status.state == "deciding" else ())
        self._last = last
        if status is not None and (status.says_ended(last) if last is not None else status.state == "ended"):
            return BatchEvent.ENDED_BEFORE
        return BatchEvent.NO_RECORD if last is None else BatchEvent.RECORD

    def _refuse_another(self, status: DecisionStatus | None) -> None:
        """Raise AnotherQuery before anything of the other query is fenced or aborted. A batch write keeps no status."""
        last = last_batch(None if status is not None else self._prefix.decisions.last_seen(), status, None)
        if last is None:
            return
        if self._write_id is not None:
            refuse_another(self._prefix.ids, "write", self._write_id, last)
        elif last.kind == "write":
            refuse_another(self._prefix.ids, "stream", self._prefix.identity.query_id or "a stream", last)
        elif (own := self._prefix.identity.unless(last.query_id)) is not None:
            refuse_another(self._prefix.ids, "stream", own, last)

    def _recover(self) -> BatchEvent:
        self._found = self._prefix.tasks.recover(self._last, False, self._open)
        return BatchEvent.LOST_BEFORE if self._found.lost else BatchEvent.ALL_COMMITTED

    def _abort_open(self) -> BatchEvent:
        self._found = self._prefix.tasks.recover(self._last, True, self._open)
        return BatchEvent.ABORTED

    def _keep_ended(self) -> BatchEvent:
        """A crash has left out that the last decision's transactions have ended."""
        last, status = self._last, self._status
        assert last is not None
        if last.kind == "stream" and (status is None or status.number <= last.number):
            ended = DecisionStatus(last.number, last.query_id, last.batch_id, "ended", self._producer)
            ended = replace(ended, rows=last.rows, content=last.content)
            self._prefix.status.write(ended, self._prefix.decisions.places())
        return BatchEvent.KEPT
