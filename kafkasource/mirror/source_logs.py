"""Asks a source for its topics, and where flows without a position start in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from kafkasource import options
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.mirror.plan import Route
from kafkasource.mirror.positions import Logs
from kafkasource.mirror.restart import SourceTopics
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.offsets import LATEST, Offsets, StreamOffset
from kafkasource.source.plan.positions import AtOffsets, AtTimestamps, Position, starting_position
from kafkasource.source.plan.subscription import parse_subscription
from kafkasource.types import TopicPartition


def source_now(route: Route, known: Collection[str], first: bool) -> SourceTopics:
    """The topics that the route takes, and which of the `known` topics were deleted.

    `first`: nothing has a position, so the readers start as the options say. Blocks; raises the errors of clients.
    """
    parsed = options.parse(dict(route.read), "source")
    with Cluster(ClientConfig.from_options(parsed)) as cluster:
        reader = OffsetReader.from_options(cluster, parse_subscription(parsed), parsed)
        partitions = reader.assigned()
        earliest = reader.earliest(partitions)
        start = starting_position(parsed, streaming=True)
        configured = earliest if first else {**earliest, **_configured(start, earliest, reader)}
        missing = set(known) - {tp.topic for tp in partitions}
        ids = {topic: str(its) for topic, its in reader.topic_ids(earliest).items()}
        return SourceTopics(
            Logs(configured, earliest, isinstance(start, AtOffsets) and start.others == LATEST),
            ids,
            reader.deleted(missing, StreamOffset({})) if missing else (),
        )


def topics_now(route: Route) -> set[str]:
    """The names of the source's topics. Blocks; raises the errors of clients."""
    with Cluster(ClientConfig.from_options(options.parse(dict(route.read), "source"))) as cluster:
        return {topic.name for topic in cluster.topics.list()}


def _configured(start: Position, partitions: Iterable[TopicPartition], reader: OffsetReader) -> Offsets:
    """The offsets where the options let these partitions start. Partitions that they do not name are left out."""
    covered = start.covered(partitions)
    if isinstance(start, AtOffsets):
        topics = {tp.topic for tp in covered}
        start = replace(
            start,
            topics={topic: word for topic, word in start.topics.items() if topic in topics},
            partitions={tp: offset for tp, offset in start.partitions.items() if tp in covered},
        )
    elif isinstance(start, AtTimestamps) and start.everywhere_ms is None:
        start = replace(start, partitions_ms={tp: ms for tp, ms in start.partitions_ms.items() if tp in covered})
    return start.resolve(covered, reader) if covered else {}
