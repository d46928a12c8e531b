"""A batch that failed or was cancelled leaves no transaction open, and takes none from a newer run or attempt.

What Spark 4.2 calls then, as seen with a sink that logged each call: where a task raises, where its worker is killed
and where the query is stopped in the middle, the driver's `abort` comes within milliseconds, on a new writer, with None
for each task that did not report. A worker that is cancelled goes on for two to four seconds before it is killed, and
may even return from `write`. tests/spark/test_stopped_queries.py looks again.
"""

import json
import threading

import pyarrow as pa
import pytest
from fake_broker import SILENCE, FakeKafka, FakeNet
from producers_of_fakes import Spark, run_task
from sink_fakes import T0, FakeTransactions, Rig
from transaction_fakes import FakeContext, FakeTransactionCluster, but_first, read_committed

from kafkasource.errors import ConnectionLost, KafkaSourceError
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.errors import CannotWriteOnce
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.exactly_once.query_identity import IdentitySource
from kafkasource.exactly_once.task.plan import TaskResult
from kafkasource.exactly_once.task.task import ExactlyOnceTask, Guarantee
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.protocol.apis import END_TXN
from kafkasource.types import TopicPartition, Written

IDS = TransactionalIds("p")
OWN_TRANSACTIONS = Guarantee(IdentitySource("p"), 600_000, False, "fail")
ATOMIC = Guarantee(IdentitySource("p"), 600_000, True, "fail")
ANY_DIALECT = pytest.mark.parametrize("version", [1, 2])
BOTH_WAYS = pytest.mark.parametrize("guarantee", [OWN_TRANSACTIONS, ATOMIC], ids=["transactions", "atomic"])


class Boom(Exception):
    pass


def driver(cluster, guarantee=OWN_TRANSACTIONS):
    return ExactlyOnce(cluster, IDS, timeout_ms=600_000, atomic=guarantee.atomic)


def rows(*values):
    return iter([pa.record_batch([pa.array(values, pa.binary())], names=["value"])])


def run(cluster, begun, slot=0, guarantee=OWN_TRANSACTIONS, after_open=lambda: None, after_rows=lambda: None):
    """A task that writes one row to the partition of its slot."""
    tp = TopicPartition("t", slot)

    def write(values, transaction):
        after_open()
        transaction.enroll([tp])
        cluster.produce(transaction.transactional_id, transaction.producer, tp, values, transaction.transaction_version)
        after_rows()
        return {tp: Written(len(values), 1, 0, len(values) - 1)}

    task = ExactlyOnceTask.start(guarantee, begun, FakeContext(slot))
    return run_task(task, rows(b"row"), cluster, write)[0]


def fails():
    raise Boom


def open_names(cluster):
    return [name for name, known in cluster.by_id.items() if known.open]


# The task's side.


@ANY_DIALECT
@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_task_that_fails_or_is_cancelled_aborts_its_transaction_before_its_error_goes_up(version, error):
    def ends():
        raise error

    cluster = FakeTransactionCluster(version)
    with pytest.raises(error):
        run(cluster, driver(cluster).begin(), after_rows=ends)
    assert open_names(cluster) == []
    assert cluster.by_id["p-0"].state == "CompleteAbort"


@ANY_DIALECT
def test_an_attempt_that_fails_late_leaves_the_next_attempts_transaction_alone(version):
    """The epoch protects it: the abort names the epoch of the attempt that failed."""
    cluster = FakeTransactionCluster(version)
    begun = driver(cluster).begin()
    results = []

    def next_attempt_runs_and_then_this_one_fails():
        results.append(run(cluster, begun))
        raise Boom

    with pytest.raises(Boom):
        run(cluster, begun, after_rows=next_attempt_runs_and_then_this_one_fails)
    assert open_names(cluster) == ["p-0"]
    driver(cluster).commit(results, 0)
    assert read_committed(cluster.logs[T0]) == [b"row"]


@ANY_DIALECT
def test_with_atomic_batch_a_task_that_fails_keeps_its_claim(version):
    """It tells an attempt that Spark numbers like the first that the first has begun to write."""
    cluster = FakeTransactionCluster(version)
    begun = driver(cluster, ATOMIC).begin()
    with pytest.raises(Boom):
        run(cluster, begun, guarantee=ATOMIC, after_rows=fails)
    with pytest.raises(CannotWriteOnce, match="another attempt of task 0"):
        run(cluster, begun, guarantee=ATOMIC)


@pytest.mark.parametrize("unanswered", [False, True])
def test_in_dialect_1_a_transaction_with_a_request_that_may_yet_arrive_is_left_to_who_fences_it(unanswered):
    """EndTxn would leave the epoch as it is, and the late batch would begin a transaction that nobody ends."""
    cluster = FakeTransactionCluster(1)
    begun = driver(cluster).begin()
    task = ExactlyOnceTask.start(OWN_TRANSACTIONS, begun, FakeContext())
    transaction = task.open_transaction(cluster)
    transaction.enroll([T0])
    cluster.produce("p-0", transaction.producer, T0, [b"row"], 1)
    transaction.unanswered = unanswered
    task.abort(cluster)
    assert open_names(cluster) == (["p-0"] if unanswered else [])


def test_a_task_that_fails_waits_until_nothing_of_it_is_on_the_wire():
    rig = Rig()
    transaction = TaskTransaction.open(FakeTransactions(), "p-0", 600_000, 1)
    delivery, sent = rig.send(count=3, transaction=transaction)
    rig.append(delivery, count=3)
    delivery.fail(Boom())
    rig.sender.end(delivery)
    rig.turn()
    assert not transaction.left.is_set()
    rig.answer(sent)
    assert transaction.left.is_set()
    assert not transaction.unanswered
    assert len(rig.client.sent) == 1


def test_a_task_that_fails_with_all_acknowledged_does_not_wait_for_the_senders_next_turn():
    """There is nothing that would end its poll."""
    rig = Rig()
    transaction = TaskTransaction.open(FakeTransactions(), "p-0", 600_000, 1)
    delivery, sent = rig.send(transaction=transaction)
    rig.answer(sent)
    delivery.fail(Boom())
    rig.sender.end(delivery)
    left_before_poll = []
    rig.client.poll = lambda timeout_ms: left_before_poll.append(transaction.left.is_set())
    rig.sender.run_once()
    assert left_before_poll == [True]


def test_a_request_whose_answer_was_lost_is_remembered_by_its_transaction():
    rig = Rig()
    transaction = TaskTransaction.open(FakeTransactions(), "p-0", 600_000, 1)
    delivery, sent = rig.send(transaction=transaction)
    sent.fail(ConnectionLost("gone"))
    delivery.fail(Boom())
    rig.sender.end(delivery)
    rig.turn()
    assert transaction.left.is_set()
    assert transaction.unanswered


# The driver's side.


@ANY_DIALECT
@BOTH_WAYS
def test_a_batch_of_which_no_task_reported_leaves_nothing_open(version, guarantee):
    """Its tasks' workers were killed."""
    cluster = FakeTransactionCluster(version)
    begun = driver(cluster, guarantee).begin()
    for slot in range(3):
        run(cluster, begun, slot, guarantee)  # and the message never arrives
    driver(cluster, guarantee).abort([], 0, range(3), begun.driver)
    assert open_names(cluster) == []
    assert not any(read_committed(log) for log in cluster.logs.values())


@ANY_DIALECT
@BOTH_WAYS
def test_a_task_that_still_runs_after_the_abort_writes_nothing_and_leaves_nothing_open(version, guarantee):
    cluster = FakeTransactionCluster(version)
    begun = driver(cluster, guarantee).begin()

    def stopped():
        driver(cluster, guarantee).abort([], 0, range(1), begun.driver)

    with pytest.raises(KafkaSourceError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
        run(cluster, begun, guarantee=guarantee, after_open=stopped)
    assert open_names(cluster) == []
    with pytest.raises(KafkaSourceError, match=r"was given up|PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
        run(cluster, begun, guarantee=guarantee)  # and one that opens its transaction only now
    assert open_names(cluster) == []
    assert not any(read_committed(log) for log in cluster.logs.values())


@ANY_DIALECT
@BOTH_WAYS
def test_the_abort_of_an_older_run_leaves_a_newer_runs_transactions_alone(version, guarantee):
    cluster = FakeTransactionCluster(version)
    old = driver(cluster, guarantee).begin()
    new = driver(cluster, guarantee).begin()
    results = [run(cluster, new, slot, guarantee) for slot in range(2)]
    before = open_names(cluster)
    driver(cluster, guarantee).abort([], 0, range(3), old.driver)
    assert open_names(cluster) == before
    driver(cluster, guarantee).commit(results, 0)
    assert sum(len(read_committed(log)) for log in cluster.logs.values()) == 2


@ANY_DIALECT
def test_a_run_that_begins_while_an_older_one_aborts_keeps_its_transactions(version):
    """The older one found itself the newest driver just before."""
    cluster = FakeTransactionCluster(version)
    old = driver(cluster).begin()
    results = []
    real = cluster.transactions.end

    def end(*args):
        try:
            return real(*args)
        finally:
            if not results:
                new = driver(cluster).begin()
                results.append(run(cluster, new))

    cluster.transactions.end = end
    driver(cluster).abort([], 0, range(3), old.driver)
    cluster.transactions.end = real
    assert open_names(cluster) == ["p-0"]
    driver(cluster).commit(results, 0)
    assert read_committed(cluster.logs[T0]) == [b"row"]


@ANY_DIALECT
def test_decided_transactions_are_never_aborted(version):
    cluster = FakeTransactionCluster(version)
    begun = driver(cluster).begin()
    results = [run(cluster, begun, slot) for slot in range(2)]

    with pytest.raises(Boom):
        but_first(fails)(cluster, IDS, timeout_ms=600_000).commit(results, 0)
    driver(cluster).abort([], 0, range(2), begun.driver)  # as if no message had come
    driver(cluster).begin()
    assert sum(len(read_committed(log)) for log in cluster.logs.values()) == 2


@ANY_DIALECT
def test_a_failed_decision_stays_readable_in_the_drivers_transaction(version):
    """Where all tasks reported, a decision may have been under way: the next begin may have to ask what became of it,
    and coordinators tell only until the next InitProducerId."""
    cluster = FakeTransactionCluster(version)
    begun = driver(cluster).begin()
    results = [run(cluster, begun), TaskResult(begun.driver, "q")]  # one had no rows
    driver(cluster).abort(results, 0, (), begun.driver)
    assert open_names(cluster) == []
    assert cluster.calls.count("init p-driver") == 1


# The writers.


@pytest.fixture(params=["false", "true"], ids=["transactions", "atomic"])
def stopped(request, monkeypatch):
    """A micro-batch that began, and whose only task wrote a row that nobody heard of."""
    spark = Spark(monkeypatch, atomicBatch=request.param)
    spark.task(spark.sent(), 0, b"row")
    return spark


@pytest.fixture
def application(tmp_path, monkeypatch):
    """Spark's folder for the temporary files of an application."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    return tmp_path


def test_a_batch_whose_turn_is_not_known_is_left_to_the_next_begin(monkeypatch, stopped):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    before = list(stopped.cluster.calls)
    stopped.writer().abort([None], 0)
    assert stopped.cluster.calls == before
    stopped.sent()
    assert stopped.open() == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"producer_id": "x"}', "null"])
def test_a_turn_that_cannot_be_read_is_no_turn(application, stopped, text):
    (file,) = application.iterdir()
    names = {"prefix", "producer_id", "producer_epoch", "transaction_version", "number"}
    assert set(json.loads(file.read_text())) == names
    file.write_text(text)
    before = list(stopped.cluster.calls)
    stopped.writer().abort([None], 0)
    assert stopped.cluster.calls == before


def test_an_abort_that_finds_no_broker_ends_in_seconds_with_a_warning(application, monkeypatch, caplog):
    """`query.stop()` waits for it."""
    net, spark = FakeNet(FakeKafka(nodes=2, topics={"t": 1})), Spark(monkeypatch)
    spark.clusters["only"] = net.cluster()
    spark.sent()
    net.kafka.fault(END_TXN, *[SILENCE] * 100)
    began = net.now
    spark.writer().abort([None], 3)
    assert net.now - began < 25
    assert "batch 3 failed, and its transactions may stay open" in caplog.text
    assert threading.active_count() < 50
