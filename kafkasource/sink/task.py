"""Writes a task's rows to the clusters of a write, in an executor's Python worker.

A write that names no clusters goes the same way as one with the option `clusters`: it has one, without a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from kafkasource.exactly_once.task.content import ContentSum
from kafkasource.exactly_once.task.plan import TaskResult
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.producer.delivery import DeadLetterTopic
from kafkasource.sink.clusters.fan_out import FanOut, FanOutDelivery, OpenTransaction
from kafkasource.sink.clusters.producers import shared_producers
from kafkasource.sink.clusters.targets import ClusterTarget
from kafkasource.sink.clusters.transactions import ClusterTask
from kafkasource.sink.columns import checked_rows, joined
from kafkasource.sink.partitioner import partitioner_of
from kafkasource.sink.reports import ClusterReport
from kafkasource.sink.schema import SinkSchema

if TYPE_CHECKING:
    import pyarrow as pa

ClusterOf = Callable[[str], Cluster]
"""Gives the `Cluster` for the blocking calls to the cluster of this name."""


def write(
    batches: Iterator[pa.RecordBatch],
    schema: SinkSchema,
    targets: Mapping[str, ClusterTarget],
    tasks: Mapping[str, ClusterTask] | None,
    cluster_of: ClusterOf,
    cluster_ids: Mapping[str, str | None],
) -> dict[str, ClusterReport]:
    """Write the rows of Spark's Arrow batches to every cluster that gets them. `tasks`: with exactly once.
    `cluster_ids`: Kafka's ids of the clusters, for dead letters.

    Returns when all rows are acknowledged, or discarded where the options allow that. Raises the error that makes the
    task fail.
    """
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)  # may take minutes, in which unused producers end: so it comes before they are taken
    if first is None:
        return {name: _report(name, None, tasks, cluster_of) for name in targets}
    with _aborting(tasks or {}, cluster_of):
        fan_out = FanOut(shared_producers(targets), _dead_letters(schema, targets, cluster_ids))
        delivery = _sent(chain([first], filled), schema, fan_out, tasks, cluster_of)
        return {name: _report(name, delivery, tasks, cluster_of) for name in targets}


def _sent(
    batches: Iterator[pa.RecordBatch],
    schema: SinkSchema,
    fan_out: FanOut,
    tasks: Mapping[str, ClusterTask] | None,
    cluster_of: ClusterOf,
) -> FanOutDelivery:
    """The delivery of all rows, once it is complete."""
    skipping = [task for task in (tasks or {}).values() if not task.writes]
    with fan_out.delivery(None if tasks is None else _transactions(tasks, cluster_of)) as delivery:
        for batch in joined(schema, batches):
            of_topics = list(checked_rows(schema, batch))
            if len(of_topics) > 1:
                fan_out.expect([rows.topic for rows in of_topics], delivery)
            for rows in of_topics:
                fan_out.append(rows, delivery)
                for task in skipping:
                    task.skip(rows)
    return delivery


def _report(
    name: str, delivery: FanOutDelivery | None, tasks: Mapping[str, ClusterTask] | None, cluster_of: ClusterOf
) -> ClusterReport:
    """The report about one cluster. `delivery`: None if the task had no rows."""
    sent = delivery if delivery is not None and name in delivery.sending else None
    results: tuple[TaskResult, ...] = ()
    if tasks is not None:
        deliveries = sent.deliveries(name) if sent is not None else {}
        tasks[name].end_left(cluster_of(name), deliveries)
        results = tasks[name].results(deliveries, sent.refused(name) if sent is not None else ContentSum())
    if sent is None:
        return ClusterReport(results=results)
    return ClusterReport(sent.written(name), sent.discarded(name), results, sent.mapped(name))


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


def _dead_letters(
    schema: SinkSchema, targets: Mapping[str, ClusterTarget], cluster_ids: Mapping[str, str | None]
) -> dict[str, DeadLetterTopic]:
    """The topic of dead letters in each cluster."""
    topic = schema.dead_letter_topic
    if topic is None:
        return {}
    from kafkasource.formats.dead_letters.makers import topic_for_records

    return {
        name: topic_for_records(topic, partitioner_of(target.partitioner, target.config.batch_bytes), cluster_ids[name])
        for name, target in targets.items()
    }


def _transactions(tasks: Mapping[str, ClusterTask], cluster_of: ClusterOf) -> dict[str, OpenTransaction]:
    """The tasks by cluster name, without clusters that have the batch already."""
    return {name: partial(task.open_transaction, cluster_of(name)) for name, task in tasks.items() if task.writes}
