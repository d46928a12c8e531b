"""DeleteAcls (key 31): remove what filters match; a null name, principal or host matches every one."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT8, INT16, INT32, STRING, Array, Field

# fmt: off
DELETE_ACLS_REQUEST = Message("DeleteAclsRequest", api_key=31, versions=(0, 3), flexible_since=2, fields=[
    Field("filters", Array([
        Field("resource_type_filter", INT8),
        Field("resource_name_filter", STRING, nullable_since=0),
        Field("pattern_type_filter", INT8, since=1, default=3),  # KIP-290; 3: literal
        Field("principal_filter", STRING, nullable_since=0),
        Field("host_filter", STRING, nullable_since=0),
        Field("operation", INT8),
        Field("permission_type", INT8)]))])

DELETE_ACLS_RESPONSE = Message("DeleteAclsResponse", api_key=31, versions=(0, 3), flexible_since=2, fields=[
    Field("throttle_time_ms", INT32),
    Field("filter_results", Array([  # in the order of the filters
        Field("error_code", INT16),
        Field("error_message", STRING, nullable_since=0),
        Field("matching_acls", Array([
            Field("error_code", INT16),
            Field("error_message", STRING, nullable_since=0),
            Field("resource_type", INT8),
            Field("resource_name", STRING),
            Field("pattern_type", INT8, since=1, default=3),
            Field("principal", STRING),
            Field("host", STRING),
            Field("operation", INT8),
            Field("permission_type", INT8)]))]))])
