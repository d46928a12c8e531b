"""Brokers from before KRaft with what their releases have of security; kafka-python says whether they let it in."""

import pytest

from kafkasource.testing.broker import Acl, Broker

pytestmark = [pytest.mark.broker, pytest.mark.extended]

USERS = {"alice": "alice-secret", "bob": "bob-secret"}


def write(broker, api_version, **changes):
    """The offset of a record that kafka-python writes as the properties for clients say; raises its errors."""
    from kafka import KafkaProducer

    told = broker.client_properties()
    settings = {
        "bootstrap_servers": told["bootstrap.servers"],
        "security_protocol": told["security.protocol"],
        "ssl_cafile": told.get("ssl.truststore.location"),
        "ssl_certfile": told.get("ssl.keystore.location"),
        "ssl_keyfile": told.get("ssl.keystore.location"),
        "sasl_mechanism": told.get("sasl.mechanism"),
        "sasl_plain_username": "alice",
        "sasl_plain_password": USERS["alice"],
    }
    producer = KafkaProducer(**{**settings, **changes}, api_version=api_version, retries=10, max_block_ms=10_000)
    try:
        return producer.send("t", b"v").get(60).offset
    finally:
        producer.close(0)


def test_0_9_has_tls_and_asks_for_certificates():
    from kafka.errors import KafkaError

    with Broker("0.9.0.1", security="SSL", client_auth="required") as broker:
        assert write(broker, (0, 9)) == 0
        with pytest.raises(KafkaError):
            write(broker, (0, 9), ssl_certfile=None, ssl_keyfile=None)


@pytest.mark.extended
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_0_10_2_has_plain_and_scram(mechanism):
    from kafka.errors import KafkaError

    with Broker("0.10.2.2", security="SASL_SSL", mechanisms=[mechanism], users=USERS) as broker:
        assert write(broker, (0, 10, 2)) == 0
        with pytest.raises(KafkaError):
            write(broker, (0, 10, 2), sasl_plain_password="wrong")


@pytest.mark.extended
def test_0_11_has_acls():
    from kafka.errors import KafkaError

    allowed = [Acl("alice", "all", "topic"), Acl("alice", "all", "cluster", "kafka-cluster")]
    settings = {"security": "SASL_PLAINTEXT", "mechanisms": ["SCRAM-SHA-512", "PLAIN"], "users": USERS}
    with Broker("0.11.0.3", **settings, acls=allowed) as broker:
        assert write(broker, (0, 11)) == 0
        with pytest.raises(KafkaError):
            write(broker, (0, 11), sasl_plain_username="bob", sasl_plain_password=USERS["bob"])
