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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from kafkasource.client.calls import few
from kafkasource.client.transaction_admin import ONGOING, Ahead, DescribedTransaction, Listed
from kafkasource.errors import (
    BrokerError,
    GroupAuthorizationFailed,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaSourceError,
    ProducerFenced,
    UnsupportedApiVersion,
)
from kafkasource.sink.commit_report import TransactionCounts
from kafkasource.sink.transactions.crash_points import crash_point, crashes_at
from kafkasource.sink.transactions.decision import Decision, Kind, last_decision
from kafkasource.sink.transactions.decision_status import DecisionStatus, LastBatch, StatusKeeper, known
from kafkasource.sink.transactions.names import TransactionalIds, WrittenTransaction
from kafkasource.sink.transactions.query_identity import QueryIdentity
from kafkasource.types import ProducerId, TopicPartition

log = logging.getLogger("kafkasource.sink")

OnLost = Literal["fail", "rewrite", "skip"]

# Answers to the commit of a task transaction that is gone. 90, 47, 49: another producer has fenced it, or brokers have
# aborted it when its time was up. 48: it was aborted, in the words of dialect 2.
_INVALID_TXN_STATE = 48
_GONE = (47, _INVALID_TXN_STATE, 49, 90)
_MAY_WRITE = (ONGOING, "Empty")  # states of a task transaction whose task may still write


class LostTransactions(KafkaSourceError):
    """Of a batch that is decided, brokers have aborted transactions before they could be committed."""


class LostDecision(LostTransactions):
    """Whether a batch is in the topics cannot be known: the record of its decision is gone, or there never was one."""


class NotDecided(KafkaSourceError):
    """The batch was not decided, and none of it will be seen by read_committed. It can be written again."""


class CheckpointBehind(KafkaSourceError):
    """The topics hold later batches of this query than its checkpoint knows of."""


class AnotherQuery(KafkaSourceError):
    """The prefix, or the checkpoint, is another query's. Nothing was written."""


class TransactionCluster(Protocol):
    """What is asked of `client.cluster.Cluster`."""

    def transaction_version(self) -> int: ...
    def init_producer_id(
        self, transactional_id: str, transaction_timeout_ms: int, held_by: ProducerId | None = None
    ) -> ProducerId: ...
    def add_offsets_to_txn(self, transactional_id: str, producer: ProducerId, group: str) -> None: ...
    def txn_offset_commit(
        self,
        transactional_id: str,
        producer: ProducerId,
        group: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        tv: int,
    ) -> None: ...
    def end_txn(self, transactional_id: str, producer: ProducerId, commit: bool, tv: int) -> ProducerId: ...
    def end_txns(
        self, transactions: Iterable[tuple[str, ProducerId]], commit: bool, tv: int
    ) -> Mapping[str, BrokerError | None]: ...
    def fetch_committed(
        self, group: str, partitions: Iterable[TopicPartition] | None, require_stable: bool = True
    ) -> Mapping[TopicPartition, tuple[int, str] | None]: ...
    def init_producer_ids(
        self,
        transactional_ids: Iterable[str],
        transaction_timeout_ms: int,
        held_by: Mapping[str, ProducerId] = ...,
    ) -> Mapping[str, ProducerId | BrokerError]: ...
    def keep_offsets(
        self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]], retention_ms: int
    ) -> None: ...
    def ahead(self, prefix: str, transactional_id: str, groups: Iterable[str]) -> Ahead: ...
    def list_reachable(self, prefix: str) -> Listed: ...
    def describe_transactions(
        self, transactional_ids: Iterable[str], without: Collection[int] = ()
    ) -> Mapping[str, DescribedTransaction | None]: ...


@dataclass(frozen=True, slots=True)
class DriverTransaction:
    """The driver's own transaction, in which it decides at most one batch. It lasts from one begin to the next."""

    ids: TransactionalIds
    producer: ProducerId
    transaction_version: int
    number: int
    kind: Kind = "stream"
    lost: tuple[int, ...] = ()  # slots of the task transactions of the last decision that begin could not commit
    recovered: int = 0  # task transactions of the last decision that were still open at begin, which committed them
    aborted: int = 0  # task transactions that were left open, which begin aborted
    former: TransactionalIds | None = None  # under which the last decision lies, where that is not `ids`
    first: bool = False  # nothing was ever decided under the prefix, as far as the brokers know


@dataclass(frozen=True, slots=True)
class BegunBatch:
    """What begin found out, for the tasks of the batch. Pickled to each."""

    driver: DriverTransaction
    write_id: str | None  # of a batch write, in place of a query id; the tasks of a stream know theirs
    query_id: str | None  # that the checkpoint at the sink's location has; None: it was not asked
    last: LastBatch | None  # under the prefix
    lost: tuple[WrittenTransaction, ...]  # of the last decision: brokers did not commit these when begin asked


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task did for its batch. It goes back to the driver in the task's message."""

    driver: DriverTransaction
    query_id: str
    skipped: bool = False  # nothing written: the batch was decided in an earlier run
    # None without rows. With atomicBatch it is empty: the task's claim (`task`).
    transaction: WrittenTransaction | None = None
    replaces: bool = False  # the transaction has the rows of a lost one
    partitions: tuple[TopicPartition, ...] = ()  # written to
    gone_without: bool = False  # skipped, though it is not known to be decided: 'lostTransactions' is skip


@dataclass(frozen=True, slots=True)
class Plan:
    """What a task is to do: write, or skip; or write the rows of a lost transaction again."""

    write: bool
    again: WrittenTransaction | None = None
    gone_without: bool = False


def lost_text(batch_id: int, lost: Iterable[WrittenTransaction]) -> str:
    slots, rows = [each.slot for each in lost], sum(each.rows for each in lost)
    return (
        f"batch {batch_id} was decided, but brokers aborted the transactions of its tasks {slots} ({rows} rows) before "
        "they were committed: more time than 'kafka.transaction.timeout.ms' had passed, most likely. The other tasks' "
        "rows are visible. 'lostTransactions'=rewrite writes the missing rows again where they are the same, =skip "
        "goes on without them"
    )


def _counts(
    driver: DriverTransaction, opened: int = 0, committed: int = 0, oldest_open_ms: float | None = None
) -> TransactionCounts:
    return TransactionCounts(opened, committed, oldest_open_ms, driver.recovered, driver.aborted)


class ExactlyOnce:
    """The driver's side. See the module."""

    def __init__(
        self,
        cluster: TransactionCluster,
        identity: QueryIdentity | TransactionalIds,
        *,
        timeout_ms: int,
        atomic: bool = False,
        on_lost: OnLost = "fail",
        topic: str | None = None,
        wall_clock_ms: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        self._cluster = cluster
        self._identity = identity if isinstance(identity, QueryIdentity) else QueryIdentity(identity)
        self._ids = self._identity.ids
        self._topic = topic
        self._keeper = StatusKeeper(cluster, self._ids, topic)
        self._timeout_ms = timeout_ms
        self._atomic = atomic
        self._on_lost = on_lost
        self._wall_clock_ms = wall_clock_ms

    def begin(self, write_id: str | None = None) -> BegunBatch:
        """Before the tasks of a batch. When it returns nothing of this prefix is open, and what is decided is there."""
        groups = [self._ids.kept_group, self._ids.marker_group]
        ahead = self._cluster.ahead(f"{self._ids.prefix}-", self._ids.driver, groups)
        kept, places, was = self._keeper.settled()  # before InitProducerId: it ends what the coordinator remembers
        producer = self._cluster.init_producer_id(self._ids.driver, self._timeout_ms)  # an older driver decides no more
        version = ahead.transaction_version()
        last, former = self._last(places if kept is not None and kept.state == "deciding" else ()), None
        all_ended = last is not None and kept is not None and kept.says_ended(last)
        lost, recovered, aborted = self._recover(last, all_ended, ahead.open_transactions)
        if last is None and (kept is None or kept.state != "ended") and (taken := self._take_over()) is not None:
            former, last, (lost, more_recovered, more_aborted) = taken
            recovered, aborted = recovered + more_recovered, aborted + more_aborted
        if last is not None and not lost and not all_ended:
            self._keep_ended(last, kept, producer)
        slots = tuple(each.slot for each in lost)
        kind: Kind = "stream" if write_id is None else "write"
        number = 1 + max(last.number if last else 0, kept.number if kept else 0)
        found = known(last, kept, was)
        own = DriverTransaction(
            self._ids, producer, version, number, kind, slots, recovered, aborted, former, found is None
        )
        return BegunBatch(own, write_id, self._identity.query_id, found, lost)

    def commit(self, results: Sequence[TaskResult], batch_id: int) -> TransactionCounts:
        """After all tasks succeeded. Raises NotDecided and others; after the decision, what a restart makes good."""
        live = [result for result in results if result.partitions]
        makes_good = any(self._makes_good(result) for result in results)
        if not live and not makes_good:  # empty, or decided already
            self._keep_without_rows(results, batch_id)
            return _counts(results[0].driver) if results else TransactionCounts()
        crash_point("written")
        driver, query_id = self._driver_of(results)
        opened = tuple(
            sorted(
                (result.transaction for result in live if result.transaction), key=lambda transaction: transaction.slot
            )
        )
        transactions = written = () if self._atomic else opened
        if self._atomic:
            self._refuse_overlap(live, driver)
        oldest_ms = self._refuse_gone(written, driver)
        if makes_good and not self._atomic:
            transactions = self._with_replaced(transactions, query_id, batch_id, driver)
        decision = Decision(driver.number, query_id, batch_id, driver.transaction_version, transactions, driver.kind)
        places = [tp for result in live for tp in result.partitions]
        kept = (
            DecisionStatus(driver.number, query_id, batch_id, "deciding", driver.producer)
            if driver.kind == "stream"
            else None
        )
        if kept is not None:
            self._keeper.write(kept, places)
            crash_point("kept")
        self._decide(decision, driver, places)
        crash_point("decided")
        committed = self._end(decision, written)
        if self._atomic:
            self._cluster.end_txns(self._named(opened), False, driver.transaction_version)  # nothing is in them
        if kept is not None and committed == len(written):
            self._keeper.write_if_possible(kept.now("ended"), places)
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
        transactions are aborted as well, unless another driver is there by now.
        `driver` is the batch's, where no task sent it.
        """
        query_id = ""
        if results:
            driver, query_id = self._driver_of(results)
        if driver is None:
            log.info("batch %d failed before any task reported: the query's next start aborts what is open", batch_id)
            return
        producer, another = driver.producer, False
        try:
            producer = self._cluster.end_txn(self._ids.driver, driver.producer, False, driver.transaction_version)
        except BrokerError as error:
            if error.code not in _GONE:
                raise
            another = error.code != _INVALID_TXN_STATE  # which only says that it had ended, or was never begun
        last = self._last(tp for result in results for tp in result.partitions)
        kept: tuple[WrittenTransaction, ...] = ()
        if last is not None and last.is_of(query_id, batch_id):
            kept = last.transactions
            self._end(last, kept)
        undecided = [
            result.transaction
            for result in results
            if result.transaction is not None and result.transaction not in kept
        ]
        self._cluster.end_txns(self._named(undecided), False, driver.transaction_version)
        silent = sorted(slots)
        if silent and not another:
            self._abort_silent(producer, last, silent)

    def _abort_silent(self, producer: ProducerId, last: Decision | None, slots: Sequence[int]) -> None:
        """Abort and fence the transactions of tasks that sent no message, of this driver's batch.

        Some of these tasks may still run: Spark kills a Python worker seconds after it has stopped the query. First
        the driver is fenced, if it still is the newest. A task transaction that exists by then is fenced here. A task
        that opens one later finds that its driver is gone, and aborts it itself (`ExactlyOnceTask`).

        A newer run's transactions are younger than its driver, and this driver was the newest a moment ago. Besides, a
        transactional id is only taken from the producer that was seen to hold it. The brokers check that, unless a
        transaction is ongoing under a later epoch of the same id.
        """
        try:
            self._cluster.init_producer_id(self._ids.driver, self._timeout_ms, producer)
        except UnsupportedApiVersion:
            pass  # before Kafka 2.5; nor can tasks look, before 3.0
        except (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping):
            return
        names = [self._ids.task(slot) for slot in slots]
        kept = set(self._named(last.transactions)) if last else set()
        held_by: dict[str, ProducerId] = {}
        try:
            found = self._cluster.describe_transactions(names)
        except UnsupportedApiVersion:
            decided = {name for name, _ in kept}
            open_names = [name for name in names if name not in decided]
        else:
            for name, row in found.items():
                if row is not None and row.state in _MAY_WRITE and (name, row.producer) not in kept:
                    held_by[name] = row.producer
            open_names = list(held_by)
        if open_names:
            log.info("aborting the transactions of %d tasks that did not report: %s", len(open_names), few(open_names))
        for answer in self._cluster.init_producer_ids(open_names, self._timeout_ms, held_by).values():
            if isinstance(answer, BrokerError) and answer.code not in _GONE:
                raise answer

    # Deciding.

    def _makes_good(self, result: TaskResult) -> bool:
        """Is this a batch of which lost transactions are to be written again? Also where no task was there to do it."""
        return result.replaces or (result.skipped and bool(result.driver.lost) and self._on_lost == "rewrite")

    def _driver_of(self, results: Sequence[TaskResult]) -> tuple[DriverTransaction, str]:
        found = {(result.driver, result.query_id) for result in results}
        if len(found) != 1:
            raise NotDecided(f"the tasks of one batch were told {len(found)} different things")
        return found.pop()

    def _refuse_overlap(self, live: Sequence[TaskResult], driver: DriverTransaction) -> None:
        """Tasks that share one producer id must not share a partition: the broker takes the second for a copy."""
        shared = [tp for tp, tasks in Counter(tp for result in live for tp in result.partitions).items() if tasks > 1]
        if shared:
            self._cluster.end_txn(self._ids.driver, driver.producer, False, driver.transaction_version)
            raise NotDecided(
                f"with 'atomicBatch' each topic-partition must be written by one task; {len(shared)} were written by "
                f"several, such as {min(shared)}: repartition by what decides the target partition, or coalesce(1)"
            )

    def _refuse_gone(self, transactions: Sequence[WrittenTransaction], driver: DriverTransaction) -> float | None:
        """Raise NotDecided where brokers or another attempt have aborted a task transaction by now: it would be lost.

        The same where another driver is there by now: the status in P-kept, which no fencing protects, stays that
        driver's. Returns how long the oldest has been open, in ms, by its coordinator's clock against ours.
        """
        names = self._named(transactions)
        try:
            found = self._cluster.describe_transactions([*(name for name, _ in names), self._ids.driver])
        except UnsupportedApiVersion:  # before Kafka 3.0 nobody can ask
            return None
        for name, producer in names:
            row = found.get(name)
            if row is None or (row.state, row.producer_id, row.producer_epoch) != (ONGOING, *producer):
                state = "unknown" if row is None else f"{row.state} under epoch {row.producer_epoch}"
                raise NotDecided(
                    f"transaction {name!r} (epoch {producer.producer_epoch}) is not open any more, but {state}: the "
                    "batch took longer than 'kafka.transaction.timeout.ms', or another attempt of the task, or another "
                    "query with this 'transactionalIdPrefix', has fenced it"
                )
        row = found.get(self._ids.driver)
        if row is not None and (row.producer_id, row.producer_epoch) != driver.producer:
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
        holder = self if driver.former is None else self._under(driver.former)
        last = holder._last()
        if last is None or not last.is_of(query_id, batch_id):
            raise NotDecided(f"the decision of batch {batch_id} that was to be made good is not there any more")
        transactions = {transaction.slot: transaction for transaction in last.transactions}
        lost = set(holder._gone(last, transactions.values()))
        if missing := lost - {each.slot for each in again}:
            raise LostTransactions(lost_text(batch_id, [transactions[slot] for slot in sorted(missing)]))
        if holder is not self:
            return again  # the others have ended, under names that the new decision does not have
        transactions.update((transaction.slot, transaction) for transaction in again)
        return tuple(transactions[slot] for slot in sorted(transactions))

    def _decide(self, decision: Decision, driver: DriverTransaction, partitions: Sequence[TopicPartition]) -> None:
        offsets = decision.placed(partitions)
        name, group, version = self._ids.driver, self._ids.marker_group, driver.transaction_version
        try:
            if version == 1:
                self._cluster.add_offsets_to_txn(name, driver.producer, group)
            self._cluster.txn_offset_commit(name, driver.producer, group, offsets, version)
            crash_point("deciding")
        except (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping, InvalidTxnState) as error:
            raise self._fenced(decision, error) from error
        try:
            self._cluster.end_txn(name, driver.producer, True, version)
        except KafkaSourceError as error:
            # Fenced after it was committed, or an answer that never came: what became of it stands in the record.
            if self._last(offsets) != decision:
                raise self._fenced(decision, error) from error

    def _fenced(self, decision: Decision, error: KafkaSourceError) -> NotDecided:
        return NotDecided(
            f"batch {decision.batch_id} was not decided: {error} Another run of this query, or another query with the "
            f"prefix {self._ids.prefix!r}, has taken over, or the brokers did not answer"
        )

    # What outlives the decision record: `decision_status`.

    def _keep_ended(self, last: Decision, kept: DecisionStatus | None, producer: ProducerId) -> None:
        """A crash, or a version that kept nothing, has left out that the last decision's transactions have ended."""
        is_stream = last.kind == "stream" or (last.kind is None and last.batch_id > 0)
        if is_stream and (kept is None or kept.number <= last.number):
            places = [tp for tp, row in self._cluster.fetch_committed(self._ids.marker_group, None).items() if row]
            ended = DecisionStatus(last.number, last.query_id, last.batch_id, "ended", producer)
            if places:
                self._keeper.write(ended, places)
            else:  # it was taken over, and lies under another prefix
                self._keeper.write_without_rows(ended)

    def _keep_without_rows(self, results: Sequence[TaskResult], batch_id: int) -> None:
        """After a batch of which nothing was written."""
        if not results:
            return self._keep_without_tasks(batch_id)
        driver, query_id = self._driver_of(results)
        if any(result.gone_without for result in results):
            log.warning("batch %d of query %s: gone without, as 'lostTransactions' is skip", batch_id, query_id)
            self._keeper.write_without_rows(DecisionStatus(driver.number, query_id, batch_id, "ended", driver.producer))
        elif driver.first and driver.kind == "stream":
            self._keep_first(DecisionStatus(0, query_id, batch_id, "undecided", driver.producer))
        return None

    def _keep_without_tasks(self, batch_id: int) -> None:
        """Of such a batch, as Spark's first often is, nobody tells what begin found."""
        if self._keeper.read()[0] is None and self._last() is None:
            self._keep_first(
                DecisionStatus(0, self._identity.query_id or "-", batch_id, "undecided", ProducerId(-1, -1))
            )

    def _keep_first(self, kept: DecisionStatus) -> None:
        try:
            self._keeper.write_without_rows(kept)
        except KafkaSourceError as error:
            log.warning(
                "batch %d had no rows, which cannot be kept in the group %s, so the first batch with rows may ask for "
                "'lostTransactions'=rewrite. Read on topic __consumer_offsets, or the option 'topic', avoids it: %s",
                kept.batch_id,
                self._ids.kept_group,
                error,
            )

    # Ending transactions.

    def _end(self, decision: Decision, transactions: Sequence[WrittenTransaction]) -> int:
        """Commit task transactions of a decision. Returns how many are committed.

        Raises LostTransactions where some are gone, unless these are to be skipped.
        """
        half = len(transactions) // 2 if crashes_at("half_ended") else 0
        gone = self._gone(decision, transactions[:half])
        crash_point("half_ended")
        gone += self._gone(decision, transactions[half:])
        if gone:
            text = lost_text(
                decision.batch_id, [transaction for transaction in transactions if transaction.slot in gone]
            )
            if self._on_lost != "skip":
                raise LostTransactions(text)
            log.warning("%s", text)
        return len(transactions) - len(gone)

    def _gone(self, decision: Decision, transactions: Iterable[WrittenTransaction]) -> list[int]:
        """Commit task transactions, first time or again, in the dialect of their decision.

        Returns the slots of those that are gone.
        """
        named = {self._ids.task(each.slot): each for each in transactions}
        to_end = [(name, each.producer) for name, each in named.items()]
        results = self._cluster.end_txns(to_end, True, decision.transaction_version) if named else {}
        gone = []
        for name, error in results.items():
            if error is not None and error.code not in _GONE:
                raise error
            if error is not None:
                gone.append(named[name].slot)
        return gone

    # Recovery.

    def _last(self, places: Iterable[TopicPartition] = ()) -> Decision | None:
        """The last decision. Waits while one that may lie at these places is neither committed nor aborted.

        It is not enough to ask for all that the group has: brokers leave out a partition that had no offset before,
        while one is on its way there in a transaction, and until they have taken in its end (Kafka 3.9: which may be
        after the transaction's coordinator calls it complete). So whoever may have decided names where. `begin` cannot
        know that, but comes after its own InitProducerId, which ends what is on its way.
        """
        group, named = self._ids.marker_group, sorted(set(places))
        if named:
            self._cluster.fetch_committed(group, named)
        return last_decision(self._cluster.fetch_committed(group, None))

    def _recover(
        self, last: Decision | None, all_ended: bool = False, ask: Callable[[], Listed] | None = None
    ) -> tuple[tuple[WrittenTransaction, ...], int, int]:
        """First commit what is decided, then abort what is open, so that no decided transaction is aborted.

        Returns the task transactions of the decision that are lost, how many of it were open until now, and how many
        were aborted. In mid-run nothing is open and each commit is a copy of one that was answered: one round trip.
        `ask` returns what is open, where that was asked already: what opens later is of a driver that is fenced by now.
        """
        before = self._open_slots(last, ask)
        gone = self._gone(last, last.transactions) if last and not all_ended else []
        after = self._open_slots(last) if before else before
        self._abort_slots(last, after)
        lost = tuple(transaction for transaction in last.transactions if transaction.slot in gone) if last else ()
        return lost, len(before or ()) - len(after or ()), len(after or ())

    def _take_over(self) -> tuple[TransactionalIds, Decision, tuple[tuple[WrittenTransaction, ...], int, int]] | None:
        """What this query decided under a prefix made of its location's text, as earlier versions made it.

        Another query may have, or have had, the same text: what does not name this query is left alone. Where the last
        decision does name it, whoever still uses the prefix is fenced, and recovery is done as of an own prefix. It is
        done at each begin until there is a decision under the present prefix.
        """
        found = []
        for ids in self._identity.former:
            holder = self._under(ids)
            if self._is_own(holder._last_seen()):
                self._cluster.init_producer_id(ids.driver, self._timeout_ms)
                last = holder._last()
                if last is not None and self._is_own(last):
                    found.append((ids, last, holder._recover(last)))
        return max(found, key=lambda each: (each[1].batch_id, each[1].number), default=None)

    def _is_own(self, decision: Decision | None) -> bool:
        return decision is not None and decision.query_id == self._identity.query_id

    def _last_seen(self) -> Decision | None:
        """The last decision, without waiting for one under way. Rights to look may be missing: then it was no one's
        that has the rights of this query."""
        try:
            return last_decision(self._cluster.fetch_committed(self._ids.marker_group, None, require_stable=False))
        except GroupAuthorizationFailed:
            return None

    def _under(self, ids: TransactionalIds) -> ExactlyOnce:
        """The same, under other names."""
        return ExactlyOnce(self._cluster, ids, timeout_ms=self._timeout_ms, on_lost=self._on_lost, topic=self._topic)

    def _abort_slots(self, last: Decision | None, slots: Sequence[int] | None) -> None:
        """Abort the task transactions in these slots.

        None: nobody knows which are open. Then all slots below the highest of the last decision that it does not name.
        A transaction that is open in a decided slot is a newer one: the decided one has ended by now.
        """
        if slots is None:
            decided = {each.slot for each in last.transactions} if last else set()
            slots = [slot for slot in range(max(decided, default=-1)) if slot not in decided]
        orphans = [self._ids.task(slot) for slot in slots]
        if orphans:
            log.info("aborting %d transactions that were left open: %s", len(orphans), few(orphans))
            for answer in self._cluster.init_producer_ids(orphans, self._timeout_ms).values():
                if isinstance(answer, BrokerError):
                    raise answer

    def _open_slots(self, last: Decision | None, ask: Callable[[], Listed] | None = None) -> list[int] | None:
        """Slots with an open transaction. None: brokers before 3.0 cannot list them.

        A broker that cannot be reached is gone without. What it coordinated may have moved to a broker that had listed
        by then, so the slots that are known are looked at there. What it still coordinates may stay open. Nothing is
        doubled by that, as only transactions that the decision names are ever committed. An open transaction holds back
        readers at read_committed, until a task opens the slot again, which aborts it, or until its timeout.
        """
        prefix = f"{self._ids.prefix}-"
        try:
            listed, unreachable = self._cluster.list_reachable(prefix) if ask is None else ask()
        except UnsupportedApiVersion:
            return None
        slots = {slot for each in listed if (slot := self._ids.slot(each.transactional_id)) is not None}
        if unreachable:
            warn_unreachable(self._ids, unreachable)
            highest = max([*slots, *(each.slot for each in (last.transactions if last else ()))], default=-1)
            known = [self._ids.task(slot) for slot in range(highest + 1) if slot not in slots]
            for name, row in self._cluster.describe_transactions(known, unreachable).items():
                if row is not None and row.state == ONGOING:
                    slots.add(self._ids.slot(name) or 0)
        return sorted(slots)

    def _named(self, transactions: Iterable[WrittenTransaction]) -> list[tuple[str, ProducerId]]:
        return [(self._ids.task(transaction.slot), transaction.producer) for transaction in transactions]


_warned: dict[str, tuple[int, ...]] = {}  # by prefix: the brokers that were named in the last warning


def warn_unreachable(ids: TransactionalIds, unreachable: Mapping[int, KafkaSourceError]) -> None:
    """Once for each set of brokers: every micro-batch would say it again."""
    nodes = tuple(sorted(unreachable))
    if _warned.get(ids.prefix) != nodes:
        _warned[ids.prefix] = nodes
        log.warning(
            "transactions of %s-*: %s cannot be reached from the driver and may have some open that nobody aborts now; "
            "readers at read_committed wait for these until a task uses them again, or until "
            "'kafka.transaction.timeout.ms' is over: %s",
            ids.prefix,
            "broker " + ", ".join(map(str, nodes)),
            "; ".join(str(unreachable[node]) for node in nodes),
        )
