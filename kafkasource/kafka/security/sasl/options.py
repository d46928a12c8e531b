"""THE table of SASL options: Java's names, librdkafka's aliases, what is refused and why, and vendors' defaults.

Names stand without the prefix `kafka.`, which Spark's options have. The row of a mechanism has its own options.
`config` and `oauth_config` read their values.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkasource.errors import OptionError
from kafkasource.kafka.security.option import SECRET, TEXT, Option, any_of, shown
from kafkasource.kafka.security.sasl import mechanisms
from kafkasource.kafka.security.sasl.java_class import AMAZONS_HANDLERS, CLIENT_HANDLER, is_one_of
from kafkasource.kafka.security.secrets import trimmed

ROWS = (
    Option(
        "auth",
        TEXT,
        "A vendor, whose clusters need certain options: `aws`, `azure`, `google` or `confluent` "
        "([which](security.md#sasl)). It sets protocol, mechanism, token and idle time. An option that you give takes "
        "precedence.",
    ),
    Option(
        "sasl.mechanism",
        TEXT,
        f"{any_of(row.name for row in mechanisms.ROWS)} (Kerberos). AWS_MSK_IAM means OAUTHBEARER with a token of"
        " Amazon's signer.",
        aliases=("sasl.mechanisms",),
        implied="GSSAPI",
    ),
    Option(
        "sasl.jaas.config",
        SECRET,
        "Credentials as Java clients have them: one login module of Kafka's, with any prefix of a shaded copy. In place"
        " of the options for user, password and client.",
    ),
    *dict.fromkeys(own for row in mechanisms.ROWS for own in row.options),
)
BY_NAME: Mapping[str, Option] = {row.name: row for row in ROWS}
CANONICAL: Mapping[str, str] = {alias: row.name for row in ROWS for alias in row.aliases}

_JAVA = "it names a Java class, which only a JVM can run"
_JAVAS_LOGIN = f"{_JAVA}. Use sasl.jaas.config or sasl.oauthbearer.token.function"
_BROKERS = "only brokers check tokens; the client sends them as they are"
_UNSECURED = "write the claims of an unsecured token into sasl.jaas.config, as Java does"
_KINIT = "Kerberos tickets are taken from the keytab or the cache when a connection needs them; nothing runs kinit"

# Options that the client could only ignore, so it refuses them: a name, or a prefix that ends with a dot; and why.
REFUSED: Mapping[str, str] = {
    "sasl.login.class": _JAVAS_LOGIN,
    "security.providers": _JAVA,
    "sasl.oauthbearer.jwt.validator.class": f"{_JAVA}, and {_BROKERS}",
    "sasl.oauthbearer.jwks.": _BROKERS,
    "sasl.oauthbearer.expected.": _BROKERS,
    "sasl.oauthbearer.clock.skew.seconds": _BROKERS,
    "sasl.oauthbearer.sub.claim.name": _BROKERS,
    "sasl.oauthbearer.scope.claim.name": _BROKERS,
    "sasl.oauthbearer.config": _UNSECURED,
    "enable.sasl.oauthbearer.unsecure.jwt": _UNSECURED,
    "sasl.kerberos.kinit.cmd": _KINIT,
    "sasl.kerberos.ticket.renew.": _KINIT,
    "sasl.kerberos.min.time.before.relogin": _KINIT,
}


def refusal(name: str) -> str | None:
    """Why an option is refused; None for one that is not."""
    for refused, why in REFUSED.items():
        if name == refused or (refused.endswith(".") and name.startswith(refused)):
            return why
    return None


def canonical(options: Mapping[str, str]) -> dict[str, str]:
    """The SASL options among all of `options`, by Java's names, without the blanks around them.

    Raises OptionError for what is refused, and for an option that is given twice with two values.
    """
    values: dict[str, str] = {}
    for given, text in options.items():
        lower = given.lower()
        name = CANONICAL.get(lower, lower)
        foreign = name == CLIENT_HANDLER and not is_one_of(trimmed(text), AMAZONS_HANDLERS)
        why = _JAVAS_LOGIN if foreign else refusal(name)
        if why is not None:
            raise OptionError(f"option {shown(given)} is not supported: {why}")
        if name not in BY_NAME:
            if name.startswith("sasl."):
                raise OptionError(f"option {shown(given)} is unknown: no Kafka client has a SASL option of this name")
            continue
        value = trimmed(text)
        if values.setdefault(name, value) != value:
            raise OptionError(
                f"options {shown(name)} and {shown(BY_NAME[name].aliases[0])} contradict each other: give one"
            )
    return values


def vendor_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """Values that `auth` sets, also outside SASL, for options that the user has not given. Raises OptionError.

    `options`: all that the user has given, without `kafka.`.
    """
    vendor = options.get("auth", "").strip().lower()
    if not vendor:
        return {}
    if vendor not in ("aws", "azure", "google", "confluent"):
        raise OptionError(f"option {shown('auth')}: expected aws, azure, google or confluent")
    defaults = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    with_password = "sasl.password" in options
    if vendor == "azure":
        defaults["connections.max.idle.ms"] = "180000"  # Event Hubs drops connections that rest for 240 s
        if with_password:
            defaults |= {"sasl.mechanism": "PLAIN", "sasl.username": "$ConnectionString"}
    if vendor == "confluent" and (with_password or "sasl.jaas.config" in options):
        defaults["sasl.mechanism"] = "PLAIN"
    given = {CANONICAL.get(name.lower(), name.lower()) for name in options}
    return {name: text for name, text in defaults.items() if name not in given}
