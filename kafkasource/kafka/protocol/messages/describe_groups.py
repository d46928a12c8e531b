"""DescribeGroups (key 15), answered by each group's coordinator: its state and its members.

Up to version 5 a group that does not exist is one in the state "Dead", without an error; in 6 it is GROUP_ID_NOT_FOUND
(KIP-1043).
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, BYTES, INT16, INT32, STRING, Array, Field

# fmt: off
DESCRIBE_GROUPS_REQUEST = Message("DescribeGroupsRequest", api_key=15, versions=(0, 6), flexible_since=5, fields=[
    Field("groups", Array(STRING)),
    Field("include_authorized_operations", BOOL, since=3)])  # KIP-430

DESCRIBE_GROUPS_RESPONSE = Message("DescribeGroupsResponse", api_key=15, versions=(0, 6), flexible_since=5, fields=[
    Field("throttle_time_ms", INT32, since=1, ignorable=True),
    Field("groups", Array([
        Field("error_code", INT16),
        Field("error_message", STRING, since=6, nullable_since=6, default=None),
        Field("group_id", STRING),
        Field("group_state", STRING),  # Empty, PreparingRebalance, CompletingRebalance, Stable, Dead; 0.9: AwaitingSync
        Field("protocol_type", STRING),
        Field("protocol_data", STRING),  # the assignor, when Stable
        Field("members", Array([
            Field("member_id", STRING),
            Field("group_instance_id", STRING, since=4, nullable_since=4, default=None, ignorable=True),  # KIP-345
            Field("client_id", STRING),
            Field("client_host", STRING),
            Field("member_metadata", BYTES),  # as it joined, when Stable
            Field("member_assignment", BYTES)])),  # when Stable
        Field("authorized_operations", INT32, since=3, default=-(2**31))]))])  # bits; the default: not asked
