"""A mirror's rows, written by the sink to fake brokers: what is told of the offsets that they had and got."""

import json
import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType
from sink_fakes import AcknowledgingClient

from kafkasource.errors import OptionError
from kafkasource.mirror.offset_map import OffsetMapTopic
from kafkasource.sink import task
from kafkasource.sink.clusters import offset_map, targets
from kafkasource.sink.clusters.offset_map import NotRecorded
from kafkasource.sink.clusters.offset_spans import Mapped, OffsetSpan
from kafkasource.sink.clusters.producers import ClusterProducers
from kafkasource.sink.reports import ClusterReport, TaskReport
from kafkasource.sink.schema import InvalidSchema
from kafkasource.sink.writer import StreamWriter
from kafkasource.types import TopicPartition

SCHEMA = StructType(
    [
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)
ORDERS = [TopicPartition("orders", number) for number in range(2)]
EAST = {"kafka.bootstrap.servers": "east:1", "topic": "a.${topic}", "offsetMap": "map"}
LEADERS = {TopicPartition("a.orders", 0): 1, TopicPartition("a.orders", 1): 1, TopicPartition("a.other", 0): 1}


def rows(*places):
    """(topic, partition, offset) of each."""
    columns = [[b"v"] * len(places), *map(list, zip(*places, strict=True))]
    types = [pa.binary(), pa.string(), pa.int32(), pa.int64()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.record_batch(arrays, names=["value", "topic", "partition", "offset"])


@pytest.fixture
def written(monkeypatch):
    """From options of the one cluster and Arrow batches to what the task reports of it."""
    made = []

    def write(batches, *, first_offsets=None, produce_version=13, **own):
        def shared(found):
            client = AcknowledgingClient(LEADERS)
            client.produce_version = produce_version
            client.offsets.update(first_offsets or {})
            made.append(ClusterProducers(found["east"], clients=[client]))
            return {"east": made[-1]}

        monkeypatch.setattr(task, "shared_producers", shared)
        writer = StreamWriter(targets.parse({"clusters": json.dumps({"east": EAST | own})}), SCHEMA)
        return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(writer)).write(iter(batches)))).clusters["east"]

    yield write
    for each in made:
        each.close(0)


def test_a_task_tells_where_rows_lay_and_where_they_lie(written):
    first = rows(("orders", 0, 5), ("orders", 1, 70), ("orders", 0, 6), ("orders", 0, 7))
    second = rows(("orders", 1, 71), ("orders", 0, 8))
    report = written([first, second], first_offsets={TopicPartition("a.orders", 0): 100})
    assert report.mapped == {
        ORDERS[0]: Mapped("a.orders", (OffsetSpan(5, 9, 100, 104, 95),)),
        ORDERS[1]: Mapped("a.orders", (OffsetSpan(70, 72, 0, 2, -70),)),
    }


def test_rows_of_topics_that_a_cluster_does_not_get_are_neither_written_nor_mapped(written):
    report = written([rows(("orders", 0, 5), ("other", 0, 1), ("orders", 0, 6))], onlyTopics="^orders$")
    assert report.written.keys() == {TopicPartition("a.orders", 0)}
    assert report.written[TopicPartition("a.orders", 0)].records == 2
    assert report.mapped.keys() == {ORDERS[0]}
    assert not report.discarded


@pytest.mark.parametrize(
    ("common", "own", "named"),
    [
        ({}, {"kafka.acks": "1"}, "'kafka.acks'=1"),
        ({"kafka.acks": "0"}, {}, "'kafka.acks'=0"),
        ({}, {"kafka.enable.idempotence": "false"}, "'kafka.enable.idempotence'=false"),
        ({}, {"kafka.retries": "0"}, "'kafka.retries'=0"),
        ({"kafka.enable.idempotence": "false", "kafka.acks": "1"}, {}, "'kafka.enable.idempotence'=false"),
    ],
)
def test_a_map_of_offsets_is_refused_where_retries_may_change_the_order_of_rows(common, own, named):
    """Before a task runs. Without the map, or with idempotence, the same options are taken."""
    with pytest.raises(
        OptionError, match="cluster 'east' of 'clusters': option 'offsetMap' cannot be combined with"
    ) as caught:
        targets.parse({"clusters": json.dumps({"east": EAST | own})} | common)
    assert named in str(caught.value)
    assert "offset_map = false" in str(caught.value)  # what a mirror's file says
    without = {key: text for key, text in EAST.items() if key != "offsetMap"}
    targets.parse({"clusters": json.dumps({"east": without | own})} | common)
    idempotent = {"kafka.acks": "all", "kafka.enable.idempotence": "true", "kafka.retries": "1"}
    targets.parse({"clusters": json.dumps({"east": EAST | {key: idempotent[key] for key in own}})})


def test_offsets_that_a_broker_before_0_11_gave_are_left_out_and_that_is_said_once(written, caplog):
    """No sequences there: a batch whose answer was lost is stored again, behind others."""
    places = [("orders", 0, 5), ("orders", 1, 70), ("orders", 0, 6)]
    report = written([rows(*places[:2]), rows(*places[2:])], produce_version=2)
    assert {tp.partition: one.records for tp, one in report.written.items()} == {0: 2, 1: 1}
    assert report.mapped == dict.fromkeys(ORDERS, Mapped("a.orders", ()))
    said = [text for text in caplog.messages if "'offsetMap'" in text]
    assert said == [
        "cluster 'east': its brokers are older than Kafka 0.11 and keep no order over retries: 'offsetMap' leaves "
        "these rows out"
    ]


def test_the_columns_that_a_map_needs_are_asked_for():
    named = targets.parse({"clusters": json.dumps({"east": EAST})})
    with pytest.raises(InvalidSchema, match="'offsetMap' needs the column 'offset'"):
        StreamWriter(named, StructType(SCHEMA.fields[:3]))


def reports(*spans):
    return [TaskReport({"east": ClusterReport(mapped={ORDERS[0]: Mapped("a.orders", (one,))})}) for one in spans]


def test_the_commit_gives_the_map_what_all_tasks_told(monkeypatch):
    told = []
    monkeypatch.setattr(offset_map, "record", lambda _, *arguments: told.append(arguments) or Recorded())
    writer = StreamWriter(targets.parse({"clusters": json.dumps({"east": EAST})}), SCHEMA, OffsetMapTopic)
    writer.commit([*reports(OffsetSpan(5, 9, 0, 4, -5), OffsetSpan(9, 12, 4, 7, -5)), None], 3)
    ((config, topic, mapped),) = told
    assert (config.bootstrap_servers, topic) == ((("east", 1),), "map")
    assert mapped == {ORDERS[0]: Mapped("a.orders", (OffsetSpan(5, 12, 0, 7, -5),))}
    writer.commit([TaskReport({"east": ClusterReport()})], 4)
    assert len(told) == 1  # nothing to tell


class Recorded:
    """A recorder that has written, or has not; how long it was waited for."""

    def __init__(self, error=None):
        self._error = error
        self.waited_ms = []

    def wait(self, wait_ms):
        self.waited_ms.append(wait_ms)
        if self._error is not None:
            raise self._error


def test_a_map_that_cannot_be_written_does_not_undo_what_is(monkeypatch, caplog):
    monkeypatch.setattr(offset_map, "record", lambda *_: Recorded(NotRecorded("map lacks orders-0 [5, 9)")))
    writer = StreamWriter(targets.parse({"clusters": json.dumps({"east": EAST})}), SCHEMA, OffsetMapTopic)
    writer.commit(reports(OffsetSpan(5, 9, 0, 4, -5)), 3)
    assert "cluster 'east': the map of offsets is not complete: map lacks orders-0 [5, 9)" in caplog.text


def test_a_cluster_that_discards_holds_up_the_commit_for_slow_cluster_wait_at_most(monkeypatch):
    recorders = {("dead", 1): Recorded(NotRecorded("away")), ("east", 1): Recorded()}
    handed_over = []

    def record(open_topic, config, topic, mapped):
        handed_over.append(config.bootstrap_servers[0])
        assert not any(recorder.waited_ms for recorder in recorders.values())  # all get theirs before one is waited for
        return recorders[config.bootstrap_servers[0]]

    monkeypatch.setattr(offset_map, "record", record)
    dead = {**EAST, "kafka.bootstrap.servers": "dead:1", "onSlowCluster": "discard", "slowClusterWait": "700ms"}
    writer = StreamWriter(targets.parse({"clusters": json.dumps({"dead": dead, "east": EAST})}), SCHEMA, OffsetMapTopic)
    mapped = ClusterReport(mapped={ORDERS[0]: Mapped("a.orders", (OffsetSpan(5, 9, 0, 4, -5),))})
    writer.commit([TaskReport({"dead": mapped, "east": mapped})], 3)
    assert handed_over == list(recorders)
    assert recorders["dead", 1].waited_ms[0] <= 700
    assert 700 < recorders["east", 1].waited_ms[0] <= 60_000
