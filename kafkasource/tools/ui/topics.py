"""Topics as JSON: what there is, how healthy it is, where its logs begin and end, how large they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasource.kafka.network.pending import address_of
from kafkasource.tools.admin.topics import bounds_of, existing, logs, settings_of, totals

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster


def brokers(cluster: Cluster) -> dict[str, object]:
    known = cluster.brokers()
    return {
        "bootstrap": [address_of(host, port) for host, port in cluster.config.bootstrap_servers],
        "cluster_id": known.cluster_id,
        "controller": known.controller_id,
        "brokers": [
            {"id": node.node_id, "host": node.host, "port": node.port, "rack": node.rack} for node in known.nodes
        ],
    }


def all_topics(cluster: Cluster) -> dict[str, object]:
    """Each with its totals, by name; and why sizes are missing, where some are."""
    listed_topics = sorted(cluster.topics.list(), key=lambda topic: topic.name)
    bounds = bounds_of(cluster, listed_topics)
    sizes = cluster.log_sizes(tp for topic in listed_topics for tp in topic.topic_partitions)
    return {
        "topics": [{**totals(topic, bounds, sizes), "internal": topic.internal} for topic in listed_topics],
        "size_unknown": sizes.unknown,
    }


def one_topic(cluster: Cluster, name: str) -> dict[str, object]:
    """Raises KafkaSourceError where it does not exist."""
    topic = existing(cluster, [name])[name]
    bounds = bounds_of(cluster, [topic])
    sizes = cluster.log_sizes(topic.topic_partitions)
    settings, settings_unknown = settings_of(cluster, [name])
    return {
        **totals(topic, bounds, sizes),
        "internal": topic.internal,
        "size_unknown": sizes.unknown,
        "topic_id": str(topic.topic_id) if topic.topic_id else None,
        "logs": logs(topic, bounds, sizes),
        "settings": [
            {"name": setting.name, "value": setting.value, "source": setting.source}
            for setting in settings.get(name, ())
        ],
        "settings_unknown": settings_unknown,
    }
