"""Producers of a fan-out whose rows go into the logs of a fake cluster (`transaction_fakes`)."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
from sink_fakes import FakeMetadata

from kafkasource.sink import task as sink_task
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.slow_cluster import Health, Refusals
from kafkasource.sink.clusters.targets import ONLY
from kafkasource.sink.clusters.transactions import ClusterTask
from kafkasource.sink.columns import SinkSchema
from kafkasource.types import ProducerId, TopicPartition


class FakeProducer:
    """A producer whose rows go into a fake cluster's logs."""

    def __init__(self, cluster, partitions):
        self.cluster = cluster
        self.metadata = FakeMetadata(dict.fromkeys(partitions, 1))
        self.sender = self

    def await_topic(self, topic, partition, max_block_ms):
        return self.metadata.topic(topic)

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


def run_task(task, batches, cluster, write, schema=SinkSchema("t", {"value": 0})):  # noqa: B008 (frozen)
    """Run an `ExactlyOnceTask` through the sink, with the producer above. Returns its result and what is written."""
    target = targets.parse({"kafka.bootstrap.servers": "localhost:1"}).by_name[ONLY]
    producers = FakeProducers(target, cluster, [])
    producers.producers = [ProducerOfOneWrite(cluster, write)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink_task, "shared_producers", lambda _: {ONLY: producers})
        tasks = {ONLY: ClusterTask(target, [task])}
        report = sink_task.write(iter(batches), schema, {ONLY: target}, tasks, lambda _: cluster, {})[ONLY]
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
