"""Tokens without a signature, which a broker takes only in tests (RFC 7515, appendix A.5; KIP-255)."""

from __future__ import annotations

from dataclasses import dataclass

from kafkasource.kafka.security.endpoint import HttpClient
from kafkasource.kafka.security.tokens.token import AccessToken, jwt_part, token_of

Claim = str | float | tuple[str, ...]


@dataclass(frozen=True)
class UnsecuredToken:
    claims: tuple[tuple[str, Claim], ...]  # iat and exp come from the clock, unless they are here
    lifetime_s: int = 3600
    waits = False
    origin = "sasl.jaas.config"

    def fetch(self, http: HttpClient, now_s: float) -> AccessToken:
        # Whole seconds, rounded down: the broker may check in the same millisecond, and refuses what is in its future.
        claims = {"iat": float(int(now_s)), "exp": now_s + self.lifetime_s, **dict(self.claims)}
        return token_of(f"{jwt_part({'alg': 'none'})}.{jwt_part(claims)}.", now_s)
