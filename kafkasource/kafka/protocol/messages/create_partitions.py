"""CreatePartitions (key 37): more partitions for a topic, which moves keys to other partitions (KIP-195)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT16, INT32, STRING, Array, Field

# fmt: off
CREATE_PARTITIONS_REQUEST = Message("CreatePartitionsRequest", api_key=37, versions=(0, 3), flexible_since=2, fields=[
    Field("topics", Array([
        Field("name", STRING),
        Field("count", INT32),  # in all, not added
        Field("assignments", Array([  # null: the broker's choice; else for each new partition
            Field("broker_ids", Array(INT32))]), nullable_since=0)])),
    Field("timeout_ms", INT32),
    Field("validate_only", BOOL)])

CREATE_PARTITIONS_RESPONSE = Message("CreatePartitionsResponse", api_key=37, versions=(0, 3), flexible_since=2, fields=[
    Field("throttle_time_ms", INT32),
    Field("results", Array([
        Field("name", STRING),
        Field("error_code", INT16),
        Field("error_message", STRING, nullable_since=0, default=None)]))])
