"""The headers by which a request proves the client: basic, a token, or a token from a token endpoint."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from kafkasource.errors import OptionError, RegistryAccessRefused, TokenRefused
from kafkasource.formats.registry.settings import RegistrySettings, renamed
from kafkasource.kafka.security.endpoint import HttpClient
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.cache import Refresh, TokenCache
from kafkasource.kafka.security.tokens.token import AccessToken


@dataclass(frozen=True)
class Proof:
    header: Secret | None  # the value of `Authorization`; None: there is none
    token: AccessToken | None = None  # the token in it, where a token endpoint gave it


class Credentials:
    """The credentials for one registry. Thread-safe. Keeps the token of OAuth until it is due."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: TokenCache | None = None
        self._keeps_for: object = None

    def proof(self, settings: RegistrySettings) -> Proof:
        """Return the headers for one request. May wait for the token endpoint.

        Raises RegistryAccessRefused, TokenNotAvailable, OptionError.
        """
        if settings.client is None:
            return Proof(settings.basic or settings.token)
        try:
            token = self._tokens_of(settings).token()
        except TokenRefused as error:
            raise RegistryAccessRefused(f"there is no token for the schema registry: {renamed(str(error))}") from None
        except OptionError as error:
            raise OptionError(renamed(str(error))) from None
        text = token.value.reveal()
        if not text.isascii() or not text.isprintable():
            raise RegistryAccessRefused(
                "the token endpoint gives a token for the schema registry that no header can hold"
            )
        return Proof(Secret(f"Bearer {text}"), token)

    def renew(self, proof: Proof) -> bool:
        """The registry has refused this proof. Whether another one may be had at once: a new token."""
        if proof.token is None:
            return False
        with self._lock:
            if self._tokens is not None:
                self._tokens.forget(proof.token)  # unless another thread has done so and has a new one
        return True

    def _tokens_of(self, settings: RegistrySettings) -> TokenCache:
        wanted = settings.client, settings.issuer
        with self._lock:
            if self._tokens is None or self._keeps_for != wanted:
                assert settings.client is not None
                self._tokens = TokenCache(settings.client, HttpClient(settings.issuer), Refresh())
                self._keeps_for = wanted
            return self._tokens
