"""The same jobs on Kafka 0.8.2.2, 0.9.0.1, 3.9.2 and 4.3.1, with kafka-python at its api_version of that release beside
them: it reads what Spark wrote, writes what Spark reads, and sees the group's offsets as we see its. `make test` has
the oldest and the newest of them.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter

import pytest
from spark_releases import runs_here

import kafkasource
from kafkasource.errors import UnsupportedApiVersion
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.testing.broker import Broker
from kafkasource.types import TopicPartition

kafka = pytest.importorskip("kafka")
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.peers, pytest.mark.slow]

PARTITIONS = 3
CODECS = ["none", "gzip", "snappy"]
RELEASES = {"0.8.2.2": (0, 8, 2), "0.9.0.1": (0, 9), "3.9.2": (3, 9), "4.3.1": (4, 3)}
PATIENCE_S = 60  # for what comes on another thread
TIME = 1_700_000_000_000
# The oldest lack idempotence: a machine that stands still for the time of a request has its records written twice.
_PATIENT = {"kafka.request.timeout.ms": "600000", "kafka.delivery.timeout.ms": "660000"}


class Release:
    """One broker, our client, kafka-python and Spark on it."""

    def __init__(self, spark, version, broker):
        self.spark, self.version, self.servers = spark, version, broker.bootstrap_servers
        self.legacy = version.startswith("0.")
        self.peer = {"bootstrap_servers": self.servers, "api_version": RELEASES[version]}
        self.admin = Cluster(ClientConfig.of(self.servers))

    def topic(self, name="t"):
        """A new topic; brokers before 0.10.1 make it, of `num.partitions`, when they are asked about it."""
        topic = f"{name}-{uuid.uuid4().hex[:10]}"
        if not self.legacy:
            self.admin.topics.create([topic], partitions=PARTITIONS)
        assert len(self.admin.topics.describe([topic])[topic].partitions) == PARTITIONS
        return topic

    def partitions(self, topic):
        return [TopicPartition(topic, number) for number in range(PARTITIONS)]

    def reading(self, topic, *, stream=False, **options):
        reader = self.spark.readStream if stream else self.spark.read
        options = {"kafka.bootstrap.servers": self.servers, "subscribe": topic, **options}
        return reader.format("pykafka").options(**options).load()

    def write(self, frame, topic, **options):
        options = {"kafka.bootstrap.servers": self.servers, "topic": topic, **_PATIENT, **options}
        frame.write.format("pykafka").options(**options).mode("append").save()

    def pairs(self, topic, **options):
        """(key, value) of all records, by Spark, sorted."""
        rows = self.reading(topic, **options).select("key", "value").collect()
        return sorted((bytes(row.key), bytes(row.value)) for row in rows)

    def consumer(self, **options):
        return kafka.KafkaConsumer(**self.peer, enable_auto_commit=False, **options)

    def pairs_of_peer(self, topic):
        """(key, value) of all records, by kafka-python, sorted; each partition's in the order of their offsets."""
        consumer = self.consumer(auto_offset_reset="earliest")
        try:
            consumer.assign([kafka.TopicPartition(*tp) for tp in self.partitions(topic)])
            total, found = sum(self.ends(topic).values()), []
            deadline = time.monotonic() + PATIENCE_S
            while len(found) < total and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=1000).values():
                    found += [(record.key, record.value) for record in records]
        finally:
            consumer.close()
        assert len(found) == total
        return sorted(found)

    def ends(self, topic):
        return {
            tp: one.offset for tp, one in self.admin.offsets.list(dict.fromkeys(self.partitions(topic), -1)).items()
        }

    def produce(self, topic, records, codec):
        """(key, value) pairs, by kafka-python; what its answers say of each: (partition, offset)."""
        producer = kafka.KafkaProducer(
            **self.peer, compression_type=None if codec == "none" else codec, enable_idempotence=False
        )
        try:
            sent = [producer.send(topic, key=key, value=value, timestamp_ms=TIME) for key, value in records]
            producer.flush(timeout=PATIENCE_S)
            return [(one.get(1).partition, one.get(1).offset) for one in sent]
        finally:
            producer.close()


# The oldest. All other tests use the newest, and the releases between speak a part of the versions of both.
IN_MAKE_TEST = ("0.8.2.2",)


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name in IN_MAKE_TEST else pytest.mark.extended) for name in RELEASES],
)
def release(request, spark):
    kafkasource.register(spark)
    with Broker(version=request.param, use_existing=False, properties={"num.partitions": PARTITIONS}) as broker:
        made = Release(spark, request.param, broker)
        yield made
        made.admin.close()


def pairs(text, count):
    return [(b"%s-%d" % (text.encode(), i % 50), b"%d " % i * 30) for i in range(count)]


def frame_of(release, rows):
    """Rows that two tasks write; one on the oldest brokers. Up to 2.3 `Partition.maybeIncrementLeaderHW` compares the
    high watermark and sets it without a lock. Of two appends at once, the slower one can set it back: the last records
    stay hidden until the next append (seen), or their producer times out and writes them again.
    """
    return release.spark.createDataFrame(rows, "key binary, value binary").coalesce(1 if release.legacy else 2)


def differences(found, expected):
    """The pairs that are missing, and those that are there too often: fewer lines than both lists side by side."""
    found, expected = Counter(found), Counter(expected)
    return {"missing": expected - found, "too often": found - expected}


NONE = {"missing": Counter(), "too often": Counter()}


def test_kafka_python_reads_what_spark_wrote(release):
    topic, written = release.topic(), []
    for codec in CODECS:
        rows = pairs(codec, 500)
        release.write(frame_of(release, rows), topic, **{"kafka.compression.type": codec})
        written += rows
    assert differences(release.pairs_of_peer(topic), written) == NONE
    assert differences(release.pairs(topic), written) == NONE


def test_spark_reads_what_kafka_python_wrote(release):
    topic, expected = release.topic(), []
    for codec in CODECS:
        rows = pairs(codec, 300)
        places = release.produce(topic, rows, codec)
        expected += [(*place, *row) for place, row in zip(places, rows, strict=True)]
    # Small fetches end within message sets, begin within wrappers and find messages that are larger than they are.
    for most in ("1000000", "3000", "50"):
        rows = release.reading(topic, **{"kafka.max.partition.fetch.bytes": most}).collect()
        found = [(row.partition, row.offset, bytes(row.key), bytes(row.value)) for row in rows]
        assert sorted(found) == sorted(expected)
    kept = (-1, -1) if release.legacy else (0, TIME)  # timestamps came with Kafka 0.10
    assert {(row.timestampType, round(row.timestamp.timestamp() * 1000)) for row in rows} == {kept}


def test_a_stream_from_topic_to_topic_commits_what_it_has_read(release, tmp_path):
    source, sink, group = release.topic("in"), release.topic("out"), f"g-{uuid.uuid4().hex[:8]}"
    first, second = pairs("first", 400), pairs("second", 400)

    def run():
        frame = release.reading(source, stream=True, startingOffsets="earliest", **{"kafka.group.id": group})
        query = (
            frame.select("key", "value")
            .writeStream.format("pykafka")
            .options(**{"kafka.bootstrap.servers": release.servers, "topic": sink})
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    release.produce(source, first, "gzip")
    run()
    assert differences(release.pairs_of_peer(sink), first) == NONE
    release.produce(source, second, "snappy")
    run()
    assert differences(release.pairs_of_peer(sink), first + second) == NONE
    if not runs_here("last_group_commit"):
        run()
    consumer = release.consumer(group_id=group)
    deadline = time.monotonic() + PATIENCE_S
    try:
        while True:
            committed = {tp: consumer.committed(kafka.TopicPartition(*tp)) for tp in release.partitions(source)}
            if committed == release.ends(source) or time.monotonic() > deadline:
                break
    finally:
        consumer.close()
    assert committed == release.ends(source)
    assert release.admin.groups.committed_offsets(group, release.partitions(source)) == committed


def test_spark_goes_on_where_kafka_python_has_committed(release):
    topic, group = release.topic(), f"g-{uuid.uuid4().hex[:8]}"
    places = release.produce(topic, pairs("rest", 300), "none")
    consumer = release.consumer(group_id=group)
    try:
        consumer.assign([kafka.TopicPartition(*tp) for tp in release.partitions(topic)])
        consumer.commit(
            {kafka.TopicPartition(*tp): kafka.OffsetAndMetadata(20, "", -1) for tp in release.partitions(topic)}
        )
    finally:
        consumer.close()
    rows = release.reading(topic, startingOffsets="committed", **{"kafka.group.id": group}).collect()
    assert sorted((row.partition, row.offset) for row in rows) == sorted(place for place in places if place[1] >= 20)


def test_a_group_with_a_member_of_kafka_python_is_listed_and_described(release):
    topic, group = release.topic(), f"g-{uuid.uuid4().hex[:8]}"
    if release.version == "0.8.2.2":  # groups without members: ListGroups and DescribeGroups came with 0.9
        with pytest.raises(UnsupportedApiVersion, match="does not serve ListGroups"):
            release.admin.groups.list()
        with pytest.raises(UnsupportedApiVersion, match="does not serve DescribeGroups"):
            release.admin.groups.describe([group])
        return
    consumer = release.consumer(group_id=group, client_id="peer-of-ours")
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + PATIENCE_S
        while not consumer.assignment() and time.monotonic() < deadline:
            consumer.poll(timeout_ms=200)
        assert group in {one.group for one in release.admin.groups.list()}
        described = release.admin.groups.describe([group])[group]
        assert (described.state, [member.client_id for member in described.members]) == ("Stable", ["peer-of-ours"])
    finally:
        consumer.close()


def test_a_group_is_owned_where_brokers_have_members(release, tmp_path):
    topic, group = release.topic("owned"), f"g-{uuid.uuid4().hex[:8]}"
    rows = pairs("owned", 50)
    release.produce(topic, rows, "none")
    owning = {"kafka.group.id": group, "groupOwnership": "exclusive", "startingOffsets": "earliest"}
    query = (
        release.reading(topic, stream=True, **owning)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    if release.version == "0.8.2.2":
        with pytest.raises(Exception, match="does not serve JoinGroup"):
            query.awaitTermination(PATIENCE_S)
        return
    assert query.awaitTermination(PATIENCE_S)
    assert release.admin.groups.committed_offsets(group, release.partitions(topic)) == release.ends(topic)


def test_what_a_release_lacks_is_said_before_anything_is_written(release):
    if release.version != "0.8.2.2":
        pytest.skip("0.9 lacks the same, and the others have it all")
    topic = release.topic()
    frame = frame_of(release, pairs("refused", 3))
    lacks = {
        "exactly_once needs transactions": (
            frame,
            {"deliveryGuarantee": "exactly_once", "transactionalIdPrefix": "p"},
        ),
        "'kafka.enable.idempotence'=true needs Kafka 0.11": (frame, {"kafka.enable.idempotence": "true"}),
        "zstd: that needs Kafka 2.1": (frame, {"kafka.compression.type": "zstd"}),
        "timestamps: that needs Kafka 0.10": (frame.selectExpr("*", "timestamp'2024-01-01' AS timestamp"), {}),
        "headers: that needs Kafka 0.11": (
            frame.selectExpr("*", "array(named_struct('key', 'h', 'value', X'01')) AS headers"),
            {},
        ),
    }
    for text, (refused, options) in lacks.items():
        with pytest.raises(Exception, match=text):
            release.write(refused, topic, **options)
    with pytest.raises(Exception, match=r"'createTopic': .* does not exist"):
        release.write(frame, f"{topic}-missing", createTopic="partitions=3")
    with pytest.raises(Exception, match=r"needs Kafka\s+0\.10\.1"):
        release.reading(topic, startingTimestamp="1000").collect()
    assert release.pairs(topic) == []
