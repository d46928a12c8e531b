"""The failure table of exactly once, call by call. Read from the logs of the cluster without the sink's code."""

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from transaction_fakes import Crash, FakeTransactionCluster, read_committed, still_open

from kafkasource.errors import DeadlineExceeded
from kafkasource.exactly_once.driver.commit import BatchCommit
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.errors import CheckpointBehind, LostTransactions, NotDecided
from kafkasource.exactly_once.names import TransactionalIds, WrittenTransaction
from kafkasource.exactly_once.task.content import ContentSum
from kafkasource.exactly_once.task.plan import TaskResult, plan_task
from kafkasource.exactly_once.task.transactions import Recovered, TaskTransactions
from kafkasource.kafka.records.builder import RecordColumns
from kafkasource.types import TopicPartition

T = [TopicPartition("t", number) for number in range(3)]
IDS = TransactionalIds("p")
ANY_DIALECT = pytest.mark.parametrize("version", [1, 2])


def content_of(rows):
    """What a task says of its rows, which are given by topic-partition."""
    found = ContentSum()
    for tp, some in rows.items():
        found.add(tp.topic, RecordColumns(None, pa.array([row.encode() for row in some], pa.binary())))
    return {"rows": found.rows, "content": found.content, "topics": found.topics}


class Query:
    """Three batches of three tasks; in the second one task has no rows. With `atomic` a partition has one task."""

    ids = IDS

    def __init__(self, cluster, *, atomic=False, on_lost="fail", query_id="q", batches=3):
        self.cluster, self.atomic, self.on_lost, self.query_id = cluster, atomic, on_lost, query_id
        self.batches = range(batches)
        self.done = set()  # Spark's checkpoint
        self.attempt = 0

    def new_driver(self):
        """A process's own: nothing is kept from one to the next."""
        return ExactlyOnce(self.cluster, IDS, timeout_ms=600_000, atomic=self.atomic, on_lost=self.on_lost)

    def rows_of(self, batch_id, slot):
        if (batch_id, slot) == (1, 2):
            return {}
        to = [slot] if self.atomic else [slot, (slot + 1) % 3]
        return {T[number]: [f"{self.query_id} {batch_id}/{slot}/{number}/{row}" for row in range(2)] for number in to}

    def expected(self, batches=None):
        batches = self.batches if batches is None else batches
        return Counter(row for b in batches for s in range(3) for rows in self.rows_of(b, s).values() for row in rows)

    def task(self, begun, batch_id, slot):
        plan = plan_task(begun, self.query_id, batch_id, slot, self.on_lost)
        rows = self.rows_of(batch_id, slot)
        given = content_of(rows)
        if not plan.write:
            return TaskResult(begun.driver, self.query_id, skipped=True, gone_without=plan.gone_without, **given)
        if not rows:
            return TaskResult(begun.driver, self.query_id)
        decider, cluster = begun.driver, self.cluster
        name = self.ids.driver if self.atomic else self.ids.task(slot)
        producer = decider.producer if self.atomic else cluster.transactions.init_producer_id(name, 600_000)
        if decider.transaction_version == 1:
            cluster.transactions.add_partitions(name, producer, rows)
        for tp, some in rows.items():
            cluster.produce(name, producer, tp, some, decider.transaction_version)
        transaction = WrittenTransaction(slot, *producer, given["rows"], given["content"])  # type: ignore[call-arg]
        written = None if self.atomic else transaction
        return TaskResult(decider, self.query_id, False, written, plan.again is not None, tuple(rows), **given)

    def write(self, batch_id):
        """The tasks of a batch: what the driver gets."""
        begun = self.new_driver().begin()
        return [self.task(begun, batch_id, slot) for slot in range(3)]

    def run_batch(self, batch_id):
        results, begun = [], None
        try:
            begun = self.new_driver().begin()
            for slot in range(3):
                results.append(self.task(begun, batch_id, slot))
            self.new_driver().commit(results, batch_id)
        except Crash:
            raise
        except Exception:
            self.new_driver().abort(results, batch_id, range(len(results), 3), begun and begun.driver)
            raise
        self.done.add(batch_id)

    def run(self):
        for batch_id in self.batches:
            if batch_id not in self.done:
                self.run_batch(batch_id)

    def run_to_the_end(self, restarts=5):
        """Started again after each crash or error."""
        for _ in range(restarts):
            try:
                return self.run()
            except (Crash, DeadlineExceeded, NotDecided):
                continue
        raise AssertionError(f"not done after {restarts} starts")


def seen(cluster):
    return Counter(row for log in cluster.logs.values() for row in read_committed(log))


def check(cluster, expected):
    assert seen(cluster) == expected
    assert not any(still_open(log) for log in cluster.logs.values())


def calls_of_a_run(version, atomic):
    cluster = FakeTransactionCluster(version)
    query = Query(cluster, atomic=atomic)
    query.run()
    check(cluster, query.expected())
    return len(cluster.calls)


def run_with(version, atomic, crashes=None, errors=None):
    cluster = FakeTransactionCluster(version)
    cluster.crash_at, cluster.raise_at = crashes or {}, errors or {}
    query = Query(cluster, atomic=atomic)
    query.run_to_the_end()
    return cluster, query


EVERYWHERE = pytest.mark.parametrize("moment", ["before", "after"])
BOTH_WAYS = pytest.mark.parametrize("atomic", [False, True], ids=["transactions", "atomic"])


@ANY_DIALECT
@BOTH_WAYS
@EVERYWHERE
def test_a_crash_at_any_call_loses_and_doubles_nothing(version, atomic, moment):
    calls = calls_of_a_run(version, atomic)
    assert calls > 20
    for number in range(calls):
        cluster, query = run_with(version, atomic, {number: moment})
        check(cluster, query.expected())


@pytest.mark.slow
@pytest.mark.parametrize("version", [pytest.param(1, marks=pytest.mark.extended), 2])
@BOTH_WAYS
def test_nor_does_a_second_crash_while_the_first_is_made_good(version, atomic):
    for number in range(calls_of_a_run(version, atomic)):
        for later in range(1, 30):
            cluster, query = run_with(version, atomic, {number: "after", number + later: "before"})
            check(cluster, query.expected())


@ANY_DIALECT
@BOTH_WAYS
@EVERYWHERE
def test_an_error_at_any_call_after_which_spark_aborts_loses_and_doubles_nothing(version, atomic, moment):
    for number in range(calls_of_a_run(version, atomic)):
        cluster, query = run_with(version, atomic, errors={number: (moment, DeadlineExceeded("no answer"))})
        check(cluster, query.expected())


@ANY_DIALECT
@EVERYWHERE
def test_the_checks_would_see_a_driver_that_does_not_recover(version, moment, monkeypatch):
    monkeypatch.setattr(TaskTransactions, "recover", lambda *_: Recovered())
    wrong = 0
    for number in range(calls_of_a_run(version, False)):
        cluster, query = run_with(version, False, {number: moment})
        wrong += seen(cluster) != query.expected()
    assert wrong > 3


@ANY_DIALECT
def test_the_checks_would_see_a_driver_that_ends_transactions_before_it_decides(version, monkeypatch):
    send_decision = BatchCommit._send_decision

    def hasty(commit):
        commit._prefix.tasks.commit(commit._decision, commit._decision.transactions)
        return send_decision(commit)

    monkeypatch.setattr(BatchCommit, "_send_decision", hasty)
    wrong = 0
    for number in range(calls_of_a_run(version, False)):
        cluster, query = run_with(version, False, {number: "after"})
        wrong += seen(cluster) != query.expected()
    assert wrong > 3


# The failure table, row by row, where a row is more than a crash.


@ANY_DIALECT
def test_a_task_that_is_run_again_leaves_nothing_of_its_first_attempt(version):
    cluster = FakeTransactionCluster(version)
    query = Query(cluster, batches=1)
    begun = query.new_driver().begin()
    query.task(begun, 0, 0)  # all of it, but the message was lost
    query.new_driver().commit([query.task(begun, 0, slot) for slot in range(3)], 0)
    check(cluster, query.expected())


def decided_then_lost(version, on_lost):
    """Crashed after the decision with one of three transactions committed, and away for too long."""
    cluster = FakeTransactionCluster(version)
    query = Query(cluster, batches=2, on_lost=on_lost)
    results = query.write(0)
    cluster.crash_before = "end p-1 True"
    with pytest.raises(Crash):
        query.new_driver().commit(results, 0)
    cluster.time_is_up()
    assert sum(seen(cluster).values()) == 4  # one task's rows
    return cluster, query


@ANY_DIALECT
def test_lost_transactions_stop_the_query_at_each_start_until_the_user_wants_them_written_again(version):
    cluster, query = decided_then_lost(version, "fail")
    for _ in range(3):
        with pytest.raises(LostTransactions, match=r"batch 0 was decided.*tasks \[1, 2\] \(8 rows\)"):
            query.run()
    assert sum(seen(cluster).values()) == 4
    query.on_lost = "rewrite"
    query.run()
    check(cluster, query.expected())


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (1, 2), (2, 1)])
@EVERYWHERE
def test_a_crash_while_lost_transactions_are_written_again_loses_and_doubles_nothing(before, after, moment):
    """The transactions that were committed in the old dialect are not ended in the new one."""

    def lost():
        cluster, query = decided_then_lost(before, "rewrite")
        cluster.version = after
        return cluster, query

    cluster, query = lost()
    first = len(cluster.calls)
    query.run()
    check(cluster, query.expected())
    for number in range(first, len(cluster.calls)):
        cluster, query = lost()
        cluster.crash_at = {number: moment}
        query.run_to_the_end()
        check(cluster, query.expected())


@ANY_DIALECT
@pytest.mark.parametrize(("came", "missing"), [((0, 1), r"\[2\]"), ((0,), r"\[1, 2\]")])
@pytest.mark.parametrize("atomic", [False, True], ids=["as before", "atomicBatch from now on"])
def test_lost_transactions_that_not_all_tasks_came_to_write_again_stop_the_query(version, atomic, came, missing):
    cluster, query = decided_then_lost(version, "rewrite")
    query.atomic = atomic
    begun = query.new_driver().begin()
    lost = {each.slot: each for each in begun.lost}
    results = [query.task(begun, 0, slot) for slot in came]
    if atomic:  # a claim names the slot
        results = [replace(each, transaction=lost.get(slot)) for slot, each in zip(came, results, strict=True)]
    with pytest.raises(LostTransactions, match=rf"tasks {missing}"):
        query.new_driver().commit(results, 0)
    assert sum(seen(cluster).values()) == 4


@ANY_DIALECT
def test_lost_transactions_are_gone_without_if_the_user_wants_it(version):
    cluster, query = decided_then_lost(version, "skip")
    query.run()
    assert seen(cluster) == query.expected([1]) + Counter(row for rows in query.rows_of(0, 0).values() for row in rows)


@ANY_DIALECT
@BOTH_WAYS
def test_an_older_driver_that_still_lives_decides_nothing(version, atomic):
    cluster = FakeTransactionCluster(version)
    old, new = Query(cluster, atomic=atomic, batches=1), Query(cluster, atomic=atomic, batches=1)
    begun = old.new_driver().begin()
    late = [old.task(begun, 0, slot) for slot in range(3)]
    started = new.new_driver().begin()
    with pytest.raises(NotDecided, match=r"prefix 'p'|fenced it"):
        old.new_driver().commit(late, 0)
    old.new_driver().abort(late, 0)
    assert not cluster.offsets  # nor does it keep anything
    new.new_driver().commit([new.task(started, 0, slot) for slot in range(3)], 0)
    check(cluster, new.expected())


@ANY_DIALECT
def test_an_older_drivers_abort_keeps_what_the_newer_decided(version):
    cluster = FakeTransactionCluster(version)
    old, new = Query(cluster, batches=1), Query(cluster, batches=1)
    late = old.write(0)
    new.run()
    old.new_driver().abort(late, 0)
    check(cluster, new.expected())


def test_an_older_copy_of_the_checkpoint_is_refused():
    cluster = FakeTransactionCluster(2)
    query = Query(cluster)
    query.run()
    query.done = {0}
    with pytest.raises(CheckpointBehind, match=r"batch 1 is to be written, but batch 2 of this query"):
        query.run()


TOOK_LONGER = r"not open any more.*: the batch took longer than .kafka\.transaction\.t"
GONE = [
    pytest.param(False, FakeTransactionCluster.time_is_up, TOOK_LONGER, id="its time is up"),
    pytest.param(True, FakeTransactionCluster.time_is_up, TOOK_LONGER, id="its time is up, atomic"),
    pytest.param(False, lambda c: c.transactions.init_producer_id("p-1", 1), "'p-1' .* not open any more", id="taken"),
]


@ANY_DIALECT
@pytest.mark.parametrize(("atomic", "goes", "says"), GONE)
def test_a_transaction_that_is_gone_before_the_decision_keeps_it_from_being_made(version, atomic, goes, says):
    """Taken: by a speculative attempt, or by one of an executor believed dead."""
    cluster = FakeTransactionCluster(version)
    query = Query(cluster, atomic=atomic, batches=1)
    results = query.write(0)
    goes(cluster)
    with pytest.raises(NotDecided, match=says):
        query.new_driver().commit(results, 0)
    query.new_driver().abort(results, 0)
    assert not seen(cluster)
    query.run()
    check(cluster, query.expected())


@ANY_DIALECT
def test_a_partition_written_by_two_tasks_of_one_transaction_is_refused(version):
    cluster = FakeTransactionCluster(version)
    query = Query(cluster, atomic=True, batches=1)
    results = query.write(0)
    both = [results[0], TaskResult(results[1].driver, "q", partitions=(T[0], T[1])), results[2]]
    with pytest.raises(NotDecided, match=r"written by one task; 1 were written by several, such as t-0"):
        query.new_driver().commit(both, 0)
    assert not seen(cluster)


def test_transactions_are_committed_in_the_dialect_of_their_decision():
    cluster = FakeTransactionCluster(1)
    query = Query(cluster)
    results = query.write(0)
    cluster.crash_before = "end p-1 True"
    with pytest.raises(Crash):
        query.new_driver().commit(results, 0)
    cluster.version = 2  # upgraded meanwhile
    query.run()
    check(cluster, query.expected())


@ANY_DIALECT
def test_where_transactions_cannot_be_listed_or_described_the_guarantee_stands(version):
    calls = calls_of_a_run(version, False)
    for number in range(calls):
        cluster = FakeTransactionCluster(version)
        cluster.cannot_list()
        cluster.crash_at = {number: "before"}
        query = Query(cluster)
        query.run_to_the_end()
        assert seen(cluster) == query.expected()


def test_nothing_is_decided_where_nothing_was_written():
    cluster = FakeTransactionCluster(2)
    Query(cluster).run_batch(0)
    begun = Query(cluster).new_driver().begin()
    before = list(cluster.calls)
    Query(cluster).new_driver().commit([TaskResult(begun.driver, "q"), TaskResult(begun.driver, "q", skipped=True)], 1)
    Query(cluster).new_driver().abort([], 0)
    assert cluster.calls == before


def test_another_prefixs_transactions_are_left_alone():
    cluster = FakeTransactionCluster(2)
    other = cluster.transactions.init_producer_id("p-b-0", 1)
    cluster.produce("p-b-0", other, T[0], ["theirs"], 2)
    Query(cluster).run()
    assert cluster.by_id["p-b-0"].open


def test_messages_of_two_begins_are_not_mixed():
    cluster = FakeTransactionCluster(2)
    query = Query(cluster)
    one, two = query.write(0), query.write(0)
    with pytest.raises(NotDecided, match="2 different things"):
        query.new_driver().commit([one[0], *two[1:]], 0)
