"""Every cell of the tables of exactly once: the task transaction's by the sink itself, the others by what must hold."""

from contextlib import suppress
from enum import Enum
from itertools import product

import pytest
from transaction_fakes import CommitsOtherwise, Crash, FakeContext, FakeTransactionCluster, read_committed

from kafkasource.errors import BrokerError
from kafkasource.exactly_once.decision import Decision
from kafkasource.exactly_once.decision_status import DecisionStatus, LastBatch, last_batch
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.driver_transaction import DriverTransaction
from kafkasource.exactly_once.errors import CheckpointBehind, LostDecision, LostTransactions, NotDecided
from kafkasource.exactly_once.names import TransactionalIds, WrittenTransaction
from kafkasource.exactly_once.query_identity import IdentitySource
from kafkasource.exactly_once.states import (
    FOUND,
    PLANS,
    BatchPlan,
    Found,
    Last,
    Order,
    Record,
    Status,
)
from kafkasource.exactly_once.task.plan import BegunBatch, TaskResult, plan_task
from kafkasource.exactly_once.task.task import ExactlyOnceTask, Guarantee
from kafkasource.types import ProducerId, TopicPartition

IDS = TransactionalIds("p")
T0 = TopicPartition("t", 0)
GUARANTEE = Guarantee(IdentitySource("p"), 600_000, False, "fail")


# The states of a task transaction. No process sees all of it: the task opens it, the driver decides and commits, and
# brokers or another producer may abort it at any time. The tests lead the sink through each cell.
#
#               WROTE              DECISION             COMMIT
#     OPEN ────────────▶ WRITTEN ───────────▶ DECIDED ──────────▶ COMMITTED
#       │ TASK_FAILED,       │ BATCH_FAILED,      │ TAKEN
#       │ BATCH_FAILED,      │ TAKEN              ▼
#       │ TAKEN              ▼                  LOST: what 'lostTransactions' says
#       └─────────────▶ ABORTED


class State(Enum):
    OPEN = "open"  # its task is writing, or has died without a report
    WRITTEN = "written"  # all its records are acknowledged, and the driver knows its producer epoch
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
    BATCH_FAILED = "batch failed"  # Spark calls abort, or the next begin finds its transactions


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


class Life:
    """Task 0 of batch 0, led into a state of its transaction by the sink, on a cluster that answers as brokers do."""

    def __init__(self, version):
        self.cluster, self.version = FakeTransactionCluster(version), version
        self.begun = self.driver().begin()
        self.task = ExactlyOnceTask.start(GUARANTEE, self.begun, FakeContext(0))
        self.transaction = self.task.open_transaction(self.cluster)
        self.transaction.enroll([T0])
        self.cluster.produce("p-0", self.transaction.producer, T0, ["row"], version)
        self.results = []
        self.batch_failed = []  # slots of tasks that sent no message
        self.raised = None

    def driver(self):
        return ExactlyOnce(self.cluster, IDS, timeout_ms=600_000)

    def led_to(self, state):
        for event in {
            State.OPEN: [],
            State.WRITTEN: [Event.WROTE],
            State.DECIDED: [Event.WROTE, Event.DECISION],
            State.COMMITTED: [Event.WROTE, Event.DECISION, Event.COMMIT],
            State.LOST: [Event.WROTE, Event.DECISION, Event.TAKEN],
            State.ABORTED: [Event.WROTE, Event.TAKEN],
        }[state]:
            self.happens(event)
        assert self.seen() is state
        return self

    def happens(self, event):
        """Which calls of the sink, or of somebody else, it takes. What they raise is kept."""
        before = len(self.cluster.calls)
        try:
            getattr(self, "_" + event.name.lower())()
        except (NotDecided, LostTransactions) as error:
            self.raised = error
        return self.cluster.calls[before:]

    def _wrote(self):
        written = WrittenTransaction(0, *self.transaction.producer, 1, 0)
        self.results = [TaskResult(self.begun.driver, "q", transaction=written, partitions=(T0,))]

    def _task_failed(self):
        self.task.abort(self.cluster)

    def _taken(self):
        self.cluster.transactions.init_producer_id("p-0", 600_000)

    def _decision(self):
        class DecidesOnly(CommitsOtherwise):
            def end_tasks(self, decision, transactions):
                raise Crash

        with suppress(Crash):
            DecidesOnly(self.cluster, IDS, timeout_ms=600_000).commit(self.results, 0)

    def _commit(self):
        self.cluster.offsets.pop(("p-kept", T0), None)  # else a begin knows that all have ended, and commits nothing
        begun = self.driver().begin()
        plan_task(begun, "q", 0, 0, "fail")

    def _batch_failed(self):
        self.driver().abort(self.results, 0, () if self.results else (0,), self.begun.driver)

    def seen(self):
        """The state, from the topic, the decision record and the coordinator."""
        record = self.cluster.offsets.get(("p-marker", T0))
        held = self.cluster.by_id["p-0"]
        if read_committed(self.cluster.logs[T0]):
            return State.COMMITTED
        if held.open and held.producer == self.transaction.producer:
            return State.DECIDED if record else State.WRITTEN if self.results else State.OPEN
        return State.LOST if record else State.ABORTED


CALLS = {
    Action.ABORT: "end p-0 False",
    Action.COMMIT: "end p-0 True",
    Action.FENCE: "init p-0",
    Action.REFUSE: "describe",
    Action.TELL_LOST: "end p-0 True",
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("state", "event"), TRANSITIONS, ids=lambda each: each.name)
def test_a_task_transaction_goes_as_the_table_says(version, state, event):
    life = Life(version).led_to(state)
    after, action = TRANSITIONS[state, event]
    calls = life.happens(event)
    assert life.seen() is after
    assert isinstance(life.raised, NotDecided) is (action is Action.REFUSE)
    assert isinstance(life.raised, LostTransactions) is (action is Action.TELL_LOST)
    of_task = {call for call in calls if call.startswith(("end p-0", "init p-0"))}
    if action is None:
        assert not of_task or event is Event.TAKEN
    else:
        assert CALLS[action] in calls
        assert of_task <= {CALLS[action]}


def test_what_is_not_in_the_table_of_a_task_transaction_comes_before_or_after_the_decision():
    missing = set(product(State, Event)) - TRANSITIONS.keys()
    decided = {State.DECIDED, State.COMMITTED, State.LOST}
    for state, event in missing:
        own = state is not State.OPEN and event in (Event.WROTE, Event.TASK_FAILED)  # the task is done
        too_early = state is State.OPEN and event is Event.DECISION
        assert own or too_early or (event is Event.DECISION if state in decided else event is Event.COMMIT)


# What begin finds.

RECORDS = {Record.NONE: None, Record.OLDER: 7, Record.NEWEST: 8}
STATUSES = {
    Status.NONE: (None, None),
    Status.UNDECIDED: ("undecided", None),
    Status.ENDED: ("ended", None),
    Status.DECIDING_COMMITTED: ("deciding", True),
    Status.DECIDING_FORGOTTEN: ("deciding", None),
}
BATCHES = {
    Found.NOTHING: None,
    Found.RECORDS_BATCH: "decided",
    Found.STATUS_DECIDED: LastBatch(8, "stream", "q", 8, "decided"),
    Found.STATUS_UNDECIDED: LastBatch(8, "stream", "q", 8, "undecided"),
    Found.STATUS_UNKNOWN: LastBatch(8, "stream", "q", 8, "unknown"),
}


@pytest.mark.parametrize(("record", "status"), FOUND, ids=lambda each: each.name)
def test_begin_knows_what_the_table_says(record, status):
    number, (state, decided) = RECORDS[record], STATUSES[status]
    last = None if number is None else Decision(number, "q", number, 2, ())
    kept = None if state is None else DecisionStatus(8, "q", 8, state, ProducerId(1, 0))
    known = last_batch(last, kept, decided)
    expected = BATCHES[FOUND[record, status]]
    assert known == (LastBatch(number, "stream", "q", number) if expected == "decided" else expected)
    if state == "deciding":  # the coordinator says that it was not: as if that had been kept
        assert last_batch(last, kept, False) == last_batch(last, kept.now("undecided"), None)


def test_all_that_begin_can_find_is_in_the_table():
    assert set(product(Record, Status)) - FOUND.keys() == {(Record.OLDER, Status.NONE)}


# The batch that is to be written.

LASTS = {
    Last.NOTHING: (None, ()),
    Last.DECIDED: (LastBatch(2, "stream", "q", 5), ()),
    Last.LOST: (LastBatch(2, "stream", "q", 5), (WrittenTransaction(0, 1, 1, 7, 0),)),
    Last.UNDECIDED: (LastBatch(2, "stream", "q", 5, "undecided"), ()),
    Last.UNKNOWN: (LastBatch(2, "stream", "q", 5, "unknown"), ()),
}
BATCH_IDS = {Order.EARLIER: 4, Order.SAME: 5, Order.LATER: 6}
# What a task does with 'lostTransactions' fail, rewrite, skip: an error, or whether it writes.
DONE: dict[BatchPlan, tuple[bool | type[Exception], ...]] = {
    BatchPlan.WRITE: (True, True, True),
    BatchPlan.SKIP: (False, False, False),
    BatchPlan.REPLACE: (LostTransactions, True, False),
    BatchPlan.ASK: (LostDecision, True, False),
    BatchPlan.REFUSE: (CheckpointBehind, CheckpointBehind, CheckpointBehind),
}


@pytest.mark.parametrize(("last", "order"), PLANS, ids=lambda each: each.name)
def test_a_task_does_what_the_table_says(last, order):
    known, lost = LASTS[last]
    begun = BegunBatch(DriverTransaction(IDS, ProducerId(1, 0), 2, 3, last=known), None, None, lost)
    for on_lost, expected in zip(("fail", "rewrite", "skip"), DONE[PLANS[last, order]], strict=True):
        if isinstance(expected, bool):
            plan = plan_task(begun, "q", BATCH_IDS[order], 0, on_lost)
            assert plan.write is expected
            assert (plan.again is not None) is (PLANS[last, order] is BatchPlan.REPLACE and expected)
            assert plan.gone_without is (PLANS[last, order] is BatchPlan.ASK and on_lost == "skip")
        else:
            with pytest.raises(expected):
                plan_task(begun, "q", BATCH_IDS[order], 0, on_lost)


def test_each_batch_has_a_plan():
    assert PLANS.keys() == {(Last.NOTHING, Order.LATER), *product(set(Last) - {Last.NOTHING}, Order)}


# The rows of the table in `decision_status`: n is 8. What P-marker and P-kept have, and what becomes of batch n.

CRASHES = [
    ("before any batch had rows", None, None, BatchPlan.WRITE, BatchPlan.WRITE),
    ("before `deciding` n is written", 7, (7, "ended"), BatchPlan.WRITE, BatchPlan.WRITE),
    ("before decision n is committed", 7, (8, "deciding"), BatchPlan.WRITE, BatchPlan.ASK),
    ("before the transactions of n have ended", 8, (8, "deciding"), BatchPlan.SKIP, BatchPlan.ASK),
    ("before Spark has noted the batch", 8, (8, "ended"), BatchPlan.SKIP, BatchPlan.SKIP),
    ("later", 7, (7, "ended"), BatchPlan.WRITE, BatchPlan.WRITE),
]


@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize(("died", "marker", "kept", "then", "once_expired"), CRASHES, ids=[row[0] for row in CRASHES])
def test_a_begin_after_a_crash_does_what_the_table_of_crashes_says(died, marker, kept, then, once_expired, expired):
    last = None if marker is None or expired else Decision(marker, "q", marker, 2, ())
    status = None if kept is None else DecisionStatus(kept[0], "q", kept[0], kept[1], ProducerId(1, 0))
    known = last_batch(last, status, None)
    begun = BegunBatch(DriverTransaction(IDS, ProducerId(1, 0), 2, 9, last=known), None, None, ())
    batch_id = 8 if marker is not None else 0
    plan = once_expired if expired else then
    if plan is BatchPlan.ASK:
        with pytest.raises(LostDecision):
            plan_task(begun, "q", batch_id, 0, "fail")
    else:
        assert plan_task(begun, "q", batch_id, 0, "fail").write is (plan is BatchPlan.WRITE)


def test_a_task_that_aborts_too_late_changes_nothing():
    """Its transaction was opened anew by another attempt."""
    life = Life(2).led_to(State.OPEN)
    life.happens(Event.TAKEN)
    with pytest.raises(BrokerError):
        life.cluster.transactions.end("p-0", life.transaction.producer, False, 2)
    life.happens(Event.TASK_FAILED)
    assert life.seen() is State.ABORTED
