"""The writers as Spark calls them with several clusters: reports, listener, and exactly once in each cluster."""

import json
from dataclasses import replace

import pytest
from producers_of_fakes import SCHEMA, TWO, FakeProducer, Spark, T
from transaction_fakes import Crash, FakeTransactionCluster

from kafkasource.errors import error_for
from kafkasource.exactly_once.errors import CheckpointBehind, LostTransactions, NotDecided
from kafkasource.kafka.process import Use
from kafkasource.sink.clusters import producers as producers_module
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.offset_spans import Mapped, OffsetSpan
from kafkasource.sink.commit_report import SinkCommit
from kafkasource.sink.reports import ClusterReport, TaskReport
from kafkasource.sink.writer import StreamWriter
from kafkasource.types import Discarded, Written

TOPIC = {"topic": "t"}
commits = []


def listener(commit):
    commits.append(commit)


def test_commit_tells_the_listener_of_each_cluster_with_what_was_discarded(caplog):
    commits.clear()
    east = ClusterReport({T[0]: Written(3, 90, 10, 12)})
    west = ClusterReport({T[0]: Written(1, 30, 0, 0)}, {T[1]: Discarded(2, 40)})
    writer = StreamWriter(
        targets.parse(TWO | TOPIC | {"commitListener": f"{__name__}:listener", "queryName": "q"}), SCHEMA
    )
    with caplog.at_level("INFO", "kafkasource.sink"):
        writer.commit([TaskReport({"east": east, "west": west}, query_id="i"), None] * 2, 4)
    assert commits == [
        SinkCommit({T[0]: Written(6, 180, 10, 12)}, 2, 4, "i", "q", cluster="east"),
        SinkCommit({T[0]: Written(2, 60, 0, 0)}, 2, 4, "i", "q", cluster="west", discarded={T[1]: Discarded(4, 80)}),
    ]
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert caplog.records[1].message.endswith("; discarded 4 records of 80 bytes (t-1 4)")
    assert "to cluster west" in caplog.records[1].message


# Exactly once, on clusters of the tests' own. What is so with one cluster, too: test_exactly_once_writers.py.

VALUES = [b"%d" % number for number in range(20)]


def test_a_topic_that_one_cluster_refuses_is_left_out_there_and_the_batch_is_decided_in_all(monkeypatch):
    """The option `refusedTopics` of a mirror does this. The other cluster gets all, and a replay writes nothing."""

    def refuse(producer, topic, *_):
        if producer.cluster is spark.clusters["west"]:
            raise error_for(17, f"topic {topic!r}")  # INVALID_TOPIC_EXCEPTION
        return producer.metadata.topic(topic)

    monkeypatch.setattr(FakeProducer, "await_topic", refuse)
    spark = Spark(monkeypatch, **TWO, **{"clusters.west.refusedTopics": "[]"})
    for _ in range(2):
        messages = [spark.task(spark.sent(), 0, *VALUES)]
        spark.writer().commit(messages, 0)
        assert (spark.seen("east"), spark.seen("west")) == (sorted(VALUES), [])
    assert [one.written for one in messages[0].clusters.values()] == [{}, {}]


def test_the_first_batch_of_a_cluster_that_is_added_later_is_warned_of_and_the_others_are_not_written_twice(
    monkeypatch, caplog
):
    spark = Spark(monkeypatch, **TWO, producersPerCluster="2")
    spark.commit(*VALUES)
    spark.clusters["west"] = FakeTransactionCluster(2)  # where nothing was written so far
    for spark.batch_id in (1, 2):
        spark.commit(*VALUES)
    assert spark.seen("east") == sorted(3 * VALUES)
    assert spark.seen("west") == sorted(2 * VALUES)
    (warning,) = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert "batch 1 is the first that query q decides under 'p-west'" in warning


def test_of_several_producers_lost_rows_are_not_known_so_they_are_not_written_again(monkeypatch):
    spark = Spark(monkeypatch, **TWO, producersPerCluster="2", lostTransactions="rewrite")
    messages = [spark.task(spark.sent(), 0, *VALUES)]
    west = spark.clusters["west"]
    west.crash_before = "end p-west-0 True"
    with pytest.raises(Crash):
        spark.writer().commit(messages, 0)
    west.time_is_up()
    with pytest.raises(LostTransactions, match=r"'producersPerCluster' above 1 the missing rows are not known"):
        spark.task(spark.sent(), 0, *VALUES)


def test_each_producer_of_a_cluster_has_a_transaction_of_its_own(monkeypatch):
    spark = Spark(monkeypatch, **TWO, producersPerCluster="2")
    sent = spark.sent()
    for slot in (0, 1):
        spark.task(sent, slot, *VALUES)
    names = {f"p-east-{slot}" for slot in range(4)} | {"p-east-driver"}
    assert set(spark.clusters["east"].by_id) == names
    assert set(spark.clusters["west"].by_id) == {name.replace("east", "west") for name in names}


@pytest.mark.parametrize("producers", ["1", "3"])
def test_a_crash_at_any_call_leaves_each_cluster_with_the_batch_once(monkeypatch, producers):
    """The driver's process is gone at each call to either cluster in turn; the query starts again, and replays."""
    crashes = 0
    for name in ("east", "west"):
        for when in ("before", "after"):
            for call in range(200):
                spark = Spark(monkeypatch, **TWO, producersPerCluster=producers)
                sent = spark.sent()
                messages = [spark.task(sent, 0, *VALUES)]
                cluster = spark.clusters[name]
                cluster.crash_at = {len(cluster.calls) + call: when}
                try:
                    spark.writer().commit(messages, 0)
                except Crash:
                    crashes += 1
                else:
                    break
                cluster.crash_at = {}
                again = spark.sent()
                spark.writer().commit([spark.task(again, 0, *VALUES)], 0)
                assert spark.seen() == sorted(VALUES)
    assert crashes >= 16


def test_what_one_cluster_cannot_decide_the_others_skip_when_it_is_written_again(monkeypatch):
    spark = Spark(monkeypatch, **TWO)
    sent = spark.sent()
    messages = [spark.task(sent, 0, *VALUES)]
    spark.clusters["west"].time_is_up()  # the brokers of one have aborted it by then
    with pytest.raises(NotDecided):
        spark.writer().commit(messages, 0)
    spark.writer().abort(messages, 0)
    assert (spark.seen("east"), spark.seen("west")) == (sorted(VALUES), [])
    sent = spark.sent()
    messages = [spark.task(sent, 0, *VALUES)]
    assert [sum(w.records for w in one.written.values()) for one in messages[0].clusters.values()] == [0, 20]
    spark.writer().commit(messages, 0)
    assert spark.seen() == sorted(VALUES)


class MapTopic:
    """Keeps what is written to the topic of a map."""

    def __init__(self):
        self.written = {}

    def add(self, mapped):
        self.written.update(mapped)


def test_what_one_cluster_cannot_decide_is_in_the_map_of_another_that_has_it(monkeypatch):
    """When the batch is written again, the other skips it and knows no offsets of its rows."""
    spark, topic = Spark(monkeypatch, **TWO), MapTopic()
    report = spark.task(spark.sent(), 0, *VALUES)
    offsets = {T[0]: Mapped("t", (OffsetSpan(0, 20, 0, 20, 0),)), T[1]: Mapped("t", ())}
    report = replace(report, clusters=report.clusters | {"east": replace(report.clusters["east"], mapped=offsets)})
    spark.clusters["west"].time_is_up()
    writer = spark.writer()
    writer._targets = writer._targets | {"east": replace(writer._targets["east"], offset_map="map of east")}
    writer._open_map = lambda config, name: topic
    with pytest.raises(NotDecided):
        writer.commit([report], 0)
    assert topic.written == {T[0]: offsets[T[0]]}


def test_other_rows_in_a_cluster_that_has_the_batch_keep_it_from_one_that_has_not(monkeypatch):
    spark = Spark(monkeypatch, **TWO)
    messages = [spark.task(spark.sent(), 0, *VALUES)]
    spark.clusters["east"].time_is_up()
    with pytest.raises(NotDecided):
        spark.writer().commit(messages, 0)
    spark.writer().abort(messages, 0)
    sent = spark.sent()  # begins west's batch, which is not decided yet
    spark.writer().commit([spark.task(sent, 0, *VALUES)], 0)
    spark.clusters["east"] = FakeTransactionCluster(2)
    messages = [spark.task(spark.sent(), 0, *VALUES, b"new")]
    with pytest.raises(CheckpointBehind, match=r"with 20 rows \(.*\), and now it has 21 rows"):
        spark.writer().commit(messages, 0)
    assert (spark.seen("east"), spark.seen("west")) == ([], sorted(VALUES))


@pytest.mark.parametrize("options", [{"onlyTopics": "t"}, {"unlessHeader": "origin=here"}])
def test_a_cluster_that_may_leave_rows_out_compares_those_that_it_takes(monkeypatch, options):
    spark = Spark(monkeypatch, **TWO, **options)
    spark.commit(*VALUES)
    spark.commit(*VALUES)
    messages = [spark.task(spark.sent(), 0, *VALUES[:-1])]
    with pytest.raises(CheckpointBehind, match=r"with 20 rows \(.*\), and now it has 19 rows"):
        spark.writer().commit(messages, 0)
    assert spark.seen() == sorted(VALUES)


def test_a_worker_keeps_its_producers_for_the_next_task_and_not_for_ever(monkeypatch):
    now = [0.0]

    class Kept:
        def __init__(self, target):
            self.target, self.usable, self.closed, self.producers = target, True, False, ()
            self.use = Use(lambda: now[0])

        def close(self, timeout_ms):
            self.closed = True

    monkeypatch.setattr(producers_module, "ClusterProducers", Kept)
    monkeypatch.setattr(producers_module._cache, "values", {})
    shared = producers_module.shared_producers
    found = targets.parse(TWO | TOPIC).by_name
    first = shared(found)
    assert shared(found) == first
    first["east"].usable = False
    again = shared(found)
    assert (again["east"] is first["east"], again["west"] is first["west"]) == (False, True)
    now[0] += 61  # seconds: no task uses these
    many = {f"c{n}": {"kafka.bootstrap.servers": f"c{n}:1"} for n in range(20)}
    others = shared(targets.parse({"clusters": json.dumps(many), "topic": "t"}).by_name)
    assert len(others) == 20
    assert not any(one.closed for one in others.values())  # type: ignore[attr-defined]
    assert again["west"].closed  # type: ignore[attr-defined]
    now[0] += 61
    with others["c0"].use.using():
        shared(targets.parse({"clusters": json.dumps({"c20": {"kafka.bootstrap.servers": "c20:1"}})}).by_name)
    assert [name for name, one in others.items() if not one.closed] == ["c0", *(f"c{n}" for n in range(14, 20))]  # type: ignore[attr-defined]
