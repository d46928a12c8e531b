"""`groupOwnership=exclusive`: a streaming query that has its consumer group to itself.

The driver joins the group as its only member and stays for as long as the query runs. The coordinator itself keeps
others out: a group's members must have an assignor in common, and ours has a name that no other member can have. So the
coordinator refuses a second query, or a consumer, of the same group, even if both come at the same moment. It also
refuses this query (INCONSISTENT_GROUP_PROTOCOL) while the group has members. The query commits with the generation of
its membership, so brokers refuse commits of a query that is not the owner any more.

Only a consumer of the newer protocol (KIP-848) gets in: Kafka 4 converts the group for it and places the partitions
itself. Then our share is no longer what our own assignor gave us, and the query ends with an error.

With `kafka.group.protocol=consumer` the driver is a static member. The coordinator refuses a second query, because its
instance id is the same. It refuses no other consumer. But each member that comes changes our member epoch, and the
query then looks who is in the group.

A query that stops leaves the group. A killed query stays a member until its session ends. The next query waits for that
before it gives up.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkasource.errors import (
    DeadlineExceeded,
    FencedInstanceId,
    GroupInUse,
    InconsistentGroupProtocol,
    KafkaSourceError,
    UnreleasedInstanceId,
)
from kafkasource.kafka.cluster.caller import servers_of
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.groups import MemberDescription
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.group.assignors import Assignor, Members, PartitionCounts, Placement, assign_range
from kafkasource.kafka.group.member import SESSION_TIMEOUT_MS, GroupMember
from kafkasource.kafka.group.racks import NO_RACKS, ReplicaRacks
from kafkasource.kafka.process import PerProcess
from kafkasource.source.commits.committer import Commits
from kafkasource.source.commits.sigterm import close_at_sigterm, closed
from kafkasource.source.plan.offsets import PartitionOffsets
from kafkasource.types import TopicPartition

if TYPE_CHECKING:
    from kafkasource.options import Options

log = logging.getLogger("kafkasource.source")

SESSION_MS = 10_000  # a killed query keeps others out for this long
HEARTBEAT_MS = 2_000
OUTLIVE_S = SESSION_MS / 1000 + 2
OUTLIVE_CONSUMER_S = SESSION_TIMEOUT_MS / 1000 + 2
TRY_AGAIN_S = 0.5
INSTANCE_ID = "kafkasource-exclusive"
_TAKEN = (InconsistentGroupProtocol, UnreleasedInstanceId, FencedInstanceId)
"""Another member has the group, or our place in it."""


def owner_of(options: Options, config: ClientConfig) -> GroupOwner | None:
    """None: `groupOwnership` is not exclusive."""
    exclusive = options["groupOwnership"] == "exclusive"
    if not exclusive and config.group_protocol == "consumer":
        log.warning(
            "option 'kafka.group.protocol' has no effect: without groupOwnership=exclusive the query is not a member "
            "of its group"
        )
    return GroupOwner(config, options["kafka.group.id"]) if exclusive else None


class GroupOwner:
    """One query's ownership of one group. `hold` is for the thread of Spark's calls; any thread may commit.

    A forked child owns nothing. `clock` and `sleep` in seconds.
    """

    def __init__(
        self,
        config: ClientConfig,
        group: str,
        *,
        member: Callable[..., GroupMember] = GroupMember,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._config = config
        self._group = group
        self._consumer = config.group_protocol == "consumer"
        self._make = member
        self._clock = clock
        self._sleep = sleep
        self._mine = PerProcess(_Mine)

    def hold(self, topics: Callable[[], Iterable[str]]) -> None:
        """Join the group, or see that it is still ours. `topics`: what monitors are shown as the member's.

        Raises GroupInUse if the group has other members, and any other error that keeps this query from joining.
        """
        mine = self._mine.get()
        if mine.member is None:
            mine.cluster = mine.cluster or Cluster(self._config)
            mine.member = self._join(mine.cluster, sorted(topics()))
            close_at_sigterm(self)
        try:
            mine.member.wait_until_stable(0)
        except _TAKEN as error:
            raise self._in_use("was taken over while this query could not reach its coordinator") from error
        if self._consumer:
            self._check_alone(mine)
            return
        given, share = mine.given, mine.member.share
        if share is not None and share != given and given == mine.given:
            raise self._in_use("was joined by a consumer of the newer group protocol")

    def _check_alone(self, mine: _Mine) -> None:
        """Look who is in the group, if our member epoch has changed: it does so for each member that comes or goes."""
        assert mine.member is not None
        epoch = mine.member.generation_id
        if epoch < 0 or epoch == mine.alone_in:
            return
        if any(member.member_id != mine.member.member_id for member in self._members()):
            raise self._in_use("was joined by another consumer")
        mine.alone_in = epoch

    def committer(self, config: ClientConfig) -> Commits:
        """The object that GroupCommitter commits with in place of a Cluster. It does not need `config`."""
        return _Commits(self)

    def commit(self, offsets: PartitionOffsets) -> None:
        member = self._mine.get().member
        if member is None:
            raise KafkaSourceError(f"group {self._group!r} is not owned yet")
        member.commit(offsets)

    def close(self, timeout_s: float = 3.0) -> None:
        """Leave the group."""
        mine = self._mine.get()
        if mine.member is not None:
            mine.member.close(timeout_s)
            closed(self)
        if mine.cluster is not None:
            mine.cluster.close()
        self._mine.reset()

    def _join(self, cluster: Cluster, topics: list[str]) -> GroupMember:
        deadline_s = self._clock() + (OUTLIVE_CONSUMER_S if self._consumer else OUTLIVE_S)
        # A name that no other member has, so the coordinator refuses a second one (decision 66).
        ours = Assignor(f"exclusive-{uuid.uuid4()}", False, self._assign)
        while True:
            if self._consumer and self._members():  # it would let us in
                if self._clock() >= deadline_s:
                    raise self._in_use("has other members")
                self._sleep(TRY_AGAIN_S)
                continue
            member = self._make(
                cluster,
                self._group,
                topics,
                assignors=[ours],
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                instance_id=INSTANCE_ID if self._consumer else None,
                must_poll=False,
                leave_group=True,
            )
            try:
                if member.wait_until_stable(self._config.default_api_timeout_ms / 1000):
                    return member
                waited_ms = self._config.default_api_timeout_ms
                raise DeadlineExceeded(
                    f"could not join group {self._group!r} (option groupOwnership=exclusive) at"
                    f" {servers_of(self._config)} within {waited_ms} ms (option kafka.default.api.timeout.ms)"
                )
            except KafkaSourceError as error:
                member.close()
                if not isinstance(error, _TAKEN):
                    raise
                if self._clock() >= deadline_s:
                    raise self._in_use("has other members") from error
            self._sleep(TRY_AGAIN_S)

    def _assign(self, counts: PartitionCounts, members: Members, racks: ReplicaRacks = NO_RACKS) -> Placement:
        placed = assign_range(counts, members)
        self._mine.get().given = frozenset(tp for partitions in placed.values() for tp in partitions)
        return placed

    def _in_use(self, what: str) -> GroupInUse:
        return GroupInUse(
            f"consumer group {self._group!r} {what}{self._who()}: with groupOwnership=exclusive the query must be its"
            " only member. Stop the other query or consumer, or give this query a kafka.group.id of its own"
        )

    def _who(self) -> str:
        try:
            members = self._members()
        except Exception:  # report the earlier error
            return ""
        names = [f"{member.member_id} on {member.host}" for member in members[:3]]
        return f" ({', '.join(names)})" if names else ""

    def _members(self) -> Sequence[MemberDescription]:
        """The group's members now, as its coordinator describes them."""
        cluster = self._mine.get().cluster
        assert cluster is not None
        group = cluster.groups.describe([self._group])[self._group]
        return group.members if group is not None else ()


@dataclass(slots=True)
class _Mine:
    """The parts of an owner that belong to one process."""

    cluster: Cluster | None = None
    member: GroupMember | None = None
    given: frozenset[TopicPartition] | None = None  # our own assignor gave these, on the member's thread
    alone_in: int | None = None  # the member epoch in which the group had no other member


class _Commits:
    """Commits as the group's member."""

    def __init__(self, owner: GroupOwner) -> None:
        self._owner = owner

    @property
    def groups(self) -> _Commits:
        return self

    def commit(self, group: str, offsets: PartitionOffsets) -> None:
        self._owner.commit(offsets)

    def close(self) -> None:
        """The owner outlives it."""
