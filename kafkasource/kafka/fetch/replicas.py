"""Fetching from a replica in the executor's own rack (KIP-392): which rack that is, and where leaders have pointed us.

A leader whose broker has a `replica.selector.class` answers a fetch that names a rack with the node id of a replica
there and no records. All tasks of the process follow it for `metadata.max.age.ms`, as Java's consumer does: asking the
leader again for each micro-batch would cost a round trip.
"""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from typing import TYPE_CHECKING

from kafkasource.types import TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster

log = logging.getLogger("kafkasource.source")

_FROM_ENVIRONMENT = "env:"


@lru_cache(maxsize=8)
def rack_of(written: str | None) -> str:
    """`kafka.client.rack` as it is in this process: `env:NAME` is that environment variable. Empty: none."""
    if written is None or not written.startswith(_FROM_ENVIRONMENT):
        return written or ""
    name = written.removeprefix(_FROM_ENVIRONMENT)
    rack = os.environ.get(name, "").strip()
    if not rack:
        log.warning(
            "option 'kafka.client.rack' is %s, but this executor's environment has no %s: it reads from leaders",
            written,
            name,
        )
    return rack


class ReadReplicas:
    """The replicas to which leaders have pointed clients of one rack. For one thread."""

    def __init__(self) -> None:
        self._preferred: dict[TopicPartition, tuple[int, float]] = {}  # node id, until when (ms of the cluster's clock)

    def prefer(self, cluster: Cluster, tp: TopicPartition, node_id: int) -> None:
        until_ms = cluster.network.now_ms() + cluster.config.metadata_max_age_ms
        self._preferred[tp] = node_id, until_ms

    def forget(self, tp: TopicPartition) -> None:
        self._preferred.pop(tp, None)

    def node_id(self, cluster: Cluster, tp: TopicPartition) -> int | None:
        """The replica to fetch from. None: fetch from the leader; no other node is known as a replica for this rack."""
        preferred = self._preferred.get(tp)
        if preferred is None:
            return None
        node_id, until_ms = preferred
        known = cluster.metadata.partition(tp)
        is_replica = known is not None and node_id in known.replicas and cluster.metadata.node(node_id) is not None
        if is_replica and cluster.network.now_ms() < until_ms:
            return node_id
        self.forget(tp)
        return None


def read_replicas(cluster: Cluster, rack: str) -> ReadReplicas:
    """The object that all tasks of the process share that read from one cluster for one rack."""
    return cluster.shared(ReadReplicas, rack, ReadReplicas)
