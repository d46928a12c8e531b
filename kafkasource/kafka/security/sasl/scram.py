"""SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677; KIP-84): neither side sends the password, each proves that it knows it.

    client  n,,n=user,r=NONCE[,tokenauth=true]
    server  r=NONCE+its own,s=salt,i=iterations
    client  c=biws,r=both nonces,p=proof
    server  v=signature                       or e=error

As Kafka does it: the password is UTF-8 without SASLprep, there is no channel binding. A delegation token (KIP-48) is a
user and a password, and says so by `tokenauth`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from dataclasses import dataclass

from kafkasource.errors import AuthenticationFailed, OptionError, SaslExchangeFailed
from kafkasource.kafka.process import Recent
from kafkasource.kafka.security.quoting import printable
from kafkasource.kafka.security.sasl.mechanism import checked, require_complete
from kafkasource.kafka.security.secrets import Secret

LEAST_ITERATIONS = 4096  # RFC 7677; fewer would let an impostor try out passwords on the client's proof
MOST_ITERATIONS = 100_000  # 0.1 s of the thread that serves all brokers; Kafka's own tools write 16,384 at most
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

_BASE64 = r"[A-Za-z0-9+/]+={0,2}"
_EXTENSIONS = r"(?:,[A-Za-z]=[^,\0]+)*"
_SERVER_FIRST = re.compile(rf"r=([!-+\--~]+),s=({_BASE64}),i=([1-9][0-9]{{0,9}}){_EXTENSIONS}")
_SERVER_FINAL = re.compile(rf"(?:v=({_BASE64})|e=([^,\0]+)){_EXTENSIONS}")
_MOST_KEPT = 16


@dataclass(frozen=True, repr=False)
class Keys:
    """Keys made of the salted password (RFC 5802, section 3). They are as secret as the password and never printed."""

    client: bytes
    server: bytes


class SaltedKeys:
    """The keys of one user's password by hash, salt and iterations: brokers of a cluster share them. Thread-safe.

    Deriving them takes 2 to 8 ms at 4096 iterations, for each connection otherwise. The lock lets the connections that
    open at the same time wait for one derivation.
    """

    def __init__(self, password: Secret) -> None:
        self._password = password
        self._kept: Recent[tuple[str, bytes, int], Keys] = Recent(_MOST_KEPT)

    def of(self, hash_name: str, salt: bytes, iterations: int) -> Keys:
        def derived() -> Keys:
            salted = hashlib.pbkdf2_hmac(hash_name, self._password.reveal().encode(), salt, iterations)
            return Keys(hmac.digest(salted, b"Client Key", hash_name), hmac.digest(salted, b"Server Key", hash_name))

        return self._kept.of((hash_name, salt, iterations), derived)


class Scram:
    """Two rounds. The second one ends with the server's signature, without which the exchange never counts as over."""

    blocks = False

    def __init__(
        self, name: str, username: str, keys: SaltedKeys, delegation_token: bool = False, nonce: str | None = None
    ) -> None:
        """`name`: one of `HASHES`. `nonce`: a fixed one, for tests. Raises OptionError."""
        if not username:
            raise OptionError(f"{name}: the user name is empty: set kafka.sasl.username or kafka.sasl.jaas.config")
        self.name = name
        self.user = None if delegation_token else username  # of a token, brokers know the owner
        self._hash = HASHES[name]
        self._keys = keys
        self._nonce = nonce or base64.b64encode(os.urandom(24)).decode()
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        extension = ",tokenauth=true" if delegation_token else ""
        self._client_first = f"n={escaped},r={self._nonce}{extension}"
        self._server_signature: bytes | None = None  # what the server must send; known after its first message
        self.complete = False

    def first(self) -> bytes:
        return f"n,,{self._client_first}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        try:
            text = checked(self.name, challenge).decode()
        except UnicodeDecodeError:
            raise self._malformed() from None
        if self.complete:
            raise SaslExchangeFailed(f"{self.name}: the broker continues after the end of the exchange")
        if self._server_signature is None:
            return self._proof(text)
        self._check_signature(text)
        self.complete = True
        return None

    def finish(self) -> None:
        require_complete(self.name, self.complete)

    def _proof(self, server_first: str) -> bytes:
        """The client's final message."""
        match = _SERVER_FIRST.fullmatch(server_first)
        if match is None:
            raise self._malformed()
        nonce, salt, iterations = match[1], self._decoded(match[2]), int(match[3])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise SaslExchangeFailed(
                f"{self.name}: the broker's nonce does not continue the client's. Somebody may replay an old exchange"
            )
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise SaslExchangeFailed(
                f"{self.name}: the broker asks for {iterations} iterations; {LEAST_ITERATIONS} to {MOST_ITERATIONS} "
                "are safe. Create the user's credentials again with such a number, or find out who answers there"
            )
        keys = self._keys.of(self._hash, salt, iterations)
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._client_first},{server_first},{without_proof}".encode()
        stored_key = hashlib.new(self._hash, keys.client).digest()
        signature = hmac.digest(stored_key, signed, self._hash)
        self._server_signature = hmac.digest(keys.server, signed, self._hash)
        proof = bytes(a ^ b for a, b in zip(keys.client, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _check_signature(self, server_final: str) -> None:
        match = _SERVER_FINAL.fullmatch(server_final)
        if match is None:
            raise self._malformed()
        if match[2] is not None:
            raise AuthenticationFailed(
                f"{self.name}: the broker refuses the client: {printable(match[2])}. Check kafka.sasl.username and"
                " kafka.sasl.password, or kafka.sasl.jaas.config"
            )
        if not hmac.compare_digest(self._decoded(match[1]), self._server_signature or b""):
            raise SaslExchangeFailed(
                f"{self.name}: the broker's signature is wrong: it does not know the user's credentials, so it is not "
                "the broker that it claims to be"
            )

    def _decoded(self, text: str) -> bytes:
        try:
            data = base64.b64decode(text, validate=True)
        except binascii.Error:
            raise self._malformed() from None
        if base64.b64encode(data).decode() != text:  # bits left over: another text for the same bytes
            raise self._malformed()
        return data

    def _malformed(self) -> SaslExchangeFailed:
        return SaslExchangeFailed(f"{self.name}: the broker's message is not one of SCRAM (RFC 5802)")
