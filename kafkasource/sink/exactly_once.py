"""Exactly once, the driver's side: begin a batch, decide it, end its lanes; recover what an earlier run left.

Each task writes in a lane, a transaction of its own. When all have written, the driver commits a decision record in a
transaction of *its* own, and only then the lanes. So at any moment a batch is decided or not, which is all that a
restart has to know:

    begin    fence an older driver, read the last decision, commit its lanes (again), abort all others
    tasks    a batch that is decided already is not written again; else each writes in its lane
    commit   decide, then commit the lanes
    abort    finish what was decided; else abort the lanes

Between decision and the last lane, read_committed shows some lanes and not others; a crash there is rolled forward by
the next begin, if that comes before the brokers give up the open lanes (`kafka.transaction.timeout.ms`). Where it comes
later, lanes are lost, and `lostTransactions` says what then: never silence.

With `atomicBatch` the tasks write in the driver's own transaction, whose one end is the decision and shows the rows.

`begin` runs in the process that pickles the writer, `commit` and `abort` in another: nothing is kept here. Whatever
they have to know comes with the tasks' messages.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from kafkasource.client.calls import few
from kafkasource.client.transaction_admin import ONGOING, DescribedTransaction, ListedTransaction
from kafkasource.errors import (
    BrokerError,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaSourceError,
    ProducerFenced,
    UnsupportedApiVersion,
)
from kafkasource.sink.commit_log import LaneCounts
from kafkasource.sink.crash_points import crash_point, crashes_at
from kafkasource.sink.decision import Decision, last_decision
from kafkasource.sink.lanes import TransactionalIds, WrittenLane
from kafkasource.types import ProducerId, TopicPartition

log = logging.getLogger("kafkasource.sink")

OnLost = Literal["fail", "rewrite", "skip"]

# Answers to the commit of a lane. Fenced (90, 47, 49): somebody has begun anew under its id, or brokers have aborted it
# when its time was up. 48: it was aborted, as dialect 2 says it.
_INVALID_TXN_STATE = 48
_GONE = (47, _INVALID_TXN_STATE, 49, 90)


class LostTransactions(KafkaSourceError):
    """Of a batch that is decided, brokers have aborted transactions before they could be committed."""


class NotDecided(KafkaSourceError):
    """The batch was not decided, and none of it will be seen by read_committed. It can be written again."""


class CheckpointBehind(KafkaSourceError):
    """The topics hold later batches of this query than its checkpoint knows of."""


class TransactionCluster(Protocol):
    """What is asked of `client.cluster.Cluster`."""

    def transaction_version(self) -> int: ...
    def init_producer_id(self, transactional_id: str, transaction_timeout_ms: int) -> ProducerId: ...
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
        self, group: str, partitions: Iterable[TopicPartition] | None
    ) -> Mapping[TopicPartition, tuple[int, str] | None]: ...
    def init_producer_ids(
        self, transactional_ids: Iterable[str], transaction_timeout_ms: int
    ) -> Mapping[str, ProducerId | BrokerError]: ...
    def list_transactions(self, prefix: str) -> Iterable[ListedTransaction]: ...
    def describe_transactions(self, transactional_ids: Iterable[str]) -> Mapping[str, DescribedTransaction | None]: ...


@dataclass(frozen=True, slots=True)
class Turn:
    """The driver's, from one begin to the next: who it is to the brokers, and the decision that it may make."""

    driver: ProducerId
    transaction_version: int
    number: int
    lost: tuple[int, ...] = ()  # slots of lanes of the last decision that could not be committed at begin
    recovered: int = 0  # lanes of the last decision that were still open at begin, and were committed then
    aborted: int = 0  # transactions that were left open, and were aborted at begin


@dataclass(frozen=True, slots=True)
class Begun:
    """What the tasks of a batch are told. Pickled to each."""

    ids: TransactionalIds
    turn: Turn
    write_id: str | None  # of a batch write, in place of a query id; the tasks of a stream know theirs
    decided: tuple[str, int] | None  # the last decision's query id and batch id
    lost: tuple[WrittenLane, ...]  # lanes of the last decision that brokers did not commit when asked at begin


@dataclass(frozen=True, slots=True)
class Share:
    """A task's share in its batch; goes back to the driver in the task's message."""

    turn: Turn
    query_id: str
    skipped: bool = False  # nothing written: the batch was decided in an earlier run
    lane: WrittenLane | None = None  # None without rows. With atomicBatch it is empty: the task's claim (lane_task)
    replaces: bool = False  # the lane has the rows of a lost one
    partitions: tuple[TopicPartition, ...] = ()  # written to


@dataclass(frozen=True, slots=True)
class Plan:
    """What a task is to do: write, or skip; or write the rows of a lost lane again."""

    write: bool
    again: WrittenLane | None = None


def plan_task(begun: Begun, query_id: str, batch_id: int, slot: int, on_lost: OnLost) -> Plan:
    """Raises LostTransactions, CheckpointBehind.

    Lanes of a decision from before this batch are lost only in name: their slots were in use again since, and Spark
    would not have gone on had they not ended.
    """
    if begun.decided is None or begun.decided[0] != query_id or begun.decided[1] < batch_id:
        return Plan(write=True)
    decided = begun.decided[1]
    if decided > batch_id:
        raise CheckpointBehind(
            f"batch {batch_id} is to be written, but batch {decided} of this query (id {query_id}) is in the topics "
            "already: the checkpoint is an older copy. Restore the newer one, or start a new query (a new checkpoint, "
            "and a new 'transactionalIdPrefix' where one is given)"
        )
    if not begun.lost or on_lost == "skip":
        return Plan(write=False)
    if on_lost == "rewrite":
        again = next((lane for lane in begun.lost if lane.slot == slot), None)
        return Plan(write=again is not None, again=again)
    raise LostTransactions(_lost_text(batch_id, begun.lost))


def _lost_text(batch_id: int, lost: Iterable[WrittenLane]) -> str:
    slots, rows = [lane.slot for lane in lost], sum(lane.rows for lane in lost)
    return (
        f"batch {batch_id} was decided, but brokers aborted the transactions of its tasks {slots} ({rows} rows) before "
        "they were committed: more time than 'kafka.transaction.timeout.ms' had passed, most likely. The other tasks' "
        "rows are visible. 'lostTransactions'=rewrite writes the missing rows again where they are the same, =skip "
        "goes on without them"
    )


def _counts(turn: Turn, opened: int = 0, committed: int = 0, oldest_open_ms: float | None = None) -> LaneCounts:
    return LaneCounts(opened, committed, oldest_open_ms, turn.recovered, turn.aborted)


class ExactlyOnce:
    """The driver's side. See the module."""

    def __init__(
        self,
        cluster: TransactionCluster,
        ids: TransactionalIds,
        *,
        timeout_ms: int,
        atomic: bool = False,
        on_lost: OnLost = "fail",
        wall_clock_ms: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        self._cluster = cluster
        self._ids = ids
        self._timeout_ms = timeout_ms
        self._atomic = atomic
        self._on_lost = on_lost
        self._wall_clock_ms = wall_clock_ms

    def begin(self, write_id: str | None = None) -> Begun:
        """Before the tasks of a batch. When it returns nothing of this prefix is open, and what is decided is there."""
        driver = self._cluster.init_producer_id(self._ids.driver, self._timeout_ms)  # an older driver decides no more
        version = self._cluster.transaction_version()
        last = self._last()
        lost, recovered, aborted = self._recover(last)
        slots = tuple(lane.slot for lane in lost)
        turn = Turn(driver, version, last.number + 1 if last else 1, slots, recovered, aborted)
        return Begun(self._ids, turn, write_id, (last.query_id, last.batch_id) if last else None, lost)

    def commit(self, shares: Sequence[Share], batch_id: int) -> LaneCounts:
        """After all tasks succeeded. Raises NotDecided and others; after the decision, what a restart makes good."""
        live = [share for share in shares if share.partitions]
        makes_good = any(self._makes_good(share) for share in shares)
        if not live and not makes_good:  # empty, or decided already
            return _counts(shares[0].turn) if shares else LaneCounts()
        crash_point("written")
        turn, query_id = self._turn_of(shares)
        opened = tuple(sorted((share.lane for share in live if share.lane), key=lambda lane: lane.slot))
        lanes = written = () if self._atomic else opened
        oldest_ms = None
        if self._atomic:
            self._refuse_overlap(live, turn)
        else:
            oldest_ms = self._refuse_gone(lanes)
            if makes_good:
                lanes = self._with_replaced(lanes, query_id, batch_id)
        decision = Decision(turn.number, query_id, batch_id, turn.transaction_version, lanes)
        self._decide(decision, turn, [tp for share in live for tp in share.partitions])
        crash_point("decided")
        committed = self._end(decision, written)
        if self._atomic:
            self._cluster.end_txns(self._named(opened), False, turn.transaction_version)  # nothing is in them
        crash_point("ended")
        return _counts(turn, 1, 1) if self._atomic else _counts(turn, len(written), committed, oldest_ms)

    def abort(self, shares: Sequence[Share], batch_id: int) -> None:
        """After a task or commit failed; comes after a commit that decided, too. Correctness rests on begin, not here.

        The driver's own transaction is aborted first if it is open, so that no decision comes after it was looked for.
        Lanes of tasks that sent no message are found by their names, unless another driver is there by now.
        """
        if not shares:
            return
        turn, query_id = self._turn_of(shares)
        another = False
        try:
            self._cluster.end_txn(self._ids.driver, turn.driver, False, turn.transaction_version)
        except BrokerError as error:
            if error.code not in _GONE:
                raise
            another = error.code != _INVALID_TXN_STATE  # which only says that it had ended, or was never begun
        last = self._last(tp for share in shares for tp in share.partitions)
        kept: tuple[WrittenLane, ...] = ()
        if last is not None and last.is_of(query_id, batch_id):
            kept = last.lanes
            self._end(last, kept)
        undecided = [share.lane for share in shares if share.lane is not None and share.lane not in kept]
        self._cluster.end_txns(self._named(undecided), False, turn.transaction_version)
        if not another:
            self._abort_slots(last, self._open_slots())

    # Deciding.

    def _makes_good(self, share: Share) -> bool:
        """Is this a batch of which lost lanes are to be written again? Also where no task was there to do it."""
        return share.replaces or (share.skipped and bool(share.turn.lost) and self._on_lost == "rewrite")

    def _turn_of(self, shares: Sequence[Share]) -> tuple[Turn, str]:
        turns = {(share.turn, share.query_id) for share in shares}
        if len(turns) != 1:
            raise NotDecided(f"the tasks of one batch were told {len(turns)} different things")
        return turns.pop()

    def _refuse_overlap(self, live: Sequence[Share], turn: Turn) -> None:
        """Tasks that share one producer id must not share a partition: the broker takes the second for a copy."""
        shared = [tp for tp, tasks in Counter(tp for share in live for tp in share.partitions).items() if tasks > 1]
        if shared:
            self._cluster.end_txn(self._ids.driver, turn.driver, False, turn.transaction_version)
            raise NotDecided(
                f"with 'atomicBatch' each topic-partition must be written by one task; {len(shared)} were written by "
                f"several, such as {min(shared)}: repartition by what decides the target partition, or coalesce(1)"
            )

    def _refuse_gone(self, lanes: Sequence[WrittenLane]) -> float | None:
        """A lane that brokers or another attempt have aborted by now would be lost: better not to decide.

        How long the oldest has been open, in ms, by its coordinator's clock against ours.
        """
        names = self._named(lanes)
        try:
            found = self._cluster.describe_transactions([name for name, _ in names])
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
        now_ms = self._wall_clock_ms()
        ages_ms = [row.open_for_ms(now_ms) for row in found.values() if row is not None]
        return max((age_ms for age_ms in ages_ms if age_ms is not None), default=None)

    def _with_replaced(self, again: tuple[WrittenLane, ...], query_id: str, batch_id: int) -> tuple[WrittenLane, ...]:
        """The lanes of the decision that is made good, with those that were written again in place of the lost ones."""
        last = self._last()
        if last is None or not last.is_of(query_id, batch_id):
            raise NotDecided(f"the decision of batch {batch_id} that was to be made good is not there any more")
        lanes = {lane.slot: lane for lane in last.lanes}
        lost = set(self._gone(last, lanes.values()))
        if missing := lost - {lane.slot for lane in again}:
            raise LostTransactions(_lost_text(batch_id, [lanes[slot] for slot in sorted(missing)]))
        lanes.update((lane.slot, lane) for lane in again)
        return tuple(lanes[slot] for slot in sorted(lanes))

    def _decide(self, decision: Decision, turn: Turn, partitions: Sequence[TopicPartition]) -> None:
        offsets = decision.placed(partitions)
        driver, group, version = self._ids.driver, self._ids.marker_group, turn.transaction_version
        try:
            if version == 1:
                self._cluster.add_offsets_to_txn(driver, turn.driver, group)
            self._cluster.txn_offset_commit(driver, turn.driver, group, offsets, version)
            crash_point("deciding")
        except (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping, InvalidTxnState) as error:
            raise self._fenced(decision, error) from error
        try:
            self._cluster.end_txn(driver, turn.driver, True, version)
        except KafkaSourceError as error:
            # Fenced after it was committed, or an answer that never came: what became of it stands in the record.
            if self._last(offsets) != decision:
                raise self._fenced(decision, error) from error

    def _fenced(self, decision: Decision, error: KafkaSourceError) -> NotDecided:
        return NotDecided(
            f"batch {decision.batch_id} was not decided: {error} Another run of this query, or another query with the "
            f"prefix {self._ids.prefix!r}, has taken over, or the brokers did not answer"
        )

    # Ending lanes.

    def _end(self, decision: Decision, lanes: Sequence[WrittenLane]) -> int:
        """Commit lanes of a decision; how many are. Raises LostTransactions unless these are to be skipped."""
        half = len(lanes) // 2 if crashes_at("half_ended") else 0
        gone = self._gone(decision, lanes[:half])
        crash_point("half_ended")
        gone += self._gone(decision, lanes[half:])
        if gone:
            text = _lost_text(decision.batch_id, [lane for lane in lanes if lane.slot in gone])
            if self._on_lost != "skip":
                raise LostTransactions(text)
            log.warning("%s", text)
        return len(lanes) - len(gone)

    def _gone(self, decision: Decision, lanes: Iterable[WrittenLane]) -> list[int]:
        """Commit lanes, first time or again, in the dialect of their decision. The slots of those that are gone."""
        named = {self._ids.lane(lane.slot): lane for lane in lanes}
        transactions = [(name, lane.producer) for name, lane in named.items()]
        results = self._cluster.end_txns(transactions, True, decision.transaction_version) if named else {}
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

    def _recover(self, last: Decision | None) -> tuple[tuple[WrittenLane, ...], int, int]:
        """First commit what is decided, then abort what is open: a decided lane must never be among these.

        The lanes of the decision that are lost, how many of it were open until now, and how many were aborted. In
        mid-run nothing is open and each commit is a copy of one that was answered: one round trip each.
        """
        before = self._open_slots()
        gone = self._gone(last, last.lanes) if last else []
        after = self._open_slots() if before else before
        self._abort_slots(last, after)
        lost = tuple(lane for lane in last.lanes if lane.slot in gone) if last else ()
        return lost, len(before or ()) - len(after or ()), len(after or ())

    def _abort_slots(self, last: Decision | None, slots: Sequence[int] | None) -> None:
        """Abort what is open. None: it is not known, so all slots up to the highest known whose lanes were not decided.

        One of a decided lane's slot is a newer one: its own has ended by now.
        """
        if slots is None:
            decided = {lane.slot for lane in last.lanes} if last else set()
            slots = [slot for slot in range(max(decided, default=-1)) if slot not in decided]
        orphans = [self._ids.lane(slot) for slot in slots]
        if orphans:
            log.info("aborting %d transactions that were left open: %s", len(orphans), few(orphans))
            for answer in self._cluster.init_producer_ids(orphans, self._timeout_ms).values():
                if isinstance(answer, BrokerError):
                    raise answer

    def _open_slots(self) -> list[int] | None:
        """Slots with an open transaction. None: brokers before 3.0 cannot list them."""
        try:
            listed = self._cluster.list_transactions(f"{self._ids.prefix}-")
        except UnsupportedApiVersion:
            return None
        slots = (self._ids.slot(each.transactional_id) for each in listed)
        return sorted(slot for slot in slots if slot is not None)

    def _named(self, lanes: Iterable[WrittenLane]) -> list[tuple[str, ProducerId]]:
        return [(self._ids.lane(lane.slot), lane.producer) for lane in lanes]
