"""."""

from __future__ import annotations

from kafkasource.protocol.schema import BOOL, INT16, INT32, STRING, UUID, Array, Field, Message

# fmt: off
METADATA_REQUEST = Message("MetadataRequest", api_key=3, versions=(0, 13), flexible_since=9, fields=[
    Field("topics", Array([
        Field("topic_id", UUID, since=10, ignorable=True),
        Field("name", STRING, nullable_since=10)]), nullable_since=1),
    Field("allow_auto_topic_creation", BOOL, since=4, default=True),
    Field("include_cluster_authorized_operations", BOOL, since=8, until=10),
    Field("include_topic_authorized_operations", BOOL, since=8)])

METADATA_RESPONSE = Message("MetadataResponse", api_key=3, versions=(0, 13), flexible_since=9, fields=[
    Field("throttle_time_ms", INT32, since=3, ignorable=True),
    Field("brokers", Array([
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, since=1, nullable_since=1, default=None, ignorable=True)])),
    Field("cluster_id", STRING, since=2, nullable_since=2, default=None, ignorable=True),
    Field("controller_id", INT32, since=1, default=-1, ignorable=True),
    Field("topics", Array([
        Field("error_code", INT16),
        Field("name", STRING, nullable_since=12),
        Field("topic_id", UUID, since=10, ignorable=True),
        Field("is_internal", BOOL, since=1, ignorable=True),
        Field("partitions", Array([
            Field("error_code", INT16),
            Field("partition_index", INT32),
            Field("leader_id", INT32),
            Field("leader_epoch", INT32, since=7, default=-1, ignorable=True),
            Field("replica_nodes", Array(INT32)),
            Field("isr_nodes", Array(INT32)),
            Field("offline_replicas", Array(INT32), since=5, ignorable=True)])),
        Field("topic_authorized_operations", INT32, since=8, default=-(2**31))])),
    Field("cluster_authorized_operations", INT32, since=8, until=10, default=-(2**31)),
    Field("error_code", INT16, since=13, ignorable=True)])
