"""Decides once where a query's first micro-batch begins, and keeps that in case the batch runs again. On the driver.

Spark logs the end of a micro-batch before the batch runs, and takes its start from the end of the batch before. The
first batch has none before it: Spark asks `initialOffset` instead, again after each restart, and twice for a new
query (as traced on 4.2.0):

    new query    initialOffset, latestOffset(start), [end is logged], initialOffset again, partitions(start, end)
    restart      initialOffset, partitions(start, logged end), latestOffset(logged end)

Before the restart records may age out or arrive, and options and partitions may change. So the end of the first batch
keeps its start (`StreamOffset.start`), and a batch that runs again begins there. When Spark asks `initialOffset`, it
does not say which of the two cases it is. So a start that does not resolve is an error only when the query needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkasource.errors import GroupAuthorizationFailed, KafkaSourceError, OptionError
from kafkasource.kafka.fetch import loss
from kafkasource.kafka.fetch.loss import Loss
from kafkasource.source.plan.offsets import EARLIEST, Offsets, StreamOffset
from kafkasource.source.plan.positions import Position
from kafkasource.types import TopicPartition

if TYPE_CHECKING:
    from kafkasource.source.plan.offset_reader import OffsetReader


class FirstBatch:
    """The first batch as one process knows it: nothing if the query is past it. For Spark's thread alone."""

    def __init__(self, position: Position, *, fail_on_data_loss: bool) -> None:
        self._position = position
        self._fail_on_data_loss = fail_on_data_loss
        self._start: StreamOffset | None = None  # the answer to the first question
        self._error: KafkaSourceError | None = None  # why that is a placeholder
        self._planned_here = False  # this process planned it: the query is new
        self._replayed = False

    def start(self, resolve: Callable[[], StreamOffset]) -> StreamOffset:
        """The answer to `initialOffset`: `startingOffsets`, resolved once in a process.

        If they do not resolve, the answer has no partitions, and the next call that needs them raises the error.
        """
        if self._start is None:
            try:
                self._start = resolve()
            except (OptionError, GroupAuthorizationFailed) as error:
                self._start, self._error = StreamOffset({}), error
        return self._start

    def is_planned_from(self, begin: StreamOffset) -> bool:
        """Is a micro-batch that is planned now, from `begin` on, the first one?

        Raises the error of a start that does not resolve.
        """
        if begin != self._start or self._replayed:
            if not self._planned_here:  # the query was restarted, and is past its first batch
                self._start = None
            return False
        if self._error is not None:
            raise self._error
        self._planned_here = True
        return True

    def to_replay(self, begin: StreamOffset, until: StreamOffset, reader: Callable[[], OffsetReader]) -> StreamOffset:
        """Find where a batch really begins, when Spark says `begin`. The first batch begins where its plan did.

        Raises DataLoss, with `failOnDataLoss`, if the end keeps no start: the JVM connector stores it elsewhere.
        """
        if self._start is None or begin != self._start:
            return begin
        self._replayed = not self._planned_here
        if until.start is not None or not until.offsets:
            return until.start or until
        known = _lasting(until.offsets, self._position, reader())
        unknown = sorted(until.offsets.keys() - known.keys())
        if unknown:
            loss.report([_unknown(unknown, self._position.option)], fail_on_data_loss=self._fail_on_data_loss)
            if self._error is not None:
                raise self._error
        of_now = {tp: min(begin.offsets[tp], until.offsets[tp]) for tp in unknown if tp in begin.offsets}
        return StreamOffset(known | of_now)


def _lasting(ends: Offsets, position: Position, reader: OffsetReader) -> Offsets:
    """The starts of those partitions, among these with ends, that can have had no other start in the plan.

    They are the offsets that the option gives, the beginning of a log that still has its first record, and an end of 0.
    """
    written = position.written(ends)
    known = {tp: offset for tp, offset in written.items() if offset >= 0} | {tp: 0 for tp in ends if not ends[tp]}
    earliest = reader.earliest([tp for tp, symbol in written.items() if symbol == EARLIEST and tp not in known])
    return known | {tp: 0 for tp, offset in earliest.items() if offset == 0}


def _unknown(partitions: list[TopicPartition], option: str) -> Loss:
    return Loss(
        loss.FIRST_START_UNKNOWN,
        "The query's first micro-batch was planned and not finished, and its checkpoint does not say where it begins"
        f" in {loss.describe(partitions)}. The JVM connector keeps that in the checkpoint's file sources/0/0"
        " (sources/1/0 for the second source of a query, and so on). The"
        f" option {option!r} may mean another place now. To do the batch again as it was planned, restart"
        " the query with 'startingOffsets' set to the JSON in that file, in place of options that name a timestamp.",
        f"It is read from where {option!r} begins now.",
    )
