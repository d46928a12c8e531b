"""The states of exactly once as tables: of a task transaction, of what begin finds, of the batch that is to be written.

A task transaction goes this way (`TRANSITIONS`: tests lead the sink through each cell). No process sees all of it: the
task opens it, the driver decides and commits, brokers or another producer may abort it at any time.

              WROTE              DECISION             COMMIT
    OPEN ────────────▶ WRITTEN ───────────▶ DECIDED ──────────▶ COMMITTED
      │ TASK_FAILED,       │ BATCH_FAILED,      │ TAKEN
      │ BATCH_FAILED,      │ TAKEN              ▼
      │ TAKEN              ▼                  LOST: what 'lostTransactions' says
      └─────────────▶ ABORTED

A begin finds what an earlier run left in two groups: the decision record in P-marker, its status in P-kept. `FOUND`
says what is known by these two (`decision_status`), `PLANS` what happens to a batch by that (`task_plan`). There is no
I/O here.
"""

from __future__ import annotations

from enum import Enum

# A task transaction.


class State(Enum):
    OPEN = "open"  # its task is writing, or is gone without a word
    WRITTEN = "written"  # its every record is acknowledged, and the driver knows under which epoch
    DECIDED = "decided"  # the decision record names it
    COMMITTED = "committed"
    LOST = "lost"  # decided, and aborted by brokers or by another producer before it was committed
    ABORTED = "aborted"


class Event(Enum):
    WROTE = "wrote"  # all tasks have written, and their messages are with the driver
    TASK_FAILED = "task failed"
    TAKEN = "taken"  # another producer has opened the transactional id, or brokers have aborted what was open too long
    DECISION = "decision"  # all tasks have written: the driver is about to decide, and does
    COMMIT = "commit"  # of a batch that is decided: by the driver that decided it, or by the next begin
    BATCH_FAILED = "batch failed"  # Spark calls abort, or the next begin finds what is left


class Action(Enum):
    ABORT = "EndTxn (abort) under its epoch"
    COMMIT = "EndTxn (commit) under its epoch; again is a copy that changes nothing"
    FENCE = "InitProducerId of its transactional id, as nobody knows its epoch: brokers abort what is open"
    REFUSE = "raise NotDecided: the batch is not decided"
    TELL_LOST = "raise LostTransactions, unless 'lostTransactions' is skip"


_S, _E, _A = State, Event, Action

TRANSITIONS: dict[tuple[State, Event], tuple[State, Action | None]] = {
    (_S.OPEN, _E.WROTE): (_S.WRITTEN, None),
    (_S.OPEN, _E.TASK_FAILED): (_S.ABORTED, _A.ABORT),  # by the task itself
    (_S.OPEN, _E.TAKEN): (_S.ABORTED, None),
    (_S.OPEN, _E.BATCH_FAILED): (_S.ABORTED, _A.FENCE),
    (_S.WRITTEN, _E.TAKEN): (_S.ABORTED, None),
    (_S.WRITTEN, _E.DECISION): (_S.DECIDED, None),
    (_S.WRITTEN, _E.BATCH_FAILED): (_S.ABORTED, _A.ABORT),
    (_S.DECIDED, _E.TAKEN): (_S.LOST, None),
    (_S.DECIDED, _E.COMMIT): (_S.COMMITTED, _A.COMMIT),
    (_S.DECIDED, _E.BATCH_FAILED): (_S.COMMITTED, _A.COMMIT),  # commit failed after it had decided
    (_S.COMMITTED, _E.TAKEN): (_S.COMMITTED, None),  # by the next batch
    (_S.COMMITTED, _E.COMMIT): (_S.COMMITTED, _A.COMMIT),
    (_S.COMMITTED, _E.BATCH_FAILED): (_S.COMMITTED, _A.COMMIT),
    (_S.LOST, _E.TAKEN): (_S.LOST, None),
    (_S.LOST, _E.COMMIT): (_S.LOST, _A.TELL_LOST),
    (_S.LOST, _E.BATCH_FAILED): (_S.LOST, _A.TELL_LOST),
    (_S.ABORTED, _E.TAKEN): (_S.ABORTED, None),
    (_S.ABORTED, _E.DECISION): (_S.ABORTED, _A.REFUSE),
    (_S.ABORTED, _E.BATCH_FAILED): (_S.ABORTED, _A.ABORT),  # that fails, which changes nothing
}
"""What is not in it cannot happen: only the driver decides, and it commits nothing before."""


# What begin finds.


class Record(Enum):
    """The last decision record, in P-marker."""

    NONE = "none"  # nothing was decided, or the record has expired
    OLDER = "older"  # of a lower number than the status
    NEWEST = "newest"  # of the status' number, or of a higher one; or there is no status


class Status(Enum):
    """The status of the last decision, in P-kept, and what the coordinator says where it is `deciding`."""

    NONE = "none"
    UNDECIDED = "undecided"  # or deciding, and the coordinator says that it was not decided
    ENDED = "ended"
    DECIDING_COMMITTED = "deciding, committed"  # the coordinator says that the driver's transaction was committed
    DECIDING_FORGOTTEN = "deciding, forgotten"  # the coordinator does not know any more


class Found(Enum):
    """What is known by both: which batch was the last one, and whether it was decided."""

    NOTHING = "nothing"
    RECORDS_BATCH = "the record's batch, decided"
    STATUS_DECIDED = "the status' batch, decided"
    STATUS_UNDECIDED = "the status' batch, not decided"
    STATUS_UNKNOWN = "the status' batch, and nobody knows"


FOUND: dict[tuple[Record, Status], Found] = {
    (Record.NONE, Status.NONE): Found.NOTHING,
    (Record.NONE, Status.UNDECIDED): Found.STATUS_UNDECIDED,
    (Record.NONE, Status.ENDED): Found.STATUS_DECIDED,
    (Record.NONE, Status.DECIDING_COMMITTED): Found.STATUS_UNKNOWN,  # which task transactions it had is not known
    (Record.NONE, Status.DECIDING_FORGOTTEN): Found.STATUS_UNKNOWN,
    (Record.OLDER, Status.UNDECIDED): Found.RECORDS_BATCH,
    (Record.OLDER, Status.ENDED): Found.STATUS_DECIDED,
    (Record.OLDER, Status.DECIDING_COMMITTED): Found.STATUS_UNKNOWN,
    (Record.OLDER, Status.DECIDING_FORGOTTEN): Found.RECORDS_BATCH,  # a decision would have replaced the older record
    (Record.NEWEST, Status.NONE): Found.RECORDS_BATCH,
    (Record.NEWEST, Status.UNDECIDED): Found.RECORDS_BATCH,
    (Record.NEWEST, Status.ENDED): Found.RECORDS_BATCH,
    (Record.NEWEST, Status.DECIDING_COMMITTED): Found.RECORDS_BATCH,
    (Record.NEWEST, Status.DECIDING_FORGOTTEN): Found.RECORDS_BATCH,
}
"""An older record without a status cannot be: it is older than the status."""


# The batch that is to be written.


class Last(Enum):
    """The last batch under the prefix, as begin knows it."""

    NOTHING = "nothing is known of any"
    NONE_YET = "none had rows so far"
    DECIDED = "decided"
    LOST = "decided, and some of its task transactions are lost"
    UNDECIDED = "not decided"
    UNKNOWN = "nobody knows whether it was decided"


class Order(Enum):
    """Where the batch that is to be written stands to the last one."""

    FIRST = "first"  # there is no last one, and it is batch 0 or a batch write
    EARLIER = "earlier"
    SAME = "same"  # Spark runs it again
    LATER = "later"


class BatchPlan(Enum):
    WRITE = "write it"
    SKIP = "skip it: it is in the topics"
    REPLACE = "write the rows of lost task transactions again, or stop, or go on without them: 'lostTransactions'"
    ASK = "write it, or stop, or go on without it: 'lostTransactions'"
    REFUSE = "stop: the checkpoint is an older copy"


PLANS: dict[tuple[Last, Order], BatchPlan] = {
    (Last.NOTHING, Order.FIRST): BatchPlan.WRITE,
    (Last.NOTHING, Order.LATER): BatchPlan.ASK,  # the record is lost, or the query wrote at least once until now
    (Last.NONE_YET, Order.FIRST): BatchPlan.WRITE,
    (Last.NONE_YET, Order.LATER): BatchPlan.WRITE,
    (Last.DECIDED, Order.EARLIER): BatchPlan.REFUSE,
    (Last.DECIDED, Order.SAME): BatchPlan.SKIP,
    (Last.DECIDED, Order.LATER): BatchPlan.WRITE,
    (Last.LOST, Order.EARLIER): BatchPlan.REFUSE,
    (Last.LOST, Order.SAME): BatchPlan.REPLACE,
    (Last.LOST, Order.LATER): BatchPlan.WRITE,  # lost only in name: Spark would not have gone on had they not ended
    (Last.UNDECIDED, Order.EARLIER): BatchPlan.REFUSE,
    (Last.UNDECIDED, Order.SAME): BatchPlan.WRITE,
    (Last.UNDECIDED, Order.LATER): BatchPlan.WRITE,
    (Last.UNKNOWN, Order.EARLIER): BatchPlan.REFUSE,
    (Last.UNKNOWN, Order.SAME): BatchPlan.ASK,
    (Last.UNKNOWN, Order.LATER): BatchPlan.WRITE,
}
"""What is not in it cannot be: FIRST stands to no batch, and only FIRST and LATER are left where there is none."""
