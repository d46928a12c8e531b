"""Ranges that end at `latest` take the log's end of the time when their task begins, as the JVM connector's batch does.

`earliest` needs nothing here: such a range begins at its planned start, unless that has aged out when it is fetched.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from kafkasource.client.cluster import Cluster
from kafkasource.client.offsets import LATEST, ListedOffset
from kafkasource.errors import UnknownTopicOrPartition
from kafkasource.source.fetch.planned_log import PlannedLog
from kafkasource.types import IsolationLevel, OffsetRange, TopicPartition


def bind_ends(cluster: Cluster, ranges: Sequence[OffsetRange], isolation_level: IsolationLevel) -> list[OffsetRange]:
    """The ranges, those that end at latest with the end of now: one ListOffsets for all of them, in parallel.

    A topic that is gone, or another one, keeps the planned end: that its records are gone shows when they are fetched.
    """
    late = [one for one in ranges if one.to_latest and PlannedLog(cluster, one).is_same_topic]
    listed = _latest(cluster, {one.topic_partition for one in late}, isolation_level)
    return [_bound(one, listed.get(one.topic_partition)) if one.to_latest else one for one in ranges]


def _latest(
    cluster: Cluster, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
) -> dict[TopicPartition, ListedOffset]:
    try:
        return cluster.offsets.list(dict.fromkeys(partitions, LATEST), isolation_level) if partitions else {}
    except UnknownTopicOrPartition:
        topics = {tp.topic for tp in partitions}
        if len(topics) == 1:
            return {}
        found: dict[TopicPartition, ListedOffset] = {}
        for topic in topics:
            found |= _latest(cluster, [tp for tp in partitions if tp.topic == topic], isolation_level)
        return found


def _bound(offset_range: OffsetRange, latest: ListedOffset | None) -> OffsetRange:
    """A log that ends below the plan's end has lost records, or has a new leader that does not know its end yet: then
    the planned end stays, and which of the two it is shows when it is fetched.
    """
    if latest is None or latest.offset is None or latest.offset <= offset_range.end_offset:
        return offset_range
    return replace(offset_range, end_offset=latest.offset, leader_epoch=latest.leader_epoch)
