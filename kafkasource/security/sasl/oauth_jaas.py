"""Options of vendors' login modules in `sasl.jaas.config` that are not read, and what of it.

A token decides who the client is. So an option that could ask for another one is refused, and not passed over.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkasource.errors import OptionError
from kafkasource.security.security_option import shown

STRIMZIS = "oauth."
STRIMZIS_EXTENSION = f"{STRIMZIS}sasl.extension."
STRIMZIS_AUDIENCE = f"{STRIMZIS}audience"
STRIMZIS_TOKEN = f"{STRIMZIS}access.token"
STRIMZIS_TOKEN_FILE = f"{STRIMZIS_TOKEN}.location"

# They tune Strimzi's Java client, or name a principal that it shows and does not send. `sasl.login.*` has times and
# attempts here, and a token is used until it expires.
_STRIMZIS_OWN = (
    *("oauth.connect.timeout.seconds", "oauth.read.timeout.seconds"),
    *("oauth.http.retries", "oauth.http.retry.pause.millis"),
    *("oauth.enable.metrics", "oauth.config.id", "oauth.include.accept.header"),
    *("oauth.access.token.is.jwt", "oauth.tokens.not.jwt", "oauth.max.token.expiry.seconds"),
    *("oauth.username.claim", "oauth.username.prefix"),
    *("oauth.fallback.username.claim", "oauth.fallback.username.prefix"),
)
AUTHORITIES = ("https.ca.location", "https.ca.pem")
_BY_FUNCTION = f"Give tokens by a function of yours: {shown('sasl.oauthbearer.token.function')}"


def check_tls(of_jaas: Iterable[str], has_authorities: bool) -> None:
    """Raises OptionError for Kafka's and Strimzi's options of TLS to the token endpoint.

    `has_authorities`: an option of ours names whom token endpoints are trusted by, and goes before JAAS.
    """
    for name in of_jaas:
        if not name.removeprefix(STRIMZIS).startswith("ssl."):
            continue
        if ".truststore." not in name:
            raise OptionError(
                f"sasl.jaas.config: {name} is not supported: the client checks a token endpoint's certificate and name,"
                f" and shows none of its own. Leave the option out. {_BY_FUNCTION}"
            )
        if not has_authorities:
            raise OptionError(
                f"sasl.jaas.config: {name} is not supported. Name a PEM file of the authorities that the token endpoint"
                f" is trusted by: {' or, as text, '.join(map(shown, AUTHORITIES))}"
            )


def check_strimzis(of_jaas: Iterable[str], read: Iterable[str]) -> None:
    """Raises OptionError for an option of Strimzi's that is neither in `read` nor harmless."""
    known = {*read, *_STRIMZIS_OWN}
    for name in of_jaas:
        unknown = name.startswith(STRIMZIS) and not name.startswith((STRIMZIS_EXTENSION, f"{STRIMZIS}ssl."))
        if unknown and name not in known:
            raise OptionError(
                f"sasl.jaas.config: {name} is not supported: without it the client might log in as somebody else. "
                f"{_BY_FUNCTION}"
            )
