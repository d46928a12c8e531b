"""One topic-partition on a real cluster, as the fetcher needs it: sends to the leader over the process's connections.

A name is not an identity: the id that the first successful fetch was made with is pinned for the range. When the name
has another id later, the topic was deleted and recreated, and its records are not the ones that were planned. Not
before that first success: what the process remembers of a topic may be older than the plan.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kafkasource.client.cache import discard_cluster, shared_cluster
from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig
from kafkasource.client.network import Pending
from kafkasource.errors import UnknownTopicId
from kafkasource.protocol.apis import FETCH
from kafkasource.source.fetch_protocol import FetchedPartition, FetchSettings, read_response, request_body
from kafkasource.source.fetcher import LogBounds
from kafkasource.source.offsets import EARLIEST, LATEST
from kafkasource.types import TopicPartition

_LAST_VERSION_BY_NAME = 12  # from 13 on a fetch names topics by id (KIP-516)


@dataclass(frozen=True, slots=True)
class _Sent:
    pending: Pending
    fetch_offset: int
    topic_id: uuid.UUID | None


class ClusterPartition:
    """`fetcher.PartitionClient` on this process's shared cluster. Not for several threads."""

    def __init__(self, config: ClientConfig, tp: TopicPartition, settings: FetchSettings) -> None:
        self._config = config
        self._tp = tp
        self._settings = settings
        self._topic_id: uuid.UUID | None = None  # pinned
        self._isolation_level = settings.isolation_level

    @property
    def _cluster(self) -> Cluster:
        return shared_cluster(self._config)

    def send(self, fetch_offset: int, max_bytes: int) -> _Sent:
        cluster = self._cluster
        leader = cluster.leader(self._tp)
        topic_id = cluster.topic_id(self._tp.topic)
        if not self._is_same_topic(topic_id):
            raise UnknownTopicId(100, f"Fetch of {self._tp}: the topic was recreated under its name")
        known = cluster.cached_partition(self._tp)
        body = request_body(
            self._tp,
            fetch_offset,
            self._settings,
            topic_id=topic_id,
            leader_epoch=known.leader_epoch if known else None,
            max_bytes=max_bytes,
        )
        # The broker may hold the answer back for max_wait_ms; the request's own time starts after that.
        timeout_ms = self._config.request_timeout_ms + self._settings.max_wait_ms
        last_version = _LAST_VERSION_BY_NAME if topic_id is None else None
        pending = cluster.send(leader, FETCH, body, timeout_ms=timeout_ms, max_version=last_version)
        return _Sent(pending, fetch_offset, topic_id)

    def receive(self, sent: _Sent) -> FetchedPartition:
        self._cluster.wait(sent.pending)
        fetched = read_response(sent.pending.result(), self._tp, sent.fetch_offset, sent.topic_id)
        self._topic_id = self._topic_id or sent.topic_id
        return fetched

    def work(self) -> None:
        """Take what has come, without waiting, so that a full socket buffer does not stall the broker."""
        self._cluster.poll(0)

    def forget(self, sent: _Sent) -> None:
        """Its answer is read and dropped by whoever polls next."""

    def refresh_leader(self) -> None:
        """Ask now. A topic that is unknown shows at the next `send`."""
        self._cluster.partitions_of([self._tp.topic], propagation_ms=0)

    def reconnect(self) -> None:
        """Close all connections of the process to this cluster: damage is rare, and may be anywhere on the way."""
        discard_cluster(self._config)

    def bounds(self) -> LogBounds | None:
        cluster = self._cluster
        topic = cluster.partitions_of([self._tp.topic], propagation_ms=0)[self._tp.topic]
        if topic is None or self._tp.partition not in topic.partitions or not self._is_same_topic(topic.topic_id):
            return None
        start = cluster.list_offsets({self._tp: EARLIEST}, self._isolation_level)[self._tp].offset
        end = cluster.list_offsets({self._tp: LATEST}, self._isolation_level)[self._tp].offset
        return LogBounds(start or 0, end or 0)

    def _is_same_topic(self, topic_id: uuid.UUID | None) -> bool:
        return self._topic_id is None or topic_id is None or topic_id == self._topic_id
