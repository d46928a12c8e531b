"""A member of a consumer group. It shares topics with the group's other members, which may be any clients.

    with GroupMember(cluster, "group", ["topic"]) as member:
        while True:
            changes = member.poll(timeout_s=0.1)
            ...                                     # stop reading changes.lost and, after a commit, changes.revoked;
            ...                                     # begin with changes.assigned at the group's committed offsets
            member.commit({tp: next_offset, ...})

The member's thread owns a Cluster. The coordinator holds a JoinGroup until all members have joined, and answers
nothing else on that connection until then. The thread finds the coordinator, joins, assigns partitions if it is the
leader, sends heartbeats, and joins again when the group rebalances. The user learns of changes by `poll`: see
`Membership`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from kafkasource.errors import (
    ClientClosed,
    CommitFailed,
    DeadlineExceeded,
    IllegalGeneration,
    RebalanceInProgress,
    StaleMemberEpoch,
)
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.groups import check_unknown_topics_last
from kafkasource.kafka.cluster.routing import GROUP
from kafkasource.kafka.config import ClientConfig, backoff_ms
from kafkasource.kafka.group import requests
from kafkasource.kafka.group.assignors import Assignor, assignors_named
from kafkasource.kafka.group.condition import InterruptibleCondition
from kafkasource.kafka.group.consumer_membership import ConsumerMembership
from kafkasource.kafka.group.loop import MemberLoop
from kafkasource.kafka.group.membership import COMMIT_ERRORS, Changes, MemberIdentity, Membership, Terms
from kafkasource.kafka.group.states import MemberState
from kafkasource.kafka.protocol.apis import OFFSET_COMMIT
from kafkasource.types import TopicPartition

DEFAULT_ASSIGNORS = ("range", "cooperative-sticky")  # the Java consumer's: every other client knows one of them
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 300_000
HEARTBEAT_INTERVAL_MS = 3_000

LOOK_UP_MS = 5_000  # one search for the coordinator, or for the topics' partitions: then timers have their turn
LOOK_AGAIN_S = 0.1


class GroupMember:
    """See the module. For one user thread, that of `poll`; `close` and `commit` may come from others.

    `cluster` stays the caller's. The member uses it only on the caller's threads, for commits. `assignors` by name, in
    order of preference; with an eager one among them each rebalance revokes everything. `rebalance_timeout_ms` is also
    how long the user may go without a poll (Java: `max.poll.interval.ms`). With `instance_id` the member is static
    (KIP-345): a close does not leave the group unless `leave_group`, and a member that comes back with the id within
    the session has its partitions again. Raises OptionError for unknown assignors; `poll` raises the errors of brokers.

    If the cluster's configuration says `group_protocol="consumer"` (KIP-848), the coordinator assigns, by
    `group_remote_assignor`, and decides on session and heartbeats. `assignors`, `session_timeout_ms` and
    `heartbeat_interval_ms` have no effect then, and `leave_group` has one only then.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Iterable[str],
        *,
        assignors: Iterable[str | Assignor] = DEFAULT_ASSIGNORS,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        instance_id: str | None = None,
        rack_id: str | None = None,
        must_poll: bool = True,
        leave_group: bool = False,
        open_cluster: Callable[[ClientConfig], Cluster] = Cluster,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.group = group
        self._caller = cluster
        self._clock = clock
        config = cluster.config
        consumer = config.group_protocol == "consumer"
        if consumer:
            assignors, session_timeout_ms = (), SESSION_TIMEOUT_MS  # the brokers' default
        terms = Terms(
            tuple(dict.fromkeys(topics)),
            tuple(each if isinstance(each, Assignor) else assignors_named([each])[0] for each in assignors),
            session_timeout_ms,
            rebalance_timeout_ms,
            min(heartbeat_interval_ms, max(1, session_timeout_ms // 3)),
            instance_id,
            rack_id,
            must_poll,
            lambda failures: backoff_ms(
                failures, config.retry_backoff_ms, config.retry_backoff_max_ms, random.random()
            ),
            config.group_remote_assignor,
            leave_group,
        )
        self._membership = (ConsumerMembership if consumer else Membership)(terms, self._now_ms())
        self._changed = InterruptibleCondition()
        own = replace(config, default_api_timeout_ms=min(config.default_api_timeout_ms, LOOK_UP_MS))
        self._own_cluster = open_cluster(own)
        reach_by_ms = self._now_ms() + config.default_api_timeout_ms
        loop = MemberLoop(self._own_cluster, group, self._membership, self._changed, self._now_ms, reach_by_ms)
        self._thread = threading.Thread(target=loop.run, name="kafkasource-group-member", daemon=True)
        self._thread.start()

    def __enter__(self) -> GroupMember:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _now_ms(self) -> float:
        return self._clock() * 1000

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that the user may read now: assigned by a poll, and not lost since."""
        with self._changed.lock:
            return self._membership.held

    @property
    def joined(self) -> bool:
        """Has the group given this member its share, which may be nothing? False while it joins or rebalances."""
        with self._changed.lock:
            return self._stable()

    @property
    def share(self) -> frozenset[TopicPartition] | None:
        """Partitions that the group gives this member, whether a poll has reported them or not.

        None while it rebalances.
        """
        with self._changed.lock:
            return self._membership.owned if self._stable() else None

    @property
    def member_id(self) -> str:
        """The member id in the group. Empty before, and again after the coordinator gave the member up."""
        with self._changed.lock:
            return self._membership.identity.member_id

    @property
    def generation_id(self) -> int:
        """The group's generation in which the member is; with the consumer protocol the member epoch. -1: in none."""
        with self._changed.lock:
            return self._membership.identity.generation_id

    def awaits_more(self) -> bool:
        """Whether this member's share may still grow, with the consumer protocol: the coordinator has yet to assign,
        other members have to give partitions up, or a poll has yet to tell. Asks the coordinator."""
        if not isinstance(self._membership, ConsumerMembership):
            return False
        group = self._caller.groups.describe([self.group])[self.group]
        if group is None or group.state == "Assigning":
            return True
        with self._changed.lock:
            held, member_id = self._membership.held, self._membership.identity.member_id
        own = [member for member in group.members if member.member_id == member_id]
        return all(member.to_come or member.assignment != held for member in own)

    def poll(self, timeout_s: float = 0.0) -> Changes:
        """The changes since the last poll. Waits at most `timeout_s` for a change.

        Raises the errors of a group that refuses: FencedInstanceId, GroupAuthorizationFailed, an inconsistent protocol
        (23), ...
        """
        deadline_s = self._clock() + timeout_s
        try:
            with self._changed.lock:
                self._membership.polling(True, self._now_ms())
            while True:
                with self._changed.lock:
                    self._check_open()
                    before = self._membership.state
                    changes = self._membership.poll(self._now_ms())
                    moved = self._membership.state is not before
                if moved:
                    self._own_cluster.caller.wakeup()
                left_s = deadline_s - self._clock()
                if changes or left_s <= 0:
                    return changes
                self._changed.wait_for(self._has_news, left_s)
        finally:
            with self._changed.lock:
                self._membership.polling(False, self._now_ms())

    def wait_until_stable(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until the group has assigned this member's share.

        Raises as `poll`; reports no change.
        """
        self._changed.wait_for(lambda: self._membership.error or self._stable(), timeout_s)
        with self._changed.lock:
            if self._membership.error is not None:
                raise self._membership.error
            return self._stable()

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the next offset to read of partitions that are this member's, revoked ones included.

        Waits while the group rebalances. Raises CommitFailed if they are not the member's any more: their new owner
        begins at the last commit. UnknownTopicOrPartition is raised where it is all that is wrong: the other partitions
        are committed then.
        """
        if any(offset < 0 for offset in offsets.values()):
            raise ValueError(f"a negative offset to commit for group {self.group!r}")  # brokers would take it
        deadline_s = self._clock() + self._caller.config.default_api_timeout_ms / 1000
        outdated = False
        while offsets:
            identity = self._identity_to_commit(offsets, deadline_s, outdated)
            body, check = requests.commit_body(self.group, identity, offsets), check_unknown_topics_last
            try:
                self._caller.coordinators.ask(GROUP, self.group, OFFSET_COMMIT, body, max_version=9, check=check)
                return
            except COMMIT_ERRORS as error:
                with self._changed.lock:
                    late = isinstance(error, (IllegalGeneration, StaleMemberEpoch)) and self._is_outdated(identity)
                    self._membership.commit_failed(identity, error, self._now_ms())
                    self._changed.notify_all()
                    behind = isinstance(error, StaleMemberEpoch) and self._membership.identity == identity
                    between = behind or not self._settles()
                self._own_cluster.caller.wakeup()
                outdated = outdated or late or behind
                again = late or (isinstance(error, (RebalanceInProgress, StaleMemberEpoch)) and between)
                if not again or self._clock() >= deadline_s:
                    raise CommitFailed(f"group {self.group!r}: the coordinator refused the commit: {error}") from error
                if behind:
                    self._await_epoch(identity)
                else:
                    self._changed.wait_for(self._settles, deadline_s - self._clock() if late else LOOK_AGAIN_S)

    def _await_epoch(self, stale: MemberIdentity) -> None:
        """Wait a moment for the heartbeat that brings the next member epoch."""
        self._changed.wait_for(lambda: self._membership.identity != stale, LOOK_AGAIN_S)

    def _is_outdated(self, identity: MemberIdentity) -> bool:
        """Whether the member has moved, or moves now, to another generation than the commit's.

        Then its partitions may still be its own. Java's ConsumerCoordinator.OffsetCommitResponseHandler, too, takes
        ILLEGAL_GENERATION for a rebalance in progress if the generation has changed since the request.
        """
        current = self._membership.identity
        return current.member_id == identity.member_id and (current != identity or not self._settles())

    def close(self, timeout_s: float = 5.0) -> None:
        """Leave the group, so that the others take over at once; a static member stays for its session."""
        with self._changed.lock:
            self._membership.close(self._now_ms())
            self._changed.notify_all()
        self._own_cluster.caller.wakeup()
        self._thread.join(timeout_s)

    def _stable(self) -> bool:
        return self._membership.state is MemberState.STABLE

    def _has_news(self) -> bool:
        return self._membership.has_news or self._membership.state is MemberState.CLOSED

    def _settles(self) -> bool:
        """May a commit that came between two generations be tried again?"""
        return self._membership.state not in (MemberState.JOINING, MemberState.SYNCING)

    def _check_open(self) -> None:
        if self._membership.state is MemberState.CLOSED:
            raise ClientClosed(f"the member of group {self.group!r} is closed")

    def _identity_to_commit(
        self, offsets: Mapping[TopicPartition, int], deadline_s: float, outdated: bool = False
    ) -> MemberIdentity:
        """The identity for commits in the current generation. Between two generations the coordinator accepts no
        commits. `outdated`: the offsets are of partitions that the member had in a generation before."""
        membership = self._membership
        done = self._changed.wait_for(lambda: membership.state is not MemberState.SYNCING, deadline_s - self._clock())
        with self._changed.lock:
            self._check_open()
            foreign: list[TopicPartition] = []
            if membership.terms.must_poll:
                foreign = sorted(offsets.keys() - membership.held)
            elif outdated:
                foreign = sorted(offsets.keys() - membership.owned)
            if foreign or membership.identity.generation_id < 0:
                raise CommitFailed(
                    f"group {self.group!r}: {', '.join(map(str, foreign[:5])) or 'the generation'} does not belong "
                    "to this member"
                    " (any more). The member that has it now reads the records since the last commit again"
                )
            if not done:
                raise DeadlineExceeded(
                    f"commit of group {self.group!r}: the rebalance of the group took too long. Commit again"
                )
            return membership.identity
