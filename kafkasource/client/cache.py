"""Clusters kept for the next task of this process: connecting and negotiating costs more than a small fetch.

Keyed by process, because a forked child must not read from its parent's sockets, and by configuration.
"""

from __future__ import annotations

import os
import threading

from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig

_clusters: dict[tuple[int, ClientConfig], Cluster] = {}
_lock = threading.Lock()


def shared_cluster(config: ClientConfig) -> Cluster:
    """This process's cluster for a configuration, made on first use. Never close it; `discard_cluster` does."""
    key = (os.getpid(), config)
    with _lock:
        cluster = _clusters.get(key)
        if cluster is None:
            cluster = _clusters[key] = Cluster(config)
        return cluster


def discard_cluster(config: ClientConfig) -> None:
    """Close and forget the process's cluster for a configuration, if there is one."""
    with _lock:
        cluster = _clusters.pop((os.getpid(), config), None)
    if cluster is not None:
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
