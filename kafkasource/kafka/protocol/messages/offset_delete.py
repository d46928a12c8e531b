"""OffsetDelete (key 47): forget a group's offsets of some partitions, of topics that no member reads (KIP-496)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, STRING, Array, Field

# fmt: off
OFFSET_DELETE_REQUEST = Message("OffsetDeleteRequest", api_key=47, versions=(0, 0), flexible_since=1, fields=[
    Field("group_id", STRING),
    Field("topics", Array([
        Field("name", STRING),
        Field("partitions", Array([
            Field("partition_index", INT32)]))]))])

OFFSET_DELETE_RESPONSE = Message("OffsetDeleteResponse", api_key=47, versions=(0, 0), flexible_since=1, fields=[
    Field("error_code", INT16),
    Field("throttle_time_ms", INT32, ignorable=True),
    Field("topics", Array([
        Field("name", STRING),
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("error_code", INT16)]))]))])
