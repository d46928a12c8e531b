"""DeleteGroups (key 42), answered by each group's coordinator: a group without members goes, with its offsets."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, STRING, Array, Field

# fmt: off
DELETE_GROUPS_REQUEST = Message("DeleteGroupsRequest", api_key=42, versions=(0, 2), flexible_since=2, fields=[
    Field("groups_names", Array(STRING))])

DELETE_GROUPS_RESPONSE = Message("DeleteGroupsResponse", api_key=42, versions=(0, 2), flexible_since=2, fields=[
    Field("throttle_time_ms", INT32),
    Field("results", Array([
        Field("group_id", STRING),
        Field("error_code", INT16)]))])
