"""The values of SASL's options as one authentication needs them. References in them are resolved."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasource.kafka.security.endpoint import HttpLimits
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.cache import Refresh
from kafkasource.kafka.security.tokens.token import TokenSource


@dataclass(frozen=True)
class SaslConfig:
    """The values that an authentication needs. Only the fields of its mechanism are set."""

    mechanism: str  # a name in `mechanisms.ROWS`
    username: str | None = None  # PLAIN, SCRAM; GSSAPI: as brokers know the principal
    password: Secret | None = None
    delegation_token: bool = False  # SCRAM: user and password are a delegation token's
    token_source: TokenSource | None = None  # OAUTHBEARER
    extensions: tuple[tuple[str, str], ...] = ()
    refresh: Refresh = field(default_factory=Refresh)
    http: HttpLimits = field(default_factory=HttpLimits)
    own: object = None  # what else the mechanism's machine needs; hashable

    @property
    def user(self) -> tuple[str, str | None]:
        """The mechanism, and the user as far as the options name one."""
        return self.mechanism, self.username
