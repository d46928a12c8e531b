"""Producers of a fan-out whose rows go into the logs of a fake cluster (`transaction_fakes`)."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

from sink_fakes import FakeMetadata

from kafkasource.sink.clusters.slow_cluster import Health, Refusals
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


class FakeProducers:
    queued_bytes = 0
    pool = SimpleNamespace(total_bytes=1 << 20)

    def __init__(self, target, cluster, partitions):
        self.target = target
        self.health, self.refusals = Health(1000, lambda: 0.0), Refusals(1000, lambda: 0.0)
        self.producers = [FakeProducer(cluster, partitions) for _ in range(target.producers)]

    def leased_memory(self):
        return nullcontext()
