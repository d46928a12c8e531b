"""The writers as Spark calls them with several clusters: reports, listener, and exactly once in each cluster."""

import json
import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from packed_values import packed
from producers_of_fakes import FakeProducer, FakeProducers
from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.types import BinaryType, StructField, StructType
from sink_fakes import AcknowledgingClient
from transaction_fakes import Crash, FakeContext, FakeTransactionCluster, read_committed

from kafkasource.datasource import KafkaDataSource
from kafkasource.errors import OptionError, UnsupportedApiVersion, error_for
from kafkasource.exactly_once.driver import begin
from kafkasource.exactly_once.errors import CheckpointBehind, LostTransactions, NotDecided
from kafkasource.kafka.cluster.cache import Use
from kafkasource.kafka.protocol.apis import INIT_PRODUCER_ID
from kafkasource.sink import task as task_module
from kafkasource.sink import writer as writer_module
from kafkasource.sink.clusters import producers as producers_module
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.offset_spans import Mapped, OffsetSpan
from kafkasource.sink.clusters.producers import ClusterProducers
from kafkasource.sink.columns import InvalidSchema
from kafkasource.sink.commit_report import SinkCommit
from kafkasource.sink.reports import ClusterReport, TaskReport
from kafkasource.sink.writer import BatchWriter, StreamWriter
from kafkasource.spark.releases import DataSourceStreamArrowWriter
from kafkasource.types import Discarded, TopicPartition, Written

SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
T = [TopicPartition("t", number) for number in range(3)]
CLUSTERS = {name: {"kafka.bootstrap.servers": f"{name}:1"} for name in ("east", "west")}

commits = []


def listener(commit):
    commits.append(commit)


def written(**options):
    return {"clusters": json.dumps(CLUSTERS), "topic": "t"} | options


def batch(*values):
    keys = pa.array([b"k" + value for value in values], pa.binary())
    return pa.record_batch([keys, pa.array(values, pa.binary())], names=["key", "value"])


def test_spark_is_given_arrow_writers_where_clusters_are_named():
    source = KafkaDataSource(written())
    assert isinstance(source.writer(SCHEMA, overwrite=False), (BatchWriter, DataSourceArrowWriter))
    assert isinstance(source.streamWriter(SCHEMA, overwrite=False), (StreamWriter, DataSourceStreamArrowWriter))
    with pytest.raises(OptionError, match="Overwrite"):
        source.writer(SCHEMA, overwrite=True)
    with pytest.raises(InvalidSchema, match="topic option required"):
        BatchWriter(targets.parse({"clusters": json.dumps(CLUSTERS)}), SCHEMA)


def test_a_writer_crosses_to_the_tasks_and_its_report_comes_back(monkeypatch):
    made = {}

    def shared(found):
        for name, target in found.items():
            made[name] = ClusterProducers(target, clients=[AcknowledgingClient({T[0]: 1})])
        return made

    monkeypatch.setattr(task_module, "shared_producers", shared)
    writer = pickle.loads(pickle.dumps(StreamWriter(targets.parse(written()), SCHEMA)))
    report = pickle.loads(pickle.dumps(writer.write(iter([batch(b"a", b"b"), batch(b"c")]))))
    for each in made.values():
        each.close(0)
    assert {name: one.written[T[0]].records for name, one in report.clusters.items()} == {"east": 3, "west": 3}


def test_commit_tells_the_listener_of_each_cluster_with_what_was_discarded(caplog):
    commits.clear()
    east = ClusterReport({T[0]: Written(3, 90, 10, 12)})
    west = ClusterReport({T[0]: Written(1, 30, 0, 0)}, {T[1]: Discarded(2, 40)})
    writer = StreamWriter(targets.parse(written(commitListener=f"{__name__}:listener", queryName="q")), SCHEMA)
    with caplog.at_level("INFO", "kafkasource.sink"):
        writer.commit([TaskReport({"east": east, "west": west}, query_id="i"), None] * 2, 4)
    assert commits == [
        SinkCommit({T[0]: Written(6, 180, 10, 12)}, 2, 4, "i", "q", cluster="east"),
        SinkCommit({T[0]: Written(2, 60, 0, 0)}, 2, 4, "i", "q", cluster="west", discarded={T[1]: Discarded(4, 80)}),
    ]
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert caplog.records[1].message.endswith("; discarded 4 records of 80 bytes (t-1 4)")
    assert "to cluster west" in caplog.records[1].message


# Exactly once, on clusters of the tests' own.


class Spark:
    """One process for all: what differs is which writer object is called."""

    def __init__(self, monkeypatch, kind=StreamWriter, **options):
        self.monkeypatch, self.kind, self.batch_id = monkeypatch, kind, 0
        self.clusters = {name: FakeTransactionCluster(2) for name in CLUSTERS}
        self.options = {"transactionalIdPrefix": "p", "deliveryGuarantee": "exactly_once"} | options

        def shared_cluster(config):
            return self.clusters[config.bootstrap_servers[0][0]]

        monkeypatch.setattr(writer_module, "shared_cluster", shared_cluster)

        def shared_producers(found):
            return {name: FakeProducers(target, self.clusters[name], T) for name, target in found.items()}

        monkeypatch.setattr(task_module, "shared_producers", shared_producers)

    def writer(self):
        return self.kind(targets.parse(written(**self.options)), SCHEMA)

    def sent(self):
        writer = self.writer()
        first = pickle.dumps(writer)
        assert pickle.dumps(writer) == first
        return first

    def task(self, sent, slot, *values):
        context = FakeContext(slot, batch_id=self.batch_id)
        self.monkeypatch.setattr(writer_module.TaskContext, "get", lambda: context)  # type: ignore[attr-defined]
        return pickle.loads(pickle.dumps(pickle.loads(sent).write(iter([batch(*values)]))))

    def seen(self, name):
        return sorted(row for tp in T for row in read_committed(self.clusters[name].logs[tp]))


VALUES = [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("options", [{}, {"producersPerCluster": "4"}, {"atomicBatch": "true"}])
def test_each_cluster_shows_a_micro_batch_once_committed_and_its_replay_writes_nothing(monkeypatch, options):
    spark = Spark(monkeypatch, **options)
    for _ in range(2):
        sent = spark.sent()
        messages = [spark.task(sent, 0, *VALUES)]
        assert spark.seen("east") in ([], sorted(VALUES))
        spark.writer().commit(messages, 0)
        assert spark.seen("east") == spark.seen("west") == sorted(VALUES)
    assert [one.written for one in messages[0].clusters.values()] == [{}, {}]


def test_a_topic_that_one_cluster_refuses_is_left_out_there_and_the_batch_is_decided_in_all(monkeypatch):
    """The option `refusedTopics` of a mirror does this. The other cluster gets all, and a replay writes nothing."""

    def refuse(producer, topic, *_):
        if producer.cluster is spark.clusters["west"]:
            raise error_for(17, f"topic {topic!r}")  # INVALID_TOPIC_EXCEPTION
        return producer.metadata.topic(topic)

    monkeypatch.setattr(FakeProducer, "await_topic", refuse)
    spark = Spark(monkeypatch, **{"clusters.west.refusedTopics": "[]"})
    for _ in range(2):
        messages = [spark.task(spark.sent(), 0, *VALUES)]
        spark.writer().commit(messages, 0)
        assert (spark.seen("east"), spark.seen("west")) == (sorted(VALUES), [])
    assert [one.written for one in messages[0].clusters.values()] == [{}, {}]


def test_the_first_batch_of_a_cluster_that_is_added_later_is_warned_of_and_the_others_are_not_written_twice(
    monkeypatch, caplog
):
    spark = Spark(monkeypatch, producersPerCluster="2")
    spark.writer().commit([spark.task(spark.sent(), 0, *VALUES)], 0)
    spark.clusters["west"] = FakeTransactionCluster(2)  # where nothing was written so far
    for spark.batch_id in (1, 2):
        spark.writer().commit([spark.task(spark.sent(), 0, *VALUES)], spark.batch_id)
    assert spark.seen("east") == sorted(3 * VALUES)
    assert spark.seen("west") == sorted(2 * VALUES)
    (warning,) = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert "batch 1 is the first that query q decides under 'p-west'" in warning


def test_of_several_producers_lost_rows_are_not_known_so_they_are_not_written_again(monkeypatch):
    spark = Spark(monkeypatch, producersPerCluster="2", lostTransactions="rewrite")
    messages = [spark.task(spark.sent(), 0, *VALUES)]
    west = spark.clusters["west"]
    west.crash_before = "end p-west-0 True"
    with pytest.raises(Crash):
        spark.writer().commit(messages, 0)
    west.time_is_up()
    with pytest.raises(LostTransactions, match=r"'producersPerCluster' above 1 the missing rows are not known"):
        spark.task(spark.sent(), 0, *VALUES)


def test_each_producer_of_a_cluster_has_a_transaction_of_its_own(monkeypatch):
    spark = Spark(monkeypatch, producersPerCluster="2")
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
    for name in CLUSTERS:
        for when in ("before", "after"):
            for call in range(200):
                spark = Spark(monkeypatch, producersPerCluster=producers)
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
                assert spark.seen("east") == spark.seen("west") == sorted(VALUES)
    assert crashes >= 16


def test_brokers_before_transactions_are_refused_by_name_before_any_cluster_is_begun(monkeypatch):
    spark = Spark(monkeypatch)
    spark.clusters["west"].unserved = {INIT_PRODUCER_ID}
    with pytest.raises(UnsupportedApiVersion, match=r"cluster 'west' of 'clusters': .*exactly_once needs"):
        spark.sent()
    assert spark.clusters["east"].calls == spark.clusters["west"].calls == []


def test_what_one_cluster_cannot_decide_the_others_skip_when_it_is_written_again(monkeypatch):
    spark = Spark(monkeypatch)
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
    assert spark.seen("east") == spark.seen("west") == sorted(VALUES)


class MapTopic:
    """Keeps what is written to the topic of a map."""

    def __init__(self):
        self.written = {}

    def add(self, mapped):
        self.written.update(mapped)


def test_what_one_cluster_cannot_decide_is_in_the_map_of_another_that_has_it(monkeypatch):
    """When the batch is written again, the other skips it and knows no offsets of its rows."""
    spark, topic = Spark(monkeypatch), MapTopic()
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


@pytest.mark.parametrize("options", [{}, {"producersPerCluster": "3"}, {"atomicBatch": "true"}])
@pytest.mark.parametrize("then", [VALUES[:-1], [*VALUES, b"new"]], ids=["fewer", "more"])
def test_a_batch_in_the_topics_that_is_planned_anew_with_other_rows_is_refused(monkeypatch, options, then):
    """A checkpoint that was rolled back by one batch. Skipped, what is new in the batch would never be written."""
    spark = Spark(monkeypatch, **options)
    spark.writer().commit([spark.task(spark.sent(), 0, *VALUES)], 0)
    messages = [spark.task(spark.sent(), 0, *then)]
    with pytest.raises(CheckpointBehind, match=rf"with 20 rows \(.*\), and now it has {len(then)} rows"):
        spark.writer().commit(messages, 0)
    spark.options["lostTransactions"] = "skip"
    spark.writer().commit([spark.task(spark.sent(), 0, *then)], 0)
    assert spark.seen("east") == spark.seen("west") == sorted(VALUES)


@pytest.mark.parametrize("options", [{}, {"producersPerCluster": "3"}])
def test_packed_records_in_the_topics_are_skipped_however_they_are_cut_and_others_are_refused(monkeypatch, options):
    spark = Spark(monkeypatch, **options)
    monkeypatch.setattr(f"{__name__}.SCHEMA", StructType([StructField("records", BinaryType())]))
    monkeypatch.setattr(writer_module.TaskContext, "get", lambda: FakeContext(0))  # type: ignore[attr-defined]

    def task(*pieces):
        return pickle.loads(spark.sent()).write(iter([packed(values) for values in pieces]))

    spark.writer().commit([task(VALUES)], 0)
    spark.writer().commit([task(VALUES[:7], VALUES[7:])], 0)
    assert spark.seen("east") == spark.seen("west") == sorted(VALUES)
    messages = [task(VALUES[:-1])]
    with pytest.raises(CheckpointBehind, match=r"with 20 rows \(.*\), and now it has 19 rows"):
        spark.writer().commit(messages, 0)


def test_packed_records_that_were_lost_are_written_again_however_they_are_cut(monkeypatch):
    """As of a mirror: the answers of its fetches end elsewhere when it reads the same records again."""
    spark = Spark(monkeypatch, onlyTopics="t")
    monkeypatch.setattr(f"{__name__}.SCHEMA", StructType([StructField("records", BinaryType())]))
    monkeypatch.setattr(writer_module.TaskContext, "get", lambda: FakeContext(0))  # type: ignore[attr-defined]

    def task(*pieces):
        return pickle.loads(spark.sent()).write(iter([packed(values) for values in pieces]))

    west = spark.clusters["west"]
    messages, west.crash_before = [task(VALUES)], "end p-west-0 True"
    with pytest.raises(Crash):
        spark.writer().commit(messages, 0)
    west.time_is_up()
    with pytest.raises(LostTransactions, match=r"stay missing$"):
        task(VALUES)
    spark.options["lostTransactions"] = "rewrite"
    with pytest.raises(LostTransactions, match=r"\(19 now, 20 then\).* stay missing in the topics$"):
        task(VALUES[1:])
    spark.writer().commit([task(VALUES[:3], VALUES[3:])], 0)
    assert spark.seen("east") == spark.seen("west") == sorted(VALUES)


def test_other_rows_in_a_cluster_that_has_the_batch_keep_it_from_one_that_has_not(monkeypatch):
    spark = Spark(monkeypatch)
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
    spark = Spark(monkeypatch, **options)
    spark.writer().commit([spark.task(spark.sent(), 0, *VALUES)], 0)
    spark.writer().commit([spark.task(spark.sent(), 0, *VALUES)], 0)
    messages = [spark.task(spark.sent(), 0, *VALUES[:-1])]
    with pytest.raises(CheckpointBehind, match=r"with 20 rows \(.*\), and now it has 19 rows"):
        spark.writer().commit(messages, 0)
    assert spark.seen("east") == spark.seen("west") == sorted(VALUES)


@pytest.mark.parametrize("producers", [1, 3])
def test_the_first_tasks_after_a_start_end_what_is_open_in_a_cluster_that_cannot_list_it(monkeypatch, producers):
    """Kafka before 3.0. Of the task that has rows now, and of the one that has none."""
    monkeypatch.setattr(begin, "_begun", {})
    spark = Spark(monkeypatch, producersPerCluster=str(producers))
    for cluster in spark.clusters.values():
        cluster.version = 1
        cluster.cannot_list()
    sent = spark.sent()
    for slot in range(2):
        spark.task(sent, slot, *VALUES)
    monkeypatch.setattr(begin, "_begun", {})  # the application was killed, and starts again
    sent = spark.sent()
    spark.writer().commit([spark.task(sent, 0, VALUES[0]), spark.task(sent, 1)], 0)
    for name, cluster in spark.clusters.items():
        assert spark.seen(name) == [VALUES[0]]
        assert not any(known.open for known in cluster.by_id.values())


def test_a_failed_batch_write_is_seen_in_no_cluster(monkeypatch):
    spark = Spark(monkeypatch, BatchWriter)
    sent = spark.sent()
    messages = [spark.task(sent, 0, *VALUES), None]
    spark.task(sent, 1, *VALUES)  # wrote, but its message was lost
    pickle.loads(sent).abort(messages)
    for name, cluster in spark.clusters.items():
        assert spark.seen(name) == []
        assert not any(known.open for known in cluster.by_id.values())


@pytest.mark.parametrize("options", [{}, {"producersPerCluster": "3"}, {"atomicBatch": "true"}])
def test_a_stopped_query_leaves_nothing_open_in_any_cluster(monkeypatch, tmp_path, options):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    spark = Spark(monkeypatch, **options)
    sent = spark.sent()
    for slot in range(2):
        spark.task(sent, slot, *VALUES)  # whose messages never come
    spark.writer().abort([None, None], 0)
    for name, cluster in spark.clusters.items():
        assert spark.seen(name) == []
        assert not any(known.open for known in cluster.by_id.values())


def test_a_task_that_fails_aborts_what_it_opened_in_each_cluster(monkeypatch):
    spark = Spark(monkeypatch, producersPerCluster="3")
    monkeypatch.setattr(writer_module.TaskContext, "get", lambda: FakeContext(0))  # type: ignore[attr-defined]

    def rows():
        yield batch(*VALUES)
        assert all(any(known.open for known in each.by_id.values()) for each in spark.clusters.values())
        raise ValueError("no more rows")

    with pytest.raises(ValueError, match="no more rows"):
        pickle.loads(spark.sent()).write(rows())
    for cluster in spark.clusters.values():
        assert not any(known.open for known in cluster.by_id.values())


def test_a_worker_keeps_its_producers_for_the_next_task_and_not_for_ever(monkeypatch):
    now = [0.0]

    class Kept:
        def __init__(self, target):
            self.target, self.usable, self.closed, self.producers = target, True, False, ()
            self.use = Use(lambda: now[0])

        def close(self, timeout_ms):
            self.closed = True

    monkeypatch.setattr(producers_module, "ClusterProducers", Kept)
    monkeypatch.setattr(producers_module._cache.get(), "producers", {})
    shared = producers_module.shared_producers
    found = targets.parse(written()).by_name
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
