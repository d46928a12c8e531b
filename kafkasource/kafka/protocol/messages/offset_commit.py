"""OffsetCommit (key 8): store a group's offsets, at its coordinator."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, INT64, STRING, UUID, Array, Field

# fmt: off
OFFSET_COMMIT_REQUEST = Message("OffsetCommitRequest", api_key=8, versions=(0, 10), flexible_since=8, fields=[
    Field("group_id", STRING),
    Field("generation_id_or_member_epoch", INT32, since=1, default=-1, ignorable=True),  # -1: commit without members
    Field("member_id", STRING, since=1, ignorable=True),
    Field("group_instance_id", STRING, since=7, nullable_since=7, default=None),  # KIP-345: static membership
    Field("retention_time_ms", INT64, since=2, until=4, default=-1, ignorable=True),  # ended by KIP-211
    Field("topics", Array([
        Field("name", STRING, until=9, ignorable=True),
        Field("topic_id", UUID, since=10, ignorable=True),  # KIP-848: instead of the name
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("committed_offset", INT64),
            Field("committed_leader_epoch", INT32, since=6, default=-1, ignorable=True),  # KIP-320
            Field("commit_timestamp", INT64, since=1, until=1, default=-1),  # ms; -1: now
            Field("committed_metadata", STRING, nullable_since=0)]))]))])

OFFSET_COMMIT_RESPONSE = Message("OffsetCommitResponse", api_key=8, versions=(0, 10), flexible_since=8, fields=[
    Field("throttle_time_ms", INT32, since=3, ignorable=True),  # KIP-124
    Field("topics", Array([
        Field("name", STRING, until=9, ignorable=True),
        Field("topic_id", UUID, since=10, ignorable=True),  # KIP-848: instead of the name
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("error_code", INT16)]))]))])
