"""The options of OAUTHBEARER. `oauth_config` reads their values."""

from __future__ import annotations

from kafkasource.kafka.security.option import SECRET, TEXT, Option
from kafkasource.kafka.security.sasl.java_class import CLIENT_HANDLER

_ENDPOINT = "sasl.oauthbearer.token.endpoint"
_ASSERTION = "sasl.oauthbearer.assertion"

OPTIONS = (
    Option("sasl.login.refresh.window.factor", TEXT, "A token is renewed after this part of its life.", implied="0.8"),
    Option(
        "sasl.login.refresh.window.jitter",
        TEXT,
        "At most this part of a token's life is added at random, so that processes do not renew at the same time.",
        implied="0.05",
    ),
    Option("sasl.login.refresh.min.period.seconds", TEXT, "Least time between two renewals of a token.", implied="60"),
    Option("sasl.login.refresh.buffer.seconds", TEXT, "A token is renewed this long before it expires.", implied="300"),
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
        "sasl.oauthbearer.header.urlencode", TEXT, "true encodes id and secret as RFC 6749 wants it.", implied="false"
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
)
