"""A query runs on while its cluster gets certificates of another CA and its user is replaced by another one."""

import time
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic, ScramMechanism, UserScramCredentialDeletion
from confluent_reader import values_of

from kafkasource.testing.broker import Broker, Listener, Security
from kafkasource.testing.broker.security.certificates import Authority

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.extended]

DEADLINE_S = 240
PARTITIONS = 2
SESSION_MS = 10_000


def put(file, text):
    """All of it at once: a reader finds the old file or the new one."""
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(file)


class Numbers:
    """Written to each partition of one topic, 0, 1, 2 ..., and read back from another."""

    def __init__(self, bootstrap_servers, source, copy):
        self.bootstrap_servers, self.source, self.copy = bootstrap_servers, source, copy
        self.written = 0

    def write(self, count):
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "enable.idempotence": True})
        for number in range(self.written, self.written + count):
            for partition in range(PARTITIONS):
                producer.produce(self.source, str(number).encode(), partition=partition)
        assert producer.flush(DEADLINE_S) == 0
        self.written += count

    def copied(self):
        """The copied numbers by partition, in the order of their offsets."""
        found = values_of(self.bootstrap_servers, self.copy, range(PARTITIONS))
        return {partition: [int(value) for value in values] for partition, values in found.items()}

    def await_copies(self, query):
        deadline = time.monotonic() + DEADLINE_S
        while any(len(numbers) < self.written for numbers in self.copied().values()):
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_certificates_and_credentials_change_under_an_exactly_once_query_and_each_row_is_there_once(spark, tmp_path):
    """Sessions last ten seconds. First another user, by one file; then another CA: for a time both are trusted."""
    trusted, login = tmp_path / "trusted.pem", tmp_path / "login.properties"
    listener = Listener("SASL_SSL", ("SCRAM-SHA-512",), reauth_ms=SESSION_MS)
    users = {"before": "before-secret", "after": "after-secret"}
    with Broker(security=Security((listener,), users=users), use_existing=False) as broker:
        secured = broker.secured
        old, new = secured.authority, Authority("the next CA")
        put(trusted, old.pem)
        put(login, "user=before\npassword=before-secret\n")
        options = {
            "kafka.bootstrap.servers": secured.bootstrap_servers(),
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(trusted),
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.username": f"${{file:{login}:user}}",
            "kafka.sasl.password": f"${{file:{login}:password}}",
        }
        names = [f"{word}-{uuid.uuid4().hex[:10]}" for word in ("source", "copy")]
        numbers = Numbers(secured.bootstrap_servers("PLAINTEXT"), *names)
        query = copying(spark, options, numbers, tmp_path / "checkpoint")
        try:
            numbers.write(100)
            numbers.await_copies(query)
            put(login, "user=after\npassword=after-secret\n")
            run_for_two_sessions(numbers, query)
            put(trusted, old.pem + new.pem)
            secured.renew_certificates(new)
            broker.restart()
            numbers.write(100)
            numbers.await_copies(query)
            put(trusted, new.pem)
            broker.restart()
            delete_user(numbers.bootstrap_servers, "before")
            run_for_two_sessions(numbers, query)
        finally:
            query.stop()
        expected = list(range(numbers.written))
        assert numbers.copied() == dict.fromkeys(range(PARTITIONS), expected)


def copying(spark, options, numbers, checkpoint):
    import kafkasource

    kafkasource.register(spark)
    admin = AdminClient({"bootstrap.servers": numbers.bootstrap_servers})
    for made in admin.create_topics([NewTopic(name, PARTITIONS) for name in (numbers.source, numbers.copy)]).values():
        made.result(60)
    return (
        spark.readStream.format("pykafka")
        .options(**options, subscribe=numbers.source, startingOffsets="earliest")
        .load()
        .select("value", "partition")
        .writeStream.format("pykafka")
        .options(**options, topic=numbers.copy, deliveryGuarantee="exactly_once", checkpointLocation=str(checkpoint))
        .start()
    )


def run_for_two_sessions(numbers, query):
    end = time.monotonic() + 2.5 * SESSION_MS / 1000
    while time.monotonic() < end:
        numbers.write(10)
        numbers.await_copies(query)


def delete_user(bootstrap_servers, name):
    deletion = UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})  # it has to live until its results are in
    for done in admin.alter_user_scram_credentials([deletion]).values():
        done.result(60)
