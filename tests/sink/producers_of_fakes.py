"""Spark's calls of a writer whose producers write into the logs of fake clusters (`transaction_fakes`)."""

import json
import pickle
import threading
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType
from sink_fakes import FakeMetadata
from transaction_fakes import FakeContext, FakeTransactionCluster, read_committed

from kafkasource.sink import task as task_module
from kafkasource.sink import writer as writer_module
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.producers import shared_producers
from kafkasource.sink.clusters.slow_cluster import Health, Refusals
from kafkasource.sink.clusters.targets import ONLY
from kafkasource.sink.clusters.transactions import ClusterTask
from kafkasource.sink.schema import SinkSchema
from kafkasource.sink.writer import StreamWriter
from kafkasource.types import ProducerId, TopicPartition


class FakeProducer:
    """A producer whose rows go into a fake cluster's logs."""

    def __init__(self, cluster, partitions):
        self.cluster = cluster
        self.metadata = FakeMetadata(dict.fromkeys(partitions, 1))
        self.sender = self

    def await_topic(self, topic, partition, max_block_ms):
        return self.metadata.topic(topic)

    def expect_topics(self, topics):
        pass

    def wakeup(self):
        pass

    def alive(self):
        return True

    @contextmanager
    def delivery(self, delivery):
        yield delivery

    def hand_over(self, topic, columns, order, spans, delivery, shared=None):
        transaction, values = delivery.transaction, columns.values.to_pylist()
        for partition, first, last in spans:
            tp = TopicPartition(topic, partition)
            transaction.enroll([tp])
            rows = [values[n if order is None else order[n]] for n in range(first, last)]
            producer = ProducerId(transaction.producer_id, transaction.producer_epoch)
            self.cluster.produce(transaction.transactional_id, producer, tp, rows, transaction.transaction_version)
            delivery.opened(1)
            delivery.acknowledged(tp, len(rows), 100, len(rows) - 1)


class ProducerOfOneWrite(FakeProducer):
    """A producer that writes all rows of a task at its end: `write` is given their values and the transaction, and
    returns what is written."""

    def __init__(self, cluster, write):
        super().__init__(cluster, [TopicPartition("t", 0)])
        self._write, self._values = write, []

    @contextmanager
    def delivery(self, delivery):
        yield delivery
        delivery.written = self._write(self._values, delivery.transaction)

    def hand_over(self, topic, columns, order, spans, delivery, shared=None):
        self._values += columns.values.to_pylist()


_of_this_thread = threading.local()
# For good, as tasks of several threads run at a time.
pytest.MonkeyPatch().setattr(
    task_module,
    "shared_producers",
    lambda found: getattr(_of_this_thread, "producers", None) or shared_producers(found),
)


def run_task(task, batches, cluster, write):
    """Run an `ExactlyOnceTask` through the sink, with the producer above. Returns its result and what is written."""
    target = targets.parse({"kafka.bootstrap.servers": "localhost:1"}).by_name[ONLY]
    producers = FakeProducers(target, cluster, [])
    producers.producers = [ProducerOfOneWrite(cluster, write)]
    _of_this_thread.producers = {ONLY: producers}
    try:
        tasks = {ONLY: ClusterTask(target, [task])}
        schema = SinkSchema("t", {"value": 0})
        report = task_module.write(iter(batches), schema, {ONLY: target}, tasks, lambda _: cluster, {})[ONLY]
    finally:
        _of_this_thread.producers = None
    (result,) = report.results
    return result, report.written


class FakeProducers:
    queued_bytes = 0
    pool = SimpleNamespace(total_bytes=1 << 20)

    def __init__(self, target, cluster, partitions):
        self.target = target
        self.health, self.refusals = Health(1000, lambda: 0.0), Refusals(1000, lambda: 0.0)
        self.producers = [FakeProducer(cluster, partitions) for _ in range(target.producers)]

    def leased_memory(self):
        return nullcontext()


COLUMNS = {"key": BinaryType(), "value": BinaryType(), "partition": IntegerType()}
SCHEMA = StructType([StructField(name, kind) for name, kind in COLUMNS.items()])
PACKED = StructType([StructField("records", BinaryType())])
T = [TopicPartition("t", number) for number in range(3)]
TWO = {"clusters": json.dumps({name: {"kafka.bootstrap.servers": f"{name}:1"} for name in ("east", "west")})}
"""The option of a write to two clusters."""


def batch(*values, partition=None):
    keys = pa.array([b"k" + value for value in values], pa.binary())
    partitions = pa.array([partition] * len(values), pa.int32())
    return pa.record_batch([keys, pa.array(values, pa.binary()), partitions], names=list(COLUMNS))


class Spark:
    """Writes exactly once, to `cluster` or with the option `clusters` to those; all in one process."""

    def __init__(self, monkeypatch, kind=StreamWriter, schema=SCHEMA, **options):
        self.monkeypatch, self.kind, self.schema, self.batch_id = monkeypatch, kind, schema, 0
        self.clusters = {
            name: FakeTransactionCluster(2) for name in json.loads(options.get("clusters", '{"only": {}}'))
        }
        self.where = {} if "clusters" in options else {"kafka.bootstrap.servers": "only:1"}
        self.where |= {"topic": "t", "deliveryGuarantee": "exactly_once"}
        self.options = {"transactionalIdPrefix": "p"} | options
        monkeypatch.setattr(
            "kafkasource.kafka.cluster.cache.shared_cluster", lambda config: self.named(config.bootstrap_servers[0][0])
        )
        monkeypatch.setattr(task_module, "shared_producers", self.producers)

    def named(self, name):
        return self.clusters.get(name, self.cluster)

    def producers(self, found):
        return {name: FakeProducers(target, self.named(name), T) for name, target in found.items()}

    @property
    def cluster(self):
        """The first one."""
        return next(iter(self.clusters.values()))

    def writer(self):
        return self.kind(targets.parse(self.where | self.options), self.schema)

    def sent(self):
        """As pickled for the tasks, and once more for the commit of a batch write."""
        writer = self.writer()
        first = pickle.dumps(writer)
        assert pickle.dumps(writer) == first
        return first

    def task(self, sent, slot, *values):
        """With `atomicBatch` the partition of its slot is its own."""
        partition = slot if "atomicBatch" in self.options else None
        return self.write(sent, slot, iter([batch(*values, partition=partition)]))

    def write(self, sent, slot, batches):
        context = FakeContext(slot, batch_id=self.batch_id)
        self.monkeypatch.setattr(writer_module.TaskContext, "get", lambda: context)  # type: ignore[attr-defined]
        return pickle.loads(pickle.dumps(pickle.loads(sent).write(batches)))

    def commit(self, *values):
        """A batch of one task, from its begin on."""
        message = self.task(self.sent(), 0, *values)
        self.writer().commit([message], self.batch_id)
        return message

    def seen(self, name=None):
        """By a reader at read_committed, in the cluster of this name; in the others as well where it is None."""
        found = [sorted(row for tp in T for row in read_committed(each.logs[tp])) for each in self.clusters.values()]
        if name is not None:
            return found[list(self.clusters).index(name)]
        assert all(each == found[0] for each in found), found
        return found[0]

    def open(self):
        return [name for each in self.clusters.values() for name, known in each.by_id.items() if known.open]
