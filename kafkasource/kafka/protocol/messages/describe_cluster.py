"""DescribeCluster (key 60): the brokers of the cluster, or its controllers (KIP-700, KIP-919)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Array, Field

# fmt: off
DESCRIBE_CLUSTER_REQUEST = Message("DescribeClusterRequest", api_key=60, versions=(0, 2), flexible_since=0, fields=[
    Field("include_cluster_authorized_operations", BOOL),
    Field("endpoint_type", INT8, since=1, default=1),  # 1 brokers, 2 controllers
    Field("include_fenced_brokers", BOOL, since=2)])  # KIP-1073

DESCRIBE_CLUSTER_RESPONSE = Message("DescribeClusterResponse", api_key=60, versions=(0, 2), flexible_since=0, fields=[
    Field("throttle_time_ms", INT32),
    Field("error_code", INT16),
    Field("error_message", STRING, nullable_since=0, default=None),
    Field("endpoint_type", INT8, since=1, default=1),
    Field("cluster_id", STRING),
    Field("controller_id", INT32, default=-1),  # of KRaft brokers: any broker, which forwards (KIP-590)
    Field("brokers", Array([
        Field("broker_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, nullable_since=0, default=None),
        Field("is_fenced", BOOL, since=2)])),
    Field("cluster_authorized_operations", INT32, default=-(2**31))])  # bits; the default: not asked
