"""What a process keeps for its next task, clusters and producers, and since when nobody uses it.

Connecting and negotiating costs more than a small fetch, so a process keeps the cluster of each configuration. A kept
thing goes when nobody has used it for five minutes. Where there are more than a few, those go that were unused for
longest; never one with a call or a request under way. Code that still holds a cluster that went may use it all the
same: it opens its sockets again. A forked child must not read from its parent's sockets: it starts with none.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar
from weakref import WeakSet

from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig

K = TypeVar("K")

IDLE_S = 300.0
"""As long as Java's producer keeps the metadata of a topic that nobody writes to."""

_HANDED_OUT_S = 60.0  # a task that got it and has not begun to use it may still come

_MOST_CLUSTERS = 8  # each has a selector, two sockets to wake it, and a connection for each broker


class Use:
    """Of one thing, by tasks. Any thread. `clock` in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._users = 0
        self._since_s = clock()  # nobody uses it, or: it was handed out
        self._handed_out = False

    def hand_out(self) -> None:
        """Somebody is about to use it."""
        with self._lock:
            self._handed_out, self._since_s = True, self._clock()

    @contextmanager
    def using(self) -> Iterator[None]:
        with self._lock:
            self._users += 1
            self._handed_out = False
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                self._since_s = self._clock()

    @property
    def idle_s(self) -> float:
        """How long nobody has used it; 0: somebody does."""
        with self._lock:
            idle_s = self._clock() - self._since_s
            if self._users or (self._handed_out and idle_s < _HANDED_OUT_S):
                return 0.0
            return idle_s


def surplus(idle_s: Mapping[K, float], most: int, most_idle_s: float = IDLE_S) -> list[K]:
    """Which of the kept ones are to go. `idle_s`: for how long nobody has used each, 0: somebody does."""
    longest = sorted((key for key in idle_s if idle_s[key] > 0), key=lambda key: -idle_s[key])
    gone = sum(idle_s[key] >= most_idle_s for key in longest)
    return longest[: max(gone, len(idle_s) - most)]


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
