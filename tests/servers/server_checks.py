"""What a job needs of a server, without Spark: one check for each part. confluent-kafka is the judge.

A check is given the running server, and topics of its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_reader import messages_of, settings
from kafka_servers import Running
from stream_of_batches import Crash, Query

from kafkasource import options as option_table
from kafkasource import types as ours
from kafkasource.errors import KafkaSourceError, UnsupportedApiVersion
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.group.member import GroupMember
from kafkasource.reader import Reader
from kafkasource.tools.cli import main
from kafkasource.writer import Writer

SECONDS = 20
Rows = list[tuple[bytes, bytes]]


def doctor(server: Running) -> None:
    create(server, "doctor")
    findings = json.loads(command(server, "doctor", "--topic", "doctor", "--json"))
    names = [finding["what"] for finding in findings]
    start = next(place for place, name in enumerate(names) if name in ("cluster", "bootstrap TCP"))
    failed = [f"{one['what']}: {one['found']}" for one in findings[start:] if one["level"] == "FAILED"]
    assert "broker 1" in names or any(name.startswith("broker ") for name in names), names
    assert not failed, failed


def create_topic(server: Running) -> None:
    command(server, "topics", "create", "created", "--partitions", str(len(server.partitions)), "--replication", "1")
    assert len(judged(server)["created"].partitions) == len(server.partitions)
    command(server, "topics", "describe", "created")


def metadata(server: Running) -> None:
    create(server, "described")
    with cluster_of(server) as cluster:
        found = {topic.name: len(topic.partitions) for topic in cluster.topics.list() if not topic.internal}
    theirs = {name: len(one.partitions) for name, one in judged(server).items() if not name.startswith("__")}
    assert found == theirs


def write(server: Running) -> None:
    create(server, "written")
    rows = records("value", 2000)
    send(server, "written", rows)
    assert read_by_judge(server, "written") == sorted(rows)


def large_records(server: Running) -> None:
    create(server, "large")
    rows = [(b"%d" % n, bytes([n]) * 900_000) for n in range(6)]
    send(server, "large", rows)
    assert read_by_judge(server, "large") == sorted(rows)
    assert read(server, "large", **{"kafka.max.partition.fetch.bytes": "10000"}) == sorted(rows)


def read_all(server: Running) -> None:
    create(server, "read")
    rows = []
    for codec in ("none", "gzip", "snappy", "lz4"):
        rows += (part := records(codec, 500))
        send_by_judge(server, "read", part, codec)
    found = read_by_judge(server, "read")
    assert read(server, "read") == found
    assert set(found) == set(rows)  # the judge writes some twice where leaders move
    starts = json.dumps({"read": {str(partition): 5 for partition in server.partitions}})
    assert len(read(server, "read", startingOffsets=starts)) == len(found) - 5 * len(server.partitions)


def commit(server: Running) -> None:
    """The judge sees the offset that ours committed, and a read starts there."""
    create(server, "committed")
    rows = records("committed", 100)
    send_by_judge(server, "committed", rows)
    first = ours.TopicPartition("committed", 0)
    with cluster_of(server) as cluster:
        assert cluster.groups.committed_offsets("reader", [first]) == {first: None}
        cluster.groups.commit("reader", {first: 7})
    with contextlib.closing(Consumer(settings(server.judge) | {"group.id": "reader"})) as consumer:
        (theirs,) = consumer.committed([TopicPartition("committed", 0)], timeout=SECONDS)
    assert theirs.offset == 7
    start = {"startingOffsets": "committed:earliest", "kafka.group.id": "reader"}
    assert len(read(server, "committed", **start)) == len(rows) - 7


def group(server: Running) -> None:
    """A member reads, and commits, what it is assigned."""
    create(server, "grouped")
    rows = records("grouped", 300)
    send_by_judge(server, "grouped", rows)
    chosen = {"subscribe": "grouped", "startingOffsets": "committed:earliest", "kafka.group.id": "group"}
    found: Rows = []
    by_s = time.monotonic() + SECONDS
    with Reader({**server.options, **chosen}) as reader, GroupMember(reader.cluster, "group", ["grouped"]) as member:
        positions = reader.positions()
        while len(found) < len(rows):
            assert time.monotonic() < by_s, f"the member read {len(found)} records"
            changes = member.poll(timeout_s=0.2)
            positions.drop(changes.lost | changes.revoked)
            positions.begin(changes.assigned)
            ranges = positions.next_ranges()
            found += pairs(reader.read(ranges))
            member.commit(positions.reached(ranges))
    assert sorted(found) == sorted(rows)


def exactly_once(server: Running) -> None:
    """A stream whose driver dies in the middle of a commit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Query, "make_topic", lambda query: create(server, query.topic))
        query = Query(server.servers, patch, server.judge, **server.options)
        query.run(1)
        query.crash_at = "half_ended"
        with contextlib.suppress(Crash):
            query.run(2)
        query.run(3)
        assert query.seen() == query.expected(3)


def lag(server: Running) -> None:
    create(server, "lagging")
    send_by_judge(server, "lagging", records("lagging", 100))
    with cluster_of(server) as cluster:
        cluster.groups.commit(
            "late", {ours.TopicPartition("lagging", partition): 10 for partition in server.partitions}
        )
    assert json.loads(command(server, "lag", "--group", "late", "--json"))["lag"] == 100 - 10 * len(server.partitions)


CHECKS = {
    "doctor": doctor,
    "create topic": create_topic,
    "metadata": metadata,
    "write": write,
    "large records": large_records,
    "read": read_all,
    "commit": commit,
    "group": group,
    "exactly once": exactly_once,
    "lag": lag,
}


# What they are made of.


class Refused(KafkaSourceError):
    """A command ended with an error, which is the text."""


def command(server: Running, *words: str) -> str:
    """What `pykafka` prints."""
    settings_of_client = server.options
    servers = settings_of_client.pop("kafka.bootstrap.servers")
    more = [
        word for name, value in settings_of_client.items() for word in ("-X", f"{name.removeprefix('kafka.')}={value}")
    ]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*words, "-b", servers, *more])
    if code and words[0] != "doctor":
        raise Refused(err.getvalue().strip())
    return out.getvalue()


def cluster_of(server: Running) -> Cluster:
    return Cluster(ClientConfig.from_options(option_table.parse({**server.options, "subscribe": "t"}, "source")))


def create(server: Running, topic: str) -> None:
    with cluster_of(server) as cluster:
        try:
            cluster.topics.create([topic], partitions=len(server.partitions), replication_factor=1)
        except UnsupportedApiVersion:  # such a server makes a topic that a client names
            AdminClient(server.judge).list_topics(topic, timeout=SECONDS)


def judged(server: Running) -> Mapping:
    """The topics, by name, as the judge sees them."""
    return AdminClient(server.judge).list_topics(timeout=SECONDS).topics


def records(text: str, count: int) -> Rows:
    return [(b"%d" % n, f"{text} {n}".encode()) for n in range(count)]


def send(server: Running, topic: str, rows: Rows) -> None:
    with Writer({**server.options, "topic": topic}) as writer:
        writer.write(pa.table({"key": [key for key, _ in rows], "value": [value for _, value in rows]}))


def send_by_judge(server: Running, topic: str, rows: Rows, codec: str = "none") -> None:
    """To each partition in turn."""
    said = set()
    count = len(server.partitions)
    producer = Producer({**server.judge, "compression.type": codec})
    for number, (key, value) in enumerate(rows):
        producer.produce(topic, value, key, number % count, on_delivery=lambda error, _: said.add(error))
    assert producer.flush(SECONDS) == 0
    assert said == {None}


def read(server: Running, topic: str, **options: str) -> Rows:
    with Reader({**server.options, "subscribe": topic, **options}) as reader:
        return sorted(pairs(reader))


def pairs(batches) -> Rows:
    return [(row["key"], row["value"]) for batch in batches for row in batch.select(["key", "value"]).to_pylist()]


def read_by_judge(server: Running, topic: str, partitions: Sequence[int] = ()) -> Rows:
    """`partitions`: all, if none is named."""
    found = messages_of(server.judge, topic, partitions or server.partitions)
    return sorted((message.key(), message.value()) for message in found)
