"""An error of a missing permission names the client: an ACL for that name lets it in, as a real authorizer says."""

import pickle
import re
import uuid

import pytest
from secured_brokers import USERS, WITH_PASSWORD

from kafkasource.errors import TopicAuthorizationFailed
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.options import parse
from kafkasource.testing.broker.security.acls import Acl

pytestmark = pytest.mark.broker

WAYS = [
    *(("SASL_SSL", mechanism, "bob", "is logged in as '{}'") for mechanism in (*WITH_PASSWORD, "OAUTHBEARER")),
    ("JWKS", "OAUTHBEARER", "bob", "is logged in as '{}'"),
    ("MTLS", None, "bob", "has the certificate of '{}'"),
]


@pytest.fixture
def topic(secured_broker):
    """Only `somebody` may know of it."""
    secured, name = secured_broker.secured, f"named-{uuid.uuid4().hex[:8]}"
    acl = Acl("somebody", "read", "topic", name)
    with Cluster(ClientConfig.of(secured.bootstrap_servers("PLAINTEXT"))) as cluster:
        cluster.topics.create([name], partitions=1)
        secured.create_acls(acl)
        yield name
        secured.delete_acls(acl)
        cluster.topics.delete([name])


def described(properties, topic):
    options = {f"kafka.{name}": text for name, text in properties.items()}
    with Cluster(ClientConfig.from_options(parse(options, "source"))) as cluster:
        return cluster.topics.describe([topic])[topic]


@pytest.mark.parametrize(("listener", "mechanism", "user", "said"), WAYS, ids=str)
def test_an_acl_for_the_name_of_the_error_lets_the_client_in(secured_broker, topic, listener, mechanism, user, said):
    secured = secured_broker.secured
    properties = secured.client_properties(listener, mechanism, user)
    with pytest.raises(TopicAuthorizationFailed) as refused:
        described(properties, topic)
    text = str(pickle.loads(pickle.dumps(refused.value)))  # as a Spark task sends it to the driver
    found = re.search(f"This client {said.format('(.+)')}[.] ", text)
    assert found, text
    assert not any(secret in text for secret in USERS.values())
    acl = Acl(found[1], "describe", "topic", topic)
    secured.create_acls(acl)
    try:
        assert described(properties, topic).name == topic
    finally:
        secured.delete_acls(acl)
