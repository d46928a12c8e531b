"""Metadata (key 3): the brokers, the topics, and who leads each partition. Any broker answers."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT16, INT32, STRING, UUID, Array, Field

# fmt: off
METADATA_REQUEST = Message("MetadataRequest", api_key=3, versions=(0, 13), flexible_since=9, fields=[
    Field("topics", Array([  # v0: empty means all; from v1 on null means all, empty none
        Field("topic_id", UUID, since=10, ignorable=True),  # KIP-516; works from v12 on, v10 and v11 ignore it
        Field("name", STRING, nullable_since=10)]), nullable_since=1),
    Field("allow_auto_topic_creation", BOOL, since=4, default=True),  # before v4 a broker always may
    Field("include_cluster_authorized_operations", BOOL, since=8, until=10),  # KIP-430, ended by KIP-700
    Field("include_topic_authorized_operations", BOOL, since=8)])

_MEMORY_FACTOR = 32  # it takes 28 times its bytes where each partition has one replica, 23 times where it has three

METADATA_RESPONSE = Message(
    "MetadataResponse", api_key=3, versions=(0, 13), flexible_since=9, memory_factor=_MEMORY_FACTOR, fields=[
    Field("throttle_time_ms", INT32, since=3, ignorable=True),
    Field("brokers", Array([
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, since=1, nullable_since=1, default=None, ignorable=True)])),
    Field("cluster_id", STRING, since=2, nullable_since=2, default=None, ignorable=True),  # KIP-78
    Field("controller_id", INT32, since=1, default=-1, ignorable=True),
    Field("topics", Array([
        Field("error_code", INT16),
        Field("name", STRING, nullable_since=12),  # null when asked by an id that the cluster does not know
        Field("topic_id", UUID, since=10, ignorable=True),  # KIP-516; stays zero where the broker has none
        Field("is_internal", BOOL, since=1, ignorable=True),
        Field("partitions", Array([
            Field("error_code", INT16),
            Field("partition_index", INT32),
            Field("leader_id", INT32),  # -1: none now
            Field("leader_epoch", INT32, since=7, default=-1, ignorable=True),  # KIP-320; -1: unknown
            Field("replica_nodes", Array(INT32)),
            Field("isr_nodes", Array(INT32)),
            Field("offline_replicas", Array(INT32), since=5, ignorable=True)])),  # KIP-112
        Field("topic_authorized_operations", INT32, since=8, default=-(2**31))])),  # KIP-430; this: not asked
    Field("cluster_authorized_operations", INT32, since=8, until=10, default=-(2**31)),
    Field("error_code", INT16, since=13, ignorable=True)])  # KIP-1102: REBOOTSTRAP_REQUIRED
