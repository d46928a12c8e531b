"""A task that writes exactly once: what it refuses, when it opens its transaction, and what it tells the driver."""

import pyarrow as pa
import pytest
from producers_of_fakes import run_task
from sink_fakes import T0
from test_aborted_tasks import ATOMIC, OWN_TRANSACTIONS, driver
from transaction_fakes import STREAM, FakeContext, FakeTransactionCluster, read_committed, still_open

from kafkasource.errors import OptionError
from kafkasource.exactly_once.driver import begin
from kafkasource.exactly_once.errors import CannotWriteOnce, LostTransactions
from kafkasource.exactly_once.names import WrittenTransaction
from kafkasource.exactly_once.task.plan import TaskPlan
from kafkasource.exactly_once.task.task import ExactlyOnceTask
from kafkasource.types import Written


def batches(*values):
    return iter([pa.record_batch([pa.array(some, pa.binary())], names=["value"]) for some in values])


def started(begun):
    return ExactlyOnceTask.start(OWN_TRANSACTIONS, begun, FakeContext())


def run(cluster, task, rows, upstream=None):
    """As the producer: everything to one partition."""

    def write(values, transaction):
        transaction.enroll([T0])
        producer = transaction.producer
        cluster.produce(transaction.transactional_id, producer, T0, values, transaction.transaction_version)
        return {T0: Written(len(values), 1, 0, len(values) - 1)}

    return run_task(task, rows, cluster, write)


def test_a_task_without_rows_opens_no_transaction():
    cluster = FakeTransactionCluster(2)
    begun = driver(cluster).begin()
    before = list(cluster.calls)
    result, written = run(cluster, started(begun), batches([], []))
    assert (result.transaction, result.partitions, written) == (None, (), {})
    assert cluster.calls == before


# Before Kafka 3.0 nobody can list what an earlier run left open.


@pytest.fixture
def old_cluster(monkeypatch):
    begin._begun.reset()  # this process has begun nothing yet
    cluster = FakeTransactionCluster(1)
    cluster.cannot_list()
    return cluster


def run_all(cluster, batch_id, *rows):
    """A batch with a task for each of these; without rows where they are None. Returns the tasks' results."""
    begun = driver(cluster).begin()
    tasks = [
        ExactlyOnceTask.start(OWN_TRANSACTIONS, begun, FakeContext(n, batch_id=batch_id)) for n in range(len(rows))
    ]
    return [
        run(cluster, task, batches(*[] if some is None else [some]))[0] for task, some in zip(tasks, rows, strict=True)
    ]


def test_tasks_without_rows_cost_nothing_while_one_process_decides_batch_after_batch(old_cluster):
    driver(old_cluster).commit(run_all(old_cluster, 0, [b"a"], None), 0)
    for batch_id in (1, 2):
        before = len(old_cluster.calls)
        driver(old_cluster).commit(run_all(old_cluster, batch_id, [b"a"], None), batch_id)
        assert "init p-1" not in old_cluster.calls[before:]


def test_but_they_end_what_is_left_after_a_batch_that_was_not_decided_or_a_run_elsewhere(old_cluster, monkeypatch):
    driver(old_cluster).commit(run_all(old_cluster, 0, [b"a"], None), 0)
    here = begin._begun.get().get("p")
    assert here is not None
    run_all(old_cluster, 1, [b"b"], [b"c"])  # its abort was interrupted
    driver(old_cluster).commit(run_all(old_cluster, 1, [b"bc"], None), 1)
    assert not still_open(old_cluster.logs[T0])
    run_all(old_cluster, 2, [b"d"], [b"e"])
    begin._begun.get().put("p", here)  # that was another process
    driver(old_cluster).commit(run_all(old_cluster, 2, [b"de"], None), 2)
    assert not still_open(old_cluster.logs[T0])
    assert read_committed(old_cluster.logs[T0]) == [b"a", b"bc", b"de"]


def test_a_batch_that_is_decided_already_is_read_to_its_end_and_not_written():
    cluster = FakeTransactionCluster(2)
    begun = driver(cluster).begin()
    driver(cluster).commit([run(cluster, started(begun), batches([b"a"]))[0]], 0)
    begun = driver(cluster).begin()
    before, rows = list(cluster.calls), batches([b"a"], [b"b"])
    result, _ = run(cluster, started(begun), rows)
    assert result.skipped
    assert list(rows) == []
    assert cluster.calls == before


@pytest.mark.parametrize(
    ("rows", "same"),
    [([[b"a", b"b"]], True), ([[b"a"], [b"b"]], True), ([[b"b", b"a"]], True), ([[b"ab", b""]], False)],
)
def test_rows_written_again_must_be_those_that_were_lost(rows, same):
    cluster = FakeTransactionCluster(2)
    begun = driver(cluster).begin()
    first, _ = run(cluster, started(begun), batches([b"a", b"b"]))
    task = started(begun)
    task.plan = TaskPlan(True, first.transaction)
    if same:
        assert run(cluster, task, batches(*rows))[0].replaces
    else:
        with pytest.raises(LostTransactions, match=r"\(2 now, 2 then, with other contents\).* stay missing"):
            run(cluster, task, batches(*rows))


def test_fewer_rows_than_were_lost_are_refused():
    cluster = FakeTransactionCluster(2)
    task = ExactlyOnceTask.start(OWN_TRANSACTIONS, driver(cluster).begin(), FakeContext())
    task.plan = TaskPlan(True, WrittenTransaction(0, 1, 1, 7, 0))
    with pytest.raises(LostTransactions, match=r"\(0 now, 7 then\)"):
        run(cluster, task, batches())


# Spark's ConfigBuilder reads a boolean as `_.trim.toBoolean`, which takes any case. SparkConf().set(key, True) gives
# Python's "True".
@pytest.mark.parametrize("value", ["true", "True", "TRUE", " true "])
def test_speculation_is_refused_however_spark_is_given_it(value):
    begun = driver(FakeTransactionCluster(2)).begin()
    context = FakeContext()
    context.properties = STREAM | {"spark.speculation": value}
    with pytest.raises(OptionError, match=r"spark\.speculation=true"):
        ExactlyOnceTask.start(OWN_TRANSACTIONS, begun, context)


def test_continuous_mode_is_refused():
    begun = driver(FakeTransactionCluster(2)).begin()
    context = FakeContext()
    context.properties = {"sql.streaming.queryId": "q"}
    with pytest.raises(OptionError, match=r"trigger\(continuous=...\)"):
        ExactlyOnceTask.start(OWN_TRANSACTIONS, begun, context)


def test_a_second_attempt_of_a_task_is_refused_in_one_transaction_and_not_in_transactions():
    begun = driver(FakeTransactionCluster(2)).begin()
    ExactlyOnceTask.start(OWN_TRANSACTIONS, begun, FakeContext(attempt=1))
    with pytest.raises(CannotWriteOnce, match="cannot be run again"):
        ExactlyOnceTask.start(ATOMIC, begun, FakeContext(attempt=1))
    with pytest.raises(CannotWriteOnce, match="no TaskContext"):
        ExactlyOnceTask.start(OWN_TRANSACTIONS, begun, None)


def test_the_tasks_of_a_batch_write_go_by_its_own_id():
    begun = driver(FakeTransactionCluster(2)).begin("w")
    task = ExactlyOnceTask.start(OWN_TRANSACTIONS, begun, FakeContext(3)).task
    assert (task.query_id, task.batch_id, task.slot) == ("w", 0, 3)
