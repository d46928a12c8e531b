"""Assertions: short-lived JWTs with which a client proves itself to a token endpoint (RFC 7523; KIP-1139, KIP-1258).

Either another program writes an assertion into a file, or this client signs it with a private key, which needs
`cryptography`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from kafkasource.errors import OptionError
from kafkasource.kafka.security.option import shown
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.file import text_of_file
from kafkasource.kafka.security.tokens.token import base64_of, jwt_part

_PREFIX = "sasl.oauthbearer.assertion"
ALGORITHMS = ("RS256", "ES256")


@dataclass(frozen=True)
class AssertionFile:
    """A file with an assertion, which is read at each use."""

    path: str

    def text(self, now_s: float) -> str:
        """Raises TokenNotAvailable."""
        return text_of_file(self.path, "the assertion")


@dataclass(frozen=True)
class SignedAssertion:
    """An assertion that the client makes and signs at each use."""

    key_file: str | None  # PEM
    key_pem: Secret | None
    passphrase: Secret | None = None
    algorithm: str = "RS256"
    template_file: str | None = None  # JSON with `header` and `payload`
    claims: tuple[tuple[str, str], ...] = ()  # aud, iss, sub; they go before the template's
    expires_s: int = 300
    not_before_s: int = 60
    with_id: bool = False

    def text(self, now_s: float) -> str:
        """Raises OptionError, TokenNotAvailable for a file that is not there."""
        header: dict[str, object] = {"alg": self.algorithm, "typ": "JWT"}
        payload: dict[str, object] = {"iat": int(now_s), "exp": int(now_s) + self.expires_s}
        payload["nbf"] = int(now_s) - self.not_before_s
        if self.with_id:
            payload["jti"] = str(uuid.uuid4())
        if self.template_file is not None:
            template = _template(text_of_file(self.template_file, "the assertion's template"))
            header |= template["header"]
            payload |= template["payload"]
        payload |= dict(self.claims)
        unsigned = f"{jwt_part(header)}.{jwt_part(payload)}"
        return f"{unsigned}.{base64_of(self._signature(unsigned.encode()))}"

    def _signature(self, data: bytes) -> bytes:
        try:
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
            from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
        except ImportError:
            raise OptionError(
                "to sign assertions needs the package cryptography: install kafkasource[tls] on driver and executors"
            ) from None
        pem = text_of_file(self.key_file, "the private key") if self.key_file else (self.key_pem or Secret("")).reveal()
        password = None if self.passphrase is None else self.passphrase.reveal().encode()
        try:
            key = serialization.load_pem_private_key(pem.encode(), password)
        except (ValueError, TypeError):  # their texts say nothing that helps, and may quote
            raise OptionError(
                f"option {shown(f'{_PREFIX}.private.key.file')}: not a private key as PEM, or the passphrase is wrong"
            ) from None
        if self.algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
            return key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        if self.algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.key_size == 256:
            r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
            return r.to_bytes(32, "big") + s.to_bytes(32, "big")
        raise OptionError(f"option {shown(f'{_PREFIX}.algorithm')}: {self.algorithm} does not fit the private key")


def _template(text: str) -> Mapping[str, Mapping[str, object]]:
    try:
        template = json.loads(text)
    except (ValueError, RecursionError):
        template = None
    if not isinstance(template, dict) or not all(
        isinstance(template.get(name, {}), dict) for name in ("header", "payload")
    ):
        raise OptionError(f"option {shown(f'{_PREFIX}.template.file')}: not a JSON object with header and payload")
    return {name: template.get(name, {}) for name in ("header", "payload")}
