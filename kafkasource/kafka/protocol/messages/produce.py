"""Produce (key 0): record batches to append, to the leaders of the partitions. With acks = 0 there is no response."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, INT64, RECORDS, STRING, UUID, Array, Field, Struct

# fmt: off
PRODUCE_REQUEST = Message("ProduceRequest", api_key=0, versions=(0, 13), flexible_since=9, fields=[
    Field("transactional_id", STRING, since=3, nullable_since=3, default=None),  # KIP-98, with record batches v2
    Field("acks", INT16),  # -1 all in-sync replicas, 1 the leader, 0 nobody, and no response comes
    Field("timeout_ms", INT32),  # how long the broker waits for the replicas
    Field("topic_data", Array([
        Field("name", STRING, until=12, ignorable=True),
        Field("topic_id", UUID, since=13, ignorable=True),  # KIP-516: instead of the name
        Field("partition_data", Array([
            Field("index", INT32),
            Field("records", RECORDS, nullable_since=0)]))]))])  # one batch from v3 on; zstd from v7 on (KIP-110)

PRODUCE_RESPONSE = Message("ProduceResponse", api_key=0, versions=(0, 13), flexible_since=9, fields=[
    Field("responses", Array([
        Field("name", STRING, until=12, ignorable=True),
        Field("topic_id", UUID, since=13, ignorable=True),  # KIP-516: instead of the name
        Field("partition_responses", Array([
            Field("index", INT32),
            Field("error_code", INT16),
            Field("base_offset", INT64),  # of the first record; -1 with acks = 0 or an error
            Field("log_append_time_ms", INT64, since=2, default=-1, ignorable=True),  # KIP-32; -1: CreateTime
            Field("log_start_offset", INT64, since=5, default=-1, ignorable=True),  # tells retention from loss
            Field("record_errors", Array([  # KIP-467: which records sank the batch
                Field("batch_index", INT32),  # of the record, from 0
                Field("batch_index_error_message", STRING, nullable_since=8, default=None)]), since=8, ignorable=True),
            Field("error_message", STRING, since=8, nullable_since=8, default=None, ignorable=True),
            Field("current_leader", Struct([  # KIP-951: with NOT_LEADER_OR_FOLLOWER
                Field("leader_id", INT32, default=-1),
                Field("leader_epoch", INT32, default=-1)]), since=10, tag=0)]))])),
    Field("throttle_time_ms", INT32, since=1, ignorable=True),  # KIP-13
    Field("node_endpoints", Array([  # KIP-951: addresses of the current_leaders
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, nullable_since=10, default=None)]), since=10, tag=0)])
