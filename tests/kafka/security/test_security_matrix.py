"""Every way into a secured cluster serves every job, on each release; confluent-kafka is the other side of each.

The jobs are those of rights_jobs.py. A query in Spark has tests of its own (tests/spark/test_secured_cluster.py).
"""

from __future__ import annotations

import contextlib
import json
import uuid

import confluent_kafka
import pytest
import rights_jobs
from kdc import Kdc
from secured_brokers import WITH_PASSWORD, confluent_properties

from kafkasource.testing.broker import Broker, Kerberos, Listener, Security

pytestmark = [pytest.mark.broker, pytest.mark.peers]

SASL = (*WITH_PASSWORD, "OAUTHBEARER")
WAYS = [  # bob's password has quotes, a backslash, a comma and a letter beyond ASCII
    ("MTLS", None, "alice"),
    ("SASL_SSL", "SCRAM-SHA-512", "bob"),
    ("SASL_PLAINTEXT", "PLAIN", "bob"),
    ("JWKS", "OAUTHBEARER", "alice"),
]
MORE_WAYS = [
    ("SSL", None, "alice"),
    *(("SASL_PLAINTEXT", mechanism, "alice") for mechanism in SASL),
    *(("SASL_SSL", mechanism, "alice") for mechanism in SASL),
    ("SASL_SSL", "SCRAM-SHA-256", "bob"),
]
THEIRS = [b"theirs %d" % number for number in range(500)]


@pytest.fixture(autouse=True)
def _what_jobs_keep_ends_with_their_test():
    yield
    rights_jobs.close_all()


class Confluent:
    """confluent-kafka's clients with the same way in."""

    def __init__(self, properties):
        self._properties = {**properties, "log_level": 0}

    def write(self, topic, values):
        producer = confluent_kafka.Producer(self._properties)
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(60) == 0

    def read(self, topic, count):
        """The first `count` values of partition 0 that are committed; fewer where no more come."""
        values: list[bytes] = []
        with self._consumer("g") as consumer:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            while len(values) < count and (messages := consumer.consume(count - len(values), timeout=60)):
                values += [message.value() for message in messages]
        return values

    def committed(self, group, topic):
        with self._consumer(group) as consumer:
            consumer.poll(0)  # where it asks for the token
            (messages,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=60)
        return messages.offset

    @contextlib.contextmanager
    def _consumer(self, group):
        consumer = confluent_kafka.Consumer(
            {**self._properties, "group.id": group, "isolation.level": "read_committed"}
        )
        try:
            yield consumer
        finally:
            consumer.close()


def all_jobs(secured, properties, theirs, folder):
    world = rights_jobs.World(secured, properties, folder, f"m{uuid.uuid4().hex[:8]}")
    world.prepare()
    values = [b"row"] * rights_jobs.ROWS

    assert rights_jobs.stream_with_a_group(world) == ""
    assert theirs.committed(f"{world.name}-other", world.topic) == len(values)

    theirs.write(world.topic, THEIRS)
    values += THEIRS
    with world.reader() as reader:
        assert [value for batch in reader for value in batch.column("value").to_pylist()] == values

    rights_jobs.write(world)
    rights_jobs.exactly_once(world)
    values += [b"row"] * (1 + 3)  # its three batches, each once
    assert theirs.read(world.topic, len(values)) == values

    assert rights_jobs.mirror(world).strip() == ""
    assert theirs.read(f"{world.name}.{world.topic}", len(values)) == values

    assert world.topic in {row["topic"] for row in json.loads(rights_jobs.topics_list(world))}
    unread = [value.decode() for value in values[rights_jobs.ROWS :]]  # the stream's commit is where the member begins
    assert rights_jobs.member_of_a_group(world).splitlines() == unread


@pytest.mark.parametrize("way", [*WAYS, *(pytest.param(way, marks=pytest.mark.extended) for way in MORE_WAYS)], ids=str)
def test_every_job_goes_through_every_way_in(each_secured_broker, tmp_path, way):
    secured = each_secured_broker.secured
    all_jobs(secured, secured.client_properties(*way), Confluent(confluent_properties(secured, *way)), tmp_path)


@pytest.mark.extended
@pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])
def test_every_job_goes_through_kerberos(tmp_path, monkeypatch, release):
    """confluent-kafka uses PLAINTEXT here, because its wheel lacks Kerberos."""
    pytest.importorskip("gssapi", reason="needs the package gssapi, which pip builds with krb5's headers")
    with Kdc(tmp_path) as kdc:
        monkeypatch.setenv("KRB5_CONFIG", str(kdc.krb5_conf))
        keytabs = kdc.keytab("kafka/localhost"), kdc.keytab("alice")
        kerberos = Kerberos(kdc.krb5_conf, keytabs[0], client_keytab=keytabs[1], client_principal="alice@TEST")
        security = Security((Listener("SASL_SSL", ("GSSAPI",)),), kerberos=kerberos)
        with Broker(release, security=security) as broker:
            theirs = Confluent({"bootstrap.servers": broker.secured.bootstrap_servers("PLAINTEXT")})
            all_jobs(broker.secured, broker.client_properties(), theirs, tmp_path)
