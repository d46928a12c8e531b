"""What a request proves the client by: the headers of basic, of a token, or of one that a token endpoint gives."""

from __future__ import annotations

import threading

from kafkasource.errors import OptionError, RegistryAccessRefused, TokenRefused
from kafkasource.registry.settings import RegistrySettings, renamed
from kafkasource.secrets import Secret
from kafkasource.security.endpoint import HttpClient
from kafkasource.security.tokens.keeper import Refresh, TokenKeeper
from kafkasource.security.tokens.token import Token


class Credentials:
    """Of one registry. Thread-safe. Keeps the token of OAuth until it is due."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keeper: TokenKeeper | None = None
        self._keeps_for: object = None
        self._sent: Token | None = None

    def header(self, settings: RegistrySettings) -> Secret | None:
        """The value of `Authorization`; None: there is none. May wait for the token endpoint.

        Raises RegistryAccessRefused, TokenNotAvailable, OptionError.
        """
        if settings.client is None:
            return settings.basic or settings.token
        keeper = self._keeper_of(settings)
        try:
            token = keeper.token()
        except TokenRefused as error:
            raise RegistryAccessRefused(f"there is no token for the schema registry: {renamed(str(error))}") from None
        except OptionError as error:
            raise OptionError(renamed(str(error))) from None
        self._sent = token
        return Secret(f"Bearer {token.value.reveal()}")

    def renew(self) -> bool:
        """The registry has refused what was sent. Whether other credentials may be had at once: a new token."""
        with self._lock:
            if self._keeper is None or self._sent is None:
                return False
            self._keeper.forget(self._sent)
            self._sent = None
            return True

    def _keeper_of(self, settings: RegistrySettings) -> TokenKeeper:
        wanted = settings.client, settings.issuer
        with self._lock:
            if self._keeper is None or self._keeps_for != wanted:
                assert settings.client is not None
                self._keeper = TokenKeeper(settings.client, HttpClient(settings.issuer), Refresh())
                self._keeps_for = wanted
            return self._keeper
