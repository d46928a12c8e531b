"""Logins: the salted keys and tokens that all connections of a process share, and a machine for each connection."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable

from kafkasource.kafka.process import PerProcess, Recent
from kafkasource.kafka.security.endpoint import HttpClient
from kafkasource.kafka.security.sasl.config import SaslOptions
from kafkasource.kafka.security.sasl.credentials import SaslConfig
from kafkasource.kafka.security.sasl.mechanism import Mechanism
from kafkasource.kafka.security.sasl.mechanisms import BY_NAME, SharedState
from kafkasource.kafka.security.sasl.scram import SaltedKeys
from kafkasource.kafka.security.tokens.cache import TokenCache

_MOST_LOGINS = 64


class Login:
    """The login of one cluster's options. Thread-safe."""

    def __init__(
        self,
        options: SaslOptions,
        bootstrap_host: str,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """`tls`: the context for token endpoints; None: by `https.ca.*`."""
        self._options = options
        self._bootstrap_host = bootstrap_host
        self._tls = tls
        self._lock = threading.Lock()
        self._config: SaslConfig | None = None
        self._shared = SharedState()

    def credentials(self) -> SaslConfig:
        """Resolve the references, so that a password that changed in its file counts at the next login.

        Reads files. Raises OptionError.
        """
        return self._options.resolve(self._bootstrap_host)

    def mechanism(self, host: str, credentials: SaslConfig | None = None) -> Mechanism:
        """A machine for one authentication with the broker at `host`, its advertised name; None: by those of now.

        Asks no server. Raises OptionError.
        """
        config, shared = self._current(credentials or self.credentials())
        return BY_NAME[config.mechanism].machine(config, host, shared)

    def user(self) -> str | None:
        """The user as whom brokers know this login, unless they map names; None where only they know it.

        May wait for a token endpoint. Raises OptionError, TokenNotAvailable, TokenRefused.
        """
        config, shared = self._current(self.credentials())
        if shared.tokens is not None:
            return shared.tokens.token().subject
        return None if config.delegation_token else config.username

    def _current(self, config: SaslConfig) -> tuple[SaslConfig, SharedState]:
        with self._lock:
            if config != self._config:
                self._config = config
                source, http = config.token_source, HttpClient(config.http, self._tls)
                self._shared = SharedState(
                    None if config.password is None else SaltedKeys(config.password),
                    None if source is None else TokenCache(source, http, config.refresh),
                )
            return config, self._shared


_logins: PerProcess[Recent[tuple[SaslOptions, str], Login]] = PerProcess(lambda: Recent(_MOST_LOGINS))


def login_of(options: SaslOptions, bootstrap_host: str, tls: Callable[[], ssl.SSLContext] | None = None) -> Login:
    """The process's login of these options: clusters with the same options share tokens. A forked child has its own."""
    return _logins.get().of((options, bootstrap_host), lambda: Login(options, bootstrap_host, tls))
