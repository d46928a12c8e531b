"""FindCoordinator (key 10): the broker that keeps a group's offsets or a transaction's state."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT8, INT16, INT32, STRING, Array, Field

# fmt: off
FIND_COORDINATOR_REQUEST = Message("FindCoordinatorRequest", api_key=10, versions=(0, 6), flexible_since=3, fields=[
    Field("key", STRING, until=3),  # the group.id or transactional.id
    Field("key_type", INT8, since=1),  # KIP-98; 0 group, 1 transaction, 2 share group (KIP-932, v6)
    Field("coordinator_keys", Array(STRING), since=4)])  # KIP-699: many in one request

FIND_COORDINATOR_RESPONSE = Message("FindCoordinatorResponse", api_key=10, versions=(0, 6), flexible_since=3, fields=[
    Field("throttle_time_ms", INT32, since=1, ignorable=True),
    Field("error_code", INT16, until=3),
    Field("error_message", STRING, since=1, until=3, nullable_since=1, ignorable=True),
    Field("node_id", INT32, until=3),
    Field("host", STRING, until=3),
    Field("port", INT32, until=3),
    Field("coordinators", Array([  # KIP-699
        Field("key", STRING),
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("error_code", INT16),
        Field("error_message", STRING, nullable_since=4, ignorable=True)]), since=4)])
