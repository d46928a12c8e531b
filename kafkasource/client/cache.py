"""Clusters kept for the next task of this process: connecting and negotiating costs more than a small fetch.

By configuration. A forked child must not read from its parent's sockets: it starts with none.
"""

from __future__ import annotations

import atexit
import os
import threading

from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig

_clusters: dict[ClientConfig, Cluster] = {}
_lock = threading.Lock()


def shared_cluster(config: ClientConfig) -> Cluster:
    """This process's cluster for a configuration, made on first use. Never close it."""
    with _lock:
        cluster = _clusters.get(config)
        if cluster is None:
            cluster = _clusters[config] = Cluster(config)
        return cluster


def close_clusters() -> None:
    """Close and forget all of this process's clusters, as at its end. For who knows that nobody uses them any more."""
    with _lock:
        clusters = list(_clusters.values())
        _clusters.clear()
    for cluster in clusters:
        cluster.close()


def _after_fork() -> None:
    """The parent's clusters are not ours, nor is a lock that one of its threads held."""
    global _lock
    _lock = threading.Lock()
    _abandoned.extend(_clusters.values())
    _clusters.clear()


# The parent's, kept from the garbage collector: closing a socket object here would be harmless to the parent, but an
# epoll descriptor is shared with it, and taking sockets out of that would not be.
_abandoned: list[Cluster] = []

os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_clusters)
