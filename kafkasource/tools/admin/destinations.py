"""Says which dead letters can go back to the topic and partition that they came from."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kafkasource.errors import BrokerError
from kafkasource.kafka.security.quoting import printable
from kafkasource.tools.admin.topics import described_topics
from kafkasource.types import TOPIC_NAME

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.tools.admin.dead_letters import LetterOrigin


class Destinations:
    """The topics of one cluster, each as it was at the first question. One thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._found: dict[str, Collection[int] | str] = {}  # partitions, or why the topic is none to send to

    def refusal(self, origin: LetterOrigin) -> str | None:
        """Why a letter cannot go back. None: it can. May ask the cluster."""
        topic, here = origin.topic or "", self._cluster.metadata.cluster_id
        # A letter without an id is of this cluster: share groups write to their own.
        if None not in (origin.cluster_id, here) and origin.cluster_id != here:
            return f"topic {topic!r} is of cluster {origin.cluster_id}, and this is {here}"
        if topic not in self._found:
            self._found[topic] = self._look(topic)
        partitions = self._found[topic]
        if isinstance(partitions, str):
            return partitions
        number = origin.partition_number
        return None if number is None or number in partitions else f"topic {topic!r} has no partition {number}"

    def _look(self, topic: str) -> Collection[int] | str:
        if not TOPIC_NAME.fullmatch(topic):  # a request has no room for one of 32 kB
            return f"'{printable(topic)}' is not the name of a topic"
        try:
            described = described_topics(self._cluster, [topic])[topic]
        except BrokerError as error:
            return str(error)
        return f"topic {topic!r} does not exist" if described is None else described.partitions.keys()
