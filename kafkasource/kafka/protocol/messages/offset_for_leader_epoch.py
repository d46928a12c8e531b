"""OffsetForLeaderEpoch (key 23, KIP-101, KIP-320): where a leader epoch ends in the leader's log. A reader beyond that
end learns so that the log was truncated.
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, INT64, STRING, Array, Field

# fmt: off
OFFSET_FOR_LEADER_EPOCH_REQUEST = Message(
    "OffsetForLeaderEpochRequest", api_key=23, versions=(0, 4), flexible_since=4, fields=[
    Field("replica_id", INT32, since=3, default=-2, ignorable=True),  # -1: a client, not a replica; -2: a debugger
    Field("topics", Array([
        Field("topic", STRING),
        Field("partitions", Array([
            Field("partition", INT32),
            Field("current_leader_epoch", INT32, since=2, default=-1, ignorable=True),  # KIP-320: fences stale metadata
            Field("leader_epoch", INT32)]))]))])  # whose end is asked for

OFFSET_FOR_LEADER_EPOCH_RESPONSE = Message(
    "OffsetForLeaderEpochResponse", api_key=23, versions=(0, 4), flexible_since=4, fields=[
    Field("throttle_time_ms", INT32, since=2, ignorable=True),
    Field("topics", Array([
        Field("topic", STRING),
        Field("partitions", Array([
            Field("error_code", INT16),
            Field("partition", INT32),
            Field("leader_epoch", INT32, since=1, default=-1, ignorable=True),  # as asked for, or the last before
            Field("end_offset", INT64, default=-1)]))]))])  # exclusive; the log's end for the newest epoch; -1: unknown
