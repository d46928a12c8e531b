"""What Spark carries from the plan to a task, and what a task does with it: the same for batch and stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from kafkasource.types import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.options import Options


class KafkaInputPartition(InputPartition):
    """The ranges that one task reads, one after the other. Pickled to the executor."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(ranges)


def one_task_each(ranges: list[OffsetRange]) -> list[Any]:
    """One input partition per topic-partition: its records stay in order within a task."""
    return [KafkaInputPartition((offset_range,)) for offset_range in ranges]


def read(options: Options, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Rows of a partition's ranges. Runs in an executor's Python worker, whose connections outlive the task."""
    from kafkasource.client.config import ClientConfig
    from kafkasource.source.fetcher import FetchSettings, fetch

    config = ClientConfig.from_options(options)
    settings = FetchSettings.from_options(options)
    yield from fetch(config, partition.value or (), settings)  # where a plan is empty, Spark reads a partition of None
