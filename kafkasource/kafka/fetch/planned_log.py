"""Tells whether the log that a task reads is the planned log, by topic id (KIP-516) and leader epoch (KIP-320).

A process's shared cluster may remember a topic or a leader that is older than the plan's, or one that is newer:

    SAME            the common case: the task asks nothing
    ANOTHER_TOPIC   the task asks for metadata; if the topic stays another, it fetches nothing by that name
    OLD_NEWS        the task asks for metadata; requests name the plan's epoch, which a leader that is too old refuses
    NEWER_LEADER    a leader was elected after the plan: the task asks it where the plan's epoch ends

`kafka.network.log_view` compares. Any broker answers with metadata, even a broker that is cut off from the controllers
and has old metadata. So if an answer lacks the planned log, the task asks another broker: the word of one broker of
several does not make a log gone, and one answer of its leader does not make it truncated.

No record below the plan's end has a later epoch than the plan's. If that epoch ends earlier in the new leader's log,
the log was truncated (an unclean election): the records behind are gone, and other records have their offsets now.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkasource.errors import BrokerError, ClusterAuthorizationFailed, UnsupportedApiVersion
from kafkasource.kafka.network.log_view import LogView, Verdict
from kafkasource.kafka.network.log_view import compare as compare_views
from kafkasource.types import OffsetRange, TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster

log = logging.getLogger("kafkasource.source")


@dataclass(frozen=True, slots=True)
class Truncation:
    """The leader of `leader_epoch` has nothing of the planned epoch, nor of earlier ones, from `end_offset` on.

    The records that were planned from there on are gone, whatever the log holds there now (KIP-320).
    """

    end_offset: int
    planned_epoch: int
    leader_epoch: int


class PlannedLog:
    """The log for which a range was planned, compared with what the process's cluster knows now.

    One for each range of a task. For one thread.
    """

    def __init__(self, cluster: Cluster, offset_range: OffsetRange) -> None:
        self.offset_range = offset_range
        self.topic_partition = offset_range.topic_partition
        self.topic_id = offset_range.topic_id
        self._end_offset = offset_range.end_offset  # of the part of the range that the newest leader's log has
        self._cluster = cluster
        self._compared_epoch = offset_range.leader_epoch  # the newest leader that is known to have the planned records
        self._truncation: Truncation | None = None  # found, and not taken yet
        self._doubted_at: int | None = None  # the version of metadata when a leader said first that it was truncated
        self.asked: Counter[int] = Counter()  # nodes that were asked for metadata since the range last moved

    @property
    def planned_epoch(self) -> int | None:
        return self.offset_range.leader_epoch

    def bind_end(self, end_offset: int, leader_epoch: int | None) -> None:
        """The range goes on to `end_offset` (exclusive), as the leader of this epoch has just said."""
        self.offset_range = replace(self.offset_range, end_offset=end_offset, leader_epoch=leader_epoch)
        self._end_offset, self._compared_epoch = end_offset, leader_epoch

    def begin_anew(self) -> None:
        """The range is of the log of now, which is another than planned, and from its start. `bind_end` comes next."""
        self.topic_id = self._cluster.metadata.topic_id(self.topic_partition.topic)
        self.offset_range = replace(self.offset_range, start_offset=0, topic_id=self.topic_id, leader_epoch=None)

    def pin(self, topic_id: uuid.UUID | None) -> None:
        """Note that a fetch with this id succeeded. If the plan has no id, the range keeps this id from now on."""
        self.topic_id = self.topic_id or topic_id
        self.asked.clear()

    @property
    def verdict(self) -> Verdict:
        """Compare the log that the process knows by this name with the planned log."""
        return compare_views(LogView(self.topic_id, self.planned_epoch), self._view)

    @property
    def _view(self) -> LogView | None:
        return self._cluster.metadata.view(self.topic_partition)

    @property
    def known_epoch(self) -> int | None:
        known = self._cluster.metadata.partition(self.topic_partition)
        return None if known is None else known.leader_epoch

    @property
    def current_epoch(self) -> int | None:
        """The epoch for requests to the leader. An older leader, which still believes that it leads, does not know it.

        None where metadata have no epoch (brokers before 2.4).
        """
        known = self.known_epoch
        return None if known is None else max(known, self.planned_epoch or 0)

    @property
    def is_to_compare(self) -> bool:
        """Is it time to ask a new leader? After an answer that ends in a loss, metadata must be asked for first."""
        return self.has_new_leader and self._doubted_at != self._cluster.metadata.version

    @property
    def is_known(self) -> bool:
        """Does the process know a leader, and is its metadata certainly not older than the plan?"""
        return self._cluster.metadata.leader_id(self.topic_partition) is not None and not self.verdict.is_doubtful

    @property
    def has_new_leader(self) -> bool:
        """Is a leader known whose log was not compared with the plan yet?"""
        return compare_views(LogView(self.topic_id, self._compared_epoch), self._view) is Verdict.NEWER_LEADER

    @property
    def is_settled(self) -> bool:
        """May the next fetch be sent: there is no leader to ask and no truncation to report first?"""
        return self._truncation is None and self.verdict is not Verdict.ANOTHER_TOPIC and not self.has_new_leader

    def compared(self, leader_epoch: int, end_offset: int | None) -> None:
        """The leader of `leader_epoch` says where the planned epoch ends in its log; None: it cannot say.

        A leader that was just elected may say in error that planned records are gone (redpanda#5435), so this counts
        only once a leader has said it again.
        """
        cut = end_offset is not None and end_offset < self._end_offset
        if cut and self._doubted_at is None:
            self._doubted_at = self._cluster.metadata.version
            return
        self._compared_epoch, self._doubted_at = leader_epoch, None
        if cut and end_offset is not None and self.planned_epoch is not None:
            self._truncation = Truncation(end_offset, self.planned_epoch, leader_epoch)
            self._end_offset = end_offset

    def take_truncation(self) -> Truncation | None:
        """The truncation, if one was found. Each is returned once."""
        found, self._truncation = self._truncation, None
        return found


def planned_epochs(logs: Iterable[PlannedLog]) -> dict[TopicPartition, int]:
    """The ids that are known."""
    return {one.topic_partition: one.planned_epoch for one in logs if one.planned_epoch is not None}


def learn(cluster: Cluster, logs: Iterable[PlannedLog]) -> None:
    """Ask once for the metadata of all topics that the process does not know, or for which the plan may be newer; and
    another broker for what that answer lacks.

    If a broker refuses a topic, the fetch meets that error. Raises DeadlineExceeded if no broker answers.
    """
    unknown = [one for one in logs if not one.is_known]
    if not unknown:
        return
    asked: Counter[int] = Counter()
    try:
        cluster.topics.describe(sorted({one.topic_partition.topic for one in unknown}), propagation_ms=0, asked=asked)
    except BrokerError as error:
        log.debug("metadata of a task's topics: %s", error)
        return
    doubtful = sorted({one.topic_partition.topic for one in unknown if one.verdict.is_doubtful})
    if doubtful:
        cluster.caller.ask_another(doubtful, asked)


def is_gone(cluster: Cluster, planned: PlannedLog) -> bool:
    """Do two brokers say that the log which was planned is not there, or one if no other can be asked?"""
    asked: Counter[int] = Counter()
    topics = [planned.topic_partition.topic]
    cluster.topics.describe(topics, propagation_ms=0, asked=asked)
    if planned.verdict.is_denial:
        cluster.caller.ask_another(topics, asked)
    return planned.verdict.is_denial


def ask_two(cluster: Cluster, planned: PlannedLog) -> None:
    """Ask two brokers who leads, or one if no other can be asked: the log of a leader of before may end elsewhere."""
    asked: Counter[int] = Counter()
    topics = [planned.topic_partition.topic]
    cluster.topics.describe(topics, propagation_ms=0, asked=asked)
    cluster.caller.ask_another(topics, asked)


def compare(cluster: Cluster, logs: Iterable[PlannedLog]) -> None:
    """Ask leaders that are newer than the plan where its epochs end in their logs. Mostly there are none.

    It asks all of them in parallel, and raises the cluster's errors. Brokers before 2.3 cannot be asked: a truncation
    then goes unnoticed.
    """
    new = [one for one in logs if one.is_to_compare]
    wanted = planned_epochs(new)
    if not wanted:
        return
    leader_epochs = {one.topic_partition: one.known_epoch or 0 for one in new}
    try:
        ends = {tp: end.end_offset for tp, end in cluster.offsets.epoch_ends(wanted).items()}
    except (UnsupportedApiVersion, ClusterAuthorizationFailed) as error:
        log.info("a new leader's log is not compared with what was planned: %s", error)
        ends = {}
    for one in new:
        if one.planned_epoch == wanted[one.topic_partition]:  # else: its turn comes when it is fetched
            tp = one.topic_partition
            # Metadata may have changed while the leader was asked: by an election, or as a known epoch was too high.
            one.compared(min(leader_epochs[tp], one.known_epoch or 0), ends.get(tp))
