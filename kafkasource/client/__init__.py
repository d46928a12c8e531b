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


def __getattr__(name: str) -> object:
    """Looked up when it is asked for: Spark's workers import parts of this package, and would pay for all."""
    if name == "Cluster":
        from kafkasource.client.cluster import Cluster

        return Cluster
    if name == "ClientConfig":
        from kafkasource.client.config import ClientConfig

        return ClientConfig
    if name in __all__:
        from kafkasource.client.parts import offsets

        return getattr(offsets, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
