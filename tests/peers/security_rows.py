"""Sets of security options with which both connectors read one topic of the secured broker, and the expected outcome.

Options are Java's, without `kafka.`. `{name}` in a value stands for what `security_material.py` makes under this name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkasource.testing.broker.security import jaas

PLAIN, SCRAM_256, SCRAM_512, OAUTH = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
PASSWORD = {"alice": "alice-secret", "bob": 'b"o\\b, =]ü'}  # as secured_brokers.py has them

# Short timeouts, for rows in which one connector tries again until its time is over.
SOON = {"default_api_timeout_ms": "3000", "request_timeout_ms": "2000"}


@dataclass(frozen=True)
class Row:
    """`refused`: a phrase of our error, where neither connector may read; empty: both read all rows.

    `answers`: how the token endpoint answers, one after the other, the last for ever: `token`, a status, or `nothing`.
    """

    id: str
    options: Mapping[str, str] = field(hash=False)
    refused: str = ""
    answers: tuple[str, ...] = ()
    core: bool = False  # in `make test`, too


def tls(listener: str = "SSL", **more: str) -> dict[str, str]:
    """Options of TLS without a truststore. Names in `more` have _ for each dot."""
    return {"bootstrap.servers": f"{{{listener}}}", "security.protocol": "SSL"} | dotted(more)


def trusting(listener: str = "SSL", **more: str) -> dict[str, str]:
    """Options of TLS with the truststore that the test broker's own client.properties name."""
    return tls(listener, ssl_truststore_type="PEM", ssl_truststore_location="{ca}") | dotted(more)


def sasl(mechanism: str, login: str, listener: str = "SASL_PLAINTEXT", **more: str) -> dict[str, str]:
    given = trusting(listener) if listener != "SASL_PLAINTEXT" else tls(listener)
    given["security.protocol"] = "SASL_PLAINTEXT" if listener == "SASL_PLAINTEXT" else "SASL_SSL"
    return given | {"sasl.mechanism": mechanism, "sasl.jaas.config": login} | dotted(more)


def password(mechanism: str, user: str = "alice", text: str = "", **more: str) -> dict[str, str]:
    login = jaas.entry(mechanism, {"username": user, "password": text or PASSWORD[user]})
    return sasl(mechanism, login, **more)


HANDLER = {
    "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
}


def signed(url: str, login: Mapping[str, str] | None = None, **more: str) -> dict[str, str]:
    """A listener whose tokens must be signed. http is allowed to our client by an option that Java's does not know."""
    named = {"sasl.oauthbearer.token.endpoint.url": url, "sasl.oauthbearer.token.endpoint.allow.http": "true"}
    return sasl(OAUTH, jaas.entry(OAUTH, login or {}), "JWKS") | HANDLER | named | dotted(more)


def endpoint(**more: str) -> dict[str, str]:
    return signed("{endpoint}", {"clientId": "me", "clientSecret": "geh eim+ü", "scope": "a b"}, **more)


def dotted(options: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): text for name, text in options.items()}


P12 = {"ssl_truststore_type": "PKCS12", "ssl_truststore_location": "{truststore p12}"}
JKS = {"ssl_truststore_type": "JKS", "ssl_truststore_location": "{truststore jks}"}
KEY_P12 = {"ssl_keystore_type": "PKCS12", "ssl_keystore_location": "{keystore p12}"}
KEY_JKS = {"ssl_keystore_type": "JKS", "ssl_keystore_location": "{keystore jks}"}
KEY_PEM = {"ssl_keystore_type": "PEM", "ssl_keystore_location": "{client pem}"}
LOCKED_PEM = {"ssl_keystore_type": "PEM", "ssl_keystore_location": "{locked pem}"}
CHAIN = {"ssl_keystore_type": "PEM", "ssl_keystore_certificate_chain": "{chain text}"}
TLS12_SUITE, TLS13_SUITE = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"
RENEWING = {
    "sasl_login_refresh_window_factor": "0.5",
    "sasl_login_refresh_window_jitter": "0.1",
    "sasl_login_refresh_min_period_seconds": "1",
    "sasl_login_refresh_buffer_seconds": "2",
}
LIMITS = {
    "sasl_login_connect_timeout_ms": "5000",
    "sasl_login_read_timeout_ms": "5000",
    "sasl_login_retry_backoff_ms": "10",
    "sasl_login_retry_backoff_max_ms": "5000",
}
NO_PATIENCE = {**LIMITS, "sasl_login_read_timeout_ms": "300", "sasl_login_retry_backoff_max_ms": "300"}

ROWS = (
    Row("no security", {"bootstrap.servers": "{PLAINTEXT}", "security.protocol": "PLAINTEXT"}),
    # Whom the client trusts.
    Row("truststore PEM", trusting()),
    Row("truststore PKCS12", tls(**P12, ssl_truststore_password="{store password}")),
    Row("truststore JKS", tls(**JKS, ssl_truststore_password="{store password}"), core=True),
    Row("truststore text", tls(ssl_truststore_type="PEM", ssl_truststore_certificates="{ca text}")),
    Row("truststore of another authority", trusting(ssl_truststore_location="{other ca}"), "is not trusted", core=True),
    Row("truststore text of another authority",
        tls(ssl_truststore_type="PEM", ssl_truststore_certificates="{other ca text}"), "is not trusted"),
    Row("no truststore", tls(), "is not trusted"),
    Row("truststore PKCS12, wrong password", tls(**P12, ssl_truststore_password="wrong"), "ssl.truststore.password"),
    Row("truststore JKS, wrong password", tls(**JKS, ssl_truststore_password="wrong"), "ssl.truststore.password"),
    Row("truststore PEM with a password", trusting(ssl_truststore_password="a"), "a PEM file has no password"),
    Row("truststore PEM named JKS", trusting(ssl_truststore_type="JKS"), "ssl.truststore.type"),
    Row("truststore as file and as text", trusting(ssl_truststore_certificates="{ca text}"), "cannot be combined"),
    Row("truststore that is not there", trusting(ssl_truststore_location="{ca}.gone"), "ssl.truststore.location"),
    # The principal of the client.
    Row("keystore PEM", trusting("MTLS", **KEY_PEM)),
    Row("keystore PEM, encrypted key", trusting("MTLS", **LOCKED_PEM, ssl_key_password="{key password}")),
    Row("keystore PKCS12", trusting("MTLS", **KEY_P12, ssl_keystore_password="{store password}")),
    Row("keystore JKS, key with a password of its own",
        trusting("MTLS", **KEY_JKS, ssl_keystore_password="{store password}", ssl_key_password="{key password}"),
        core=True),
    Row("keystore as text", trusting("MTLS", **CHAIN, ssl_keystore_key="{key text}")),
    Row("keystore as text, encrypted key",
        trusting("MTLS", **CHAIN, ssl_keystore_key="{locked key text}", ssl_key_password="{key password}")),
    Row("no keystore where the broker wants one", trusting("MTLS"), "requires a client certificate"),
    Row("keystore of another authority",
        trusting("MTLS", ssl_keystore_type="PEM", ssl_keystore_location="{stranger pem}"),
        "refuses the client's certificate"),
    Row("keystore PKCS12, wrong password", trusting("MTLS", **KEY_P12, ssl_keystore_password="wrong"),
        "ssl.keystore.password"),
    Row("keystore JKS, wrong password of the key",
        trusting("MTLS", **KEY_JKS, ssl_keystore_password="{store password}", ssl_key_password="wrong"),
        "ssl.key.password"),
    Row("keystore PEM, wrong password of the key", trusting("MTLS", **LOCKED_PEM, ssl_key_password="wrong"),
        "ssl.key.password"),
    Row("keystore PEM named PKCS12",
        trusting("MTLS", ssl_keystore_type="PKCS12", ssl_keystore_location="{client pem}"), "ssl.keystore.type"),
    Row("chain without its key", trusting("MTLS", **CHAIN), "ssl.keystore.key"),
    # Names, versions, suites.
    Row("another name than the certificate's", trusting("elsewhere"), "is not for '127.0.0.2'", core=True),
    Row("another name, which is to be checked", trusting("elsewhere", ssl_endpoint_identification_algorithm="https"),
        "is not for '127.0.0.2'"),
    Row("another name, which is not checked", trusting("elsewhere", ssl_endpoint_identification_algorithm="")),
    Row("TLS 1.2 alone", trusting(ssl_enabled_protocols="TLSv1.2")),
    Row("TLS 1.3 alone", trusting(ssl_enabled_protocols="TLSv1.3")),
    Row("ssl.protocol TLSv1.2", trusting(ssl_protocol="TLSv1.2", ssl_enabled_protocols="TLSv1.2")),
    Row("no version of TLS", trusting(ssl_enabled_protocols="TLSv9", **SOON), "ssl.enabled.protocols"),
    Row("a suite of TLS 1.2", trusting(ssl_enabled_protocols="TLSv1.2", ssl_cipher_suites=TLS12_SUITE)),
    Row("a suite of TLS 1.3", trusting(ssl_enabled_protocols="TLSv1.3", ssl_cipher_suites="TLS_AES_256_GCM_SHA384")),
    Row("a suite that the broker's key does not allow",
        trusting(ssl_enabled_protocols="TLSv1.2", ssl_cipher_suites="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        "ssl.cipher.suites"),
    Row("a suite that there is not", trusting(ssl_cipher_suites="TLS_NONE", **SOON), "ssl.cipher.suites"),
    # Users and passwords.
    Row("PLAIN", password(PLAIN)),
    Row("PLAIN over TLS", password(PLAIN, listener="SASL_SSL")),
    Row("SCRAM-SHA-256", password(SCRAM_256)),
    Row("SCRAM-SHA-512 over TLS", password(SCRAM_512, listener="SASL_SSL"), core=True),
    Row("PLAIN, a password of special characters", password(PLAIN, "bob")),
    Row("SCRAM-SHA-512, a password of special characters", password(SCRAM_512, "bob")),
    Row("PLAIN, wrong password", password(PLAIN, text="wrong"), "refuses the credentials"),
    Row("SCRAM-SHA-256, wrong password", password(SCRAM_256, text="wrong"), "refuses the credentials"),
    Row("SCRAM-SHA-512 over TLS, wrong password", password(SCRAM_512, text="wrong", listener="SASL_SSL"),
        "refuses the credentials", core=True),
    Row("SCRAM-SHA-512, unknown user", password(SCRAM_512, "mallory", "m"), "refuses the credentials"),
    Row("mechanism that is off", password(SCRAM_256, listener="REAUTH"), "does not offer the mechanism"),
    Row("mechanism that there is not", password(PLAIN, sasl_mechanism="PLAINER", **SOON),
        "sasl.mechanism"),
    Row("login module of another mechanism", password(PLAIN, sasl_mechanism=OAUTH, **SOON), "sasl.jaas.config"),
    Row("JAAS without its end", password(PLAIN, sasl_jaas_config="{JAAS module} required"), "sasl.jaas.config"),
    Row("sessions that end", password(SCRAM_512, listener="REAUTH")),
    # Tokens.
    Row("token without a signature", sasl(OAUTH, jaas.entry(OAUTH, {"unsecuredLoginStringClaim_sub": "alice"}))),
    Row("token without a signature, renewed early",
        sasl(OAUTH, jaas.entry(OAUTH, {"unsecuredLoginStringClaim_sub": "alice"}), "SASL_SSL", **RENEWING)),
    Row("token of a file", signed("{token file}")),
    Row("token of a file, which another has signed", signed("{foreign token file}"), "refuses the credentials"),
    Row("token of a file that is not there", signed("{token file}.gone", **SOON), "cannot be read"),
    Row("token of an endpoint", endpoint(**LIMITS), answers=("token",), core=True),
    Row("token of an endpoint that fails once", endpoint(**LIMITS), answers=("503", "token")),
    Row("token of an endpoint, credentials encoded", endpoint(sasl_oauthbearer_header_urlencode="true"),
        answers=("token",)),
    Row("endpoint that refuses", endpoint(**LIMITS), "401", answers=("401",)),
    Row("endpoint that never answers", endpoint(**NO_PATIENCE, **SOON), "gives no answer", answers=("nothing",)),
    Row("renewal out of its bounds", signed("{token file}", sasl_login_refresh_window_factor="2"),
        "sasl.login.refresh.window.factor"),
    # Protocols that the port does not speak, without one: no TLS to a port with it. Java takes the broker's alert for
    # the size of an answer (352 MB), and the driver runs out of memory.
    Row("protocol that there is not", trusting(security_protocol="TLS"), "security.protocol"),
    Row("TLS to a port without", trusting("PLAINTEXT", **SOON), "security.protocol"),
    Row("no SASL to a port with it", tls("SASL_PLAINTEXT", security_protocol="PLAINTEXT", **SOON),
        "security.protocol"),
    Row("SASL to a port without", password(PLAIN, bootstrap_servers="{PLAINTEXT}", **SOON),
        "this listener has no SASL"),
    Row("SASL over TLS to a port with TLS alone",
        password(PLAIN, listener="SASL_SSL", bootstrap_servers="{SSL}", **SOON),
        "this listener has no SASL"),
)  # fmt: skip

_KDC = "needs a KDC: test_security_matrix.py and tests/testing/broker/test_secured_broker.py have one"
_AMAZON = "names a class of Amazon's: tests/kafka/security/test_vendor_tokens.py reads its options"
_LATER = (
    "the JVM connector's Kafka client, 3.9, does not have it: tests/kafka/security compares with Kafka 4's own classes"
)
_OURS = "no option of Java's"

# Options of our table that no row has.
EXEMPT = {
    "sasl.kerberos.service.name": _KDC,
    "sasl.client.callback.handler.class": _AMAZON,
    **dict.fromkeys(
        (
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.scope",
            "sasl.oauthbearer.jwt.retriever.class",
            *(
                f"sasl.oauthbearer.assertion.{name}"
                for name in (
                    *("algorithm", "file", "template.file", "claim.aud", "claim.exp.seconds", "claim.iss"),
                    *("claim.jti.include", "claim.nbf.seconds", "claim.sub", "private.key.file"),
                    "private.key.passphrase",
                )
            ),
        ),
        _LATER,
    ),
    **dict.fromkeys(
        (
            "auth",
            "sasl.username",
            "sasl.password",
            "https.ca.location",
            "https.ca.pem",
            "sasl.oauthbearer.token.function",
            "sasl.oauthbearer.extensions",
            "sasl.oauthbearer.grant.type",
            "sasl.oauthbearer.method",
            "sasl.oauthbearer.metadata.authentication.type",
            "sasl.oauthbearer.assertion.private.key.pem",
            "sasl.kerberos.principal",
            "sasl.kerberos.keytab",
            "ssl.key.location",
            "ssl.certificate.location",
            "ssl.crl.location",
            "enable.ssl.certificate.verification",
            "config.providers.env.param.allowlist.pattern",
            "config.providers.file.param.allowed.paths",
            "config.providers.dir.param.allowed.paths",
        ),
        _OURS,
    ),
}
