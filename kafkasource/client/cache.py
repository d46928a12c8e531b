"""Clusters kept for the next task of this process: connecting and negotiating costs more than a small fetch.

By configuration. Those that nobody has used for five minutes go when the next one is asked for, and of more than eight
those unused for longest (`idle`); never one with a call or a request under way. Whoever holds one that went may use it
all the same: it opens its sockets again. A forked child must not read from its parent's sockets: it starts with none.
"""

from __future__ import annotations

import atexit
import os
import threading
from weakref import WeakSet

from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig
from kafkasource.client.idle import IDLE_S, surplus

_MOST_CLUSTERS = 8  # each has a selector, two sockets to wake it, and a connection for each broker

_clusters: dict[ClientConfig, Cluster] = {}
_gone: WeakSet[Cluster] = WeakSet()  # somebody may still hold them, and use them
_lock = threading.Lock()


def shared_cluster(config: ClientConfig) -> Cluster:
    """This process's cluster for a configuration, made on first use. Never close it."""
    with _lock:
        cluster = _clusters.get(config)
        if cluster is None:
            cluster = _clusters[config] = Cluster(config)
        idle_s = {key: 0.0 if kept is cluster else kept.caller.idle_s for key, kept in _clusters.items()}
        to_rest = [kept for kept in _gone if kept.caller.idle_s >= IDLE_S]
        to_rest += [_clusters.pop(key) for key in surplus(idle_s, _MOST_CLUSTERS)]
        _gone.update(to_rest)
    for each in to_rest:
        each.caller.rest()
    return cluster


def close_clusters() -> None:
    """Close and forget all of this process's clusters, as at its end. For who knows that nobody uses them any more."""
    with _lock:
        clusters = [*_clusters.values(), *_gone]
        _clusters.clear()
        _gone.clear()
    for cluster in clusters:
        cluster.close()


def _after_fork() -> None:
    """The parent's clusters are not ours, nor is a lock that one of its threads held."""
    global _lock
    _lock = threading.Lock()
    _abandoned.extend([*_clusters.values(), *_gone])
    _clusters.clear()
    _gone.clear()


# The parent's, kept from the garbage collector: closing a socket object here would be harmless to the parent, but an
# epoll descriptor is shared with it, and taking sockets out of that would not be.
_abandoned: list[Cluster] = []

os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_clusters)
