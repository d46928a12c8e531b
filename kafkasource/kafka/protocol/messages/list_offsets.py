"""ListOffsets (key 2): an offset by timestamp, or the first or last offset, of partitions; the leader answers."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT8, INT16, INT32, INT64, STRING, Array, Field

# fmt: off
LIST_OFFSETS_REQUEST = Message("ListOffsetsRequest", api_key=2, versions=(0, 11), flexible_since=6, fields=[
    Field("replica_id", INT32, default=-1),  # -1: a client, not a replica
    Field("isolation_level", INT8, since=2),  # KIP-98; 1 read_committed: latest is the last stable offset
    Field("topics", Array([
        Field("name", STRING),
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("current_leader_epoch", INT32, since=4, default=-1, ignorable=True),  # KIP-320: fences stale metadata
            Field("timestamp", INT64),  # ms; -1 latest, -2 earliest; KIP-734 (v7): -3 max timestamp; tiers -4 to -6
            Field("max_num_offsets", INT32, until=0, default=1)]))])),  # v0 answers with starts of log segments
    Field("timeout_ms", INT32, since=10, ignorable=True)])  # KIP-1075: for looking into remote storage

LIST_OFFSETS_RESPONSE = Message("ListOffsetsResponse", api_key=2, versions=(0, 11), flexible_since=6, fields=[
    Field("throttle_time_ms", INT32, since=2, ignorable=True),
    Field("topics", Array([
        Field("name", STRING),
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("error_code", INT16),
            Field("old_style_offsets", Array(INT64), until=0),
            Field("timestamp", INT64, since=1, default=-1),  # of the record found; -1: none, or not asked
            Field("offset", INT64, since=1, default=-1),  # KIP-79; -1: no record is that late
            Field("leader_epoch", INT32, since=4, default=-1)]))]))])  # KIP-320: of the record found
