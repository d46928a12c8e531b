"""Rows to three real clusters: everything everywhere, and what a cluster that dies half way costs under each policy."""

import json
import pickle
import threading
import uuid

import pyarrow as pa
import pytest
from confluent_reader import messages_of
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.mirror.offset_map import OffsetMapTopic
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.fan_out import SlowCluster
from kafkasource.sink.writer import BatchWriter
from kafkasource.testing.broker import Broker
from kafkasource.types import TopicPartition

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
MIRRORED = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("value", BinaryType()),
    ]
)
PARTITIONS, ROWS, PER_BATCH = 4, 200_000, 5_000
FEW_BYTES = {
    "kafka.buffer.memory": "4194304",
    "kafka.batch.size": "65536",
}  # so that a dead cluster's queue is soon full


@pytest.fixture(scope="module")
def clusters(kafka_broker):
    """The suite's broker and two of our own, the last of which tests kill."""
    settings = {"heap_mb": 256, "use_existing": False}
    with Broker(**settings) as second, Broker(**settings) as third:
        yield {"east": kafka_broker, "west": second, "south": third}


@pytest.fixture
def topic(clusters):
    name = "t" + uuid.uuid4().hex[:8]
    for broker in clusters.values():
        with Cluster(ClientConfig.of(broker.bootstrap_servers)) as cluster:
            cluster.topics.create([name], partitions=PARTITIONS, replication_factor=1)
    return name


def rows(half_way=lambda: None):
    """Each row's value is its number, so that a key's rows tell their order."""
    for first in range(0, ROWS, PER_BATCH):
        if first == ROWS // 2:
            half_way()
        numbers = range(first, first + PER_BATCH)
        keys = pa.array([b"k%d" % (number % 97) for number in numbers], pa.binary())
        yield pa.record_batch([keys, pa.array([b"%0100d" % n for n in numbers], pa.binary())], names=["key", "value"])


def write(clusters, topic, batches, **options):
    servers = {name: {"kafka.bootstrap.servers": broker.bootstrap_servers} for name, broker in clusters.items()}
    written = {"clusters": json.dumps(servers), "topic": topic} | FEW_BYTES | options
    writer = pickle.loads(pickle.dumps(BatchWriter(targets.parse(written), SCHEMA)))
    return writer.write(batches).clusters


def read(broker, topic):
    """{key: [numbers]} in the order of the log, by librdkafka."""
    found = {}
    for message in messages_of(broker.bootstrap_servers, topic, range(PARTITIONS), settled=True):
        found.setdefault(message.key(), []).append(int(message.value()))
    return found


def expected():
    return {b"k%d" % key: list(range(key, ROWS, 97)) for key in range(97)}


@pytest.mark.parametrize(("codec", "producers"), [("none", "4"), ("zstd", "1"), ("zstd", "4")])
def test_every_cluster_has_every_row_and_each_key_in_order(clusters, topic, codec, producers):
    """Compressed once for all, with a codec."""
    options = {"kafka.compression.type": codec, "producersPerCluster": producers}
    reports = write(clusters, topic, rows(), **options)
    assert all(not report.discarded for report in reports.values())
    for broker in clusters.values():
        assert read(broker, topic) == expected()


def test_a_cluster_killed_half_way_loses_rows_under_discard_and_the_others_none(clusters, topic):
    south = clusters["south"]
    try:
        reports = write(
            clusters, topic, rows(south.kill), onSlowCluster="discard", **{"clusters.east.onSlowCluster": "block"}
        )
    finally:
        south.restart()
    for name in ("east", "west"):
        assert not reports[name].discarded
        assert read(clusters[name], topic) == expected()
    written = sum(one.records for one in reports["south"].written.values())
    discarded = sum(one.records for one in reports["south"].discarded.values())
    assert discarded > 0
    assert written + discarded == ROWS
    there = read(south, topic)
    assert written <= sum(len(numbers) for numbers in there.values()) <= ROWS  # what was on the wire may be there, too
    for numbers in there.values():
        assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("producers", ["1", "4"])
def test_a_cluster_killed_half_way_gets_every_row_once_when_it_comes_back_under_block(clusters, topic, producers):
    south = clusters["south"]
    back = threading.Thread(target=south.restart)

    def half_way():
        south.kill()
        back.start()

    # A restarted broker knows only a producer's last batch, so each partition has one on its way.
    one_in_flight = {"kafka.max.in.flight.requests.per.connection": "1"}
    reports = write(clusters, topic, rows(half_way), producersPerCluster=producers, **one_in_flight)
    back.join()
    for name, broker in clusters.items():
        assert sum(one.records for one in reports[name].written.values()) == ROWS
        assert read(broker, topic) == expected()


def test_block_waits_for_a_cluster_that_is_down_with_a_topic_that_this_worker_has_not_seen(clusters, topic, caplog):
    south, seen = clusters["south"], f"{topic}-seen"
    with Cluster(ClientConfig.of(south.bootstrap_servers)) as cluster:
        cluster.topics.create([seen], partitions=1, replication_factor=1)
    only = {"south": south}
    quick = {"kafka.max.block.ms": "200"}
    write(only, seen, [pa.record_batch([[b"k"], [b"v"]], names=["key", "value"])], **quick)  # its brokers are known now
    south.pause()
    reports = []
    task = threading.Thread(target=lambda: reports.append(write(only, topic, rows(), **quick)))
    try:
        with caplog.at_level("WARNING", "kafkasource.sink"):
            task.start()
            while caplog.text.count("the task waits for it") < 3:
                assert task.is_alive()
                threading.Event().wait(0.01)
    finally:
        south.resume()
        task.join()
    assert not reports[0]["south"].discarded
    assert read(south, topic) == expected()


def test_a_cluster_that_discards_and_dies_before_the_commit_delays_no_others_map_of_offsets(clusters, topic, caplog):
    south = clusters["south"]
    maps = f"{topic}-map"
    for broker in clusters.values():
        with Cluster(ClientConfig.of(broker.bootstrap_servers)) as cluster:
            cluster.topics.create([maps], replication_factor=1)
    servers = {name: {"kafka.bootstrap.servers": broker.bootstrap_servers} for name, broker in clusters.items()}
    # South is asked first, and only its policy bounds the wait for it.
    away = dict.fromkeys(("kafka.default.api.timeout.ms", "kafka.delivery.timeout.ms"), 3_600_000)
    away |= {"onSlowCluster": "discard", "kafka.request.timeout.ms": 3_000_000}
    servers = {"south": {**servers["south"], **away}, "east": servers["east"], "west": servers["west"]}
    named = targets.parse({"clusters": json.dumps(servers), "offsetMap": maps})
    writer = pickle.loads(pickle.dumps(BatchWriter(named, MIRRORED, OffsetMapTopic)))
    report = writer.write([mirrored(topic, 100)])
    assert not report.clusters["south"].discarded
    south.pause()
    try:
        with caplog.at_level("WARNING", "kafkasource.sink"):
            writer.commit([report])
    finally:
        south.resume()
    assert f"cluster 'south': the map of offsets is not complete: {maps} lacks the offsets of {topic}-0 [0, 100)" in (
        caplog.text
    )
    for name in ("east", "west"):
        with OffsetMapTopic(ClientConfig.of(clusters[name].bootstrap_servers), maps) as offset_map:
            (span,) = offset_map.read()[TopicPartition(topic, 0)].spans
        assert span == (0, 100, 0, 100, 0)


def mirrored(topic, count):
    """Rows as a mirror's read gives them, of partition 0."""
    columns = {
        "topic": pa.array([topic] * count),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
        "value": pa.array([b"v"] * count, pa.binary()),
    }
    return pa.record_batch(columns)


@pytest.mark.extended
def test_a_cluster_killed_half_way_fails_the_task_where_that_is_asked_for(clusters, topic):
    south = clusters["south"]
    with_fail = {"clusters.south.onSlowCluster": "fail"}
    try:
        with pytest.raises(SlowCluster, match="'south'"):
            write(clusters, topic, rows(south.kill), **with_fail)
    finally:
        south.restart()
