"""Keeps clusters and producers of a process for its next task, and notes since when nobody uses them.

Connecting and negotiating costs more than a small fetch, so a process keeps the cluster of each configuration. A kept
thing goes when nobody has used it for five minutes. Where there are more than a few, those go that were unused for
longest; never one with a call or a request under way. Code that still holds a cluster that went may use it all the
same: it opens its sockets again. A cluster that has met brokers of another cluster cannot be used any more, so the
next caller gets a new one. A forked child must not read from its parent's sockets: it starts with none.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar
from weakref import WeakSet

from kafkasource.kafka import counters
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.process import PerProcess

K = TypeVar("K")

IDLE_S = 300.0
"""As long as Java's producer keeps the metadata of a topic that nobody writes to."""

_HANDED_OUT_S = 60.0  # a task that got it and has not begun to use it may still come

_MOST_CLUSTERS = 8  # each has a selector, two sockets to wake it, and a connection for each broker


class Use:
    """The use of one kept thing by tasks. Any thread. `clock` in seconds."""

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
    """Choose kept things to close. `idle_s`: for how long nobody has used each; 0: it is in use."""
    longest = sorted((key for key in idle_s if idle_s[key] > 0), key=lambda key: -idle_s[key])
    gone = sum(idle_s[key] >= most_idle_s for key in longest)
    return longest[: max(gone, len(idle_s) - most)]


class _Kept:
    """The clusters of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clusters: dict[ClientConfig, Cluster] = {}
        self.gone: WeakSet[Cluster] = WeakSet()  # callers may still hold them, and use them
        self._of_parents: list[Cluster] = []

    def after_fork(self) -> None:
        """The child uses no cluster of its parent, and keeps them all from the garbage collector (`PerProcess`)."""
        self._of_parents += [*self.clusters.values(), *self.gone]
        self.lock, self.clusters, self.gone = threading.Lock(), {}, WeakSet()


_kept = PerProcess(_Kept, renew=_Kept.after_fork)


def shared_cluster(config: ClientConfig) -> Cluster:
    """This process's cluster for a configuration, made on first use. Never close it."""
    kept = _kept.get()
    with kept.lock:
        cluster = kept.clusters.get(config)
        if cluster is None or cluster.network.fatal is not None:
            kept.gone.update(() if cluster is None else (cluster,))
            cluster = kept.clusters[config] = Cluster(config)
        idle_s = {key: 0.0 if each is cluster else each.caller.idle_s for key, each in kept.clusters.items()}
        to_rest = [each for each in kept.gone if each.caller.idle_s >= IDLE_S]
        to_rest += [kept.clusters.pop(key) for key in surplus(idle_s, _MOST_CLUSTERS)]
        kept.gone.update(to_rest)
    for each in to_rest:
        each.caller.rest()
    return cluster


def _count(of: Callable[[Cluster], int]) -> int:
    """The sum over the kept clusters. Without the lock of a cluster: a call may hold it for long."""
    kept = _kept.if_made
    if kept is None:
        return 0
    with kept.lock:
        clusters = list(kept.clusters.values())
    return sum(map(of, clusters))


counters.keeps("clusters", lambda: _count(lambda _: 1))
counters.keeps("connections", lambda: _count(lambda cluster: cluster.caller.network.connections))
counters.keeps("topics", lambda: _count(lambda cluster: cluster.caller.metadata.known))


def close_clusters() -> None:
    """Close and forget all of this process's clusters, as at its end. For who knows that nobody uses them any more."""
    kept = _kept.get()
    with kept.lock:
        clusters = [*kept.clusters.values(), *kept.gone]
        kept.clusters.clear()
        kept.gone.clear()
    for cluster in clusters:
        cluster.close()


atexit.register(close_clusters)
