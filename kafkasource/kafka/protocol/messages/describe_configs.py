"""DescribeConfigs (key 32): settings of topics and brokers. A broker's own only that broker knows; topics' any."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Array, Field

# fmt: off
DESCRIBE_CONFIGS_REQUEST = Message("DescribeConfigsRequest", api_key=32, versions=(0, 4), flexible_since=4, fields=[
    Field("resources", Array([
        Field("resource_type", INT8),  # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
        Field("resource_name", STRING),
        Field("configuration_keys", Array(STRING), nullable_since=0)])),  # null: all
    Field("include_synonyms", BOOL, since=1),  # KIP-226
    Field("include_documentation", BOOL, since=3)])  # KIP-569

DESCRIBE_CONFIGS_RESPONSE = Message("DescribeConfigsResponse", api_key=32, versions=(0, 4), flexible_since=4, fields=[
    Field("throttle_time_ms", INT32),
    Field("results", Array([
        Field("error_code", INT16),
        Field("error_message", STRING, nullable_since=0),
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("configs", Array([
            Field("name", STRING),
            Field("value", STRING, nullable_since=0),  # null: sensitive, or not set
            Field("read_only", BOOL),
            Field("is_default", BOOL, until=0),
            Field("config_source", INT8, since=1, default=-1, ignorable=True),  # 1 topic, 2-4 brokers, 5 default
            Field("is_sensitive", BOOL),
            Field("synonyms", Array([
                Field("name", STRING),
                Field("value", STRING, nullable_since=0),
                Field("source", INT8)]), since=1, ignorable=True),
            Field("config_type", INT8, since=3, ignorable=True),
            Field("documentation", STRING, since=3, nullable_since=0, ignorable=True)]))]))])
