"""Values that pass between begin, the tasks of a batch and the driver.

`plan_task` decides for one task, from what begin found out: write, skip, or refuse. It asks nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kafkasource.exactly_once.decision import Kind
from kafkasource.exactly_once.decision_status import LastBatch
from kafkasource.exactly_once.driver_transaction import DriverTransaction
from kafkasource.exactly_once.errors import (
    LOST,
    OLDER,
    AnotherQuery,
    CheckpointBehind,
    LostDecision,
    LostTransactions,
    NotDecided,
    forgotten_text,
    lost_text,
)
from kafkasource.exactly_once.names import TransactionalIds, WrittenTransaction
from kafkasource.exactly_once.states import PLANS, BatchPlan, Last, Order
from kafkasource.exactly_once.task.content import ContentSum, total
from kafkasource.types import TopicPartition

OnLost = Literal["fail", "rewrite", "skip"]
"""The option `lostTransactions`."""


@dataclass(frozen=True, slots=True)
class BegunBatch:
    """The result of begin, for the tasks of the batch. Pickled to each."""

    driver: DriverTransaction
    write_id: str | None  # of a batch write, in place of a query id; the tasks of a stream know theirs
    query_id: str | None  # that the checkpoint at the sink's location has; None: it was not asked
    lost: tuple[WrittenTransaction, ...]  # of the last decision: brokers did not commit these when begin asked
    forgotten: bool = False  # they know of some of these no more, nor whether they were committed
    ends_left: bool = False
    """A task without rows, too, ends what an earlier run left open in its slot: brokers before 3.0 cannot list it."""

    @property
    def last(self) -> LastBatch | None:
        """Under the prefix."""
        return self.driver.last

    def lost_error(self, batch_id: int, more: str = "") -> LostTransactions:
        """What a task raises where it cannot write the lost rows again, or is not to."""
        if self.forgotten:
            return LostDecision(forgotten_text(batch_id, self.lost, more))
        return LostTransactions(lost_text(batch_id, self.lost, more))


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A task's work: write, or skip, or write the rows of a lost transaction again."""

    write: bool
    again: WrittenTransaction | None = None
    gone_without: bool = False


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One task's report for its batch. It goes back to the driver in the task's message."""

    driver: DriverTransaction
    query_id: str
    skipped: bool = False  # nothing written: the batch was decided in an earlier run
    # None without rows. With atomicBatch it is empty: the task's claim (`task`).
    transaction: WrittenTransaction | None = None
    replaces: bool = False  # the transaction has the rows of a lost one
    partitions: tuple[TopicPartition, ...] = ()  # written to
    gone_without: bool = False  # skipped, though it is not known to be decided: 'lostTransactions' is skip
    # The sum of all rows that the task got for the cluster, written or skipped (`ContentSum`).
    rows: int = 0
    content: int = 0
    topics: tuple[str, ...] = ()

    def with_refused(self, rows: ContentSum) -> TaskResult:
        """Add rows that the task got and did not write."""
        if not rows.rows:
            return self
        content, topics = total([self.content, rows.content]), tuple(sorted({*self.topics, *rows.topics}))
        return replace(self, rows=self.rows + rows.rows, content=content, topics=topics)


def driver_of(results: Sequence[TaskResult]) -> tuple[DriverTransaction, str]:
    """The driver's transaction and the query's id, as all tasks of the batch say them. Raises NotDecided."""
    found = {(result.driver, result.query_id) for result in results}
    if len(found) != 1:
        raise NotDecided(f"begin said {len(found)} different things to the tasks of one batch")
    return found.pop()


def plan_task(begun: BegunBatch, query_id: str, batch_id: int, slot: int, on_lost: OnLost) -> TaskPlan:
    """Raises AnotherQuery, LostTransactions, LostDecision, CheckpointBehind.

    Task transactions of a decision from before this batch are lost only in name: their slots were in use again since.
    """
    if begun.query_id is not None and begun.query_id != query_id:
        raise AnotherQuery(
            f"option 'checkpointLocation': the checkpoint that the sink finds there is of query {begun.query_id}, but "
            f"this is query {query_id}. Give the sink the location that Spark uses, as a full URI, or "
            "'transactionalIdPrefix'"
        )
    last = begun.last
    refuse_another(begun.driver.ids, begun.driver.kind, query_id, last)
    plan = PLANS[_last(begun), _order(begun, query_id, batch_id)]
    if plan is BatchPlan.WRITE:
        return TaskPlan(write=True)
    if plan is BatchPlan.ASK:
        return _plan_unknown(_unknown_text(batch_id), on_lost)
    if plan is BatchPlan.REFUSE:
        assert last is not None
        raise CheckpointBehind(
            f"batch {batch_id} is to be written, but batch {last.batch_id} of this query (id {query_id}) was begun "
            f"already, so batch {batch_id} is in the topics: this checkpoint is an older state of the query's "
            "checkpoint, or a copy of it, and the original has continued. Restore the newest one. A copy needs a "
            f"'transactionalIdPrefix' of its own, and a new query a new checkpoint {OLDER}"
        )
    if plan is BatchPlan.SKIP or on_lost == "skip":
        return TaskPlan(write=False)
    if on_lost == "rewrite":
        again = next((each for each in begun.lost if each.slot == slot), None)
        return TaskPlan(write=again is not None, again=again)
    raise begun.lost_error(batch_id)


def _last(begun: BegunBatch) -> Last:
    if begun.last is None:
        return Last.NOTHING
    if begun.last.state == "decided":
        return Last.LOST if begun.lost else Last.DECIDED
    return Last.UNDECIDED if begun.last.state == "undecided" else Last.UNKNOWN


def _order(begun: BegunBatch, query_id: str, batch_id: int) -> Order:
    last = begun.last
    if last is None or last.query_id != query_id or last.batch_id < batch_id:  # another query's: both are batch writes
        return Order.LATER
    return Order.SAME if last.batch_id == batch_id else Order.EARLIER


def _plan_unknown(text: str, on_lost: OnLost) -> TaskPlan:
    if on_lost == "fail":
        raise LostDecision(text)
    return TaskPlan(write=on_lost == "rewrite", gone_without=on_lost == "skip")


def _unknown_text(batch_id: int) -> str:
    return (
        f"batch {batch_id} was about to be decided when the query ended, and whether it was is not known any more: "
        "the brokers have forgotten the decision record (after offsets.retention.minutes, or with its topics). Look "
        "whether the batch's rows are in the topics, for a reader at read_committed; 'lostTransactions'=rewrite writes "
        f"the batch, =skip goes on without it {LOST}"
    )


def refuse_another(ids: TransactionalIds, kind: Kind, query_id: str, last: LastBatch | None) -> None:
    """Raise AnotherQuery, unless this query may decide after `last`.

    A prefix belongs to one streaming query, or to batch writes, where one may follow another.
    """
    if last is None or last.query_id == query_id or (kind == "write" and last.kind == "write"):
        return
    what = f"batch write {last.query_id}" if last.kind == "write" else f"batch {last.batch_id} of query {last.query_id}"
    raise AnotherQuery(
        f"option 'transactionalIdPrefix': the last decision under {ids.prefix!r} is that of {what}, not of this one "
        f"({query_id}). Under one prefix two queries would overwrite each other's decisions, so nothing is written. "
        "Set another 'transactionalIdPrefix' here. If the other's checkpoint was deleted for good: abort its open "
        f"transactions with 'pykafka transactions abort --prefix {ids.prefix}', then forget its decision with 'pykafka "
        f"groups delete {ids.marker_group} {ids.kept_group}'"
    )
