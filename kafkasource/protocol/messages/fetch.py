"""."""

from __future__ import annotations

from kafkasource.protocol.schema import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Array, Field, Message, Struct

# fmt: off
FETCH_REQUEST = Message("FetchRequest", api_key=1, versions=(0, 18), flexible_since=12, fields=[
    Field("cluster_id", STRING, since=12, nullable_since=12, default=None, tag=0, ignorable=True),
    Field("replica_id", INT32, until=14, default=-1),
    Field("replica_state", Struct([
        Field("replica_id", INT32, default=-1),
        Field("replica_epoch", INT64, default=-1)]), since=15, tag=1),
    Field("max_wait_ms", INT32),
    Field("min_bytes", INT32),
    Field("max_bytes", INT32, since=3, default=2**31 - 1, ignorable=True),
    Field("isolation_level", INT8, since=4, ignorable=True),
    Field("session_id", INT32, since=7, ignorable=True),
    Field("session_epoch", INT32, since=7, default=-1, ignorable=True),
    Field("topics", Array([
        Field("topic", STRING, until=12, ignorable=True),
        Field("topic_id", UUID, since=13, ignorable=True),
        Field("partitions", Array([
            Field("partition", INT32),
            Field("current_leader_epoch", INT32, since=9, default=-1, ignorable=True),
            Field("fetch_offset", INT64),
            Field("last_fetched_epoch", INT32, since=12, default=-1),
            Field("log_start_offset", INT64, since=5, default=-1, ignorable=True),
            Field("partition_max_bytes", INT32),
            Field("replica_directory_id", UUID, since=17, tag=0, ignorable=True),
            Field("high_watermark", INT64, since=18, default=2**63 - 1, tag=1, ignorable=True)]))])),
    Field("forgotten_topics_data", Array([
        Field("topic", STRING, until=12, ignorable=True),
        Field("topic_id", UUID, since=13, ignorable=True),
        Field("partitions", Array(INT32))]), since=7),
    Field("rack_id", STRING, since=11, ignorable=True)])

FETCH_RESPONSE = Message("FetchResponse", api_key=1, versions=(0, 18), flexible_since=12, fields=[
    Field("throttle_time_ms", INT32, since=1, ignorable=True),
    Field("error_code", INT16, since=7, ignorable=True),
    Field("session_id", INT32, since=7),
    Field("responses", Array([
        Field("topic", STRING, until=12, ignorable=True),
        Field("topic_id", UUID, since=13, ignorable=True),
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("error_code", INT16),
            Field("high_watermark", INT64),
            Field("last_stable_offset", INT64, since=4, default=-1, ignorable=True),
            Field("log_start_offset", INT64, since=5, default=-1, ignorable=True),
            Field("diverging_epoch", Struct([
                Field("epoch", INT32, default=-1),
                Field("end_offset", INT64, default=-1)]), since=12, tag=0),
            Field("current_leader", Struct([
                Field("leader_id", INT32, default=-1),
                Field("leader_epoch", INT32, default=-1)]), since=12, tag=1),
            Field("snapshot_id", Struct([
                Field("end_offset", INT64, default=-1),
                Field("epoch", INT32, default=-1)]), since=12, tag=2),
            Field("aborted_transactions", Array([
                Field("producer_id", INT64),
                Field("first_offset", INT64)]), since=4, nullable_since=4, ignorable=True),
            Field("preferred_read_replica", INT32, since=11, default=-1),
            Field("records", RECORDS, nullable_since=0)]))])),
    Field("node_endpoints", Array([
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, nullable_since=16, default=None)]), since=16, tag=0)])
