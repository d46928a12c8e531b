"""The topic and the columns that dead letters need (`badRecords=topic:NAME`). `formats.dead_letters` makes them.

A row whose column `badRecord` is not null becomes one. The column has the key and the value as they were read, and the
columns topic, partition, offset and headers say where, and with which headers. The dead letter has the same bytes
and headers. Behind these are the headers by which Kafka's share groups say where a dead letter comes from (KIP-1191).

So the columns topic, partition and headers mean where to write in a good row, and where it was read in a bad one. A
second set of columns would have to be named in each query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasource.errors import OptionError
from kafkasource.kafka.cluster.cache import shared_cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.sink.new_topic import SEEN, SeenTopics, exists

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster


def require_topic(config: ClientConfig, topic: str, *, trusted_ms: int = 0, seen: SeenTopics = SEEN) -> str | None:
    """Look for the topic before a task starts: else the first bad record, perhaps after days, would find that it is
    missing. Driver side; raises OptionError. `trusted_ms`: as for `create_missing`. Returns the id of its cluster."""
    cluster = shared_cluster(config)
    if not seen.within(config, topic, trusted_ms):
        _look_for(cluster, topic)
        seen.saw(config, topic)
    return cluster.metadata.cluster_id or cluster.brokers().cluster_id


def _look_for(cluster: Cluster, topic: str) -> None:
    if not exists(cluster, topic):
        raise OptionError(
            f"option 'badRecords': topic {topic!r} does not exist, or the user may not see it. Create it (pykafka "
            f"topics create {topic}), or name another"
        )
