"""One topic-partition as the fetcher needs it: `PartitionClient`, and `ClusterPartition`, which is the real one.

`ClusterPartition` sends to the leader over the process's connections, or to the replica that the leader points to
(`replicas`).

A name does not identify a topic. The id that was planned with stays the range's; where the plan has none, that of its
first successful fetch does. When the name has another id, the topic was deleted and created again, and its records are
not the ones that were planned (`planned_log`).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kafkasource.errors import (
    DeadlineExceeded,
    FencedLeaderEpoch,
    KafkaSourceError,
    OffsetNotAvailable,
    OffsetOutOfRange,
    RequestTimeout,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkasource.kafka import counters
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.offsets import EARLIEST, LATEST, ListedOffset
from kafkasource.kafka.fetch.config import FetchSettings
from kafkasource.kafka.fetch.line import line_to
from kafkasource.kafka.fetch.messages import FetchedPartition, last_version, read_response, request_body
from kafkasource.kafka.fetch.planned_log import PlannedLog, Truncation, ask_two, compare, is_gone, planned_epochs
from kafkasource.kafka.fetch.replicas import rack_of, read_replicas
from kafkasource.kafka.network.log_view import Verdict
from kafkasource.kafka.network.pending import Pending
from kafkasource.kafka.protocol.apis import FETCH
from kafkasource.types import IsolationLevel, OffsetRange

Sent = TypeVar("Sent")


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The offsets that a log holds now, [start, end), with those that open transactions hold back."""

    start: int
    end: int


class PartitionClient(Protocol[Sent]):
    """The calls of the cluster that the fetcher needs, for one partition. `Sent` stands for a request in flight."""

    @property
    def is_ready(self) -> bool:
        """May `send` be called at once: is the leader known, and known to lead the log that was planned?"""

    def get_ready(self) -> Truncation | None:
        """Ask brokers for what `is_ready` lacks, and wait. Returns each truncation once; then the rest can be
        fetched."""

    def send(self, fetch_offset: int, max_bytes: int) -> Sent:
        """Send a fetch to the leader. Hand the result to `receive` or to `forget`.

        Raises KafkaSourceError if the partition has no leader, or a new one that `get_ready` has not asked, and
        UnknownTopicId if the name has another topic now.
        """

    def receive(self, sent: Sent) -> FetchedPartition:
        """Wait for the answer, within `request.timeout.ms`. Raises the error of the broker or of the connection."""

    def extend(self, sent: Sent, seconds: float) -> None:
        """Give a request that is in flight this much more time."""

    @property
    def round_trip_s(self) -> float:
        """The shortest round trip that the connection to the leader has shown; 0 while nothing is known."""

    @property
    def line_bytes(self) -> int | None:
        """The most bytes that may be in flight from the leader (`line`); None: not known yet."""

    def forget(self, sent: Sent) -> None:
        """The caller will not wait for this answer."""

    def refresh_leader(self) -> None:
        """Ask for metadata before the next `send`."""

    def reconnect(self) -> None:
        """Close the connection to the leader; the next `send` opens another."""

    def is_gone(self) -> bool:
        """Ask whether the topic was deleted, or the name has another topic now."""

    def bounds(self) -> LogBounds | None:
        """Ask what the log holds. None: it is gone."""

    @property
    def is_deleted(self) -> bool:
        """After `is_gone` or `bounds`: did no topic have the name?"""

    def bind_anew(self) -> OffsetRange | None:
        """Bind a range from `earliest` to `latest` to the present log, after a truncation or another log of the name.

        None: the log does not exist.
        """

    def high_watermark(self) -> int | None:
        """Ask where the log ends, open transactions included. None: it is gone, or nobody can tell (KIP-207)."""


@dataclass(frozen=True, slots=True)
class _Sent:
    pending: Pending
    fetch_offset: int
    max_bytes: int
    topic_id: uuid.UUID | None
    to_leader: bool


class ClusterPartition:
    """A `PartitionClient` for the range of one log, on a real cluster. For one thread."""

    def __init__(self, cluster: Cluster, log: PlannedLog, settings: FetchSettings) -> None:
        self._cluster = cluster
        self._tp = log.topic_partition
        self._settings = settings
        self._log = log
        self._isolation_level = settings.isolation_level
        # The broker may hold the answer back for max_wait_ms; the request's own time starts after that.
        self._timeout_ms = cluster.config.request_timeout_ms + settings.max_wait_ms
        self._rack = rack_of(settings.rack)
        self._replicas = read_replicas(cluster, self._rack)
        self._leader_only = False  # a replica has failed this range
        self._node_id: int | None = None  # the node that was asked last

    @property
    def is_ready(self) -> bool:
        return self._cluster.metadata.leader_id(self._tp) is not None and self._log.is_settled

    def get_ready(self) -> Truncation | None:
        self._cluster.leaders.of(self._tp)  # asks for metadata if no leader is known
        compare(self._cluster, [self._log])
        return self._log.take_truncation()

    def send(self, fetch_offset: int, max_bytes: int) -> _Sent:
        cluster = self._cluster
        leader = cluster.leaders.of(self._tp)
        topic_id = cluster.metadata.topic_id(self._tp.topic)
        if self._log.verdict is Verdict.ANOTHER_TOPIC:
            raise UnknownTopicId(100, f"Fetch of {self._tp}: the topic was recreated under its name")
        if self._log.has_new_leader:  # elected since the last comparison, while we waited for a replica, say
            raise FencedLeaderEpoch(74, f"Fetch of {self._tp}: its new leader is to be asked for what was planned")
        replica = None if self._leader_only else self._replicas.node_id(cluster, self._tp)
        body = request_body(
            self._tp,
            fetch_offset,
            self._settings,
            topic_id=topic_id,
            leader_epoch=self._log.current_epoch,
            max_bytes=max_bytes,
            rack="" if self._leader_only else self._rack,
            wait=replica is None,  # a replica without records is behind: the leader has them now
        )
        self._node_id = leader if replica is None else replica
        pending = cluster.caller.send(
            self._node_id, FETCH, body, timeout_ms=self._timeout_ms, max_version=last_version([topic_id])
        )
        return _Sent(pending, fetch_offset, max_bytes, topic_id, replica is None)

    def receive(self, sent: _Sent) -> FetchedPartition:
        fetched = self._leaders_answer(sent) if sent.to_leader else self._replicas_answer(sent)
        return fetched if fetched is not None else self.receive(self.send(sent.fetch_offset, sent.max_bytes))

    def extend(self, sent: _Sent, seconds: float) -> None:
        sent.pending.deadline_ms += 1000 * seconds

    def _leaders_answer(self, sent: _Sent) -> FetchedPartition | None:
        """None: the leader has pointed to a replica."""
        fetched = self._answer(sent)
        if fetched.preferred_read_replica is None:
            return fetched
        if self._leader_only:  # the request named no rack, and the leader points to a replica all the same
            self._leader_only = False
            raise OffsetNotAvailable(78, f"Fetch of {self._tp}: the leader has sent us to a replica that lacks records")
        self._replicas.prefer(self._cluster, self._tp, fetched.preferred_read_replica)
        self._leader_only = self._replicas.node_id(self._cluster, self._tp) is None  # a node that we do not know (yet)
        return None

    def _replicas_answer(self, sent: _Sent) -> FetchedPartition | None:
        """None: the replica lacks records that the leader has, so the rest of the range comes from the leader."""
        try:
            fetched = self._answer(sent)
        except (OffsetOutOfRange, OffsetNotAvailable):
            self._leader_only = True
            return None
        except KafkaSourceError:
            self._leave_replica()
            raise
        if fetched.throttled_ms:
            return fetched
        self._leader_only = not len(fetched.records)
        return None if self._leader_only else fetched

    def _leave_replica(self) -> None:
        """Fetch the rest of this range from the leader. Other ranges ask the leader again which replica to use."""
        self._replicas.forget(self._tp)
        self._leader_only = True

    def _answer(self, sent: _Sent) -> FetchedPartition:
        cluster = self._cluster
        # Spark may have taken longer over earlier rows than a request may take, while the answer was here already.
        begun_ms = cluster.network.now_ms()
        sent.pending.deadline_ms = max(sent.pending.deadline_ms, begun_ms + self._timeout_ms)
        cluster.caller.wait(sent.pending)
        took_s, waited_s = sent.pending.took_ms / 1000, (cluster.network.now_ms() - begun_ms) / 1000
        counters.observe("kafkasource_fetch_latency_seconds", took_s)
        line = line_to(cluster, sent.pending.node_id)
        if isinstance(sent.pending.error, RequestTimeout):
            line.timed_out(sent.max_bytes, sent.pending.error)
        with cluster.caller.reading(FETCH):
            fetched = read_response(sent.pending.result(), self._tp, sent.fetch_offset, sent.topic_id)
        if not fetched.throttled_ms:  # a throttled answer says nothing of the line or the log
            line.came(len(fetched.records), sent.max_bytes, took_s, waited_s)
            self._log.pin(sent.topic_id)
        return fetched

    @property
    def _likely_node_id(self) -> int | None:
        return self._cluster.metadata.leader_id(self._tp) if self._node_id is None else self._node_id

    @property
    def round_trip_s(self) -> float:
        node_id = self._likely_node_id
        round_trip_ms = None if node_id is None else self._cluster.network.round_trip_ms(node_id)
        return 0.0 if round_trip_ms is None else round_trip_ms / 1000

    @property
    def line_bytes(self) -> int | None:
        node_id = self._likely_node_id
        return None if node_id is None else line_to(self._cluster, node_id).carries_bytes

    def forget(self, sent: _Sent) -> None:
        """The next poll of the cluster reads the answer and drops it."""

    def refresh_leader(self) -> None:
        """Ask now, and at each further time another node until a fetch succeeds. A topic that is unknown shows at the
        next `send`."""
        self._cluster.topics.describe([self._tp.topic], propagation_ms=0, asked=self._log.asked)

    def reconnect(self) -> None:
        node_id = self._node_id
        if node_id is not None:
            self._cluster.caller.disconnect(node_id)
            if node_id != self._cluster.metadata.leader_id(self._tp):
                self._leave_replica()

    def is_gone(self) -> bool:
        return is_gone(self._cluster, self._log)

    def bounds(self) -> LogBounds | None:
        ask_two(self._cluster, self._log)
        if self._log.verdict.is_denial:
            return None
        start, end = (self._listed(symbol, IsolationLevel.READ_UNCOMMITTED).offset for symbol in (EARLIEST, LATEST))
        return LogBounds(start or 0, end or 0)

    @property
    def is_deleted(self) -> bool:
        return self._cluster.metadata.topic(self._tp.topic) is None

    def high_watermark(self) -> int | None:
        try:
            ask_two(self._cluster, self._log)
            denied = self._log.verdict.is_denial
            return None if denied else self._listed(LATEST, IsolationLevel.READ_UNCOMMITTED).offset
        except (DeadlineExceeded, UnknownTopicOrPartition):
            return None

    def bind_anew(self) -> OffsetRange | None:
        if self._cluster.metadata.partition(self._tp) is None:
            return None
        if self._log.verdict.is_denial:
            self._log.begin_anew()
        latest = self._listed(LATEST, self._isolation_level)
        self._log.bind_end(latest.offset or 0, latest.leader_epoch)
        return self._log.offset_range

    def _listed(self, symbol: int, isolation_level: IsolationLevel) -> ListedOffset:
        listed = self._cluster.offsets.list({self._tp: symbol}, isolation_level, epochs=planned_epochs([self._log]))
        return listed[self._tp]
