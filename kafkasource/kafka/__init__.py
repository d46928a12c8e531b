"""A Kafka client that could stand alone: no Spark, no table of options. Yours to use, too.

    from kafkasource.kafka import LATEST, ClientConfig, Cluster, TopicPartition

    with Cluster(ClientConfig.of("localhost:9092")) as cluster:
        cluster.topics.create(["events"], partitions=3)
        cluster.offsets.list({TopicPartition("events", 0): LATEST})

A `Cluster` has a part for each subject: `topics`, `offsets` of logs, `groups`, `transactions`. Each call retries errors
that may pass and has one deadline (`default_api_timeout_ms`). `kafkasource.reader.Reader` reads records,
`kafkasource.writer.Writer` writes them, and `kafkasource.kafka.group.member.GroupMember` joins a group. Errors are
those of `kafkasource.errors`. docs/client.md has the whole of it.

The rooms, from the top. Each imports only those below it:

    fetch      reads ranges of offsets          producer   sends Arrow columns of records     group   members of a group
    cluster    what a cluster is asked: routing, retries, topics, offsets, groups, transactions
    network    one connection, the loop over all of them, metadata, TLS and TCP
    security   TLS, SASL, secrets     protocol   messages, frames     records   record batches, the kernel
    memory     a process's memory as a budget

The package imports `errors`, `types` and `version`, nothing else of kafkasource. A newcomer starts with
`cluster.caller`: one call with its retries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasource.types import Node, TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.kafka.cluster.offsets import EARLIEST, LATEST, EpochEnd, ListedOffset
    from kafkasource.kafka.config import ClientConfig

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
        from kafkasource.kafka.cluster.cluster import Cluster

        return Cluster
    if name == "ClientConfig":
        from kafkasource.kafka.config import ClientConfig

        return ClientConfig
    if name in __all__:
        from kafkasource.kafka.cluster import offsets

        return getattr(offsets, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
