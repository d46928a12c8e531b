"""Exactly once on three real brokers, of either dialect: the writers as Spark calls them, without Spark.

A crash is an exception at one of the crash points, after which everything starts anew from what Spark would remember.
What is asserted is what another client sees that reads committed.
"""

import itertools
import pickle
import uuid
from collections import Counter

import confluent_kafka
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from kafkasource import options
from kafkasource.broker import Broker
from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig
from kafkasource.client.coordinators import GROUP, TRANSACTION
from kafkasource.errors import DeadlineExceeded, KafkaSourceError
from kafkasource.sink import exactly_once, lane_task, writer
from kafkasource.sink.crash_points import POINTS
from kafkasource.sink.exactly_once import ExactlyOnce, LostTransactions, Share
from kafkasource.sink.lane_task import CannotWriteOnce
from kafkasource.sink.lanes import TransactionalIds, transactional_ids
from kafkasource.types import TopicPartition

pytestmark = pytest.mark.broker

SCHEMA = StructType([StructField("value", BinaryType()), StructField("partition", IntegerType())])
SLOTS, ROWS = 4, 50
_names = itertools.count()
PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 300,
    # What one node does, the others can do without it.
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "offsets.topic.replication.factor": 1,
}


class Crash(Exception):
    pass


class FakeContext:
    def __init__(self, slot, batch_id, query_id):
        self._slot = slot
        self._properties = {"streaming.sql.batchId": str(batch_id), "sql.streaming.queryId": query_id}

    def partitionId(self):
        return self._slot

    def attemptNumber(self):
        return 0

    def getLocalProperty(self, key):
        return self._properties.get(key)


class Query:
    """Spark's part: the checkpoint, and who is called when."""

    def __init__(self, servers, monkeypatch, **written):
        self.servers, self.monkeypatch = servers, monkeypatch
        self.topic = f"once-{next(_names)}-{uuid.uuid4().hex[:6]}"
        self.query_id = str(uuid.uuid4())
        self.atomic = written.get("atomicBatch") == "true"
        self.options = {
            "kafka.bootstrap.servers": servers,
            "topic": self.topic,
            "checkpointlocation": f"/checkpoints/{self.topic}",
            "deliveryGuarantee": "exactly_once",
        } | written
        with Cluster(ClientConfig.of(servers)) as cluster:
            cluster.create_topics([self.topic], partitions=SLOTS)
        self.done = set()
        monkeypatch.setattr(writer.TaskContext, "get", lambda: self.context)
        for module in (exactly_once, lane_task):
            monkeypatch.setattr(module, "crash_point", self.crash_point)
        monkeypatch.setattr(exactly_once, "crashes_at", lambda name: name == self.crash_at)
        self.crash_at = None

    def crash_point(self, name):
        if name == self.crash_at:
            self.crash_at = None
            raise Crash(name)

    def writer(self, written=None):
        return writer.StreamWriter(options.parse(self.options | (written or {}), "sink"), SCHEMA)

    def run_batch(self, batch_id, messages=None):
        """`messages` is given those of the tasks."""
        sent = pickle.dumps(self.writer())
        messages = [] if messages is None else messages
        try:
            for slot in range(SLOTS):
                self.context = FakeContext(slot, batch_id, self.query_id)
                messages.append(pickle.loads(pickle.dumps(pickle.loads(sent).write(self.rows(batch_id, slot)))))
            self.context = None
            self.writer().commit(messages, batch_id)
        except Crash:
            raise
        except Exception:
            self.context = None
            self.writer().abort(messages, batch_id)
            raise
        self.done.add(batch_id)

    def run(self, batches):
        for batch_id in range(batches):
            if batch_id not in self.done:
                self.run_batch(batch_id)

    def rows(self, batch_id, slot):
        values = [f"{batch_id}/{slot}/{row}".encode() for row in range(ROWS)]
        to = [slot if self.atomic else None] * ROWS  # in one transaction each partition has one task
        yield pa.record_batch([pa.array(values, pa.binary()), pa.array(to, pa.int32())], names=["value", "partition"])

    def expected(self, batches):
        return Counter(f"{b}/{s}/{r}" for b in range(batches) for s in range(SLOTS) for r in range(ROWS))

    def seen(self):
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self.servers, "group.id": "g", "isolation.level": "read_committed"}
            | {"enable.partition.eof": True}
        )
        consumer.assign([confluent_kafka.TopicPartition(self.topic, number, 0) for number in range(SLOTS)])
        found, ended = Counter(), set()
        while len(ended) < SLOTS:
            for message in consumer.consume(1000, 1.0):
                if message.error():
                    ended.add(message.partition())
                else:
                    found[message.value().decode()] += 1
        consumer.close()
        return found


@pytest.fixture(scope="module", params=["3.9.2", "4.3.1"])
def broker(request):
    with Broker(version=request.param, nodes=3, properties=PROPERTIES, use_existing=False) as broker:
        yield broker


@pytest.fixture
def servers(broker):
    return broker.bootstrap_servers


@pytest.mark.parametrize("atomic", ["false", "true"])
def test_a_crash_at_each_point_loses_and_doubles_nothing(servers, monkeypatch, atomic):
    query = Query(servers, monkeypatch, atomicBatch=atomic)
    for batch_id, point in enumerate(POINTS):
        query.run(batch_id)
        query.crash_at = point
        with pytest.raises(Crash):
            query.run(batch_id + 1)
    query.run(len(POINTS) + 1)
    assert query.seen() == query.expected(len(POINTS) + 1)


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
        while cluster.list_transactions(f"{prefix_of(query)}-"):
            pass
    with pytest.raises(LostTransactions, match=r"batch 1 was decided"):
        query.run(2)
    query.options["lostTransactions"] = "rewrite"
    query.run(3)
    assert query.seen() == query.expected(3)


def prefix_of(query):
    return transactional_ids(query.options.get("transactionalIdPrefix"), query.options).prefix


# Attempts of a task that Spark numbers alike: a stage that is run again.


def test_in_one_transaction_a_task_of_a_stage_that_is_run_again_is_refused_and_the_batch_starts_anew(
    servers, monkeypatch
):
    query = Query(servers, monkeypatch, atomicBatch="true")
    query.run(1)
    sent = pickle.dumps(query.writer())
    query.context = FakeContext(2, 1, query.query_id)
    message = pickle.loads(sent).write(query.rows(1, 2))
    with pytest.raises(CannotWriteOnce, match="another attempt of task 2"):
        pickle.loads(sent).write(query.rows(1, 2))
    query.context = None
    query.writer().abort([None, message], 1)
    query.run(3)
    assert query.seen() == query.expected(3)


# A decision that is on its way. Brokers leave it out of the list of a group's offsets.


def test_a_begin_right_after_a_decision_finds_it(servers):
    names = [f"early-{uuid.uuid4().hex[:8]}" for _ in range(10)]
    left_out = 0
    with Cluster(ClientConfig.of(servers)) as cluster:
        cluster.create_topics(names)
        for name in names:
            ids = TransactionalIds(name)
            turn = ExactlyOnce(cluster, ids, timeout_ms=60_000).begin().turn
            share = Share(turn, "q", partitions=(TopicPartition(name, 0),))
            ExactlyOnce(cluster, ids, timeout_ms=60_000).commit([share], 7)
            left_out += not cluster.fetch_committed(ids.marker_group)
            assert ExactlyOnce(cluster, ids, timeout_ms=60_000).begin().decided == ("q", 7)
    print(f"{left_out} of {len(names)} decisions were not listed at first")


def test_what_was_decided_is_waited_for_and_finished_while_its_markers_cannot_be_written(broker, monkeypatch):
    query, keeper = a_query_with_two_coordinators(broker, monkeypatch)
    query.run(1)
    ids = TransactionalIds(prefix_of(query))
    others = [each for node, each in enumerate(broker.bootstrap_servers.split(","), 1) if node != keeper]
    crash_point, messages = query.crash_point, []
    with Cluster(ClientConfig.of(",".join(others), default_api_timeout_ms=1500)) as hasty:

        def pausing(name):
            if name == "deciding" and query.crash_at:
                hasty.describe_transactions([ids.driver])  # finds its coordinator, as long as every node answers
                broker.pause(keeper)
            crash_point(name)

        monkeypatch.setattr(exactly_once, "crash_point", pausing)
        query.crash_at = "decided"
        driver = ExactlyOnce(hasty, ids, timeout_ms=60_000)
        try:
            with pytest.raises(Crash):
                query.run_batch(1, messages)
            for call in (lambda: driver.abort([message.share for message in messages], 1), driver.begin):
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
    with Cluster(ClientConfig.of(broker.bootstrap_servers)) as cluster:
        while True:
            ids = TransactionalIds(f"two-{uuid.uuid4().hex[:8]}")
            keeper = cluster._coordinators_of(GROUP, [ids.marker_group], 60_000)[ids.marker_group]
            if keeper != cluster._coordinators_of(TRANSACTION, [ids.driver], 60_000)[ids.driver]:
                return Query(broker.bootstrap_servers, monkeypatch, transactionalIdPrefix=ids.prefix), keeper
