"""DescribeLogDirs (key 35): how large the logs are that a broker keeps, by the folder they are in (KIP-113)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Array, Field

# fmt: off
DESCRIBE_LOG_DIRS_REQUEST = Message("DescribeLogDirsRequest", api_key=35, versions=(0, 5), flexible_since=2, fields=[
    Field("topics", Array([
        Field("topic", STRING),
        Field("partitions", Array(INT32))]), nullable_since=0)])  # null: all that the broker keeps

DESCRIBE_LOG_DIRS_RESPONSE = Message("DescribeLogDirsResponse", api_key=35, versions=(0, 5), flexible_since=2, fields=[
    Field("throttle_time_ms", INT32),
    # Before version 3 a broker gives no results to a user without the right Describe on the cluster, and no error.
    Field("error_code", INT16, since=3, ignorable=True),
    Field("results", Array([
        Field("error_code", INT16),  # 56: the folder cannot be read
        Field("log_dir", STRING),
        Field("topics", Array([
            Field("name", STRING),
            Field("partitions", Array([
                Field("partition_index", INT32),
                Field("partition_size", INT64),  # bytes of its segments
                Field("offset_lag", INT64),
                Field("is_future_key", BOOL)]))])),  # a copy that moves here from another folder of the broker
        Field("total_bytes", INT64, since=4, default=-1, ignorable=True),  # of the volume (KIP-827)
        Field("usable_bytes", INT64, since=4, default=-1, ignorable=True),
        Field("is_cordoned", BOOL, since=5, default=False, ignorable=True)]))])  # gets no new partitions (KIP-1066)
