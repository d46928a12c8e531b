"""Assertions for tokens: as a grant (RFC 7523, 2.1; KIP-1139), or in place of a client's secret (2.2; KIP-1258)."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasource.kafka.security.endpoint import HttpClient, origin_of
from kafkasource.kafka.security.tokens.assertion import AssertionFile, SignedAssertion
from kafkasource.kafka.security.tokens.token import Token, token_of_answer

Assertion = AssertionFile | SignedAssertion

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True)
class JwtBearer:
    url: str = field(repr=False)  # its query may hold a secret
    assertion: Assertion
    scope: str = ""
    waits = True

    @property
    def origin(self) -> str:
        return origin_of(self.url)

    def fetch(self, http: HttpClient, now_s: float) -> Token:
        form = {"grant_type": JWT_BEARER, "assertion": self.assertion.text(now_s)}
        if self.scope:
            form["scope"] = self.scope
        return token_of_answer(http.post_form(self.url, form, {}), now_s)


@dataclass(frozen=True)
class AssertedClient:
    """Client credentials whose client proves itself by an assertion."""

    url: str = field(repr=False)  # its query may hold a secret
    assertion: Assertion
    client_id: str = ""
    scope: str = ""
    waits = True

    @property
    def origin(self) -> str:
        return origin_of(self.url)

    def fetch(self, http: HttpClient, now_s: float) -> Token:
        form = {
            "grant_type": "client_credentials",
            "client_assertion_type": _CLIENT_ASSERTION,
            "client_assertion": self.assertion.text(now_s),
        }
        form |= {name: text for name, text in (("client_id", self.client_id), ("scope", self.scope)) if text}
        return token_of_answer(http.post_form(self.url, form, {}), now_s)
