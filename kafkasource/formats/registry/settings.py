"""The options of one registry: `RegistryOptions` as plans hold them, `RegistrySettings` as a question needs them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from kafkasource.errors import OptionError
from kafkasource.kafka.security.endpoint import HttpLimits
from kafkasource.kafka.security.exchange import HttpAddress, address_of, is_this_machine
from kafkasource.kafka.security.option import SECRET, checked_path
from kafkasource.kafka.security.secrets import References, Secret, has_reference
from kafkasource.kafka.security.tls.config import TlsConfig
from kafkasource.kafka.security.tls.options import BY_NAME as TLS_BY_NAME
from kafkasource.kafka.security.tokens.grants import ClientCredentials
from kafkasource.options.registry import ALIASES, BY_NAME, PREFIX, REFUSED, registry_options
from kafkasource.options.spelling import nearest

_BASIC, _TOKEN, _ISSUER = "basic.auth.user.info", "bearer.auth.token", "bearer.auth.issuer.endpoint.url"
_CLIENT_ID, _CLIENT_SECRET = "bearer.auth.client.id", "bearer.auth.client.secret"
_PROVIDERS = tuple(f"config.providers.{name}" for name in (
    "env.param.allowlist.pattern", "file.param.allowed.paths", "dir.param.allowed.paths"))  # fmt: skip

# Names in the errors of the brokers' code, and the names of the registry's options.
_RENAMED = (
    ("kafka.sasl.oauthbearer.token.endpoint.", f"{PREFIX}bearer.auth.issuer.endpoint."),
    ("kafka.sasl.oauthbearer.", f"{PREFIX}bearer.auth."),
    ("kafka.https.ca.", f"{PREFIX}https.ca."),
    ("kafka.ssl.", f"{PREFIX}ssl."),
    ("kafka.enable.ssl.", f"{PREFIX}enable.ssl."),
    *((f"option 'kafka.{name}'", f"option '{PREFIX}{name}'") for name in BY_NAME),
)


def renamed(text: str) -> str:
    """An error of the brokers' security, with the options of the registry."""
    for brokers, ours in _RENAMED:
        text = text.replace(brokers, ours)
    return text


@dataclass(frozen=True)
class RegistrySettings:
    """The settings of one request, with references resolved."""

    basic: Secret | None = None  # the header's value, as are the next
    token: Secret | None = None
    client: ClientCredentials | None = None  # gives tokens
    issuer: HttpLimits = field(default_factory=HttpLimits)
    more_headers: tuple[tuple[str, str], ...] = ()
    tls: TlsConfig = field(default_factory=TlsConfig)


@dataclass(frozen=True)
class RegistryOptions:
    """The options of a registry as the user has given them: references in them are names still.

    Pickles into plans and tasks; the key by which a process keeps its client. `repr` shows no secret.
    """

    addresses: tuple[HttpAddress, ...]  # of one registry; a target ends without a slash
    given: tuple[tuple[str, Secret], ...] = field(default=(), repr=False)  # sorted by name; without the prefix
    references: References = field(default_factory=References)

    @classmethod
    def of(cls, options: Mapping[str, str], references: References | None = None) -> RegistryOptions:
        """From options without their prefix `schemaRegistry.`. `references`: which of them are allowed.

        What can be checked without files, references and the registry is checked here, on the driver. Raises
        OptionError.
        """
        given = _given(options)
        if "url" not in given:
            raise OptionError(f"option '{PREFIX}url' is not set: the schema registry's URL, https://host:port")
        addresses = tuple(_address(url) for url in given.pop("url").split(",") if url.strip())
        if not addresses:
            raise OptionError(f"option '{PREFIX}url' is empty: write the schema registry's URL, https://host:port")
        found = cls(addresses, tuple((name, Secret(given[name])) for name in sorted(given)), references or References())
        for name in _LEAST:
            found._number(name)
        if not any(map(has_reference, given.values())):
            found.resolve()
        return found

    @classmethod
    def of_parsed(cls, options: Mapping[str, Any]) -> RegistryOptions:
        """From all options of a read or a write, with the references that its config providers allow. Raises
        OptionError."""
        allowed = {name: options[f"kafka.{name}"] for name in _PROVIDERS if options.get(f"kafka.{name}") is not None}
        return cls.of(registry_options(options), References.of(allowed))

    @property
    def connect_timeout_ms(self) -> int:
        return self._number("http.connect.timeout.ms")

    @property
    def read_timeout_ms(self) -> int:
        return self._number("http.read.timeout.ms")

    @property
    def retry_timeout_ms(self) -> int:
        return self._number("retry.timeout.ms")

    @property
    def missing_id_s(self) -> int:
        return self._number("missing.id.cache.ttl.sec")

    @property
    def url(self) -> str:
        """All addresses, for people."""
        return ",".join(map(str, self.addresses))

    @property
    def in_clear(self) -> tuple[HttpAddress, ...]:
        """The addresses on other machines where credentials would go unencrypted."""
        if not any(name.startswith(("basic.", "bearer.")) for name, _ in self.given):
            return ()
        return tuple(
            address for address in self.addresses if not address.encrypts and not is_this_machine(address.host)
        )

    def resolve(self) -> RegistrySettings:
        """Resolve the references. Reads the files of references, no others. Raises OptionError."""
        texts = {name: text.reveal() for name, text in self.given}
        try:
            return _settings(tuple(self.references.resolve_all(texts).items()))
        except OptionError as error:
            raise OptionError(renamed(str(error))) from None

    def _number(self, name: str) -> int:
        at_least = _LEAST[name]
        text = dict(self.given).get(name, Secret(BY_NAME[name].implied)).reveal()
        try:
            number = int(text)
        except ValueError:
            number = at_least - 1
        if not at_least <= number < 1 << 31:
            raise OptionError(f"option '{PREFIX}{name}': expected a whole number of at least {at_least}")
        return number


_LEAST = {
    "http.connect.timeout.ms": 1,
    "http.read.timeout.ms": 1,
    "retry.timeout.ms": 0,
    "missing.id.cache.ttl.sec": 0,
}


def _given(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options by the table's names. Raises OptionError for an unknown name."""
    given: dict[str, str] = {}
    for written, text in options.items():
        key = written.lower()
        if key in REFUSED:
            raise OptionError(f"option '{PREFIX}{written}' is not supported: {REFUSED[key]}. Leave it out")
        name = ALIASES.get(key, key)
        if name not in BY_NAME:
            near = nearest(key, list(BY_NAME))
            hint = (
                "docs/options-registry.md lists those of a registry"
                if near is None
                else f"did you mean '{PREFIX}{near}'?"
            )
            raise OptionError(f"option '{PREFIX}{written}' is not known: {hint}")
        if name in given:
            raise OptionError(f"option '{PREFIX}{name}' is given twice, by two of its names. Leave out one of them")
        if text.strip():
            given[name] = text if BY_NAME[name].type is SECRET else text.strip()
    return given


def _address(url: str) -> HttpAddress:
    """Raises OptionError, which does not show the URL: it may hold a password."""
    address = address_of(url.strip())
    if address is None or "?" in address.target:
        raise OptionError(
            f"option '{PREFIX}url': expected URLs http(s)://host[:port][/path], separated by commas, without user, "
            f"password and query. User and password are for '{PREFIX}{_BASIC}'"
        )
    return HttpAddress(address.scheme, address.host, address.port, address.target.rstrip("/"))


@lru_cache(maxsize=16)
def _settings(texts: tuple[tuple[str, str], ...]) -> RegistrySettings:
    """Kept, as each question asks for it."""
    given = dict(texts)
    ways = [name for name in (_BASIC, _TOKEN, _ISSUER) if name in given]
    if len(ways) > 1:
        raise OptionError(f"options '{PREFIX}{ways[0]}' and '{PREFIX}{ways[1]}' exclude each other: give one")
    return RegistrySettings(
        basic=_basic(given),
        token=_bearer(given[_TOKEN]) if _TOKEN in given else None,
        client=_client(given),
        issuer=HttpLimits(ca_location=_authorities(given)),
        more_headers=_more_headers(given),
        tls=TlsConfig.of({name: text for name, text in given.items() if name in TLS_BY_NAME}),
    )


def _authorities(given: Mapping[str, str]) -> str | None:
    """The file of those that the token endpoint is trusted by."""
    name = "https.ca.location"
    return checked_path(f"'{PREFIX}{name}'", given[name]) if name in given else None


def _basic(given: Mapping[str, str]) -> Secret | None:
    if _BASIC not in given:
        return None
    text = given[_BASIC].strip()
    if ":" not in text:
        raise OptionError(f"option '{PREFIX}{_BASIC}': expected user:password")
    return Secret(f"Basic {base64.b64encode(text.encode()).decode()}")


def _bearer(text: str) -> Secret:
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise OptionError(f"option '{PREFIX}{_TOKEN}': expected a token of ASCII letters without blanks")
    return Secret(f"Bearer {token}")


def _client(given: Mapping[str, str]) -> ClientCredentials | None:
    if _ISSUER not in given:
        for name in (_CLIENT_ID, _CLIENT_SECRET, "bearer.auth.scope", "https.ca.location"):
            if name in given:
                raise OptionError(f"option '{PREFIX}{name}' needs '{PREFIX}{_ISSUER}', which is not set")
        return None
    for name in (_CLIENT_ID, _CLIENT_SECRET):
        if name not in given:
            raise OptionError(f"option '{PREFIX}{_ISSUER}' needs '{PREFIX}{name}', which is not set")
    address = address_of(given[_ISSUER])
    if address is None or not address.encrypts:
        raise OptionError(
            f"option '{PREFIX}{_ISSUER}': expected a URL https://host[:port]/path without user and password: the "
            "client's secret is sent there"
        )
    return ClientCredentials(
        given[_ISSUER], given[_CLIENT_ID], Secret(given[_CLIENT_SECRET]), given.get("bearer.auth.scope", "")
    )


def _more_headers(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Confluent Cloud's."""
    found = []
    for name, header in (
        ("bearer.auth.logical.cluster", "target-sr-cluster"),
        ("bearer.auth.identity.pool.id", "Confluent-Identity-Pool-Id"),
    ):
        if name not in given:
            continue
        if _TOKEN not in given and _ISSUER not in given:
            raise OptionError(f"option '{PREFIX}{name}' needs '{PREFIX}{_TOKEN}' or '{PREFIX}{_ISSUER}'")
        if not given[name].isascii() or not given[name].isprintable():
            raise OptionError(f"option '{PREFIX}{name}': expected ASCII letters")
        found.append((header, given[name]))
    return tuple(found)
