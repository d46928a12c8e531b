"""Options of vendors' login modules in `sasl.jaas.config` that this client does not read.

A token decides who the client is. So an option that could ask for another token is an error; others are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from kafkasource.errors import OptionError
from kafkasource.kafka.security.option import shown
from kafkasource.kafka.security.secrets import Secret

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
_AMAZONS = ("awsRoleAccessKeyId", "awsRoleSecretAccessKey", "awsRoleSessionToken", "awsRoleExternalId")
# Options that say which versions of TLS a client offers to the token endpoint: ours always offers 1.2 and 1.3.
_OFFERED = ("ssl.protocol", "ssl.enabled.protocols", "ssl.secure.random.implementation")
_BY_FUNCTION = (
    f"Give tokens by a function of yours, {shown('sasl.oauthbearer.token.function')}, in place of sasl.jaas.config"
)


def check_tls(of_jaas: Iterable[str], has_authorities: bool) -> None:
    """Raises OptionError for Kafka's and Strimzi's options of TLS to the token endpoint.

    `has_authorities`: an option of ours names whom token endpoints are trusted by, and goes before JAAS.
    """
    for name in of_jaas:
        plain = name.removeprefix(STRIMZIS)
        if not plain.startswith("ssl.") or plain in _OFFERED:
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


def check_amazons(of_jaas: Mapping[str, Secret]) -> None:
    """Raises OptionError for options of Amazon's login module that Amazon's signer for Python cannot take."""
    for name in _AMAZONS:
        if name in of_jaas:
            raise OptionError(
                f"sasl.jaas.config: {name} is not supported: Amazon's signer for Python takes a role with the "
                f"credentials of the machine alone. {_BY_FUNCTION}"
            )
    region = of_jaas.get("awsStsRegion")
    assumes = "awsRoleArn" in of_jaas and "awsProfileName" not in of_jaas
    if assumes and region is not None and region.reveal() != os.environ.get("AWS_DEFAULT_REGION"):
        raise OptionError(
            "sasl.jaas.config: awsStsRegion is not the region that Amazon's signer for Python asks for the role. Set "
            "AWS_DEFAULT_REGION to it in the environment of driver and executors (spark.executorEnv.AWS_DEFAULT_REGION)"
            f", or leave awsStsRegion out. {_BY_FUNCTION}"
        )
