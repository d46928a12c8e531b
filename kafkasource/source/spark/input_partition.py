"""The input partitions that Spark carries from the plan to a task, and the reader in the task. For batch and stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from kafkasource import metrics
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.fetch.config import FetchSettings
from kafkasource.source.plan.tasks import pack, split
from kafkasource.spark.garbage import spare_imports_from_gc
from kafkasource.spark.tracebacks import without_tracebacks
from kafkasource.types import OffsetRange, Packing, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.formats.reading.formats import RowFormats
    from kafkasource.options import Options


class KafkaInputPartition(InputPartition):
    """The ranges of one task, in the order in which it reads them. Pickled to the executor."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(ranges)


Weigh = Callable[[Sequence[OffsetRange]], Mapping[TopicPartition, float]]  # bytes per offset, where known


def input_partitions(
    ranges: Sequence[OffsetRange], options: Options, *, least_size: int, weigh: Weigh | None = None
) -> list[KafkaInputPartition]:
    """The tasks that read `ranges`. `least_size` stands for `minRecordsPerPartition` if no option sets a size.

    Then it also calls `weigh`, but only where ranges would share a task: heavy ranges get tasks of their own. Ranges
    that are empty, but end at `latest`, get no task of their own: the task with the least to do reads them last.
    """
    min_partitions, max_records = options["minPartitions"], options["maxRecordsPerPartition"]
    if options["minRecordsPerPartition"] is not None:
        least_size, weigh = options["minRecordsPerPartition"], None
    elif min_partitions is not None or max_records is not None:
        least_size, weigh = 1, None
    pieces = split(ranges, at_least=min_partitions, max_size=max_records)
    share = partial(pack, pieces, least_size=least_size, at_least=min_partitions or 1, at_most=options["maxPartitions"])
    tasks = share()
    if weigh is not None and len(tasks) < len(pieces):
        tasks = share(weights=weigh(pieces))
    empty = tuple(one for one in ranges if one.size == 0)
    if empty:
        least = min(range(len(tasks)), key=lambda n: sum(one.size for one in tasks[n]), default=None)
        if least is None:
            tasks = [empty]
        else:
            tasks[least] += empty
    return [KafkaInputPartition(task) for task in tasks]


@without_tracebacks("read")
@dataclass(frozen=True, slots=True)
class PartitionReader:
    """Takes the place of a reader in the tasks: plain values that the driver has parsed and checked once.

    Each task unpickles its own copy, so it brings no modules that only the driver needs.
    """

    config: ClientConfig
    settings: FetchSettings
    packing: Packing | None = None  # `packRecords`
    formats: RowFormats | None = None  # `valueFormat`, `keyFormat`
    most_rows: int | None = None  # of a task, for a query that needs no more

    @classmethod
    def from_options(cls, options: Options, formats: RowFormats | None = None) -> PartitionReader:
        """Raises OptionError for options that contradict each other."""
        packing = Packing(options["addHeaders"] or ()) if options["packRecords"] else None
        settings = FetchSettings.from_options(options)
        if formats is not None:
            settings = replace(settings, columns=formats.fetched)
        return cls(ClientConfig.from_options(options), settings, packing, formats)

    def reduced(self) -> Reduced:
        """Make the decoders, in a task. May ask a schema registry."""
        formats = None if self.formats is None else self.formats.for_tasks()
        return PartitionReader, (self.config, self.settings, self.packing, formats, self.most_rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of a partition's ranges. Runs in an executor's Python worker, whose connections outlive the task."""
        from kafkasource.kafka.cluster.cache import shared_cluster
        from kafkasource.kafka.fetch.kept_cluster import fetch_kept

        spare_imports_from_gc()
        # If a plan is empty, Spark reads one partition: None on 4.1, one of None later.
        ranges = (partition and partition.value) or ()
        try:
            batches = fetch_kept(self.config, ranges, self.settings)
            if self.formats is not None:
                from kafkasource.formats.reading.batches import typed_batches

                batches = typed_batches(batches, self.formats, lambda: shared_cluster(self.config).metadata.cluster_id)
            if self.packing is not None:
                from kafkasource.kafka.records.arrow.packed import pack

                packing = self.packing
                batches = (pack(batch, packing) for batch in batches if batch.num_rows)
            yield from batches if self.most_rows is None else _first_rows(batches, self.most_rows)
        finally:
            metrics.publish()


def _first_rows(batches: Iterator[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, count)
        count -= batch.num_rows
        if count <= 0:
            return


Reduced = tuple[
    type[PartitionReader], tuple[ClientConfig, FetchSettings, Packing | None, "RowFormats | None", "int | None"]
]
"""The pickled form of a driver's reader: it becomes a PartitionReader in the tasks."""
