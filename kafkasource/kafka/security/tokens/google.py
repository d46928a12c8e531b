"""Tokens for Google's Managed Kafka by the service account of a machine, from its metadata service.

The broker wants a JWT that nobody has signed: Google's header, claims, and the access token in place of a signature.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasource.errors import TokenRefused
from kafkasource.kafka.security.endpoint import HttpClient
from kafkasource.kafka.security.quoting import printable
from kafkasource.kafka.security.tokens.token import AccessToken, base64_of, jwt_part, token_of, token_of_answer

METADATA = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default"
_HEADERS = {"Metadata-Flavor": "Google"}


@dataclass(frozen=True)
class GoogleToken:
    url: str = METADATA
    waits = True
    origin = "Google's metadata service"

    def fetch(self, http: HttpClient, now_s: float) -> AccessToken:
        account = http.get(f"{self.url}/email", _HEADERS, local=True).decode("ascii", "replace").strip()
        access = token_of_answer(http.get_object(f"{self.url}/token", _HEADERS, local=True), now_s)
        if access.expires_at_s is None or "@" not in account:
            raise TokenRefused(
                f"Google's metadata service gives no usable token for '{printable(account)}'. Run this machine with a"
                " Google service account that may use the cluster"
            )
        header = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
        claims = {"exp": access.expires_at_s, "iat": now_s, "iss": "Google", "scope": "kafka", "sub": account}
        signature = base64_of(access.value.reveal().encode())
        return token_of(f"{jwt_part(header)}.{jwt_part(claims)}.{signature}", now_s)
