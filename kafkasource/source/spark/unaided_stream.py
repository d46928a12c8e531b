"""A streaming read on Spark 4.0 and 4.1, which tell a reader neither where a micro-batch starts nor the trigger.

Spark calls (seen on 4.0.4 and 4.1.4; x, y: ends of micro-batches in the checkpoint):

    new query                          latestOffset(), initialOffset(), partitions(initial, latest)
    restart                            partitions(x, x), latestOffset(), commit(x), partitions(x, y)
    restart, last batch not finished   partitions(y, y), partitions(x, y), latestOffset(), ...
    later batches                      latestOffset(), commit(last end), partitions(last end, new end)

So this reader keeps the position of the query itself. After a restart it is the end in the first call of `partitions`,
then the last answer of `latestOffset`: Spark runs each batch whose end is not its start. A new query has none, so it
starts where `initialOffset` will say in a moment (decision 122).

Under Trigger.AvailableNow and Trigger.Once, Spark asks `latestOffset` once in a run and ends after that batch. A limit
would leave the rest unread, and the query would end successfully. So a limit needs the option `trigger`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafkasource.errors import OptionError
from kafkasource.metrics.log_ends import log_ends_to_text, without_log_ends
from kafkasource.source.spark.stream import StreamReader
from kafkasource.spark.releases import SPARK_VERSION, ReadAllAvailable

if TYPE_CHECKING:
    from kafkasource.options import Options
    from kafkasource.source.plan.offsets import OffsetJson
    from kafkasource.source.spark.input_partition import KafkaInputPartition

log = logging.getLogger("kafkasource.source")

LIMITS = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger")


class UnaidedStreamReader(StreamReader):
    """The stream reader for a Spark that calls `latestOffset` without arguments."""

    def __init__(self, options: Options, *arguments: Any, **named: Any) -> None:
        check_trigger_is_named(options)
        super().__init__(options, *arguments, **named)

    def _forget(self) -> None:
        self._position: OffsetJson | None = None
        self._asked = False
        super()._forget()
        if self._options["trigger"] == "availableNow":
            self.prepareForTriggerAvailableNow()  # Spark does not call it

    def latestOffset(self) -> OffsetJson:  # type: ignore[override]
        """The end of the next micro-batch (exclusive).

        If limits leave records unread, a key of the document says where the logs end: there is no other way to Spark's
        progress (`kafkasource.lag`).
        """
        one_batch = self._options["trigger"] in ("availableNow", "once")
        self._check_asked_again(one_batch)
        if self._position is None:
            self._position = self.initialOffset()
        before = self._position
        limit = ReadAllAvailable() if one_batch else self.getDefaultReadLimit()
        answer = super().latestOffset(before, limit)
        if without_log_ends(answer) == without_log_ends(before):
            return before  # Spark compares the texts to find out whether anything is new
        latest = self._end_offsets.latest
        unread = {tp: end for tp, end in latest.offsets.items() if end > self._planned.get(tp, 0)} if latest else {}
        self._position = {**answer, log_ends_to_text(unread): {}} if unread and answer else answer
        return self._position

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[KafkaInputPartition]:
        if self._position is None:
            self._position = end
        return super().partitions(start, end)

    def _check_asked_again(self, one_batch: bool) -> None:
        if not one_batch:
            return
        if self._asked:
            raise OptionError(
                f"option 'trigger'={self._options['trigger']}: the query has another trigger, as Spark asked for a"
                " second micro-batch. Give the query this trigger, or set the option to 'processingTime'"
            )
        self._asked = True
        given = [name for name in LIMITS if name in self._options.given]
        if given:
            log.warning(
                "option 'trigger'=%s: Spark %s takes one micro-batch under this trigger, so %s has no effect: the batch"
                " reads all records up to the ends of the logs as they are now",
                self._options["trigger"],
                SPARK_VERSION,
                " and ".join(map(repr, given)),
            )


def check_trigger_is_named(options: Options) -> None:
    """Raise OptionError for options that work under some triggers only, unless the option `trigger` names one."""
    limits = [name for name in LIMITS if name in options.given]
    if limits and options["trigger"] is None:
        raise OptionError(
            f"option {limits[0]!r}: Spark {SPARK_VERSION} does not tell a Python data source the trigger of its query,"
            " and under Trigger.AvailableNow or Trigger.Once a limit would end the query with records unread. Set the"
            " option 'trigger' to the trigger that the query has ('processingTime', 'availableNow' or 'once'), or leave"
            f" {limits[0]!r} out. From Spark 4.2 on the option 'trigger' is not needed"
        )
    ends = sorted(options.given & {"endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"})
    if ends and options["trigger"] != "availableNow":
        raise OptionError(
            f"option {ends[0]!r}: in a streaming query it needs Trigger.AvailableNow, and Spark {SPARK_VERSION} does"
            " not tell a Python data source the trigger of its query. Start the query with .trigger(availableNow=True)"
            f" and set the option 'trigger' to 'availableNow', or leave {ends[0]!r} out"
        )
