"""JoinGroup (key 11): become, or stay, a member of a group; answered when every member has joined or was given up.

The coordinator chooses a protocol that all members support and one member as leader; only the leader receives
the members and their metadata (for consumers: kafka/group/consumer_protocol.py).
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, BYTES, INT16, INT32, STRING, Array, Field

# fmt: off
JOIN_GROUP_REQUEST = Message("JoinGroupRequest", api_key=11, versions=(0, 9), flexible_since=6, fields=[
    Field("group_id", STRING),
    Field("session_timeout_ms", INT32),  # after this long without a heartbeat the coordinator removes the member
    Field("rebalance_timeout_ms", INT32, since=1, default=-1, ignorable=True),  # KIP-62; v0: the session's
    Field("member_id", STRING),  # empty at first; from v4 on answered with MEMBER_ID_REQUIRED and an id (KIP-394)
    Field("group_instance_id", STRING, since=5, nullable_since=5, default=None),  # KIP-345: static membership
    Field("protocol_type", STRING),  # "consumer"
    Field("protocols", Array([  # the assignors that the member knows, the preferred one first
        Field("name", STRING),
        Field("metadata", BYTES)])),
    Field("reason", STRING, since=8, nullable_since=8, default=None, ignorable=True)])  # KIP-800: for its log

JOIN_GROUP_RESPONSE = Message("JoinGroupResponse", api_key=11, versions=(0, 9), flexible_since=6, fields=[
    Field("throttle_time_ms", INT32, since=2, ignorable=True),
    Field("error_code", INT16),
    Field("generation_id", INT32, default=-1),
    Field("protocol_type", STRING, since=7, nullable_since=7, default=None, ignorable=True),  # KIP-559
    Field("protocol_name", STRING, nullable_since=7),
    Field("leader", STRING),  # the member id of whom to assign
    Field("skip_assignment", BOOL, since=9),  # KIP-814: a static leader came back, and nothing changed
    Field("member_id", STRING),
    Field("members", Array([  # empty for followers
        Field("member_id", STRING),
        Field("group_instance_id", STRING, since=5, nullable_since=5, default=None, ignorable=True),
        Field("metadata", BYTES)]))])
