"""Our client over TLS on real brokers: what it reads and writes, and what it says where TLS fails."""

import pytest

from kafkasource.errors import BootstrapFailed, BrokerCertificateRefused, ClientCertificateRefused, TlsError
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.options import parse
from kafkasource.testing.broker.security.certificates import Authority

pytestmark = pytest.mark.broker


def options_of(properties, **more):
    return {f"kafka.{name}": text for name, text in properties.items()} | more


def config_of(properties, **more):
    return ClientConfig.from_options(parse(options_of(properties, **more), "source"))


def refusal(properties, **more):
    """What the client says at once, that is without trying until its time is over."""
    with Cluster(config_of(properties, **{"kafka.default.api.timeout.ms": "600000"}, **more)) as cluster:
        with pytest.raises(TlsError) as refused:
            cluster.topics.describe(["t"])
        assert cluster.caller.network.connect_failures(-1) == 1  # asked once, and never again
    return refused.value


def test_a_broker_of_another_authority_is_refused_at_once_with_its_certificate(secured_broker, tmp_path):
    other = tmp_path / "ca.pem"
    other.write_text(Authority("Somebody else").pem)
    properties = secured_broker.secured.client_properties("SSL") | {"ssl.truststore.location": str(other)}
    error = refusal(properties)
    assert isinstance(error, BrokerCertificateRefused)
    assert str(other) in str(error)  # who is trusted
    assert "ssl.truststore.location" in str(error)  # what to change


def test_a_listener_that_wants_a_client_certificate_refuses_who_has_none(each_secured_broker):
    secured = each_secured_broker.secured
    properties = secured.client_properties("SSL") | {"bootstrap.servers": secured.bootstrap_servers("MTLS")}
    for version in ("TLSv1.2", "TLSv1.3"):
        error = refusal(properties, **{"kafka.ssl.enabled.protocols": version})
        assert isinstance(error, ClientCertificateRefused)
        assert "ssl.keystore.location" in str(error)


def test_tls_to_a_listener_without_it_names_the_option(secured_broker):
    """It closes the connection, as a broker that is being stopped does: so the client tries again for a while."""
    properties = secured_broker.secured.client_properties("SSL")
    plain = properties | {"bootstrap.servers": secured_broker.secured.bootstrap_servers("PLAINTEXT")}
    config = config_of(plain, **{"kafka.default.api.timeout.ms": "1000"})
    with Cluster(config) as cluster, pytest.raises(BootstrapFailed, match=r"kafka\.security\.protocol"):
        cluster.topics.describe(["t"])


def test_a_client_without_tls_learns_that_the_listener_wants_it(secured_broker):
    secured = secured_broker.secured
    config = ClientConfig.of(secured.bootstrap_servers("SSL"))
    with Cluster(config) as cluster, pytest.raises(BootstrapFailed, match=r"kafka\.security\.protocol"):
        cluster.topics.describe(["t"])
