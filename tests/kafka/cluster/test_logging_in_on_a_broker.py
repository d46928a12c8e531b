"""Our client authenticates with real brokers by each mechanism, and says at once why it cannot."""

import base64
import pickle
import time

import pytest
from secured_brokers import WITH_PASSWORD

from kafkasource.errors import AuthenticationFailed, BrokerError, DeadlineExceeded
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import CREATE_DELEGATION_TOKEN
from kafkasource.options import parse

pytestmark = pytest.mark.broker


def options_of(properties, **more):
    return {f"kafka.{name}": text for name, text in properties.items()} | more


def config_of(properties, **more):
    return ClientConfig.from_options(parse(options_of(properties, **more), "source"))


def refusal(properties, **more):
    """What the client says at once: it asks once, as asking again can only lock the user out."""
    config = config_of(properties, **{"kafka.default.api.timeout.ms": "600000"}, **more)
    with Cluster(config) as cluster:
        with pytest.raises(AuthenticationFailed) as refused:
            cluster.topics.list()
        assert cluster.caller.network.connect_failures(-1) == 1
    return str(refused.value)


@pytest.mark.parametrize("mechanism", WITH_PASSWORD)
def test_a_wrong_password_is_said_at_once_and_not_shown(each_secured_broker, mechanism):
    secured = each_secured_broker.secured
    given = {**secured.client_properties("SASL_SSL", mechanism), "sasl.username": "alice", "sasl.password": "hunter2"}
    del given["sasl.jaas.config"]
    said = refusal(given)
    assert "refuses the credentials" in said
    assert mechanism in said
    assert "hunter2" not in said


def test_a_mechanism_that_the_listener_does_not_have_is_said_with_those_that_it_has(each_secured_broker):
    given = each_secured_broker.secured.client_properties("REAUTH", "PLAIN")
    given |= {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice", "sasl.password": "alice-secret"}
    del given["sasl.jaas.config"]
    said = refusal(given)
    assert "kafka.sasl.mechanism" in said
    assert "PLAIN" in said
    assert "SCRAM-SHA-512" in said


def test_sasl_to_a_listener_without_it_names_the_option(each_secured_broker):
    secured = each_secured_broker.secured
    given = secured.client_properties("SASL_SSL", "PLAIN") | {"bootstrap.servers": secured.bootstrap_servers("SSL")}
    assert "kafka.security.protocol" in refusal(given)


def test_a_client_without_sasl_learns_that_the_listener_closes_on_it(each_secured_broker):
    servers = each_secured_broker.secured.bootstrap_servers("SASL_PLAINTEXT")
    config = ClientConfig.of(servers, default_api_timeout_ms=2000)
    with Cluster(config) as cluster, pytest.raises(DeadlineExceeded, match=r"kafka\.security\.protocol"):
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
