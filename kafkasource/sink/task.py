"""Writes a task's rows to the clusters of a write, in an executor's Python worker.

A write that names no clusters has one producer and needs neither watermarks nor a ledger: `to_one` is its short way. A
write with the option `clusters` goes through `FanOut`: `to_several`. Both return when all rows are acknowledged, or
discarded where the options allow that, and raise the error that makes the task fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from kafkasource.exactly_once.crash_points import REFUSED, crash_point
from kafkasource.exactly_once.task.content import ContentSum
from kafkasource.exactly_once.task.plan import TaskResult
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.producer.delivery import DeadLetterTopic, Delivery
from kafkasource.kafka.producer.producer import shared_producer
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.producer.rows import Rows
from kafkasource.sink.clusters.fan_out import FanOut, OpenTransaction
from kafkasource.sink.clusters.producers import shared_producers
from kafkasource.sink.clusters.targets import ClusterTarget
from kafkasource.sink.clusters.transactions import ClusterTask
from kafkasource.sink.columns import SinkSchema
from kafkasource.sink.partitioner import partitioner_of
from kafkasource.sink.reports import ClusterReport
from kafkasource.types import TopicPartition, Written

if TYPE_CHECKING:
    import pyarrow as pa

ClusterOf = Callable[[str], Cluster]
"""Gives the `Cluster` for the blocking calls to the cluster of this name."""


def to_one(
    batches: Iterator[pa.RecordBatch],
    schema: SinkSchema,
    target: ClusterTarget,
    task: ClusterTask | None,
    cluster_of: ClusterOf,
) -> ClusterReport:
    """Write the rows of Spark's Arrow batches to the only cluster. `task`: with exactly once."""
    partitioner = partitioner_of(target.partitioner, target.config.batch_bytes)
    dead_letters: DeadLetterTopic | None = None
    if schema.dead_letter_topic is not None:
        from kafkasource.formats.dead_letters.makers import topic_for_records

        taking = partial(crash_point, REFUSED)
        dead_letters = topic_for_records(schema.dead_letter_topic, partitioner, schema.cluster_id, taking)

    def write(taken: Iterator[Rows], transaction: TaskTransaction | None = None) -> dict[TopicPartition, Written]:
        # The producer is taken only now: `ExactlyOnceTask.run` first waits for a row, and a producer ends when nobody
        # has used it for five minutes.
        producer = shared_producer(target.config)
        with producer.delivery(delivery=Delivery(transaction, dead_letters)) as delivery:
            for rows in taken:
                producer.append(rows, partitioner, delivery)
        return delivery.written

    if task is None:
        return ClusterReport(write(rows for batch in batches for rows in schema.rows(batch)))
    result, written = task.by_producer[0].run(batches, schema.rows, cluster_of(target.name), write)
    return ClusterReport(written, results=(result,))


def to_several(
    batches: Iterator[pa.RecordBatch],
    schema: SinkSchema,
    targets: Mapping[str, ClusterTarget],
    tasks: Mapping[str, ClusterTask] | None,
    cluster_of: ClusterOf,
) -> dict[str, ClusterReport]:
    """Write the rows of Spark's Arrow batches to every cluster that gets them. `tasks`: with exactly once."""
    fan_out = FanOut(shared_producers(targets))
    skipping = [task for task in (tasks or {}).values() if not task.writes]
    reports = {}
    with _aborting(tasks or {}, cluster_of):
        with fan_out.delivery(None if tasks is None else _transactions(tasks, cluster_of)) as delivery:
            for batch in batches:
                for rows in schema.rows(batch):
                    fan_out.append(rows, delivery)
                    for task in skipping:
                        task.skip(rows)
                if tasks is not None:
                    crash_point("writing")
        for name in targets:
            sent = name in delivery.sending
            results: tuple[TaskResult, ...] = ()
            if tasks is not None:
                deliveries = delivery.deliveries(name) if sent else {}
                tasks[name].end_left(cluster_of(name), deliveries)
                results = tasks[name].results(deliveries, delivery.refused(name) if sent else ContentSum())
            reports[name] = (
                ClusterReport(delivery.written(name), delivery.discarded(name), results, delivery.mapped(name))
                if sent
                else ClusterReport(results=results)
            )
    return reports


@contextmanager
def _aborting(tasks: Mapping[str, ClusterTask], cluster_of: ClusterOf) -> Iterator[None]:
    """An error in this block, or its cancellation, aborts the task's transactions in every cluster before it is
    raised."""
    try:
        yield
    except BaseException:
        for name, task in tasks.items():
            task.abort(cluster_of(name))
        raise


def _transactions(tasks: Mapping[str, ClusterTask], cluster_of: ClusterOf) -> dict[str, OpenTransaction]:
    """The tasks by cluster name, without clusters that have the batch already."""
    return {name: partial(task.open_transaction, cluster_of(name)) for name, task in tasks.items() if task.writes}
