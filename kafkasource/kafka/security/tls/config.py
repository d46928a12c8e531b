"""The options of TLS as one value. No file is read here: files lie on the machines that connect, not where jobs start.

`TlsConfig.of` takes values in which references to secrets are resolved already. So it runs in the process that
connects. A configuration is hashable: `context` keeps one context for each.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from kafkasource.errors import OptionError
from kafkasource.kafka.security.option import checked_path, shown
from kafkasource.kafka.security.secrets import Secret, trimmed
from kafkasource.kafka.security.tls.ciphers import Ciphers, read_ciphers
from kafkasource.kafka.security.tls.options import ALIASES, BY_NAME, REFUSED, named, with_alias

log = logging.getLogger("kafkasource.client")

TLS12, TLS13 = "TLSv1.2", "TLSv1.3"
_TOO_OLD = ("SSL", "SSLv2", "SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
_BINARY_TYPES = ("PKCS12", "JKS")
_NOT_EMPTY = (
    ".location",
    ".certificates",
    ".chain",
    ".key",
)  # without them other certificates would be trusted, or sent
_PROBE = "probe"  # librdkafka: look for the system's roots, as is done without the option

_NOT_TOGETHER: tuple[tuple[str, tuple[str, ...]], ...] = (
    # Java refuses these, too (DefaultSslEngineFactory).
    ("ssl.truststore.certificates", ("ssl.truststore.location", "ssl.truststore.password")),
    (
        "ssl.keystore.location",
        ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.key.location", "ssl.certificate.location"),
    ),
    ("ssl.keystore.key", ("ssl.key.location", "ssl.keystore.password")),
    ("ssl.keystore.certificate.chain", ("ssl.certificate.location",)),
)
_NEEDS_ONE_OF: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ssl.truststore.password", ("ssl.truststore.location",)),
    ("ssl.keystore.password", ("ssl.keystore.location",)),
    ("ssl.key.password", ("ssl.keystore.location", "ssl.keystore.key", "ssl.key.location")),
    ("ssl.keystore.key", ("ssl.keystore.certificate.chain", "ssl.certificate.location")),
    ("ssl.key.location", ("ssl.keystore.certificate.chain", "ssl.certificate.location")),
    ("ssl.keystore.certificate.chain", ("ssl.keystore.key", "ssl.key.location")),
    ("ssl.certificate.location", ("ssl.keystore.key", "ssl.key.location")),
)


@dataclass(frozen=True)
class TlsConfig:
    """The client's offers and authorities. Fields have the names of the options. None: not given."""

    truststore_location: str | None = None
    truststore_type: str | None = None  # "PEM", "PKCS12", "JKS"
    truststore_password: Secret | None = None
    truststore_certificates: str | None = None  # PEM text
    keystore_location: str | None = None
    keystore_type: str | None = None
    keystore_password: Secret | None = None
    keystore_key: Secret | None = None  # PEM text
    keystore_certificate_chain: str | None = None  # PEM text
    key_password: Secret | None = None
    key_location: str | None = None
    certificate_location: str | None = None
    crl_location: str | None = None
    check_hostname: bool = True
    versions: tuple[str, ...] = (TLS12, TLS13)  # oldest first, never empty
    ciphers: Ciphers | None = None  # None: OpenSSL's choice

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TlsConfig:
        """Read the options of TLS, by Java's names or librdkafka's, without the prefix `kafka.`. Others are left alone.

        Raises OptionError for options that contradict each other, are not known, or could only be ignored.
        """
        given = _given(options)
        _check_combinations(given)
        _check_verification(given)
        ciphers = read_ciphers(given["ssl.cipher.suites"]) if "ssl.cipher.suites" in given else None

        def secret(name: str) -> Secret | None:
            return Secret(given[name]) if name in given else None

        config = cls(
            truststore_location=given.get("ssl.truststore.location"),
            truststore_type=_store_type(given, "ssl.truststore.type", "ssl.truststore.certificates"),
            truststore_password=secret("ssl.truststore.password"),
            truststore_certificates=given.get("ssl.truststore.certificates"),
            keystore_location=given.get("ssl.keystore.location"),
            keystore_type=_store_type(given, "ssl.keystore.type", "ssl.keystore.key"),
            keystore_password=secret("ssl.keystore.password"),
            keystore_key=secret("ssl.keystore.key"),
            keystore_certificate_chain=given.get("ssl.keystore.certificate.chain"),
            key_password=secret("ssl.key.password"),
            key_location=given.get("ssl.key.location"),
            certificate_location=given.get("ssl.certificate.location"),
            crl_location=given.get("ssl.crl.location"),
            check_hostname=_checks_hostname(options),
            versions=_versions(given, ciphers),
            ciphers=ciphers,
        )
        _check_pem_passwords(config)
        return config


def _given(options: Mapping[str, str]) -> dict[str, str]:
    """The options of TLS that have a value, by Java's names."""
    given: dict[str, str] = {}
    for name, text in options.items():
        if name in REFUSED:
            raise OptionError(f"option {shown(name)} is not supported: {REFUSED[name]}. Leave it out")
        main = ALIASES.get(name, name)
        if main not in BY_NAME:
            if name.startswith("ssl."):
                raise OptionError(f"option {shown(name)} is not known; docs/options-security.md lists those of TLS")
            continue
        value = trimmed(text)
        if not value:
            if main.endswith(_NOT_EMPTY):
                raise OptionError(
                    f"option {shown(name)} is empty. If it is a reference, such as ${{env:NAME}}, its variable or key"
                    " has no value here. Give it one, or leave out the option"
                )
            continue
        if main.endswith(".location"):
            checked_path(shown(name), value, (with_alias(other) for other in BY_NAME[main].text_options))
        if given.setdefault(main, value) != value:
            raise OptionError(f"option {with_alias(main)} has two values under its two names. Leave out one of them")
    if given.get("ssl.truststore.location", "").lower() == _PROBE:
        del given["ssl.truststore.location"]
    return given


def _check_combinations(given: Mapping[str, str]) -> None:
    for name, excluded in _NOT_TOGETHER:
        for other in excluded:
            if name in given and other in given:
                raise OptionError(f"{named(name)} cannot be combined with {with_alias(other)}. Leave out one of them")
    for name, needed in _NEEDS_ONE_OF:
        if name in given and not any(other in given for other in needed):
            either = " or ".join(with_alias(other) for other in needed)
            raise OptionError(f"{named(name)} needs {either}, which is not set")


def _check_pem_passwords(config: TlsConfig) -> None:
    for store_type, password, name, instead in (
        (config.truststore_type, config.truststore_password, "ssl.truststore", "leave the password out"),
        (
            config.keystore_type,
            config.keystore_password,
            "ssl.keystore",
            f"its key has {shown('ssl.key.password')}",
        ),
    ):
        if store_type == "PEM" and password is not None:
            raise OptionError(
                f"options {shown(name + '.type')}=PEM and {shown(name + '.password')} cannot be combined: a PEM file"
                f" has no password; {instead}"
            )


def _check_verification(given: Mapping[str, str]) -> None:
    name = "enable.ssl.certificate.verification"
    if given.get(name, "true").lower() != "true":
        raise OptionError(
            f"option {shown(name)}: only true is allowed: without the check, any server at the broker's address"
            f" gets the passwords. Give the authority that issued the brokers' certificates with"
            f" {with_alias('ssl.truststore.certificates')} or {with_alias('ssl.truststore.location')}"
        )


def _store_type(given: Mapping[str, str], name: str, text_option: str) -> str | None:
    if name not in given:
        return None
    store_type = given[name].upper()
    if store_type not in ("PEM", *_BINARY_TYPES):
        raise OptionError(f"option {shown(name)}: expected PEM, PKCS12 or JKS, got {given[name]!r}")
    if store_type != "PEM" and text_option in given:
        raise OptionError(f"{named(text_option)} is PEM text, and {shown(name)} is {store_type}. Leave that out")
    return store_type


def _checks_hostname(options: Mapping[str, str]) -> bool:
    name = "ssl.endpoint.identification.algorithm"
    algorithm = options.get(name, "https").strip().lower()
    if algorithm not in ("https", "none", ""):
        raise OptionError(f"option {shown(name)}: expected https, none or nothing, got {algorithm!r}")
    return algorithm == "https"


def _versions(given: Mapping[str, str], ciphers: Ciphers | None) -> tuple[str, ...]:
    protocol = given.get("ssl.protocol", BY_NAME["ssl.protocol"].implied)
    if protocol not in ("TLS", TLS12, TLS13):
        raise OptionError(f"option {shown('ssl.protocol')}: expected TLSv1.2, TLSv1.3 or TLS, got {protocol!r}")
    text = given.get("ssl.enabled.protocols", BY_NAME["ssl.enabled.protocols"].implied)
    named = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [name for name in named if name not in (*_TOO_OLD, TLS12, TLS13)]
    if unknown:
        raise OptionError(
            f"option {shown('ssl.enabled.protocols')}: expected TLSv1.2 and TLSv1.3, got {', '.join(unknown)!r}"
        )
    too_old = [name for name in named if name in _TOO_OLD]
    offered = [version for version in (TLS12, TLS13) if version in named]
    if protocol == TLS12:
        offered = [version for version in offered if version == TLS12]
    if ciphers is not None:
        offered = [version for version in offered if (ciphers.tls13 if version == TLS13 else ciphers.tls12)]
    if not offered:
        raise OptionError(
            f"options {shown('ssl.enabled.protocols')}={text}, {shown('ssl.protocol')}={protocol}"
            + (f" and {shown('ssl.cipher.suites')}" if ciphers is not None else "")
            + " leave no version of TLS. The client speaks TLSv1.2 and TLSv1.3"
        )
    if too_old:
        log.warning(
            "option %s: the client does not offer %s, which are not safe; it offers %s",
            shown("ssl.enabled.protocols"), ", ".join(too_old), " and ".join(offered),
        )  # fmt: skip
    return tuple(offered)
