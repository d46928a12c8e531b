"""Exactly once in each cluster of a write: a task has a transaction for each producer of a cluster.

Each cluster has its own driver, decision and transactions, and knows nothing of the others. A restart may find a batch
decided in one cluster and not in another: then it is written again only in the other.

The slot of a transaction is task * producers + number of the producer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkasource.exactly_once.query_identity import IdentitySource
from kafkasource.exactly_once.task.content import ContentSum
from kafkasource.exactly_once.task.plan import BegunBatch, TaskResult
from kafkasource.exactly_once.task.task import Context, ExactlyOnceTask, Guarantee
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.producer.rows import Rows
from kafkasource.options import Options
from kafkasource.sink.clusters.deliveries import ClusterDelivery
from kafkasource.sink.clusters.targets import ClusterTarget

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster


def guarantees(shared: Options, targets: Mapping[str, ClusterTarget], *, batch_write: bool) -> dict[str, Guarantee]:
    """The guarantee of each cluster. Raises OptionError if the options give nothing to make transactional ids of."""
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
class ClusterTask:
    """One task in one cluster."""

    target: ClusterTarget
    by_producer: Sequence[ExactlyOnceTask]  # by the producer's number
    skipped: ContentSum = field(default_factory=ContentSum)

    @classmethod
    def start(
        cls, guarantee: Guarantee, begun: BegunBatch, context: Context | None, target: ClusterTarget
    ) -> ClusterTask:
        """Raises an error that keeps the task from writing. Asks no broker."""
        producers = target.producers
        by_producer = [ExactlyOnceTask.start(guarantee, begun, context, n, producers) for n in range(producers)]
        if producers > 1 and any(each.plan.again is not None for each in by_producer):
            raise begun.lost_error(
                by_producer[0].task.batch_id,
                ". But with 'producersPerCluster' above 1 the missing rows are not known: which producer a row without "
                "a key went to is not recorded",
            )
        return cls(target, by_producer)

    @property
    def writes(self) -> bool:
        """False: the batch is in this cluster already."""
        return self.by_producer[0].plan.write

    def skip(self, rows: Rows) -> None:
        """Count those of these rows that the cluster would get, where it has the batch already."""
        if self.target.takes(rows.topic):
            taken = self.target.rows(rows)
            if taken.count:
                self.skipped.add_rows(self.target.topic(rows.topic), taken)

    def open_transaction(self, cluster: Cluster, number: int) -> TaskTransaction:
        """The transaction of the producer with this number. Blocks."""
        return self.by_producer[number].open_transaction(cluster)

    def end_left(self, cluster: Cluster, used: Collection[int]) -> None:
        """Call `ExactlyOnceTask.end_left` for all producers but these."""
        for number, each in enumerate(self.by_producer):
            if number not in used:
                each.end_left(cluster)

    def abort(self, cluster: Cluster) -> None:
        """Try to abort what the task has open in the cluster, for some seconds at most."""
        for each in self.by_producer:
            each.abort(cluster)

    def results(self, deliveries: Mapping[int, ClusterDelivery], refused: ContentSum) -> tuple[TaskResult, ...]:
        """The report for the driver. `deliveries` are those of the producers that had rows. Rows of topics that
        the cluster refuses are part of the batch, too: a topic may be refused in one run and not in the next one."""
        if not self.writes:
            return (self.by_producer[0].skipped(self.skipped),)
        found: list[TaskResult] = []
        for number, task in enumerate(self.by_producer):
            into = deliveries.get(number)
            if into is None:
                found.append(task.result(None, ContentSum(), ()))
            else:
                found.append(task.result(into.transaction, into.content, into.written))
        found[0] = found[0].with_refused(refused)
        return tuple(found)
