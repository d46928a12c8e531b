"""Exactly once, the driver's side: begin a batch, decide it, end its transactions; recover what an earlier run left.

Each task writes in a transaction of its own (a task transaction). When all tasks have written, the driver commits a
decision record in a transaction of *its* own, and only then the task transactions. So at any moment a batch is decided
or not, which is all that a restart has to know:

    begin    fence an older driver, read the last decision, commit its task transactions (again), abort all others
    tasks    a batch that is decided already is not written again; else each task writes in its transaction
    commit   keep that the batch is about to be decided, decide, commit the task transactions, keep that they have ended
    abort    finish what was decided; else abort the task transactions, also those of tasks that sent no message

Between the decision and the last commit, read_committed shows some task transactions and not others. The next begin
commits the rest after a crash there, if it comes before the brokers abort open transactions
(`kafka.transaction.timeout.ms`). If it comes later, transactions are lost, and `lostTransactions` says what happens:
the loss is never silent. The same holds where a decision may have been made and no record of it is left:
`decision_status` has the table of what is known after a crash at which point.

With `atomicBatch` the tasks write in the driver's own transaction, whose one end is the decision and shows the rows.

`begin` runs in the process that pickles the writer, `commit` and `abort` in another: nothing is kept here. Whatever
they have to know comes with the tasks' messages.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kafkasource.errors import InvalidTxnState, KafkaSourceError, UnsupportedApiVersion
from kafkasource.sink.commit_report import TransactionCounts
from kafkasource.sink.transactions.crash_points import crash_point, crashes_at
from kafkasource.sink.transactions.decision import Decision, DecisionLog
from kafkasource.sink.transactions.decision_status import DecisionStatus, StatusLog, last_batch
from kafkasource.sink.transactions.driver_transaction import DriverTransaction
from kafkasource.sink.transactions.errors import GONE, LostTransactions, NotDecided, lost_text
from kafkasource.sink.transactions.names import TransactionalIds, WrittenTransaction
from kafkasource.sink.transactions.query_identity import QueryIdentity
from kafkasource.sink.transactions.task_plan import BegunBatch, OnLost, TaskResult
from kafkasource.sink.transactions.task_transactions import Recovered, TaskTransactions
from kafkasource.types import ProducerId, TopicPartition

if TYPE_CHECKING:
    from kafkasource.client.cluster import Cluster

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
        self._cluster = cluster
        self._identity = identity if isinstance(identity, QueryIdentity) else QueryIdentity(identity)
        self._ids = self._identity.ids
        self._decisions = DecisionLog(cluster.groups, self._ids)
        self._status = StatusLog(cluster, self._ids, topic)
        self._tasks = TaskTransactions(cluster.transactions, self._ids, timeout_ms)
        self._timeout_ms = timeout_ms
        self._atomic = atomic
        self._on_lost = on_lost
        self._wall_clock_ms = wall_clock_ms

    # Before the tasks.

    def begin(self, write_id: str | None = None) -> BegunBatch:
        """Before the tasks of a batch. When it returns nothing of this prefix is open, and what is decided is there.

        `write_id`: of a batch write; None: a stream's micro-batch.
        """
        groups = [self._ids.kept_group, self._ids.marker_group]
        ahead = self._cluster.transactions.ahead(f"{self._ids.prefix}-", self._ids.driver, groups)
        status, places, decided = self._status.settled()  # InitProducerId ends what the coordinator remembers
        # An older driver decides no more.
        producer = self._cluster.transactions.init_producer_id(self._ids.driver, self._timeout_ms)
        version = ahead.version()
        last = self._decisions.last(places if status is not None and status.state == "deciding" else ())
        all_ended = last is not None and status is not None and status.says_ended(last)
        found, former = self._tasks.recover(last, all_ended, ahead.open_transactions), None
        if last is None and (status is None or status.state != "ended") and (taken := self._take_over()) is not None:
            former, last, of_former = taken
            found = Recovered(of_former.lost, found.recovered + of_former.recovered, found.aborted + of_former.aborted)
        if last is not None and not found.lost and not all_ended:
            self._keep_ended(last, status, producer)
        known = last_batch(last, status, decided)
        driver = DriverTransaction(
            self._ids,
            producer,
            version,
            number=1 + max(last.number if last else 0, status.number if status else 0),
            kind="stream" if write_id is None else "write",
            lost=tuple(each.slot for each in found.lost),
            recovered=found.recovered,
            aborted=found.aborted,
            former=former,
            first=known is None,
        )
        return BegunBatch(driver, write_id, self._identity.query_id, known, found.lost)

    def _take_over(self) -> tuple[TransactionalIds, Decision, Recovered] | None:
        """What this query decided under a prefix made of its location's text, as earlier versions made it.

        Another query may have, or have had, the same text: what does not name this query is left alone. Where the last
        decision does name it, whoever still uses the prefix is fenced, and recovery is done as of an own prefix. It is
        done at each begin until there is a decision under the present prefix.
        """
        found = []
        for ids in self._identity.former:
            decisions = DecisionLog(self._cluster.groups, ids)
            if self._is_own(decisions.last_seen()):
                self._cluster.transactions.init_producer_id(ids.driver, self._timeout_ms)
                last = decisions.last()
                if last is not None and self._is_own(last):
                    recovered = TaskTransactions(self._cluster.transactions, ids, self._timeout_ms).recover(last)
                    found.append((ids, last, recovered))
        return max(found, key=lambda each: (each[1].batch_id, each[1].number), default=None)

    def _is_own(self, decision: Decision | None) -> bool:
        return decision is not None and decision.query_id == self._identity.query_id

    def _keep_ended(self, last: Decision, status: DecisionStatus | None, producer: ProducerId) -> None:
        """A crash, or a version that kept nothing, has left out that the last decision's transactions have ended."""
        is_stream = last.kind == "stream" or (last.kind is None and last.batch_id > 0)
        if is_stream and (status is None or status.number <= last.number):
            ended = DecisionStatus(last.number, last.query_id, last.batch_id, "ended", producer)
            if places := self._decisions.places():
                self._status.write(ended, places)
            else:  # it was taken over, and lies under another prefix
                self._status.write_without_rows(ended)

    # After the tasks.

    def commit(self, results: Sequence[TaskResult], batch_id: int) -> TransactionCounts:
        """After all tasks succeeded. Raises NotDecided and others; after the decision, what a restart makes good."""
        live = [result for result in results if result.partitions]
        makes_good = any(self._makes_good(result) for result in results)
        if not live and not makes_good:  # empty, or decided already
            self._keep_without_rows(results, batch_id)
            return _counts(results[0].driver) if results else TransactionCounts()
        crash_point("written")
        driver, query_id = _driver_of(results)
        opened = sorted((each.transaction for each in live if each.transaction), key=lambda each: each.slot)
        written = () if self._atomic else tuple(opened)
        if self._atomic:
            self._refuse_overlap(live, driver)
        oldest_ms = self._require_open(written, driver)
        decided = written
        if makes_good and not self._atomic:
            decided = self._with_replaced(written, query_id, batch_id, driver)
        decision = Decision(driver.number, query_id, batch_id, driver.transaction_version, decided, driver.kind)
        places = [tp for result in live for tp in result.partitions]
        status = None
        if driver.kind == "stream":
            status = DecisionStatus(driver.number, query_id, batch_id, "deciding", driver.producer)
            self._status.write(status, places)
            crash_point("kept")
        self._decide(decision, driver, places)
        crash_point("decided")
        committed = self._end(decision, written)
        if self._atomic:
            self._tasks.abort(opened, driver.transaction_version)  # nothing is in them
        if status is not None and committed == len(written):
            self._status.write_if_possible(status.now("ended"), places)
        crash_point("ended")
        return _counts(driver, 1, 1) if self._atomic else _counts(driver, len(written), committed, oldest_ms)

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
            driver, query_id = _driver_of(results)
        if driver is None:
            log.info("batch %d failed before any task reported: the query's next start aborts what is open", batch_id)
            return
        producer, another = driver.producer, False
        try:
            producer = self._cluster.transactions.end(self._ids.driver, producer, False, driver.transaction_version)
        except GONE as error:
            another = not isinstance(error, InvalidTxnState)  # which only says that it had ended, or was never begun
        last = self._decisions.last(tp for result in results for tp in result.partitions)
        decided: tuple[WrittenTransaction, ...] = ()
        if last is not None and last.is_of(query_id, batch_id):
            decided = last.transactions
            self._end(last, decided)
        undecided = [each.transaction for each in results if each.transaction and each.transaction not in decided]
        self._tasks.abort(undecided, driver.transaction_version)
        silent = sorted(slots)
        if silent and not another:
            self._tasks.abort_silent(producer, last, silent)

    # Deciding.

    def _makes_good(self, result: TaskResult) -> bool:
        """Are lost transactions of this batch to be written again? Yes also where no task came that could do it."""
        return result.replaces or (result.skipped and bool(result.driver.lost) and self._on_lost == "rewrite")

    def _refuse_overlap(self, live: Sequence[TaskResult], driver: DriverTransaction) -> None:
        """Tasks that share one producer id must not share a partition: the broker takes the second for a copy."""
        shared = [tp for tp, tasks in Counter(tp for result in live for tp in result.partitions).items() if tasks > 1]
        if shared:
            self._cluster.transactions.end(self._ids.driver, driver.producer, False, driver.transaction_version)
            raise NotDecided(
                f"with 'atomicBatch' each topic-partition must be written by one task; {len(shared)} were written by "
                f"several, such as {min(shared)}: repartition by what decides the target partition, or coalesce(1)"
            )

    def _require_open(self, transactions: Sequence[WrittenTransaction], driver: DriverTransaction) -> float | None:
        """Raise NotDecided where brokers or another attempt have aborted a task transaction by now: it would be lost.

        The same where another driver is there by now: the status in P-kept, which no fencing protects, stays that
        driver's. Returns how long the oldest has been open, in ms, by its coordinator's clock against ours.
        """
        names = [self._ids.task(each.slot) for each in transactions]
        try:
            found = self._cluster.transactions.describe([*names, self._ids.driver])
        except UnsupportedApiVersion:  # before Kafka 3.0 nobody can ask
            return None
        self._tasks.require_open(transactions, found)
        own = found.get(self._ids.driver)
        if own is not None and own.producer != driver.producer:
            raise NotDecided(
                f"another run of this query, or another query with the prefix {self._ids.prefix!r}, has taken over"
            )
        now_ms = self._wall_clock_ms()
        ages_ms = [row.open_for_ms(now_ms) for row in found.values() if row is not None] if transactions else []
        return max((age_ms for age_ms in ages_ms if age_ms is not None), default=None)

    def _with_replaced(
        self, again: tuple[WrittenTransaction, ...], query_id: str, batch_id: int, driver: DriverTransaction
    ) -> tuple[WrittenTransaction, ...]:
        """The task transactions of the decision that is made good, the lost ones replaced by those written again."""
        decisions, tasks = self._decisions, self._tasks
        if driver.former is not None:
            decisions = DecisionLog(self._cluster.groups, driver.former)
            tasks = TaskTransactions(self._cluster.transactions, driver.former, self._timeout_ms)
        last = decisions.last()
        if last is None or not last.is_of(query_id, batch_id):
            raise NotDecided(f"the decision of batch {batch_id} that was to be made good is not there any more")
        by_slot = {each.slot: each for each in last.transactions}
        lost = set(tasks.commit(last, last.transactions))
        if missing := lost - {each.slot for each in again}:
            raise LostTransactions(lost_text(batch_id, [by_slot[slot] for slot in sorted(missing)]))
        if driver.former is not None:
            return again  # the others have ended, under names that the new decision does not have
        by_slot.update((each.slot, each) for each in again)
        return tuple(by_slot[slot] for slot in sorted(by_slot))

    def _decide(self, decision: Decision, driver: DriverTransaction, partitions: Sequence[TopicPartition]) -> None:
        offsets = decision.placed(partitions)
        name, group, version = self._ids.driver, self._ids.marker_group, driver.transaction_version
        try:
            if version == 1:
                self._cluster.transactions.add_offsets(name, driver.producer, group)
            self._cluster.transactions.commit_offsets(name, driver.producer, group, offsets, version)
            crash_point("deciding")
        except GONE as error:
            raise self._not_decided(decision, error) from error
        try:
            self._cluster.transactions.end(name, driver.producer, True, version)
        except KafkaSourceError as error:
            # Fenced after it was committed, or an answer that never came: what became of it stands in the record.
            if self._decisions.last(offsets) != decision:
                raise self._not_decided(decision, error) from error

    def _not_decided(self, decision: Decision, error: KafkaSourceError) -> NotDecided:
        return NotDecided(
            f"batch {decision.batch_id} was not decided: {error} Another run of this query, or another query with the "
            f"prefix {self._ids.prefix!r}, has taken over, or the brokers did not answer"
        )

    def _end(self, decision: Decision, transactions: Sequence[WrittenTransaction]) -> int:
        """Commit task transactions of a decision. Returns how many are committed.

        Raises LostTransactions where some are gone, unless these are to be skipped.
        """
        half = len(transactions) // 2 if crashes_at("half_ended") else 0
        gone = self._tasks.commit(decision, transactions[:half])
        crash_point("half_ended")
        gone += self._tasks.commit(decision, transactions[half:])
        if gone:
            text = lost_text(decision.batch_id, [each for each in transactions if each.slot in gone])
            if self._on_lost != "skip":
                raise LostTransactions(text)
            log.warning("%s", text)
        return len(transactions) - len(gone)

    # A batch without rows is not decided; what is to be known of it is kept all the same.

    def _keep_without_rows(self, results: Sequence[TaskResult], batch_id: int) -> None:
        """After a batch that wrote nothing."""
        if not results:
            return self._keep_without_tasks(batch_id)
        driver, query_id = _driver_of(results)
        if any(result.gone_without for result in results):
            log.warning("batch %s of query %s: gone without, as 'lostTransactions' is skip", batch_id, query_id)
            self._status.write_without_rows(DecisionStatus(driver.number, query_id, batch_id, "ended", driver.producer))
        elif driver.first and driver.kind == "stream":
            self._status.write_first(DecisionStatus(0, query_id, batch_id, "undecided", driver.producer))
        return None

    def _keep_without_tasks(self, batch_id: int) -> None:
        """After a batch without tasks, as Spark's first often is: no message carries what begin found."""
        if self._status.read()[0] is None and self._decisions.last() is None:
            query_id = self._identity.query_id or "-"
            self._status.write_first(DecisionStatus(0, query_id, batch_id, "undecided", ProducerId(-1, -1)))


def _driver_of(results: Sequence[TaskResult]) -> tuple[DriverTransaction, str]:
    """The driver's transaction and the query's id, as all tasks of the batch say them. Raises NotDecided."""
    found = {(result.driver, result.query_id) for result in results}
    if len(found) != 1:
        raise NotDecided(f"begin said {len(found)} different things to the tasks of one batch")
    return found.pop()


def _counts(
    driver: DriverTransaction, opened: int = 0, committed: int = 0, oldest_open_ms: float | None = None
) -> TransactionCounts:
    return TransactionCounts(opened, committed, oldest_open_ms, driver.recovered, driver.aborted)
