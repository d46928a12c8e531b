"""Which source of tokens the options of OAUTHBEARER mean, whether they are Kafka's, librdkafka's, or in JAAS."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from kafkasource.errors import OptionError
from kafkasource.secrets import Secret
from kafkasource.security.jaas import LoginModule
from kafkasource.security.option_values import OptionValues
from kafkasource.security.sasl.oauthbearer import check_extension
from kafkasource.security.sasl_options import AMAZONS_HANDLERS, shown
from kafkasource.security.tokens.client_credentials import ClientCredentials
from kafkasource.security.tokens.file import TokenFile
from kafkasource.security.tokens.function import FunctionToken
from kafkasource.security.tokens.token import TokenSource
from kafkasource.security.tokens.unsecured import Claim, UnsecuredToken

_URL = "sasl.oauthbearer.token.endpoint.url"
_ID = "sasl.oauthbearer.client.credentials.client.id"
_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
_HANDLER = "sasl.login.callback.handler.class"
_OF_KAFKA = "OAuthBearerLoginCallbackHandler"  # with packages that differ from release to release
_OF_STRIMZI = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"

# Strimzi's JAAS options, by what they are here.
_STRIMZIS = {_URL: "oauth.token.endpoint.uri", _ID: "oauth.client.id", _SECRET: "oauth.client.secret"}
_JAASS = {_ID: "clientId", _SECRET: "clientSecret", "sasl.oauthbearer.scope": "scope"}
_UNSECURED = "unsecuredLogin"


def token_source(values: OptionValues, module: LoginModule | None, host: str) -> TokenSource:
    """The one source that the options name. Raises OptionError for none, and for one that lacks something.

    `host`: a bootstrap server's; vendors' tokens are for a region or a host.
    """
    _check_handler(values)
    of_jaas = _Merged(values, {} if module is None else module.options)
    function, url = values.text("sasl.oauthbearer.token.function"), of_jaas.text(_URL)
    if function is not None and url is not None:
        raise OptionError(
            f"options {shown('sasl.oauthbearer.token.function')} and {shown(_URL)} both give tokens: give one"
        )
    if function is not None:
        return FunctionToken(function)
    if url is not None:
        return _of_endpoint(of_jaas, url)
    if module is not None and any(name.startswith(_UNSECURED) for name in module.options):
        return _unsecured(module.options)
    raise OptionError(
        f"OAUTHBEARER needs a token: give {shown(_URL)}, {shown('sasl.oauthbearer.token.function')}, or {shown('auth')}"
    )


def extensions_of(values: OptionValues, module: LoginModule | None) -> tuple[tuple[str, str], ...]:
    """Of the option, and of JAAS (`extension_key`). Raises OptionError."""
    found: dict[str, str] = {}
    for name, value in ({} if module is None else module.options).items():
        if name.startswith("extension_"):
            found[name.removeprefix("extension_")] = value.reveal()
    for pair in filter(None, (values.text("sasl.oauthbearer.extensions") or "").split(",")):
        key, equals, value_text = pair.strip().partition("=")
        if not equals:
            raise OptionError(f"option {shown('sasl.oauthbearer.extensions')}: write key=value,key=value")
        found[key] = value_text
    for key, text in found.items():
        check_extension(key, text)
    return tuple(found.items())


class _Merged:
    """Options, and what JAAS has of them. An option goes before JAAS, as in Java (ConfigOrJaas)."""

    def __init__(self, values: OptionValues, of_jaas: Mapping[str, Secret]) -> None:
        self.values = values
        self._of_jaas = of_jaas

    def text(self, name: str) -> str | None:
        secret = self.secret(name)
        return None if secret is None else secret.reveal()

    def secret(self, name: str) -> Secret | None:
        given = self.values.secret(name)
        if given is not None:
            return given
        names = (table[name] for table in (_JAASS, _STRIMZIS) if name in table)
        return next((self._of_jaas[each] for each in names if each in self._of_jaas), None)


def _check_handler(values: OptionValues) -> None:
    handler = values.text(_HANDLER)
    if handler is not None and not handler.endswith((_OF_KAFKA, _OF_STRIMZI, *AMAZONS_HANDLERS)):
        raise OptionError(
            f"option {shown(_HANDLER)}: a Java class that only a JVM can run. Give tokens by a function of yours: "
            f"{shown('sasl.oauthbearer.token.function')}"
        )


def _of_endpoint(options: _Merged, url: str) -> TokenSource:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return TokenFile(unquote(parts.path))
    client_id, client_secret = options.text(_ID), options.secret(_SECRET)
    if not client_id or not client_secret:
        raise OptionError(f"the token endpoint wants client credentials: give {shown(_ID)} and {shown(_SECRET)}")
    return ClientCredentials(
        url,
        client_id,
        client_secret,
        options.text("sasl.oauthbearer.scope") or "",
        options.values.flag("sasl.oauthbearer.header.urlencode"),
    )


def _unsecured(options: Mapping[str, Secret]) -> UnsecuredToken:
    """Claims as Kafka's OAuthBearerUnsecuredLoginCallbackHandler reads them. Raises OptionError."""
    claims: dict[str, Claim] = {}
    for name, value in options.items():
        text = value.reveal()
        if name.startswith(f"{_UNSECURED}StringClaim_"):
            claims[name.partition("_")[2]] = text
        elif name.startswith(f"{_UNSECURED}NumberClaim_"):
            claims[name.partition("_")[2]] = _number(name, text)
        elif name.startswith(f"{_UNSECURED}ListClaim_"):
            separator, rest = text[:1], text[1:]
            claims[name.partition("_")[2]] = tuple(rest.split(separator)) if rest else ()
    lifetime = options.get(f"{_UNSECURED}LifetimeSeconds", Secret("3600")).reveal()
    return UnsecuredToken(tuple(claims.items()), int(_number(f"{_UNSECURED}LifetimeSeconds", lifetime)))


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"sasl.jaas.config: {name} is no number") from None
