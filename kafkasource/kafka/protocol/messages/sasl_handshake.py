"""SaslHandshake (key 17): names the mechanism (KIP-43). After version 0 tokens go without a header, each behind its
length; after version 1 in SaslAuthenticate (KIP-152). No version is flexible."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, STRING, Array, Field

# fmt: off
SASL_HANDSHAKE_REQUEST = Message("SaslHandshakeRequest", api_key=17, versions=(0, 1), flexible_since=2, fields=[
    Field("mechanism", STRING)])

SASL_HANDSHAKE_RESPONSE = Message("SaslHandshakeResponse", api_key=17, versions=(0, 1), flexible_since=2, fields=[
    Field("error_code", INT16),
    Field("mechanisms", Array(STRING))])  # all of the listener, even when it refuses the mechanism in the request
