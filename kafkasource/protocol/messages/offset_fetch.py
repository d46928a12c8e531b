"""."""

from __future__ import annotations

from kafkasource.protocol.schema import BOOL, INT16, INT32, INT64, STRING, UUID, Array, Field, Message

# fmt: off
OFFSET_FETCH_REQUEST = Message("OffsetFetchRequest", api_key=9, versions=(0, 10), flexible_since=6, fields=[
    Field("group_id", STRING, until=7),
    Field("topics", Array([
        Field("name", STRING),
        Field("partition_indexes", Array(INT32))]), until=7, nullable_since=2),
    Field("groups", Array([
        Field("group_id", STRING),
        Field("member_id", STRING, since=9, nullable_since=9, default=None, ignorable=True),
        Field("member_epoch", INT32, since=9, default=-1, ignorable=True),
        Field("topics", Array([
            Field("name", STRING, until=9, ignorable=True),
            Field("topic_id", UUID, since=10, ignorable=True),
            Field("partition_indexes", Array(INT32))]), nullable_since=8)]), since=8),
    Field("require_stable", BOOL, since=7)])

OFFSET_FETCH_RESPONSE = Message("OffsetFetchResponse", api_key=9, versions=(0, 10), flexible_since=6, fields=[
    Field("throttle_time_ms", INT32, since=3, ignorable=True),
    Field("topics", Array([
        Field("name", STRING),
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("committed_offset", INT64),
            Field("committed_leader_epoch", INT32, since=5, default=-1, ignorable=True),
            Field("metadata", STRING, nullable_since=0),
            Field("error_code", INT16)]))]), until=7),
    Field("error_code", INT16, since=2, until=7, ignorable=True),
    Field("groups", Array([
        Field("group_id", STRING),
        Field("topics", Array([
            Field("name", STRING, until=9, ignorable=True),
            Field("topic_id", UUID, since=10, ignorable=True),
            Field("partitions", Array([
                Field("partition_index", INT32),
                Field("committed_offset", INT64),
                Field("committed_leader_epoch", INT32, default=-1, ignorable=True),
                Field("metadata", STRING, nullable_since=8),
                Field("error_code", INT16)]))])),
        Field("error_code", INT16)]), since=8)])
