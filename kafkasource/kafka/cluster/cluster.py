"""A Kafka cluster, as source, sink and command line see it: a part for each subject, with retries, over one `Caller`.

    cluster.topics          which there are; create, delete, settings
    cluster.offsets         of logs: earliest, latest, by time, by leader epoch
    cluster.groups          committed offsets, members
    cluster.transactions    one's own, and everybody's
    cluster.leaders, cluster.coordinators    which broker answers
    cluster.caller          one request, retries, deadlines

The fetcher and the loop of a group member pipeline: they give `Caller.send` requests and `Caller.poll` for the answers.

Threads: every call holds the caller's lock, so several threads may use one cluster: one call waits for the other, also
where that waits for a broker which does not answer. `close` waits for none. A thread that drives `send` and `poll`
itself should have a cluster of its own. A cluster does not pickle, and a forked child must not use its parent's
(`cache`).
"""

from __future__ import annotations

import random as random_module
import time
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, NoReturn, TypeVar

from kafkasource.kafka.cluster.caller import Caller
from kafkasource.kafka.cluster.groups import Groups
from kafkasource.kafka.cluster.log_dirs import LogSizes, log_sizes
from kafkasource.kafka.cluster.offsets import Offsets
from kafkasource.kafka.cluster.routing import Coordinators, Leaders
from kafkasource.kafka.cluster.topics import Topics
from kafkasource.kafka.cluster.transactions import Transactions
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.metadata import Metadata
from kafkasource.kafka.network.network_client import NetworkClient
from kafkasource.kafka.network.poller import Selector
from kafkasource.kafka.network.sockets import Connector
from kafkasource.kafka.protocol.apis import Api
from kafkasource.types import Node, TopicPartition

T = TypeVar("T")


class Brokers(NamedTuple):
    """The brokers of a cluster now."""

    cluster_id: str | None  # None: before 0.10.1
    controller_id: int | None
    nodes: tuple[Node, ...]  # by node id


class Cluster:
    """See the module. Opens no socket before the first call."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        connector: Connector | None = None,
        random: Callable[[], float] = random_module.random,
        selector: Selector | None = None,
    ) -> None:
        self.caller = Caller(config, clock=clock, connector=connector, random=random, selector=selector)
        self.leaders = Leaders(self.caller)
        self.coordinators = Coordinators(self.caller)
        self.topics = Topics(self.caller)
        self.offsets = Offsets(self.leaders)
        self.groups = Groups(self.caller, self.coordinators)
        self.transactions = Transactions(self.caller, self.leaders, self.coordinators)
        self._shared: dict[tuple[type, Hashable], object] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Cluster has sockets and does not pickle; send its ClientConfig")

    @property
    def config(self) -> ClientConfig:
        return self.caller.config

    @property
    def metadata(self) -> Metadata:
        """The brokers, topics and leaders that are known without a request."""
        return self.caller.metadata

    @property
    def network(self) -> NetworkClient:
        return self.caller.network

    def brokers(self) -> Brokers:
        """Ask now which brokers there are, at the addresses that they advertise."""
        self.topics.describe([])
        nodes = tuple(sorted(self.metadata.nodes(), key=lambda node: node.node_id))
        return Brokers(self.metadata.cluster_id, self.metadata.controller_id, nodes)

    def log_sizes(self, partitions: Iterable[TopicPartition]) -> LogSizes:
        """Ask the leaders now how many bytes their replicas have on disk; see `log_dirs`."""
        return log_sizes(self.caller, partitions)

    def supports(self, api: Api, version: int = 0) -> bool:
        """May requests of this version, or of a later one, be sent? Blocks at the first question."""
        return self.caller.supports(api, version)

    def shared(self, kind: type[T], key: Hashable, make: Callable[[], T]) -> T:
        """The object of this kind and key, made on first use. All tasks of the process that use the cluster share it.
        `key`: for example a node id. Any thread."""
        found = self._shared.get((kind, key))
        if found is None:
            found = self._shared.setdefault((kind, key), make())
        assert isinstance(found, kind)
        return found

    def close(self) -> None:
        """Close all connections; requests under way fail with ClientClosed. Any thread."""
        self.caller.close()
