"""A streaming read: `spark.readStream.format("pykafka")`, the driver's side.

One long-lived object in the reader process answers Spark's calls between micro-batches. Spark's checkpoint is the
truth: offsets are taken from its arguments, never from what this object remembers, so a restart goes on where the
checkpoint says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from kafkasource.client.cluster import Cluster
from kafkasource.lag import LagLog
from kafkasource.source import loss
from kafkasource.source.admission import Admission
from kafkasource.source.goal import Goal
from kafkasource.source.group_offsets import GroupCommitter, group_to_commit
from kafkasource.source.group_owner import GroupOwner, owner_of
from kafkasource.source.offset_reader import OffsetReader
from kafkasource.source.offsets import OffsetJson, PartitionOffsets, RecentOffsets, StreamOffset
from kafkasource.source.open_transactions import OpenTransactions
from kafkasource.source.partition import KafkaInputPartition, PartitionReader, input_partitions
from kafkasource.source.planner import advanced, carried, check_available_now, plan, questions, recreated_topics
from kafkasource.source.positions import check_start_before_end, ending_position, starting_position
from kafkasource.source.record_weights import RecordWeights
from kafkasource.source.subscription import parse_subscription

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.client.config import ClientConfig
    from kafkasource.options import Options
    from kafkasource.types import TopicPartition

# Offsets that are worth a task of their own in a micro-batch: below, its fixed cost outweighs reading in parallel.
LEAST_SIZE = 25_000


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's stream reader. The constructor raises OptionError for what can be seen wrong before a broker is asked."""

    def __init__(
        self,
        options: Options,
        open_cluster: Callable[[ClientConfig], Cluster] = Cluster,
        committer: Callable[..., GroupCommitter] = GroupCommitter,
        own: Callable[[Mapping[str, Any], ClientConfig], GroupOwner | None] = owner_of,
    ) -> None:
        self._options = options
        self._open_cluster = open_cluster
        self._subscription = parse_subscription(options)
        self._start = starting_position(options, streaming=True)
        self._end = ending_position(options, streaming=True)
        check_start_before_end(self._start, self._end)
        self._tasks = PartitionReader.from_options(options)
        group = group_to_commit(options)
        self._owner = own(options, self._tasks.config)
        self._committer = None if group is None else self._commits_of(committer, group)
        self._read_committed = options["kafka.isolation.level"] == "read_committed"
        self._forget()

    def _forget(self) -> None:
        self._cluster: Cluster | None = None
        self._opened: OffsetReader | None = None
        self._weights: RecordWeights | None = None
        self._goal = Goal(self._end)
        self._admission = Admission(self._options)
        self._open_transactions = OpenTransactions()
        self._log_lag = LagLog()
        self._recent = RecentOffsets()
        self._first_start: StreamOffset | None = None  # what initialOffset answered, until a micro-batch follows

    def _commits_of(self, committer: Callable[..., GroupCommitter], group: str) -> GroupCommitter:
        if self._owner is None:
            return committer(self._tasks.config, group)
        return committer(self._tasks.config, group, open_cluster=self._owner.committer)

    def __reduce__(self) -> tuple[Any, ...]:
        """Spark pickles the reader for the tasks alone: no connection and nothing of the driver's state."""
        return PartitionReader, (self._tasks.config, self._tasks.settings, self._tasks.packing)

    @property
    def _reader(self) -> OffsetReader:
        self._goal.check_trigger()
        if self._opened is None:
            self._cluster = self._open_cluster(self._tasks.config)
            self._opened = OffsetReader.from_options(self._cluster, self._subscription, self._options)
        if self._owner is not None:
            opened = self._opened
            self._owner.hold(lambda: {tp.topic for tp in opened.assigned()})
        return self._opened

    # Spark's calls, in the order in which they come.

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._admission.read_limit()

    def prepareForTriggerAvailableNow(self) -> None:
        """From here on the query must end. Its goal is frozen at the next `latestOffset`, not here (SPARK-53560).

        A restart first replays a planned batch, whose end the goal must include.
        """
        self._goal.freeze()

    def initialOffset(self) -> OffsetJson:
        """Where a query without a checkpoint starts: `startingOffsets`, resolved now."""
        reader = self._reader
        offsets = self._start.resolve(reader.assigned(), reader)
        self._first_start = StreamOffset(offsets, reader.topic_ids(offsets), reader.leader_epochs(offsets))
        return self._recent.to_json(self._first_start)

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None) -> Any:
        """Where the next micro-batch ends (exclusive): all there is, or as much as the limits admit.

        Answers `start` itself when there is nothing new, not enough, or nothing at all: an empty offset must never be
        checkpointed.
        """
        self._first_start = None
        begin = self._recent.from_json(start or {})
        reader = self._reader  # first: it takes the group where that is to be owned
        self._finished(begin)
        listed = self._goal.seen_from(begin, reader)
        self._observe(begin, reader)
        ends = self._admission.admit(
            carried(begin, listed),
            listed.offsets,
            limit,
            earliest_of_new=reader.earliest,
            weigh=self._weigh,
        )
        end = advanced(begin, ends, listed) if ends else None
        if end is not None:
            return self._recent.to_json(end)
        if self._goal.frozen is not None and self._committer is not None:
            self._committer.flush()  # the run is over: Spark ends this process next
        return start or {}

    def reportLatestOffset(self) -> OffsetJson | None:
        """For the query's progress: the ends of the logs as last seen, beyond any limit."""
        latest = self._goal.latest
        return self._recent.topics_to_json(latest.offsets) if latest is not None and latest.offsets else None

    def commit(self, end: Mapping[str, Any]) -> None:
        """Spark's checkpoint has it: the consumer group, if there is one, is told (`commitOffsets`)."""
        self._finished(self._recent.from_json(end))

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Any]:
        """Input partitions for all that is in [start, end): few when that is little (`minRecordsPerPartition`).

        Raises DataLoss, when `failOnDataLoss`, for what the two offsets show to be gone.
        """
        begin, until = self._recent.from_json(start), self._recent.from_json(end)
        if begin.offsets == until.offsets and not recreated_topics(begin, until):
            return []
        begin = self._as_planned_first(begin, until)
        reader = self._reader
        if self._goal.frozen is not None:
            latest = reader.latest(until.offsets, known=until.offsets)
            check_available_now(until.offsets, self._goal.frozen.offsets, latest.offsets)
        asked = questions(begin, until)
        planned = plan(begin, until, reader.earliest(asked.earliest), reader.epoch_ends(asked.epochs))
        loss.report(planned.losses, fail_on_data_loss=self._options["failOnDataLoss"])
        return input_partitions(planned.ranges, self._options, least_size=LEAST_SIZE)

    def read(self, partition: KafkaInputPartition) -> Iterator[pa.RecordBatch]:
        return self._tasks.read(partition)

    def stop(self) -> None:
        if self._committer is not None:
            self._committer.close()
        if self._owner is not None:
            self._owner.close()
        if self._cluster is not None:
            self._cluster.close()
        self._forget()

    # Parts of them.

    def _as_planned_first(self, begin: StreamOffset, until: StreamOffset) -> StreamOffset:
        """Undo what a restart does to the start of a first micro-batch that never finished.

        Spark checkpoints the end of a batch, not the start of the first one, and asks `initialOffset` again before it
        replays that batch. `latest` is by then behind the batch's end, which is no loss: it is where the query
        started.
        """
        if begin != self._first_start:
            return begin
        may_advance = self._start.may_advance(begin.offsets)
        offsets = {  # a partition that the batch's end does not know has been added since, and belongs to the next
            tp: min(offset, until.offsets[tp]) if tp in may_advance else offset
            for tp, offset in begin.offsets.items()
            if tp in until.offsets
        }
        return StreamOffset(offsets, begin.topic_ids, begin.leader_epochs)

    def _finished(self, end: StreamOffset) -> None:
        """A micro-batch that ended here is done. That of the last one before a pause Spark tells only by asking on."""
        if self._committer is not None and end.offsets:
            self._committer.offer(end.offsets, end.topic_ids)

    def _observe(self, begin: StreamOffset, reader: OffsetReader) -> None:
        latest = self._goal.latest
        if latest is not None:
            self._log_lag(begin.offsets, latest.offsets)
            if self._read_committed and self._goal.frozen is None:
                self._open_transactions.watch(latest.offsets, reader.high_watermarks)

    def _weigh(
        self, begin: PartitionOffsets, end: PartitionOffsets, limit_bytes: int
    ) -> Mapping[TopicPartition, float]:
        if self._weights is None:
            assert self._cluster is not None  # the goal was asked for first
            self._weights = RecordWeights(self._cluster, self._options["kafka.isolation.level"])
        return self._weights.weigh(begin, end, limit_bytes)
