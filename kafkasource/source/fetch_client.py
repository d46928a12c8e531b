"""One topic-partition on a real cluster, as the fetcher needs it: sends to the leader over the process's connections.

A name is not an identity: the id that the first successful fetch was made with is pinned for the range. When the name
has another id later, the topic was deleted and recreated, and its records are not the ones that were planned. Not
before that first success: what the process remembers of a topic may be older than the plan.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from kafkasource.client.cache import shared_cluster
from kafkasource.client.config import ClientConfig
from kafkasource.client.network import Pending
from kafkasource.errors import KafkaSourceError, UnknownTopicId
from kafkasource.protocol.apis import FETCH
from kafkasource.source.fetch_protocol import FetchedPartition, FetchSettings, read_response, request_body
from kafkasource.source.offsets import EARLIEST, LATEST
from kafkasource.source.partition_client import LogBounds
from kafkasource.types import TopicPartition

_LAST_VERSION_BY_NAME = 12  # from 13 on a fetch names topics by id (KIP-516)


@dataclass(frozen=True, slots=True)
class _Sent:
    pending: Pending
    fetch_offset: int
    topic_id: uuid.UUID | None


class ClusterPartition:
    """`partition_client.PartitionClient` on this process's shared cluster. Not for several threads."""

    def __init__(self, config: ClientConfig, tp: TopicPartition, settings: FetchSettings) -> None:
        self._cluster = shared_cluster(config)
        self._tp = tp
        self._settings = settings
        self._topic_id: uuid.UUID | None = None  # pinned
        self._isolation_level = settings.isolation_level
        # The broker may hold the answer back for max_wait_ms; the request's own time starts after that.
        self._timeout_ms = config.request_timeout_ms + settings.max_wait_ms

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
        last_version = _LAST_VERSION_BY_NAME if topic_id is None else None
        pending = cluster.send(leader, FETCH, body, timeout_ms=self._timeout_ms, max_version=last_version)
        return _Sent(pending, fetch_offset, topic_id)

    def receive(self, sent: _Sent) -> FetchedPartition:
        cluster = self._cluster
        # Spark may have taken longer over what came before than a request may take; the answer has been here since.
        sent.pending.deadline_ms = max(sent.pending.deadline_ms, cluster.network.now_ms() + self._timeout_ms)
        cluster.wait(sent.pending)
        fetched = read_response(sent.pending.result(), self._tp, sent.fetch_offset, sent.topic_id)
        self._topic_id = self._topic_id or sent.topic_id
        return fetched

    @property
    def leader_is_known(self) -> bool:
        return self._cluster.metadata.leader_id(self._tp) is not None

    @property
    def round_trip_s(self) -> float:
        cluster = self._cluster
        leader = cluster.metadata.leader_id(self._tp)
        round_trip_ms = None if leader is None else cluster.network.round_trip_ms(leader)
        return 0.0 if round_trip_ms is None else round_trip_ms / 1000

    def forget(self, sent: _Sent) -> None:
        """Its answer is read and dropped by whoever polls next."""

    def refresh_leader(self) -> None:
        """Ask now. A topic that is unknown shows at the next `send`."""
        self._cluster.partitions_of([self._tp.topic], propagation_ms=0)

    def reconnect(self) -> None:
        cluster = self._cluster
        leader = cluster.metadata.leader_id(self._tp)
        if leader is not None:
            cluster.disconnect(leader)

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


def learn_leaders(config: ClientConfig, partitions: Iterable[TopicPartition]) -> None:
    """Ask once for all that is not known of a task's partitions. What stays unknown shows when it is fetched."""
    cluster = shared_cluster(config)
    unknown = sorted({tp.topic for tp in partitions if cluster.metadata.leader_id(tp) is None})
    if len(unknown) > 1:  # a single one is asked for by the first fetch
        with contextlib.suppress(KafkaSourceError):
            cluster.partitions_of(unknown, propagation_ms=0)
