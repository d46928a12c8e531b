"""A secured `Broker` lets the right credentials in and refuses others: Kafka's own producer writes through each way in.

Other tests prove the rest with our client: wrong passwords and delegation tokens (test_logging_in_on_a_broker.py), old
releases (test_logging_in_to_old_brokers.py), every job through every way in (test_security_matrix.py).
"""

import time
from pathlib import Path

import pytest
from java_programs import ask_java
from kdc import Kdc
from secured_brokers import LISTENERS, USERS

from kafkasource.testing.broker import Acl, Broker, Kerberos, Listener, Security
from kafkasource.testing.broker.properties import render
from kafkasource.testing.broker.security.certificates import Authority
from kafkasource.testing.broker.security.tokens import TokenSigner

pytestmark = pytest.mark.broker

WRITE = Path(__file__).parent / "KafkaWrite.java"
WAYS = [(listener.name, mechanism) for listener in LISTENERS for mechanism in listener.mechanisms or (None,)]
REFUSED = "error TopicAuthorizationException"


@pytest.fixture
def write(tmp_path):
    """`write(version, topic, *properties)`: for each, the record's offset, or `error` and the class of the error."""

    def run(version, topic, *properties):
        commands = [(topic, tmp_path / f"{number}.properties") for number in range(len(properties))]
        for (_, path), given in zip(commands, properties, strict=True):
            path.write_text(render(given))
        return ask_java(WRITE, commands, version)

    return run


@pytest.fixture
def topic():
    return f"secured-{time.time_ns()}"


def test_every_user_is_let_in_by_every_way(each_secured_broker, write, topic):
    ways = [
        each_secured_broker.client_properties(listener, mechanism, user)
        for listener, mechanism in WAYS
        for user in USERS
    ]
    assert write(each_secured_broker.version, topic, *ways) == [str(offset) for offset in range(len(ways))]


def test_only_tokens_of_the_clusters_own_signer_are_taken(each_secured_broker, write, topic, tmp_path):
    secured = each_secured_broker.secured
    tokens = [
        secured.tokens.token("alice"),
        TokenSigner().token("alice"),
        secured.tokens.token("alice", lifetime_s=-120),
        secured.tokens.token("alice", claims={"aud": "another service"}),
    ]
    ways = []
    for number, token in enumerate(tokens):
        (tmp_path / f"{number}.jwt").write_text(token)
        endpoint = {"sasl.oauthbearer.token.endpoint.url": (tmp_path / f"{number}.jwt").as_uri()}
        ways.append(secured.client_properties("JWKS") | endpoint)
    answers = write(each_secured_broker.version, topic, *ways)
    assert [answer.partition(" ")[0] for answer in answers] == ["0", "error", "error", "error"]


def test_a_listener_that_requires_a_certificate_takes_only_those_of_its_ca(each_secured_broker, write, topic, tmp_path):
    secured = each_secured_broker.secured
    right = secured.client_properties("MTLS")
    ways = [right, {name: text for name, text in right.items() if not name.startswith("ssl.keystore")}]
    for number, certificate in enumerate(
        (
            secured.authority.intermediate().issue("alice", ()),
            Authority().issue("alice", ()),
            secured.authority.expired("alice", ()),
        )
    ):
        path = tmp_path / f"{number}.pem"
        path.write_text(certificate.key_pem() + certificate.certificate_pem)
        ways.append({**right, "ssl.keystore.location": str(path)})
    answers = write(each_secured_broker.version, topic, *ways)
    assert [answer.partition(" ")[0] for answer in answers] == ["0", "error", "1", "error", "error"]


def test_acls_hold_for_users_and_for_names_in_certificates(each_secured_broker, write, topic):
    secured, version = each_secured_broker.secured, each_secured_broker.version
    assert write(version, topic, secured.client_properties("SSL")) == ["0"]  # no ACL names the topic
    acls = [Acl("alice", "write", "topic", topic), Acl("CN=alice", "write", "topic", topic)]
    ways = [
        secured.client_properties(listener, mechanism, user)
        for listener, mechanism in (("SASL_SSL", "SCRAM-SHA-512"), ("SASL_PLAINTEXT", "OAUTHBEARER"), ("MTLS", None))
        for user in USERS
    ]
    secured.create_acls(*acls)
    assert write(version, topic, *ways) == ["1", REFUSED, "2", REFUSED, "3", REFUSED]
    secured.delete_acls(*acls)
    assert write(version, topic, ways[-1]) == ["4"]


@pytest.mark.extended
def test_three_nodes_start_again_with_their_users(write):
    with Broker(nodes=3, security="SASL_SSL", mechanisms=["SCRAM-SHA-256"], users={"alice": "alice-secret"}) as broker:
        way = broker.client_properties()
        assert write(broker.version, "t", way) == ["0"]
        broker.kill(2)
        broker.restart(2)
        second = {"bootstrap.servers": broker.bootstrap_servers.split(",")[1]}
        assert write(broker.version, "t", way | second) == ["1"]


@pytest.mark.extended
def test_0_11_has_acls(write):
    allowed = [Acl("alice", "all", "topic"), Acl("alice", "all", "cluster", "kafka-cluster")]
    settings = {"security": "SASL_PLAINTEXT", "mechanisms": ["SCRAM-SHA-512", "PLAIN"], "users": USERS}
    with Broker("0.11.0.3", **settings, acls=allowed) as broker:
        ways = [broker.client_properties(user=user) | {"max.block.ms": "20000"} for user in USERS]
        # To bob, no topic is there: of this release his producer gets no other answer.
        assert write("3.9.2", "t", *ways) == ["0", "error TimeoutException"]


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory):
    with Kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        keytabs = kdc.keytab("kafka/localhost"), kdc.keytab("alice")
        yield Kerberos(kdc.krb5_conf, keytabs[0], client_keytab=keytabs[1], client_principal="alice@TEST")


@pytest.mark.extended
@pytest.mark.parametrize(
    ("version", "protocol"),
    [("4.3.1", "SASL_SSL"), *((version, "SASL_PLAINTEXT") for version in ("3.9.2", "0.11.0.3", "0.9.0.1"))],
)
def test_a_listener_with_kerberos_lets_in_who_has_a_ticket(kerberos, write, tmp_path, monkeypatch, version, protocol):
    answers = []
    with Broker(version, security=Security((Listener(protocol, ("GSSAPI",)),), kerberos=kerberos)) as broker:
        alice = broker.client_properties()
        for user in ("alice@TEST", "mallory@TEST"):
            login = alice["sasl.jaas.config"].replace("alice@TEST", user)
            (tmp_path / "jaas").write_text("KafkaClient {\n" + login + "\n};\n")  # before 0.10.2 in a file only
            flags = f"-Djava.security.krb5.conf={kerberos.krb5_conf}"
            monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{flags} -Djava.security.auth.login.config={tmp_path / 'jaas'}")
            answers += write(version, "t", alice | {"sasl.jaas.config": login})
            monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    assert answers == ["0", "error LoginException"]
