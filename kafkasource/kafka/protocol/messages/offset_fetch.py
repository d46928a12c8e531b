"""OffsetFetch (key 9): a group's committed offsets, from its coordinator.

Version 8 asks for several groups at once, in fields of its own: up to 7 the top-level ones count, from 8 on `groups`.
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT16, INT32, INT64, STRING, UUID, Array, Field

# fmt: off
OFFSET_FETCH_REQUEST = Message("OffsetFetchRequest", api_key=9, versions=(0, 10), flexible_since=6, fields=[
    Field("group_id", STRING, until=7),
    Field("topics", Array([  # null: all (from v2 on)
        Field("name", STRING),
        Field("partition_indexes", Array(INT32))]), until=7, nullable_since=2),
    Field("groups", Array([  # KIP-709
        Field("group_id", STRING),
        Field("member_id", STRING, since=9, nullable_since=9, default=None, ignorable=True),  # KIP-848
        Field("member_epoch", INT32, since=9, default=-1, ignorable=True),
        Field("topics", Array([  # null: all
            Field("name", STRING, until=9, ignorable=True),
            Field("topic_id", UUID, since=10, ignorable=True),  # KIP-848: instead of the name
            Field("partition_indexes", Array(INT32))]), nullable_since=8)]), since=8),
    Field("require_stable", BOOL, since=7)])  # KIP-447: an error instead of offsets that a transaction is about to move

OFFSET_FETCH_RESPONSE = Message("OffsetFetchResponse", api_key=9, versions=(0, 10), flexible_since=6, fields=[
    Field("throttle_time_ms", INT32, since=3, ignorable=True),  # KIP-124
    Field("topics", Array([
        Field("name", STRING),
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("committed_offset", INT64),  # the next to read; -1: none committed
            Field("committed_leader_epoch", INT32, since=5, default=-1, ignorable=True),  # KIP-320
            Field("metadata", STRING, nullable_since=0),
            Field("error_code", INT16)]))]), until=7),
    Field("error_code", INT16, since=2, until=7, ignorable=True),
    Field("groups", Array([  # KIP-709
        Field("group_id", STRING),
        Field("topics", Array([
            Field("name", STRING, until=9, ignorable=True),
            Field("topic_id", UUID, since=10, ignorable=True),  # KIP-848: instead of the name
            Field("partitions", Array([
                Field("partition_index", INT32),
                Field("committed_offset", INT64),
                Field("committed_leader_epoch", INT32, default=-1, ignorable=True),
                Field("metadata", STRING, nullable_since=8),
                Field("error_code", INT16)]))])),
        Field("error_code", INT16)]), since=8)])
