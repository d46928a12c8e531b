"""SASL options as values: `SaslOptions` as plans hold them, `SaslConfig` as the process that connects uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkasource.errors import OptionError
from kafkasource.kafka.security.endpoint import HttpLimits
from kafkasource.kafka.security.exchange import shown_url
from kafkasource.kafka.security.option import SECRET, checked_path, shown
from kafkasource.kafka.security.sasl import jaas
from kafkasource.kafka.security.sasl.kerberos_config import KerberosConfig
from kafkasource.kafka.security.sasl.oauth_config import extensions_of, token_source
from kafkasource.kafka.security.sasl.option_values import OptionValues
from kafkasource.kafka.security.sasl.options import BY_NAME, canonical, mechanisms_of, vendor_defaults
from kafkasource.kafka.security.sasl.scram import HASHES
from kafkasource.kafka.security.secrets import References, Secret, has_reference
from kafkasource.kafka.security.tokens.keeper import Refresh
from kafkasource.kafka.security.tokens.token import TokenSource

MECHANISMS = ("PLAIN", *HASHES, "OAUTHBEARER", "GSSAPI")
_MODULES = {
    jaas.PLAIN: ("PLAIN",),
    jaas.SCRAM: tuple(HASHES),
    jaas.OAUTHBEARER: ("OAUTHBEARER",),
    jaas.KERBEROS: ("GSSAPI",),
    jaas.MSK_IAM: ("OAUTHBEARER",),
}


@dataclass(frozen=True)
class SaslOptions:
    """The SASL options of one cluster as the user has given them: references in them are names still.

    Pickles into plans and tasks; a cache key. `repr` shows no value of an option that may be secret.
    """

    given: tuple[tuple[str, Secret], ...] = field(repr=False)  # sorted by name; Java's names
    references: References = field(default_factory=References)

    @classmethod
    def of(cls, options: Mapping[str, str], host: str = "") -> SaslOptions:
        """From all options of a cluster without their prefix `kafka.`; those that are not SASL's are passed over.

        `host`: a bootstrap server's. Without references everything is checked here, on the driver; with some, what
        can be checked before they are resolved. Raises OptionError.
        """
        every = {**vendor_defaults(options), **options}
        given = canonical(every)
        found = cls(tuple((name, Secret(given[name])) for name in sorted(given)), References.of(options))
        if not any(map(has_reference, given.values())):
            found.resolve(host)
        return found

    @property
    def mechanism(self) -> str:
        """Return the mechanism that the options name, or the default, in upper case."""
        given = dict(self.given).get("sasl.mechanism")
        return (BY_NAME["sasl.mechanism"].implied if given is None else given.reveal()).upper()

    def resolve(self, host: str) -> SaslConfig:
        """The values, with what references stand for now. For the process that connects. Raises OptionError."""
        texts = self.references.resolve_all({name: text.reveal() for name, text in self.given})
        return SaslConfig.of(texts, host)

    def __repr__(self) -> str:
        return f"SaslOptions({', '.join(f'{name}={_printed(name, text)}' for name, text in self.given)})"


def _printed(name: str, text: Secret) -> str:
    if BY_NAME[name].type is SECRET:
        return str(text)
    return shown_url(text.reveal()) if name.endswith(".url") else text.reveal()


@dataclass(frozen=True)
class SaslConfig:
    """What one authentication needs. Exactly the parts of its mechanism are there."""

    mechanism: str  # one of MECHANISMS
    username: str | None = None  # PLAIN, SCRAM
    password: Secret | None = None
    delegation_token: bool = False  # SCRAM: user and password are a delegation token's
    token_source: TokenSource | None = None  # OAUTHBEARER
    extensions: tuple[tuple[str, str], ...] = ()
    refresh: Refresh = field(default_factory=Refresh)
    http: HttpLimits = field(default_factory=HttpLimits)
    kerberos: KerberosConfig | None = None  # GSSAPI

    @property
    def user(self) -> tuple[str, str | None]:
        """Who logs in, and how, as far as the options say it."""
        return self.mechanism, self.username

    @classmethod
    def of(cls, options: Mapping[str, str], host: str = "") -> SaslConfig:
        """From canonical options (`options.canonical`) whose references are resolved. Raises OptionError."""
        values = OptionValues(options)
        text = options.get("sasl.jaas.config")
        module = None if text is None else jaas.parse(text)
        mechanism = options.get("sasl.mechanism", BY_NAME["sasl.mechanism"].implied).upper()
        if mechanism == "AWS_MSK_IAM":
            mechanism, values = "OAUTHBEARER", values.with_default("auth", "aws")
        _check_names(mechanism, module, options)
        if mechanism == "OAUTHBEARER":
            return cls(
                mechanism,
                token_source=token_source(values, module, host),
                extensions=extensions_of(values, module),
                refresh=_refresh_of(values),
                http=_limits_of(values),
            )
        if mechanism == "GSSAPI":
            return cls(mechanism, kerberos=_kerberos_of(values, module))
        return _with_password(mechanism, values, module)


def _check_names(mechanism: str, module: jaas.LoginModule | None, options: Mapping[str, str]) -> None:
    """Raises OptionError where mechanism, login module and options do not go together."""
    if mechanism not in MECHANISMS:
        raise OptionError(f"option {shown('sasl.mechanism')}: expected one of {', '.join(MECHANISMS)}")
    if module is not None and mechanism not in _MODULES[module.kind]:
        raise OptionError(
            f"option {shown('sasl.jaas.config')} has a login module for {' or '.join(_MODULES[module.kind])}, but "
            f"{shown('sasl.mechanism')} is {mechanism}" + ("" if "sasl.mechanism" in options else " unless it is given")
        )
    for name in options:
        others = mechanisms_of(name)  # of another mechanism than the given one they have no effect, as in Java
        if others and mechanism not in others and "sasl.mechanism" not in options:
            raise OptionError(
                f"option {shown(name)} is for {' and '.join(others)}: set {shown('sasl.mechanism')}, which is "
                f"{mechanism} unless it is given"
            )
        if name in ("sasl.username", "sasl.password") and module is not None:
            raise OptionError(f"options {shown(name)} and {shown('sasl.jaas.config')} both give credentials: give one")


def _with_password(mechanism: str, values: OptionValues, module: jaas.LoginModule | None) -> SaslConfig:
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


def _kerberos_of(values: OptionValues, module: jaas.LoginModule | None) -> KerberosConfig:
    name = "sasl.kerberos.service.name"
    given, default = values.text(name) if values.is_given(name) else None, BY_NAME[name].implied
    if module is None:
        return KerberosConfig(
            given or default, values.text("sasl.kerberos.principal"), values.path("sasl.kerberos.keytab")
        )
    of_module = module.text("serviceName")
    if given and of_module and given != of_module:
        raise OptionError(f"serviceName in sasl.jaas.config and {shown(name)} are not the same")
    uses_keytab = (module.text("useKeyTab") or "").lower() == "true"
    keytab = module.text("keyTab") if uses_keytab else None
    if uses_keytab and not keytab:
        raise OptionError("sasl.jaas.config has useKeyTab=true without keyTab: name the file")
    cache = module.text("ticketCache")
    for name, path in (("keyTab", keytab), ("ticketCache", cache)):
        checked_path(f"{name} in sasl.jaas.config", path or "")
    return KerberosConfig(given or of_module or default, module.text("principal"), keytab, cache)


def _refresh_of(values: OptionValues) -> Refresh:
    """With the bounds of Java's ConfigDef."""
    name = "sasl.login.refresh"
    return Refresh(
        values.real(f"{name}.window.factor", 0.5, 1.0),
        values.real(f"{name}.window.jitter", 0.0, 0.25),
        values.whole(f"{name}.min.period.seconds", 0, 900),
        values.whole(f"{name}.buffer.seconds", 0, 3600),
    )


def _limits_of(values: OptionValues) -> HttpLimits:
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
