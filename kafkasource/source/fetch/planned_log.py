"""Is the log that a task is about to read the one that was planned? By topic id (KIP-516) and leader epoch (KIP-320).

A process's shared cluster may remember a topic or a leader that is older than the plan's, or one that is newer:

    the plan's id and epoch   the common case: nothing is asked
    another topic id          metadata is asked for once; where the id stays another, nothing is fetched by that name
    an older epoch            metadata is asked for once; brokers fence a fetch that is still too old
    a newer epoch             a leader was elected after the plan: it is asked once where the plan's epoch ends

A plan's epoch is no older than any record below the plan's end. Where that epoch ends earlier in the new leader's log,
the log was truncated (an unclean election): the records behind are gone, and what has their offsets now is not them.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkasource.errors import BrokerError, ClusterAuthorizationFailed, UnsupportedApiVersion
from kafkasource.source.fetch.partition_client import Truncation
from kafkasource.types import OffsetRange

if TYPE_CHECKING:
    from kafkasource.client.cluster import Cluster

log = logging.getLogger("kafkasource.source")


class PlannedLog:
    """What a range was planned with, against what the process's cluster knows now. Not for several threads."""

    def __init__(self, cluster: Cluster, offset_range: OffsetRange) -> None:
        self.topic_partition = offset_range.topic_partition
        self.topic_id = offset_range.topic_id
        self.planned_epoch = offset_range.leader_epoch
        self._end_offset = offset_range.end_offset
        self._cluster = cluster
        self._compared_epoch = offset_range.leader_epoch  # of the leader that is known to have what was planned
        self._truncation: Truncation | None = None  # found, and not told yet

    def pin(self, topic_id: uuid.UUID | None) -> None:
        """A fetch by this id succeeded: where the plan has none, it is the range's from here on."""
        self.topic_id = self.topic_id or topic_id

    @property
    def is_same_topic(self) -> bool:
        """As far as can be told: brokers before 2.8 have no ids, nor have plans made with them."""
        known = self._cluster.topic_id(self.topic_partition.topic)
        return self.topic_id is None or known is None or known == self.topic_id

    @property
    def known_epoch(self) -> int | None:
        known = self._cluster.cached_partition(self.topic_partition)
        return None if known is None else known.leader_epoch

    @property
    def is_known(self) -> bool:
        """Does the process know a leader, and nothing that is older than the plan, or may be?"""
        if self._cluster.metadata.leader_id(self.topic_partition) is None or not self.is_same_topic:
            return False
        known, planned = self.known_epoch, self.planned_epoch
        return known is None or planned is None or known >= planned

    @property
    def has_new_leader(self) -> bool:
        """Has the plan not been compared yet with the log of the leader that is known?"""
        known, compared = self.known_epoch, self._compared_epoch
        return known is not None and compared is not None and known > compared and self.is_same_topic

    @property
    def is_settled(self) -> bool:
        """Is there nothing to ask, and nothing to tell, before the next fetch?"""
        return self._truncation is None and self.is_same_topic and not self.has_new_leader

    def compared(self, leader_epoch: int, end_offset: int | None) -> None:
        """In the log that is led under `leader_epoch` the plan's epoch ends here; None: that cannot be told."""
        self._compared_epoch = leader_epoch
        if end_offset is not None and end_offset < self._end_offset and self.planned_epoch is not None:
            self._truncation = Truncation(end_offset, self.planned_epoch, leader_epoch)
            self._end_offset = end_offset

    def tell_truncation(self) -> Truncation | None:
        found, self._truncation = self._truncation, None
        return found


def learn(cluster: Cluster, logs: Iterable[PlannedLog]) -> None:
    """Ask once for the metadata of all topics that the process does not know, or that the plan may know better.

    What a broker refuses is left to the fetch to meet. Raises DeadlineExceeded where none answers.
    """
    topics = sorted({one.topic_partition.topic for one in logs if not one.is_known})
    if topics:
        try:
            cluster.partitions_of(topics, propagation_ms=0)
        except BrokerError as error:
            log.debug("metadata of a task's topics: %s", error)


def compare(cluster: Cluster, logs: Iterable[PlannedLog]) -> None:
    """Ask leaders that are newer than the plan where its epochs end in their logs: all in parallel, mostly none.

    Raises what the cluster has to say. Where brokers cannot be asked (before 2.3), truncation goes unnoticed.
    """
    new = [one for one in logs if one.has_new_leader]
    wanted = {one.topic_partition: one.planned_epoch for one in new if one.planned_epoch is not None}
    if not wanted:
        return
    leader_epochs = {one.topic_partition: one.known_epoch or 0 for one in new}
    try:
        ends = {tp: end.end_offset for tp, end in cluster.epoch_ends(wanted).items()}
    except (UnsupportedApiVersion, ClusterAuthorizationFailed) as error:
        log.info("a new leader's log is not compared with what was planned: %s", error)
        ends = {}
    for one in new:
        if one.planned_epoch == wanted[one.topic_partition]:  # else: its turn comes when it is fetched
            one.compared(leader_epochs[one.topic_partition], ends.get(one.topic_partition))
