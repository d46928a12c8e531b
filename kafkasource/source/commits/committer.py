"""Commits what a streaming query has finished to its consumer group, where monitors of lag look for it.

Spark's checkpoint is the truth and the group a view of it: nothing here delays a query or fails it. The query never
joins the group; it commits as a consumer without membership, which brokers refuse while the group has live members.

Offers come on Spark's thread of the reader process, ten milliseconds apart when the query is idle. One daemon thread
with a Cluster of its own commits the newest of them, at most once a second. Spark may name the end of an earlier
micro-batch after that of a later one (asynchronous progress tracking), so a partition's offset only goes up. There
are two exceptions: a topic that was deleted and created again, and a later leader, whose log may have been truncated.
Brokers forget an offset that a group without members has not committed for `offsets.retention.minutes`, so an idle
query commits all of its offsets again now and then.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkasource.errors import BrokerError, DeadlineExceeded, KafkaSourceError, UnknownTopicOrPartition
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.log_view import Verdict
from kafkasource.kafka.process import PerProcess
from kafkasource.source.commits.rivals import Rivals
from kafkasource.source.commits.sigterm import CLOSE_S, close_at_sigterm, closed
from kafkasource.source.plan.offsets import PartitionOffsets, StreamOffset
from kafkasource.source.plan.planner import other_epochs, topics_with_other_ids, verdict
from kafkasource.types import TopicPartition

if TYPE_CHECKING:
    from kafkasource.options import Options

log = logging.getLogger("kafkasource.source")

COMMIT_EVERY_S = 1.0
RENEW_EVERY_S = 600.0
MOST_BACKOFF_S = 60.0
CALL_MS = 10_000  # one commit with its retries; after that a newer one is due

TopicIds = Mapping[str, uuid.UUID]
LeaderEpochs = Mapping[TopicPartition, int]
_Offer: TypeAlias = tuple[PartitionOffsets, TopicIds, LeaderEpochs]


def group_to_commit(options: Options) -> str | None:
    """The group to which a streaming query commits. None: it commits to none (`commitOffsets`)."""
    group: str | None = options["kafka.group.id"]
    wanted = group is not None if options["commitOffsets"] is None else options["commitOffsets"]
    return (group or options["groupIdPrefix"]) if wanted else None


class CommitLedger:
    """Decides what to commit to a group, and when. It knows what was committed, and does no I/O. Times in seconds."""

    def __init__(self) -> None:
        self._newest = StreamOffset({})
        self._committed: dict[TopicPartition, int] = {}
        self._pending: dict[TopicPartition, int] = {}
        self._not_before_s = float("-inf")
        self._renew_s = float("inf")
        self._failures = 0

    def offer(
        self, offsets: PartitionOffsets, topic_ids: TopicIds, leader_epochs: LeaderEpochs = MappingProxyType({})
    ) -> None:
        """Take over newer offsets. Forget partitions that are not offered any more.

        Of two offsets with different epochs the offset with the later epoch is newer, else the higher offset.
        """
        known, offered = self._newest, StreamOffset({}, topic_ids, leader_epochs)
        recreated = topics_with_other_ids(known, offered)
        others = [tp for tp in other_epochs(known, offered) if tp.topic not in recreated]
        later = {tp for tp in others if verdict(known, offered, tp) is Verdict.NEWER_LEADER}
        # An older epoch means an offer that comes late. Without topic ids `verdict` takes it for another topic.
        earlier = {tp for tp in others if tp not in later and tp in known.offsets}
        newest = {
            tp: offset if tp.topic in recreated or tp in later else max(offset, known.offsets.get(tp, offset))
            for tp, offset in offsets.items()
            if tp not in earlier
        } | {tp: known.offsets[tp] for tp in earlier if tp in offsets}
        topics = {tp.topic for tp in offsets}
        ids = {topic: topic_id for topic, topic_id in {**known.topic_ids, **topic_ids}.items() if topic in topics}
        epochs = {**leader_epochs, **{tp: known.leader_epochs[tp] for tp in earlier}} if earlier else leader_epochs
        self._newest = StreamOffset(newest, ids, epochs)
        self._committed = {
            tp: offset for tp, offset in self._committed.items() if tp in offsets and tp.topic not in recreated
        }
        self._pending = self._not_committed()

    def _not_committed(self) -> dict[TopicPartition, int]:
        return {tp: offset for tp, offset in self._newest.offsets.items() if self._committed.get(tp) != offset}

    def due(self, now_s: float) -> dict[TopicPartition, int]:
        """The offsets to commit now. Empty: nothing yet."""
        if now_s >= self._renew_s:
            self._pending = dict(self._newest.offsets)
        return self._pending if now_s >= self._not_before_s else {}

    def wait_s(self, now_s: float) -> float | None:
        """Seconds until `due` returns something. None: not before the next offer."""
        at = self._not_before_s if self._pending else self._renew_s
        return max(0.0, at - now_s) if at < float("inf") else None

    @property
    def pending(self) -> dict[TopicPartition, int]:
        """The offsets that are still to be committed, due or not."""
        return self._pending

    def committed(self, offsets: PartitionOffsets, now_s: float) -> None:
        """`now_s`: when the commit was sent."""
        if offsets.keys() >= self._newest.offsets.keys():
            self._renew_s = now_s + RENEW_EVERY_S
        self._committed.update(offsets)
        self._pending = self._not_committed()
        self._not_before_s = now_s + COMMIT_EVERY_S
        self._failures = 0

    def failed(self, now_s: float) -> None:
        """Try again, after 1 s, 2 s, 4 s, ... and at last once a minute."""
        self._not_before_s = now_s + min(MOST_BACKOFF_S, COMMIT_EVERY_S * 2.0 ** min(self._failures, 16))
        self._failures += 1


class _Groups(Protocol):
    def commit(self, group: str, offsets: PartitionOffsets) -> None: ...


class Commits(Protocol):
    """The calls that GroupCommitter makes to a Cluster."""

    @property
    def groups(self) -> _Groups: ...

    def close(self) -> None: ...


class GroupCommitter:
    """Commits one query's offsets to one group. No method raises. All are for one thread, that of Spark's calls.

    A forked child begins without thread, sockets and offers: they are its parent's. `clock` in seconds.
    """

    def __init__(
        self,
        config: ClientConfig,
        group: str,
        *,
        open_cluster: Callable[[ClientConfig], Commits] = Cluster,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = replace(config, default_api_timeout_ms=min(config.default_api_timeout_ms, CALL_MS))
        self._group = group
        self._open_cluster = open_cluster
        self._clock = clock
        self._mine = PerProcess(_Mine)

    def offer(
        self,
        offsets: PartitionOffsets,
        topic_ids: TopicIds | None = None,
        leader_epochs: LeaderEpochs | None = None,
    ) -> None:
        """Offer the next offsets to read, now that the query has finished those below. Never blocks.

        The caller must not modify the mappings later. `topic_ids` has the topics whose ids are known, `leader_epochs`
        the partitions whose epochs are. The first offer starts the thread.
        """
        mine = self._mine.get()
        offered = offsets, topic_ids or {}, leader_epochs or {}
        if not offsets or offered == mine.last:
            return
        mine.last = offered
        if mine.sender is None:
            mine.sender = _Sender(self._config, self._group, self._open_cluster, self._clock)
            close_at_sigterm(mine.sender)
        mine.sender.inbox.put(offered)

    def flush(self, timeout_s: float = CLOSE_S) -> None:
        """Commit the offered offsets now. Returns when that is done or has failed, or when `timeout_s` is over."""
        sender = self._mine.get().sender
        if sender is not None:
            done = threading.Event()
            sender.inbox.put(done)
            done.wait(timeout_s)

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Commit pending offsets and end the thread. Waits as `flush` does. A later offer starts a new thread."""
        sender = self._mine.get().sender
        if sender is not None:
            sender.close(timeout_s)
            closed(sender)
        self._mine.reset()


@dataclass(slots=True)
class _Mine:
    """The parts of a committer that belong to one process."""

    last: _Offer | None = None
    sender: _Sender | None = None


class _Sender:
    """The thread. It alone touches what it owns. Everything reaches it through `inbox`.

    `inbox` holds offers, events to set once everything is committed, and None to end.
    """

    def __init__(
        self,
        config: ClientConfig,
        group: str,
        open_cluster: Callable[[ClientConfig], Commits],
        clock: Callable[[], float],
    ) -> None:
        self._group = group
        self._clock = clock
        self._config = config
        self._open_cluster = open_cluster
        self._cluster: Commits | None = None
        self._ledger = CommitLedger()
        self._warned_of: set[str] = set()
        self._rivals = Rivals(config.bootstrap_servers, group)
        self.inbox: queue.SimpleQueue[_Offer | threading.Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="kafkasource-group-offsets", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        self.inbox.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            if self._cluster is not None:
                self._cluster.close()

    def _turn(self) -> bool:
        """Wait for something to do, and do it. False: the thread must end."""
        offsets = self._ledger.due(self._clock())
        if offsets:
            self._commit(offsets)
        item = self._next()
        if isinstance(item, tuple):
            self._ledger.offer(*item)
        elif item is not _NOTHING:
            if self._ledger.pending:
                self._commit(self._ledger.pending)
            if isinstance(item, threading.Event):
                item.set()
        return item is not None

    def _next(self) -> object:
        try:
            return self.inbox.get(timeout=self._ledger.wait_s(self._clock()))
        except queue.Empty:
            return _NOTHING

    def _commit(self, offsets: PartitionOffsets) -> None:
        now_s = self._clock()
        rival = self._rivals.topic({tp.topic for tp in offsets}, now_s)
        if rival is not None:
            log.warning(
                "another query of this driver commits offsets of topic %r to the consumer group %r too: each replaces"
                " the other's, and monitors of lag see a mixture. Give each query a kafka.group.id of its own, or"
                " set commitOffsets=false for one",
                rival,
                self._group,
            )
        try:
            if self._cluster is None:
                self._cluster = self._open_cluster(self._config)
            self._cluster.groups.commit(self._group, offsets)
        except Exception as error:  # any error: the query goes on, and the next commit may succeed
            if not _of_deleted_topics(error):
                self._ledger.failed(self._clock())
                self._warn(error)
                return
        self._ledger.committed(offsets, now_s)

    def _warn(self, error: Exception) -> None:
        cause = error.__cause__ if isinstance(error, DeadlineExceeded) and error.__cause__ else error
        if isinstance(cause, BrokerError):
            kind = cause.name
        else:
            kind = "no answer" if isinstance(cause, KafkaSourceError) else repr(cause)
        level = logging.DEBUG if kind in self._warned_of else logging.WARNING
        self._warned_of.add(kind)
        log.log(
            level,
            "cannot commit the query's offsets to the consumer group %r: %s. The query goes on, its checkpoint decides"
            " where it reads; monitors of lag see an older state. It is tried again, with no further warning of this"
            " kind",
            self._group,
            str(error).rstrip("."),
        )


_NOTHING = object()


def _of_deleted_topics(error: Exception) -> bool:
    """Whether the error only says that some topics are gone. Then the coordinator has committed the others.

    The client repeats its request for 5 s, in which brokers hear of a new topic, and then raises the error as it is.
    If `kafka.default.api.timeout.ms` is less, it raises DeadlineExceeded with that error as the cause.
    """
    cause = error.__cause__ if isinstance(error, DeadlineExceeded) else error
    return isinstance(cause, UnknownTopicOrPartition)
