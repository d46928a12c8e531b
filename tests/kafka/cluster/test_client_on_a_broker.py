"""The client against a real Kafka, alone and through a proxy that harms the bytes."""

import os

import pytest
from proxy import Proxy

from kafkasource.errors import (
    BootstrapFailed,
    ConnectionLost,
    TopicAlreadyExists,
    TransportError,
    UnknownTopicOrPartition,
)
from kafkasource.kafka.cluster.cache import close_clusters, shared_cluster
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.offsets import EARLIEST, LATEST
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import API_VERSIONS, APIS, FETCH, METADATA, PRODUCE
from kafkasource.types import IsolationLevel, TopicPartition

pytestmark = pytest.mark.broker

EVERYTHING = {"topics": None, "allow_auto_topic_creation": False}


@pytest.fixture
def cluster(kafka_broker):
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as cluster:
        yield cluster


@pytest.fixture
def proxy(kafka_broker):
    """In front of the bootstrap address only: what the broker advertises leads past it."""
    host, port = kafka_broker.bootstrap_servers.split(",")[0].rsplit(":", 1)
    with Proxy((host, int(port))) as proxy:
        yield proxy


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


def test_offsets_committed_without_membership_are_those_fetched(cluster, kafka_topic):
    topic = kafka_topic(partitions=2)
    tps = [TopicPartition(topic, i) for i in range(2)]
    cluster.groups.commit(f"g-{topic}", {tps[0]: 17})
    assert cluster.groups.committed_offsets(f"g-{topic}", tps) == {tps[0]: 17, tps[1]: None}


def test_producer_ids_are_new_and_a_transactional_one_grows_its_epoch(cluster, kafka_topic):
    assert cluster.transactions.init_producer_id() != cluster.transactions.init_producer_id()
    name = kafka_topic()
    first, second = cluster.transactions.init_producer_id(name), cluster.transactions.init_producer_id(name)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)


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


def through(proxy, **settings):
    return Cluster(ClientConfig.of(proxy.bootstrap_servers, **settings))


@pytest.mark.parametrize("after", [0, 3, 4, 11, 40])
def test_a_connection_reset_inside_an_answer_is_seen_as_lost(proxy, after):
    with through(proxy) as cluster:
        cluster.topics.list()
        cluster.caller.call(-1, METADATA, EVERYTHING)
        proxy.cut(after)
        with pytest.raises(ConnectionLost):
            cluster.caller.call(-1, METADATA, EVERYTHING)
        assert proxy.harmed == 1
        assert cluster.caller.call(-1, METADATA, EVERYTHING)["brokers"]


@pytest.mark.parametrize("at", [0, 1, 4, 7])  # length and correlation id: what only the client can notice
def test_a_flipped_bit_in_the_frame_is_seen_and_the_next_connection_works(proxy, at):
    # The bit may be that of an answer to ApiVersions, which is waited for as long as for a connect.
    with through(proxy, request_timeout_ms=1500, socket_connection_setup_timeout_ms=1000) as cluster:
        cluster.caller.call(-1, METADATA, EVERYTHING)
        proxy.flip(at)
        with pytest.raises(TransportError):
            cluster.caller.call(-1, METADATA, EVERYTHING)
        assert cluster.caller.call(-1, METADATA, EVERYTHING)["brokers"]


def test_a_blackhole_ends_at_the_request_deadline(proxy):
    with through(proxy, request_timeout_ms=300) as cluster:
        cluster.caller.call(-1, METADATA, EVERYTHING)
        proxy.blackhole = True
        with pytest.raises(TransportError):
            cluster.caller.call(-1, METADATA, EVERYTHING)


def test_a_server_that_closes_every_connection_is_named(proxy):
    proxy.refuse = True
    with (
        through(proxy, default_api_timeout_ms=700) as cluster,
        pytest.raises(BootstrapFailed, match=proxy.bootstrap_servers),
    ):
        cluster.topics.list()


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
