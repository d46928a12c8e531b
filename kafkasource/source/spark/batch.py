"""A batch read: `spark.read.format("pykafka")`.

Spark plans a DataFrame once and keeps the plan for its life (seen on 4.2: one call of `partitions` for six actions).
So `earliest` and `latest` are bound later, in the tasks, as in the JVM connector: a second action sees new records, and
does not fail for those that aged out. The plan has an estimate of such an end, for sharing out the work.
Timestamps and committed offsets are bound in the plan. So are the inner ends of a partition that several tasks share: a
task that begins in the middle cannot tell whether the task before it read what has aged out since, so that is a loss.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from kafkasource.errors import OptionError
from kafkasource.kafka.cluster.cache import shared_cluster
from kafkasource.kafka.fetch import loss
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.offsets import EARLIEST, LATEST, Offsets
from kafkasource.source.plan.positions import check_start_before_end, ending_position, starting_position
from kafkasource.source.plan.subscription import parse_subscription
from kafkasource.source.spark.input_partition import KafkaInputPartition, PartitionReader, Reduced, input_partitions
from kafkasource.spark.tracebacks import without_tracebacks
from kafkasource.types import IsolationLevel, OffsetRange, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.formats.reading.formats import RowFormats
    from kafkasource.options import Options

log = logging.getLogger("kafkasource.source")


@without_tracebacks("partitions")
class BatchReader(DataSourceReader):
    """Spark's reader: `partitions` on the driver; in the tasks a `PartitionReader` stands for it.

    The constructor raises OptionError for faults that show without asking a broker.
    """

    def __init__(self, options: Options, formats: RowFormats | None = None) -> None:
        self._options = options
        self._subscription = parse_subscription(options)
        self._start = starting_position(options, streaming=False)
        end = ending_position(options, streaming=False)
        assert end is not None  # a batch has one
        self._end = end
        check_start_before_end(self._start, self._end)
        self._tasks = PartitionReader.from_options(options, formats)
        for name in options.no_effect_in("batch"):
            log.warning("option %r has no effect on a batch read", name)

    def partitions(self) -> list[KafkaInputPartition]:
        """Input partitions for all that the asked range holds: one per topic-partition, or as the options say."""
        cluster = shared_cluster(self._tasks.config)
        reader = OffsetReader.from_options(cluster, self._subscription, self._options)
        ranges = self._narrowed(*self._planned(reader), reader)
        return input_partitions(ranges, self._options, least_size=1)

    def _planned(self, reader: OffsetReader) -> tuple[list[OffsetRange], Offsets]:
        """The ranges, and where the logs ended when they were planned."""
        assigned = reader.assigned()
        starts, ends = self._start.resolve(assigned, reader), self._end.resolve(assigned, reader)
        latest = reader.latest(assigned)
        ends = self._as_far_as_logs_go(starts, ends, latest.offsets, reader)
        to_latest = {tp for tp, symbol in self._end.symbols(assigned).items() if symbol == LATEST}
        at_log_ends = to_latest | {tp for tp, end in ends.items() if end >= latest.offsets.get(tp, end)}
        ends |= self._starts_held_back(starts, {tp: ends[tp] for tp in at_log_ends & ends.keys()}, reader)
        ranges = plan_batch(
            starts,
            ends,
            from_earliest={tp for tp, symbol in self._start.symbols(assigned).items() if symbol == EARLIEST},
            to_latest=to_latest,
        )
        topic_ids = reader.topic_ids(assigned)
        planned = [
            replace(
                one,
                topic_id=topic_ids.get(one.topic_partition.topic),
                leader_epoch=latest.leader_epochs.get(one.topic_partition),
            )
            for one in ranges
        ]
        return planned, latest.offsets

    def _as_far_as_logs_go(self, starts: Offsets, ends: Offsets, latest: Offsets, reader: OffsetReader) -> Offsets:
        """The ends. An end beyond the log's is cut: a loss, as in the JVM connector, but found before any task runs.

        Under read_committed the records behind an open transaction can be read once it has ended: the tasks wait for
        it.
        """
        beyond = {tp: latest[tp] for tp in sorted(ends) if ends[tp] > latest.get(tp, ends[tp])}
        if beyond and self._options["kafka.isolation.level"] is IsolationLevel.READ_COMMITTED:
            high_watermarks = reader.high_watermarks(beyond)
            beyond = {tp: offset for tp, offset in high_watermarks.items() if ends[tp] > offset}
        cut = {tp: max(offset, starts.get(tp, offset)) for tp, offset in beyond.items()}
        loss.report(
            [
                loss.Loss(
                    loss.COULD_NOT_READ_OFFSET_RANGE,
                    f"Could not read records in offset [{offset}, {ends[tp]}) for topic partition {tp}: its log ends at"
                    f" {beyond[tp]} (option {self._end.option!r}).",
                    "The read continues with the records that exist.",
                    skipped={tp.topic: ends[tp] - offset},
                )
                for tp, offset in cut.items()
            ],
            fail_on_data_loss=self._options["failOnDataLoss"],
        )
        return ends | cut

    def _starts_held_back(self, starts: Offsets, log_ends: Offsets, reader: OffsetReader) -> Offsets:
        """Starts beyond the ends of logs, where open transactions alone put the ends there: there is nothing to read.

        An end that the user gave as an offset is not such an end: a start behind it contradicts it.
        """
        behind = {tp: starts[tp] for tp, end in log_ends.items() if end < starts.get(tp, end)}
        return reader.held_back({tp: start for tp, start in behind.items() if not self._end.was_in_log(tp)})

    def _narrowed(
        self, ranges: Sequence[OffsetRange], log_ends: Offsets, reader: OffsetReader
    ) -> Sequence[OffsetRange]:
        """The ranges to read of these. `FilteringBatchReader` reads less."""
        return ranges

    def read(self, partition: KafkaInputPartition) -> Iterator[pa.RecordBatch]:
        return self._tasks.read(partition)

    def __reduce__(self) -> Reduced:
        """Spark pickles the reader for the tasks alone."""
        return self._tasks.reduced()


def plan_batch(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    from_earliest: Collection[TopicPartition] = (),
    to_latest: Collection[TopicPartition] = (),
) -> list[OffsetRange]:
    """Ranges of a batch read, sorted. Empty ones are left out, except those that end at `latest`: records may come.

    Raises OptionError if a resolved start lies behind its end: the user's two options contradict each other.
    """
    ranges = []
    for tp in sorted(starts.keys() & ends.keys()):
        start, end = starts[tp], ends[tp]
        if start > end:
            raise OptionError(
                f"[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The resolved start offset {start} is greater than the"
                f" resolved end offset {end} for topic {tp.topic} partition {tp.partition}. Check whether the options"
                " start the read behind its end or the end of the log, or whether the topic has been recreated."
            )
        if start < end or tp in to_latest:
            ranges.append(OffsetRange(tp, start, end, from_earliest=tp in from_earliest, to_latest=tp in to_latest))
    return ranges
