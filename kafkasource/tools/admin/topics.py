"""Topics, as operators look at them: which exist, whether they are healthy, where their logs begin and end."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkasource.errors import KafkaSourceError
from kafkasource.options.spelling import did_you_mean
from kafkasource.types import IsolationLevel

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.kafka.cluster.log_dirs import LogSizes
    from kafkasource.kafka.cluster.topics import Setting
    from kafkasource.kafka.network.metadata import TopicMetadata
    from kafkasource.types import TopicPartition

log = logging.getLogger("kafkasource.admin")


def described_topics(cluster: Cluster, topics: Iterable[str]) -> dict[str, TopicMetadata | None]:
    """The topics as they are now; None: the topic does not exist. Creates no topic, also on brokers before 0.11, which
    create each topic that a request names."""
    from kafkasource.kafka.protocol.apis import METADATA

    names = list(topics)
    if cluster.supports(METADATA, 4):
        return cluster.topics.describe(names, propagation_ms=0)
    there = {topic.name for topic in cluster.topics.list()}
    described = cluster.topics.describe([name for name in names if name in there], propagation_ms=0)
    return {name: described.get(name) for name in names}


def existing(cluster: Cluster, topics: Iterable[str]) -> dict[str, TopicMetadata]:
    """The topics as they are now. Raises KafkaSourceError naming those that do not exist."""
    described = described_topics(cluster, topics)
    missing = [name for name, topic in described.items() if topic is None]
    if missing:
        known = [topic.name for topic in cluster.topics.list() if not topic.internal]
        named = ", ".join(f"{name!r}{did_you_mean(name, known)}" for name in missing)
        raise KafkaSourceError(f"no topic {named} (`pykafka topics list` shows all)")
    return {name: topic for name, topic in described.items() if topic is not None}


def check_partitions(topic: TopicMetadata, numbers: Iterable[int]) -> None:
    """Raise KafkaSourceError for a partition that the topic does not have."""
    strange = sorted(set(numbers) - topic.partitions.keys())
    if strange:
        raise KafkaSourceError(
            f"topic {topic.name!r} has no partition {strange[0]}; it has 0 to {len(topic.partitions) - 1}"
        )


class Bounds(NamedTuple):
    earliest: int | None  # None: the partition has no leader
    latest: int | None  # exclusive

    @property
    def offsets(self) -> int | None:
        """How many there are: at least as many as records."""
        return None if self.earliest is None or self.latest is None else self.latest - self.earliest


def health(topic: TopicMetadata) -> str:
    """`ok`, or how many partitions have no leader, or too few replicas in sync."""
    leaderless = sum(partition.leader_id is None for partition in topic.partitions.values())
    behind = sum(len(partition.in_sync_replicas) < len(partition.replicas) for partition in topic.partitions.values())
    if leaderless:
        return f"{leaderless} without a leader"
    return f"{behind} under-replicated" if behind else "ok"


def bounds_of(
    cluster: Cluster,
    topics: Iterable[TopicMetadata],
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, Bounds]:
    """The first and last offsets of each log. Skips partitions without a leader: the call would wait for one."""
    from kafkasource.kafka.cluster.offsets import EARLIEST, LATEST

    all_of_them = [tp for topic in topics for tp in topic.topic_partitions]
    led = [tp for tp in all_of_them if cluster.metadata.leader_id(tp) is not None]
    try:
        first = cluster.offsets.list(dict.fromkeys(led, EARLIEST))
        last = cluster.offsets.list(dict.fromkeys(led, LATEST), isolation_level)
    except KafkaSourceError as error:
        log.warning("cannot show offsets: %s", error)
        first = last = {}
    return {tp: Bounds(first[tp].offset, last[tp].offset) if tp in first else Bounds(None, None) for tp in all_of_them}


def totals(topic: TopicMetadata, bounds: Mapping[TopicPartition, Bounds], sizes: LogSizes) -> dict[str, Any]:
    """One topic as JSON, without its partitions. `offsets` and `bytes`: None where nobody knows any."""
    known = [bounds[tp].offsets for tp in topic.topic_partitions if bounds[tp].offsets is not None]
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication": max((len(partition.replicas) for partition in topic.partitions.values()), default=0),
        "offsets": sum(filter(None, known)) if known else None,
        "bytes": sizes.total(topic.topic_partitions),
        "health": health(topic),
    }


def logs(topic: TopicMetadata, bounds: Mapping[TopicPartition, Bounds], sizes: LogSizes) -> list[dict[str, object]]:
    """The partitions of one topic as JSON."""
    return [
        {
            "partition": tp.partition,
            "leader": partition.leader_id,
            "leader_epoch": partition.leader_epoch,
            "replicas": partition.replicas,
            "in_sync_replicas": partition.in_sync_replicas,
            "earliest": bounds[tp].earliest,
            "latest": bounds[tp].latest,
            "bytes": sizes.sizes.get(tp),
        }
        for tp in topic.topic_partitions
        for partition in [topic.partitions[tp.partition]]
    ]


class Settings(NamedTuple):
    """The settings of topics, by name. `unknown`: why there are none for some topics; None: there are some for each."""

    by_topic: Mapping[str, Sequence[Setting]]
    unknown: str | None


def settings_of(cluster: Cluster, topics: Iterable[str]) -> Settings:
    """All settings of topics. Raises no KafkaSourceError: what else there is to show of a topic is shown."""
    try:
        by_topic, refused = cluster.topics.settings_or_refusals(topics)
    except KafkaSourceError as error:
        return Settings({}, str(error))
    return Settings(by_topic, next(map(str, refused.values()), None))
