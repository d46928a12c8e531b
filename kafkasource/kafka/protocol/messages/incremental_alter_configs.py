"""IncrementalAlterConfigs (key 44): change single settings of topics or brokers, the others stay (KIP-339)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Array, Field

# fmt: off
INCREMENTAL_ALTER_CONFIGS_REQUEST = Message(
    "IncrementalAlterConfigsRequest", api_key=44, versions=(0, 1), flexible_since=1, fields=[
    Field("resources", Array([
        Field("resource_type", INT8),  # as in DescribeConfigs
        Field("resource_name", STRING),
        Field("configs", Array([
            Field("name", STRING),
            Field("config_operation", INT8),  # 0 set, 1 delete (back to the default), 2 append, 3 subtract
            Field("value", STRING, nullable_since=0)]))])),
    Field("validate_only", BOOL)])

INCREMENTAL_ALTER_CONFIGS_RESPONSE = Message(
    "IncrementalAlterConfigsResponse", api_key=44, versions=(0, 1), flexible_since=1, fields=[
    Field("throttle_time_ms", INT32),
    Field("responses", Array([
        Field("error_code", INT16),
        Field("error_message", STRING, nullable_since=0),
        Field("resource_type", INT8),
        Field("resource_name", STRING)]))])
