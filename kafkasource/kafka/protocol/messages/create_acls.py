"""CreateAcls (key 30): allow or deny operations on resources; the results come in the order of the creations."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT8, INT16, INT32, STRING, Array, Field

# fmt: off
CREATE_ACLS_REQUEST = Message("CreateAclsRequest", api_key=30, versions=(0, 3), flexible_since=2, fields=[
    Field("creations", Array([
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("resource_pattern_type", INT8, since=1, default=3),  # KIP-290; 3: literal
        Field("principal", STRING),  # "User:alice"
        Field("host", STRING),  # an address, or "*"
        Field("operation", INT8),
        Field("permission_type", INT8)]))])

CREATE_ACLS_RESPONSE = Message("CreateAclsResponse", api_key=30, versions=(0, 3), flexible_since=2, fields=[
    Field("throttle_time_ms", INT32),
    Field("results", Array([
        Field("error_code", INT16),
        Field("error_message", STRING, nullable_since=0)]))])
