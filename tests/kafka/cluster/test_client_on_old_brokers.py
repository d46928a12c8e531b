"""The client against Kafka 0.8.2.2 and 0.9.0.1: recognised, asked, and asked for what they cannot do."""

import time

import pytest

from kafkasource.errors import LeaderNotAvailable, UnsupportedApiVersion
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.offsets import EARLIEST, LATEST
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.old_releases import RELEASES
from kafkasource.kafka.protocol.apis import APIS, CREATE_TOPICS, LIST_GROUPS, METADATA, PRODUCE
from kafkasource.testing.broker import Broker
from kafkasource.types import TopicPartition

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module", params=[("0.8.2.2", "0.8.2"), ("0.9.0.1", "0.9.0")], ids=lambda p: p[0])
def old(request):
    version, release = request.param
    with Broker(version, properties={"num.partitions": 2}, use_existing=False) as broker:
        yield broker, RELEASES[release]


@pytest.fixture
def cluster(old):
    with Cluster(ClientConfig.of(old[0].bootstrap_servers)) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster, request):
    """Made by asking for it, as there is no other way."""
    name = request.node.originalname

    def leaders():
        (found,) = cluster.caller.call(1, METADATA, {"topics": [{"name": name}]})["topics"]
        return [partition["leader_id"] for partition in found["partitions"]]

    cluster.caller.served(METADATA)
    deadline = time.monotonic() + 60
    while leaders() != [1, 1]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return name


def test_it_is_recognised_and_serves_what_the_table_says(old, cluster):
    release = old[1]
    for api in APIS.values():
        assert cluster.caller.served(api) == release.serves.get(api), api.name


def test_offsets_of_logs_and_of_a_group(cluster, topic, old):
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert {tp: found.offset for tp, found in cluster.offsets.list({first: LATEST, second: EARLIEST}).items()} == {
        first: 0,
        second: 0,
    }
    cluster.groups.commit(topic, {first: 5})
    assert cluster.groups.committed_offsets(topic, [first, second]) == {first: 5, second: None}
    if LIST_GROUPS in old[1].serves:
        assert cluster.groups.committed(topic) == {first: (5, "")}
    else:
        with pytest.raises(UnsupportedApiVersion, match=r"before 0\.9"):
            cluster.groups.committed(topic)


def test_what_it_lacks_is_named_with_the_broker_and_its_release(cluster, topic, old):
    with pytest.raises(UnsupportedApiVersion, match=rf"\(Kafka {old[1].name}\) does not serve CreateTopics"):
        cluster.topics.create(["new"])
    assert not cluster.supports(CREATE_TOPICS)
    with pytest.raises(UnsupportedApiVersion, match=r"0\.10\.1"):
        cluster.offsets.list({TopicPartition(topic, 0): 1_700_000_000_000})


def test_a_restarted_broker_is_recognised_again(old, cluster):
    broker, release = old
    assert cluster.caller.served(PRODUCE) == release.serves[PRODUCE]
    broker.terminate()
    broker.restart()
    while True:
        try:
            cluster.caller.call_any(METADATA, {"topics": []})
            break
        except LeaderNotAvailable:  # of a topic, for the moment
            continue
    assert cluster.caller.served(PRODUCE) == release.serves[PRODUCE]
