"""CreateDelegationToken (key 38): a token with which others log in by SCRAM as its owner (KIP-48).

A broker answers only on a connection that has authenticated by SASL, or by a client certificate.
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BYTES, INT16, INT32, INT64, STRING, Array, Field

# fmt: off
CREATE_DELEGATION_TOKEN_REQUEST = Message(
    "CreateDelegationTokenRequest", api_key=38, versions=(0, 3), flexible_since=2, fields=[
        Field("owner_principal_type", STRING, since=3, nullable_since=3),  # KIP-373; null: of the connection
        Field("owner_principal_name", STRING, since=3, nullable_since=3),
        Field("renewers", Array([
            Field("principal_type", STRING),
            Field("principal_name", STRING)])),
        Field("max_lifetime_ms", INT64)])  # -1: the broker's delegation.token.max.lifetime.ms

CREATE_DELEGATION_TOKEN_RESPONSE = Message(
    "CreateDelegationTokenResponse", api_key=38, versions=(0, 3), flexible_since=2, fields=[
        Field("error_code", INT16),
        Field("principal_type", STRING),
        Field("principal_name", STRING),
        Field("token_requester_principal_type", STRING, since=3),
        Field("token_requester_principal_name", STRING, since=3),
        Field("issue_timestamp_ms", INT64),
        Field("expiry_timestamp_ms", INT64),  # unless renewed before
        Field("max_timestamp_ms", INT64),  # no renewal goes beyond
        Field("token_id", STRING),  # the user of SCRAM
        Field("hmac", BYTES),  # its base64 text is the password
        Field("throttle_time_ms", INT32)])
