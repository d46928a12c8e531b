"""Offsets of brokers before 0.10, from the fake broker that is told to be one."""

from __future__ import annotations

import pytest
from fake_broker import LOG_END, LOG_START, Answer, FakeKafka, FakeNet

from kafkasource.errors import UnsupportedApiVersion
from kafkasource.kafka.cluster.offsets import EARLIEST, LATEST
from kafkasource.kafka.protocol.apis import LIST_OFFSETS, OFFSET_COMMIT
from kafkasource.types import IsolationLevel, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
RELEASES = pytest.mark.parametrize("release", ["0.8.2", "0.9.0"])


@pytest.fixture
def kafka():
    return FakeKafka(topics={"t": 2, "__consumer_offsets": 1})


def old_style(**offsets):
    rows = [
        {"partition_index": int(number[1:]), "error_code": 0, "old_style_offsets": list(found)}
        for number, found in offsets.items()
    ]
    return Answer({"topics": [{"name": "t", "partitions": rows}]})


@RELEASES
@pytest.mark.parametrize("isolation_level", IsolationLevel)
def test_the_ends_of_a_log_are_the_first_of_the_old_answers_offsets(kafka, release, isolation_level):
    kafka.become(release)
    cluster = FakeNet(kafka).cluster()
    kafka.fault(LIST_OFFSETS, old_style(p0=[LOG_START], p1=[LOG_END, 50]))
    found = cluster.offsets.list({T0: EARLIEST, T1: LATEST}, isolation_level)
    assert {tp: one.offset for tp, one in found.items()} == {T0: LOG_START, T1: LOG_END}
    (asked,) = kafka.asked(LIST_OFFSETS)
    assert asked.version == 0
    rows = asked.body["topics"][0]["partitions"]
    assert [(row["timestamp"], row["max_num_offsets"]) for row in rows] == [(EARLIEST, 1), (LATEST, 1)]


@RELEASES
def test_the_offset_of_a_time_is_refused_without_asking(kafka, release):
    kafka.become(release)
    cluster = FakeNet(kafka).cluster()
    with pytest.raises(UnsupportedApiVersion, match=r"offset of a timestamp .* t-0: that needs Kafka 0\.10\.1"):
        cluster.offsets.list({T0: 1_700_000_000_000, T1: LATEST})
    assert kafka.asked(LIST_OFFSETS) == []


@RELEASES
def test_a_commit_goes_to_kafkas_own_storage_with_metadata_that_is_not_null(kafka, release):
    kafka.become(release)
    cluster = FakeNet(kafka).cluster()
    cluster.groups.commit("g", {T0: 7})
    (asked,) = kafka.asked(OFFSET_COMMIT)
    assert asked.version == {"0.8.2": 1, "0.9.0": 2}[release]
    assert asked.body["topics"][0]["partitions"][0]["committed_metadata"] == ""
    assert cluster.groups.committed_offsets("g", [T0, T1]) == {T0: 7, T1: None}


@RELEASES
def test_internal_topics_are_known_by_name_where_brokers_do_not_say(kafka, release):
    kafka.become(release)
    topics = FakeNet(kafka).cluster().topics.list()
    assert {topic.name: topic.internal for topic in topics} == {"t": False, "__consumer_offsets": True}
