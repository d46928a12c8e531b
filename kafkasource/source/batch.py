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
from kafkasource.client.config import ClientConfig
from kafkasource.source import partition as tasks
from kafkasource.source.fetch_protocol import FetchSettings
from kafkasource.source.offset_reader import OffsetReader
from kafkasource.source.offsets import check_start_before_end, ending_offsets, starting_offsets
from kafkasource.source.planner import plan_batch
from kafkasource.source.subscription import parse_subscription

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.options import Options

log = logging.getLogger("kafkasource.source")


class BatchReader(DataSourceReader):
    """Spark's reader: `partitions` on the driver, `read` in the tasks. Plain values only, so it pickles.

    The constructor raises OptionError for what can be seen wrong before a broker is asked.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._subscription = parse_subscription(options)
        self._start = starting_offsets(options, streaming=False)
        self._end = ending_offsets(options, streaming=False)
        check_start_before_end(self._start, self._end)
        FetchSettings.from_options(options)
        if options["maxOffsetsPerTrigger"] is not None:
            log.warning("option 'maxOffsetsPerTrigger' has no effect on a batch read")

    def partitions(self) -> list[Any]:
        """Input partitions for all that the asked range holds: one per topic-partition, or fewer (`maxPartitions`)."""
        options = self._options
        cluster = shared_cluster(ClientConfig.from_options(options))
        reader = OffsetReader(
            cluster,
            self._subscription,
            options["kafka.isolation.level"],
            retry_ms=options["kafka.retry.backoff.max.ms"],
        )
        assigned = reader.assigned()
        start = self._start.resolve(assigned, reader.list_offsets)
        end = self._end.resolve(assigned, reader.list_offsets)
        return tasks.input_partitions(plan_batch(start, end), options, least_size=1)

    def read(self, partition: tasks.KafkaInputPartition) -> Iterator[pa.RecordBatch]:
        return tasks.read(self._options, partition)
