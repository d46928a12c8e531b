"""The client credentials grant (RFC 6749, section 4.4; KIP-768): a client id and its secret for a token."""

from __future__ import annotations

import base64
import urllib.parse
from dataclasses import dataclass, field

from kafkasource.kafka.security.endpoint import HttpClient, origin_of
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.token import Token, token_of_answer


@dataclass(frozen=True)
class ClientCredentials:
    url: str = field(repr=False)  # its query may hold a secret
    client_id: str
    client_secret: Secret
    scope: str = ""
    urlencode: bool = False  # RFC 6749 wants id and secret encoded in the header; many endpoints do not
    audience: str = ""  # no part of RFC 6749; some endpoints want it
    waits = True

    @property
    def origin(self) -> str:
        return origin_of(self.url)

    def fetch(self, http: HttpClient, now_s: float) -> Token:
        form = {"grant_type": "client_credentials"}
        form |= {name: text for name, text in (("scope", self.scope), ("audience", self.audience)) if text}
        client = (self.client_id, self.client_secret.reveal())
        user, password = map(urllib.parse.quote_plus, client) if self.urlencode else client
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        return token_of_answer(http.post_form(self.url, form, {"Authorization": f"Basic {basic}"}), now_s)
