"""The option `createTopic`: the sink creates the topic that it writes to, if that is missing.

The driver creates it before the tasks start, so that they do not race. It creates only the topic that an option names:
it does not know the topics that rows name.

A topic may be deleted while the process lives. So a batch write always looks. A stream's process looks again when its
last look is older than `kafka.max.block.ms`: it cannot tell a query's start from its next micro-batch, but a write that
fails because its topic is gone has waited that long. So the query's next start creates the topic again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kafkasource.errors import (
    AuthorizationFailed,
    BrokerError,
    KafkaSourceError,
    OptionError,
    TopicAlreadyExists,
    UnsupportedApiVersion,
)
from kafkasource.kafka.cluster.cache import shared_cluster
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.process import PerProcess, Recent
from kafkasource.kafka.protocol.apis import CREATE_TOPICS, METADATA
from kafkasource.types import NewTopic

log = logging.getLogger("kafkasource.sink")

T = TypeVar("T")

_WITH_DEFAULTS = 4  # CreateTopics from this version on (KIP-464)
_WITHOUT_CREATION = 4  # from this version on Metadata tells the broker not to create the topics that it names (KIP-4)


class SeenTopics:
    """When this process last saw topics there, or tried to create them."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._seen_s: PerProcess[Recent[tuple[ClientConfig, str], float]] = PerProcess(lambda: Recent(1_000))

    def saw(self, config: ClientConfig, topic: str) -> None:
        self._seen_s.get().put((config, topic), self._clock_s())

    def within(self, config: ClientConfig, topic: str, trusted_ms: int) -> bool:
        """Was it there less than `trusted_ms` ago?"""
        seen_s = self._seen_s.get().get((config, topic))
        return seen_s is not None and (self._clock_s() - seen_s) * 1000 < trusted_ms


SEEN, TRIED = SeenTopics(), SeenTopics()
"""Of this process. `TRIED`: when it last failed to create topics of clusters with `discard`."""


def create_missing(
    config: ClientConfig, topic: str | None, new: NewTopic | None, *, trusted_ms: int = 0, seen: SeenTopics = SEEN
) -> None:
    """Create the topic if `new` says how and it is missing. Blocks. If brokers refuse, raises their error, which names
    the option. `trusted_ms`: how old the last look may be; 0: look now."""
    if topic is None or new is None or seen.within(config, topic, trusted_ms):
        return
    create_in(shared_cluster(config), topic, new)
    seen.saw(config, topic)


def try_to_create(name: str, config: ClientConfig, topic: str, new: NewTopic, *, trusted_ms: int, wait_ms: int) -> None:
    """Create the topic as `create_missing` does, for a cluster that must not delay others: see `try_for`."""
    create = partial(create_missing, config, topic, new, trusted_ms=trusted_ms)
    try_for(name, config, topic, wait_ms, create, "cannot be created there now")


def try_for(name: str, config: ClientConfig, topic: str, wait_ms: int, ask: Callable[[], T], warning: str) -> T | None:
    """Ask a cluster that must not delay others about a topic. Waits for `wait_ms` at most, then not at all for 10 times
    as long. Only logs an error of the cluster, and returns None; raises OptionError. `name`: of the cluster."""
    if TRIED.within(config, topic, 10 * wait_ms):
        return None
    try:
        with shared_cluster(config).caller.giving_up(after_ms=wait_ms):
            return ask()
    except OptionError:
        raise
    except KafkaSourceError as error:
        TRIED.saw(config, topic)
        log.warning("cluster %r: topic %s %s: %s", name, topic, warning, error)
        return None


def create_in(cluster: Cluster, topic: str, new: NewTopic) -> None:
    """Does the work of `create_missing`, without its memory. A topic that another process created at the same time
    is accepted."""
    if not cluster.supports(CREATE_TOPICS):
        _require(cluster, topic)
        return
    if cluster.topics.describe([topic], propagation_ms=0)[topic] is not None:
        return
    if -1 in (new.partitions, new.replication_factor) and not cluster.supports(CREATE_TOPICS, _WITH_DEFAULTS):
        raise UnsupportedApiVersion(
            f"option 'createTopic': {topic!r} does not exist, and brokers before Kafka 2.4 have no defaults for a "
            "topic that is made on request: give both 'partitions' and 'replication'"
        )
    try:
        cluster.topics.create(
            [topic], partitions=new.partitions, replication_factor=new.replication_factor, configs=dict(new.configs)
        )
        log.info("created topic %s with %d partitions (-1: the brokers' default)", topic, new.partitions)
    except TopicAlreadyExists:
        pass
    except BrokerError as error:
        raise error.at(f"option 'createTopic': {error.context}") from None


def exists(cluster: Cluster, topic: str) -> bool:
    """Whether the user sees the topic. Asks old brokers for all topics: if a client asks for one by name, they may
    create it with their own settings."""
    if not cluster.supports(METADATA, _WITHOUT_CREATION):
        return any(found.name == topic for found in cluster.topics.list())
    try:
        return cluster.topics.describe([topic], propagation_ms=0)[topic] is not None
    except AuthorizationFailed:
        return False


def _require(cluster: Cluster, topic: str) -> None:
    if not exists(cluster, topic):
        raise UnsupportedApiVersion(
            f"option 'createTopic': the brokers do not offer CreateTopics (Apache Kafka: since 0.10.1), and {topic!r} "
            "does not exist. Make it with their own tool, or leave the option out where auto.create.topics.enable is on"
        )
