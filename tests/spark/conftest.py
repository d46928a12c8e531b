"""Shared by the tests that run Spark against a real Kafka."""

from __future__ import annotations

import pytest

import kafkasource


@pytest.fixture(scope="session")
def pykafka(spark, kafka_broker):
    """Spark with the format registered, and short ways to read and write on the test cluster."""
    kafkasource.register(spark)
    return Pykafka(spark, kafka_broker.bootstrap_servers)


class Pykafka:
    def __init__(self, spark, bootstrap_servers):
        self.spark = spark
        self.bootstrap_servers = bootstrap_servers

    def reading(self, topic, *, stream=False, **options):
        reader = self.spark.readStream if stream else self.spark.read
        options = {"subscribe": topic, **options} if topic else options
        return reader.format("pykafka").option("kafka.bootstrap.servers", self.bootstrap_servers).options(**options)

    def read(self, topic, **options):
        return self.reading(topic, **options).load()

    def write(self, frame, topic=None, **options):
        options = {"topic": topic, **options} if topic else options
        frame.write.format("pykafka").option("kafka.bootstrap.servers", self.bootstrap_servers).options(**options).mode(
            "append"
        ).save()

    def values(self, topic, **options):
        """The values of a topic as texts, sorted."""
        return sorted(bytes(row.value).decode() for row in self.read(topic, **options).select("value").collect())
