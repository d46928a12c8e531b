"""."""

from __future__ import annotations

from kafkasource.protocol.schema import INT16, INT32, INT64, RECORDS, STRING, UUID, Array, Field, Message, Struct

# fmt: off
PRODUCE_REQUEST = Message("ProduceRequest", api_key=0, versions=(0, 13), flexible_since=9, fields=[
    Field("transactional_id", STRING, since=3, nullable_since=3, default=None),
    Field("acks", INT16),
    Field("timeout_ms", INT32),
    Field("topic_data", Array([
        Field("name", STRING, until=12, ignorable=True),
        Field("topic_id", UUID, since=13, ignorable=True),
        Field("partition_data", Array([
            Field("index", INT32),
            Field("records", RECORDS, nullable_since=0)]))]))])

PRODUCE_RESPONSE = Message("ProduceResponse", api_key=0, versions=(0, 13), flexible_since=9, fields=[
    Field("responses", Array([
        Field("name", STRING, until=12, ignorable=True),
        Field("topic_id", UUID, since=13, ignorable=True),
        Field("partition_responses", Array([
            Field("index", INT32),
            Field("error_code", INT16),
            Field("base_offset", INT64),
            Field("log_append_time_ms", INT64, since=2, default=-1, ignorable=True),
            Field("log_start_offset", INT64, since=5, default=-1, ignorable=True),
            Field("record_errors", Array([
                Field("batch_index", INT32),
                Field("batch_index_error_message", STRING, nullable_since=8, default=None)]), since=8, ignorable=True),
            Field("error_message", STRING, since=8, nullable_since=8, default=None, ignorable=True),
            Field("current_leader", Struct([
                Field("leader_id", INT32, default=-1),
                Field("leader_epoch", INT32, default=-1)]), since=10, tag=0)]))])),
    Field("throttle_time_ms", INT32, since=1, ignorable=True),
    Field("node_endpoints", Array([
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, nullable_since=10, default=None)]), since=10, tag=0)])
