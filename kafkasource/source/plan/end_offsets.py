"""Finds the offsets up to which a streaming query may read: the ends of its logs, listed for each micro-batch.

Under Trigger.AvailableNow the first listing of the run stays, so that the run ends. Only under this trigger can a query
have an end of its own: `endingOffsets`, `endingTimestamp` or `endingOffsetsByTimestamp` lower the end offsets. The JVM
connector refuses the first and the last of these options in every streaming query, and ignores the second.
"""

from __future__ import annotations

from dataclasses import replace

from kafkasource.errors import OptionError
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.offsets import Offsets, StreamOffset
from kafkasource.source.plan.planner import carried
from kafkasource.source.plan.positions import Position
from kafkasource.types import TopicPartition


class EndOffsets:
    """The end offsets (exclusive) of one run of a query. Reader process, one thread."""

    def __init__(self, end: Position | None, named_trigger: str | None = None) -> None:
        """`end`: where the query's options say it stops; None: nowhere. `named_trigger`: the option `trigger`."""
        self._end = end
        self._named_trigger = named_trigger
        self._freezes = False
        self.frozen: StreamOffset | None = None
        self.latest: StreamOffset | None = None  # as listed last, not lowered by `end`
        self.ends_of_gone: Offsets = {}  # of partitions that the last listing lacks: their ends, as listed before
        self.last_stable: Offsets = {}  # as listed last, where they are below what the query has read
        self.cut: set[TopicPartition] = set()  # as listed last: truncated, and grown again to what the query has read

    def freeze(self) -> None:
        """Keep the end offsets of the next listing until the run ends."""
        self._freezes = True

    def check_trigger(self) -> None:
        """Raise OptionError if the query has an end, but its trigger would let it run for ever, or if its trigger
        differs from the option `trigger`.

        Spark tells only Trigger.AvailableNow from others.
        """
        if self._named_trigger is not None and (self._named_trigger == "availableNow") != self._freezes:
            has = "the query has Trigger.AvailableNow" if self._freezes else "the query has another trigger"
            raise OptionError(
                f"option 'trigger'={self._named_trigger}: {has}. Start the query with the trigger that the option"
                " names, or leave the option out"
            )
        if self._end is not None and not self._freezes:
            kind = "offset" if self._end.option == "endingOffsets" else "timestamp"
            raise OptionError(
                f"ending {kind} not valid in streaming queries, except under Trigger.AvailableNow: start the query with"
                f" .trigger(availableNow=True), or leave the option {self._end.option!r} out"
            )

    def listed(self, begin: StreamOffset, reader: OffsetReader) -> StreamOffset:
        """The end offsets for a query that has read up to `begin`: listed again, unless they are frozen."""
        if self.frozen is not None:
            return self.frozen
        before = self.latest.offsets if self.latest is not None else {}
        assigned = reader.assigned(known=begin)
        ends = reader.latest(assigned, known=begin)
        self.latest = listed = ends.listed
        self.cut = reader.cut_and_regrown(begin, ends)
        gone = before.keys() - ends.offsets.keys()
        if gone or self.ends_of_gone:
            seen = {**self.ends_of_gone, **{tp: before[tp] for tp in gone}}
            self.ends_of_gone = {tp: end for tp, end in seen.items() if tp in begin.offsets and tp not in ends.offsets}
        self.last_stable = ends.last_stable
        if self._freezes:
            if self._end is not None:
                read = carried(begin, listed)
                listed = replace(listed, offsets=_lowered(listed.offsets, read, self._end, reader))
            self.frozen = listed
        return listed


def _lowered(latest: Offsets, begin: Offsets, end: Position, reader: OffsetReader) -> Offsets:
    """`latest`, but not beyond `end`, and not below `begin`: the query may have read beyond `end` in an earlier run.

    Where `end` does not name a partition, its end offset is `begin`; if `begin` does not have it, it is left out.
    """
    covered = end.covered(latest)
    ends = end.resolve(covered, reader)
    new = covered - begin.keys()
    floors = {**begin, **reader.earliest(new)} if new else begin
    return {tp: min(offset, max(ends.get(tp, floors[tp]), floors[tp])) for tp, offset in latest.items() if tp in floors}
