"""AlterConfigs (key 33): replace all settings that topics or brokers have of their own (KIP-133).

A setting that the request does not name goes back to its default. IncrementalAlterConfigs changes single ones.
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Array, Field

# fmt: off
ALTER_CONFIGS_REQUEST = Message("AlterConfigsRequest", api_key=33, versions=(0, 2), flexible_since=2, fields=[
    Field("resources", Array([
        Field("resource_type", INT8),  # as in DescribeConfigs
        Field("resource_name", STRING),
        Field("configs", Array([
            Field("name", STRING),
            Field("value", STRING, nullable_since=0)]))])),
    Field("validate_only", BOOL)])

ALTER_CONFIGS_RESPONSE = Message("AlterConfigsResponse", api_key=33, versions=(0, 2), flexible_since=2, fields=[
    Field("throttle_time_ms", INT32),
    Field("responses", Array([
        Field("error_code", INT16),
        Field("error_message", STRING, nullable_since=0),
        Field("resource_type", INT8),
        Field("resource_name", STRING)]))])
