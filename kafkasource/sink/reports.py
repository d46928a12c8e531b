"""The report of a task to the driver about its rows. Plain values: Spark pickles them from the task to the commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from kafkasource import metrics
from kafkasource.types import Discarded, TopicPartition, Written

if TYPE_CHECKING:
    from kafkasource.exactly_once.task.plan import TaskResult
    from kafkasource.sink.clusters.offset_spans import Mapped


@dataclass(frozen=True)
class ClusterReport:
    """The report about one cluster."""

    written: dict[TopicPartition, Written] = field(default_factory=dict)  # acknowledged
    discarded: dict[TopicPartition, Discarded] = field(default_factory=dict)
    # Exactly once: one for each producer, or a single result of a task that skipped its rows.
    results: tuple[TaskResult, ...] = ()
    mapped: dict[TopicPartition, Mapped] = field(default_factory=dict)  # with `offsetMap`

    @property
    def records(self) -> int:
        """Acknowledged."""
        return sum(one.records for one in self.written.values())


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """The report of one task."""

    clusters: dict[str, ClusterReport]  # by the names of `Targets`
    kernel_compiled: bool = True  # in the worker that wrote the rows
    query_id: str | None = None  # only tasks know it; None: a batch write
    metrics: metrics.Snapshot | None = None  # metrics of the worker, if the driver wants them
