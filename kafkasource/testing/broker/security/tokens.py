"""Tokens for OAUTHBEARER: a signer whose JWKS the broker reads from a file.

Needs `cryptography` (the extra `kafkasource[tls]`); only a broker with signed tokens imports this module.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from kafkasource.testing.broker.security.server import TOKEN_AUDIENCE, TOKEN_ISSUER

LIFETIME_S = 3600
_KEY_ID = "kafkasource-test-key"


class TokenSigner:
    """Makes tokens that a listener with `signed_tokens` takes: JWTs, signed by RS256."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def jwks(self) -> str:
        """The public key as a JSON Web Key Set (RFC 7517)."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID}
        return json.dumps({"keys": [{**key, "n": _base64_of(numbers.n), "e": _base64_of(numbers.e)}]})

    def token(self, subject: str, lifetime_s: float = LIFETIME_S, claims: Mapping[str, object] | None = None) -> str:
        """A token for this user. A negative lifetime makes an expired one; `claims` have the last word."""
        payload = _claims(subject, lifetime_s) | {"aud": TOKEN_AUDIENCE, "iss": TOKEN_ISSUER, **(claims or {})}
        signed = ".".join(map(_encoded, ({"alg": "RS256", "kid": _KEY_ID, "typ": "JWT"}, payload)))
        return f"{signed}.{_base64(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _claims(subject: str, lifetime_s: float) -> dict[str, object]:
    now = int(time.time())
    return {"sub": subject, "iat": min(now, now + int(lifetime_s)) - 1, "exp": now + int(lifetime_s)}


def _encoded(values: object) -> str:
    return _base64(json.dumps(values, separators=(",", ":")).encode())


def _base64_of(number: int) -> str:
    return _base64(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
