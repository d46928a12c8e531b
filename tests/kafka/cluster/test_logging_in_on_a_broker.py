"""Our client at a real secured listener that does not let it in: it says at once why, and what to change."""

import base64
import pickle
import time

import pytest
from secured_brokers import WITH_PASSWORD

from kafkasource.errors import (
    AuthenticationFailed,
    BootstrapFailed,
    BrokerCertificateRefused,
    BrokerError,
    ClientCertificateRefused,
    DeadlineExceeded,
)
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import CREATE_DELEGATION_TOKEN
from kafkasource.options import parse
from kafkasource.testing.broker.security.certificates import Authority

pytestmark = pytest.mark.broker


def config_of(properties, **more):
    options = {f"kafka.{name}": text for name, text in properties.items()}
    return ClientConfig.from_options(parse(options | more, "source"))


def refusal(properties, kind=AuthenticationFailed, **more):
    """What the client says at once: it asks once, as asking again can only lock the user out."""
    config = config_of(properties, **{"kafka.default.api.timeout.ms": "600000"}, **more)
    with Cluster(config) as cluster:
        with pytest.raises(kind) as refused:
            cluster.topics.list()
        assert cluster.caller.network.connect_failures(-1) == 1
    return str(refused.value)


def by_password(secured, listener, mechanism, password):
    """The listener's properties, with another password or mechanism."""
    given = secured.client_properties(listener, "PLAIN")
    del given["sasl.jaas.config"]
    return given | {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": password}


@pytest.mark.parametrize("mechanism", WITH_PASSWORD)
def test_a_wrong_password_is_said_at_once_and_not_shown(each_secured_broker, mechanism):
    said = refusal(by_password(each_secured_broker.secured, "SASL_SSL", mechanism, "hunter2"))
    assert "refuses the credentials" in said
    assert mechanism in said
    assert "hunter2" not in said


def test_a_mechanism_that_the_listener_does_not_have_is_said_with_those_that_it_has(each_secured_broker):
    said = refusal(by_password(each_secured_broker.secured, "REAUTH", "SCRAM-SHA-256", "alice-secret"))
    assert all(name in said for name in ("kafka.sasl.mechanism", "PLAIN", "SCRAM-SHA-512"))


def test_a_broker_of_another_authority_is_refused_at_once_with_its_certificate(secured_broker, tmp_path):
    other = tmp_path / "ca.pem"
    other.write_text(Authority("Somebody else").pem)
    said = refusal(
        secured_broker.secured.client_properties("SSL") | {"ssl.truststore.location": str(other)},
        BrokerCertificateRefused,
    )
    assert str(other) in said  # who is trusted
    assert "ssl.truststore.location" in said  # what to change


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_listener_that_wants_a_client_certificate_refuses_who_has_none(each_secured_broker, version):
    secured = each_secured_broker.secured
    given = secured.client_properties("SSL") | {"bootstrap.servers": secured.bootstrap_servers("MTLS")}
    said = refusal(given, ClientCertificateRefused, **{"kafka.ssl.enabled.protocols": version})
    assert "ssl.keystore.location" in said


def test_sasl_to_a_listener_without_it_names_the_option(each_secured_broker):
    secured = each_secured_broker.secured
    given = secured.client_properties("SASL_SSL", "PLAIN") | {"bootstrap.servers": secured.bootstrap_servers("SSL")}
    assert "kafka.security.protocol" in refusal(given)


@pytest.mark.parametrize(
    ("speaks", "listener", "error"),
    [
        ("SSL", "PLAINTEXT", BootstrapFailed),
        ("PLAINTEXT", "SSL", BootstrapFailed),
        ("PLAINTEXT", "SASL_PLAINTEXT", DeadlineExceeded),
    ],
)
def test_a_listener_that_closes_on_the_protocol_is_tried_for_a_while_and_the_option_named(
    each_secured_broker, speaks, listener, error
):
    """A broker that is being stopped closes the connection, too."""
    secured = each_secured_broker.secured
    given = secured.client_properties("SSL") if speaks == "SSL" else {}
    given |= {"bootstrap.servers": secured.bootstrap_servers(listener)}
    config = config_of(given, **{"kafka.default.api.timeout.ms": "2000"})
    with Cluster(config) as cluster, pytest.raises(error, match=r"kafka\.security\.protocol"):
        cluster.topics.list()


def test_a_password_is_taken_from_a_file_and_from_the_environment(secured_broker, tmp_path, monkeypatch):
    given = secured_broker.secured.client_properties("SASL_SSL", "SCRAM-SHA-512")
    del given["sasl.jaas.config"]
    (tmp_path / "password").write_text("alice-secret")
    monkeypatch.setenv("KAFKA_USER", "alice")
    given |= {"sasl.username": "${env:KAFKA_USER}", "sasl.password": f"${{dir:{tmp_path}:password}}"}
    config = config_of(given)
    assert "alice-secret" not in repr(config)
    with Cluster(config) as cluster:
        cluster.topics.list()


def test_a_delegation_token_lets_us_in_from_a_file_of_properties(secured_broker, tmp_path):
    """The recipe of docs/moving.md: somebody with a password makes the token, the job knows its file alone."""
    secured = secured_broker.secured
    asked = {"owner_principal_type": None, "owner_principal_name": None, "renewers": [], "max_lifetime_ms": -1}
    with Cluster(config_of(secured.client_properties("SASL_SSL", "PLAIN", "alice"))) as cluster:
        made = cluster.caller.call_any(CREATE_DELEGATION_TOKEN, asked)
    assert (made["error_code"], made["principal_name"]) == (0, "alice")
    hmac = base64.b64encode(made["hmac"]).decode()
    file = tmp_path / "token.properties"
    file.write_text(f"id={made['token_id']}\nhmac={hmac}\n")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    login = f'{module} username="${{file:{file}:id}}" password="${{file:{file}:hmac}}" tokenauth="true";'
    given = secured.client_properties("SASL_SSL", "SCRAM-SHA-512") | {"sasl.jaas.config": login}
    deadline = time.monotonic() + 60
    while True:  # the controller answers before its broker knows the token
        with Cluster(config_of(given)) as cluster:
            try:
                cluster.topics.list()
                break
            except AuthenticationFailed:
                assert time.monotonic() < deadline
        time.sleep(0.1)
    assert hmac not in repr(config_of(given))
    assert hmac.encode() not in pickle.dumps(config_of(given))
    refused = pytest.raises(BrokerError, match="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED")  # who has logged in by a token
    with Cluster(config_of(given)) as cluster, refused:
        cluster.caller.call_any(CREATE_DELEGATION_TOKEN, asked)
