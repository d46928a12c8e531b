"""A streaming read: `spark.readStream.format("pykafka")`, the driver's side.

One long-lived object in the reader process answers Spark's calls between micro-batches. Spark's checkpoint is the
truth: offsets are taken from its arguments, never from what this object remembers, so a restart goes on where the
checkpoint says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kafkasource.client.cluster import Cluster
from kafkasource.errors import OptionError
from kafkasource.source import loss
from kafkasource.source.offset_reader import OffsetReader
from kafkasource.source.offsets import Offsets, from_json, to_json
from kafkasource.source.partition import KafkaInputPartition, PartitionReader, input_partitions
from kafkasource.source.planner import admit, check_available_now, plan
from kafkasource.source.positions import check_start_before_end, ending_position, starting_position
from kafkasource.source.subscription import parse_subscription

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.client.config import ClientConfig
    from kafkasource.options import Options

# Offsets that are worth a task of their own in a micro-batch: below, its fixed cost outweighs reading in parallel.
LEAST_SIZE = 25_000

OffsetJson = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's stream reader. The constructor raises OptionError for what can be seen wrong before a broker is asked."""

    def __init__(self, options: Options, open_cluster: Callable[[ClientConfig], Cluster] = Cluster) -> None:
        self._options = options
        self._open_cluster = open_cluster
        self._subscription = parse_subscription(options)
        self._start = starting_position(options, streaming=True)
        self._end = ending_position(options, streaming=True)
        if self._end is not None:
            raise OptionError("ending offset not valid in streaming queries: leave the option out")
        check_start_before_end(self._start, self._end)
        self._tasks = PartitionReader.from_options(options)
        self._forget()

    def _forget(self) -> None:
        self._cluster: Cluster | None = None
        self._freeze = False  # Trigger.AvailableNow
        self._frozen: Offsets | None = None  # its goal
        self._latest: Offsets | None = None  # as last listed
        self._first_start: Offsets | None = None  # what initialOffset answered, until a micro-batch follows
        self._seen: deque[tuple[OffsetJson, Offsets]] = deque(maxlen=3)  # offsets and their JSON, latest last

    def __reduce__(self) -> tuple[Any, ...]:
        """Spark pickles the reader for the tasks alone: no connection and nothing of the driver's state."""
        return PartitionReader, (self._tasks.config, self._tasks.settings)

    @property
    def _reader(self) -> OffsetReader:
        if self._cluster is None:
            self._cluster = self._open_cluster(self._tasks.config)
        return OffsetReader.from_options(self._cluster, self._subscription, self._options)

    def initialOffset(self) -> OffsetJson:
        """Where a query without a checkpoint starts: `startingOffsets`, resolved now."""
        reader = self._reader
        self._first_start = self._start.resolve(reader.assigned(), reader)
        return self._to_json(self._first_start)

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options["maxOffsetsPerTrigger"]
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """From here on the query must end. Its goal is frozen at the next `latestOffset`, not here (SPARK-53560).

        A restart first replays a planned batch, whose end the goal must include.
        """
        self._freeze = True

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None) -> Any:
        """Where the next micro-batch ends (exclusive): all there is, or as much as the limit admits.

        Answers `start` itself when there is nothing new, or nothing at all: an empty offset must never be checkpointed.
        """
        self._first_start = None
        begin = self._from_json(start or {})
        latest = self._goal(begin)
        if isinstance(limit, ReadMaxRows):
            begin_of_all = self._reader.earliest(latest.keys() - begin.keys()) | begin
            latest = admit(begin_of_all, latest, limit.max_rows)
        return self._to_json(latest) if latest and latest != begin else (start or {})

    def _goal(self, begin: Offsets) -> Offsets:
        if self._frozen is not None:
            return self._frozen
        reader = self._reader
        self._latest = reader.latest(reader.assigned(), known=begin).offsets
        if self._freeze:
            self._frozen = self._latest
        return self._latest

    # Spark brings back in each call what it was given in an earlier one: with 1,000 partitions that is worth noticing.

    def _to_json(self, offsets: Offsets) -> OffsetJson:
        for document, known in self._seen:
            if known is offsets:
                return document
        self._seen.append((to_json(offsets), offsets))
        return self._seen[-1][0]

    def _from_json(self, document: Mapping[str, Any]) -> Offsets:
        for known, offsets in self._seen:
            if known == document:
                return offsets
        return from_json(document)

    def reportLatestOffset(self) -> OffsetJson | None:
        """For the query's progress: the ends of the logs as last seen, beyond any limit."""
        return self._to_json(self._latest) if self._latest else None

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Any]:
        """Input partitions for all that is in [start, end): few when that is little (`minRecordsPerPartition`).

        Raises DataLoss, when `failOnDataLoss`, for what the two offsets show to be gone.
        """
        begin, until = self._from_json(start), self._from_json(end)
        if begin == until:
            return []
        begin = self._as_planned_first(begin, until)
        reader = self._reader
        if self._frozen is not None:
            check_available_now(until, self._frozen, reader.latest(until, known=until).offsets)
        planned = plan(begin, until, reader.earliest(until.keys() - begin.keys()))
        loss.report(planned.losses, fail_on_data_loss=self._options["failOnDataLoss"])
        return input_partitions(planned.ranges, self._options, least_size=LEAST_SIZE)

    def _as_planned_first(self, begin: Offsets, until: Offsets) -> Offsets:
        """Undo what a restart does to the start of a first micro-batch that never finished.

        Spark checkpoints the end of a batch, not the start of the first one, and asks `initialOffset` again before it
        replays that batch. `latest` is by then behind the batch's end, which is no loss: it is where the query
        started.
        """
        if begin != self._first_start:
            return begin
        may_advance = self._start.may_advance(begin)
        return {  # a partition that the batch's end does not know has been added since, and belongs to the next batch
            tp: min(offset, until[tp]) if tp in may_advance else offset
            for tp, offset in begin.items()
            if tp in until
        }

    def read(self, partition: KafkaInputPartition) -> Iterator[pa.RecordBatch]:
        return self._tasks.read(partition)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Spark's checkpoint has it; there is no consumer group to tell."""

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        self._forget()
