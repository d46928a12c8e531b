"""The states of exactly once as tables: of the driver's batch, of what begin finds, and of what it plans.

`begin`, `commit` and `abort` move a batch by `BATCH` (`driver.moves`). Each of the three runs in a process
that knows nothing of the others, so each starts in a state of its own:

    begin   LEFT ─▶ DECIDED ─▶ COMMITTED ─▶ ENDED, of the last batch under the prefix; or LOST, or UNRECORDED
    commit  RETURNED ─▶ WRITTEN ─▶ OPEN ─▶ ANNOUNCED ─▶ OFFERED ─▶ DECIDED ─▶ COMMITTED ─▶ ENDED; or WITHOUT_ROWS;
            before DECIDED also UNSURE and UNDECIDED, after it also LOST
    abort   FAILED ─▶ CLOSED ─▶ UNDECIDED ─▶ ABORTED; or COMMITTED or LOST, where it is decided

A begin finds what an earlier run left in two groups: the decision record in P-marker, its status in P-kept. `FOUND`
says what these two mean together (`decision_status`), and `PLANS` what happens to a batch then (`task/plan`). There is
no I/O here.
"""

from __future__ import annotations

from enum import Enum

# The driver's batch.


class BatchState(Enum):
    """The batch as the process that moves it knows it."""

    # States in which a process starts.
    LEFT = "left by an earlier process"
    RETURNED = "all its tasks are done"
    FAILED = "one of its tasks failed, or its commit"
    # On the way to its decision.
    WRITTEN = "its tasks have written rows"
    REPLACING = "its tasks have written the rows of lost task transactions again"
    OPEN = "each transaction that the decision is to name is open"
    ANNOUNCED = "P-kept says that it is about to be decided"
    OFFERED = "the decision is in the driver's transaction, which is open"
    UNSURE = "the driver's transaction was to be committed, and no answer says whether it was"
    # On the way to its abort: the driver that began the batch decides nothing any more.
    CLOSED = "the driver's transaction has ended"
    TAKEN_OVER = "another driver has the driver's transactional id"
    # Known for good, while this process looks.
    WITHOUT_ROWS = "there is nothing to decide"
    DECIDED = "the decision record is there"
    COMMITTED = "decided, and its task transactions are committed"
    ENDED = "committed, and P-kept says so, or the next begin makes that good"
    LOST = "decided, and some of its task transactions are lost"
    UNDECIDED = "not decided"
    ABORTED = "not decided, and its task transactions are aborted"
    UNRECORDED = "no record says that it was decided: `FOUND` says what that means"


class BatchEvent(Enum):
    # Calls of Spark.
    BEGIN = "begin"  # of this batch again, or of the next one
    ABORT = "abort"
    # Reports of the tasks, when Spark asks for a commit.
    WROTE = "wrote"
    WROTE_LOST = "wrote lost rows again"  # or no task came that could
    NO_ROWS = "no rows"  # or all tasks skipped: it was decided in an earlier run
    GONE_WITHOUT = "gone without, as the user wants it"
    # Answers of the brokers.
    NO_RECORD = "no decision record of it"
    RECORD = "a decision record of it"
    ENDED_BEFORE = "P-kept says that its transactions have ended"
    ALL_OPEN = "all open"
    NOT_OPEN = "a task transaction has ended, or another driver is there"
    SHARED = "tasks that share a producer id share a partition"
    MERGED = "merged"
    KEPT = "kept"
    SENT = "sent"
    ANSWERED = "answered"
    UNANSWERED = "an error in place of an answer"
    OWN_ENDED = "the driver's transaction has ended, or was never begun"
    FENCED = "fenced"
    ALL_COMMITTED = "all committed"
    SOME_LOST = "some lost"
    LOST_BEFORE = "some lost, of an earlier run"
    ABORTED = "aborted"
    TOLD = "told"


class BatchAction(Enum):
    LOOK = "read P-kept, refuse another query; fence an older driver, and read P-marker"
    RECOVER = "commit the decision's task transactions, then abort all others that are open"
    ABORT_OPEN = "abort all task transactions that are open"
    KEEP_GONE_WITHOUT = "P-kept: ended, though nothing was written"
    CHECK_OPEN = "DescribeTransactions"
    MERGE = "commit what is left of the earlier decision, and put it together with what was written again"
    KEEP_DECIDING = "P-kept: deciding; nothing of a batch write, which is never replayed"
    SEND_DECISION = "TxnOffsetCommit of the decision record, in the driver's transaction"
    DECIDE = "EndTxn (commit) of the driver's transaction"
    END_OWN = "EndTxn (abort) of the driver's transaction"
    READ_RECORD = "read the decision record"
    COMMIT_TASKS = "EndTxn (commit) of the decision's task transactions"
    KEEP_ENDED = "P-kept: ended"
    ABORT_REPORTED = "EndTxn (abort) of what the tasks reported and the decision does not name"
    ABORT_TASKS = "the same, and InitProducerId of the slots of tasks that did not report"
    REFUSE = "raise NotDecided"
    TELL_LOST = "raise LostTransactions, or warn where 'lostTransactions' is skip"


_BS, _BE, _BA = BatchState, BatchEvent, BatchAction

BATCH: dict[tuple[BatchState, BatchEvent], tuple[BatchState, BatchAction | None]] = {
    # begin: of the last batch.
    (_BS.LEFT, _BE.BEGIN): (_BS.LEFT, _BA.LOOK),
    (_BS.LEFT, _BE.RECORD): (_BS.DECIDED, _BA.RECOVER),
    (_BS.LEFT, _BE.ENDED_BEFORE): (_BS.ENDED, _BA.ABORT_OPEN),
    (_BS.LEFT, _BE.NO_RECORD): (_BS.UNRECORDED, _BA.ABORT_OPEN),
    (_BS.ENDED, _BE.ABORTED): (_BS.ENDED, None),
    (_BS.UNRECORDED, _BE.ABORTED): (_BS.UNRECORDED, None),
    (_BS.DECIDED, _BE.LOST_BEFORE): (_BS.LOST, None),  # the tasks learn of it, and obey 'lostTransactions'
    # commit.
    (_BS.RETURNED, _BE.NO_ROWS): (_BS.WITHOUT_ROWS, None),
    (_BS.RETURNED, _BE.GONE_WITHOUT): (_BS.WITHOUT_ROWS, _BA.KEEP_GONE_WITHOUT),
    (_BS.WITHOUT_ROWS, _BE.KEPT): (_BS.WITHOUT_ROWS, None),
    (_BS.RETURNED, _BE.WROTE): (_BS.WRITTEN, _BA.CHECK_OPEN),
    (_BS.RETURNED, _BE.WROTE_LOST): (_BS.REPLACING, _BA.CHECK_OPEN),
    (_BS.WRITTEN, _BE.NOT_OPEN): (_BS.UNDECIDED, _BA.REFUSE),
    (_BS.WRITTEN, _BE.SHARED): (_BS.UNDECIDED, _BA.END_OWN),
    (_BS.UNDECIDED, _BE.OWN_ENDED): (_BS.UNDECIDED, _BA.REFUSE),
    (_BS.UNDECIDED, _BE.FENCED): (_BS.UNDECIDED, _BA.REFUSE),
    (_BS.WRITTEN, _BE.ALL_OPEN): (_BS.OPEN, _BA.KEEP_DECIDING),
    (_BS.REPLACING, _BE.SHARED): (_BS.UNDECIDED, _BA.END_OWN),
    (_BS.REPLACING, _BE.NOT_OPEN): (_BS.UNDECIDED, _BA.REFUSE),
    (_BS.REPLACING, _BE.ALL_OPEN): (_BS.REPLACING, _BA.MERGE),
    (_BS.REPLACING, _BE.NO_RECORD): (_BS.UNDECIDED, _BA.REFUSE),
    (_BS.REPLACING, _BE.SOME_LOST): (_BS.LOST, _BA.TELL_LOST),  # not all of them were written again
    (_BS.REPLACING, _BE.MERGED): (_BS.OPEN, _BA.KEEP_DECIDING),
    (_BS.OPEN, _BE.KEPT): (_BS.ANNOUNCED, _BA.SEND_DECISION),
    (_BS.ANNOUNCED, _BE.SENT): (_BS.OFFERED, _BA.DECIDE),
    (_BS.ANNOUNCED, _BE.FENCED): (_BS.UNDECIDED, _BA.REFUSE),
    (_BS.OFFERED, _BE.ANSWERED): (_BS.DECIDED, _BA.COMMIT_TASKS),
    (_BS.OFFERED, _BE.UNANSWERED): (_BS.UNSURE, _BA.READ_RECORD),  # also where it was fenced after it was committed
    (_BS.UNSURE, _BE.RECORD): (_BS.DECIDED, _BA.COMMIT_TASKS),
    (_BS.UNSURE, _BE.NO_RECORD): (_BS.UNDECIDED, _BA.REFUSE),
    (_BS.DECIDED, _BE.ALL_COMMITTED): (_BS.COMMITTED, _BA.KEEP_ENDED),  # of begin, too
    (_BS.DECIDED, _BE.SOME_LOST): (_BS.LOST, _BA.TELL_LOST),
    (_BS.COMMITTED, _BE.KEPT): (_BS.ENDED, None),
    (_BS.LOST, _BE.TOLD): (_BS.LOST, None),
    # abort. No decision can come after the driver's transaction has ended, so the record is read after that.
    (_BS.FAILED, _BE.ABORT): (_BS.FAILED, _BA.END_OWN),
    (_BS.FAILED, _BE.OWN_ENDED): (_BS.CLOSED, _BA.READ_RECORD),
    (_BS.FAILED, _BE.FENCED): (_BS.TAKEN_OVER, _BA.READ_RECORD),
    (_BS.CLOSED, _BE.NO_RECORD): (_BS.UNDECIDED, _BA.ABORT_TASKS),
    (_BS.CLOSED, _BE.RECORD): (_BS.CLOSED, _BA.COMMIT_TASKS),  # commit failed after it had decided; or an earlier run's
    (_BS.CLOSED, _BE.ALL_COMMITTED): (_BS.COMMITTED, _BA.ABORT_TASKS),
    (_BS.CLOSED, _BE.SOME_LOST): (_BS.LOST, _BA.ABORT_TASKS),
    # Open transactions of silent tasks of another driver belong to that driver.
    (_BS.TAKEN_OVER, _BE.NO_RECORD): (_BS.UNDECIDED, _BA.ABORT_REPORTED),
    (_BS.TAKEN_OVER, _BE.RECORD): (_BS.TAKEN_OVER, _BA.COMMIT_TASKS),
    (_BS.TAKEN_OVER, _BE.ALL_COMMITTED): (_BS.COMMITTED, _BA.ABORT_REPORTED),
    (_BS.TAKEN_OVER, _BE.SOME_LOST): (_BS.LOST, _BA.ABORT_REPORTED),
    (_BS.UNDECIDED, _BE.ABORTED): (_BS.ABORTED, None),
    (_BS.COMMITTED, _BE.ABORTED): (_BS.COMMITTED, None),
    (_BS.LOST, _BE.ABORTED): (_BS.LOST, _BA.TELL_LOST),
}
"""What is not in it cannot happen, and raises ImpossibleEvent. An error that is no event here (a broker that does not
answer, a missing right) ends the process's work on the batch where it stands; the next begin continues from there."""


# Results of begin.


class LastRecord(Enum):
    """The last decision record, in P-marker."""

    NONE = "none"  # nothing was decided, or the record has expired
    OLDER = "older"  # of a lower number than the status
    NEWEST = "newest"  # of the status' number, or of a higher one; or the status is missing


class Status(Enum):
    """The status of the last decision, from P-kept; if that is `deciding`, with the coordinator's answer."""

    NONE = "none"
    UNDECIDED = "undecided"  # or deciding, and the coordinator says that it was not decided
    ENDED = "ended"
    DECIDING_COMMITTED = "deciding, committed"  # the coordinator says that the driver's transaction was committed
    DECIDING_FORGOTTEN = "deciding, forgotten"  # the coordinator does not know any more


class Found(Enum):
    """The last batch by both, and whether it was decided."""

    NOTHING = "nothing"
    RECORDS_BATCH = "the record's batch, decided"
    STATUS_DECIDED = "the status' batch, decided"
    STATUS_UNDECIDED = "the status' batch, not decided"
    STATUS_UNKNOWN = "the status' batch, and nobody knows"


FOUND: dict[tuple[LastRecord, Status], Found] = {
    (LastRecord.NONE, Status.NONE): Found.NOTHING,
    (LastRecord.NONE, Status.UNDECIDED): Found.STATUS_UNDECIDED,
    (LastRecord.NONE, Status.ENDED): Found.STATUS_DECIDED,
    (LastRecord.NONE, Status.DECIDING_COMMITTED): Found.STATUS_UNKNOWN,  # which task transactions it had is not known
    (LastRecord.NONE, Status.DECIDING_FORGOTTEN): Found.STATUS_UNKNOWN,
    (LastRecord.OLDER, Status.UNDECIDED): Found.RECORDS_BATCH,
    (LastRecord.OLDER, Status.ENDED): Found.STATUS_DECIDED,
    (LastRecord.OLDER, Status.DECIDING_COMMITTED): Found.STATUS_UNKNOWN,
    # A decision would have replaced the older record.
    (LastRecord.OLDER, Status.DECIDING_FORGOTTEN): Found.RECORDS_BATCH,
    (LastRecord.NEWEST, Status.NONE): Found.RECORDS_BATCH,
    (LastRecord.NEWEST, Status.UNDECIDED): Found.RECORDS_BATCH,
    (LastRecord.NEWEST, Status.ENDED): Found.RECORDS_BATCH,
    (LastRecord.NEWEST, Status.DECIDING_COMMITTED): Found.RECORDS_BATCH,
    (LastRecord.NEWEST, Status.DECIDING_FORGOTTEN): Found.RECORDS_BATCH,
}
"""An older record without a status cannot be: it is older than the status."""


# The batch that is to be written.


class Last(Enum):
    """The last batch under the prefix, as begin knows it."""

    NOTHING = "nothing is known of any"
    DECIDED = "decided"
    LOST = "decided, and some of its task transactions are lost"
    UNDECIDED = "not decided"
    UNKNOWN = "nobody knows whether it was decided"


class Order(Enum):
    """The order of the batch that is to be written and the last batch."""

    EARLIER = "earlier"
    SAME = "same"  # Spark runs it again
    LATER = "later"  # or there is no last one


class BatchPlan(Enum):
    WRITE = "write it"
    SKIP = "skip it: it is in the topics"
    REPLACE = "write the rows of lost task transactions again, or stop, or go on without them: 'lostTransactions'"
    ASK = "write it, or stop, or go on without it: 'lostTransactions'"
    REFUSE = "stop: the checkpoint is an older copy"


PLANS: dict[tuple[Last, Order], BatchPlan] = {
    (Last.NOTHING, Order.LATER): BatchPlan.WRITE,  # of a query that wrote at least once until now the commit warns
    (Last.DECIDED, Order.EARLIER): BatchPlan.REFUSE,
    (Last.DECIDED, Order.SAME): BatchPlan.SKIP,
    (Last.DECIDED, Order.LATER): BatchPlan.WRITE,
    (Last.LOST, Order.EARLIER): BatchPlan.REFUSE,
    (Last.LOST, Order.SAME): BatchPlan.REPLACE,
    # A stream lost them only in name: Spark goes on only after they ended.
    (Last.LOST, Order.LATER): BatchPlan.WRITE,
    (Last.UNDECIDED, Order.EARLIER): BatchPlan.REFUSE,
    (Last.UNDECIDED, Order.SAME): BatchPlan.WRITE,
    (Last.UNDECIDED, Order.LATER): BatchPlan.WRITE,
    (Last.UNKNOWN, Order.EARLIER): BatchPlan.REFUSE,
    (Last.UNKNOWN, Order.SAME): BatchPlan.ASK,
    (Last.UNKNOWN, Order.LATER): BatchPlan.WRITE,
}
"""What is not in it cannot be: where there is no last batch, each one is later."""
