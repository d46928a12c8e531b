"""Faults under a running query: no row lost, none twice, and no task fails for it.

The session is `local[2]`, where one failed task ends the query (spark.task.maxFailures is 1): what these queries get
over, they get over by themselves. confluent-kafka writes all the while, and knows what Kafka has acknowledged.
"""

from __future__ import annotations

import kafka
import pytest
from proxy_frames import FAULTS, FrameProxy
from stream_under_fault import PARTITIONS, Reading, Topic, until

import kafkasource
from kafkasource.kafka.protocol.apis import FETCH, LIST_OFFSETS, METADATA
from kafkasource.testing.broker import Broker
from kafkasource.tools.monitor.local_dir import local_dir

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.peers, pytest.mark.slow]


@pytest.fixture(scope="module")
def registered(spark):
    """Spark whose Python processes were started once, before any broker takes the processor."""
    kafkasource.register(spark)
    local_dir(spark)  # plans a read in one
    spark.range(2).mapInArrow(lambda batches: batches, "id long").collect()  # tasks in others
    return spark


@pytest.fixture(scope="module")
def cluster(registered):
    """Three nodes that may be hurt, and are whole again after each test."""
    with Broker(nodes=3, use_existing=False) as broker:
        yield broker


@pytest.fixture(scope="module")
def proxy():
    with FrameProxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def single(proxy, registered):
    """One node that clients reach through the proxy only."""
    with Broker(use_existing=False, advertised_ports=[proxy.address[1]]) as broker:
        proxy.upstream = ("127.0.0.1", broker.ports[0])
        yield broker


@pytest.fixture
def run(registered):
    """A topic that is written to, and a query that reads it already."""
    started = []

    def start(broker, **options):
        topic = Topic(broker.bootstrap_servers)
        topic.goes_on()
        reading = Reading(registered, broker.bootstrap_servers, topic, **options)
        started.append((topic, reading))
        reading.begins()
        reading.catches_up()
        return topic, reading

    yield start
    for topic, reading in started:
        reading.query.stop()
        topic.abandon()


def check_that_each_record_is_there_once(topic, reading):
    topic.stop()
    assert sorted(reading.rows()) == sorted(topic.acknowledged)


@pytest.mark.extended
def test_a_leader_that_is_killed_and_comes_back_loses_and_repeats_no_row(cluster, run):
    topic, reading = run(cluster)
    leader = topic.leader(0)
    cluster.kill(leader)
    topic.goes_on()
    reading.catches_up()
    cluster.restart(leader)
    topic.goes_on()
    reading.catches_up()
    check_that_each_record_is_there_once(topic, reading)


@pytest.mark.extended
def test_a_leader_that_hangs_and_wakes_up_loses_and_repeats_no_row(cluster, run):
    """Its connections stay open and give nothing; when it wakes up, it takes itself for the leader for a moment."""
    topic, reading = run(cluster, **{"kafka.request.timeout.ms": "2000"})
    leader = topic.leader(0)
    cluster.pause(leader)
    try:
        topic.goes_on()
        reading.catches_up()
    finally:
        cluster.resume(leader)
    topic.goes_on()
    reading.catches_up()
    check_that_each_record_is_there_once(topic, reading)


@pytest.mark.extended
def test_leaders_moved_by_reassignment_and_election_lose_and_repeat_no_row(cluster, run):
    topic, reading = run(cluster)
    admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    partitions = [kafka.TopicPartition(topic.name, partition) for partition in range(PARTITIONS)]

    # The old leader loses its replica, too: it knows nothing of the partition any more.
    old = [topic.leader(tp.partition) for tp in partitions]
    left = [[node for node in (1, 2, 3) if node != leader] for leader in old]
    admin.alter_partition_reassignments(dict(zip(partitions, left, strict=True)))
    until(lambda: all(topic.leader(tp.partition) in nodes for tp, nodes in zip(partitions, left, strict=True)), "moves")
    topic.goes_on()
    reading.catches_up()

    # The replica that does not lead becomes the preferred one, and is elected.
    old = [topic.leader(tp.partition) for tp in partitions]
    turned = [sorted(nodes, key=lambda node, led=led: node == led) for nodes, led in zip(left, old, strict=True)]  # type: ignore[misc]
    admin.alter_partition_reassignments(dict(zip(partitions, turned, strict=True)))
    admin.elect_leaders(0, {topic.name: list(range(PARTITIONS))})
    until(lambda: [topic.leader(tp.partition) for tp in partitions] == [first for first, _ in turned], "elections")
    topic.goes_on()
    reading.catches_up()
    admin.close()
    check_that_each_record_is_there_once(topic, reading)


def test_answers_cut_stalled_and_truncated_lose_and_repeat_no_row(proxy, single, run):
    mine = {"kafka.client.id": "harmed", "kafka.request.timeout.ms": "1000"}  # the length of a stall
    topic, reading = run(single, **mine)
    for api in (METADATA, LIST_OFFSETS, FETCH):
        proxy.harm(api, *FAULTS, client_id="harmed")
    until(lambda: not proxy.faults_left, "answers to harm")
    topic.goes_on()
    reading.catches_up()
    check_that_each_record_is_there_once(topic, reading)


def test_the_only_broker_killed_and_started_again_loses_and_repeats_no_row(single, run):
    topic, reading = run(single)
    single.kill()
    single.restart()
    topic.goes_on()
    reading.catches_up()
    check_that_each_record_is_there_once(topic, reading)


def test_a_query_whose_brokers_are_gone_for_good_names_them_and_the_option_that_waits_longer(proxy, single, run):
    # For the driver, and for a task: either may be the first to give up.
    waits = {"kafka.default.api.timeout.ms": "1000", "kafkaConsumer.pollTimeoutMs": "1000"}
    _, reading = run(single, **waits)
    proxy.refuse = True
    proxy.reset_all()
    try:
        until(lambda: not reading.query.isActive, "the end of the query")
    finally:
        proxy.refuse = False
    text = str(reading.query.exception())
    assert single.bootstrap_servers in text
    assert any(option in text for option in waits)
