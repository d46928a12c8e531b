"""Each security option of Java's does for us what it does for Spark's JVM connector: the rows of security_rows.py.

Both connectors read the same topic with the very same `kafka.*` options. Either both get all of it, or both fail; then
our error says the phrase of the row.
"""

from __future__ import annotations

import uuid

import confluent_kafka
import pytest
from proxy import Proxy
from security_material import Material
from security_rows import EXEMPT, ROWS

import kafkasource
from kafkasource.options.security import SECURITY_OPTIONS, SECURITY_REFUSED

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.peers, pytest.mark.jvm_connector]

VALUES = sorted(f"v{number}" for number in range(20))
CONNECTORS = ("kafka", "pykafka")
# The hosts that Java's client may ask for tokens: a system property of its JVM.
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


@pytest.fixture(scope="module")
def topic(secured_broker):
    name = f"security-{uuid.uuid4().hex[:10]}"
    servers = {"bootstrap.servers": secured_broker.secured.bootstrap_servers("PLAINTEXT")}
    producer = confluent_kafka.Producer(servers)
    for value in VALUES:
        producer.produce(name, value)
    assert producer.flush(60) == 0
    return name


@pytest.fixture(scope="module")
def material(secured_broker, tmp_path_factory):
    secured = secured_broker.secured
    host, _, port = secured.bootstrap_servers("SSL").rpartition(":")
    with Proxy((host, int(port)), host="127.0.0.2") as elsewhere:
        yield Material(secured, elsewhere, tmp_path_factory.mktemp("security"))


@pytest.fixture
def system(spark):
    """System properties of the driver's JVM, until the end of the test."""
    system = spark._jvm.java.lang.System
    yield system
    system.clearProperty(ALLOWED_URLS)


def read(spark, connector, options, topic):
    """The values, sorted, and the error."""
    reader = spark.read.format(connector).options(**options, subscribe=topic)
    try:
        return sorted(bytes(row.value).decode() for row in reader.load().select("value").collect()), ""
    except Exception as error:
        return [], str(error)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.id, marks=[] if row.core else [pytest.mark.extended]) for row in ROWS]
)
def test_the_same_options_do_the_same_in_both_connectors(spark, system, topic, material, row):
    kafkasource.register(spark)
    with material.endpoint(row.answers) as asked:
        options = {f"kafka.{name}": text.format_map(material) for name, text in row.options.items()}
        options |= {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "10", "kafka.fetch.max.wait.ms": "20"}
        system.setProperty(ALLOWED_URLS, options.get("kafka.sasl.oauthbearer.token.endpoint.url", ""))
        values, errors, requests = {}, {}, {}
        for connector in CONNECTORS:
            asked.begin()
            values[connector], errors[connector] = read(spark, connector, options, topic)
            requests[connector] = asked.requests
    if row.refused:
        assert all(errors.values()), errors
        assert row.refused in errors["pykafka"]
    else:
        assert errors == dict.fromkeys(CONNECTORS, "")
        assert values == dict.fromkeys(CONNECTORS, VALUES)
    assert requests["pykafka"] == requests["kafka"]
    assert bool(requests["kafka"]) == bool(row.answers)


def test_each_security_option_has_a_row_or_a_reason_why_it_has_none(spark):
    """The JVM connector's own Kafka client has the list of its options."""
    consumers = spark._jvm.org.apache.kafka.clients.consumer.ConsumerConfig.configNames()
    javas = {name for name in consumers if name.startswith(("security.", "ssl.", "sasl."))}
    ours = {"security.protocol", *(option.name.removeprefix("kafka.") for option in SECURITY_OPTIONS)}
    in_rows = {name for row in ROWS for name in row.options}
    assert {
        name for name in javas - ours if not any(each.matches(f"kafka.{name}") for each in SECURITY_REFUSED)
    } == set()
    assert ours - in_rows - EXEMPT.keys() == set()
    assert EXEMPT.keys() - ours == set()
    assert EXEMPT.keys() & in_rows == set()
    # No other reason holds for an option that it has.
    assert EXEMPT.keys() & javas == {"sasl.kerberos.service.name", "sasl.client.callback.handler.class"}
