"""DeleteTopics (key 20), by name, or from version 6 on by id too (KIP-516)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, STRING, UUID, Array, Field

# fmt: off
DELETE_TOPICS_REQUEST = Message("DeleteTopicsRequest", api_key=20, versions=(0, 6), flexible_since=4, fields=[
    Field("topics", Array([  # KIP-516: by name, or by id with a null name
        Field("name", STRING, nullable_since=6, default=None),
        Field("topic_id", UUID)]), since=6),
    Field("topic_names", Array(STRING), until=5, ignorable=True),
    Field("timeout_ms", INT32)])

DELETE_TOPICS_RESPONSE = Message("DeleteTopicsResponse", api_key=20, versions=(0, 6), flexible_since=4, fields=[
    Field("throttle_time_ms", INT32, since=1, ignorable=True),
    Field("responses", Array([
        Field("name", STRING, nullable_since=6),  # null when asked by id and not known
        Field("topic_id", UUID, since=6, ignorable=True),  # KIP-516
        Field("error_code", INT16),
        Field("error_message", STRING, since=5, nullable_since=5, default=None, ignorable=True)]))])  # KIP-599
