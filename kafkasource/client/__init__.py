"""A client for Kafka clusters, without Spark: what source, sink and command line are built on, and yours to use.

    from kafkasource.client import LATEST, ClientConfig, Cluster, TopicPartition

    with Cluster(ClientConfig.of("localhost:9092")) as cluster:
        cluster.topics.create(["events"], partitions=3)
        cluster.offsets.list({TopicPartition("events", 0): LATEST})

A `Cluster` has a part for each subject: `topics`, `offsets` of logs, `groups`, `transactions`. Each call retries errors
that may pass and has one deadline (`default_api_timeout_ms`). `kafkasource.reader.Reader` reads records,
`kafkasource.writer.Writer` writes them, and `kafkasource.group.member.GroupMember` joins a group. Errors are those of
`kafkasource.errors`. docs/client.md has the whole of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasource.types import Node, TopicPartition

if TYPE_CHECKING:
    from kafkasource.client.cluster import Cluster
    from kafkasource.client.config import ClientConfig
    from kafkasource.client.parts.offsets import EARLIEST, LATEST, EpochEnd, ListedOffset

__all__ = [
    "EARLIEST",
    "LATEST",
    "ClientConfig",
    "Cluster",
    "EpochEnd",
    "ListedOffset",
    "Node",
    "TopicPartition",
]

# Where each name is, looked up when it is asked for: Spark's workers import parts of this package and pay for all.
_PLACES = {
    "ClientConfig": "config",
    "Cluster": "cluster",
    "EARLIEST": "parts.offsets",
    "EpochEnd": "parts.offsets",
    "LATEST": "parts.offsets",
    "ListedOffset": "parts.offsets",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
