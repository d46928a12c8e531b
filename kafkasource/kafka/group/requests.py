"""The requests of a group member, in whichever version its coordinator speaks (0.9 and later).

Where the coordinator assigns (KIP-848), each of them is a ConsumerGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkasource.errors import UnsupportedApiVersion
from kafkasource.kafka.cluster.routing import by_topic, indexes_by_topic
from kafkasource.kafka.group.consumer_membership import ConsumerMembership
from kafkasource.kafka.group.consumer_protocol import PROTOCOL_TYPE, Assignment
from kafkasource.kafka.group.membership import MemberIdentity, Membership
from kafkasource.kafka.group.states import MemberAction
from kafkasource.kafka.protocol.apis import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
    Api,
)
from kafkasource.types import TopicPartition

Body = dict[str, object]
BodyOf = Callable[[int], Body]

JOIN_GRACE_MS = 5_000  # beyond the rebalance timeout, as in Java: the coordinator answers late rather than not at all
_LEAVES, _WILL_BE_BACK = -1, -2  # in place of a member epoch


def request_of(
    action: MemberAction, group: str, membership: Membership, assignments: Mapping[str, Assignment]
) -> tuple[Api, BodyOf, float | None]:
    """The request of an action, and how long its answer may take; None: as long as any other. For `assignments` see
    `sync_body`."""
    terms = membership.terms
    if isinstance(membership, ConsumerMembership):
        return CONSUMER_GROUP_HEARTBEAT, consumer_heartbeat_body(group, membership), None
    if action is MemberAction.JOIN:
        timeout_ms = max(terms.rebalance_timeout_ms, terms.session_timeout_ms) + JOIN_GRACE_MS
        return JOIN_GROUP, join_body(group, membership), timeout_ms
    if action is MemberAction.HEARTBEAT:
        return HEARTBEAT, heartbeat_body(group, membership.identity), terms.session_timeout_ms
    return SYNC_GROUP, sync_body(group, membership, assignments), terms.rebalance_timeout_ms + JOIN_GRACE_MS


def leave_request(group: str, membership: Membership, identity: MemberIdentity) -> tuple[Api, BodyOf]:
    if not isinstance(membership, ConsumerMembership):
        return LEAVE_GROUP, leave_body(group, identity)
    back = identity.instance_id is not None and not membership.terms.leave_group
    return CONSUMER_GROUP_HEARTBEAT, lambda _: _which(group, identity, _WILL_BE_BACK if back else _LEAVES)


def consumer_heartbeat_body(group: str, membership: ConsumerMembership) -> BodyOf:
    """Whether it says everything is decided here, and remembered."""
    terms, identity = membership.terms, membership.identity
    body = _which(group, identity, max(0, identity.generation_id))
    if membership.says_all or identity.generation_id <= 0:
        membership.says_all = False
        body |= {
            "rack_id": terms.rack_id,
            "rebalance_timeout_ms": terms.rebalance_timeout_ms,
            "subscribed_topic_names": sorted(terms.topics),
            "server_assignor": terms.remote_assignor,
            "topic_partitions": [
                {"topic_id": membership.topic_ids[topic], "partitions": sorted(partitions)}
                for topic, partitions in indexes_by_topic(membership.owned).items()
            ],
        }

    def body_of(version: int) -> Body:
        if version < 1:
            raise UnsupportedApiVersion("the broker has only the early access to ConsumerGroupHeartbeat, version 0")
        return body

    return body_of


def _which(group: str, identity: MemberIdentity, epoch: int) -> Body:
    """A heartbeat that says nothing but whose it is."""
    instance_id = identity.instance_id
    return {"group_id": group, "member_id": identity.member_id, "member_epoch": epoch, "instance_id": instance_id}


def join_body(group: str, membership: Membership) -> BodyOf:
    terms, member_id = membership.terms, membership.identity.member_id
    protocols = [{"name": name, "metadata": metadata} for name, metadata in membership.protocols()]

    def body(version: int) -> Body:
        return {
            "group_id": group,
            "session_timeout_ms": terms.session_timeout_ms,
            "rebalance_timeout_ms": terms.rebalance_timeout_ms,
            "member_id": member_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": protocols,
            **_instance(terms.instance_id, version, since=5),
        }

    return body


def sync_body(group: str, membership: Membership, assignments: Mapping[str, Assignment]) -> BodyOf:
    """`assignments` has those of all members, if the leader sends it. It is empty from other members, and if the
    assignments stay as they are."""
    rows = [{"member_id": member_id, "assignment": each.encode()} for member_id, each in assignments.items()]
    identity, protocol_name = membership.identity, membership.protocol_name

    def body(version: int) -> Body:
        named = {"protocol_type": PROTOCOL_TYPE, "protocol_name": protocol_name} if version >= 5 else {}
        return {**_who(group, identity, version), **named, "assignments": rows}

    return body


def heartbeat_body(group: str, identity: MemberIdentity) -> BodyOf:
    return lambda version: _who(group, identity, version)


def leave_body(group: str, identity: MemberIdentity) -> BodyOf:
    def body(version: int) -> Body:
        if version < 3:
            return {"group_id": group, "member_id": identity.member_id}
        return {"group_id": group, "members": [{"member_id": identity.member_id, "group_instance_id": None}]}

    return body


def commit_body(group: str, identity: MemberIdentity, offsets: Mapping[TopicPartition, int]) -> BodyOf:
    """An offset is the next to read."""
    rows = by_topic(offsets, lambda tp: {"partition_index": tp.partition, "committed_offset": offsets[tp]})

    def body(version: int) -> Body:
        if version < 1:
            raise UnsupportedApiVersion("OffsetCommit v0 has no group members: consumer groups need Kafka 0.9 or newer")
        return {
            "group_id": group,
            "generation_id_or_member_epoch": identity.generation_id,
            "member_id": identity.member_id,
            "topics": rows,
            **_instance(identity.instance_id, version, since=7),
        }

    return body


def _who(group: str, identity: MemberIdentity, version: int) -> Body:
    return {
        "group_id": group,
        "generation_id": identity.generation_id,
        "member_id": identity.member_id,
        **_instance(identity.instance_id, version, since=3),
    }


def _instance(instance_id: str | None, version: int, since: int) -> Body:
    if instance_id is None:
        return {}
    if version < since:
        raise UnsupportedApiVersion(f"static membership (group instance id {instance_id!r}) needs Kafka 2.3 or newer")
    return {"group_instance_id": instance_id}
