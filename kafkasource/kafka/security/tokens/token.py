"""OAuth tokens, their sources, and the claims in their texts."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kafkasource.errors import TokenRefused
from kafkasource.kafka.security.endpoint import HttpClient
from kafkasource.kafka.security.secrets import Secret

MOST_TOKEN_BYTES = 512 * 1024  # brokers close connections that send more (`sasl.server.max.receive.size`)


@dataclass(frozen=True)
class AccessToken:
    """Times are seconds since 1970."""

    value: Secret
    expires_at_s: float | None = None  # None: nobody says; it is asked for again at each authentication
    issued_at_s: float | None = None  # None: when it was fetched
    extensions: tuple[tuple[str, str], ...] = ()  # that its source has given along with it (KIP-342)

    @property
    def subject(self) -> str | None:
        """Whom a JWT is for, unchecked; None for a token of another kind."""
        subject = claims_of(self.value.reveal()).get("sub")
        return subject if isinstance(subject, str) else None


class TokenSource(Protocol):
    """A source of tokens. A frozen dataclass of plain values and secrets: equal sources share their tokens."""

    @property
    def waits(self) -> bool:
        """Whether `fetch` waits for another server. If not, each authentication calls it."""

    @property
    def origin(self) -> str:
        """Name of the source in errors."""

    def fetch(self, http: HttpClient, now_s: float) -> AccessToken:
        """A new token. `now_s`: since 1970. Raises TokenNotAvailable, TokenRefused, OptionError."""


def token_of(text: str, now_s: float, lifetime_s: float | None = None) -> AccessToken:
    """A token by its text. A JWT says itself when it expires; of other tokens the endpoint does: `lifetime_s`.

    Raises TokenRefused.
    """
    if not text or len(text) > MOST_TOKEN_BYTES:
        raise TokenRefused(f"an OAuth token of {len(text)} characters: brokers take 1 to {MOST_TOKEN_BYTES}")
    claims = claims_of(text)
    expires_at_s = number_of(claims, "exp")
    if expires_at_s is None and lifetime_s is not None:
        expires_at_s = now_s + lifetime_s
    return AccessToken(Secret(text), expires_at_s, number_of(claims, "iat"))


def token_of_answer(answer: Mapping[str, object], now_s: float) -> AccessToken:
    """Read a token endpoint's answer (RFC 6749, section 5.1). Raises TokenRefused."""
    text = answer.get("access_token") or answer.get("id_token")
    if not isinstance(text, str):
        raise TokenRefused("the token endpoint's answer has neither access_token nor id_token")
    return token_of(text.strip(), now_s, number_of(answer, "expires_in"))


def claims_of(text: str) -> Mapping[str, object]:
    """The claims of a JWT (RFC 7519), unchecked: brokers check them. Empty for a token that is none."""
    parts = text.split(".")
    if len(parts) != 3:
        return {}
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = json.loads(payload)
    except (ValueError, binascii.Error, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def base64_of(data: bytes) -> str:
    """The base64 of a JWT's parts: URL-safe, without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def jwt_part(content: Mapping[str, object]) -> str:
    return base64_of(json.dumps(content, separators=(",", ":")).encode())


def number_of(claims: Mapping[str, object], name: str) -> float | None:
    """A claim that is a time, if it is one that a clock can show."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1 << 53:
        return None
    return float(value)
