"""The client against the mock cluster inside librdkafka, a server of another maker.

It answers ApiVersions v4 with UNSUPPORTED_VERSION in a form that is not v0's, and puts a byte behind Metadata.
librdkafka and Java's client read both.
"""

import logging

import confluent_kafka
import pytest

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.offsets import LATEST
from kafkasource.kafka.config import ClientConfig
from kafkasource.types import TopicPartition


@pytest.fixture(scope="module")
def servers():
    """Give its bootstrap servers; the cluster lives as long as the producer that made it."""
    producer = confluent_kafka.Producer({"test.mock.num.brokers": 3})
    producer.produce("t", b"value", partition=0)
    assert producer.flush(30) == 0
    yield ",".join(f"{broker.host}:{broker.port}" for broker in producer.list_topics(timeout=30).brokers.values())
    producer.flush(0)


def test_it_is_read_and_the_bytes_behind_its_answers_are_one_warning_for_a_server(servers, caplog):
    with caplog.at_level(logging.WARNING, "kafkasource"), Cluster(ClientConfig.of(servers)) as cluster:
        for _ in range(3):
            assert 0 in cluster.topics.describe(["t"])["t"].partitions
        assert cluster.offsets.list({TopicPartition("t", 0): LATEST})[TopicPartition("t", 0)].offset == 1
    said = [record.getMessage() for record in caplog.records]
    assert "1 bytes behind its Metadata response v13" in said[0]
    assert all("bytes behind its" in text for text in said)
    assert len({text.split(" sent ")[0] for text in said}) == len(said) <= 3
