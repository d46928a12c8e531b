"""A token that the options themselves have, as text."""

from __future__ import annotations

from dataclasses import dataclass

from kafkasource.kafka.security.endpoint import HttpClient
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.token import AccessToken, token_of


@dataclass(frozen=True)
class FixedToken:
    """Nobody renews it: when it has expired, each login fails. A reference to a file is read at each login."""

    value: Secret
    waits = False
    origin = "sasl.jaas.config"

    def fetch(self, http: HttpClient, now_s: float) -> AccessToken:
        return token_of(self.value.reveal().strip(), now_s)
