"""Heartbeat (key 12): a member of a group lives. The answer says when it must join again (REBALANCE_IN_PROGRESS)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, STRING, Field

# fmt: off
HEARTBEAT_REQUEST = Message("HeartbeatRequest", api_key=12, versions=(0, 4), flexible_since=4, fields=[
    Field("group_id", STRING),
    Field("generation_id", INT32),
    Field("member_id", STRING),
    Field("group_instance_id", STRING, since=3, nullable_since=3, default=None)])  # KIP-345

HEARTBEAT_RESPONSE = Message("HeartbeatResponse", api_key=12, versions=(0, 4), flexible_since=4, fields=[
    Field("throttle_time_ms", INT32, since=1, ignorable=True),
    Field("error_code", INT16)])
