"""Every cell of the table of the driver's batch, by the driver itself on a cluster that answers as brokers do."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import product

import pytest
from test_exactly_once import IDS, Query, T, seen
from transaction_fakes import Crash, FakeTransactionCluster

from kafkasource.errors import DeadlineExceeded
from kafkasource.exactly_once.driver import moves as batch_moves
from kafkasource.exactly_once.driver.moves import move, next_move
from kafkasource.exactly_once.errors import ImpossibleEvent, LostTransactions, NotDecided
from kafkasource.exactly_once.states import BATCH, BatchAction, BatchEvent, BatchState
from kafkasource.exactly_once.task.plan import TaskResult


class Batch:
    """Batch 0 of three tasks, each with rows for two partitions, and what the brokers have of it."""

    def __init__(self, version, **how):
        self.version = version
        self.cluster = FakeTransactionCluster(version)
        self.keep, self.cluster.groups.keep = self.cluster.groups.keep, self.keep_by_name
        self.query = Query(self.cluster, batches=2, **how)
        self.results = []
        self.begun = None
        self.batch_id = 0

    def keep_by_name(self, group, offsets, retention_ms):
        """With the state that is kept in the request's name."""
        number = len(self.cluster.calls)
        self.keep(group, offsets, retention_ms)
        ((_, text), *_) = offsets.values()
        self.cluster.calls[number] += " " + re.search(r"state=(\w+)", text)[1]

    # How it comes where it is.

    def written(self):
        self.begun = self.query.new_driver().begin()
        self.results = [self.query.task(self.begun, 0, slot) for slot in range(3)]

    def failed(self):
        """Task 2 did not report."""
        self.written()
        self.results.pop()

    def crashed(self, before):
        """Its driver died in the commit, before the first request whose name begins so."""
        self.written()
        self.cluster.crash_before = before
        with pytest.raises(Crash):
            self.commit()

    def decided(self):
        self.crashed("end p-1 True")

    def lost(self):
        self.decided()
        self.cluster.time_is_up()

    def rewritten(self):
        """The rows of lost task transactions were written again."""
        self.query.on_lost = "rewrite"
        self.lost()
        self.written()

    def another_begins(self):
        return self.query.new_driver().begin()

    # What Spark calls.

    def begin(self):
        self.begun = self.query.new_driver().begin()

    def commit(self):
        self.query.new_driver().commit(self.results, self.batch_id)

    def abort(self):
        self.query.new_driver().abort(self.results, 0, range(len(self.results), 3), self.begun.driver)


@dataclass(frozen=True)
class Case:
    """`cells`: state and event, in order, then the last state; `sent`: requests; `seen`: whose rows."""

    name: str
    arrive: object
    call: str
    cells: str
    sent: str
    seen: tuple[int, ...] = ()
    raises: type[Exception] | None = None
    atomic: bool = False


def skipping(batch):
    batch.query.on_lost = "skip"


def each(*steps):
    def arrive(batch):
        for step in steps:
            step(batch)

    return arrive


def rewritten_less(batch):
    batch.rewritten()
    batch.results.pop()


def rewritten_and_taken(batch):
    batch.rewritten()
    batch.cluster.transactions.init_producer_id("p-1", 600_000)


def rewritten_without_record(batch):
    batch.rewritten()
    batch.cluster.offsets = {key: row for key, row in batch.cluster.offsets.items() if key[0] != IDS.marker_group}


def rewritten_overlapping(batch):
    """With atomicBatch, which the query was given after the loss."""
    batch.query.on_lost = "rewrite"
    batch.lost()
    batch.query.atomic = True
    batch.written()
    batch.results = [replace(result, partitions=(T[0],)) for result in batch.results]


def failed_while_skipping(batch):
    """An earlier run has decided the batch."""
    batch.decided()
    batch.failed()


def without_rows(first=True, gone_without=False, tasks=1):
    def arrive(batch):
        if not first:
            batch.written()
            batch.commit()
            batch.batch_id = 1
        batch.begin()
        batch.results = [TaskResult(batch.begun.driver, "q", skipped=gone_without, gone_without=gone_without)] * tasks

    return arrive


def taken(name):
    return lambda batch: batch.cluster.transactions.init_producer_id(name, 600_000)


def next_call(part, name, instead):
    """The next call of this name is `instead`, which is given the real one first."""
    real = getattr(part, name)

    def once(*args):
        setattr(part, name, real)
        return instead(real, *args)

    setattr(part, name, once)


def another_takes_the_driver(batch):
    taken(IDS.driver)(batch)
    batch.cluster.calls.pop()


def fenced_before_the_decision_is_sent(batch):
    """Another run begins while this one writes to P-kept."""

    def and_another_begins(keep, *args):
        keep(*args)
        another_takes_the_driver(batch)

    next_call(batch.cluster.groups, "keep", and_another_begins)


def lost_after_the_decision(batch):
    """The brokers are late with the answer to the decision, and the time of the task transactions is up."""

    def and_time_is_up(end, *args):
        answer = end(*args)
        batch.cluster.time_is_up()
        return answer

    next_call(batch.cluster.transactions, "end", and_time_is_up)


def overlap(batch):
    batch.written()
    batch.results[1] = TaskResult(batch.results[1].driver, "q", partitions=(T[0], T[1]))


def no_answer(batch):
    """The decision is made, and its answer is lost."""

    def and_the_answer_is_lost(end, *args):
        end(*args)
        raise DeadlineExceeded("no answer")

    next_call(batch.cluster.transactions, "end", and_the_answer_is_lost)


def refused(batch):
    """Another run begins while the decision is on its way."""

    def too_late(end, *args):
        another_takes_the_driver(batch)
        return end(*args)

    next_call(batch.cluster.transactions, "end", too_late)


W, F = Batch.written, Batch.failed
DECIDES = "RETURNED-WROTE WRITTEN-ALL_OPEN OPEN-KEPT ANNOUNCED-SENT"
DECIDED = f"{DECIDES} OFFERED-ANSWERED"
CHECKS = "describe; keep deciding; offsets p-driver; end p-driver True"
TASKS = "end p-0 True; end p-1 True; end p-2 True"
LOOKS = "fetch committed; init p-driver; transaction_version; fetch committed; list"
LOOKS_FIRST = f"fetch committed; {LOOKS}"  # batch writes keep nothing: their record is read before another is fenced
ASKS = "fetch committed; describe; init p-driver; transaction_version; fetch committed; fetch committed; list"
CLOSES = "end p-driver False; fetch committed; fetch committed"
REWRITES = "describe; fetch committed; end p-0 True; end p-1 True; end p-2 True"
ALL = (0, 1, 2)

CASES = [
    # begin
    Case("nothing is known", lambda batch: None, "begin",
         "LEFT-BEGIN LEFT-NO_RECORD UNRECORDED-ABORTED UNRECORDED", LOOKS_FIRST),
    Case("a crash before the decision", W, "begin",
         "LEFT-BEGIN LEFT-NO_RECORD UNRECORDED-ABORTED UNRECORDED",
         f"{LOOKS_FIRST}; list; init p-0; init p-1; init p-2"),
    Case("a crash after the decision", Batch.decided, "begin",
         "LEFT-BEGIN LEFT-RECORD DECIDED-ALL_COMMITTED COMMITTED-KEPT ENDED",
         f"{ASKS}; {TASKS}; list; fetch committed; keep ended", ALL),
    Case("the batch before was written whole", each(W, Batch.commit), "begin",
         "LEFT-BEGIN LEFT-ENDED_BEFORE ENDED-ABORTED ENDED", LOOKS, ALL),
    Case("its transactions are lost", Batch.lost, "begin",
         "LEFT-BEGIN LEFT-RECORD DECIDED-LOST_BEFORE LOST", f"{ASKS}; {TASKS}", (0,)),
    # commit
    Case("all goes well", W, "commit", f"{DECIDED} DECIDED-ALL_COMMITTED COMMITTED-KEPT ENDED",
         f"{CHECKS}; {TASKS}; keep ended", ALL),
    Case("one transaction for all", W, "commit", f"{DECIDED} DECIDED-ALL_COMMITTED COMMITTED-KEPT ENDED",
         f"{CHECKS}; keep ended", ALL, atomic=True),
    Case("a task transaction is gone", each(W, taken("p-1")), "commit", "RETURNED-WROTE WRITTEN-NOT_OPEN UNDECIDED",
         "describe", raises=NotDecided),
    Case("another driver is there", each(W, taken("p-driver")), "commit", "RETURNED-WROTE WRITTEN-NOT_OPEN UNDECIDED",
         "describe", raises=NotDecided),
    Case("tasks share a partition", overlap, "commit", "RETURNED-WROTE WRITTEN-SHARED UNDECIDED-OWN_ENDED UNDECIDED",
         "end p-driver False", raises=NotDecided, atomic=True),
    Case("tasks share a partition, and another driver is there", each(overlap, taken("p-driver")), "commit",
         "RETURNED-WROTE WRITTEN-SHARED UNDECIDED-FENCED UNDECIDED", "end p-driver False",
         raises=NotDecided, atomic=True),
    Case("another driver comes", each(W, fenced_before_the_decision_is_sent), "commit",
         "RETURNED-WROTE WRITTEN-ALL_OPEN OPEN-KEPT ANNOUNCED-FENCED UNDECIDED",
         "describe; keep deciding; offsets p-driver", raises=NotDecided),
    Case("the decision's answer is lost", each(W, no_answer), "commit",
         f"{DECIDES} OFFERED-UNANSWERED UNSURE-RECORD DECIDED-ALL_COMMITTED COMMITTED-KEPT ENDED",
         f"{CHECKS}; fetch committed; fetch committed; {TASKS}; keep ended", ALL),
    Case("the decision is refused", each(W, refused), "commit",
         f"{DECIDES} OFFERED-UNANSWERED UNSURE-NO_RECORD UNDECIDED", f"{CHECKS}; fetch committed; fetch committed",
         raises=NotDecided),
    Case("task transactions are lost", each(W, lost_after_the_decision), "commit", f"{DECIDED} DECIDED-SOME_LOST LOST",
         f"{CHECKS}; {TASKS}", raises=LostTransactions),
    Case("task transactions are lost, and skipped", each(W, lost_after_the_decision, skipping), "commit",
         f"{DECIDED} DECIDED-SOME_LOST LOST-TOLD LOST", f"{CHECKS}; {TASKS}"),
    Case("lost rows are written again", Batch.rewritten, "commit",
         "RETURNED-WROTE_LOST REPLACING-ALL_OPEN REPLACING-MERGED OPEN-KEPT ANNOUNCED-SENT OFFERED-ANSWERED "
         "DECIDED-ALL_COMMITTED COMMITTED-KEPT ENDED",
         f"{REWRITES}; keep deciding; offsets p-driver; end p-driver True; end p-1 True; end p-2 True; "
         "keep ended", ALL),
    Case("not all lost rows are written again", rewritten_less, "commit",
         "RETURNED-WROTE_LOST REPLACING-ALL_OPEN REPLACING-SOME_LOST LOST", REWRITES, (0,), LostTransactions),
    Case("lost rows are written again, and gone again", rewritten_and_taken, "commit",
         "RETURNED-WROTE_LOST REPLACING-NOT_OPEN UNDECIDED", "describe", (0,), NotDecided),
    Case("lost rows are written again, and the decision is gone", rewritten_without_record, "commit",
         "RETURNED-WROTE_LOST REPLACING-ALL_OPEN REPLACING-NO_RECORD UNDECIDED", "describe; fetch committed", (0,),
         NotDecided),
    Case("lost rows are written again by tasks that share a partition", rewritten_overlapping, "commit",
         "RETURNED-WROTE_LOST REPLACING-SHARED UNDECIDED-OWN_ENDED UNDECIDED", "end p-driver False", (0,), NotDecided),
    # commit without rows
    Case("no rows", without_rows(first=False), "commit", "RETURNED-NO_ROWS WITHOUT_ROWS", "", ALL),
    Case("no tasks", without_rows(tasks=0), "commit", "RETURNED-NO_ROWS WITHOUT_ROWS",
         "fetch committed; fetch committed"),
    Case("gone without", without_rows(gone_without=True), "commit", "RETURNED-GONE_WITHOUT WITHOUT_ROWS-KEPT "
         "WITHOUT_ROWS", "keep ended"),
    # abort
    Case("a task failed", F, "abort",
         "FAILED-ABORT FAILED-OWN_ENDED CLOSED-NO_RECORD UNDECIDED-ABORTED ABORTED",
         f"{CLOSES}; end p-0 False; end p-1 False; init p-driver; describe; init p-2"),
    Case("a task failed, and another run began", each(F, Batch.another_begins), "abort",
         "FAILED-ABORT FAILED-FENCED TAKEN_OVER-NO_RECORD UNDECIDED-ABORTED ABORTED",
         f"{CLOSES}; end p-0 False; end p-1 False"),
    Case("commit failed after it had decided", Batch.decided, "abort",
         "FAILED-ABORT FAILED-OWN_ENDED CLOSED-RECORD CLOSED-ALL_COMMITTED COMMITTED-ABORTED COMMITTED",
         f"{CLOSES}; {TASKS}", ALL),
    Case("the same, and its transactions are lost", Batch.lost, "abort",
         "FAILED-ABORT FAILED-OWN_ENDED CLOSED-RECORD CLOSED-SOME_LOST LOST-ABORTED LOST",
         f"{CLOSES}; {TASKS}", (0,), LostTransactions),
    Case("the same, and they are skipped", each(Batch.lost, skipping), "abort",
         "FAILED-ABORT FAILED-OWN_ENDED CLOSED-RECORD CLOSED-SOME_LOST LOST-ABORTED LOST-TOLD LOST",
         f"{CLOSES}; {TASKS}", (0,)),
    Case("a task failed while lost rows were written again", rewritten_less, "abort",
         "FAILED-ABORT FAILED-OWN_ENDED CLOSED-RECORD CLOSED-SOME_LOST LOST-ABORTED LOST",
         f"{CLOSES}; {TASKS}; end p-1 False; init p-driver; describe; init p-2", (0,), LostTransactions),
    Case("the same, and another run began", each(rewritten_less, Batch.another_begins), "abort",
         "FAILED-ABORT FAILED-FENCED TAKEN_OVER-RECORD TAKEN_OVER-SOME_LOST LOST-ABORTED LOST",
         f"{CLOSES}; {TASKS}; end p-1 False", (0,), LostTransactions),
    Case("a task failed that was to skip the batch, which was decided", failed_while_skipping, "abort",
         "FAILED-ABORT FAILED-OWN_ENDED CLOSED-RECORD CLOSED-ALL_COMMITTED COMMITTED-ABORTED COMMITTED",
         f"end p-driver False; fetch committed; {TASKS}; init p-driver; describe", ALL),
    Case("a task that was to skip failed, and another run began",
         each(failed_while_skipping, Batch.another_begins), "abort",
         "FAILED-ABORT FAILED-FENCED TAKEN_OVER-RECORD TAKEN_OVER-ALL_COMMITTED COMMITTED-ABORTED COMMITTED",
         f"end p-driver False; fetch committed; {TASKS}", ALL),
]  # fmt: skip


def cell(text):
    state, event = text.split("-")
    return BatchState[state], BatchEvent[event]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.call}: {case.name}")
def test_a_batch_goes_as_the_table_says(version, case, monkeypatch):
    batch = Batch(version, atomic=case.atomic)
    case.arrive(batch)
    before, gone_through = len(batch.cluster.calls), []

    def watched(state, event):
        moved_to, action = next_move(state, event)
        gone_through[-1:] = [(state, event), moved_to]
        return moved_to, action

    monkeypatch.setattr(batch_moves, "next_move", watched)
    if case.raises is None:
        getattr(batch, case.call)()
    else:
        with pytest.raises(case.raises):
            getattr(batch, case.call)()
    *cells, last = case.cells.split()
    assert gone_through == [*map(cell, cells), BatchState[last]]
    sent = [name.removeprefix("add ") for name in batch.cluster.calls[before:]]
    if sent.count("offsets p-driver") == 2:  # in dialect 1 the group is added first
        sent.remove("offsets p-driver")
    assert sent == [name for name in case.sent.split("; ") if name]
    batch.query.atomic = case.atomic
    rows = [row for slot in case.seen for some in batch.query.rows_of(0, slot).values() for row in some]
    assert seen(batch.cluster) == Counter(rows)


def test_every_cell_of_the_table_has_a_test():
    assert {cell(text) for case in CASES for text in case.cells.split()[:-1]} == BATCH.keys()


def test_every_state_event_and_action_is_in_the_table():
    assert {state for state, _ in BATCH} | {state for state, _ in BATCH.values()} == set(BatchState)
    assert {event for _, event in BATCH} == set(BatchEvent)
    assert {action for _, action in BATCH.values()} - {None} == set(BatchAction)


def test_nothing_but_a_decision_makes_a_batch_decided():
    """A batch's task transactions are committed where the record is there, and nowhere else."""
    shows_the_record = {BatchEvent.RECORD, BatchEvent.ANSWERED}
    commits = {BatchAction.COMMIT_TASKS, BatchAction.RECOVER}
    for (_, event), (_, action) in BATCH.items():
        assert (action in commits) is (event in shows_the_record)


def test_what_is_not_in_the_table_is_an_error_that_says_so_and_does_nothing():
    for state, event in set(product(BatchState, BatchEvent)) - BATCH.keys():
        with pytest.raises(ImpossibleEvent, match=f"internal error.* {event.name} cannot happen .* {state.name}"):
            move("batch 7", state, event, {})
