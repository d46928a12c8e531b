"""Every cell of the tables of exactly once but the batch's, which test_batch_states.py goes through."""

from itertools import product

import pytest

from kafkasource.exactly_once.decision import Decision
from kafkasource.exactly_once.decision_status import DecisionStatus, LastBatch, last_batch
from kafkasource.exactly_once.driver_transaction import DriverTransaction
from kafkasource.exactly_once.errors import CheckpointBehind, LostDecision, LostTransactions
from kafkasource.exactly_once.names import TransactionalIds, WrittenTransaction
from kafkasource.exactly_once.states import (
    FOUND,
    PLANS,
    BatchPlan,
    Found,
    Last,
    LastRecord,
    Order,
    Status,
)
from kafkasource.exactly_once.task.plan import BegunBatch, plan_task
from kafkasource.types import ProducerId

IDS = TransactionalIds("p")

# What begin finds.

RECORDS = {LastRecord.NONE: None, LastRecord.OLDER: 7, LastRecord.NEWEST: 8}
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
    assert set(product(LastRecord, Status)) - FOUND.keys() == {(LastRecord.OLDER, Status.NONE)}


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
