"""LeaveGroup (key 13): give the partitions up now, not when the session times out.

From version 3 on one request takes several members out (KIP-345): `members` counts, not `member_id`.
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, STRING, Array, Field

# fmt: off
LEAVE_GROUP_REQUEST = Message("LeaveGroupRequest", api_key=13, versions=(0, 5), flexible_since=4, fields=[
    Field("group_id", STRING),
    Field("member_id", STRING, until=2),
    Field("members", Array([
        Field("member_id", STRING),  # may be empty where the instance id says who
        Field("group_instance_id", STRING, nullable_since=3, default=None),
        Field("reason", STRING, since=5, nullable_since=5, default=None, ignorable=True)]), since=3)])  # KIP-800

LEAVE_GROUP_RESPONSE = Message("LeaveGroupResponse", api_key=13, versions=(0, 5), flexible_since=4, fields=[
    Field("throttle_time_ms", INT32, since=1, ignorable=True),
    Field("error_code", INT16),
    Field("members", Array([
        Field("member_id", STRING),
        Field("group_instance_id", STRING, nullable_since=3),
        Field("error_code", INT16)]), since=3)])
