"""GSSAPI: the exchange of RFC 4752 with a library of the test's, and with a real KDC where the library is installed."""

import sys
from types import SimpleNamespace

import pytest
from kdc import Kdc

from kafkasource.errors import AuthenticationFailed, OptionError, SaslExchangeFailed
from kafkasource.kafka.security.login import Login
from kafkasource.kafka.security.sasl.config import SaslOptions
from kafkasource.kafka.security.sasl.gssapi import Gssapi, KerberosConfig


class Failure(Exception):
    """GSSError's place."""


class Context:
    """The client's side of a context: one round, and a wrapping that shows."""

    def __init__(self, **settings):
        self.settings = settings
        self.complete = False

    def step(self, token=None):
        if token is None:
            return b"ticket"
        if token != b"proof":
            raise Failure("wrong proof")
        self.complete = True
        return None

    def unwrap(self, data):
        if not data.startswith(b"wrapped "):
            raise Failure("no MIC")
        return SimpleNamespace(message=data.removeprefix(b"wrapped "))

    def wrap(self, data, encrypt):
        assert not encrypt
        return SimpleNamespace(message=b"wrapped " + data)


@pytest.fixture
def library(monkeypatch):
    fake = SimpleNamespace(
        Name=lambda text, kind: (text, kind),
        NameType=SimpleNamespace(hostbased_service="service", kerberos_principal="principal"),
        MechType=SimpleNamespace(kerberos="krb5"),
        RequirementFlag=SimpleNamespace(mutual_authentication=2, integrity=32, out_of_sequence_detection=8),
        SecurityContext=Context,
        Credentials=lambda **settings: settings,
        exceptions=SimpleNamespace(GSSError=Failure),
    )
    monkeypatch.setitem(sys.modules, "gssapi", fake)
    return fake


def begun(library, config=None):
    client = Gssapi(config or KerberosConfig("kafka"), "broker-1")
    assert client.first() == b"ticket"
    return client


def test_the_exchange_is_that_of_rfc_4752(library):
    client = begun(library)
    assert client.blocks
    assert client.respond(b"proof") == b""
    assert not client.complete
    assert client.respond(b"wrapped \x01\x01\x00\x00") == b"wrapped \x01\x01\x00\x00"
    assert client.complete  # after SaslHandshake v0 the broker sends nothing more
    assert client.respond(b"") is None
    client.finish()


def test_the_service_is_that_of_the_brokers_host_with_mutual_authentication(library):
    client = begun(library, KerberosConfig("kfk"))
    settings = client._context.settings
    assert settings["name"] == ("kfk@broker-1", "service")
    assert settings["flags"] & 2
    assert settings["creds"] is None


def test_credentials_come_from_keytab_cache_or_principal(library):
    keytab = begun(library, KerberosConfig("kafka", "me@R", "/etc/me.keytab"))._context.settings["creds"]
    assert keytab["name"] == ("me@R", "principal")
    assert keytab["store"]["client_keytab"] == "/etc/me.keytab"
    assert keytab["store"]["ccache"].startswith("MEMORY:")
    cache = begun(library, KerberosConfig("kafka", ticket_cache="/tmp/cc"))._context.settings["creds"]
    assert cache["store"] == {"ccache": "/tmp/cc"}
    assert begun(library, KerberosConfig("kafka", "me@R"))._context.settings["creds"]["store"] is None


@pytest.mark.parametrize(
    "answers",
    [
        [b""],
        [b"garbage"],
        [b"proof", b"\x01\x01\x00\x00"],
        [b"proof", b"wrapped \x02\x01\x00\x00"],
        [b"proof", b"wrapped \x01"],
        [b"proof", b"wrapped "],
        [b"proof", b"wrapped \x01\x01\x00\x00", b"more"],
        [b"x" * 100_000],
    ],
)
def test_a_broker_that_proves_nothing_is_refused(library, answers):
    client = begun(library)
    for answer in answers[:-1]:
        assert client.respond(answer) is not None
    with pytest.raises(AuthenticationFailed):
        client.respond(answers[-1])


def test_success_before_the_end_is_not_believed(library):
    client = begun(library)
    for answer in (None, b"proof"):
        if answer is not None:
            client.respond(answer)
        with pytest.raises(SaslExchangeFailed):
            client.finish()


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gssapi", None)
    login = Login(SaslOptions.of({}), "h")
    with pytest.raises(OptionError, match=r"kafkasource\[kerberos\]"):
        login.mechanism("broker-1")


# A real KDC.


@pytest.fixture
def kdc(tmp_path, monkeypatch):
    pytest.importorskip("gssapi", reason="needs the package gssapi, which pip builds with krb5's headers")
    with Kdc(tmp_path) as started:
        monkeypatch.setenv("KRB5_CONFIG", str(started.krb5_conf))
        yield started


class Broker:
    """The server's side by the same library, as Java's GssKrb5Server speaks it."""

    def __init__(self, gssapi, keytab):
        name = gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service)
        credentials = gssapi.Credentials(name=name, usage="accept", store={"keytab": str(keytab)})
        self.context = gssapi.SecurityContext(creds=credentials, usage="accept")

    def authenticate(self, client):
        answer = self.context.step(client.first())
        assert self.context.complete
        assert client.respond(answer) == b""
        offer = self.context.wrap(bytes([1, 1, 0, 0]), False).message
        chosen = self.context.unwrap(client.respond(offer)).message
        assert client.respond(b"") is None
        client.finish()
        return chosen, str(self.context.initiator_name)


@pytest.mark.slow
def test_a_real_kdc_lets_both_sides_prove_themselves(kdc):
    import gssapi

    keytab, of_broker = str(kdc.keytab("me")), kdc.keytab("kafka/localhost")
    module = "com.sun.security.auth.module.Krb5LoginModule"
    jaas = f'{module} required useKeyTab=true keyTab="{keytab}" principal="me@TEST";'
    login = Login(SaslOptions.of({"sasl.jaas.config": jaas}), "localhost")
    for _ in range(2):
        client = login.mechanism("localhost")
        assert client.user is None
        chosen, who = Broker(gssapi, of_broker).authenticate(client)
        assert (chosen, who, client.user) == (bytes([1, 1, 0, 0]), "me@TEST", "me@TEST")
    with pytest.raises(AuthenticationFailed, match="kafka@elsewhere"):
        login.mechanism("elsewhere").first()
    with pytest.raises(AuthenticationFailed, match=r"principal, keytab"):
        Gssapi(KerberosConfig("kafka", "me@TEST", "/none.keytab"), "localhost").first()
    client = login.mechanism("localhost")
    client.first()
    with pytest.raises(AuthenticationFailed):
        client.respond(b"\x60garbage")
