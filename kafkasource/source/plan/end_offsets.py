"""Where a streaming query is heading: the ends of the logs, listed for every micro-batch.

Under Trigger.AvailableNow it is what was there when the run first looked, so that the run ends; and only there a query
can be given an end of its own: `endingOffsets`, `endingTimestamp` or `endingOffsetsByTimestamp` cut the goal off. The
JVM connector refuses the first and the last of these in every streaming query, and ignores the second.
"""

from __future__ import annotations

from dataclasses import replace

from kafkasource.errors import OptionError
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.offsets import Offsets, StreamOffset
from kafkasource.source.plan.planner import carried
from kafkasource.source.plan.positions import Position


class Goal:
    """One run's goal. Reader process, one thread. `end`: of a query that is to stop there."""

    def __init__(self, end: Position | None) -> None:
        self._end = end
        self._freezes = False
        self.frozen: StreamOffset | None = None
        self.latest: StreamOffset | None = None  # as listed last, with nothing cut off

    def freeze(self) -> None:
        """Let the next listing be the last."""
        self._freezes = True

    def check_trigger(self) -> None:
        """Raise OptionError for an end that would never be reached, since the trigger lets the query run on."""
        if self._end is not None and not self._freezes:
            kind = "offset" if self._end.option == "endingOffsets" else "timestamp"
            raise OptionError(
                f"ending {kind} not valid in streaming queries, except under Trigger.AvailableNow: start the query with"
                f" .trigger(availableNow=True), or leave the option {self._end.option!r} out"
            )

    def seen_from(self, begin: StreamOffset, reader: OffsetReader) -> StreamOffset:
        """The goal for who has read up to `begin`. Lists the logs' ends anew, unless frozen."""
        if self.frozen is not None:
            return self.frozen
        assigned = reader.assigned(known=begin)
        topic_ids = reader.topic_ids(assigned)
        known = carried(begin, StreamOffset({}, topic_ids))
        ends = reader.latest(assigned, known=known)
        self.latest = goal = StreamOffset(ends.offsets, topic_ids, ends.leader_epochs)
        if self._freezes:
            if self._end is not None:
                goal = replace(goal, offsets=_cut_off(goal.offsets, known, self._end, reader))
            self.frozen = goal
        return goal


def _cut_off(latest: Offsets, begin: Offsets, end: Position, reader: OffsetReader) -> Offsets:
    """`latest`, but no further than `end`, and not back from `begin`, where a query may stand that read on before.

    A partition that `end` does not speak of stays where it is; one that is new besides is not read.
    """
    covered = end.covered(latest)
    ends = end.resolve(covered, reader)
    new = covered - begin.keys()
    floors = {**begin, **reader.earliest(new)} if new else begin
    return {tp: min(offset, max(ends.get(tp, floors[tp]), floors[tp])) for tp, offset in latest.items() if tp in floors}
