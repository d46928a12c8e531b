"""Tests the writers that Spark gets: they check early, pickle small and report what was written."""

import pickle
import threading
import warnings

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType
from sink_fakes import AcknowledgingClient

from kafkasource import options
from kafkasource.datasource import KafkaDataSource
from kafkasource.errors import ClientClosed, OptionError
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.rows import InvalidRow
from kafkasource.sink import writer as writer_module
from kafkasource.sink.clusters import producers as producers_module
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.producers import ClusterProducers, shared_producers
from kafkasource.sink.clusters.targets import ONLY
from kafkasource.sink.commit_report import SinkCommit
from kafkasource.sink.reports import ClusterReport, TaskReport
from kafkasource.sink.schema import InvalidSchema
from kafkasource.sink.writer import BatchWriter, StreamWriter
from kafkasource.spark.releases import DataSourceStreamArrowWriter
from kafkasource.types import TopicPartition, Written

SCHEMA = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
T0 = TopicPartition("t", 0)


def sink_options(**written):
    return options.parse({"kafka.bootstrap.servers": "localhost:1", "topic": "t"} | written, "sink")


def only(**written):
    """The targets of a write that names no clusters."""
    return targets.parse({"kafka.bootstrap.servers": "localhost:1", "topic": "t"} | written)


def report_of(written=(), **about):
    return TaskReport({ONLY: ClusterReport(dict(written))}, **about)


@pytest.fixture
def producer_with(monkeypatch):
    """Makes the process's producer for `only()` one with the given client."""
    made = []

    def make(client, **written):
        target = only(**written).by_name[ONLY]
        producers = ClusterProducers(target, clients=[client])
        monkeypatch.setattr(producers_module._cache, "values", {target: producers})
        made.append(producers)
        return producers.producers[0]

    yield make
    for producer in made:
        producer.close()


commits = []


def listener(commit):
    commits.append(commit)


def batch(count=3, value=b"v"):
    return pa.record_batch([pa.array(["k"] * count), pa.array([value] * count, pa.binary())], names=["key", "value"])


@pytest.mark.parametrize("kind", [BatchWriter, StreamWriter])
def test_a_writer_crosses_to_the_tasks_and_its_report_comes_back(kind, producer_with):
    client = AcknowledgingClient({T0: 1})
    client.offsets = {T0: 10}
    producer_with(client)
    writer = pickle.loads(pickle.dumps(kind(only(), SCHEMA)))
    report = pickle.loads(pickle.dumps(writer.write(iter([batch()]))))
    assert isinstance(report, WriterCommitMessage)
    sent_bytes = sum(len(b) for sent in client.sent for b in sent.batches.values())
    assert report.clusters == {ONLY: ClusterReport({T0: Written(3, sent_bytes, 10, 12)})}
    assert report.query_id is None


def test_spark_hands_both_writers_arrow_batches():
    assert issubclass(BatchWriter, DataSourceArrowWriter)
    assert issubclass(BatchWriter, DataSourceWriter)
    assert issubclass(StreamWriter, DataSourceStreamArrowWriter)
    assert issubclass(StreamWriter, DataSourceStreamWriter)


def test_a_wrong_schema_fails_before_any_task():
    with pytest.raises(InvalidSchema, match="value must be a"):
        BatchWriter(only(), StructType([StructField("value", LongType())]))


def test_overwrite_is_refused_in_the_words_of_the_jvm_connector():
    source = KafkaDataSource({"kafka.bootstrap.servers": "localhost:1", "topic": "t"})
    with pytest.raises(OptionError, match=r"Save mode Overwrite not allowed for Kafka\."):
        source.writer(SCHEMA, overwrite=True)
    assert isinstance(source.streamWriter(SCHEMA, overwrite=True), StreamWriter)  # output mode complete
    assert isinstance(source.writer(SCHEMA, overwrite=False), BatchWriter)


def test_a_task_without_rows_succeeds(producer_with):
    producer_with(AcknowledgingClient({T0: 1}))
    assert BatchWriter(only(), SCHEMA).write(iter([])).clusters == {ONLY: ClusterReport()}


def test_a_task_that_fails_does_not_poison_the_next(producer_with):
    client = AcknowledgingClient({T0: 1}, code=87)
    producer = producer_with(client)
    writer = BatchWriter(only(), SCHEMA)
    with pytest.raises(Exception, match="INVALID_RECORD"):
        writer.write(iter([batch(value=b"bad")]))
    report = writer.write(iter([batch(value=b"good")]))
    assert report.clusters[ONLY].records == 3
    assert all(b"bad" not in b for sent in client.sent[1:] for b in sent.batches.values())
    assert shared_producers(only().by_name)[ONLY].producers == [producer]


def test_an_error_in_the_rows_upstream_gives_up_what_was_handed_over(producer_with):
    producer = producer_with(AcknowledgingClient({T0: 1}), **{"kafka.linger.ms": "60000"})

    def rows():
        yield batch()
        raise ZeroDivisionError("in the user's code")

    writer = BatchWriter(only(**{"kafka.linger.ms": "60000"}), SCHEMA)
    with pytest.raises(ZeroDivisionError):
        writer.write(rows())
    assert writer.write(iter([batch()])).clusters[ONLY].records == 3
    assert producer.pool.available_bytes == producer.pool.total_bytes


def test_more_rows_than_the_memory_holds_pass_through_it(producer_with):
    small = {"kafka.buffer.memory": "8192", "kafka.batch.size": "1024", "kafka.linger.ms": "60000"}
    producer = producer_with(AcknowledgingClient({T0: 1, TopicPartition("t", 1): 1}), **small)
    report = BatchWriter(only(**small), SCHEMA).write(iter([batch(500, b"x" * 50)] * 4))
    assert report.clusters[ONLY].records == 2000
    assert producer.pool.available_bytes == producer.pool.total_bytes


def test_a_row_that_cannot_be_written_is_the_users_error(producer_with):
    producer_with(AcknowledgingClient({T0: 1}))
    schema = StructType([StructField("value", StringType()), StructField("topic", StringType())])
    with pytest.raises(InvalidRow, match="KAFKA_NULL_TOPIC_IN_DATA"):
        BatchWriter(targets.parse({"kafka.bootstrap.servers": "localhost:1"}), schema).write(
            iter([pa.record_batch([pa.array(["v"]), pa.array([None], pa.string())], names=["value", "topic"])])
        )


def test_rows_that_name_no_partition_are_the_partitioners_beside_another_topics_that_do(producer_with):
    a, b = TopicPartition("a", 1), TopicPartition("b", 0)
    producer_with(AcknowledgingClient({a._replace(partition=0): 1, a: 1, b: 1}))
    types = {"topic": StringType(), "value": StringType(), "partition": IntegerType()}
    schema = StructType([StructField(name, kind) for name, kind in types.items()])
    columns = [pa.array(["a", "b", "b"]), pa.array(["1", "2", "3"]), pa.array([1, None, None], pa.int32())]
    writer = BatchWriter(targets.parse({"kafka.bootstrap.servers": "localhost:1"}), schema)
    written = writer.write(iter([pa.record_batch(columns, names=list(types))])).clusters[ONLY].written
    assert {tp: one.records for tp, one in written.items()} == {a: 1, b: 2}


def test_a_closed_producer_is_replaced(producer_with):
    first = producer_with(AcknowledgingClient({T0: 1}))
    first.close()
    second = shared_producers(only().by_name)[ONLY]
    assert second.usable
    assert second.producers[0].config == first.config
    second.close()
    with pytest.raises(ClientClosed):
        first.sender.begin()


def test_a_bug_in_the_sender_thread_reaches_the_task_and_the_producer_is_replaced(producer_with):
    client = AcknowledgingClient({T0: 1})
    producer = producer_with(client)
    task_has_its_producer = threading.Event()

    def poll(timeout_ms):
        task_has_its_producer.wait()
        raise ZeroDivisionError

    def rows():
        yield batch()
        task_has_its_producer.set()
        yield from [batch()] * 1000

    client.poll = poll
    producer.sender.wakeup()
    with pytest.raises(ZeroDivisionError):
        BatchWriter(only(), SCHEMA).write(rows())
    producer._thread.join()
    assert not producer.usable


def test_uncompiled_executors_are_told_of_once(monkeypatch):
    monkeypatch.setattr(writer_module, "_warned", False)
    slow = report_of(kernel_compiled=False)
    writer = StreamWriter(only(), SCHEMA)
    with pytest.warns(RuntimeWarning, match="uncompiled"):
        writer.commit([report_of(), slow, None], 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer.commit([slow], 1)
        writer.commit([report_of()], 2)


def test_abort_has_nothing_to_take_back():
    BatchWriter(only(), SCHEMA).abort([None])
    StreamWriter(only(), SCHEMA).abort([None], 1)


def test_idempotence_follows_acks_unless_it_is_given():
    assert ProducerConfig.from_options(sink_options()).idempotent
    assert not ProducerConfig.from_options(sink_options(**{"kafka.acks": "1"})).idempotent
    assert not ProducerConfig.from_options(sink_options(**{"kafka.enable.idempotence": "false"})).idempotent


def test_a_codecs_level_is_taken_from_its_own_option():
    zstd = {"kafka.compression.type": "zstd", "kafka.compression.zstd.level": "7", "kafka.compression.lz4.level": "2"}
    assert ProducerConfig.from_options(sink_options(**zstd)).compression_level == 7
    assert ProducerConfig.from_options(sink_options(**{"kafka.compression.type": "gzip"})).compression_level is None
    assert ProducerConfig.from_options(sink_options()).compression_level is None


def test_lz4s_default_is_its_fast_compressor_as_in_java():
    lz4 = {"kafka.compression.type": "lz4"}
    assert ProducerConfig.from_options(sink_options(**lz4)).compression_level is None
    assert (
        ProducerConfig.from_options(sink_options(**lz4, **{"kafka.compression.lz4.level": "3"})).compression_level == 3
    )


def test_commit_tells_the_listener_what_all_tasks_wrote():
    commits.clear()
    named = only(commitListener=f"{__name__}:listener", queryName="orders")
    reports = [report_of({T0: Written(3, 90, 10, 12)}, query_id="q"), None, report_of({T0: Written(2, 70, 13, 14)})]
    StreamWriter(named, SCHEMA).commit(reports, 4)
    BatchWriter(named, SCHEMA).commit(reports[2:])
    assert commits == [
        SinkCommit({T0: Written(5, 160, 10, 14)}, 2, 4, "q", "orders"),
        SinkCommit({T0: Written(2, 70, 13, 14)}, 1, None, None, "orders"),
    ]


@pytest.mark.parametrize("name", ["no_such_module_at_all:f", "json:no_such_function"])
def test_a_listener_that_cannot_be_had_is_refused_before_a_task_runs(name):
    with pytest.raises(OptionError, match="option 'commitListener'"):
        StreamWriter(only(commitListener=name), SCHEMA)
