"""A secured `Broker` lets the right credentials in and refuses others, as confluent-kafka and Kafka's client see it."""

import time
from pathlib import Path

import pytest
from java_programs import ask_java
from secured_brokers import LISTENERS, USERS, WITH_PASSWORD

from kafkasource.testing.broker import Acl, Broker
from kafkasource.testing.broker.properties import render
from kafkasource.testing.broker.security.certificates import Authority
from kafkasource.testing.broker.security.tokens import TokenSigner

pytestmark = pytest.mark.broker

LOGIN = Path(__file__).parent / "KafkaLogin.java"
WAYS = [(each.name, mechanism) for each in LISTENERS for mechanism in each.mechanisms or (None,)]


def brokers_seen(settings, within_s=60):
    """How many brokers confluent-kafka sees; else the name of the error for which no broker lets it in."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors = []
    admin = AdminClient({**settings, "error_cb": lambda error: errors.append(refusal(error)), "logger": SILENT})
    deadline = time.monotonic() + within_s
    while not any(errors):
        assert time.monotonic() < deadline, errors
        admin.poll(0)  # asks for a token, where there are any, and reports errors
        try:
            return len(admin.list_topics(timeout=0.5).brokers)
        except KafkaException:  # it says only that no broker answered; librdkafka goes on trying
            continue
    return next(filter(None, errors))


def refusal(error):
    """The error's name if it says that the other side is not to be trusted, or does not trust us."""
    # The broker's alert comes with the first answer (TLS 1.3): to librdkafka it is a connection that broke.
    if "tls alert" in error.str():
        return "_SSL"
    return error.name() if error.name() in ("_AUTHENTICATION", "_SSL") else None


class _Silent:
    """A logger for librdkafka: its lines about connections that we break on purpose."""

    def __getattr__(self, _name):
        return lambda *_args, **_more: None


SILENT = _Silent()


def write_value(settings, topic, value):
    """The name of the error with which the broker refused it, or None."""
    from confluent_kafka import Producer

    outcomes = []
    producer = Producer({**settings, "message.timeout.ms": 20_000, "logger": SILENT})
    producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error and error.name()))
    producer.flush(60)
    return outcomes[0]


def test_kafkas_own_client_is_let_in_by_the_java_properties(each_secured_broker, tmp_path):
    commands = []
    for number, (listener, mechanism) in enumerate(WAYS):
        for user in USERS:
            path = tmp_path / f"{number}-{user}.properties"
            path.write_text(render(each_secured_broker.client_properties(listener, mechanism, user)))
            commands.append(("nodes", path))
    assert ask_java(LOGIN, commands, each_secured_broker.version) == ["1"] * len(commands)


@pytest.mark.parametrize(
    "listener", ["SASL_SSL", *(pytest.param(name, marks=pytest.mark.extended) for name in ("SASL_PLAINTEXT", "REAUTH"))]
)
def test_a_wrong_password_and_an_unknown_user_are_refused(each_secured_broker, listener):
    for mechanism in set(each_secured_broker.secured.security.listener(listener).mechanisms) & set(WITH_PASSWORD):
        right = each_secured_broker.secured.confluent_properties(listener, mechanism, "alice")
        assert brokers_seen({**right, "sasl.password": "alice-secres"}) == "_AUTHENTICATION"
        assert brokers_seen({**right, "sasl.username": "mallory"}) == "_AUTHENTICATION"


def test_only_tokens_of_the_clusters_own_signer_are_taken(each_secured_broker):
    secured = each_secured_broker.secured
    right = secured.confluent_properties("JWKS")

    def seen(token):
        return brokers_seen({**right, "oauth_cb": lambda _config: (token, time.time() + 600)})

    assert seen(secured.tokens.token("alice")) == 1
    assert seen(TokenSigner().token("alice")) == "_AUTHENTICATION"
    assert seen(secured.tokens.token("alice", lifetime_s=-120)) == "_AUTHENTICATION"
    assert seen(secured.tokens.token("alice", claims={"aud": "another service"})) == "_AUTHENTICATION"


def test_a_listener_that_requires_a_certificate_takes_only_those_of_its_ca(each_secured_broker, tmp_path):
    secured = each_secured_broker.secured
    right = secured.confluent_properties("MTLS")
    assert brokers_seen(right) == 1
    bare = {
        name: value for name, value in right.items() if name not in ("ssl.certificate.location", "ssl.key.location")
    }
    assert brokers_seen(bare) == "_SSL"
    bad = {"stranger": Authority().issue("alice", ()), "late": secured.authority.expired("alice", ())}
    for name, certificate in bad.items():
        path = tmp_path / name
        path.write_text(certificate.key_pem() + certificate.certificate_pem)
        told = {"ssl.certificate.location": str(path), "ssl.key.location": str(path)}
        assert brokers_seen({**right, **told}) == "_SSL", name
    path = tmp_path / "below"
    certificate = secured.authority.intermediate().issue("alice", ())
    path.write_text(certificate.key_pem() + certificate.certificate_pem)
    assert brokers_seen({**right, "ssl.certificate.location": str(path), "ssl.key.location": str(path)}) == 1


def test_acls_hold_for_users_and_for_names_in_certificates(each_secured_broker):
    secured = each_secured_broker.secured
    topic = f"acls-{time.time_ns()}"
    assert write_value(secured.confluent_properties("SSL"), topic, b"made by nobody in particular") is None
    allowed = [Acl("alice", "write", "topic", topic), Acl("CN=alice", "write", "topic", topic)]
    secured.create_acls(*allowed)
    for listener, mechanism in (("SASL_SSL", "SCRAM-SHA-512"), ("SASL_PLAINTEXT", "OAUTHBEARER"), ("MTLS", None)):
        outcomes = [write_value(secured.confluent_properties(listener, mechanism, user), topic, b"v") for user in USERS]
        assert outcomes == [None, "TOPIC_AUTHORIZATION_FAILED"], listener
    secured.delete_acls(*allowed)
    assert write_value(secured.confluent_properties("MTLS", None, "bob"), topic, b"v") is None


@pytest.mark.extended
def test_a_delegation_token_logs_in_by_scram(each_secured_broker, tmp_path):
    (tmp_path / "alice").write_text(render(each_secured_broker.client_properties("SASL_SSL", "PLAIN", "alice")))
    (made,) = ask_java(LOGIN, [("token", tmp_path / "alice")], each_secured_broker.version)
    token_id, hmac = made.split(" ")
    told = each_secured_broker.client_properties("SASL_SSL", "SCRAM-SHA-512")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    told["sasl.jaas.config"] = f'{module} username="{token_id}" password="{hmac}" tokenauth="true";'
    (tmp_path / "token").write_text(render(told))
    assert ask_java(LOGIN, [("nodes", tmp_path / "token")], each_secured_broker.version) == ["1"]


@pytest.mark.extended
def test_three_nodes_start_again_with_their_users():
    with Broker(nodes=3, security="SASL_SSL", mechanisms=["SCRAM-SHA-256"], users={"alice": "alice-secret"}) as broker:
        settings = broker.secured.confluent_properties()
        assert brokers_seen(settings) == 3
        broker.kill(2)
        broker.restart(2)
        assert brokers_seen({**settings, "bootstrap.servers": broker.bootstrap_servers.split(",")[1]}) == 3
