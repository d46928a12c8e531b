"""ConsumerGroupDescribe (key 69, KIP-848), answered by each group's coordinator: groups of the newer protocol.

Such a group's coordinator assigns the partitions itself, so it answers with each member's current and target assignment
in plain fields. For a classic group it answers GROUP_ID_NOT_FOUND. DescribeGroups (key 15) does so for these groups,
from version 6 on.
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Array, Field, Struct

# fmt: off
_ASSIGNMENT = Struct([
    Field("topic_partitions", Array([
        Field("topic_id", UUID),
        Field("topic_name", STRING),
        Field("partitions", Array(INT32))]))])

CONSUMER_GROUP_DESCRIBE_REQUEST = Message(
    "ConsumerGroupDescribeRequest", api_key=69, versions=(0, 1), flexible_since=0, fields=[
        Field("group_ids", Array(STRING)),
        Field("include_authorized_operations", BOOL)])

CONSUMER_GROUP_DESCRIBE_RESPONSE = Message(
    "ConsumerGroupDescribeResponse", api_key=69, versions=(0, 1), flexible_since=0, fields=[
        Field("throttle_time_ms", INT32),
        Field("groups", Array([
            Field("error_code", INT16),
            Field("error_message", STRING, nullable_since=0, default=None),
            Field("group_id", STRING),
            Field("group_state", STRING),  # Empty, Assigning, Reconciling, Stable, Dead
            Field("group_epoch", INT32),  # grows with each change of members, subscriptions, partitions
            Field("assignment_epoch", INT32),  # the group epoch that the target was made for
            Field("assignor_name", STRING),
            Field("members", Array([
                Field("member_id", STRING),
                Field("instance_id", STRING, nullable_since=0, default=None),
                Field("rack_id", STRING, nullable_since=0, default=None),
                Field("member_epoch", INT32),
                Field("client_id", STRING),
                Field("client_host", STRING),
                Field("subscribed_topic_names", Array(STRING)),
                Field("subscribed_topic_regex", STRING, nullable_since=0, default=None),
                Field("assignment", _ASSIGNMENT),  # its present partitions
                Field("target_assignment", _ASSIGNMENT),  # what it is to have when the others have given it up
                Field("member_type", INT8, since=1, default=-1, ignorable=True)])),  # KIP-1099: 0 classic, 1 consumer
            Field("authorized_operations", INT32, default=-(2**31))]))])  # bits; the default: not asked
