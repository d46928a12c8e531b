"""The client against a real Kafka."""

import os

import pytest

from kafkasource.errors import (
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from kafkasource.kafka.cluster.cache import close_clusters, shared_cluster
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.offsets import EARLIEST, LATEST
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import API_VERSIONS, APIS, FETCH, METADATA, PRODUCE
from kafkasource.testing.broker import Broker
from kafkasource.testing.broker.properties import free_ports
from kafkasource.types import IsolationLevel, TopicPartition

pytestmark = pytest.mark.broker

EVERYTHING = {"topics": None, "allow_auto_topic_creation": False}


@pytest.fixture
def cluster(kafka_broker):
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as cluster:
        yield cluster


def test_topics_are_made_described_grown_and_unmade(cluster, kafka_topic):
    topic = kafka_topic(partitions=2, config={"retention.ms": "1000000"})
    described = cluster.topics.describe([topic])[topic]
    assert described.topic_partitions == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert described.topic_id is not None
    assert topic in [found.name for found in cluster.topics.list()]
    with pytest.raises(TopicAlreadyExists):
        cluster.topics.create([topic])
    cluster.topics.add_partitions({topic: 3})
    assert len(cluster.topics.describe([topic])[topic].partitions) == 3
    cluster.topics.delete([topic])
    assert cluster.topics.describe([topic], propagation_ms=1000) == {topic: None}
    with pytest.raises(UnknownTopicOrPartition):  # at once: the controller knows
        cluster.topics.delete([topic])


def test_a_topic_recreated_under_its_name_has_another_id(cluster, kafka_topic):
    topic = kafka_topic()
    first = cluster.topics.describe([topic])[topic].topic_id
    cluster.topics.delete([topic])
    cluster.topics.create([topic])
    assert cluster.metadata.topic_id(topic) not in (None, first)


def test_an_empty_log_begins_and_ends_at_zero(cluster, kafka_topic):
    topic = kafka_topic(partitions=3)
    tps = [TopicPartition(topic, i) for i in range(3)]
    for level in IsolationLevel:
        for symbol in (EARLIEST, LATEST):
            assert {found.offset for found in cluster.offsets.list(dict.fromkeys(tps, symbol), level).values()} == {0}
    assert cluster.offsets.list({tps[0]: 0})[tps[0]].offset is None
    assert cluster.offsets.delete_records({tps[0]: 0}) == {tps[0]: 0}


def test_acks_0_has_no_answer_and_the_connection_goes_on(cluster, kafka_topic):
    topic = kafka_topic()
    leader = cluster.leaders.of(TopicPartition(topic, 0))
    silent = cluster.caller.send(
        leader, PRODUCE, {"acks": 0, "timeout_ms": 1000, "topic_data": []}, expect_response=False, max_version=12
    )
    asked = cluster.caller.send(leader, METADATA, EVERYTHING)
    cluster.caller.wait(silent, asked)
    assert silent.result() == {}
    assert asked.result()["cluster_id"] == cluster.metadata.cluster_id


def test_versions_are_the_highest_that_the_broker_and_we_have(cluster):
    cluster.topics.list()
    (link,) = [link for link in cluster.network._links.values() if link.connection]
    answer = cluster.caller.call(link.node_id, API_VERSIONS, {}, max_version=2)
    served = {row["api_key"]: row for row in answer["api_keys"]}
    for api in APIS.values():
        ours, theirs = api.stable_versions, served[api.key]
        assert link.connection.version_of(api) == min(ours[1], theirs["max_version"]) >= theirs["min_version"]
    assert link.connection.version_of(FETCH) >= 12  # of every broker since 2.7


def test_twenty_configurations_in_a_row_leave_few_file_descriptors_open(kafka_broker):
    """They left 80: a worker kept a cluster for each configuration, for as long as it lived."""
    close_clusters()
    before = len(os.listdir("/proc/self/fd"))
    names = [f"client-{number}" for number in range(20)]
    for name in names:
        shared_cluster(ClientConfig.of(kafka_broker.bootstrap_servers, client_id=name)).topics.list()
    kept = len(os.listdir("/proc/self/fd")) - before
    close_clusters()
    assert kept <= 8 * 5  # selector, two to wake it, a connection to the bootstrap address and one to the broker
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.extended
def test_a_cluster_that_comes_back_at_other_addresses_is_found_by_the_bootstrap_servers(tmp_path):
    """`metadata.recovery.strategy=rebootstrap` of Java's clients (KIP-899), on the newest Kafka."""
    old, new = free_ports(2)
    with Broker(version="4.4.0", ports=[old], log_dir=tmp_path, use_existing=False):
        client = Cluster(ClientConfig.of(f"127.0.0.1:{new},127.0.0.1:{old}"))
        client.topics.create(["t"], partitions=1, replication_factor=1)
    with client, Broker(version="4.4.0", ports=[new], log_dir=tmp_path, use_existing=False):
        assert [topic.name for topic in client.topics.list()] == ["t"]
        assert [node.port for node in client.metadata.nodes()] == [new]
