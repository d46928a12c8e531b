"""The states of a group member, what can happen to it, and what it does then: one table, without any I/O.

                       READY            answer             SYNCED
    UNJOINED ────────────────▶ JOINING ───────▶ SYNCING ───────────────▶ STABLE
        ▲  any answer that makes   ▲                │ SYNCED_LESS          │ REBALANCE: it must give partitions up
        │  it start from scratch   │ GIVEN_UP       ▼                      │ (REJOIN: none, so it joins at once)
        └───────────────────       └──────────── REVOKING ◀────────────────┘
                                     a poll reports what the user loses; its next poll gives that up

Where the coordinator assigns (KIP-848), the answer to the join has the assignment, and later heartbeats change it:
JOINING leads to STABLE, and so does REVOKING.

A member whose user does not poll is ABSENT: the group continues without it, until the user polls. CLOSED and FAILED
are final.

Eager assignors give up everything before each JoinGroup. Cooperative ones (KIP-429) join with what they own, learn
from the new assignment what to give up, and join again when they have.
"""

from __future__ import annotations

from enum import Enum


class MemberState(Enum):
    UNJOINED = "unjoined"  # of no generation; joins when the backoff is over
    JOINING = "joining"  # JoinGroup is under way: the coordinator holds it until all members have come
    SYNCING = "syncing"  # SyncGroup is under way: held until the leader's has come
    STABLE = "stable"
    REVOKING = "revoking"  # still of its generation, with heartbeats; joins again when the user has given up
    ABSENT = "absent"  # the user did not poll in time
    CLOSED = "closed"
    FAILED = "failed"  # an error that no retry can repair; `poll` raises it


class MemberEvent(Enum):
    # The user.
    POLLED = "polled"
    GIVEN_UP = "given up"  # the user polls again after a poll reported what is revoked; or there was nothing to report
    RELEASED = "released"  # the same where the coordinator assigns: a heartbeat reports it, no new join
    CLOSE = "close"
    # The clock.
    READY = "ready"  # the backoff is over
    HEARTBEAT_DUE = "heartbeat due"
    SESSION_EXPIRED = "session expired"  # the coordinator did not answer for `session.timeout.ms`: it gave us up
    POLL_EXPIRED = "poll expired"  # the user did not poll for `max.poll.interval.ms`
    # The coordinator.
    JOINED_AS_LEADER = "joined as leader"
    JOINED_AS_FOLLOWER = "joined as follower"
    MEMBER_ID_GIVEN = "member id given"  # MEMBER_ID_REQUIRED: join again with this id (KIP-394)
    SYNCED = "synced"
    SYNCED_LESS = "synced with less"  # an assignment takes something away from a cooperative member
    HEARTBEAT_DONE = "heartbeat done"
    REBALANCE = "rebalance"  # the group rebalances, and the user holds what has to be given up before
    REJOIN = "rejoin"  # the group rebalances, and the user holds no such partition
    UNKNOWN_MEMBER = "unknown member"  # the coordinator has given us up
    STALE_GENERATION = "stale generation"  # the group went on without us; it still knows our member id
    COORDINATOR_GONE = "coordinator gone"  # it moved, or cannot be reached, or did not answer
    NOT_YET = "not yet"  # it is loading the group, or another error that passes
    REFUSED = "refused"  # fenced (KIP-345), not authorized, inconsistent protocol: an error that does not pass


class MemberAction(Enum):
    # Requests. Of each kind only the newest counts.
    JOIN = "JoinGroup"
    SYNC_AS_LEADER = "SyncGroup with everybody's assignment"
    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    LEAVE = "LeaveGroup"  # of a static member nothing is sent: it may come back (KIP-345)
    # Instructions for the loop.
    FIND_COORDINATOR = "forget the coordinator, the next request looks it up"
    ABANDON = "close the connection: the coordinator holds a request of ours that is of no more interest"
    # Actions that only change the member's state.
    BACK_OFF = "wait longer after each failure"
    FORGET_MEMBER_ID = "be a new member next time"
    FORGET_GENERATION = "what was assigned in it is void"
    LOSE = "own nothing any more; a poll reports that it is lost"
    REVOKE = "a poll reports that everything must be given up"
    GIVE_UP = "own no longer what was revoked"


REQUESTS = {
    MemberAction.JOIN,
    MemberAction.SYNC_AS_LEADER,
    MemberAction.SYNC,
    MemberAction.HEARTBEAT,
    MemberAction.LEAVE,
}

_S, _E, _A = MemberState, MemberEvent, MemberAction
_START_ANEW = (_A.FORGET_GENERATION, _A.LOSE)
_AS_NEW_MEMBER = (_A.FORGET_MEMBER_ID, _A.FORGET_GENERATION, _A.LOSE)
_AWAY = (_A.LEAVE, _A.FORGET_MEMBER_ID, _A.FORGET_GENERATION, _A.LOSE)

TRANSITIONS: dict[tuple[MemberState, MemberEvent], tuple[MemberState, tuple[MemberAction, ...]]] = {
    (_S.UNJOINED, _E.READY): (_S.JOINING, (_A.JOIN,)),
    (_S.UNJOINED, _E.SESSION_EXPIRED): (_S.UNJOINED, _START_ANEW),  # a cooperative member that owned something
    (_S.UNJOINED, _E.POLL_EXPIRED): (_S.ABSENT, _AWAY),
    (_S.UNJOINED, _E.CLOSE): (_S.CLOSED, _AWAY),
    # A JoinGroup is under way. A cooperative member still owns what it had.
    (_S.JOINING, _E.JOINED_AS_LEADER): (_S.SYNCING, (_A.SYNC_AS_LEADER,)),
    (_S.JOINING, _E.JOINED_AS_FOLLOWER): (_S.SYNCING, (_A.SYNC,)),
    (_S.JOINING, _E.SYNCED): (_S.STABLE, ()),
    (_S.JOINING, _E.MEMBER_ID_GIVEN): (_S.JOINING, (_A.JOIN,)),
    (_S.JOINING, _E.REBALANCE): (_S.UNJOINED, (_A.BACK_OFF,)),
    (_S.JOINING, _E.REJOIN): (_S.UNJOINED, (_A.BACK_OFF,)),
    (_S.JOINING, _E.UNKNOWN_MEMBER): (_S.UNJOINED, _AS_NEW_MEMBER),
    (_S.JOINING, _E.STALE_GENERATION): (_S.UNJOINED, _START_ANEW),
    (_S.JOINING, _E.COORDINATOR_GONE): (_S.UNJOINED, (_A.FIND_COORDINATOR, _A.BACK_OFF)),
    (_S.JOINING, _E.NOT_YET): (_S.UNJOINED, (_A.BACK_OFF,)),
    (_S.JOINING, _E.REFUSED): (_S.FAILED, _AWAY),
    (_S.JOINING, _E.POLL_EXPIRED): (_S.ABSENT, (_A.ABANDON, *_AWAY)),
    (_S.JOINING, _E.CLOSE): (_S.CLOSED, (_A.ABANDON, *_AWAY)),
    # A SyncGroup is under way. Whatever goes wrong, the generation has no assignment for us: join again.
    (_S.SYNCING, _E.SYNCED): (_S.STABLE, ()),
    (_S.SYNCING, _E.SYNCED_LESS): (_S.REVOKING, ()),
    (_S.SYNCING, _E.REBALANCE): (_S.JOINING, (_A.JOIN,)),
    (_S.SYNCING, _E.REJOIN): (_S.JOINING, (_A.JOIN,)),
    (_S.SYNCING, _E.UNKNOWN_MEMBER): (_S.UNJOINED, _AS_NEW_MEMBER),
    (_S.SYNCING, _E.STALE_GENERATION): (_S.UNJOINED, _START_ANEW),
    (_S.SYNCING, _E.COORDINATOR_GONE): (_S.UNJOINED, (_A.FIND_COORDINATOR, _A.BACK_OFF)),
    (_S.SYNCING, _E.NOT_YET): (_S.UNJOINED, (_A.BACK_OFF,)),
    (_S.SYNCING, _E.REFUSED): (_S.FAILED, _AWAY),
    (_S.SYNCING, _E.POLL_EXPIRED): (_S.ABSENT, (_A.ABANDON, *_AWAY)),
    (_S.SYNCING, _E.CLOSE): (_S.CLOSED, (_A.ABANDON, *_AWAY)),
    # A member with an assignment. The coordinator may be lost for as long as the session lasts.
    (_S.STABLE, _E.HEARTBEAT_DUE): (_S.STABLE, (_A.HEARTBEAT,)),
    (_S.STABLE, _E.HEARTBEAT_DONE): (_S.STABLE, ()),
    (_S.STABLE, _E.SYNCED_LESS): (_S.REVOKING, ()),
    (_S.STABLE, _E.REBALANCE): (_S.REVOKING, (_A.REVOKE,)),
    (_S.STABLE, _E.REJOIN): (_S.JOINING, (_A.JOIN,)),
    (_S.STABLE, _E.UNKNOWN_MEMBER): (_S.UNJOINED, _AS_NEW_MEMBER),
    (_S.STABLE, _E.STALE_GENERATION): (_S.UNJOINED, _START_ANEW),
    (_S.STABLE, _E.COORDINATOR_GONE): (_S.STABLE, (_A.FIND_COORDINATOR, _A.BACK_OFF)),
    (_S.STABLE, _E.NOT_YET): (_S.STABLE, (_A.BACK_OFF,)),
    (_S.STABLE, _E.REFUSED): (_S.FAILED, _AWAY),
    (_S.STABLE, _E.SESSION_EXPIRED): (_S.UNJOINED, (_A.FIND_COORDINATOR, *_START_ANEW)),
    (_S.STABLE, _E.POLL_EXPIRED): (_S.ABSENT, _AWAY),
    (_S.STABLE, _E.CLOSE): (_S.CLOSED, _AWAY),
    # The same, but on its way to the next generation: it knows that the group rebalances.
    (_S.REVOKING, _E.GIVEN_UP): (_S.JOINING, (_A.GIVE_UP, _A.JOIN)),
    (_S.REVOKING, _E.RELEASED): (_S.STABLE, (_A.GIVE_UP,)),
    (_S.REVOKING, _E.HEARTBEAT_DUE): (_S.REVOKING, (_A.HEARTBEAT,)),
    (_S.REVOKING, _E.HEARTBEAT_DONE): (_S.REVOKING, ()),
    (_S.REVOKING, _E.REBALANCE): (_S.REVOKING, ()),
    (_S.REVOKING, _E.REJOIN): (_S.REVOKING, ()),
    (_S.REVOKING, _E.UNKNOWN_MEMBER): (_S.UNJOINED, _AS_NEW_MEMBER),
    (_S.REVOKING, _E.STALE_GENERATION): (_S.UNJOINED, _START_ANEW),
    (_S.REVOKING, _E.COORDINATOR_GONE): (_S.REVOKING, (_A.FIND_COORDINATOR, _A.BACK_OFF)),
    (_S.REVOKING, _E.NOT_YET): (_S.REVOKING, (_A.BACK_OFF,)),
    (_S.REVOKING, _E.REFUSED): (_S.FAILED, _AWAY),
    (_S.REVOKING, _E.SESSION_EXPIRED): (_S.UNJOINED, (_A.FIND_COORDINATOR, *_START_ANEW)),
    (_S.REVOKING, _E.POLL_EXPIRED): (_S.ABSENT, _AWAY),
    (_S.REVOKING, _E.CLOSE): (_S.CLOSED, _AWAY),
    (_S.ABSENT, _E.POLLED): (_S.UNJOINED, ()),
    (_S.ABSENT, _E.CLOSE): (_S.CLOSED, ()),
    (_S.FAILED, _E.CLOSE): (_S.CLOSED, ()),
}
"""What is not in it cannot happen, but for POLLED and CLOSE, which change nothing then."""
