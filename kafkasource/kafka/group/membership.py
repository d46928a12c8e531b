"""The state of one member of one consumer group, without any I/O. It takes events and returns the actions to do.

The loop (`loop`) sends the requests that `take_actions` names, and reports their results: `joined`,
`synced`, `heartbeat_done`, or `failed`. Times are milliseconds of any clock. `states` has the transitions.

There are two sets of partitions. `owned`: the partitions that the group's current generation assigns to this member.
`held`: the partitions that `poll` has reported to the user. A revoked partition stays in both until the user has
polled twice: the first poll reports it, the second means that the user has finished with it. So a user can commit
offsets of a partition that it is about to lose, and the next owner begins there. A member that need not poll gives
partitions up at once; a later poll reports them as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kafkasource.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    DeadlineExceeded,
    FencedInstanceId,
    FencedMemberEpoch,
    IllegalGeneration,
    MemberIdRequired,
    ProtocolError,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
)
from kafkasource.kafka.group.assignors import Assignor, Member, PartitionCounts
from kafkasource.kafka.group.consumer_protocol import Assignment, Subscription
from kafkasource.kafka.group.racks import NO_RACKS, ReplicaRacks
from kafkasource.kafka.group.states import REQUESTS, TRANSITIONS, MemberAction, MemberEvent, MemberState
from kafkasource.kafka.protocol.schema import Fields
from kafkasource.types import NEVER, TopicPartition

_EVENTS: dict[type[Exception], MemberEvent] = {  # for other codes, `_event_of` asks their row
    CoordinatorLoadInProgress: MemberEvent.NOT_YET,  # as in Java: the group is still at this coordinator
    IllegalGeneration: MemberEvent.STALE_GENERATION,
    FencedMemberEpoch: MemberEvent.STALE_GENERATION,
    UnknownMemberId: MemberEvent.UNKNOWN_MEMBER,
    MemberIdRequired: MemberEvent.MEMBER_ID_GIVEN,
}
COMMIT_ERRORS = (IllegalGeneration, StaleMemberEpoch, UnknownMemberId, RebalanceInProgress, FencedInstanceId)
"""Codes of a refused commit: the coordinator no longer knows the member, or not with this generation."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes that a poll reports, in the order in which to act on them. All empty: nothing changed."""

    lost: frozenset[TopicPartition] = frozenset()  # others may read them already: do not commit
    revoked: frozenset[TopicPartition] = frozenset()  # ours until the next poll: finish and commit before it
    assigned: frozenset[TopicPartition] = frozenset()  # new: begin at the committed offset

    def __bool__(self) -> bool:
        return bool(self.lost or self.revoked or self.assigned)


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """The member's identity in requests and commits."""

    member_id: str = ""
    generation_id: int = -1  # where the coordinator assigns: the member epoch
    instance_id: str | None = None


@dataclass(frozen=True)
class Terms:
    """The terms on which a member joins its group. Times in milliseconds."""

    topics: tuple[str, ...]
    assignors: tuple[Assignor, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int  # how long the others wait for us to give up; how long we may go without a poll
    heartbeat_interval_ms: int
    instance_id: str | None = None
    rack_id: str | None = None
    must_poll: bool = True  # False: the user does not poll, so the member gives partitions up at once
    backoff_ms: Callable[[int], float] = field(default=lambda failures: 100.0)
    remote_assignor: str | None = None  # where the coordinator assigns; None: it chooses
    leave_group: bool = False  # where the coordinator assigns: a static member does not only go away, it leaves

    @property
    def cooperative(self) -> bool:
        """Only where all assignors are: the group may choose any of them."""
        return all(assignor.cooperative for assignor in self.assignors)


class Membership:
    """See the module. Not for several threads at once."""

    has_given_up = MemberEvent.GIVEN_UP

    def __init__(self, terms: Terms, now_ms: float) -> None:
        self.terms = terms
        self.state = MemberState.UNJOINED
        self.identity = MemberIdentity(instance_id=terms.instance_id)
        self.leaving: MemberIdentity | None = None  # of a LEAVE to carry out
        self.error: Exception | None = None  # why it is FAILED
        self.protocol_name: str | None = None
        self.leading: Mapping[str, Member] | None = None  # as leader: everybody in the group
        self.skip_assignment = False  # as leader: the group's assignment stays as it is (KIP-814)
        self.owned: frozenset[TopicPartition] = frozenset()
        self.held: frozenset[TopicPartition] = frozenset()
        self._revoking: frozenset[TopicPartition] = frozenset()
        self._revocation_told = False
        self._lost: frozenset[TopicPartition] = frozenset()
        self._owned_in: int | None = None  # the generation that gave us what we own
        self.under_way: MemberAction | None = None  # the request whose end counts
        self._actions: list[MemberAction] = []
        self._failures = 0
        self._not_before_ms = now_ms
        self._heartbeat_ms = self._session_ms = NEVER
        self._polling = False
        self._poll_by_ms = now_ms + terms.rebalance_timeout_ms if terms.must_poll else NEVER

    # Wishes of the member.

    def take_actions(self) -> list[MemberAction]:
        """The actions to carry out, in order. A request replaces the request before it, whose answer is then
        ignored."""
        actions, self._actions = self._actions, []
        return actions

    @property
    def has_actions(self) -> bool:
        return bool(self._actions)

    def wait_ms(self, now_ms: float) -> float:
        """Milliseconds until `tick` has something to do. NEVER: only an answer or the user brings news."""
        due = min((at for at, _ in self._timers()), default=NEVER)
        return max(0.0, due - now_ms)

    def tick(self, now_ms: float) -> None:
        """Let due events happen."""
        for at, event in self._timers():
            if at <= now_ms and (self.state, event) in TRANSITIONS:
                self._fire(event, now_ms)

    def _timers(self) -> list[tuple[float, MemberEvent]]:
        poll_by = NEVER if self._polling else self._poll_by_ms
        timers = {
            MemberState.UNJOINED: [
                (self._session_ms if self.owned else NEVER, MemberEvent.SESSION_EXPIRED),
                (poll_by, MemberEvent.POLL_EXPIRED),
                (self._not_before_ms, MemberEvent.READY),
            ],
            MemberState.JOINING: [(poll_by, MemberEvent.POLL_EXPIRED)],
            MemberState.SYNCING: [(poll_by, MemberEvent.POLL_EXPIRED)],
        }
        if self.state not in (MemberState.STABLE, MemberState.REVOKING):
            return timers.get(self.state, [])
        heartbeat = NEVER if self.under_way else max(self._heartbeat_ms, self._not_before_ms)
        return [
            (self._session_ms, MemberEvent.SESSION_EXPIRED),
            (poll_by, MemberEvent.POLL_EXPIRED),
            (heartbeat, MemberEvent.HEARTBEAT_DUE),
        ]

    # Answers of the coordinator.

    def joined(self, answer: Fields, now_ms: float) -> None:
        """Raises ProtocolError where a member's metadata is none."""
        if self.under_way is not MemberAction.JOIN:
            return
        leads = answer["leader"] == answer["member_id"]
        rows = answer["members"] if leads else ()
        self.leading = {row["member_id"]: _member(row) for row in rows} if leads else None
        self.skip_assignment = bool(answer["skip_assignment"])
        self.protocol_name = answer["protocol_name"] or self.terms.assignors[0].name
        self.identity = MemberIdentity(answer["member_id"], answer["generation_id"], self.terms.instance_id)
        self._succeeded(now_ms)
        self._fire(MemberEvent.JOINED_AS_LEADER if leads else MemberEvent.JOINED_AS_FOLLOWER, now_ms)

    def assignments(self, counts: PartitionCounts, racks: ReplicaRacks = NO_RACKS) -> dict[str, Assignment]:
        """Make the assignment by member id, as the leader.

        Raises ProtocolError for an assignor that this member did not offer.
        """
        assert self.leading is not None
        assignor = next((each for each in self.terms.assignors if each.name == self.protocol_name), None)
        if assignor is None:
            raise ProtocolError(
                f"the coordinator chose the assignor {self.protocol_name!r}, which this member does not have"
            )
        placed = assignor.assign(counts, self.leading, racks)
        return {member_id: Assignment(tuple(partitions)) for member_id, partitions in placed.items()}

    def synced(self, assignment: Assignment, now_ms: float) -> None:
        if self.under_way not in (MemberAction.SYNC, MemberAction.SYNC_AS_LEADER):
            return
        self._succeeded(now_ms)
        assigned = frozenset(assignment.partitions)
        # An eager member has given up all it had; a cooperative one has yet to give up what it no longer gets.
        taken = self.owned - assigned if self.terms.cooperative else frozenset()
        self.owned = assigned | taken
        self._take_from_user(self.held - self.owned)  # of an eager member whose user does not poll
        self._owned_in = self.identity.generation_id
        self._revoke(taken)
        self._fire(MemberEvent.SYNCED_LESS if taken else MemberEvent.SYNCED, now_ms)

    def heartbeat_done(self, now_ms: float) -> None:
        if self.under_way is MemberAction.HEARTBEAT:
            self._succeeded(now_ms)
            self._fire(MemberEvent.HEARTBEAT_DONE, now_ms)

    def failed(self, request: MemberAction, error: Exception, now_ms: float, member_id: str = "") -> None:
        """A request ended without its answer. `member_id`: the id that came with MEMBER_ID_REQUIRED."""
        if self.under_way is not request:
            return
        self.under_way = None
        self._take_error(error, now_ms, member_id)

    def commit_failed(self, identity: MemberIdentity, error: Exception, now_ms: float) -> None:
        """A commit under this identity was refused. It may be the first request that shows the loss of the
        membership."""
        alive = self.state in (MemberState.STABLE, MemberState.REVOKING)
        if alive and identity == self.identity and isinstance(error, COMMIT_ERRORS):
            self._take_error(error, now_ms)

    def crash(self, error: Exception, now_ms: float) -> None:
        """The loop has failed. Nothing keeps the membership alive, so its partitions are lost."""
        self.error = self.error or error
        self.state = MemberState.FAILED
        self._lose(now_ms)

    def _take_error(self, error: Exception, now_ms: float, member_id: str = "") -> None:
        if isinstance(error, RebalanceInProgress):
            self._session_ms = now_ms + self.terms.session_timeout_ms  # it knows us
            self._rebalance(now_ms)
            return
        event = _event_of(error)
        if event is MemberEvent.MEMBER_ID_GIVEN:
            self.identity = MemberIdentity(member_id, -1, self.terms.instance_id)
        if event is None or (self.state, event) not in TRANSITIONS:
            event, self.error = MemberEvent.REFUSED, error
        self._fire(event, now_ms)

    def _rebalance(self, now_ms: float) -> None:
        eager = not self.terms.cooperative
        if eager and self._must_be_told(self.owned):
            self._fire(MemberEvent.REBALANCE, now_ms)
            return
        if eager:
            self.owned &= self.held  # a later poll must not report the rest: from now on it may be another member's
        self._fire(MemberEvent.REJOIN, now_ms)

    # Calls of the user.

    def poll(self, now_ms: float) -> Changes:
        """Report to the user what changed. Raises the error of a member that has FAILED."""
        if self.error is not None:
            raise self.error
        if self.terms.must_poll:
            self._poll_by_ms = now_ms + self.terms.rebalance_timeout_ms
        self._fire_if_known(MemberEvent.POLLED, now_ms)
        if self._revocation_told:
            self._fire(self.has_given_up, now_ms)
        lost, self._lost = self._lost, frozenset()
        revoked = self._revoking & self.held if self.state is MemberState.REVOKING else frozenset()
        self._revocation_told = bool(revoked)
        assigned = self.owned - self.held - self._revoking
        self.held |= assigned
        return Changes(lost, revoked, assigned)

    def polling(self, begins: bool, now_ms: float) -> None:
        """The user waits in a poll, so it cannot be late meanwhile."""
        self._polling = begins
        if self.terms.must_poll:
            self._poll_by_ms = now_ms + self.terms.rebalance_timeout_ms

    @property
    def has_news(self) -> bool:
        """Whether a poll would report a change, or raise."""
        revoked = self.state is MemberState.REVOKING and not self._revocation_told
        return bool(self.error or self._lost or revoked or self.owned - self.held)

    def rejoin(self, now_ms: float) -> None:
        """Let the group rebalance, because its subscription has changed."""
        if self.state is MemberState.STABLE:
            self._rebalance(now_ms)

    def close(self, now_ms: float) -> None:
        self._fire_if_known(MemberEvent.CLOSE, now_ms)

    # Requests' contents.

    def protocols(self) -> list[tuple[str, bytes]]:
        """Names and metadata of the assignors, for JoinGroup, as they are at this moment."""
        owned = tuple(self.owned) if self.terms.cooperative else ()
        return [
            (
                assignor.name,
                Subscription(
                    self.terms.topics,
                    assignor.user_data(self._owned_in),
                    owned,
                    self._owned_in,
                    self.terms.rack_id,
                ).encode(),
            )
            for assignor in self.terms.assignors
        ]

    # Inside.

    def _fire_if_known(self, event: MemberEvent, now_ms: float) -> None:
        if (self.state, event) in TRANSITIONS:
            self._fire(event, now_ms)

    def _fire(self, event: MemberEvent, now_ms: float) -> None:
        before = self.state
        self.state, actions = TRANSITIONS[before, event]
        if self.state is not before:
            self.under_way = None
        for action in actions:
            self._do(action, now_ms)
        if self.state is MemberState.REVOKING and not self._must_be_told(self._revoking):
            self._fire(self.has_given_up, now_ms)

    def _do(self, action: MemberAction, now_ms: float) -> None:
        if action is MemberAction.LEAVE and not self._leaves:
            return
        if action is MemberAction.LEAVE:
            self.leaving = self.identity
        if action in REQUESTS:
            self.under_way = None if action is MemberAction.LEAVE else action
            self._actions = [each for each in self._actions if each not in REQUESTS]
            self._actions.append(action)
        elif action in (MemberAction.FIND_COORDINATOR, MemberAction.ABANDON):
            self._actions.append(action)
        else:
            _MEMORY[action](self, now_ms)

    @property
    def _leaves(self) -> bool:
        """Whether the coordinator hears of the end of the membership."""
        return self.terms.instance_id is None and bool(self.identity.member_id)

    def _succeeded(self, now_ms: float) -> None:
        self.under_way = None
        self._failures = 0
        self._not_before_ms = now_ms
        self._session_ms = now_ms + self.terms.session_timeout_ms
        self._heartbeat_ms = now_ms + self.terms.heartbeat_interval_ms

    def _back_off(self, now_ms: float) -> None:
        self._not_before_ms = now_ms + self.terms.backoff_ms(self._failures)
        self._failures += 1

    def _forget_member_id(self, now_ms: float) -> None:
        self.identity = MemberIdentity("", -1, self.terms.instance_id)

    def _forget_generation(self, now_ms: float) -> None:
        self.identity = MemberIdentity(self.identity.member_id, -1, self.terms.instance_id)
        self._owned_in = None
        self.leading = None

    def _lose(self, now_ms: float) -> None:
        self._take_from_user(self.held)
        self.owned = frozenset()
        self._revoke(())

    def _take_from_user(self, partitions: frozenset[TopicPartition]) -> None:
        """Lose the partitions without having reported them as revoked: the next poll reports them as lost."""
        self._lost |= partitions & self.held
        self.held -= partitions

    def _revoke_all(self, now_ms: float) -> None:
        self._revoke(self.owned)

    def _revoke(self, partitions: Iterable[TopicPartition]) -> None:
        self._revoking = frozenset(partitions)
        self._revocation_told = False

    def _give_up(self, now_ms: float) -> None:
        self.owned -= self._revoking
        if self._revocation_told:
            self.held -= self._revoking
        else:
            self._take_from_user(self._revoking)
        self._revoke(())

    def _must_be_told(self, partitions: frozenset[TopicPartition]) -> bool:
        return self.terms.must_poll and bool(partitions & self.held)


_MEMORY: dict[MemberAction, Callable[[Membership, float], None]] = {
    MemberAction.BACK_OFF: Membership._back_off,
    MemberAction.FORGET_MEMBER_ID: Membership._forget_member_id,
    MemberAction.FORGET_GENERATION: Membership._forget_generation,
    MemberAction.LOSE: Membership._lose,
    MemberAction.REVOKE: Membership._revoke_all,
    MemberAction.GIVE_UP: Membership._give_up,
}


def _event_of(error: Exception) -> MemberEvent | None:
    """None: the error does not pass."""
    passes = isinstance(error, DeadlineExceeded) or getattr(error, "retriable", False)
    if type(error) in _EVENTS or not passes:
        return _EVENTS.get(type(error))
    gone = not isinstance(error, BrokerError) or error.row.refresh_coordinator
    return MemberEvent.COORDINATOR_GONE if gone else MemberEvent.NOT_YET


def _member(row: Fields) -> Member:
    try:
        return Member(Subscription.decode(row["metadata"]), row["group_instance_id"])
    except ProtocolError as error:
        raise ProtocolError(f"member {row['member_id']!r} of the group: {error}") from None
