"""Brokers before 1.0 know no SaslAuthenticate: tokens go bare, after SaslHandshake v0. Our own client, real brokers."""

import uuid

import pyarrow as pa
import pytest

from kafkasource.errors import AuthenticationFailed, TlsError
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import SASL_AUTHENTICATE
from kafkasource.options import parse
from kafkasource.reader import Reader
from kafkasource.testing.broker import Broker
from kafkasource.writer import Writer

pytestmark = [pytest.mark.broker, pytest.mark.extended]

USERS = {"alice": "alice-secret"}
VALUES = [b"%d" % number for number in range(1000)]


@pytest.mark.parametrize(
    ("release", "protocol", "mechanism"),
    [
        ("0.10.2.2", "SASL_PLAINTEXT", "PLAIN"),
        ("0.10.2.2", "SASL_SSL", "SCRAM-SHA-256"),
        ("0.11.0.3", "SASL_SSL", "PLAIN"),
        ("0.11.0.3", "SASL_PLAINTEXT", "SCRAM-SHA-512"),
    ],
)
def test_bare_tokens_let_us_in_for_writing_and_reading_and_a_wrong_password_is_said(release, protocol, mechanism):
    with Broker(release, security=protocol, mechanisms=[mechanism], users=USERS) as broker:
        given = {f"kafka.{name}": text for name, text in broker.client_properties().items()}
        topic = f"t-{uuid.uuid4().hex[:10]}"
        with Writer({**given, "topic": topic, "createTopic": "partitions=1, replication=1"}) as writer:
            writer.write(pa.table({"value": VALUES}))
        with Reader({**given, "subscribe": topic, "startingOffsets": "earliest"}) as reader:
            assert reader.cluster.caller.served(SASL_AUTHENTICATE) is None
            assert [value for batch in reader for value in batch.column("value").to_pylist()] == VALUES
        wrong = given | {"kafka.sasl.username": "alice", "kafka.sasl.password": "hunter2"}
        del wrong["kafka.sasl.jaas.config"]
        config = ClientConfig.from_options(parse(wrong, "source"))
        with Cluster(config) as cluster, pytest.raises(AuthenticationFailed, match=r"before 1\.0") as refused:
            cluster.topics.list()
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("fallback", ["auto", "0.9.0"])
def test_kafka_0_9_is_known_behind_tls(fallback):
    """It says nothing to ApiVersions, and has no SASL that a client could begin with a request."""
    with Broker("0.9.0.1", security="SSL", client_auth="required", properties={"num.partitions": 1}) as broker:
        given = {f"kafka.{name}": text for name, text in broker.client_properties().items()}
        given["kafka.broker.version.fallback"] = fallback
        with Writer({**given, "topic": "t"}) as writer:
            writer.write(pa.table({"value": VALUES}))
        with Reader({**given, "subscribe": "t", "startingOffsets": "earliest"}) as reader:
            assert [value for batch in reader for value in batch.column("value").to_pylist()] == VALUES
        bare = {name: text for name, text in given.items() if not name.startswith("kafka.ssl.keystore")}
        config = ClientConfig.from_options(parse(bare, "source"))
        with Cluster(config) as cluster, pytest.raises(TlsError, match="handshake"):
            cluster.topics.list()
