"""SyncGroup (key 14): the leader tells the coordinator what each member gets; each member learns its own share."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BYTES, INT16, INT32, STRING, Array, Field

# fmt: off
SYNC_GROUP_REQUEST = Message("SyncGroupRequest", api_key=14, versions=(0, 5), flexible_since=4, fields=[
    Field("group_id", STRING),
    Field("generation_id", INT32),
    Field("member_id", STRING),
    Field("group_instance_id", STRING, since=3, nullable_since=3, default=None),  # KIP-345
    Field("protocol_type", STRING, since=5, nullable_since=5, default=None, ignorable=True),  # KIP-559: to be compared
    Field("protocol_name", STRING, since=5, nullable_since=5, default=None, ignorable=True),
    Field("assignments", Array([  # from followers: empty
        Field("member_id", STRING),
        Field("assignment", BYTES)]))])

SYNC_GROUP_RESPONSE = Message("SyncGroupResponse", api_key=14, versions=(0, 5), flexible_since=4, fields=[
    Field("throttle_time_ms", INT32, since=1, ignorable=True),
    Field("error_code", INT16),
    Field("protocol_type", STRING, since=5, nullable_since=5, default=None, ignorable=True),
    Field("protocol_name", STRING, since=5, nullable_since=5, default=None, ignorable=True),
    Field("assignment", BYTES)])
