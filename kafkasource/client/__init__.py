"""A client for Kafka clusters, without Spark: what source, sink and command line are built on, and yours to use.

    from kafkasource.client import LATEST, Admin, ClientConfig, TopicPartition

    with Admin(ClientConfig.of("localhost:9092")) as admin:
        admin.create_topics(["events"], partitions=3)
        admin.list_offsets({TopicPartition("events", 0): LATEST})

`Cluster` asks: topics and their leaders, offsets of logs, offsets of groups, transactions; each call retries what may
pass and has one deadline (`default_api_timeout_ms`). `Admin` is a `Cluster` that also knows groups and settings.
Records are read by `kafkasource.reader.Reader` and written by `kafkasource.writer.Writer`, a group is joined with
`kafkasource.group.member.GroupMember`. Errors are those of `kafkasource.errors`. docs/client.md has the whole of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasource.types import Node, TopicPartition

if TYPE_CHECKING:
    from kafkasource.client.admin import Admin
    from kafkasource.client.cluster import EARLIEST, LATEST, Cluster, EpochEnd, ListedOffset
    from kafkasource.client.config import ClientConfig

__all__ = [
    "EARLIEST",
    "LATEST",
    "Admin",
    "ClientConfig",
    "Cluster",
    "EpochEnd",
    "ListedOffset",
    "Node",
    "TopicPartition",
]

# Where each name is, looked up when it is asked for: Spark's workers import parts of this package and pay for all.
_PLACES = {
    "Admin": "admin",
    "ClientConfig": "config",
    "Cluster": "cluster",
    "EARLIEST": "cluster",
    "EpochEnd": "cluster",
    "LATEST": "cluster",
    "ListedOffset": "cluster",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
