"""."""

from __future__ import annotations

from kafkasource.protocol.schema import INT8, INT16, INT32, INT64, STRING, Array, Field, Message

# fmt: off
LIST_OFFSETS_REQUEST = Message("ListOffsetsRequest", api_key=2, versions=(0, 11), flexible_since=6, fields=[
    Field("replica_id", INT32),
    Field("isolation_level", INT8, since=2),
    Field("topics", Array([
        Field("name", STRING),
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("current_leader_epoch", INT32, since=4, default=-1, ignorable=True),
            Field("timestamp", INT64),
            Field("max_num_offsets", INT32, until=0, default=1)]))])),
    Field("timeout_ms", INT32, since=10, ignorable=True)])

LIST_OFFSETS_RESPONSE = Message("ListOffsetsResponse", api_key=2, versions=(0, 11), flexible_since=6, fields=[
    Field("throttle_time_ms", INT32, since=2, ignorable=True),
    Field("topics", Array([
        Field("name", STRING),
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("error_code", INT16),
            Field("old_style_offsets", Array(INT64), until=0),
            Field("timestamp", INT64, since=1, default=-1),
            Field("offset", INT64, since=1, default=-1),
            Field("leader_epoch", INT32, since=4, default=-1)]))]))])
