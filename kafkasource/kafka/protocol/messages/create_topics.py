"""CreateTopics (key 19), answered by the controller; KRaft brokers forward it there (KIP-590)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Array, Field

# fmt: off
CREATE_TOPICS_REQUEST = Message("CreateTopicsRequest", api_key=19, versions=(0, 7), flexible_since=5, fields=[
    Field("topics", Array([
        Field("name", STRING),
        Field("num_partitions", INT32),  # -1: the broker's default (KIP-464, v4), or given by assignments
        Field("replication_factor", INT16),  # -1: the broker's default (KIP-464, v4), or given by assignments
        Field("assignments", Array([
            Field("partition_index", INT32),
            Field("broker_ids", Array(INT32))])),
        Field("configs", Array([
            Field("name", STRING),
            Field("value", STRING, nullable_since=0)]))])),
    Field("timeout_ms", INT32, default=60000),
    Field("validate_only", BOOL, since=1)])

CREATE_TOPICS_RESPONSE = Message("CreateTopicsResponse", api_key=19, versions=(0, 7), flexible_since=5, fields=[
    Field("throttle_time_ms", INT32, since=2, ignorable=True),
    Field("topics", Array([
        Field("name", STRING),
        Field("topic_id", UUID, since=7, ignorable=True),  # KIP-516
        Field("error_code", INT16),
        Field("error_message", STRING, since=1, nullable_since=1, ignorable=True),
        Field("topic_config_error_code", INT16, since=5, tag=0, ignorable=True),  # KIP-525: why configs is null
        Field("num_partitions", INT32, since=5, default=-1, ignorable=True),  # KIP-525
        Field("replication_factor", INT16, since=5, default=-1, ignorable=True),
        Field("configs", Array([
            Field("name", STRING),
            Field("value", STRING, nullable_since=5),
            Field("read_only", BOOL),
            Field("config_source", INT8, default=-1, ignorable=True),
            Field("is_sensitive", BOOL)]), since=5, nullable_since=5, ignorable=True)]))])
