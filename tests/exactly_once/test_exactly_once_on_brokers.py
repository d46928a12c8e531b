"""Exactly once on three real brokers of either dialect: the writers as Spark calls them, without Spark."""

import itertools
import pickle
import uuid
from collections import Counter

import confluent_kafka
import pytest
from chosen_cases import pairs
from confluent_kafka.admin import AdminClient
from stream_of_batches import ROWS, SCHEMA, SLOTS, Crash, Query
from transaction_fakes import FakeContext

from kafkasource.errors import DeadlineExceeded, KafkaSourceError, UnsupportedApiVersion
from kafkasource.exactly_once.decision_status import LastBatch, StatusLog
from kafkasource.exactly_once.driver import begin as batch_begin
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.errors import CannotWriteOnce, LostDecision, LostTransactions
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.exactly_once.query_identity import IdentitySource
from kafkasource.exactly_once.task.plan import TaskResult
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.routing import GROUP, TRANSACTION
from kafkasource.kafka.config import ClientConfig
from kafkasource.sink import writer
from kafkasource.sink.clusters import targets
from kafkasource.testing.broker import Broker
from kafkasource.types import TopicPartition
from lab.campaign import crash_points

pytestmark = pytest.mark.broker

PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 300,
    # What one node does, the others can do without it.
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "offsets.topic.replication.factor": 1,
    # With 4, the tests' usual number, P-marker and P-kept hash to one partition, or to 1 and 3, for every P.
    "offsets.topic.num.partitions": 5,
}


# By release. Before 2.5 a topic of one replica takes no record with acks=all where this is 2.
OTHERWISE = {"0.11.0.3": {"min.insync.replicas": 1}}


@pytest.fixture(scope="module")
def broker(request):
    """Of either dialect."""
    properties = PROPERTIES | OTHERWISE.get(request.param, {})
    with Broker(version=request.param, nodes=3, properties=properties, use_existing=False) as broker:
        yield broker


@pytest.fixture
def servers(broker):
    return broker.bootstrap_servers


def on(*releases):
    return pytest.mark.parametrize("broker", releases, indirect=True, scope="module")


the_older_in_make_extended = on(pytest.param("3.9.2", marks=pytest.mark.extended), "4.3.1")


@pytest.mark.parametrize(
    ("broker", "atomic"),
    [
        pytest.param("0.11.0.3", "false", marks=pytest.mark.extended),  # which cannot tell what is open
        *pairs(["3.9.2", "4.3.1"], ["false", "true"], {("3.9.2", "true"), ("4.3.1", "false")}),
    ],
    indirect=["broker"],
    scope="module",
)
def test_a_crash_at_each_point_loses_and_doubles_nothing(servers, monkeypatch, atomic):
    query = Query(servers, monkeypatch, atomicBatch=atomic)
    for batch_id, point in enumerate(crash_points.POINTS):
        query.run(batch_id)
        query.crash_at = point
        with pytest.raises(Crash):
            query.run(batch_id + 1)
    query.run(len(crash_points.POINTS) + 1)
    assert query.seen() == query.expected(len(crash_points.POINTS) + 1)


@pytest.mark.extended
@on("0.11.0.3")
def test_brokers_that_cannot_tell_what_is_open_are_refused_one_transaction_for_all_before_a_task(servers, monkeypatch):
    query = Query(servers, monkeypatch, atomicBatch="true")
    with pytest.raises(UnsupportedApiVersion, match=r"option 'atomicBatch'=true needs .* Kafka 3\.0"):
        pickle.dumps(query.writer())
    assert query.seen() == {}


@pytest.mark.extended
@on("0.11.0.3")
def test_brokers_that_cannot_tell_what_is_open_have_nothing_open_after_a_start_with_as_many_tasks(servers, monkeypatch):
    """The application was killed when all had written; now one of its tasks has all rows."""
    query = Query(servers, monkeypatch)
    sent = pickle.dumps(query.writer())
    for slot in range(SLOTS):
        query.context = FakeContext(slot, batch_id=0, query_id=query.query_id)
        pickle.loads(sent).write(query.rows(0, slot))
    query.context = None
    batch_begin._begun.reset()
    rows = query.rows
    query.rows = lambda batch_id, slot: (each for s in range(SLOTS) for each in rows(batch_id, s) if slot == 0)
    query.run(1)
    assert query.seen_up_to_a_later_record() == query.expected(1)


@the_older_in_make_extended
def test_transactions_that_timed_out_after_the_decision_are_told_of_and_written_again(servers, monkeypatch):
    query = Query(servers, monkeypatch)
    query.run(1)
    for timeout_ms in (1_000, 10_000, 100_000):  # a batch must be decided within it, however laden the machine
        query.options["kafka.transaction.timeout.ms"] = str(timeout_ms)
        query.crash_at = "half_ended"
        with pytest.raises((Crash, KafkaSourceError)) as raised:
            query.run(2)
        if raised.type is Crash:
            break
    with Cluster(ClientConfig.of(servers)) as cluster:
        while cluster.transactions.list(f"{prefix_of(query)}-"):
            pass
    with pytest.raises(LostTransactions, match=r"batch 1 was decided"):
        query.run(2)
    query.options |= {"lostTransactions": "rewrite", "kafka.transaction.timeout.ms": "100000"}  # no more is to be lost
    query.run(3)
    assert query.seen() == query.expected(3)


class BatchWrites(Query):
    """Each batch is a write of its own."""

    def writer(self, written=None):
        return writer.BatchWriter(targets.parse(self.options | (written or {})), SCHEMA)

    def write(self, number):
        sent = pickle.loads(pickle.dumps(self.writer()))
        messages = []
        for slot in range(SLOTS):
            self.context = FakeContext(slot)
            messages.append(pickle.loads(pickle.dumps(sent)).write(self.rows(number, slot)))
        self.context = None
        sent.commit(messages)


@on(pytest.param("0.11.0.3", marks=pytest.mark.extended), pytest.param("3.9.2", marks=pytest.mark.extended), "4.3.1")
def test_a_batch_write_that_lost_rows_is_told_of_by_the_next_one(servers, monkeypatch, caplog):
    query = BatchWrites(servers, monkeypatch, transactionalIdPrefix=f"writes-{uuid.uuid4().hex[:8]}")
    query.write(0)
    query.crash_at = "half_ended"
    with pytest.raises(Crash):
        query.write(1)
    ids = TransactionalIds(query.options["transactionalIdPrefix"])
    with Cluster(ClientConfig.of(servers)) as cluster:
        for slot in (2, 3):  # as after `kafka.transaction.timeout.ms`
            cluster.transactions.init_producer_id(ids.task(slot), 60_000)
    assert caplog.text == ""
    query.write(2)
    assert "batch write" in caplog.text
    assert f"tasks [2, 3] ({2 * ROWS} rows)" in caplog.text
    caplog.clear()
    query.write(3)
    assert caplog.text == ""
    seen = query.seen()
    assert {batch_id: n for batch_id, n in Counter(int(row[0]) for row in seen).items() if n != SLOTS * ROWS} == {
        1: 2 * ROWS
    }


@pytest.mark.extended
@pytest.mark.parametrize("release", ["3.9.2", "4.3.1"])
def test_whether_transactions_with_forgotten_ids_were_committed_is_asked_of_the_user(release, monkeypatch):
    """They were: the driver died after its last commit, before it said so in P-kept."""

    def dies(*_):
        raise Crash

    properties = {
        "transactional.id.expiration.ms": 15_000,  # no id may expire while its batch is written, on any machine
        "transaction.remove.expired.transaction.cleanup.interval.ms": 300,
    }
    with Broker(version=release, properties=PROPERTIES | properties, use_existing=False) as broker:
        query = Query(broker.bootstrap_servers, monkeypatch)
        query.run(1)
        with monkeypatch.context() as patch:
            patch.setattr(StatusLog, "write_if_possible", dies)
            with pytest.raises(Crash):
                query.run(2)
        ids = TransactionalIds(prefix_of(query))
        names = [ids.driver, *map(ids.task, range(SLOTS))]
        with Cluster(ClientConfig.of(broker.bootstrap_servers)) as cluster:
            while any(cluster.transactions.describe(names).values()):
                pass
        with pytest.raises(LostDecision, match=r"batch 1 was decided.*transactional\.id\.expiration\.ms"):
            query.run(2)
        assert query.seen() == query.expected(2)
        query.options["lostTransactions"] = "skip"
        query.run(3)
        assert query.seen() == query.expected(3)


def prefix_of(query):
    return IdentitySource.of(query.options.get("transactionalIdPrefix"), query.options).find().ids.prefix


# Attempts of a task that Spark numbers alike: a stage that is run again.


@the_older_in_make_extended
def test_in_one_transaction_a_task_of_a_stage_that_is_run_again_is_refused_and_the_batch_starts_anew(
    servers, monkeypatch
):
    query = Query(servers, monkeypatch, atomicBatch="true")
    query.run(1)
    sent = pickle.dumps(query.writer())
    query.context = FakeContext(2, batch_id=1, query_id=query.query_id)
    message = pickle.loads(sent).write(query.rows(1, 2))
    with pytest.raises(CannotWriteOnce, match="another attempt of task 2"):
        pickle.loads(sent).write(query.rows(1, 2))
    query.context = None
    query.writer().abort([None, None, message, None], 1)
    query.run(3)
    assert query.seen() == query.expected(3)


# A batch that fails, or that Spark cancels. See tests/exactly_once/test_aborted_tasks.py for who is called then.


class Failed(Exception):
    pass


# Each ending once in `make test`, whole batches and others.
@the_older_in_make_extended
@pytest.mark.parametrize(
    ("how", "atomic"),
    pairs(
        ["its task fails", "its worker is killed", "the query is stopped"],
        ["false", "true"],
        {("its task fails", "true"), ("its worker is killed", "false"), ("the query is stopped", "true")},
    ),
)
def test_a_batch_of_one_task_that_ends_in_the_middle_leaves_no_transaction_open(
    servers, monkeypatch, tmp_path, how, atomic
):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    query = Query(servers, monkeypatch, atomicBatch=atomic, **{"kafka.linger.ms": "0"})
    query.run(1)
    prefix = prefix_of(query)
    with Cluster(ClientConfig.of(servers)) as cluster:

        def states():
            return {each.transactional_id: each.state for each in cluster.transactions.list(prefix, ())}

        def rows():
            yield from query.rows(1, 0)
            while states()[f"{prefix}-{'driver' if atomic == 'true' else '0'}"] != "Ongoing":
                pass  # the first batch is on its way
            if how == "its task fails":
                raise Failed
            query.writer().abort([None], 1)
            yield from query.rows(1, 0)  # the task goes on for seconds

        sent = pickle.dumps(query.writer())
        query.context = FakeContext(0, batch_id=1, query_id=query.query_id)
        with pytest.raises((Failed, KafkaSourceError)):
            pickle.loads(sent).write(rows())
        query.context = None
        if how == "its task fails":
            assert atomic == "true" or "Ongoing" not in states().values()  # before the driver has done anything
            query.writer().abort([None], 1)
        if how == "the query is stopped":  # and a task opens its transaction only now
            query.context = FakeContext(1, batch_id=1, query_id=query.query_id)
            with pytest.raises(KafkaSourceError):
                pickle.loads(sent).write(query.rows(1, 1))
            query.context = None
        assert "Ongoing" not in states().values()
    assert query.seen_up_to_a_later_record() == query.expected(1)
    query.run(2)
    assert query.seen() - Counter(after=SLOTS) == query.expected(2)


# A decision that is on its way. Brokers leave it out of the list of a group's offsets.


@the_older_in_make_extended
def test_a_begin_right_after_a_decision_finds_it(servers):
    names = [f"early-{uuid.uuid4().hex[:8]}" for _ in range(10)]
    left_out = 0
    with Cluster(ClientConfig.of(servers)) as cluster:
        cluster.topics.create(names)
        for name in names:
            ids = TransactionalIds(name)
            decider = ExactlyOnce(cluster, ids, timeout_ms=60_000).begin().driver
            result = TaskResult(decider, "q", partitions=(TopicPartition(name, 0),))
            ExactlyOnce(cluster, ids, timeout_ms=60_000).commit([result], 7)
            left_out += not cluster.groups.committed(ids.marker_group)
            assert ExactlyOnce(cluster, ids, timeout_ms=60_000).begin().last == LastBatch(1, "stream", "q", 7)
    print(f"{left_out} of {len(names)} decisions were not listed at first")


@the_older_in_make_extended
def test_what_was_decided_is_waited_for_and_finished_while_its_markers_cannot_be_written(broker, monkeypatch):
    query, keeper = a_query_with_two_coordinators(broker, monkeypatch)
    query.run(1)
    ids = TransactionalIds(prefix_of(query))
    others = [each for node, each in enumerate(broker.bootstrap_servers.split(","), 1) if node != keeper]
    crash_point, messages = query.crash_point, []
    with Cluster(ClientConfig.of(",".join(others), default_api_timeout_ms=1500)) as hasty:

        def pausing(name):
            if name == "deciding" and query.crash_at:
                hasty.transactions.describe([ids.driver])  # finds its coordinator, as long as every node answers
                broker.pause(keeper)
            crash_point(name)

        monkeypatch.setattr(query, "crash_point", pausing)
        query.crash_at = "decided"
        driver = ExactlyOnce(hasty, ids, timeout_ms=60_000)
        try:
            with pytest.raises(Crash):
                query.run_batch(1, messages)
            results = [result for message in messages for result in message.clusters[targets.ONLY].results]
            for call in (lambda: driver.abort(results, 1), driver.begin):
                with pytest.raises(DeadlineExceeded, match="CONCURRENT_TRANSACTIONS"):
                    call()
        finally:
            broker.resume(keeper)
    query.writer().abort(messages, 1)
    assert query.seen() == query.expected(2)
    query.run(3)
    assert query.seen() == query.expected(3)


def a_query_with_two_coordinators(broker, monkeypatch):
    """One for its driver's transactions, and another that keeps its decisions: the node id of this one."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    with Cluster(ClientConfig.of(broker.bootstrap_servers)) as cluster:
        for tried in itertools.count(1):
            if tried % 50 == 0:  # a node that was paused, or starved, has lost its partitions to others: back to it
                admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED).result(30)
            ids = TransactionalIds(f"two-{uuid.uuid4().hex[:8]}")
            groups = {group: cluster.coordinators.of(GROUP, group) for group in (ids.marker_group, ids.kept_group)}
            keeper = groups[ids.marker_group]
            others = groups[ids.kept_group], cluster.coordinators.of(TRANSACTION, ids.driver)
            if keeper not in others:
                return Query(broker.bootstrap_servers, monkeypatch, transactionalIdPrefix=ids.prefix), keeper
    raise AssertionError
