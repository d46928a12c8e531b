"""Finds the source of tokens that the options of OAUTHBEARER name: Kafka's, librdkafka's, or those in JAAS."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from kafkasource.errors import OptionError
from kafkasource.kafka.security.endpoint import HttpLimits, endpoint_address
from kafkasource.kafka.security.option import checked_path, shown
from kafkasource.kafka.security.sasl import oauth_jaas
from kafkasource.kafka.security.sasl.jaas import LoginModule
from kafkasource.kafka.security.sasl.java_class import (
    AMAZONS_HANDLERS,
    CLIENT_HANDLER,
    MSK_IAM,
    OAUTHBEARER_PACKAGE,
    is_one_of,
)
from kafkasource.kafka.security.sasl.oauthbearer import check_extension
from kafkasource.kafka.security.sasl.option_values import OptionValues
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.assertion import ALGORITHMS, AssertionFile, SignedAssertion
from kafkasource.kafka.security.tokens.aws import AwsToken, region_of
from kafkasource.kafka.security.tokens.azure import AzureToken
from kafkasource.kafka.security.tokens.cache import Refresh
from kafkasource.kafka.security.tokens.file import TokenFile
from kafkasource.kafka.security.tokens.fixed import FixedToken
from kafkasource.kafka.security.tokens.function import FunctionToken
from kafkasource.kafka.security.tokens.google import GoogleToken
from kafkasource.kafka.security.tokens.grants import JWT_BEARER, AssertedClient, Assertion, ClientCredentials, JwtBearer
from kafkasource.kafka.security.tokens.token import TokenSource
from kafkasource.kafka.security.tokens.unsecured import Claim, UnsecuredToken

_URL = "sasl.oauthbearer.token.endpoint.url"
_ID = "sasl.oauthbearer.client.credentials.client.id"
_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
_SCOPE = "sasl.oauthbearer.scope"
_HANDLER = "sasl.login.callback.handler.class"
_SIMPLE_HANDLER = "OAuthBearerLoginCallbackHandler"  # taken without packages, too
_OF_KAFKA = (  # the second: up to Kafka 3.9
    f"{OAUTHBEARER_PACKAGE}.{_SIMPLE_HANDLER}",
    f"{OAUTHBEARER_PACKAGE}.secured.{_SIMPLE_HANDLER}",
)
_OF_GOOGLE = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
_METADATA = "sasl.oauthbearer.metadata.authentication.type"
_METADATAS = {"azure_imds": "azure", "aws_iam": "aws"}
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_RETRIEVERS = tuple(f"{way}JwtRetriever" for way in ("Default", "ClientCredentials", "JwtBearer", "File"))
_ASSERTION = "sasl.oauthbearer.assertion"
_OF_STRIMZI = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
# Strimzi's JAAS options, by what they are here.
_STRIMZIS = {
    _URL: "oauth.token.endpoint.uri",
    _ID: "oauth.client.id",
    _SECRET: "oauth.client.secret",
    _SCOPE: "oauth.scope",
}
_STRIMZIS_OTHERS = (oauth_jaas.STRIMZIS_AUDIENCE, oauth_jaas.STRIMZIS_TOKEN, oauth_jaas.STRIMZIS_TOKEN_FILE)
_JAASS = {_ID: "clientId", _SECRET: "clientSecret", _SCOPE: "scope"}
_UNSECURED = "unsecuredLogin"


def token_source(values: OptionValues, module: LoginModule | None, host: str) -> TokenSource:
    """The one source that the options name. Raises OptionError for none, and for one that lacks something.

    `host`: a bootstrap server's; vendors' tokens are for a region or a host.
    """
    _check_handler(values)
    of_jaas = _Merged(values, {} if module is None else module.options)
    function, url = values.text("sasl.oauthbearer.token.function"), of_jaas.text(_URL)
    vendor = _vendor(values, module)
    if function is not None and url is not None:
        raise OptionError(
            f"options {shown('sasl.oauthbearer.token.function')} and {shown(_URL)} both give tokens: give one"
        )
    if function is not None:
        return FunctionToken(function)
    oauth_jaas.check_strimzis(of_jaas.names, (*_STRIMZIS.values(), *_STRIMZIS_OTHERS))
    token, file = of_jaas.of_jaas(oauth_jaas.STRIMZIS_TOKEN), of_jaas.of_jaas(oauth_jaas.STRIMZIS_TOKEN_FILE)
    if (token is not None or file is not None) and values.is_given(_URL):
        raise OptionError(f"sasl.jaas.config has an access token, and {shown(_URL)} gives tokens, too: give one")
    if token is not None:  # as Strimzi: before a file, and before its own token endpoint
        return FixedToken(token)
    if file is not None:
        return TokenFile(checked_path(f"{oauth_jaas.STRIMZIS_TOKEN_FILE} in sasl.jaas.config", file.reveal()))
    if url is not None:
        return _of_endpoint(of_jaas, url, f"https://{host}/.default" if vendor == "azure" else "")
    if module is not None and any(name.startswith(_UNSECURED) for name in module.options):
        return _unsecured(module.options)
    if vendor == "aws":
        return _aws({} if module is None else module.options, host)
    if vendor == "azure":
        return AzureToken(f"https://{host}", of_jaas.text(_ID) or "")
    if vendor == "google":
        return GoogleToken()
    raise OptionError(
        f"OAUTHBEARER needs a token: give {shown(_URL)}, {shown('sasl.oauthbearer.token.function')}, or {shown('auth')}"
    )


def extensions_of(values: OptionValues, module: LoginModule | None) -> tuple[tuple[str, str], ...]:
    """Read the extensions of the option and of JAAS (`extension_key`, or Strimzi's name). Raises OptionError."""
    extensions: dict[str, str] = {}
    for name, value in ({} if module is None else module.options).items():
        for prefix in ("extension_", oauth_jaas.STRIMZIS_EXTENSION):
            if name.startswith(prefix):
                extensions[name.removeprefix(prefix)] = value.reveal()
    for pair in filter(None, (values.text("sasl.oauthbearer.extensions") or "").split(",")):
        key, equals, value_text = pair.strip().partition("=")
        if not equals:
            raise OptionError(f"option {shown('sasl.oauthbearer.extensions')}: write key=value,key=value")
        extensions[key] = value_text
    for key, text in extensions.items():
        check_extension(key, text)
    return tuple(extensions.items())


def refresh_of(values: OptionValues) -> Refresh:
    """Read `sasl.login.refresh.*`, with the bounds of Java's ConfigDef."""
    name = "sasl.login.refresh"
    return Refresh(
        values.real(f"{name}.window.factor", 0.5, 1.0),
        values.real(f"{name}.window.jitter", 0.0, 0.25),
        values.whole(f"{name}.min.period.seconds", 0, 900),
        values.whole(f"{name}.buffer.seconds", 0, 3600),
    )


def limits_of(values: OptionValues) -> HttpLimits:
    def time_ms(name: str) -> int:
        return values.whole(f"sasl.login.{name}.ms", 1, 600_000)

    return HttpLimits(
        time_ms("connect.timeout"),
        time_ms("read.timeout"),
        time_ms("retry.backoff"),
        time_ms("retry.backoff.max"),
        values.flag("sasl.oauthbearer.token.endpoint.allow.http"),
        values.path("https.ca.location"),
        values.text("https.ca.pem"),
    )


class _Merged:
    """Options together with those in JAAS. An option takes precedence over JAAS, as in Java (ConfigOrJaas)."""

    def __init__(self, values: OptionValues, of_jaas: Mapping[str, Secret]) -> None:
        self.values = values
        self._of_jaas = of_jaas

    @property
    def names(self) -> tuple[str, ...]:
        """The options in JAAS, by its names."""
        return tuple(self._of_jaas)

    def of_jaas(self, name: str) -> Secret | None:
        """Return the option with this name in JAAS."""
        return self._of_jaas.get(name)

    def text(self, name: str) -> str | None:
        secret = self.secret(name)
        return None if secret is None else secret.reveal()

    def secret(self, name: str) -> Secret | None:
        given = self.values.secret(name)
        if given is not None:
            return given
        names = (table[name] for table in (_JAASS, _STRIMZIS) if name in table)
        return next((self._of_jaas[name_in_jaas] for name_in_jaas in names if name_in_jaas in self._of_jaas), None)


def _check_handler(values: OptionValues) -> None:
    handler = values.text(_HANDLER)
    known = (*_OF_KAFKA, _OF_STRIMZI, _OF_GOOGLE, *AMAZONS_HANDLERS)
    if handler not in (None, _SIMPLE_HANDLER) and not is_one_of(handler, known):
        raise OptionError(
            f"option {shown(_HANDLER)}: a Java class that only a JVM can run. Give tokens by a function of yours: "
            f"{shown('sasl.oauthbearer.token.function')}"
        )


def _vendor(values: OptionValues, module: LoginModule | None) -> str | None:
    """The vendor that gives tokens if no other source is named: `auth`, or other clients' options for it."""
    given = values.text("auth")
    if given is not None:
        return given.lower()
    metadata = values.text(_METADATA)
    if metadata is not None:
        if metadata not in _METADATAS:
            raise OptionError(f"option {shown(_METADATA)}: expected one of {', '.join(_METADATAS)}")
        return _METADATAS[metadata]
    handler = values.text(_HANDLER) or values.text(CLIENT_HANDLER) or ""
    if is_one_of(handler, AMAZONS_HANDLERS) or (module is not None and is_one_of(module.name, (MSK_IAM,))):
        return "aws"
    return "google" if is_one_of(handler, (_OF_GOOGLE,)) else None


def _of_endpoint(options: _Merged, url: str, default_scope: str) -> TokenSource:
    values, scope = options.values, options.text(_SCOPE) or default_scope
    jwt_bearer = _uses_jwt_bearer(values)
    file = _file_of(url)
    if file is not None:
        return TokenFile(file)
    endpoint_address(url)
    oauth_jaas.check_tls(options.names, any(map(values.is_given, oauth_jaas.AUTHORITIES)))
    assertion, client_id = _assertion(values), options.text(_ID)
    audience = options.of_jaas(oauth_jaas.STRIMZIS_AUDIENCE)
    if audience is not None and (jwt_bearer or assertion is not None):
        raise OptionError(f"sasl.jaas.config: {oauth_jaas.STRIMZIS_AUDIENCE} goes with a client's secret alone")
    if jwt_bearer:
        if assertion is None:
            raise OptionError(
                f"the grant jwt-bearer needs an assertion: give {shown(f'{_ASSERTION}.private.key.file')}"
            )
        return JwtBearer(url, assertion, scope)
    if assertion is not None:
        return AssertedClient(url, assertion, client_id or "", scope)
    client_secret = options.secret(_SECRET)
    if not client_id or not client_secret:
        raise OptionError(f"the token endpoint needs client credentials: give {shown(_ID)} and {shown(_SECRET)}")
    return ClientCredentials(
        url,
        client_id,
        client_secret,
        scope,
        values.flag("sasl.oauthbearer.header.urlencode"),
        "" if audience is None else audience.reveal(),
    )


def _file_of(url: str) -> str | None:
    """The path in a URL `file:`; None for another one. Raises OptionError."""
    if not url.lower().startswith("file:"):
        return None
    try:
        return unquote(urlsplit(checked_path(shown(_URL), url)).path)
    except ValueError:
        raise OptionError(f"option {shown(_URL)}: not a URL file:/path") from None


def _uses_jwt_bearer(values: OptionValues) -> bool:
    """Whether librdkafka's option or Java's class names jwt-bearer. Raises OptionError for an unknown grant."""
    method = values.text("sasl.oauthbearer.method")
    if method is not None and method.lower() != "oidc":
        raise OptionError(f"option {shown('sasl.oauthbearer.method')}: expected oidc; leave it out otherwise")
    given = values.text(_RETRIEVER) or ""
    retriever = given.rpartition(".")[2]
    own = given == retriever or is_one_of(given, (f"{OAUTHBEARER_PACKAGE}.{retriever}",))
    if not own or retriever not in ("", *_RETRIEVERS):
        raise OptionError(
            f"option {shown(_RETRIEVER)}: expected Kafka's ClientCredentialsJwtRetriever, JwtBearerJwtRetriever, or "
            "FileJwtRetriever for a file: another Java class only a JVM can run"
        )
    grant = values.text("sasl.oauthbearer.grant.type")
    if grant not in ("client_credentials", JWT_BEARER):
        raise OptionError(f"option {shown('sasl.oauthbearer.grant.type')}: expected client_credentials or {JWT_BEARER}")
    return retriever == "JwtBearerJwtRetriever" or grant == JWT_BEARER


def _assertion(values: OptionValues) -> Assertion | None:
    """None where no option speaks of one. A file goes before a key, as in Java. Raises OptionError."""
    file = values.path(f"{_ASSERTION}.file")
    if file is not None:
        return AssertionFile(file)
    key_file, key_pem = values.path(f"{_ASSERTION}.private.key.file"), values.secret(f"{_ASSERTION}.private.key.pem")
    if key_file is None and key_pem is None:
        return None
    algorithm = (values.text(f"{_ASSERTION}.algorithm") or "").upper()
    if algorithm not in ALGORITHMS:
        raise OptionError(f"option {shown(f'{_ASSERTION}.algorithm')}: expected {' or '.join(ALGORITHMS)}")
    claims = ((name, values.text(f"{_ASSERTION}.claim.{name}")) for name in ("aud", "iss", "sub"))
    return SignedAssertion(
        key_file,
        key_pem,
        values.secret(f"{_ASSERTION}.private.key.passphrase"),
        algorithm,
        values.path(f"{_ASSERTION}.template.file"),
        tuple((name, text) for name, text in claims if text is not None),
        values.whole(f"{_ASSERTION}.claim.exp.seconds", 0, 86_400),
        values.whole(f"{_ASSERTION}.claim.nbf.seconds", 0, 3_600),
        values.flag(f"{_ASSERTION}.claim.jti.include"),
    )


def _aws(of_jaas: Mapping[str, Secret], host: str) -> AwsToken:
    """The options of Amazon's login module count, too. Raises OptionError, also without a region."""
    oauth_jaas.check_amazons(of_jaas)

    def text(name: str) -> str | None:
        return of_jaas[name].reveal() if name in of_jaas else None

    region = (
        region_of(host) or text("awsStsRegion") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    )
    if not region:
        raise OptionError(
            "kafka.auth=aws: the bootstrap server's name does not hold a region: set AWS_REGION in the environment"
        )
    return AwsToken(region, text("awsProfileName"), text("awsRoleArn"), text("awsRoleSessionName"))


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
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):  # JSON cannot hold it
        raise OptionError(f"sasl.jaas.config: {name} is not a number")
    return number
