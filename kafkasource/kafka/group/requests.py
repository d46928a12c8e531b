"""The requests of a group member, in whichever version its coordinator speaks (0.9 and later)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkasource.errors import UnsupportedApiVersion
from kafkasource.kafka.group.consumer_protocol import PROTOCOL_TYPE, Assignment
from kafkasource.kafka.group.membership import MemberIdentity, Membership
from kafkasource.types import TopicPartition

Body = dict[str, object]
BodyOf = Callable[[int], Body]


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
    topics: dict[str, list[Body]] = {}
    for tp, offset in offsets.items():
        topics.setdefault(tp.topic, []).append({"partition_index": tp.partition, "committed_offset": offset})
    rows = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]

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
