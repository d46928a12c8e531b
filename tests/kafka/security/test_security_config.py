"""Options of a connection, as the process that connects reads them."""

import logging

import pytest
from certificate_maker import authority

from kafkasource.errors import OptionError
from kafkasource.kafka.security.config import SecurityConfig
from kafkasource.kafka.security.tokens.grants import JWT_BEARER

TLS, OAUTH, KERBEROS = (
    {"security.protocol": "SSL"},
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
)
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CLIENT = {f"sasl.oauthbearer.client.{name}": "x" for name in ("id", "secret")} | {ENDPOINT: "https://idp/t"}
ASSERTED = OAUTH | {ENDPOINT: "https://idp/t"}
ASSERTION = "sasl.oauthbearer.assertion"
JAVAS_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab"
STRIMZIS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required oauth.access.token.location"
PEM = "-----BEGIN PRIVATE KEY-----\nSECRETSECRETSECRET\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("option", "others", "text_option"),
    [
        ("ssl.truststore.location", TLS, "kafka.ssl.ca.pem"),
        ("ssl.ca.location", TLS, "kafka.ssl.truststore.certificates"),
        ("ssl.keystore.location", TLS, "kafka.ssl.key.pem"),
        ("ssl.key.location", TLS | {"ssl.certificate.location": "/c"}, "kafka.ssl.key.pem"),
        ("ssl.certificate.location", TLS | {"ssl.key.location": "/k"}, "kafka.ssl.certificate.pem"),
        ("ssl.crl.location", TLS, "give its path"),
        ("https.ca.location", OAUTH | CLIENT, "kafka.https.ca.pem"),
        (f"{ASSERTION}.private.key.file", ASSERTED, f"kafka.{ASSERTION}.private.key.pem"),
        (f"{ASSERTION}.file", ASSERTED, "give its path"),
        (f"{ASSERTION}.template.file", ASSERTED | {f"{ASSERTION}.private.key.pem": "x"}, "give its path"),
        ("sasl.kerberos.keytab", KERBEROS, "give its path"),
    ],
)
@pytest.mark.parametrize("text", [PEM, PEM.replace("\n", " "), "SECRETSECRETSECRET\n/x"], ids=["PEM", "line", "lines"])
def test_the_text_of_a_file_in_place_of_its_path_is_an_error_that_does_not_quote_it(
    monkeypatch, option, others, text_option, text
):
    """A path may be text or a reference, which the connecting process reads."""
    monkeypatch.setenv("CLIENT_KEY", text)
    for value in (text, "${env:CLIENT_KEY}"):
        with pytest.raises(OptionError) as raised:
            _configured({**others, option: value})
        assert f"kafka.{option}'" in str(raised.value)
        assert text_option in str(raised.value)
        assert "SECRET" not in str(raised.value)


def _configured(options):
    config = SecurityConfig.of(options, "h")
    config.tls_context()
    return config.login("h").credentials()


@pytest.mark.parametrize(
    ("options", "place"),
    [
        (OAUTH | {ENDPOINT: f"file:{PEM}"}, ENDPOINT),
        (OAUTH | {"sasl.jaas.config": f'{STRIMZIS}="{PEM.replace(chr(10), " ")}";'}, "oauth.access.token.location"),
        (KERBEROS | {"sasl.jaas.config": f'{JAVAS_KERBEROS}="{PEM.replace(chr(10), " ")}";'}, "keyTab"),
    ],
    ids=["URL", "Strimzi", "Kerberos"],
)
def test_a_path_within_a_url_or_jaas_is_not_quoted_either_where_it_is_the_text_of_a_file(options, place):
    with pytest.raises(OptionError, match=place) as raised:
        SecurityConfig.of(options, "h")
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    ["https://id:geheim@idp/t", "https://idp/t?code=geheim", "https://id:gehe/geheim@${env:HOST}/t", "geheim:x@idp"],
)
def test_user_and_query_of_a_token_endpoints_url_do_not_print(monkeypatch, url):
    monkeypatch.setenv("REST", "")
    shown = repr(SecurityConfig.of(OAUTH | CLIENT | {ENDPOINT: f"{url}${{env:REST}}"}, "h"))
    assert "geheim" not in shown
    assert "idp" in shown or "${env:HOST}" in shown


def test_the_query_of_a_token_endpoint_does_not_print_where_it_is_used():
    given = OAUTH | CLIENT | {ENDPOINT: "https://idp/t?code=geheim"}
    asserted = given | {f"{ASSERTION}.file": "/a"}
    for options in (given, asserted, asserted | {"sasl.oauthbearer.grant.type": JWT_BEARER}):
        assert "geheim" not in repr(_configured(options))


def test_connections_share_a_context_and_hear_a_warning_once(caplog):
    config = SecurityConfig.of({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1,TLSv1.2"})
    contexts = {id(config.tls_context()) for _ in range(3)}
    assert len(contexts) == 1
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert ["TLSv1.1" in text for text in warned] == [True]


def test_what_a_reference_stands_for_is_looked_up_for_each_connection(monkeypatch, tmp_path):
    config = SecurityConfig.of({"security.protocol": "SSL", "ssl.truststore.location": "${env:TRUSTSTORE}"})
    for name in ("a", "b"):
        (tmp_path / name).write_text(authority().pem)
        monkeypatch.setenv("TRUSTSTORE", str(tmp_path / name))
        assert str(tmp_path / name) in config.tls_context().setup().trusted
    monkeypatch.delenv("TRUSTSTORE")
    with pytest.raises(OptionError, match="TRUSTSTORE"):
        config.tls_context()
