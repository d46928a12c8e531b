"""Reads the ranges of one task, one after the other. Runs in an executor's Python worker, or in a `Reader`.

A task of many small ranges does not pay a round trip for each: once it has sent the last fetch of a range, it begins
the ranges behind it. The task has at most `readAhead` x `max.partition.fetch.bytes` in flight, for all its
ranges together, or what the memory budget leaves (`budget`). It holds one answer of at most that size. A record batch
that is larger than a fetch comes whole.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic

from kafkasource.errors import UnknownTopicOrPartition
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.offsets import LATEST, ListedOffset
from kafkasource.kafka.fetch.budget import FetchBudget
from kafkasource.kafka.fetch.config import FetchSettings
from kafkasource.kafka.fetch.fetcher import PartitionFetcher
from kafkasource.kafka.fetch.memory import leased_memory
from kafkasource.kafka.fetch.partition import ClusterPartition, Sent
from kafkasource.kafka.fetch.planned_log import PlannedLog, compare, learn, planned_epochs
from kafkasource.kafka.network.log_view import Verdict
from kafkasource.types import IsolationLevel, OffsetRange, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


def fetch(cluster: Cluster, ranges: Iterable[OffsetRange], settings: FetchSettings) -> Iterator[pa.RecordBatch]:
    """The rows of the ranges, one range after the other.

    A generator. Closing it forgets the fetches in flight.
    """
    with leased_memory(settings) as memory:
        budget = FetchBudget(settings, memory)
        yield from in_order(
            [
                PartitionFetcher(one, settings, partition, budget)
                for one, partition in open_partitions(cluster, ranges, settings)
            ]
        )


def open_partitions(
    cluster: Cluster, ranges: Iterable[OffsetRange], settings: FetchSettings
) -> list[tuple[OffsetRange, ClusterPartition]]:
    """A task's ranges that are not empty, with their ends bound, each with its partition.

    It asks for all of them at once what the first fetches need to know: mostly nothing.
    """
    logs = [PlannedLog(cluster, one) for one in ranges]
    learn(cluster, logs)
    bind_ends(cluster, logs, settings.isolation_level)
    logs = [log for log in logs if log.offset_range.size > 0]
    _compare(cluster, logs)
    return [(log.offset_range, ClusterPartition(cluster, log, settings)) for log in logs]


def _compare(cluster: Cluster, logs: Sequence[PlannedLog]) -> None:
    """Compare what can be: where a topic is gone, its fetch asks again, and reports what is lost."""
    try:
        compare(cluster, logs)
    except UnknownTopicOrPartition:
        topics = {log.topic_partition.topic for log in logs}
        for topic in topics if len(topics) > 1 else ():
            _compare(cluster, [log for log in logs if log.topic_partition.topic == topic])


def bind_ends(cluster: Cluster, logs: Sequence[PlannedLog], isolation_level: IsolationLevel) -> None:
    """Ranges that end at `latest` end where the log does now, as in the JVM connector's batch.

    One ListOffsets for all of them, in parallel. A range keeps its planned end where the topic is gone, or is another
    one: the fetch shows that its records are gone. It also keeps it where the log ends below it. Such a log has lost
    records, or has a new leader that does not know its end yet, and the fetch shows which of the two it is.

    `earliest` needs nothing here: such a range begins at its planned start, or where the log does when it is fetched.
    """
    late = [log for log in logs if log.offset_range.to_latest and log.verdict is not Verdict.ANOTHER_TOPIC]
    listed = _latest(cluster, {log.topic_partition for log in late}, isolation_level, planned_epochs(late))
    for log in logs:
        latest = listed.get(log.topic_partition) if log.offset_range.to_latest else None
        if latest is not None and latest.offset is not None and latest.offset > log.offset_range.end_offset:
            log.bind_end(latest.offset, latest.leader_epoch)


def _latest(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    isolation_level: IsolationLevel,
    epochs: Mapping[TopicPartition, int],
) -> dict[TopicPartition, ListedOffset]:
    """The end offsets of the logs now, without the partitions of topics that are gone."""
    try:
        wanted = dict.fromkeys(partitions, LATEST)
        return cluster.offsets.list(wanted, isolation_level, epochs=epochs) if partitions else {}
    except UnknownTopicOrPartition:
        topics = {tp.topic for tp in partitions}
        if len(topics) == 1:
            return {}
        found: dict[TopicPartition, ListedOffset] = {}
        for topic in topics:
            found |= _latest(cluster, [tp for tp in partitions if tp.topic == topic], isolation_level, epochs)
        return found


def in_order(
    fetchers: Iterable[PartitionFetcher[Sent]], clock: Callable[[], float] = time.monotonic
) -> Iterator[pa.RecordBatch]:
    """The rows of one fetcher after the other. The fetchers share one budget. `clock`: theirs, in seconds."""
    return _InOrder(fetchers, clock).batches()


class _InOrder(Generic[Sent]):
    """The fetchers of one task. The first of `_begun` is read, the others have sent their first fetch."""

    def __init__(self, fetchers: Iterable[PartitionFetcher[Sent]], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting = deque(fetchers)
        self._begun: deque[PartitionFetcher[Sent]] = deque()

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            while self._waiting or self._begun:
                self._begin_coming()
                fetcher = self._begun[0]
                fetcher.restart_patience()
                while not fetcher.is_done:
                    if fetcher.receive():
                        self._begin_coming()
                        away_since = self._clock()
                        yield from fetcher.rows()
                        self._was_away(self._clock() - away_since)
                fetcher.close()
                self._begun.popleft()
        finally:
            for fetcher in self._begun:
                fetcher.close()

    def _was_away(self, seconds: float) -> None:
        """Give the fetches in flight the time that Spark took for the rows, in which nobody polled for answers. A late
        fetch would end its connection, with all that is under way on it."""
        for fetcher in self._begun:
            fetcher.extend(seconds)

    def _begin_coming(self) -> None:
        """Begin the next ranges, as far as the budget allows, once the begun ones have sent their last fetches."""
        while self._waiting:
            if self._begun and not (self._begun[-1].is_covered and self._waiting[0].may_begin):
                return
            self._begun.append(self._waiting.popleft())
            self._begun[-1].begin()
