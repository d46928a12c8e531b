"""The commit of a batch that wrote rows: it is decided, then its task transactions end. The steps of `states.BATCH`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kafkasource.errors import BrokerError, DeadlineExceeded, KafkaSourceError, UnsupportedApiVersion, explained
from kafkasource.exactly_once.counts import TransactionCounts
from kafkasource.exactly_once.decision import Decision
from kafkasource.exactly_once.decision_status import DecisionStatus
from kafkasource.exactly_once.driver.moves import move
from kafkasource.exactly_once.driver.same_rows import require_same_rows
from kafkasource.exactly_once.errors import DecidedNotCommitted, NotDecided, not_open_text
from kafkasource.exactly_once.names import WrittenTransaction
from kafkasource.exactly_once.prefix import Prefix
from kafkasource.exactly_once.states import BatchAction, BatchEvent, BatchState
from kafkasource.exactly_once.task.content import total
from kafkasource.exactly_once.task.plan import TaskResult, driver_of
from kafkasource.types import ProducerId, TopicPartition

log = logging.getLogger("kafkasource.sink")

_NOBODY = ProducerId(-1, -1)


class BatchCommit:
    """One commit. `run` is called once and blocks."""

    def __init__(self, prefix: Prefix, results: Sequence[TaskResult], batch_id: int, *, replaces: bool) -> None:
        """`results`: what the tasks say; `replaces`: the rows of lost task transactions were to be written again.

        Raises NotDecided where the tasks are not of one batch.
        """
        self._prefix = prefix
        self._driver, query_id = driver_of(results)
        self._results = results
        self._live = [result for result in results if result.partitions]
        self._replaces = replaces
        opened = (each.transaction for each in self._live if each.transaction)
        self._opened = sorted(opened, key=lambda each: each.slot)  # with `atomic` the tasks' claims, which are empty
        self._written = () if prefix.atomic else tuple(self._opened)
        self._places = [tp for result in self._live for tp in result.partitions]
        driver = self._driver
        rows, content = sum(each.rows for each in results), total([each.content for each in results])
        self._decision = Decision(
            driver.number, query_id, batch_id, driver.transaction_version, self._written, driver.kind, rows, content
        )
        self._status = None  # of a batch write nothing is kept: it is never replayed
        if driver.kind == "stream":
            # Some rows of such a batch are visible: it was decided before. Once the older record has expired, "not
            # decided again" must not be read as "without rows". So the status names no driver that could say it.
            decider = _NOBODY if replaces else driver.producer
            self._status = DecisionStatus(driver.number, query_id, batch_id, "deciding", decider, rows, content)
        # Known as it goes on.
        self._oldest_open_ms: float | None = None
        self._lost: Sequence[WrittenTransaction] = ()
        self._refusal = NotDecided()

    def run(self) -> TransactionCounts:
        """Raises NotDecided and others; after the decision, what a restart makes good."""
        steps = {
            BatchAction.CHECK_OPEN: self._check_open,
            BatchAction.MERGE: self._merge,
            BatchAction.KEEP_DECIDING: self._keep_deciding,
            BatchAction.SEND_DECISION: self._send_decision,
            BatchAction.DECIDE: self._decide,
            BatchAction.END_OWN: lambda: self._prefix.end_own(self._driver)[0],
            BatchAction.READ_RECORD: self._read_record,
            BatchAction.COMMIT_TASKS: self._commit_tasks,
            BatchAction.KEEP_ENDED: self._keep_ended,
            BatchAction.REFUSE: self._refuse,
            BatchAction.TELL_LOST: lambda: self._prefix.tell_lost(
                self._driver.kind, self._decision.batch_id, self._lost
            ),
        }
        event = BatchEvent.WROTE_LOST if self._replaces else BatchEvent.WROTE
        move(f"batch {self._decision.batch_id}", BatchState.RETURNED, event, steps)
        self._tell_first()
        if self._prefix.atomic:
            return self._driver.counts(1, 1)
        opened = len(self._written)
        return self._driver.counts(opened, opened - len(self._lost), self._oldest_open_ms)

    def _tell_first(self) -> None:
        """Warn of the first batch that a query writes exactly once, unless it is its batch 0.

        An earlier run that wrote at least once may have been in the middle of it. Only the first batch that is ever
        begun under the prefix may be such a one, and there the driver's producer has epoch 0. Later ones followed
        batches that this sink began, which had no rows or failed.
        """
        driver, decision = self._driver, self._decision
        if driver.last is not None or driver.kind != "stream" or not decision.batch_id:
            return
        level = logging.INFO if driver.producer.producer_epoch else logging.WARNING
        log.log(
            level,
            "batch %d is the first that query %s decides under %r. If an earlier run wrote to these topics without "
            "exactly_once, or under another prefix, and ended in the middle of this batch, some of its %d rows are in "
            "the topics twice",
            decision.batch_id,
            decision.query_id,
            self._prefix.ids.prefix,
            decision.rows,
        )

    # Before the decision.

    def _check_open(self) -> BatchEvent:
        if self._prefix.atomic and (shared := self._shared_partitions()):
            self._refusal = NotDecided(
                f"with 'atomicBatch' each topic-partition must be written by one task; {len(shared)} were written by "
                f"several, such as {min(shared)}: repartition by what decides the target partition, or coalesce(1) "
                f"{explained('each-topic-partition-must-be-written-by-one-task')}"
            )
            return BatchEvent.SHARED
        try:
            self._oldest_open_ms = self._require_open()
        except NotDecided as error:
            self._refusal = error
            return BatchEvent.NOT_OPEN
        return BatchEvent.ALL_OPEN

    def _shared_partitions(self) -> list[TopicPartition]:
        """Tasks that share one producer id must not share a partition: the broker takes the second for a copy."""
        return [tp for tp, tasks in Counter(self._places).items() if tasks > 1]

    def _require_open(self) -> float | None:
        """Raise NotDecided where brokers or another attempt have aborted a task transaction by now: it would be lost
        (decision 43).

        The same where another driver is there by now: the status in P-kept, which no fencing protects, stays that
        driver's. Returns how long the oldest has been open, in ms, by its coordinator's clock against ours.
        """
        ids, written = self._prefix.ids, self._written
        names = [ids.task(each.slot) for each in written]
        try:
            found = self._prefix.cluster.transactions.describe([*names, ids.driver])
        except UnsupportedApiVersion:  # before Kafka 3.0 nobody can ask
            return None
        self._prefix.tasks.require_open(written, found)
        own, producer = found.get(ids.driver), self._driver.producer
        if own is not None and own.aborted and own.producer_id == producer.producer_id:
            raise NotDecided(not_open_text(ids.driver, producer.producer_epoch, own, "another run of this query"))
        if own is not None and own.producer != producer:
            raise NotDecided(
                f"another run of this query, or another query with the prefix {ids.prefix!r}, has taken over "
                f"{explained('is-not-open-any-more')}"
            )
        now_ms = self._prefix.wall_clock_ms()
        ages_ms = [row.open_for_ms(now_ms) for row in found.values() if row is not None] if written else []
        return max((age_ms for age_ms in ages_ms if age_ms is not None), default=None)

    def _merge(self) -> BatchEvent:
        """Decide the task transactions of the decision that is made good, the lost ones replaced by those written now.

        Its others are committed by now, and this decision leaves them out where it could not commit them again: they
        are of another dialect (a decision has one). With `atomic` it names none: the driver's transaction holds what
        was written now.
        """
        batch_id, last = self._decision.batch_id, self._prefix.decisions.last()
        if last is None or not last.is_of(self._decision.query_id, batch_id):
            self._refusal = NotDecided(
                f"the decision of batch {batch_id} that was to be made good is not there any more"
            )
            return BatchEvent.NO_RECORD
        lost, again = (
            set(self._prefix.tasks.commit(last, last.transactions)),
            {each.slot: each for each in self._opened},
        )
        self._lost = [each for each in last.transactions if each.slot in lost and each.slot not in again]
        if self._lost:
            return BatchEvent.SOME_LOST
        require_same_rows(self._prefix, self._driver.last, self._results, self._decision.query_id, batch_id)
        if self._prefix.atomic:
            return BatchEvent.MERGED
        if last.transaction_version == self._decision.transaction_version:
            by_slot = {each.slot: each for each in last.transactions} | again
            merged = tuple(by_slot[slot] for slot in sorted(by_slot))
            self._decision = replace(self._decision, transactions=merged)
        return BatchEvent.MERGED

    # The decision.

    def _keep_deciding(self) -> BatchEvent:
        if self._status is not None:
            self._prefix.status.write(self._status, self._places)
        return BatchEvent.KEPT

    def _send_decision(self) -> BatchEvent:
        offsets = self._decision.placed(self._places)
        transactions, ids, driver = self._prefix.cluster.transactions, self._prefix.ids, self._driver
        version = driver.transaction_version
        try:
            if version == 1:
                transactions.add_offsets(ids.driver, driver.producer, ids.marker_group)
            transactions.commit_offsets(ids.driver, driver.producer, ids.marker_group, offsets, version)
        except BrokerError as error:
            if not error.row.transaction_gone:
                raise
            self._refusal = self._not_decided(error)
            return BatchEvent.FENCED
        return BatchEvent.SENT

    def _decide(self) -> BatchEvent:
        transactions, driver = self._prefix.cluster.transactions, self._driver
        try:
            transactions.end(self._prefix.ids.driver, driver.producer, True, driver.transaction_version)
        except KafkaSourceError as error:
            self._refusal = self._not_decided(error)
            return BatchEvent.UNANSWERED
        return BatchEvent.ANSWERED

    def _read_record(self) -> BatchEvent:
        try:
            last = self._prefix.decisions.last(self._decision.placed(self._places))
        except KafkaSourceError as error:
            if self._decision.kind == "stream":  # Spark runs it again, and the next begin knows
                raise
            raise DecidedNotCommitted(
                f"{self._named_write}: it is not known yet whether it was decided: {error} Look whether its rows are "
                "in the topics, for a reader at read_committed, before you run it again"
            ) from error
        return BatchEvent.RECORD if last == self._decision else BatchEvent.NO_RECORD

    def _not_decided(self, error: KafkaSourceError) -> NotDecided:
        refusal = NotDecided(
            f"batch {self._decision.batch_id} was not decided: {error} Another run of this query, or another query "
            f"with the prefix {self._prefix.ids.prefix!r}, has taken over, or the brokers did not answer "
            f"{explained('is-not-open-any-more')}"
        )
        refusal.__cause__ = error
        return refusal

    def _refuse(self) -> BatchEvent:
        raise self._refusal

    # After the decision.

    def _commit_tasks(self) -> BatchEvent:
        if self._decision.kind == "stream":
            self._lost = self._prefix.tasks.commit_all(self._decision, self._written)
        else:
            self._lost = self._commit_write()
        if self._prefix.atomic:
            self._prefix.tasks.abort(self._opened, self._driver.transaction_version)  # nothing is in them
        return BatchEvent.SOME_LOST if self._lost else BatchEvent.ALL_COMMITTED

    def _commit_write(self) -> tuple[WrittenTransaction, ...]:
        """Commit the task transactions of a batch write, which nobody runs again as the same write: keep at it until
        brokers would abort them. Raises DecidedNotCommitted."""
        until_ms = self._prefix.wall_clock_ms() + self._prefix.timeout_ms
        while True:
            try:
                return self._prefix.tasks.commit_all(self._decision, self._written)
            except KafkaSourceError as error:
                if isinstance(error, DeadlineExceeded) and self._prefix.wall_clock_ms() < until_ms:
                    log.warning("%s: it is decided, but not all of it is committed yet: %s", self._named_write, error)
                    continue
                raise DecidedNotCommitted(
                    f"{self._named_write}: it is decided, but not all of it can be committed now: {error} Do not run "
                    "it again: its rows would come twice. The next write under this prefix commits the rest, or warns "
                    "which rows are missing, if brokers aborted them after 'kafka.transaction.timeout.ms'"
                ) from error

    @property
    def _named_write(self) -> str:
        return f"batch write {self._decision.query_id} under {self._prefix.ids.prefix!r}"

    def _keep_ended(self) -> BatchEvent:
        if self._status is not None:
            self._prefix.status.write_if_possible(self._status.now("ended"), self._places)
        return BatchEvent.KEPT
