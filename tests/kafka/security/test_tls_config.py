"""The options of TLS: which combinations mean what, and which are refused."""

from __future__ import annotations

import pickle
import shutil
import subprocess

import pytest

from kafkasource.errors import OptionError
from kafkasource.kafka.security.option import SECRET
from kafkasource.kafka.security.secrets import Secret
from kafkasource.kafka.security.tls.ciphers import openssl_name
from kafkasource.kafka.security.tls.config import TlsConfig
from kafkasource.kafka.security.tls.options import ALIASES, BY_NAME, REFUSED, ROWS

TRUST, KEYS, TEXT = "ssl.truststore", "ssl.keystore", "-----BEGIN"


def test_without_options_the_client_checks_names_and_offers_both_versions():
    config = TlsConfig.of({"bootstrap.servers": "a:1", "sasl.mechanism": "PLAIN"})
    assert config == TlsConfig()
    assert config.check_hostname
    assert config.versions == ("TLSv1.2", "TLSv1.3")


def test_blanks_around_a_password_do_not_count_as_in_java():
    named = {f"{KEYS}.location": " /k ", f"{KEYS}.password": "changeit ", "ssl.key.password": "\tke y\n"}
    config = TlsConfig.of(named)
    assert (config.keystore_location, config.keystore_password) == ("/k", Secret("changeit"))
    assert config.key_password == Secret("ke y")


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_of_librdkafka_s_means_java_s_option(alias):
    more = {"ssl.key.pem": {"ssl.certificate.pem": TEXT}, "ssl.certificate.pem": {"ssl.key.pem": TEXT}}.get(alias, {})
    given = "/ca.pem" if alias.endswith(".location") else TEXT
    assert TlsConfig.of({alias: given, **more}) == TlsConfig.of({ALIASES[alias]: given, **more})
    with pytest.raises(OptionError, match="two values") as caught:
        TlsConfig.of({alias: given, ALIASES[alias]: "other", **more})
    assert alias in str(caught.value)
    assert ALIASES[alias] in str(caught.value)
    assert "other" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        # Java's DefaultSslEngineFactory refuses them, too.
        ({f"{TRUST}.certificates": TEXT, f"{TRUST}.location": "x"}, [f"{TRUST}.certificates", f"{TRUST}.location"]),
        ({f"{TRUST}.certificates": TEXT, f"{TRUST}.password": "x"}, [f"{TRUST}.certificates", f"{TRUST}.password"]),
        ({f"{TRUST}.certificates": TEXT, f"{TRUST}.type": "JKS"}, [f"{TRUST}.certificates", f"{TRUST}.type"]),
        ({f"{TRUST}.location": "x", f"{TRUST}.type": "PEM", f"{TRUST}.password": "x"}, [f"{TRUST}.password"]),
        ({f"{TRUST}.password": "x"}, [f"{TRUST}.password", f"{TRUST}.location"]),
        ({f"{KEYS}.password": "x"}, [f"{KEYS}.password", f"{KEYS}.location"]),
        ({f"{KEYS}.key": TEXT}, [f"{KEYS}.key", f"{KEYS}.certificate.chain"]),
        ({f"{KEYS}.certificate.chain": TEXT}, [f"{KEYS}.certificate.chain", f"{KEYS}.key"]),
        ({f"{KEYS}.key": TEXT, f"{KEYS}.certificate.chain": TEXT, f"{KEYS}.location": "x"}, [f"{KEYS}.location"]),
        ({f"{KEYS}.key": TEXT, f"{KEYS}.certificate.chain": TEXT, f"{KEYS}.type": "JKS"}, [f"{KEYS}.type"]),
        # Of librdkafka's.
        ({"ssl.key.password": "x"}, ["ssl.key.password", f"{KEYS}.location"]),
        ({"ssl.key.location": "x"}, ["ssl.key.location", "ssl.certificate.location"]),
        ({"ssl.certificate.location": "x"}, ["ssl.certificate.location", "ssl.key.location"]),
        ({"ssl.key.location": "x", "ssl.certificate.location": "x", f"{KEYS}.location": "x"}, [f"{KEYS}.location"]),
        ({"enable.ssl.certificate.verification": "false"}, ["enable.ssl.certificate.verification", "ssl.ca.pem"]),
        # Values.
        ({f"{TRUST}.type": "BKS"}, [f"{TRUST}.type", "PKCS12"]),
        ({"ssl.endpoint.identification.algorithm": "ldap"}, ["ssl.endpoint.identification.algorithm"]),
        ({"ssl.protocol": "SSL"}, ["ssl.protocol", "TLSv1.3"]),
        ({"ssl.enabled.protocols": "TLSv1.4"}, ["ssl.enabled.protocols"]),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1"}, ["ssl.enabled.protocols"]),
        ({"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"}, ["ssl.enabled.protocols", "ssl.protocol"]),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_RC4_128_MD5"}, ["ssl.cipher.suites", "RC4"]),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384", "ssl.enabled.protocols": "TLSv1.2"}, ["ssl.cipher.suites"]),
        ({"ssl.cipher.suites": ","}, ["ssl.cipher.suites"]),
        ({"ssl.unknown": "x"}, ["ssl.unknown"]),
    ],
)  # fmt: skip
def test_options_that_contradict_each_other_are_refused_by_name(options, named):
    with pytest.raises(OptionError) as caught:
        TlsConfig.of(options)
    for name in named:
        assert name in str(caught.value)


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_only_be_ignored_is_refused_with_a_reason(name):
    with pytest.raises(OptionError, match=name):
        TlsConfig.of({name: "x"})


def test_no_value_of_a_secret_option_is_in_an_error_or_a_repr():
    secret = "marker-of-a-secret"
    for row in ROWS:
        if row.type is SECRET:
            for other in ROWS:
                options = {other.name: "x", row.name: secret}
                try:
                    shown = repr(TlsConfig.of(options))
                except OptionError as error:
                    shown = str(error)
                assert secret not in shown


def test_a_configuration_is_a_key_that_pickles():
    options = {f"{KEYS}.location": "client.p12", f"{KEYS}.password": "one", "ssl.cipher.suites": "AES128-GCM-SHA256"}
    config = TlsConfig.of(options)
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(TlsConfig.of(options))
    assert config != TlsConfig.of(options | {f"{KEYS}.password": "other"})


@pytest.mark.parametrize(
    ("text", "checks"), [("https", True), ("HTTPS", True), ("none", False), ("", False), (" ", False)]
)
def test_the_name_is_checked_unless_the_algorithm_is_empty_or_none(text, checks):
    assert TlsConfig.of({"ssl.endpoint.identification.algorithm": text}).check_hostname == checks


@pytest.mark.parametrize(
    ("options", "versions"),
    [
        ({"ssl.protocol": "TLSv1.2"}, ("TLSv1.2",)),
        ({"ssl.protocol": "TLS"}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.enabled.protocols": "TLSv1.3"}, ("TLSv1.3",)),
        ({"ssl.enabled.protocols": "TLSv1.2, TLSv1.1, TLSv1"}, ("TLSv1.2",)),
        ({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, ("TLSv1.2",)),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, ("TLSv1.3",)),
        ({"ssl.cipher.suites": "ECDHE-RSA-AES128-GCM-SHA256:TLS_AES_128_GCM_SHA256"}, ("TLSv1.2", "TLSv1.3")),
    ],
)
def test_protocol_versions_and_suites_together_say_what_is_offered(options, versions):
    assert TlsConfig.of(options).versions == versions


def test_older_versions_in_the_list_are_left_out_with_a_warning(caplog):
    TlsConfig.of({"ssl.enabled.protocols": "TLSv1.2,TLSv1.1"})
    assert "TLSv1.1" in caplog.text


def test_probe_means_the_system_s_roots():
    assert TlsConfig.of({"ssl.ca.location": "probe"}) == TlsConfig()


CERTIFICATES = [
    "ssl.truststore.location",
    "ssl.ca.location",
    "ssl.truststore.certificates",
    "ssl.ca.pem",
    "ssl.keystore.location",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.location",
    "ssl.certificate.location",
    "ssl.crl.location",
]


@pytest.mark.parametrize("name", CERTIFICATES)
@pytest.mark.parametrize("empty", ["", " "])
def test_certificates_that_are_given_but_empty_are_not_replaced_by_the_systems(name, empty):
    """An environment variable that is not set gives an empty value. Java refuses it, too."""
    with pytest.raises(OptionError, match=f"kafka.{name}.* is empty"):
        TlsConfig.of({name: empty})


def test_another_option_that_is_empty_is_not_given():
    others = [name for name in BY_NAME if name not in (*CERTIFICATES, "ssl.endpoint.identification.algorithm")]
    assert TlsConfig.of(dict.fromkeys(others, "")) == TlsConfig()


def test_names_of_iana_are_openssl_s_as_openssl_lists_them():
    tool = shutil.which("openssl")
    if tool is None:
        pytest.skip("needs the program openssl")
    run = subprocess.run([tool, "ciphers", "-stdname", "ALL"], capture_output=True, text=True, timeout=60, check=True)
    rows = [line.split()[:3:2] for line in run.stdout.splitlines()]
    ours = {iana: name for iana, name in rows if openssl_name(iana) is not None}
    assert {iana: openssl_name(iana) for iana in ours} == ours
    needed = ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256")
    assert set(needed) <= set(ours)
    assert len(ours) >= 20
