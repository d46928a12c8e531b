"""How a client's connections are secured: what plans and tasks carry, before files are read and references resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from kafkasource.errors import OptionError
from kafkasource.kafka.security.login import Login, login_of
from kafkasource.kafka.security.sasl.config import SaslOptions
from kafkasource.kafka.security.sasl.options import vendor_defaults
from kafkasource.kafka.security.secrets import References, Secret, has_reference
from kafkasource.kafka.security.tls.config import TlsConfig
from kafkasource.kafka.security.tls.context import TlsContext, context_of
from kafkasource.kafka.security.tls.options import ALIASES, BY_NAME

PLAINTEXT = "PLAINTEXT"
PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PROTOCOL = "security.protocol"


@dataclass(frozen=True)
class SecurityConfig:
    """The protocol, and the options of TLS and SASL as the user has given them: references in them are names still.

    Pickles into plans and tasks; part of the key by which a process caches clients. `repr` shows no secret.
    """

    protocol: str = PLAINTEXT  # one of PROTOCOLS
    sasl: SaslOptions | None = None  # where the protocol has SASL
    tls: tuple[tuple[str, Secret], ...] = field(default=(), repr=False)  # sorted by name; without `kafka.`
    references: References = field(default_factory=References)

    @classmethod
    def of(cls, options: Mapping[str, str], bootstrap_host: str = "") -> SecurityConfig:
        """From all options of a cluster without their prefix `kafka.`; those of other things are passed over.

        Without references everything but the files is checked here, on the driver. Raises OptionError.
        """
        protocol = {**vendor_defaults(options), **options}.get(_PROTOCOL, PLAINTEXT).upper()
        if protocol not in PROTOCOLS:
            raise OptionError(f"option 'kafka.{_PROTOCOL}': expected one of {', '.join(PROTOCOLS)}, got {protocol!r}")
        sasl = SaslOptions.of(options, bootstrap_host) if protocol.startswith("SASL") else None
        if not protocol.endswith("SSL"):
            return cls(protocol, sasl)
        tls = {name: text for name, text in options.items() if name in BY_NAME or name in ALIASES}
        given = tuple((name, Secret(tls[name])) for name in sorted(tls))
        config = cls(protocol, sasl, given, References.of(options))
        if not any(map(has_reference, tls.values())):
            config._tls_config()
        return config

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> SecurityConfig:
        """From all parsed options, by names with the prefix `kafka.`; those of other things are passed over. Raises
        OptionError for options that contradict each other."""
        given = {
            name.removeprefix("kafka."): value.reveal() if isinstance(value, Secret) else value
            for name, value in options.items()
            if name.startswith("kafka.") and isinstance(value, str | Secret)
        }
        servers = options.get("kafka.bootstrap.servers")
        return cls.of(given, servers[0][0] if servers else "")

    @property
    def secures(self) -> bool:
        """Whether there is TLS or SASL, or both."""
        return self.protocol != PLAINTEXT

    def login(self, bootstrap_host: str) -> Login | None:
        """The process's login of these options; None without SASL."""
        return None if self.sasl is None else login_of(self.sasl, bootstrap_host)

    @property
    def encrypts(self) -> bool:
        return self.protocol.endswith("SSL")

    def tls_context(self) -> TlsContext:
        """The process's context, with what references stand for now. For the process that connects.

        Raises OptionError.
        """
        return context_of(self._tls_config())

    def _tls_config(self) -> TlsConfig:
        texts = {name: text.reveal() for name, text in self.tls}
        return _config_of(tuple(self.references.resolve_all(texts).items()))


@lru_cache(maxsize=16)
def _config_of(texts: tuple[tuple[str, str], ...]) -> TlsConfig:
    """Cached by the resolved options, sorted: each connection asks for it, and its warnings are logged once."""
    return TlsConfig.of(dict(texts))
