"""Grants of a token endpoint: by a client's secret (RFC 6749; KIP-768) or an assertion (RFC 7523; KIP-1139, 1258)."""

from __future__ import annotations

import base64
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkasource.kafka.security.endpoint import HttpClient, origin_of
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.assertion import AssertionFile, SignedAssertion
from kafkasource.kafka.security.tokens.token import AccessToken, token_of_answer

Assertion = AssertionFile | SignedAssertion

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True)
class Grant:
    """A request to a token endpoint. Fields of the form that are empty are left out."""

    url: str = field(repr=False)  # its query may hold a secret
    waits = True

    @property
    def origin(self) -> str:
        return origin_of(self.url)

    @property
    def headers(self) -> Mapping[str, str]:
        return {}

    def form(self, now_s: float) -> Mapping[str, str]:
        raise NotImplementedError

    def fetch(self, http: HttpClient, now_s: float) -> AccessToken:
        form = {name: text for name, text in self.form(now_s).items() if text}
        return token_of_answer(http.post_form(self.url, form, self.headers), now_s)


@dataclass(frozen=True)
class ClientCredentials(Grant):
    client_id: str
    client_secret: Secret
    scope: str = ""
    urlencode: bool = False  # RFC 6749 wants id and secret encoded in the header; many endpoints do not
    audience: str = ""  # not in RFC 6749; some endpoints want it

    @property
    def headers(self) -> Mapping[str, str]:
        client = (self.client_id, self.client_secret.reveal())
        user, password = map(urllib.parse.quote_plus, client) if self.urlencode else client
        return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}

    def form(self, now_s: float) -> Mapping[str, str]:
        return {"grant_type": "client_credentials", "scope": self.scope, "audience": self.audience}


@dataclass(frozen=True)
class JwtBearer(Grant):
    assertion: Assertion
    scope: str = ""

    def form(self, now_s: float) -> Mapping[str, str]:
        return {"grant_type": JWT_BEARER, "assertion": self.assertion.text(now_s), "scope": self.scope}


@dataclass(frozen=True)
class AssertedClient(Grant):
    """Client credentials with an assertion in place of the client's secret."""

    assertion: Assertion
    client_id: str = ""
    scope: str = ""

    def form(self, now_s: float) -> Mapping[str, str]:
        return {
            "grant_type": "client_credentials",
            "client_assertion_type": _CLIENT_ASSERTION,
            "client_assertion": self.assertion.text(now_s),
            "client_id": self.client_id,
            "scope": self.scope,
        }
