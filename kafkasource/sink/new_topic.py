"""The option `createTopic`: the sink creates the topic that it writes to, if that is missing.

The driver creates it before the tasks start, so that they do not race. It creates only the topic that an option names:
it does not know the topics that rows name.
"""

from __future__ import annotations

import logging

from kafkasource.client.cache import shared_cluster
from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig
from kafkasource.errors import BrokerError, TopicAlreadyExists, UnsupportedApiVersion
from kafkasource.protocol.apis import CREATE_TOPICS
from kafkasource.types import NewTopic

log = logging.getLogger(__name__)

_WITH_DEFAULTS = 4  # CreateTopics from this version on (KIP-464)

_seen: set[tuple[ClientConfig, str]] = set()  # topics that exist: asked for once by each process, not each micro-batch


def create_missing(config: ClientConfig, topic: str | None, new: NewTopic | None) -> None:
    """Create the topic if `new` says how and it is missing. Blocks. If brokers refuse, raises their error, which names
    the option."""
    if topic is None or new is None or (config, topic) in _seen:
        return
    create_in(shared_cluster(config), topic, new)
    _seen.add((config, topic))


def create_in(cluster: Cluster, topic: str, new: NewTopic) -> None:
    """Does the work of `create_missing`, without its memory. A topic that another process created at the same time is
    no error."""
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
    """Whether the user sees the topic. Asks for all topics: if a client asks for one by name, a broker may create it
    with its own settings."""
    return any(found.name == topic for found in cluster.topics.list())


def _require(cluster: Cluster, topic: str) -> None:
    if not exists(cluster, topic):
        raise UnsupportedApiVersion(
            f"option 'createTopic': brokers before Kafka 0.10.1 make no topic on request, and {topic!r} does not "
            "exist. Make it with their kafka-topics.sh, or leave the option out where auto.create.topics.enable is on"
        )
