"""SaslAuthenticate (key 36): one token of the mechanism in each direction (KIP-152)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BYTES, INT16, INT64, STRING, Field

# fmt: off
SASL_AUTHENTICATE_REQUEST = Message("SaslAuthenticateRequest", api_key=36, versions=(0, 2), flexible_since=2, fields=[
    Field("auth_bytes", BYTES)])

SASL_AUTHENTICATE_RESPONSE = Message(
    "SaslAuthenticateResponse", api_key=36, versions=(0, 2), flexible_since=2, fields=[
        Field("error_code", INT16),
        Field("error_message", STRING, nullable_since=0),
        Field("auth_bytes", BYTES),
        Field("session_lifetime_ms", INT64, since=1, ignorable=True)])  # KIP-368; 0: no limit
