"""."""

from __future__ import annotations

from kafkasource.protocol.schema import INT16, INT32, STRING, UUID, Array, Field, Message

# fmt: off
DELETE_TOPICS_REQUEST = Message("DeleteTopicsRequest", api_key=20, versions=(0, 6), flexible_since=4, fields=[
    Field("topics", Array([
        Field("name", STRING, nullable_since=6, default=None),
        Field("topic_id", UUID)]), since=6),
    Field("topic_names", Array(STRING), until=5, ignorable=True),
    Field("timeout_ms", INT32)])

DELETE_TOPICS_RESPONSE = Message("DeleteTopicsResponse", api_key=20, versions=(0, 6), flexible_since=4, fields=[
    Field("throttle_time_ms", INT32, since=1, ignorable=True),
    Field("responses", Array([
        Field("name", STRING, nullable_since=6),
        Field("topic_id", UUID, since=6, ignorable=True),
        Field("error_code", INT16),
        Field("error_message", STRING, since=5, nullable_since=5, default=None, ignorable=True)]))])
