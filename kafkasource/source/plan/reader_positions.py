"""The positions of a reader without a checkpoint: the next offset to read in each partition, and the log it belongs to.

The rule about lost records is that of a streaming query: `planner` compares two `StreamOffset`s, topic ids and leader
epochs included, and `loss` obeys `failOnDataLoss`. Only the first of the two has another origin: a query has it from
its checkpoint, a reader from its start (`begin`) and from the ranges that it has read since (`reached`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from kafkasource.kafka.fetch import loss
from kafkasource.kafka.fetch.loss import Loss
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.offsets import Offsets, PartitionOffsets, StreamOffset
from kafkasource.source.plan.planner import advanced, plan, questions, recreated_topics
from kafkasource.source.plan.positions import Position
from kafkasource.types import OffsetRange, TopicPartition

_LOOK_AGAIN_S = 5.0  # partitions come and go; a topic may be made again and be as long as the old one

Assigned = Callable[[StreamOffset], set[TopicPartition]]


class FetchPositions:
    """The positions of one reader. One thread. Asks brokers in `begin` and `next_ranges` only."""

    def __init__(
        self,
        reader: OffsetReader,
        start: Position,
        *,
        fail_on_data_loss: bool,
        assigned: Assigned | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`assigned`: asked now and then for the existing partitions. Without it only `begin` and `drop` change them.

        `clock` in seconds.
        """
        self._reader = reader
        self._start = start
        self._fail_on_data_loss = fail_on_data_loss
        self._assigned = assigned
        self._clock = clock
        self._look_again_s = clock() + _LOOK_AGAIN_S
        self._at = StreamOffset({})
        self._held: set[TopicPartition] = set()  # begun and not dropped; a deleted one may come back

    @property
    def offsets(self) -> Offsets:
        """The next offset to read in each partition."""
        return dict(self._at.offsets)

    def begin(self, partitions: Iterable[TopicPartition], start: Position | None = None) -> None:
        """Move to the start of these partitions. `start`: replaces the reader's own.

        Raises DataLoss if the start is an offset that the log does not hold (any more); with `failOnDataLoss=false` it
        warns and takes the nearer end of the log. Raises OptionError if a group has no committed offset and the start
        does not say what to do then.
        """
        wanted = set(partitions)
        if not wanted:
            return
        start = start or self._start
        topic_ids = self._reader.current_topic_ids(wanted, self._at)
        if recreated_topics(self._at, StreamOffset({}, topic_ids)):
            self.next_ranges()  # reports positions in the old topic as lost, and moves them to the new one
        starts = start.resolve(wanted, self._reader)
        first, last = self._reader.earliest(starts), self._reader.latest(starts)
        beyond = {tp: offset for tp, offset in starts.items() if offset > last.offsets.get(tp, offset)}
        ends = last.offsets | self._reader.held_back(beyond)
        self._held |= wanted
        begun, losses = _begun(start, wanted, starts, first, ends)
        self._report(losses)
        self._at = StreamOffset(
            {**self._at.offsets, **begun},
            {**self._at.topic_ids, **topic_ids},
            {**self._at.leader_epochs, **{tp: epoch for tp, epoch in last.leader_epochs.items() if tp in begun}},
        )

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget these partitions: another member has them, or none. It skips those that are not held."""
        gone = set(partitions)
        if not gone:
            return
        self._held -= gone
        offsets = {tp: offset for tp, offset in self._at.offsets.items() if tp not in gone}
        topics = {tp.topic for tp in offsets}
        self._at = StreamOffset(
            offsets,
            {topic: topic_id for topic, topic_id in self._at.topic_ids.items() if topic in topics},
            {tp: epoch for tp, epoch in self._at.leader_epochs.items() if tp in offsets},
        )

    def next_ranges(self) -> list[OffsetRange]:
        """From each position to the end of its log now, without empty ranges. Positions stay until `reached`.

        Raises DataLoss for lost records: a partition is gone, a topic was deleted and created again, a log was
        truncated or ends below the position. With `failOnDataLoss=false` it warns of each, and reading continues as the
        warning says: in a topic that was created again, from its earliest offsets.
        """
        moved = self._listed()
        if moved is None:
            return []
        asked = questions(self._at, moved)
        earliest = self._reader.earliest(asked.earliest) if asked.earliest else {}
        epoch_ends = self._reader.epoch_ends(asked.epochs, self._at, moved)
        planned = plan(self._at, moved, earliest, epoch_ends)
        self._report(planned.losses)
        starts = {one.topic_partition: one.start_offset for one in planned.ranges}
        self._at = replace(moved, offsets={tp: starts.get(tp, end) for tp, end in moved.offsets.items()})
        return planned.ranges

    def reached(self, ranges: Iterable[OffsetRange]) -> Offsets:
        """The reader has read these ranges to their ends. Returns the next offsets, which a group may commit."""
        ends = {one.topic_partition: one.end_offset for one in ranges}
        self.move(ends)
        return ends

    def move(self, offsets: PartitionOffsets) -> None:
        """Move to other offsets of the same logs. Raises ValueError for a partition that is not held."""
        foreign = offsets.keys() - self._at.offsets.keys()
        if foreign:
            raise ValueError(f"{loss.describe(foreign)} are not read here (any more): `begin` with them first")
        self._at = replace(self._at, offsets={**self._at.offsets, **offsets})

    def _listed(self) -> StreamOffset | None:
        """The ends of the logs, as those of a query's next micro-batch. None: nothing is new.

        If anything has moved since, it asks for topic ids after it listed the ends. If an id has changed, the ends may
        be those of the old log, so it lists them again.
        """
        at, reader = self._at, self._reader
        due = self._clock() >= self._look_again_s
        partitions: Collection[TopicPartition] = at.offsets.keys()
        if due:
            partitions = self._held if self._assigned is None else self._assigned(at)
        ends = reader.latest(partitions, at)
        listed, cut = ends.listed, reader.cut_and_regrown(at, ends)
        # `begin` may have just learned of a topic that was created again, with as many records as before.
        if listed.offsets == at.offsets and not cut and not recreated_topics(at, listed) and not due:
            return None
        topic_ids = reader.current_topic_ids(partitions, at) if partitions else {}
        if recreated_topics(at, StreamOffset({}, topic_ids)):
            listed = reader.latest(partitions, at).listed
        if due:
            self._look_again_s = self._clock() + _LOOK_AGAIN_S
        return advanced(at, listed.offsets, replace(listed, topic_ids=topic_ids), cut)

    def _report(self, losses: Iterable[Loss]) -> None:
        loss.report(losses, fail_on_data_loss=self._fail_on_data_loss)


def _begun(
    start: Position,
    wanted: Collection[TopicPartition],
    starts: PartitionOffsets,
    first: PartitionOffsets,
    last: PartitionOffsets,
) -> tuple[Offsets, list[Loss]]:
    """Decide where reading begins in logs that hold [first, last), and find the losses.

    `earliest` and `latest` are the log's own ends at this moment. An offset below the log is lost. An offset beyond
    it is lost if it is known to have been in the log; otherwise it does not exist yet, and reading begins at the end.
    An offset that an open transaction holds back is not beyond it: there the log ends at this offset.
    """
    symbols = start.symbols(wanted)
    begun: Offsets = {}
    losses = []
    gone = [tp for tp in wanted if tp not in starts or tp not in first or tp not in last]
    if gone:
        text = f"Cannot find initial offsets for partitions {loss.describe(gone)}. They may have been deleted."
        losses.append(Loss(loss.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS, text, "They are skipped."))
    for tp in sorted(set(wanted) - set(gone)):
        offset, log = starts[tp], f"the log holds [{first[tp]}, {last[tp]})"
        begun[tp] = max(first[tp], min(offset, last[tp]))
        said = f"{start.option!r} says {offset}"
        if offset < first[tp] and tp not in symbols:
            text = f"Could not read records in offset [{offset}, {first[tp]}) for topic partition {tp}: {said}, {log}."
            skipped = {tp.topic: first[tp] - offset}
            action = f"Reading begins at {first[tp]}."
            losses.append(Loss(loss.COULD_NOT_READ_OFFSET_RANGE, text, action, skipped=skipped))
        elif offset > last[tp] and start.was_in_log(tp):
            text = (
                f"Partition {tp} offset was changed from {offset} to {last[tp]}: {said}, {log} (topic recreated, log"
                " truncated, or an offset of another cluster)."
            )
            losses.append(Loss(loss.PARTITION_OFFSET_CHANGED, text, f"Reading begins at {last[tp]}."))
    return begun, losses
