"""Fetch (key 1): records of partitions from an offset on, from the leader, or from a follower in our rack (KIP-392).

The records of a partition are whole batches, but the last may be cut short. The first comes whole even when it is
larger than the limits, so that a reader always makes progress (KIP-74).
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Array, Field, Struct

# fmt: off
FETCH_REQUEST = Message("FetchRequest", api_key=1, versions=(0, 18), flexible_since=12, fields=[
    Field("cluster_id", STRING, since=12, nullable_since=12, default=None, tag=0, ignorable=True),  # KIP-595
    Field("replica_id", INT32, until=14, default=-1),  # -1: a client, not a replica
    Field("replica_state", Struct([  # KIP-903: where a replica tells its id from v15 on
        Field("replica_id", INT32, default=-1),
        Field("replica_epoch", INT64, default=-1)]), since=15, tag=1),
    Field("max_wait_ms", INT32),  # for min_bytes to come together
    Field("min_bytes", INT32),
    Field("max_bytes", INT32, since=3, default=2**31 - 1, ignorable=True),  # KIP-74: of the whole response
    Field("isolation_level", INT8, since=4, ignorable=True),  # KIP-98; 0 read_uncommitted, 1 read_committed
    Field("session_id", INT32, since=7, ignorable=True),  # KIP-227: 0 and epoch -1, no session
    Field("session_epoch", INT32, since=7, default=-1, ignorable=True),
    Field("topics", Array([
        Field("topic", STRING, until=12, ignorable=True),
        Field("topic_id", UUID, since=13, ignorable=True),  # KIP-516: instead of the name
        Field("partitions", Array([
            Field("partition", INT32),
            Field("current_leader_epoch", INT32, since=9, default=-1, ignorable=True),  # KIP-320: fences stale metadata
            Field("fetch_offset", INT64),
            Field("last_fetched_epoch", INT32, since=12, default=-1),  # KIP-595: tells us of truncation
            Field("log_start_offset", INT64, since=5, default=-1, ignorable=True),  # KIP-107: of a replica
            Field("partition_max_bytes", INT32),
            Field("replica_directory_id", UUID, since=17, tag=0, ignorable=True),  # KIP-853
            Field("high_watermark", INT64, since=18, default=2**63 - 1, tag=1, ignorable=True)]))])),  # KIP-1166
    Field("forgotten_topics_data", Array([  # KIP-227: leave the session
        Field("topic", STRING, until=12, ignorable=True),
        Field("topic_id", UUID, since=13, ignorable=True),
        Field("partitions", Array(INT32))]), since=7),
    Field("rack_id", STRING, since=11, ignorable=True)])  # KIP-392: the broker may point us to a follower

FETCH_RESPONSE = Message("FetchResponse", api_key=1, versions=(0, 18), flexible_since=12, fields=[
    Field("throttle_time_ms", INT32, since=1, ignorable=True),  # KIP-13
    Field("error_code", INT16, since=7, ignorable=True),  # KIP-227: of the session
    Field("session_id", INT32, since=7),
    Field("responses", Array([
        Field("topic", STRING, until=12, ignorable=True),
        Field("topic_id", UUID, since=13, ignorable=True),  # KIP-516: instead of the name
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("error_code", INT16),
            Field("high_watermark", INT64),
            Field("last_stable_offset", INT64, since=4, default=-1, ignorable=True),  # KIP-98; -1: unknown
            Field("log_start_offset", INT64, since=5, default=-1, ignorable=True),  # KIP-107; -1: unknown
            Field("diverging_epoch", Struct([  # KIP-595: the log was truncated below our offset; go back to this
                Field("epoch", INT32, default=-1),
                Field("end_offset", INT64, default=-1)]), since=12, tag=0),
            Field("current_leader", Struct([  # KIP-595: with NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH
                Field("leader_id", INT32, default=-1),
                Field("leader_epoch", INT32, default=-1)]), since=12, tag=1),
            Field("snapshot_id", Struct([  # KIP-630: between controllers
                Field("end_offset", INT64, default=-1),
                Field("epoch", INT32, default=-1)]), since=12, tag=2),
            Field("aborted_transactions", Array([  # KIP-98: of these records; null when read_uncommitted
                Field("producer_id", INT64),
                Field("first_offset", INT64)]), since=4, nullable_since=4, ignorable=True),
            Field("preferred_read_replica", INT32, since=11, default=-1),  # KIP-392; -1: stay
            Field("records", RECORDS, nullable_since=0)]))])),  # the last batch may be cut short
    Field("node_endpoints", Array([  # KIP-951: addresses of the current_leaders
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, nullable_since=16, default=None)]), since=16, tag=0)])
