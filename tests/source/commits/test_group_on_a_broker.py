"""What a real coordinator makes of our commits, as librdkafka sees it."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Confluent

from kafkasource.kafka.config import ClientConfig
from kafkasource.source.commits.committer import GroupCommitter
from kafkasource.testing.broker import DEFAULT_VERSION
from kafkasource.testing.broker.jvm.home import find_java
from kafkasource.testing.broker.jvm.jars import cache_dir, kafka_jars, resolve_jars
from kafkasource.types import TopicPartition

pytestmark = pytest.mark.broker
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def committed(kafka_broker, group, *partitions):
    """Offsets, None where the group has none."""
    with closing(Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": group})) as consumer:
        found = consumer.committed([Confluent(*tp) for tp in partitions], timeout=30)
    return [None if tp.offset < 0 else tp.offset for tp in found]


@pytest.fixture
def committer(kafka_broker):
    made = []

    def make(group, **settings):
        made.append(GroupCommitter(ClientConfig.of(kafka_broker.bootstrap_servers, **settings), group))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_group_that_nobody_knew_has_our_offsets(kafka_broker, kafka_topic, committer):
    topic = kafka_topic(partitions=3)
    ours = committer(f"{topic}-group")
    ours.offer({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 5, TopicPartition(topic, 2): 2**62})
    ours.flush()
    partitions = [TopicPartition(topic, n) for n in range(3)]
    assert committed(kafka_broker, f"{topic}-group", *partitions) == [0, 5, 2**62]


def test_a_topic_that_is_gone_does_not_keep_the_others_from_the_group(kafka_broker, kafka_topic, committer, caplog):
    topic = kafka_topic(partitions=1)
    here, gone = TopicPartition(topic, 0), TopicPartition(f"{topic}-gone", 0)
    ours = committer(f"{topic}-group", default_api_timeout_ms=1_000)
    ours.offer({gone: 9, here: 4})
    ours.flush(timeout_s=30)
    assert committed(kafka_broker, f"{topic}-group", here) == [4]
    ours.offer({gone: 9, here: 6})
    ours.flush(timeout_s=30)
    assert committed(kafka_broker, f"{topic}-group", here) == [6]
    assert not [record for record in caplog.records if record.name == "kafkasource.source"]


@pytest.mark.peers
def test_kafkas_own_tool_shows_the_group_and_its_lag(kafka_broker, kafka_topic, committer):
    """What `kafka-consumer-groups.sh --describe` runs."""
    topic = kafka_topic(partitions=2)
    group, servers = f"{topic}-group", kafka_broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers})
    for n in range(8):
        producer.produce(topic, b"x", partition=0 if n < 5 else 1)
    assert producer.flush(30) == 0
    ours = committer(group)
    ours.offer({TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 1})
    ours.close()
    tools = resolve_jars(
        f"org.apache.kafka:kafka-tools:{DEFAULT_VERSION}!", dest=cache_dir() / f"kafka-tools-{DEFAULT_VERSION}"
    )
    jars = [*map(str, tools), str(kafka_jars(DEFAULT_VERSION) / "*")]
    tool = [find_java(), "-Xmx256m", "-cp", os.pathsep.join(jars), TOOL, "--bootstrap-server", servers]
    done = subprocess.run([*tool, "--describe", "--group", group], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split()[:6] for line in done.stdout.splitlines() if line.startswith(group)]
    assert sorted(rows) == [[group, topic, "0", "5", "5", "0"], [group, topic, "1", "1", "3", "2"]]
