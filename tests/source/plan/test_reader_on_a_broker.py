"""Readers without Spark on a real broker: what it makes of deleted topics and records, and the snippet of the docs."""

import contextlib
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from kafkasource.errors import DataLoss
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.group.member import GroupMember
from kafkasource.mirror.offset_map import OffsetMapTopic
from kafkasource.reader import Reader
from kafkasource.sink.clusters.offset_spans import Mapped, OffsetSpan
from kafkasource.tools import cli
from kafkasource.types import TopicPartition
from kafkasource.writer import Writer

pytestmark = pytest.mark.broker
DOCS = Path(__file__).parents[3] / "docs" / "client.md"


class Done(Exception):
    pass


@pytest.fixture
def cluster(kafka_broker):
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as cluster:
        yield cluster


@pytest.fixture
def servers(kafka_broker):
    return {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers}


def write(servers, topic, *values, partition=0):
    with Writer({**servers, "topic": topic}) as writer:
        writer.write(pa.table({"value": values, "partition": pa.array([partition] * len(values), pa.int32())}))


def follow(reader, topic, *events):
    """Values that are read; each event happens when there is nothing more to read, a few polls apart."""
    script = [step for event in events for step in (event, *[lambda: None] * 3)]
    found = []

    def sleep(seconds):
        if not script:
            raise Done
        script.pop(0)()

    with contextlib.suppress(Done):
        for batch in reader.follow(sleep=sleep):
            found += batch.column("value").to_pylist()
    return found


def recreate(cluster, servers, topic, *values):
    cluster.topics.delete([topic])
    cluster.topics.create([topic])
    write(servers, topic, *values)


def test_a_followed_topic_made_again_and_longer_is_a_loss_or_read_whole(cluster, servers, kafka_topic, caplog):
    old, new = [f"old {n}" for n in range(10)], [f"new {n}" for n in range(15)]
    for tolerant in (False, True):
        topic = kafka_topic()
        write(servers, topic, *old)
        with Reader({**servers, "subscribe": topic, "failOnDataLoss": str(not tolerant)}) as reader:
            expected = contextlib.nullcontext() if tolerant else pytest.raises(DataLoss, match="TOPIC_RECREATED")
            with expected:
                found = follow(reader, topic, lambda: recreate(cluster, servers, topic, *new))  # noqa: B023
    assert [value.decode() for value in found] == old + new
    assert "TOPIC_RECREATED" in caplog.text


def test_a_groups_offset_below_the_log_is_a_loss_to_every_reader(cluster, servers, kafka_topic, capsys):
    topic, group = kafka_topic(), "below-the-log"
    tp = TopicPartition(topic, 0)
    write(servers, topic, *map(str, range(20)))
    cluster.groups.commit(group, {tp: 5})
    cluster.offsets.delete_records({tp: 12})
    options = {**servers, "subscribe": topic, "kafka.group.id": group, "startingOffsets": "committed"}
    with Reader(options) as reader, pytest.raises(DataLoss, match=r"\[5, 12\) for topic partition " + topic):
        reader.plan()
    with Reader({**options, "failOnDataLoss": "false"}) as reader:
        assert [value for batch in reader for value in batch.column("value").to_pylist()] == [
            b"%d" % n for n in range(12, 20)
        ]
    command = ["read", topic, "--group", group, "-b", servers["kafka.bootstrap.servers"]]
    assert cli.main(command) == 1
    assert "[5, 12)" in capsys.readouterr().err
    assert cli.main([*command, "-X", "failOnDataLoss=false"]) == 0
    assert cluster.groups.committed_offsets(group, [tp]) == {tp: 20}
    assert cli.main(["read", topic, "--from", "3", "-b", servers["kafka.bootstrap.servers"]]) == 1


def test_a_broker_forgets_a_groups_offsets_of_a_topic_that_was_deleted(cluster, servers, kafka_topic):
    """So a group cannot stand in the middle of a topic that was made again: it has no offset there."""
    topic, group = kafka_topic(), "forgetful"
    tp = TopicPartition(topic, 0)
    write(servers, topic, *map(str, range(5)))
    cluster.groups.commit(group, {tp: 5})
    recreate(cluster, servers, topic, *map(str, range(15)))
    options = {**servers, "subscribe": topic, "kafka.group.id": group, "startingOffsets": "committed:earliest"}
    with Reader(options) as reader:
        assert [(one.start_offset, one.end_offset) for one in reader.plan()] == [(0, 15)]


def test_a_mirrors_offset_map_is_read_on_and_never_over_another_topic_of_its_name(cluster, servers, kafka_topic):
    topic, tp = kafka_topic(), TopicPartition("orders", 0)
    first = Mapped("east.orders", (OffsetSpan(0, 10, 0, 10, 0),))
    with OffsetMapTopic(ClientConfig.of(servers["kafka.bootstrap.servers"]), topic) as offset_map:
        assert offset_map.read() == {}
        offset_map.add({tp: first})
        assert offset_map.read() == {tp: first}
        with OffsetMapTopic(ClientConfig.of(servers["kafka.bootstrap.servers"]), topic) as another:
            assert another.read() == {tp: first}
            another.add({TopicPartition("orders", 1): first})
        assert offset_map.read() == {tp: first, TopicPartition("orders", 1): first}
        recreate(cluster, servers, topic, *["{}"] * 15)
        with pytest.raises(DataLoss, match="TOPIC_RECREATED"):
            offset_map.read()


def test_the_snippet_of_the_docs_reads_partitions_with_and_without_a_commit(cluster, servers, kafka_topic, monkeypatch):
    text = DOCS.read_text()
    (snippet,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "GroupMember(" in block]
    topic = kafka_topic(partitions=2)
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    for tp in partitions:
        write(servers, topic, *map(str, range(10)), partition=tp.partition)
    cluster.groups.commit("billing", {partitions[0]: 4})
    cluster.offsets.delete_records({partitions[1]: 3})  # so that 0 is not where this log begins
    read, committed = [], {}
    read_ranges, commit, poll = Reader.read, GroupMember.commit, GroupMember.poll
    seen = lambda self, ranges: (read.extend(map(str, ranges)), read_ranges(self, ranges))[1]  # noqa: E731
    monkeypatch.setattr(Reader, "read", seen)
    monkeypatch.setattr(GroupMember, "commit", lambda self, done: (commit(self, done), committed.update(done))[0])

    def poll_until_committed(self, timeout_s):
        if committed == dict.fromkeys(partitions, 10):
            raise Done
        return poll(self, timeout_s)

    monkeypatch.setattr(GroupMember, "poll", poll_until_committed)
    here = json.dumps(servers["kafka.bootstrap.servers"])
    with pytest.raises(Done):
        exec(snippet.replace('"localhost:9092"', here).replace('"events"', json.dumps(topic)), {})
    assert sorted(read) == [f"{topic}-0 [4, 10)", f"{topic}-1 [3, 10)"]
    assert cluster.groups.committed_offsets("billing", partitions) == dict.fromkeys(partitions, 10)
