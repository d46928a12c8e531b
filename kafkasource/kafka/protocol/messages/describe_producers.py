"""DescribeProducers (key 61): what a partition's leader remembers about its producers (KIP-664)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, INT64, STRING, Array, Field

# fmt: off
DESCRIBE_PRODUCERS_REQUEST = Message(
    "DescribeProducersRequest", api_key=61, versions=(0, 0), flexible_since=0, fields=[
        Field("topics", Array([
            Field("name", STRING),
            Field("partition_indexes", Array(INT32))]))])

DESCRIBE_PRODUCERS_RESPONSE = Message(
    "DescribeProducersResponse", api_key=61, versions=(0, 0), flexible_since=0, fields=[
        Field("throttle_time_ms", INT32),
        Field("topics", Array([
            Field("name", STRING),
            Field("partitions", Array([
                Field("partition_index", INT32),
                Field("error_code", INT16),
                Field("error_message", STRING, nullable_since=0, default=None),
                Field("active_producers", Array([
                    Field("producer_id", INT64),
                    Field("producer_epoch", INT32),
                    Field("last_sequence", INT32, default=-1),  # of its last record here
                    Field("last_timestamp", INT64, default=-1),  # ms
                    Field("coordinator_epoch", INT32),
                    Field("current_txn_start_offset", INT64, default=-1)]))]))]))])  # -1: no transaction is open here
