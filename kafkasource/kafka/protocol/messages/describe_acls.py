"""DescribeAcls (key 29): the permissions of users. A null name, principal or host in a filter matches every one.

The numbers of resource types, pattern types, operations and permissions are Kafka's (`AclOperation` and its like).
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT8, INT16, INT32, STRING, Array, Field

# fmt: off
DESCRIBE_ACLS_REQUEST = Message("DescribeAclsRequest", api_key=29, versions=(0, 3), flexible_since=2, fields=[
    Field("resource_type_filter", INT8),
    Field("resource_name_filter", STRING, nullable_since=0),
    Field("pattern_type_filter", INT8, since=1, default=3),  # KIP-290; 3: literal
    Field("principal_filter", STRING, nullable_since=0),
    Field("host_filter", STRING, nullable_since=0),
    Field("operation", INT8),
    Field("permission_type", INT8)])

DESCRIBE_ACLS_RESPONSE = Message("DescribeAclsResponse", api_key=29, versions=(0, 3), flexible_since=2, fields=[
    Field("throttle_time_ms", INT32),
    Field("error_code", INT16),
    Field("error_message", STRING, nullable_since=0),
    Field("resources", Array([
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("pattern_type", INT8, since=1, default=3),
        Field("acls", Array([
            Field("principal", STRING),
            Field("host", STRING),
            Field("operation", INT8),
            Field("permission_type", INT8)]))]))])
