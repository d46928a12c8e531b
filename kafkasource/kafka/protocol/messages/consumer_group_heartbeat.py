"""ConsumerGroupHeartbeat (key 68, KIP-848): a member joins, lives and leaves. The coordinator assigns the partitions.

A full request names subscription, rebalance timeout and owned partitions; its answer has the assignment. In other
requests null (-1) means: as before. Their answers have an assignment where it has changed.
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, STRING, UUID, Array, Field, Struct

# fmt: off
_TOPIC_PARTITIONS = Array([
    Field("topic_id", UUID),
    Field("partitions", Array(INT32))])

CONSUMER_GROUP_HEARTBEAT_REQUEST = Message(
    "ConsumerGroupHeartbeatRequest", api_key=68, versions=(0, 1), flexible_since=0, fields=[
        Field("group_id", STRING),
        Field("member_id", STRING),  # version 1: made by the member (KIP-1082)
        Field("member_epoch", INT32),  # 0: join, -1: leave, -2: a static member leaves and will be back
        Field("instance_id", STRING, nullable_since=0, default=None),
        Field("rack_id", STRING, nullable_since=0, default=None),
        Field("rebalance_timeout_ms", INT32, default=-1),
        Field("subscribed_topic_names", Array(STRING), nullable_since=0, default=None),
        Field("subscribed_topic_regex", STRING, since=1, nullable_since=1, default=None),
        Field("server_assignor", STRING, nullable_since=0, default=None),  # null: the coordinator's choice
        Field("topic_partitions", _TOPIC_PARTITIONS, nullable_since=0, default=None)])  # those that it owns

CONSUMER_GROUP_HEARTBEAT_RESPONSE = Message(
    "ConsumerGroupHeartbeatResponse", api_key=68, versions=(0, 1), flexible_since=0, fields=[
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", STRING, nullable_since=0, default=None),
        Field("member_id", STRING, nullable_since=0, default=None),
        Field("member_epoch", INT32),
        Field("heartbeat_interval_ms", INT32),
        Field("assignment", Struct([Field("topic_partitions", _TOPIC_PARTITIONS)]), nullable_since=0, default=None)])
