"""What travels to other processes, or is printed: no repr shows a secret, and with references no pickle has it."""

import json
import pickle
import pprint

import pytest

from kafkasource import options
from kafkasource.datasource import KafkaDataSource
from kafkasource.kafka.config import ClientConfig
from kafkasource.sink.clusters import targets
from kafkasource.source.spark.schema import spark_schema
from kafkasource.spark import releases

MARKER = "geheim-4f1d"
BASE = {"kafka.bootstrap.servers": "localhost:1", "kafka.security.protocol": "SASL_SSL"}
SCRAM = BASE | {"kafka.sasl.mechanism": "SCRAM-SHA-512"}
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = BASE | {
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
    "kafka.sasl.oauthbearer.client.id": "id",
}
GIVEN = {
    "a password": SCRAM | {"kafka.sasl.username": "alice", "kafka.sasl.password": "{}"},
    "JAAS": SCRAM | {"kafka.sasl.jaas.config": f'{LOGIN} username="alice" password="{{}}";'},
    "a client's secret": OAUTH | {"kafka.sasl.oauthbearer.client.secret": "{}"},
    "passwords of stores": SCRAM
    | {"kafka.sasl.username": "alice", "kafka.sasl.password": "{}"}
    | {"kafka.ssl.keystore.location": "key.p12", "kafka.ssl.truststore.location": "trust.p12"}
    | {f"kafka.ssl.{name}.password": "{}" for name in ("keystore", "truststore", "key")},
    "a key": SCRAM
    | {"kafka.sasl.username": "alice", "kafka.sasl.password": "{}"}
    | {"kafka.ssl.key.pem": "{}", "kafka.ssl.certificate.location": "alice.pem"},
}


def given(name, value):
    return {option: text.replace("{}", value) for option, text in GIVEN[name].items()}


def what_spark_pickles(written):
    """For reads and writes, one cluster and several."""
    schema = spark_schema(False, False)
    reading = KafkaDataSource({**written, "subscribe": "t"})
    yield reading.reader(schema)
    if releases.HAS_FILTERS:
        yield KafkaDataSource({**written, "subscribe": "t", "pushDownPredicate": "true"}).reader(schema)
    yield reading.streamReader(schema)
    several = {"clusters": json.dumps({"a": written}), "topic": "t"}
    several |= {f"clusters.b.{name}": text for name, text in written.items()}
    for sink in ({**written, "topic": "t"}, several):
        yield KafkaDataSource(sink).writer(schema, False)
        yield KafkaDataSource(sink).streamWriter(schema, False)
        yield targets.parse(sink)
    parsed = options.parse({**written, "subscribe": "t"}, "source")
    yield parsed
    yield ClientConfig.from_options(parsed)


@pytest.mark.parametrize("name", GIVEN)
def test_no_repr_shows_a_secret(name):
    for each in what_spark_pickles(given(name, MARKER)):
        for value in (each, pickle.loads(pickle.dumps(each))):
            shown = repr(value) + str(value) + pprint.pformat(getattr(value, "__dict__", ""))
            assert MARKER not in shown, type(value)


@pytest.mark.parametrize("name", GIVEN)
def test_with_a_reference_no_pickle_has_the_secret(name, monkeypatch):
    monkeypatch.setenv("MARKED_PASSWORD", MARKER)
    for each in what_spark_pickles(given(name, "${env:MARKED_PASSWORD}")):
        pickled = pickle.dumps(each)
        assert b"${env:MARKED_PASSWORD}" in pickled, type(each)  # the pickle has the option
        assert MARKER.encode() not in pickled, type(each)
