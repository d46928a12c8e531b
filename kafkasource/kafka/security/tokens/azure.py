"""Tokens for Event Hubs by the managed identity of an Azure machine, from its metadata service (IMDS)."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from kafkasource.kafka.security.endpoint import HttpClient
from kafkasource.kafka.security.tokens.token import AccessToken, token_of_answer

METADATA = "http://169.254.169.254/metadata/identity/oauth2/token"


@dataclass(frozen=True)
class AzureToken:
    resource: str  # https://NAMESPACE.servicebus.windows.net
    client_id: str = ""  # of a user-assigned identity
    url: str = METADATA
    waits = True
    origin = "Azure's metadata service"

    def fetch(self, http: HttpClient, now_s: float) -> AccessToken:
        query = {"api-version": "2018-02-01", "resource": self.resource}
        if self.client_id:
            query["client_id"] = self.client_id
        answer = http.get_object(f"{self.url}?{urllib.parse.urlencode(query)}", {"Metadata": "true"}, local=True)
        return token_of_answer(_with_numbers(answer), now_s)


def _with_numbers(answer: Mapping[str, object]) -> Mapping[str, object]:
    """IMDS writes numbers as text."""
    life = answer.get("expires_in")
    return {**answer, "expires_in": int(life)} if isinstance(life, str) and life.isdecimal() else answer
