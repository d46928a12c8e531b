"""Exactly once in each cluster of a write: a task has a transaction for each producer of a cluster.

Each cluster has its own driver, decision and transactions, and knows nothing of the others. A restart may find a batch
decided in one cluster and not in another: then it is written again only in the other.

The slot of a transaction is task * producers + number of the producer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkasource.options import Options
from kafkasource.sink.clusters.targets import ClusterTarget
from kafkasource.sink.producer.delivery import Delivery
from kafkasource.sink.producer.producer_id import TaskTransaction
from kafkasource.sink.transactions.query_identity import IdentitySource
from kafkasource.sink.transactions.task.plan import BegunBatch, TaskResult, plan_task
from kafkasource.sink.transactions.task.task import Context, ExactlyOnceTask, Guarantee, Task

if TYPE_CHECKING:
    from kafkasource.client.cluster import Cluster


def guarantees(
    shared: Options, targets: Mapping[str, ClusterTarget], *, batch_write: bool
) -> dict[str, Guarantee] | None:
    """The guarantee of each cluster. None: at least once. Raises OptionError if the options give nothing to make
    transactional ids of."""
    if shared["deliveryGuarantee"] != "exactly_once":
        return None
    identity = IdentitySource.of(shared["transactionalIdPrefix"], shared.sparks_own, batch_write=batch_write)
    return {
        name: Guarantee(
            identity,
            target.transaction_timeout_ms,
            shared["atomicBatch"],
            shared["lostTransactions"],
        )
        for name, target in targets.items()
    }


@dataclass(frozen=True)
class _ProducerRows:
    """How many of the task's rows went into this producer's transaction. `crc` covers all rows of the task."""

    rows: int
    crc: int


@dataclass(frozen=True)
class ClusterTask:
    """One task in one cluster."""

    by_producer: Sequence[ExactlyOnceTask]  # by the producer's number

    @classmethod
    def start(cls, guarantee: Guarantee, begun: BegunBatch, context: Context | None, producers: int) -> ClusterTask:
        """Raises an error that keeps the task from writing. Asks no broker."""
        task = Task.of(context, begun, guarantee)
        by_producer = []
        for number in range(producers):
            slot = task.slot * producers + number
            plan = plan_task(begun, task.query_id, task.batch_id, slot, guarantee.on_lost)
            by_producer.append(ExactlyOnceTask(guarantee, begun, replace(task, slot=slot), plan))
        if producers > 1 and any(each.plan.again is not None for each in by_producer):
            raise begun.lost_error(
                task.batch_id,
                ". But with 'producersPerCluster' above 1 the missing rows are not known: which producer a row without "
                "a key went to is not recorded",
            )
        return cls(by_producer)

    @property
    def writes(self) -> bool:
        """False: the batch is in this cluster already."""
        return self.by_producer[0].plan.write

    def open_transaction(self, cluster: Cluster, number: int) -> TaskTransaction:
        """The transaction of the producer with this number. Blocks."""
        return self.by_producer[number].open_transaction(cluster)

    def end_left(self, cluster: Cluster, used: Collection[int]) -> None:
        """As `ExactlyOnceTask.end_left`, for all producers but these."""
        for number, each in enumerate(self.by_producer):
            if number not in used:
                each.end_left(cluster)

    def abort(self, cluster: Cluster) -> None:
        """Try to abort what the task has open in the cluster, for some seconds at most."""
        for each in self.by_producer:
            each.abort(cluster)

    def results(
        self, deliveries: Mapping[int, Delivery], rows: int, crc: int, *, takes_all: bool
    ) -> tuple[TaskResult, ...]:
        """The report for the driver. `rows` and `crc` are for the whole task; `deliveries` are those of the producers
        that had rows. `takes_all`: whether the cluster gets each row that a task has."""
        if not self.writes:
            first = self.by_producer[0]
            return (
                TaskResult(
                    first.begun.driver,
                    first.task.query_id,
                    skipped=True,
                    skipped_rows=rows if takes_all else None,
                    gone_without=first.plan.gone_without,
                ),
            )
        found = []
        for number, task in enumerate(self.by_producer):
            into = deliveries.get(number)
            if into is None:
                found.append(task.result(None, None, ()))
            else:
                taken = _ProducerRows(rows if len(self.by_producer) == 1 else into.records, crc)
                found.append(task.result(into.transaction, taken, into.written))
        return tuple(found)
