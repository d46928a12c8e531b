"""A task that writes exactly once: what it refuses, when it opens its lane, and what it tells the driver."""

import pickle

import pyarrow as pa
import pytest
from transaction_fakes import STREAM, FakeContext, FakeTransactionCluster, read_committed

from kafkasource.errors import OptionError
from kafkasource.sink.transactions.driver import ExactlyOnce, LostTransactions, Plan
from kafkasource.sink.transactions.names import WrittenLane
from kafkasource.sink.transactions.query_identity import IdentitySource
from kafkasource.sink.transactions.task import CannotWriteOnce, Guarantee, LaneTask
from kafkasource.types import TopicPartition, Written

T0 = TopicPartition("t", 0)
LANES = Guarantee(IdentitySource("p"), 600_000, False, "fail")
ATOMIC = Guarantee(IdentitySource("p"), 600_000, True, "fail")


def driver(cluster, guarantee=LANES):
    return ExactlyOnce(cluster, guarantee.identity.find(), timeout_ms=600_000, atomic=guarantee.atomic)


def batches(*values):
    return iter([pa.record_batch([pa.array(some, pa.binary())], names=["value"]) for some in values])


def run(cluster, task, rows, upstream=None):
    """As the producer: everything to one partition."""

    def write(found, lane):
        values = [value for batch in found for value in batch["value"].to_pylist()]
        lane.enroll([T0])
        producer = lane.producer
        cluster.produce(lane.transactional_id, producer, T0, values, lane.transaction_version)
        return {T0: Written(len(values), 1, 0, len(values) - 1)}

    return task.run(rows, {"value": 0}, cluster, write)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("guarantee", [LANES, ATOMIC])
def test_what_a_task_writes_is_seen_once_the_driver_commits(version, guarantee):
    cluster = FakeTransactionCluster(version)
    begun = pickle.loads(pickle.dumps(driver(cluster, guarantee).begin()))
    share, written = run(cluster, LaneTask.start(guarantee, begun, FakeContext()), batches([b"a", b"b"], [], [b"c"]))
    share = pickle.loads(pickle.dumps(share))
    assert written[T0].records == 3
    assert not read_committed(cluster.logs[T0])
    driver(cluster, guarantee).commit([share], 0)
    assert read_committed(cluster.logs[T0]) == [b"a", b"b", b"c"]


def test_a_task_without_rows_opens_no_transaction():
    cluster = FakeTransactionCluster(2)
    begun = driver(cluster).begin()
    before = list(cluster.calls)
    share, written = run(cluster, LaneTask.start(LANES, begun, FakeContext()), batches([], []))
    assert (share.lane, share.partitions, written) == (None, (), {})
    assert cluster.calls == before


def test_a_batch_that_is_decided_already_is_read_to_its_end_and_not_written():
    cluster = FakeTransactionCluster(2)
    begun = driver(cluster).begin()
    driver(cluster).commit([run(cluster, LaneTask.start(LANES, begun, FakeContext()), batches([b"a"]))[0]], 0)
    begun = driver(cluster).begin()
    before, rows = list(cluster.calls), batches([b"a"], [b"b"])
    share, _ = run(cluster, LaneTask.start(LANES, begun, FakeContext()), rows)
    assert share.skipped
    assert list(rows) == []
    assert cluster.calls == before


def test_an_error_in_the_rows_upstream_leaves_the_lane_undecided():
    cluster = FakeTransactionCluster(2)
    begun = driver(cluster).begin()

    def rows():
        yield from batches([b"a"])
        raise ZeroDivisionError("in the user's code")

    with pytest.raises(ZeroDivisionError):
        run(cluster, LaneTask.start(LANES, begun, FakeContext()), rows())


@pytest.mark.parametrize(("rows", "same"), [([[b"a", b"b"]], True), ([[b"a"], [b"b"]], True), ([[b"b", b"a"]], False)])
def test_rows_written_again_must_be_those_that_were_lost(rows, same):
    cluster = FakeTransactionCluster(2)
    begun = driver(cluster).begin()
    first, _ = run(cluster, LaneTask.start(LANES, begun, FakeContext()), batches([b"a", b"b"]))
    task = LaneTask.start(LANES, begun, FakeContext())
    task.plan = Plan(True, first.lane)
    if same:
        assert run(cluster, task, batches(*rows))[0].replaces
    else:
        with pytest.raises(LostTransactions, match=r"\(2 now, 2 then, with another checksum\)"):
            run(cluster, task, batches(*rows))


def test_fewer_rows_than_were_lost_are_refused():
    cluster = FakeTransactionCluster(2)
    task = LaneTask.start(LANES, driver(cluster).begin(), FakeContext())
    task.plan = Plan(True, WrittenLane(0, 1, 1, 7, 0))
    with pytest.raises(LostTransactions, match=r"\(0 now, 7 then\)"):
        run(cluster, task, batches())


def test_speculation_is_refused():
    begun = driver(FakeTransactionCluster(2)).begin()
    context = FakeContext()
    context.properties = STREAM | {"spark.speculation": "true"}
    with pytest.raises(OptionError, match=r"spark\.speculation=true"):
        LaneTask.start(LANES, begun, context)


def test_continuous_mode_is_refused():
    begun = driver(FakeTransactionCluster(2)).begin()
    context = FakeContext()
    context.properties = {"sql.streaming.queryId": "q"}
    with pytest.raises(OptionError, match=r"trigger\(continuous=...\)"):
        LaneTask.start(LANES, begun, context)


def test_a_second_attempt_of_a_task_is_refused_in_one_transaction_and_not_in_lanes():
    begun = driver(FakeTransactionCluster(2)).begin()
    LaneTask.start(LANES, begun, FakeContext(attempt=1))
    with pytest.raises(CannotWriteOnce, match="cannot be run again"):
        LaneTask.start(ATOMIC, begun, FakeContext(attempt=1))
    with pytest.raises(CannotWriteOnce, match="no TaskContext"):
        LaneTask.start(LANES, begun, None)


def test_the_tasks_of_a_batch_write_go_by_its_own_id():
    begun = driver(FakeTransactionCluster(2)).begin("w")
    task = LaneTask.start(LANES, begun, FakeContext(3)).task
    assert (task.query_id, task.batch_id, task.slot) == ("w", 0, 3)
