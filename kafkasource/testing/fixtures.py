"""pytest fixtures for tests that need a real Kafka, ours and users'. Installing the package makes them a pytest plugin:
there is nothing to import.

    def test_my_job(spark, kafka_broker, kafka_topic):
        topic = kafka_topic(partitions=3)
        df.write.format("pykafka").option("kafka.bootstrap.servers", kafka_broker.bootstrap_servers) \\
            .option("topic", topic).mode("append").save()

The first test that asks for the broker starts it, and it serves the whole session (with pytest-xdist: one per worker);
KAFKA_BOOTSTRAP_SERVERS in the environment uses an existing cluster instead.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafkasource.testing.broker import Broker, Registry

KafkaTopic = Callable[..., str]


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    """A Kafka of one node: `.bootstrap_servers`. Shared, so a test that kills nodes makes a Broker of its own."""
    from kafkasource.testing.broker import (
        Broker,  # not above: pytest loads plugins in every run, with or without a broker
    )

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def schema_registry() -> Iterator[Registry]:
    """A schema registry with Confluent's API: `.url`. Shared; SCHEMA_REGISTRY_URL in the environment names an existing
    one instead."""
    from kafkasource.testing.broker import Registry

    with Registry() as registry:
        yield registry


@pytest.fixture
def kafka_topic(kafka_broker: Broker, request: pytest.FixtureRequest) -> Iterator[KafkaTopic]:
    """Makes topics for one test, and deletes them after it: `kafka_topic(partitions=3, config={...}) -> name`."""
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.kafka.config import ClientConfig

    cluster = Cluster(ClientConfig.of(kafka_broker.bootstrap_servers, client_id="kafkasource-testing"))
    created: list[str] = []

    def create(
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        replication_factor: int = -1,  # the cluster's default
        prefix: str | None = None,  # of the topic's name; default: the test's name
    ) -> str:
        stem = re.sub(r"[^a-zA-Z0-9._-]+", "-", prefix or request.node.name)[:100]
        name = f"{stem}-{uuid.uuid4().hex[:10]}"
        cluster.topics.create([name], partitions=partitions, replication_factor=replication_factor, configs=config)
        created.append(name)
        return name

    try:
        yield create
    finally:
        with contextlib.suppress(Exception):  # the test may have deleted them, or ended the broker
            if created:
                cluster.topics.delete(created)
        cluster.close()
