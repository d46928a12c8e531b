"""Options become what an authentication needs: by Java's names, librdkafka's, JAAS or one word for a vendor."""

import pickle
import time

import pytest
from token_server import an_endpoint, granted, jwt

from kafkasource.errors import OptionError
from kafkasource.kafka.security.config import SecurityConfig
from kafkasource.kafka.security.endpoint import HttpClient
from kafkasource.kafka.security.login import Login, login_of
from kafkasource.kafka.security.option import SECRET
from kafkasource.kafka.security.sasl import options as sasl_options
from kafkasource.kafka.security.sasl.config import SaslOptions
from kafkasource.kafka.security.sasl.credentials import SaslConfig
from kafkasource.kafka.security.sasl.gssapi import KerberosConfig
from kafkasource.kafka.security.sasl.oauthbearer import OauthBearer
from kafkasource.kafka.security.sasl.options import ROWS, canonical, vendor_defaults
from kafkasource.kafka.security.sasl.plain import Plain
from kafkasource.kafka.security.sasl.scram import Scram
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tokens.cache import Refresh
from kafkasource.kafka.security.tokens.file import TokenFile
from kafkasource.kafka.security.tokens.function import FunctionToken
from kafkasource.kafka.security.tokens.grants import ClientCredentials
from kafkasource.kafka.security.tokens.token import claims_of
from kafkasource.options import parse

MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required username="alice" password="geheim";'
SCRAM = f'{MODULES}.scram.ScramLoginModule required username="id" password="geheim" tokenauth="true";'
OAUTH = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
URL = "sasl.oauthbearer.token.endpoint.url"


def config(**options):
    return SaslOptions.of({name.replace("_", "."): text for name, text in options.items()}).resolve("h")


def of(options):
    return SaslOptions.of(options, "h").resolve("h")


def test_a_password_comes_by_any_of_three_names():
    java = of({"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN})
    ours = of({"sasl.mechanism": "plain ", "sasl.username": "alice", "sasl.password": "geheim"})
    librdkafka = of({"sasl.mechanisms": "PLAIN", "sasl.username": "alice", "sasl.password": "geheim"})
    assert java == ours == librdkafka == SaslConfig("PLAIN", "alice", Secret("geheim"))


def test_a_delegation_token_is_told_by_jaas():
    parsed = of({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM})
    assert (parsed.username, parsed.delegation_token) == ("id", True)


def test_client_credentials_come_by_options_or_jaas():
    named = {"sasl.mechanism": "OAUTHBEARER", URL: "https://idp/token", "sasl.oauthbearer.scope": "s"}
    java = {"sasl.oauthbearer.client.credentials.client.id": "i"}
    java |= {"sasl.oauthbearer.client.credentials.client.secret": "geheim"}
    librdkafka = {"sasl.oauthbearer.client.id": "i", "sasl.oauthbearer.client.secret": "geheim"}
    old = {"sasl.jaas.config": f'{OAUTH} clientId="i" clientSecret="geheim" scope="other" extension_a="b";'}
    expected = ClientCredentials("https://idp/token", "i", Secret("geheim"), "s")
    for given in (java, librdkafka, old):
        assert of(named | given).token_source == expected
    assert of(named | old).extensions == (("a", "b"),)
    both = of(named | java | {"sasl.oauthbearer.extensions": "logicalCluster=lkc, identityPoolId=p=1"})
    assert both.extensions == (("logicalCluster", "lkc"), ("identityPoolId", "p=1"))


def test_strimzis_jaas_is_read_and_its_handler_known():
    jaas = f'{OAUTH} oauth.client.id="i" oauth.client.secret="geheim" oauth.token.endpoint.uri="https://idp/t";'
    handler = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
    given = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas, "sasl.login.callback.handler.class": handler}
    assert of(given).token_source == ClientCredentials("https://idp/t", "i", Secret("geheim"))


STRIMZIS_CLIENT = 'oauth.client.id="i" oauth.client.secret="geheim" oauth.token.endpoint.uri="https://idp/t"'


def strimzis(options, **more):
    """The source that Strimzi's JAAS options mean."""
    return of({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{OAUTH} {options};", **more})


def test_strimzis_scope_audience_and_extensions_are_sent():
    """JaasClientOauthLoginCallbackHandler sends them as form fields `scope` and `audience` (strimzi-kafka-oauth)."""
    with an_endpoint(granted("abc")) as endpoint:
        client = STRIMZIS_CLIENT.replace("https://idp/t", endpoint.url)
        options = f'{client} oauth.scope="kafka.read" oauth.audience="kafka-broker" oauth.sasl.extension.tenant="t"'
        parsed = strimzis(options, **{f"{URL.removesuffix('url')}allow.http": "true"})
        parsed.token_source.fetch(HttpClient(parsed.http), time.time())
        form = {"grant_type": "client_credentials", "scope": "kafka.read", "audience": "kafka-broker"}
        assert endpoint.requests[0].form == form
    assert parsed.extensions == (("tenant", "t"),)


def test_strimzis_access_token_is_sent_as_it_is_and_goes_before_its_endpoint(tmp_path):
    text = jwt(sub="alice", exp=4600)
    for endpoint in ("", STRIMZIS_CLIENT):
        source = strimzis(f'oauth.access.token="{text}" {endpoint}').token_source
        token = source.fetch(None, 1000.0)
        assert (token.value, token.expires_at_s, token.subject) == (Secret(text), 4600.0, "alice")
        assert text not in repr(source)
    (tmp_path / "token").write_text(f"{text}\n")
    source = strimzis(f'oauth.access.token.location="{tmp_path}/token"').token_source
    assert source.fetch(None, 1000.0).value == Secret(text)
    with pytest.raises(OptionError, match="give one"):
        strimzis('oauth.access.token="abc"', **{URL: "https://idp/t"})


@pytest.mark.parametrize(
    "options",
    [
        'oauth.password.grant.username="alice" oauth.password.grant.password="pw"',
        'oauth.refresh.token="geheim"',
        'oauth.refresh.token.location="/t"',
        'oauth.client.assertion="geheim"',
        'oauth.client.assertion.location="/t"',
        'oauth.something.new="geheim"',
    ],
)
def test_an_option_of_strimzis_that_may_ask_for_another_identity_is_refused_by_name(options):
    with pytest.raises(OptionError) as raised:
        strimzis(f"{STRIMZIS_CLIENT} {options}")
    assert options.partition("=")[0] in str(raised.value)
    assert "kafka.sasl.oauthbearer.token.function" in str(raised.value)
    assert "geheim" not in str(raised.value)


def test_what_tunes_strimzis_java_client_alone_is_passed_over():
    tuned = 'oauth.connect.timeout.seconds="15" oauth.http.retries="2" oauth.access.token.is.jwt="false"'
    assert strimzis(f"{STRIMZIS_CLIENT} {tuned}").token_source == strimzis(STRIMZIS_CLIENT).token_source


@pytest.mark.parametrize("name", ["ssl.truststore.location", "oauth.ssl.truststore.certificates"])
def test_jaas_authorities_of_a_token_endpoint_are_refused_by_name_unless_an_option_names_them(name):
    """Kafka's OAuthBearerLoginCallbackHandler reads `ssl.*` of the JAAS entry, Strimzi's `oauth.ssl.*`."""
    with pytest.raises(OptionError, match=rf"{name}.*kafka\.https\.ca\.location"):
        strimzis(f'{STRIMZIS_CLIENT} {name}="/ca"')
    parsed = strimzis(f'{STRIMZIS_CLIENT} {name}="/ca"', **{"https.ca.location": "/ca.pem"})
    assert parsed.http.ca_location == "/ca.pem"


@pytest.mark.parametrize("name", ["ssl.keystore.location", "oauth.ssl.endpoint.identification.algorithm"])
def test_other_tls_options_of_a_jaas_entry_are_refused_by_name(name):
    with pytest.raises(OptionError, match=name):
        strimzis(f'{STRIMZIS_CLIENT} {name}="x"', **{"https.ca.location": "/ca.pem"})


def test_a_token_comes_from_a_file_a_function_or_is_made_up():
    def source(**options):
        given = {name.replace("_", "."): text for name, text in options.items()}
        return of({"sasl.mechanism": "OAUTHBEARER", **given}).token_source

    assert source(**{URL: "file:///run/a%20token"}) == TokenFile("/run/a token")
    assert source(sasl_oauthbearer_token_function="my.tokens:get") == FunctionToken("my.tokens:get")
    claims = {"StringClaim_sub": "admin", "NumberClaim_n": "5", "ListClaim_l": "|a|b"}
    jaas = OAUTH + "".join(f' unsecuredLogin{name}="{text}"' for name, text in claims.items()) + ";"
    token = source(sasl_jaas_config=jaas).fetch(None, 1000.0)
    assert claims_of(token.value.reveal()) == {"iat": 1000.0, "exp": 4600.0, "sub": "admin", "n": 5.0, "l": ["a", "b"]}
    assert token.expires_at_s == 4600.0


def test_kerberos_comes_by_options_or_jaas():
    jaas = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="me@R";'
    given = {"sasl.jaas.config": jaas, "sasl.kerberos.service.name": "kfk"}
    assert of(given).own == KerberosConfig("kfk", "me@R", "/k")
    assert of({}).own == KerberosConfig("kafka")


def test_the_service_of_a_kerberos_entry_in_jaas_counts_unless_an_option_contradicts_it():
    """Kafka's KerberosLogin does the same. `kafka` is only our default and contradicts nothing."""
    jaas = "com.sun.security.auth.module.Krb5LoginModule required serviceName=bigkafka;"
    assert of({"sasl.jaas.config": jaas}).own == KerberosConfig("bigkafka")
    named = {"sasl.jaas.config": jaas, "sasl.kerberos.service.name": "bigkafka"}
    assert of(named).own == KerberosConfig("bigkafka")
    with pytest.raises(OptionError, match=r"kafka\.sasl\.kerberos\.service\.name"):
        of(named | {"sasl.kerberos.service.name": "kafka"})


def test_times_of_tokens_have_javas_names_and_bounds():
    given = {"sasl.mechanism": "OAUTHBEARER", URL: "file:/t"}
    assert of(given).refresh == Refresh(0.8, 0.05, 60, 300)
    given |= {"sasl.login.refresh.window.factor": "0.5", "sasl.login.refresh.buffer.seconds": "10"}
    assert of(given).refresh == Refresh(0.5, 0.05, 60, 10)
    given["sasl.login.read.timeout.ms"] = "7"
    assert of(given).http.read_timeout_ms == 7
    for name, text in (
        ("window.factor", "1.5"),
        ("window.jitter", "x"),
        ("buffer.seconds", "-1"),
        ("buffer.seconds", ""),
    ):
        with pytest.raises(OptionError, match=rf"kafka\.sasl\.login\.refresh\.{name}"):
            of(given | {f"sasl.login.refresh.{name}": text or "9999"})


REFUSED = {
    "no user": {"sasl.mechanism": "PLAIN"},
    "no password": {"sasl.mechanism": "PLAIN", "sasl.username": "alice"},
    "user and JAAS": {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.jaas.config": PLAIN},
    "another module": {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": PLAIN},
    "Java's default mechanism": {"sasl.jaas.config": PLAIN},
    "a token for PLAIN": {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN.replace(";", ' tokenauth="true";')},
    "an unknown mechanism": {"sasl.mechanism": "SCRAM-SHA-1"},
    "two names, two values": {"sasl.mechanism": "PLAIN", "sasl.mechanisms": "OAUTHBEARER"},
    "no token": {"sasl.mechanism": "OAUTHBEARER"},
    "two tokens": {"sasl.mechanism": "OAUTHBEARER", URL: "file:/x", "sasl.oauthbearer.token.function": "a:b"},
    "no client": {"sasl.mechanism": "OAUTHBEARER", URL: "https://idp/t"},
    "OAuth without a mechanism": {URL: "https://idp/t"},
    "no function": {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.function": "os.system"},
    "a bad extension": {"sasl.mechanism": "OAUTHBEARER", URL: "file:/x", "sasl.oauthbearer.extensions": "a_b=c"},
    "a Java class": {"sasl.login.class": "com.acme.Login"},
    "another Java class": {"sasl.client.callback.handler.class": "com.acme.Handler"},
    "a Java handler": {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "com.acme.Handler"},
    "what brokers check": {"sasl.oauthbearer.jwks.endpoint.url": "https://idp/keys"},
    "an option that does not exist": {"sasl.usrname": "alice"},
    "kinit": {"sasl.kerberos.kinit.cmd": "/usr/bin/kinit"},
    "an unknown vendor": {"auth": "acme"},
    "a keytab that is not named": {
        "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;"
    },
}


LEFT_OVER = {
    URL: ("PLAIN", "https://idp/t"),
    "sasl.kerberos.service.name": ("SCRAM-SHA-512", "kafka"),
    "sasl.client.callback.handler.class": ("PLAIN", "software.amazon.msk.auth.iam.IAMClientCallbackHandler"),
    "https.ca.location": ("PLAIN", "/ca.pem"),
    "sasl.login.refresh.window.factor": ("PLAIN", "0.5"),
    "sasl.username": ("OAUTHBEARER", "alice"),
}


@pytest.mark.parametrize("name", LEFT_OVER)
def test_an_option_left_over_for_another_mechanism_is_a_warning_as_java_ignores_it(name, caplog):
    mechanism, text = LEFT_OVER[name]
    login = {"PLAIN": PLAIN, "SCRAM-SHA-512": SCRAM, "OAUTHBEARER": None}[mechanism]
    own = {URL: "file:/x"} if login is None else {"sasl.jaas.config": login}
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, **own}
    written = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
    written |= {f"kafka.{key}": value for key, value in {**given, name: text}.items()}
    sasl = SecurityConfig.from_options(parse(written, "source")).sasl
    assert [record.getMessage() for record in caplog.records if f"'kafka.{name}' has no effect" in record.getMessage()]
    assert sasl.resolve("h") == SaslOptions.of(given, "h").resolve("h")


@pytest.mark.parametrize("name", ["ssl.protocol", "ssl.enabled.protocols"])
def test_what_jaas_says_of_tls_to_the_token_endpoint_is_passed_over_where_it_asks_for_no_less(name):
    """Event Hubs with a service principal, as Databricks' documentation has it: ssl.protocol="SSL"."""
    module = "kafkashaded.org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    login = f'{module} required clientId="me" clientSecret="x" scope="https://h/.default" {name}="SSL";'
    given = {"sasl.mechanism": "OAUTHBEARER", URL: "https://login/token", "sasl.jaas.config": login}
    plain = {**given, "sasl.jaas.config": login.replace(f'{name}="SSL"', "")}
    assert SaslOptions.of(given, "h").resolve("h") == SaslOptions.of(plain, "h").resolve("h")


@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED)
def test_contradictions_are_refused_with_the_options_name_and_no_secret(options):
    with pytest.raises(OptionError) as raised:
        SaslOptions.of(options, "h")
    assert "geheim" not in str(raised.value)
    assert "kafka." in str(raised.value) or "sasl.jaas.config" in str(raised.value) or "tokenauth" in str(raised.value)


@pytest.mark.parametrize(
    "url", ["https://[::1/geheim", "https://id:geheim@ho\u2100st/t", "https://h:99999/geheim", "file://[::1/geheim"]
)
def test_what_is_no_url_is_refused_where_options_are_checked_and_not_quoted(url):
    """Python's urlsplit raises ValueError for all but the third, for the second with user and password in its text."""
    client = {f"sasl.oauthbearer.client.{name}": "x" for name in ("id", "secret")}
    with pytest.raises(OptionError, match=r"kafka\.sasl\.oauthbearer\.token\.endpoint\.url") as raised:
        SaslOptions.of({"sasl.mechanism": "OAUTHBEARER", URL: url, **client}, "h")
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize("number", ["inf", "-Infinity", "nan", "1e999", "soon"])
@pytest.mark.parametrize("name", ["unsecuredLoginLifetimeSeconds", "unsecuredLoginNumberClaim_n"])
def test_a_number_of_an_unsecured_token_is_finite(name, number):
    """A token is JSON, which cannot hold infinity or NaN (RFC 8259, section 6)."""
    jaas = f'{OAUTH} unsecuredLoginStringClaim_sub="a" {name}="{number}";'
    with pytest.raises(OptionError, match=f"{name} is not a number"):
        SaslOptions.of({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas}, "h")


OAUTH_PACKAGE = f"{MODULES}.oauthbearer"
LOGIN_HANDLER, CLIENT_HANDLER, RETRIEVER = (
    "sasl.login.callback.handler.class",
    "sasl.client.callback.handler.class",
    "sasl.oauthbearer.jwt.retriever.class",
)


@pytest.mark.parametrize(
    ("option", "name"),
    [
        (LOGIN_HANDLER, f"{OAUTH_PACKAGE}.OAuthBearerLoginCallbackHandler"),  # kafka-clients 3.9.2 and 4.3.1
        (LOGIN_HANDLER, f"{OAUTH_PACKAGE}.secured.OAuthBearerLoginCallbackHandler"),  # 3.9.2
        (LOGIN_HANDLER, f"kafkashaded.{OAUTH_PACKAGE}.OAuthBearerLoginCallbackHandler"),  # Databricks
        (LOGIN_HANDLER, "OAuthBearerLoginCallbackHandler"),
        (LOGIN_HANDLER, "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"),
        (LOGIN_HANDLER, "shaded.com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"),
        (LOGIN_HANDLER, "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"),
        (CLIENT_HANDLER, "shadeddep.software.amazon.msk.auth.iam.IAMClientCallbackHandler"),
        (RETRIEVER, f"{OAUTH_PACKAGE}.ClientCredentialsJwtRetriever"),  # 4.3.1
        (RETRIEVER, f"kafkashaded.{OAUTH_PACKAGE}.DefaultJwtRetriever"),
        (RETRIEVER, "ClientCredentialsJwtRetriever"),
    ],
)
def test_a_class_of_kafkas_or_a_vendors_own_is_known_by_its_packages_also_where_it_is_shaded(option, name):
    client = {f"sasl.oauthbearer.client.{part}": "x" for part in ("id", "secret")}
    parsed = of({"sasl.mechanism": "OAUTHBEARER", URL: "https://idp/t", **client, option: name})
    assert parsed.token_source == ClientCredentials("https://idp/t", "x", Secret("x"))


@pytest.mark.parametrize(
    ("option", "name"),
    [
        (LOGIN_HANDLER, "com.corp.kafka.CorpOAuthBearerLoginCallbackHandler"),
        (LOGIN_HANDLER, "com.corp.OAuthBearerLoginCallbackHandler"),
        (LOGIN_HANDLER, f"com.corp.My{OAUTH_PACKAGE}.OAuthBearerLoginCallbackHandler"),
        (LOGIN_HANDLER, "CorpOAuthBearerLoginCallbackHandler"),
        (LOGIN_HANDLER, "myio.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"),
        (LOGIN_HANDLER, "xcom.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"),
        (CLIENT_HANDLER, "mysoftware.amazon.msk.auth.iam.IAMClientCallbackHandler"),
        (RETRIEVER, "com.corp.JwtBearerJwtRetriever"),
        (RETRIEVER, "com.corp.ClientCredentialsJwtRetriever"),
        (RETRIEVER, f"{OAUTH_PACKAGE}.internals.secured.HttpJwtRetriever"),
    ],
)
def test_a_class_of_somebody_elses_whose_name_ends_alike_is_refused(option, name):
    client = {f"sasl.oauthbearer.client.{part}": "x" for part in ("id", "secret")}
    with pytest.raises(OptionError, match=option):
        of({"sasl.mechanism": "OAUTHBEARER", URL: "https://idp/t", **client, option: name})


def test_one_word_sets_what_a_vendor_needs_and_each_part_can_be_given():
    assert vendor_defaults({}) == {}
    assert vendor_defaults({"auth": "aws"}) == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    assert vendor_defaults({"auth": "azure"})["connections.max.idle.ms"] == "180000"
    given = {
        "auth": "azure",
        "connections.max.idle.ms": "5",
        "sasl.password": "geheim",
        "security.protocol": "SASL_SSL",
    }
    assert vendor_defaults(given) == {"sasl.mechanism": "PLAIN", "sasl.username": "$ConnectionString"}
    assert of(given) == SaslConfig("PLAIN", "$ConnectionString", Secret("geheim"))
    confluent = {"auth": "Confluent", "sasl.username": "key", "sasl.password": "geheim"}
    assert of(confluent) == SaslConfig("PLAIN", "key", Secret("geheim"))
    assert vendor_defaults({"auth": "aws", "sasl.mechanisms": "PLAIN"}) == {"security.protocol": "SASL_SSL"}


def test_what_a_plan_holds_shows_no_secret_and_resolves_nothing(monkeypatch):
    monkeypatch.delenv("KAFKA_PW", raising=False)
    given = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "${env:KAFKA_PW}", "group.id": "g"}
    options = SaslOptions.of(given)
    pickled = pickle.dumps(options)
    with pytest.raises(OptionError, match="KAFKA_PW"):
        options.resolve("h")
    monkeypatch.setenv("KAFKA_PW", "geheim")
    assert options.resolve("h").password == Secret("geheim")
    assert b"geheim" not in pickled
    assert pickle.loads(pickled) == options
    assert hash(pickle.loads(pickled)) == hash(options)
    as_text = SaslOptions.of({"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN})
    for holder in (as_text, as_text.resolve("h"), pickle.loads(pickle.dumps(as_text)), [as_text], vars(as_text)):
        assert "geheim" not in f"{holder!r} {holder}"
    assert "sasl.mechanism=PLAIN" in repr(as_text)


def test_the_whole_of_jaas_may_be_a_reference(tmp_path):
    (tmp_path / "jaas").write_text(PLAIN)
    options = SaslOptions.of({"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"${{dir:{tmp_path}:jaas}}"})
    assert options.resolve("h") == SaslConfig("PLAIN", "alice", Secret("geheim"))


def test_each_row_says_what_it_is_and_every_secret_is_marked():
    names = [row.name for row in ROWS] + [alias for row in ROWS for alias in row.aliases]
    assert len(names) == len(set(names))
    for row in ROWS:
        assert row.doc.endswith("."), row.name
        looks_secret = any(word in row.name for word in ("password", "client.secret", "jaas", "passphrase", "key.pem"))
        assert (row.type is SECRET) == looks_secret, row.name
    assert not set(sasl_options.REFUSED) & set(names)
    assert canonical({"SASL.Mechanisms": " x ", "other": "y"}) == {"sasl.mechanism": "x"}


# Logins.


def test_a_login_gives_a_machine_for_each_connection():
    plain = Login(SaslOptions.of({"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}), "h").mechanism("b1")
    assert isinstance(plain, Plain)
    assert plain.first() == b"\0alice\0geheim"
    scram = SaslOptions.of({"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM})
    first, second = (Login(scram, "h").mechanism("b1") for _ in range(2))
    assert isinstance(first, Scram)
    assert first.first() != second.first()
    assert b"tokenauth=true" in first.first()


def test_a_changed_password_counts_from_the_next_connection_on(tmp_path):
    secret = tmp_path / "password"
    secret.write_text("old")
    given = {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": f"${{dir:{tmp_path}:password}}"}
    login = Login(SaslOptions.of(given), "h")
    assert login.mechanism("b").first() == b"\0a\0old"
    secret.write_text("new\n")  # as editors end a file
    assert login.mechanism("b").first() == b"\0a\0new"


def test_blanks_around_a_password_are_those_that_java_cuts():
    given = {"sasl.mechanism": "PLAIN", "sasl.username": " a", "sasl.password": "\x00p\u00a0 "}
    assert of(given) == SaslConfig("PLAIN", "a", Secret("p\u00a0"))


def test_connections_of_a_process_share_a_token():
    with an_endpoint(granted(jwt(exp=time.time() + 3600)), granted("another")) as endpoint:
        given = {
            "sasl.mechanism": "OAUTHBEARER",
            URL: endpoint.url,
            f"{URL.removesuffix('url')}allow.http": "true",
            "sasl.oauthbearer.client.id": "i",
            "sasl.oauthbearer.client.secret": "geheim",
        }
        first, second = (login_of(SaslOptions.of(given), "h").mechanism("b") for _ in range(2))
        assert isinstance(first, OauthBearer)
        assert first.blocks
        assert first.first() == second.first()
        assert not second.blocks
        assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("given", "user"),
    [
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}, "alice"),
        ({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM}, None),  # brokers know the token's owner
        ({"sasl.kerberos.principal": "alice/host@REALM"}, "alice"),
        ({}, None),  # the owner of the ticket cache
    ],
)
def test_a_login_names_its_user_where_the_client_knows_it(given, user):
    assert Login(SaslOptions.of(given), "h").user() == user


def test_a_process_keeps_a_bounded_number_of_logins():
    def login(user):
        return login_of(SaslOptions.of({"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": "p"}), "h")

    first = login("0")
    assert login("0") is first
    for user in range(1, 100):
        login(str(user))
    assert login("99") is login("99")
    assert login("0") is not first
