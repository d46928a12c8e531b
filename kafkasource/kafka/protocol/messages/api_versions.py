"""ApiVersions (key 18): which APIs a broker serves, in which versions (KIP-35); the first request of each connection.

Brokers before 0.10 do not know it and close the connection. One that does not speak the asked version answers in
version 0 with error UNSUPPORTED_VERSION (KIP-511; `frames.decode_response` sees to it).
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Array, Field

# fmt: off
API_VERSIONS_REQUEST = Message("ApiVersionsRequest", api_key=18, versions=(0, 4), flexible_since=3, fields=[
    Field("client_software_name", STRING, since=3, ignorable=True),  # KIP-511
    Field("client_software_version", STRING, since=3, ignorable=True)])

API_VERSIONS_RESPONSE = Message("ApiVersionsResponse", api_key=18, versions=(0, 4), flexible_since=3, fields=[
    Field("error_code", INT16),
    Field("api_keys", Array([
        Field("api_key", INT16),
        Field("min_version", INT16),
        Field("max_version", INT16)])),
    Field("throttle_time_ms", INT32, since=1, ignorable=True),  # KIP-124
    Field("supported_features", Array([  # KIP-584
        Field("name", STRING),
        Field("min_version", INT16),
        Field("max_version", INT16)]), since=3, tag=0, ignorable=True),
    Field("finalized_features_epoch", INT64, since=3, default=-1, tag=1, ignorable=True),  # -1: unknown
    Field("finalized_features", Array([
        Field("name", STRING),
        Field("max_version_level", INT16),
        Field("min_version_level", INT16)]), since=3, tag=2, ignorable=True),
    Field("zk_migration_ready", BOOL, since=3, tag=3, ignorable=True)])  # KIP-866
