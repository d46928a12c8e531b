"""DeleteRecords (key 21): move the log start offset of partitions forward; each leader answers (KIP-107)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, INT64, STRING, Array, Field

# fmt: off
DELETE_RECORDS_REQUEST = Message("DeleteRecordsRequest", api_key=21, versions=(0, 2), flexible_since=2, fields=[
    Field("topics", Array([
        Field("name", STRING),
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("offset", INT64)]))])),  # exclusive: what is below goes; -1: all up to the high watermark
    Field("timeout_ms", INT32)])

DELETE_RECORDS_RESPONSE = Message("DeleteRecordsResponse", api_key=21, versions=(0, 2), flexible_since=2, fields=[
    Field("throttle_time_ms", INT32),
    Field("topics", Array([
        Field("name", STRING),
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("low_watermark", INT64),  # the log start offset now; -1 with an error
            Field("error_code", INT16)]))]))])
