"""A batch read: `spark.read.format("pykafka")`.

`earliest`, `latest`, -1 and -2 are resolved when Spark first plans the read. Spark keeps that plan for the
DataFrame's life (seen on 4.2: one call of `partitions` for six actions), so a second action reads the same offsets
again; `load()` again to see new records. The JVM connector resolves them later, in the tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader

from kafkasource.client.cache import shared_cluster
from kafkasource.source.offset_reader import OffsetReader
from kafkasource.source.partition import KafkaInputPartition, PartitionReader, input_partitions
from kafkasource.source.planner import plan_batch
from kafkasource.source.positions import check_start_before_end, ending_position, starting_position
from kafkasource.source.subscription import parse_subscription

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.options import Options

log = logging.getLogger("kafkasource.source")


class BatchReader(DataSourceReader):
    """Spark's reader: `partitions` on the driver; in the tasks a `PartitionReader` stands for it.

    The constructor raises OptionError for what can be seen wrong before a broker is asked.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._subscription = parse_subscription(options)
        self._start = starting_position(options, streaming=False)
        end = ending_position(options, streaming=False)
        assert end is not None  # a batch has one
        self._end = end
        check_start_before_end(self._start, self._end)
        self._tasks = PartitionReader.from_options(options)
        if options["maxOffsetsPerTrigger"] is not None:
            log.warning("option 'maxOffsetsPerTrigger' has no effect on a batch read")

    def partitions(self) -> list[Any]:
        """Input partitions for all that the asked range holds: one per topic-partition, or fewer (`maxPartitions`)."""
        options = self._options
        cluster = shared_cluster(self._tasks.config)
        reader = OffsetReader.from_options(cluster, self._subscription, options)
        assigned = reader.assigned()
        start = self._start.resolve(assigned, reader)
        end = self._end.resolve(assigned, reader)
        return input_partitions(plan_batch(start, end), options, least_size=1)

    def read(self, partition: KafkaInputPartition) -> Iterator[pa.RecordBatch]:
        return self._tasks.read(partition)

    def __reduce__(self) -> tuple[Any, ...]:
        """Spark pickles the reader for the tasks alone."""
        return PartitionReader, (self._tasks.config, self._tasks.settings)
