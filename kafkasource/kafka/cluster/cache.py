"""Keeps the clusters of a process for its next tasks.

Connecting and negotiating costs more than a small fetch, so a process keeps the cluster of each configuration
(`ProcessCache`). Code that still holds a cluster that went may use it all the same: it opens its sockets again. A
cluster that has met brokers of another cluster cannot be used any more, so the next caller gets a new one.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable

from kafkasource.kafka import counters
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.process import ProcessCache

_MOST_CLUSTERS = 8  # each has a selector, two sockets to wake it, and a connection for each broker

_clusters: ProcessCache[ClientConfig, Cluster] = ProcessCache(
    lambda config: Cluster(config),
    is_usable=lambda cluster: cluster.network.fatal is None,
    idle_s=lambda cluster: cluster.caller.idle_s,
    let_go=lambda cluster: cluster.caller.rest(),
)


def shared_cluster(config: ClientConfig) -> Cluster:
    """This process's cluster for a configuration, made on first use. Never close it."""
    (cluster,) = _clusters.get([config], _MOST_CLUSTERS)
    return cluster


def _sum(number: Callable[[Cluster], int]) -> int:
    """The sum over the kept clusters. Without the lock of a cluster: a call may hold it for long."""
    return sum(map(number, list(_clusters.values.values())))


counters.keeps("clusters", lambda: _sum(lambda _: 1))
counters.keeps("connections", lambda: _sum(lambda cluster: cluster.network.connections))
counters.keeps("topics", lambda: _sum(lambda cluster: cluster.metadata.known))


def close_clusters() -> None:
    """Close and forget all of this process's clusters. Call it only when no code uses them any more."""
    for cluster in _clusters.clear():
        cluster.close()


atexit.register(close_clusters)
