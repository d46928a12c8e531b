"""OAUTHBEARER (RFC 7628; KIP-255, KIP-342): a token that somebody else has issued.

client  n,,^Aauth=Bearer TOKEN^Akey=value^A^A        ^A: the byte 1
server  an empty token                              or {"status":"invalid_token",...}, to which
client  ^A                                          lets the broker answer with error 58
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from kafkasource.errors import OptionError, SaslExchangeFailed, TokenRefused
from kafkasource.kafka.security.quoting import printable
from kafkasource.kafka.security.sasl.mechanism import checked, require_complete
from kafkasource.kafka.security.tokens.token import AccessToken

_TOKEN = re.compile(r"[-A-Za-z0-9._~+/]+=*")  # RFC 6750; Kafka takes no other
_EXTENSION_KEY = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


class OauthBearer:
    """`first` asks for the token, which may wait for an endpoint."""

    name = "OAUTHBEARER"

    def __init__(
        self,
        token: Callable[[], AccessToken],
        may_block: Callable[[], bool] = lambda: False,
        extensions: Iterable[tuple[str, str]] = (),
        refused: Callable[[AccessToken], None] = lambda token: None,
    ) -> None:
        """Raises OptionError.

        `token`: gives one that is valid. `may_block`: whether it would have to fetch one. `refused`: is called with a
        token that the broker refuses, so that the next connection does not come with the same.
        """
        self._token = token
        self._refused = refused
        self._may_block = may_block
        self._extensions = tuple(extensions)
        for key, value in self._extensions:
            check_extension(key, value)
        self._refusal: str | None = None
        self._sent: AccessToken | None = None
        self.complete = False

    @property
    def blocks(self) -> bool:
        return self._sent is None and self._may_block()

    @property
    def refusal(self) -> str | None:
        """Why the broker refuses the token, where it has said so: for the error 58 that follows."""
        return self._refusal

    @property
    def user(self) -> str | None:
        return None if self._sent is None else self._sent.subject

    def first(self) -> bytes:
        token = self._token()
        self._sent = token
        value = token.value.reveal()
        if not _TOKEN.fullmatch(value):
            raise TokenRefused("OAUTHBEARER: the token has characters that no bearer token may have (RFC 6750)")
        extensions = dict(token.extensions) | dict(self._extensions)
        pairs = "".join(f"\1{key}={text}" for key, text in extensions.items())
        return f"n,,\1auth=Bearer {value}{pairs}\1\1".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if self.complete:
            raise SaslExchangeFailed("OAUTHBEARER: the broker continues after the end of the exchange")
        if self._refusal is not None:
            raise TokenRefused(f"OAUTHBEARER: the broker refuses the token: {self._refusal}")
        if not checked(self.name, challenge):
            self.complete = True
            return None
        self._refusal = _reason(challenge)
        if self._sent is not None:
            self._refused(self._sent)
        return b"\1"

    def finish(self) -> None:
        if self._refusal is not None:
            raise TokenRefused(f"OAUTHBEARER: the broker refuses the token: {self._refusal}")
        require_complete(self.name, self.complete)


def check_extension(key: str, value: str) -> None:
    """Raises OptionError for an extension that the exchange cannot carry."""
    if not _EXTENSION_KEY.fullmatch(key) or key == "auth":
        raise OptionError(
            f"kafka.sasl.oauthbearer.extensions: a key has letters only and is not auth, unlike '{printable(key)}'"
        )
    if not _EXTENSION_VALUE.fullmatch(value):
        raise OptionError(f"kafka.sasl.oauthbearer.extensions: {key} is empty or has characters outside of ASCII")


def _reason(challenge: bytes) -> str:
    """The server's error as text (RFC 7628, section 3.2.2): its status, and the scope that it wants."""
    try:
        said = json.loads(challenge)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("status"), str):
        raise SaslExchangeFailed("OAUTHBEARER: the broker's answer is neither empty nor an error of RFC 7628")
    scope = said.get("scope")
    wanted = f" (it requires the scope '{printable(scope)}')" if isinstance(scope, str) and scope else ""
    return printable(said["status"]) + wanted
