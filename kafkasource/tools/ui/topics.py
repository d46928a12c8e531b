"""Topics as JSON: what there is, how healthy it is, where its logs begin and end, how large they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kafkasource.kafka.network.pending import address_of
from kafkasource.tools.admin.topics import Bounds, bounds_of, existing, health, settings_of

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.kafka.cluster.log_dirs import LogSizes
    from kafkasource.kafka.network.metadata import TopicMetadata
    from kafkasource.types import TopicPartition


def brokers(cluster: Cluster) -> dict[str, object]:
    found = cluster.brokers()
    return {
        "bootstrap": [address_of(host, port) for host, port in cluster.config.bootstrap_servers],
        "cluster_id": found.cluster_id,
        "controller": found.controller_id,
        "brokers": [
            {"id": node.node_id, "host": node.host, "port": node.port, "rack": node.rack} for node in found.nodes
        ],
    }


def all_topics(cluster: Cluster) -> dict[str, object]:
    """Each with its totals, by name; and why sizes are missing, where some are."""
    found = sorted(cluster.topics.list(), key=lambda topic: topic.name)
    bounds = bounds_of(cluster, found)
    sizes = cluster.log_sizes(tp for topic in found for tp in topic.topic_partitions)
    return {"topics": [_totals(topic, bounds, sizes) for topic in found], "size_unknown": sizes.unknown}


def _totals(topic: TopicMetadata, bounds: Mapping[TopicPartition, Bounds], sizes: LogSizes) -> dict[str, object]:
    partitions = topic.partitions.values()
    return {
        "topic": topic.name,
        "internal": topic.internal,
        "partitions": len(partitions),
        "replication": max((len(one.replicas) for one in partitions), default=0),
        "offsets": _sum(bounds[tp].offsets for tp in topic.topic_partitions),
        "size": sizes.total(topic.topic_partitions),
        "health": health(topic),
    }


def _sum(numbers: Iterable[int | None]) -> int | None:
    """None where none is known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def one_topic(cluster: Cluster, name: str) -> dict[str, object]:
    """Raises KafkaSourceError where it does not exist."""
    topic = existing(cluster, [name])[name]
    bounds = bounds_of(cluster, [topic])
    sizes = cluster.log_sizes(topic.topic_partitions)
    settings, settings_unknown = settings_of(cluster, [name])
    return {
        **_totals(topic, bounds, sizes),
        "size_unknown": sizes.unknown,
        "topic_id": str(topic.topic_id) if topic.topic_id else None,
        "logs": [
            {
                "partition": tp.partition,
                "leader": topic.partitions[tp.partition].leader_id,
                "replicas": topic.partitions[tp.partition].replicas,
                "in_sync": topic.partitions[tp.partition].in_sync_replicas,
                "earliest": bounds[tp].earliest,
                "latest": bounds[tp].latest,
                "offsets": bounds[tp].offsets,
                "size": sizes.sizes.get(tp),
            }
            for tp in topic.topic_partitions
        ],
        "settings": [
            {"name": each.name, "value": each.value, "source": each.source} for each in settings.get(name, ())
        ],
        "settings_unknown": settings_unknown,
    }
