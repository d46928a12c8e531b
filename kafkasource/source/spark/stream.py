"""A streaming read: `spark.readStream.format("pykafka")`, the driver's side.

One long-lived object in the reader process answers Spark's calls between micro-batches. Spark's checkpoint is the
truth: this object takes offsets from its arguments, never from its memory, so a restart continues where the checkpoint
says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.fetch import loss
from kafkasource.metrics.lag import LagLog, oldest_to_text
from kafkasource.options.table import OFFSET_BYTES, TASK_OFFSETS
from kafkasource.source.commits.committer import GroupCommitter, group_to_commit
from kafkasource.source.commits.oldest_unread import OldestUnread
from kafkasource.source.commits.owner import GroupOwner, owner_of
from kafkasource.source.plan.admission import Admission
from kafkasource.source.plan.end_offsets import EndOffsets
from kafkasource.source.plan.fail_over import failed_over
from kafkasource.source.plan.first_batch import FirstBatch
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.offsets import OffsetJson, PartitionOffsets, RecentOffsets, StreamOffset
from kafkasource.source.plan.open_transactions import OpenTransactions
from kafkasource.source.plan.planner import (
    advanced,
    carried,
    check_available_now,
    plan,
    questions,
    recreated_topics,
    unseen_topics,
)
from kafkasource.source.plan.positions import check_start_before_end, ending_position, starting_position
from kafkasource.source.plan.record_weights import RecordWeights
from kafkasource.source.plan.subscription import parse_subscription
from kafkasource.source.spark.input_partition import KafkaInputPartition, PartitionReader, Reduced, input_partitions
from kafkasource.source.spark.stop_file import StopFile
from kafkasource.spark.releases import ReadLimit, SupportsTriggerAvailableNow
from kafkasource.spark.tracebacks import without_tracebacks
from kafkasource.types import IsolationLevel

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.formats.reading.formats import RowFormats
    from kafkasource.kafka.config import ClientConfig
    from kafkasource.options import Options
    from kafkasource.types import OffsetRange, TopicPartition


@without_tracebacks("initialOffset", "latestOffset", "partitions", "commit")
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's stream reader. The constructor raises OptionError for faults that show without asking a broker."""

    def __init__(
        self,
        options: Options,
        open_cluster: Callable[[ClientConfig], Cluster] = Cluster,
        committer: Callable[..., GroupCommitter] = GroupCommitter,
        own: Callable[[Options, ClientConfig], GroupOwner | None] = owner_of,
        formats: RowFormats | None = None,
    ) -> None:
        self._options = options
        self._open_cluster = open_cluster
        self._subscription = parse_subscription(options)
        self._start = starting_position(options, streaming=True)
        self._end = ending_position(options, streaming=True)
        check_start_before_end(self._start, self._end)
        self._tasks = PartitionReader.from_options(options, formats)
        group = group_to_commit(options)
        self._owner = own(options, self._tasks.config)
        self._committer = None if group is None else self._commits_of(committer, group)
        self._isolation_level: IsolationLevel = options["kafka.isolation.level"]
        self._stop_file = StopFile(options["stopFile"])
        self._forget()

    def _forget(self) -> None:
        self._cluster: Cluster | None = None
        self._opened: OffsetReader | None = None
        self._weights: RecordWeights | None = None
        self._end_offsets = EndOffsets(self._end, self._options["trigger"])
        self._admission = Admission(self._options)
        self._open_transactions = OpenTransactions()
        self._log_lag = LagLog()
        self._oldest_unread: OldestUnread | None = None
        self._planned: PartitionOffsets = {}  # the end of the micro-batch that latestOffset answered last
        self._recent = RecentOffsets()
        self._first = FirstBatch(self._start, fail_on_data_loss=self._options["failOnDataLoss"])

    def _commits_of(self, committer: Callable[..., GroupCommitter], group: str) -> GroupCommitter:
        if self._owner is None:
            return committer(self._tasks.config, group)
        return committer(self._tasks.config, group, open_cluster=self._owner.committer)

    def __reduce__(self) -> Reduced:
        """Spark pickles the reader for the tasks alone: no connection and nothing of the driver's state."""
        return self._tasks.reduced()

    @property
    def _reader(self) -> OffsetReader:
        self._end_offsets.check_trigger()
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
        """The query must end after this call. The next `latestOffset` freezes its end offsets, not this call.

        A restart first repeats a planned batch, and the end offsets must include the end of that one (SPARK-53560).
        """
        self._end_offsets.freeze()

    def initialOffset(self) -> OffsetJson:
        """The start of a query without a finished micro-batch: `startingOffsets`, resolved when Spark first asks."""
        reader = self._reader

        def resolve() -> StreamOffset:
            offsets = self._start.resolve(reader.assigned(), reader)
            epochs = reader.leader_epochs(offsets)
            return StreamOffset(offsets, reader.topic_ids(offsets), epochs, cluster_id=reader.cluster_id)

        return self._recent.to_json(self._first.start(resolve))

    def latestOffset(self, start: OffsetJson | None = None, limit: ReadLimit | None = None) -> OffsetJson:
        """The end of the next micro-batch (exclusive): all records, or as many as the limits admit.

        Answers `start` itself if there is nothing new, not enough, or nothing at all: Spark must never checkpoint an
        empty offset. The end of a query's first micro-batch keeps its start (`first_batch`), even if the batch is
        empty.
        """
        reader = self._reader  # first: it joins the group, if the query has to own it
        begin = self._accepted(start or {})
        first = self._first.is_planned_from(begin)
        self._finished(begin)
        if self._stop_file.held():  # Spark runs a new query's first batch all the same, and a replay needs its start
            return self._recent.to_json(replace(begin, start=begin)) if first and begin.offsets else start or {}
        listed = self._end_offsets.listed(begin, reader)
        self._observe(begin, reader)
        ends = self._admission.admit(
            carried(begin, listed),
            listed.offsets,
            limit,
            earliest_of_new=reader.earliest,
            weigh=self._weigh,
        )
        end = advanced(begin, ends, listed, self._end_offsets.cut) if ends else None
        if first and (end is not None or begin.offsets):
            end = replace(end or begin, start=begin)
        self._planned = (end or begin).offsets
        if end is not None:
            return self._recent.to_json(end)
        if self._end_offsets.frozen is not None and self._committer is not None:
            self._committer.flush()  # the run is over: Spark ends this process next
        return start or {}

    def reportLatestOffset(self) -> OffsetJson | None:
        """The ends of the logs as last seen, beyond any limit: Spark reports them in the query's progress.

        Where metrics are wanted, a key beside the topics says when the oldest unread records were written (`lag`).
        """
        latest = self._end_offsets.latest
        if latest is None or not latest.offsets:
            return None
        document = self._recent.topics_to_json(latest.offsets)
        written_ms = self._oldest(latest.offsets)
        return {**document, oldest_to_text(written_ms): {}} if written_ms else document

    def commit(self, end: OffsetJson) -> None:
        """Spark's checkpoint has this end: commit it to the consumer group, if there is one (`commitOffsets`)."""
        self._finished(self._recent.from_json(end))

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[KafkaInputPartition]:
        """Input partitions for all records in [start, end): few if they are few (`minRecordsPerPartition`).

        Raises DataLoss, with `failOnDataLoss`, for records that the two offsets show to be lost.
        """
        until = self._accepted(end)
        begin = self._first.to_replay(self._accepted(start), until, lambda: self._reader)
        asked = questions(begin, until)
        if begin.offsets == until.offsets and not asked.epochs and not recreated_topics(begin, until):
            return []
        reader = self._reader
        if self._end_offsets.frozen is not None:
            latest = reader.latest(until.offsets, known=until).offsets
            deleted = self._deleted({tp.topic for tp in until.offsets.keys() - latest.keys()}, until)
            check_available_now(until.offsets, self._end_offsets.frozen.offsets, latest, deleted)
        earliest = reader.earliest(asked.earliest)
        planned = plan(
            begin,
            until,
            earliest,
            reader.epoch_ends(asked.epochs, begin, until),
            subscription=self._subscription,
            deleted=self._deleted(unseen_topics(begin, until, earliest), begin),
            seen_ends=self._end_offsets.ends_of_gone,
        )
        loss.report(
            planned.losses,
            fail_on_data_loss=self._options["failOnDataLoss"],
            fail_on_deleted_topic=self._options["failOnDeletedTopic"],
        )
        return input_partitions(planned.ranges, self._options, least_size=TASK_OFFSETS, weigh=self._weigh_ranges)

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

    def _accepted(self, document: OffsetJson) -> StreamOffset:
        """The offset of a checkpoint, as `failedOverTo` takes it."""
        offset = self._recent.from_json(document)
        wanted = self._options["failedOverTo"]
        return offset if wanted is None else failed_over(offset, wanted, self._reader.current_cluster_id())

    def _deleted(self, topics: Collection[str], known: StreamOffset) -> set[str]:
        """Find the topics that certainly were deleted, if the query may go on without them."""
        return set() if self._options["failOnDeletedTopic"] or not topics else self._reader.deleted(topics, known)

    def _finished(self, end: StreamOffset) -> None:
        """The micro-batch that ended here is done. For the last one before a pause, Spark shows that only with its next
        question."""
        if self._committer is not None and end.offsets:
            self._committer.offer(end.offsets, end.topic_ids, end.leader_epochs)

    def _observe(self, begin: StreamOffset, reader: OffsetReader) -> None:
        latest = self._end_offsets.latest
        if latest is not None:
            self._log_lag(begin.offsets, latest.offsets)
            if self._isolation_level is IsolationLevel.READ_COMMITTED and self._end_offsets.frozen is None:
                last_stable = self._end_offsets.last_stable
                watched = {**latest.offsets, **last_stable} if last_stable else latest.offsets
                self._open_transactions.watch(watched, reader.high_watermarks)

    def _oldest(self, ends: PartitionOffsets) -> Mapping[tuple[TopicPartition, int], int]:
        if self._oldest_unread is None:
            assert self._cluster is not None  # the end offsets were listed first
            self._oldest_unread = OldestUnread(self._cluster, self._isolation_level)
        return self._oldest_unread.times_ms(self._planned, ends)

    @property
    def _records(self) -> RecordWeights:
        if self._weights is None:
            assert self._cluster is not None  # the end offsets were listed first
            self._weights = RecordWeights(self._cluster, self._isolation_level)
        return self._weights

    def _weigh(
        self, begin: PartitionOffsets, end: PartitionOffsets, limit_bytes: int
    ) -> tuple[PartitionOffsets, Mapping[TopicPartition, float]]:
        weights = self._records.weigh(begin, end, limit_bytes)
        return self._records.past_holes(begin), weights

    def _weigh_ranges(self, ranges: Sequence[OffsetRange]) -> Mapping[TopicPartition, float]:
        return self._records.estimate(ranges, TASK_OFFSETS * OFFSET_BYTES)
