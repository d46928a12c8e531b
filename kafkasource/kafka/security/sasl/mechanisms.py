"""THE table of SASL mechanisms. To add one, write its machine and its options in a file of its own, and a row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkasource.errors import OptionError
from kafkasource.kafka.security.option import SECRET, TEXT, Option, checked_path, shown
from kafkasource.kafka.security.sasl import gssapi, oauth_config, oauth_options
from kafkasource.kafka.security.sasl.credentials import SaslConfig
from kafkasource.kafka.security.sasl.gssapi import Gssapi, KerberosConfig
from kafkasource.kafka.security.sasl.jaas import LoginModule
from kafkasource.kafka.security.sasl.java_class import KAFKAS_SECURITY, MSK_IAM, is_one_of
from kafkasource.kafka.security.sasl.mechanism import Mechanism
from kafkasource.kafka.security.sasl.oauthbearer import OauthBearer
from kafkasource.kafka.security.sasl.option_values import OptionValues
from kafkasource.kafka.security.sasl.plain import Plain
from kafkasource.kafka.security.sasl.scram import SaltedKeys, Scram
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.cache import TokenCache


@dataclass(frozen=True)
class SharedState:
    """State that all connections of one login share."""

    keys: SaltedKeys | None = None  # with a password
    tokens: TokenCache | None = None  # with a source of tokens


@dataclass(frozen=True)
class SaslMechanism:
    """A row of the table."""

    name: str  # as SaslHandshake has it
    modules: tuple[str, ...]  # Java's login modules for it in `sasl.jaas.config`
    options: tuple[Option, ...]  # of no effect with other mechanisms
    given_by: str  # the options that hold the credentials, for errors
    read: Callable[[OptionValues, LoginModule | None, str, str], SaslConfig]  # the third: a bootstrap server's host
    machine: Callable[[SaslConfig, str, SharedState], Mechanism]  # the second: the broker's host
    sends: str = ""  # the secret that the broker gets as it is
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.name, *self.aliases


def _with_password(values: OptionValues, module: LoginModule | None, host: str, mechanism: str) -> SaslConfig:
    if module is None:
        username, password = values.text("sasl.username"), values.secret("sasl.password")
        where = f"{shown('sasl.username')} and {shown('sasl.password')}"
    else:
        username, password = module.text("username"), module.options.get("password")
        where = f"username and password in {shown('sasl.jaas.config')}"
    if not username or not password:
        raise OptionError(f"{mechanism} needs a user and a password: give {where}")
    token = module is not None and (module.text("tokenauth") or "").lower() == "true"
    if token and mechanism == "PLAIN":
        raise OptionError("a delegation token (tokenauth) needs SCRAM-SHA-256 or SCRAM-SHA-512")
    return SaslConfig(mechanism, username, password, token)


def _of_oauth(values: OptionValues, module: LoginModule | None, host: str, mechanism: str) -> SaslConfig:
    return SaslConfig(
        mechanism,
        token_source=oauth_config.token_source(values, module, host),
        extensions=oauth_config.extensions_of(values, module),
        refresh=oauth_config.refresh_of(values),
        http=oauth_config.limits_of(values),
    )


def _of_kerberos(values: OptionValues, module: LoginModule | None, host: str, mechanism: str) -> SaslConfig:
    name = "sasl.kerberos.service.name"
    service, cache = values.text(name) if values.is_given(name) else None, None
    if module is None:
        principal, keytab = values.text("sasl.kerberos.principal"), values.path("sasl.kerberos.keytab")
    else:
        of_module, principal = module.text("serviceName"), module.text("principal")
        if service and of_module and service != of_module:
            raise OptionError(f"serviceName in sasl.jaas.config and {shown(name)} are not the same")
        service = service or of_module
        uses_keytab = (module.text("useKeyTab") or "").lower() == "true"
        keytab = module.text("keyTab") if uses_keytab else None
        if uses_keytab and not keytab:
            raise OptionError("sasl.jaas.config has useKeyTab=true without keyTab: name the file")
        cache = module.text("ticketCache")
        for key, path in (("keyTab", keytab), ("ticketCache", cache)):
            checked_path(f"{key} in sasl.jaas.config", path or "")
    user = (principal or "").partition("@")[0].partition("/")[0] or None  # Kafka's default rule of auth_to_local
    own = KerberosConfig(service or values.implied(name), principal, keytab, cache)
    return SaslConfig(mechanism, user, own=own)


def _plain(config: SaslConfig, host: str, shared: SharedState) -> Mechanism:
    return Plain(config.username or "", config.password or Secret(""))


def _scram(config: SaslConfig, host: str, shared: SharedState) -> Mechanism:
    assert shared.keys is not None
    return Scram(config.mechanism, config.username or "", shared.keys, config.delegation_token)


def _oauthbearer(config: SaslConfig, host: str, shared: SharedState) -> Mechanism:
    tokens = shared.tokens
    assert tokens is not None
    return OauthBearer(tokens.token, tokens.due, config.extensions, tokens.forget)


def _gssapi(config: SaslConfig, host: str, shared: SharedState) -> Mechanism:
    assert isinstance(config.own, KerberosConfig)
    return Gssapi(config.own, host)


_PASSWORD = (
    Option("sasl.username", TEXT, "The user for PLAIN and SCRAM; with a delegation token its id."),
    Option("sasl.password", SECRET, "The password for PLAIN and SCRAM; with a delegation token its HMAC."),
)
_BY_PASSWORD = "'kafka.sasl.username' and 'kafka.sasl.password', or 'kafka.sasl.jaas.config'"
_SCRAM_MODULE = f"{KAFKAS_SECURITY}.scram.ScramLoginModule"

ROWS = (
    SaslMechanism(
        "PLAIN",
        (f"{KAFKAS_SECURITY}.plain.PlainLoginModule",),
        _PASSWORD,
        _BY_PASSWORD,
        _with_password,
        _plain,
        sends="password",
    ),
    SaslMechanism("SCRAM-SHA-256", (_SCRAM_MODULE,), _PASSWORD, _BY_PASSWORD, _with_password, _scram),
    SaslMechanism("SCRAM-SHA-512", (_SCRAM_MODULE,), _PASSWORD, _BY_PASSWORD, _with_password, _scram),
    SaslMechanism(
        "OAUTHBEARER",
        (f"{KAFKAS_SECURITY}.oauthbearer.OAuthBearerLoginModule", MSK_IAM),
        oauth_options.OPTIONS,
        "the token of 'kafka.sasl.oauthbearer.*' or 'kafka.sasl.jaas.config'",
        _of_oauth,
        _oauthbearer,
        sends="token",
        aliases=("AWS_MSK_IAM",),
    ),
    SaslMechanism(
        "GSSAPI",
        ("com.sun.security.auth.module.Krb5LoginModule",),
        gssapi.OPTIONS,
        "'kafka.sasl.kerberos.*' or 'kafka.sasl.jaas.config'",
        _of_kerberos,
        _gssapi,
    ),
)
BY_NAME = {name: row for row in ROWS for name in row.names}


def of_module(module: LoginModule) -> list[str]:
    """The mechanisms that a login module serves. Raises OptionError for one that this client does not know."""
    names = [row.name for row in ROWS if is_one_of(module.name, row.modules)]
    if not names:
        raise OptionError(
            "sasl.jaas.config: the login module is a Java class that only a JVM can run. Those of Kafka for PLAIN, "
            "SCRAM, OAUTHBEARER and Kerberos are read, and Amazon's for IAM"
        )
    return names


def of_option(option: str) -> list[str]:
    """The mechanisms that an option is for, by all their names. Empty: it is for each, or not of SASL.

    `option`: Java's name, without `kafka.`.
    """
    return [name for row in ROWS if option in {own.name for own in row.options} for name in row.names]
