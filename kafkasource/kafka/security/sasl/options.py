"""THE table of SASL options: Java's names, librdkafka's aliases, what is refused and why, and vendors' defaults.

Names stand without the prefix `kafka.`, which Spark's options have. `config` and `oauth_config` read their values.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkasource.errors import OptionError
from kafkasource.kafka.security.option import (
    SECRET,
    TEXT,
    Option,
    any_of,
    shown,
)
from kafkasource.kafka.security.sasl import mechanisms
from kafkasource.kafka.security.sasl.java_class import AMAZONS_HANDLERS, CLIENT_HANDLER, is_one_of
from kafkasource.kafka.security.secrets import trimmed

_ENDPOINT = "sasl.oauthbearer.token.endpoint"
_ASSERTION = "sasl.oauthbearer.assertion"

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
    Option("sasl.username", TEXT, "The user for PLAIN and SCRAM; with a delegation token its id."),
    Option("sasl.password", SECRET, "The password for PLAIN and SCRAM; with a delegation token its HMAC."),
    Option(
        "sasl.login.refresh.window.factor",
        TEXT,
        "A token is renewed after this part of its life.",
        implied="0.8",
    ),
    Option(
        "sasl.login.refresh.window.jitter",
        TEXT,
        "At most this part of a token's life is added at random, so that processes do not renew at the same time.",
        implied="0.05",
    ),
    Option(
        "sasl.login.refresh.min.period.seconds",
        TEXT,
        "Least time between two renewals of a token.",
        implied="60",
    ),
    Option(
        "sasl.login.refresh.buffer.seconds",
        TEXT,
        "A token is renewed this long before it expires.",
        implied="300",
    ),
    Option(
        "sasl.login.connect.timeout.ms",
        TEXT,
        "How long a connection to the token endpoint may take, TLS included.",
        implied="10000",
        differs="none: it waits without end",
    ),
    Option(
        "sasl.login.read.timeout.ms",
        TEXT,
        "How long the token endpoint's whole answer may take.",
        implied="10000",
        differs="none: it waits without end",
    ),
    Option("sasl.login.retry.backoff.ms", TEXT, "The first pause before the endpoint is asked again.", implied="100"),
    Option(
        "sasl.login.retry.backoff.max.ms",
        TEXT,
        "How long the endpoint is asked again in all, while it gives no answer or one of 5xx, 408, 429.",
        implied="10000",
    ),
    Option(
        f"{_ENDPOINT}.url",
        TEXT,
        "The source of OAUTHBEARER's token: an https URL for client credentials or an assertion, or `file:` and the"
        " path of a file with the token, which is read again at each authentication.",
    ),
    Option(
        f"{_ENDPOINT}.allow.http",
        TEXT,
        "true allows an http URL, for tests: id and secret then go in clear.",
        implied="false",
    ),
    Option(
        "https.ca.location",
        TEXT,
        "A PEM file of the authorities that token endpoints are trusted by. Default: those of the operating system.",
        text_options=("https.ca.pem",),
    ),
    Option("https.ca.pem", TEXT, "The same as PEM text."),
    Option(
        "sasl.oauthbearer.token.function",
        TEXT,
        "A function of yours that gives tokens, as module:function, shipped with --py-files. It returns the token, or"
        " the token and the seconds for which it is valid.",
    ),
    Option(
        "sasl.oauthbearer.client.credentials.client.id",
        TEXT,
        "The client's id at the token endpoint.",
        aliases=("sasl.oauthbearer.client.id",),
    ),
    Option(
        "sasl.oauthbearer.client.credentials.client.secret",
        SECRET,
        "The client's secret at the token endpoint.",
        aliases=("sasl.oauthbearer.client.secret",),
    ),
    Option("sasl.oauthbearer.scope", TEXT, "The scope to ask the token endpoint for."),
    Option(
        "sasl.oauthbearer.extensions",
        TEXT,
        "Extensions that go to the broker with the token, as key=value,key=value: at Confluent Cloud logicalCluster and"
        " identityPoolId.",
    ),
    Option(
        "sasl.oauthbearer.header.urlencode",
        TEXT,
        "true encodes id and secret as RFC 6749 wants it.",
        implied="false",
    ),
    Option(
        "sasl.oauthbearer.jwt.retriever.class",
        TEXT,
        "Kafka's JwtRetriever class that fetches the token, with or without its package.",
    ),
    Option(
        "sasl.oauthbearer.grant.type",
        TEXT,
        "client_credentials, or urn:ietf:params:oauth:grant-type:jwt-bearer for an assertion in place of the client's"
        " secret.",
        implied="client_credentials",
    ),
    Option("sasl.oauthbearer.method", TEXT, "Only `oidc`, the default with a token endpoint."),
    Option(
        "sasl.oauthbearer.metadata.authentication.type",
        TEXT,
        "azure_imds or aws_iam: the machine's own identity gives the token. The same as `auth`.",
    ),
    Option(
        "sasl.login.callback.handler.class",
        TEXT,
        "Kafka's, Amazon's, Google's or Strimzi's handler for tokens, by its class: what it does is done here.",
    ),
    Option(
        CLIENT_HANDLER,
        TEXT,
        "Amazon's handler for IAM, by its class: it goes with AWS_MSK_IAM or OAUTHBEARER, and means a token of Amazon's"
        " signer. Another class is an error.",
    ),
    Option(f"{_ASSERTION}.file", TEXT, "A file with a signed assertion (a JWT), which is read again at each use."),
    Option(f"{_ASSERTION}.algorithm", TEXT, "How an assertion is signed: RS256 or ES256.", implied="RS256"),
    Option(
        f"{_ASSERTION}.private.key.file",
        TEXT,
        "A PEM file with the private key that signs assertions.",
        text_options=(f"{_ASSERTION}.private.key.pem",),
    ),
    Option(f"{_ASSERTION}.private.key.pem", SECRET, "The private key that signs assertions, as PEM text."),
    Option(f"{_ASSERTION}.private.key.passphrase", SECRET, "The password of that key."),
    Option(
        f"{_ASSERTION}.template.file",
        TEXT,
        "A JSON file with header and payload of the assertion; options and clock add what it lacks.",
    ),
    Option(f"{_ASSERTION}.claim.aud", TEXT, "The assertion's audience: mostly the token endpoint."),
    Option(f"{_ASSERTION}.claim.iss", TEXT, "The assertion's issuer: mostly the client's id."),
    Option(f"{_ASSERTION}.claim.sub", TEXT, "The assertion's subject: mostly the client's id."),
    Option(f"{_ASSERTION}.claim.exp.seconds", TEXT, "How long an assertion is valid.", implied="300"),
    Option(f"{_ASSERTION}.claim.nbf.seconds", TEXT, "How long before now its validity begins.", implied="60"),
    Option(f"{_ASSERTION}.claim.jti.include", TEXT, "true gives each assertion an id of its own.", implied="false"),
    Option(
        "sasl.kerberos.service.name",
        TEXT,
        "The first part of the brokers' Kerberos principal.",
        implied="kafka",
        differs="none: everybody sets kafka",
    ),
    Option("sasl.kerberos.principal", TEXT, "The client's Kerberos principal: user@REALM."),
    Option("sasl.kerberos.keytab", TEXT, "The keytab with the client's key. Without one the ticket cache counts."),
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
