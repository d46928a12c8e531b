"""The writers as Spark calls them with deliveryGuarantee=exactly_once, on a cluster of the tests' own."""

import pickle

import pyarrow as pa
import pytest
from producers_of_fakes import FakeProducer, FakeProducers
from pyspark.sql.types import BinaryType, StructField, StructType
from transaction_fakes import FakeContext, FakeTransactionCluster, read_committed

from kafkasource.errors import OptionError, UnsupportedApiVersion
from kafkasource.exactly_once.errors import AnotherQuery, CannotWriteOnce, CheckpointBehind, NotDecided
from kafkasource.kafka.protocol.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    OFFSET_FETCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from kafkasource.sink import task as task_module
from kafkasource.sink import writer as writer_module
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.targets import ONLY
from kafkasource.sink.writer import BatchWriter, StreamWriter
from kafkasource.types import TopicPartition

SCHEMA = StructType([StructField("value", BinaryType())])
T = [TopicPartition("t", number) for number in range(3)]


class ProducerOfSlot(FakeProducer):
    """Writes each task's rows to the partition of the task's slot."""

    def __init__(self, cluster, slot):
        super().__init__(cluster, [T[0]])
        self.slot = slot

    def hand_over(self, topic, columns, order, spans, delivery, shared=None):
        super().hand_over(topic, columns, None, [(self.slot, 0, columns.count)], delivery)


class Spark:
    """One process for all: what differs is which writer object is called."""

    def __init__(self, monkeypatch, kind, **written):
        self.monkeypatch, self.kind = monkeypatch, kind
        self.cluster = FakeTransactionCluster(2)
        self.written = {"transactionalIdPrefix": "p"} | written
        monkeypatch.setattr(writer_module, "shared_cluster", lambda config: self.cluster)

    def writer(self):
        written = {"kafka.bootstrap.servers": "localhost:1", "topic": "t", "deliveryGuarantee": "exactly_once"}
        return self.kind(targets.parse(written | self.written), SCHEMA)

    def sent(self):
        """As pickled for the tasks, and once more for the commit of a batch write."""
        writer = self.writer()
        first = pickle.dumps(writer)
        assert pickle.dumps(writer) == first
        return first

    def task(self, sent, slot, *values):
        self.monkeypatch.setattr(writer_module.TaskContext, "get", lambda: FakeContext(slot))  # type: ignore[attr-defined]
        self.monkeypatch.setattr(task_module, "shared_producers", lambda targets: self.producers(targets, slot))
        rows = pa.record_batch([pa.array(values, pa.binary())], names=["value"])
        return pickle.loads(pickle.dumps(pickle.loads(sent).write(iter([rows]))))

    def producers(self, of_write, slot):
        found = FakeProducers(of_write[ONLY], self.cluster, [])
        found.producers = [ProducerOfSlot(self.cluster, slot)]
        return {ONLY: found}

    def seen(self):
        return [row for tp in T for row in read_committed(self.cluster.logs[tp])]


heard = []


def listener(commit):
    heard.append(commit)


def test_the_listener_is_told_of_the_batchs_transactions_and_of_those_left_behind(monkeypatch):
    heard.clear()
    spark = Spark(monkeypatch, StreamWriter, commitListener=f"{__name__}:listener")
    spark.task(spark.sent(), 2, b"x")  # and the application dies
    sent = spark.sent()
    spark.writer().commit([spark.task(sent, slot, b"y") for slot in range(2)], 0)
    (commit,) = heard
    transactions = commit.transactions
    assert (
        commit.records,
        transactions.opened,
        transactions.committed,
        transactions.aborted,
        transactions.recovered,
    ) == (2, 2, 2, 1, 0)


def test_a_batch_begins_once_however_often_the_writer_is_pickled(monkeypatch):
    spark = Spark(monkeypatch, StreamWriter)
    spark.sent()
    assert spark.cluster.calls.count("init p-driver") == 1


def test_a_writer_that_writes_at_least_once_asks_nobody(monkeypatch):
    spark = Spark(monkeypatch, StreamWriter)
    spark.written = {"transactionalIdPrefix": "p", "deliveryGuarantee": "at_least_once"}
    with pytest.raises(OptionError, match="transactionalIdPrefix"):
        spark.writer()
    spark.written = {"deliveryGuarantee": "at_least_once"}
    spark.sent()
    assert spark.cluster.calls == []


@pytest.mark.parametrize("atomic", ["false", "true"])
def test_a_micro_batch_is_seen_once_its_commit_returned_and_its_replay_writes_nothing(monkeypatch, atomic):
    spark = Spark(monkeypatch, StreamWriter, atomicBatch=atomic)
    for _ in range(2):
        sent = spark.sent()
        messages = [spark.task(sent, slot, b"%d" % slot) for slot in range(3)]
        assert spark.seen() in ([], [b"0", b"1", b"2"])
        spark.writer().commit(messages, 0)
        assert spark.seen() == [b"0", b"1", b"2"]
    assert sum(message.clusters[ONLY].records for message in messages) == 0


@pytest.mark.parametrize("atomic", ["false", "true"])
def test_a_batch_write_is_seen_whole_or_not_at_all(monkeypatch, atomic):
    spark = Spark(monkeypatch, BatchWriter, atomicBatch=atomic)
    sent = spark.sent()
    failed = [spark.task(sent, 0, b"x"), None, spark.task(sent, 2, b"x")]
    spark.task(sent, 1, b"x")  # wrote, but its message was lost
    pickle.loads(sent).abort(failed)
    assert spark.seen() == []
    assert not any(known.open for known in spark.cluster.by_id.values())
    for _ in range(2):  # run again it is another write
        sent = spark.sent()
        pickle.loads(sent).commit([spark.task(sent, slot, b"y") for slot in range(3)])
    assert spark.seen() == [b"y"] * 6


def test_a_batch_write_of_which_no_task_reported_leaves_nothing_open(monkeypatch):
    spark = Spark(monkeypatch, BatchWriter)
    sent = spark.sent()
    spark.task(sent, 0, b"x")
    pickle.loads(sent).abort([None, None])
    assert not any(known.open for known in spark.cluster.by_id.values())


def test_of_two_queries_with_one_prefix_the_one_that_began_later_writes(monkeypatch):
    spark = Spark(monkeypatch, StreamWriter)
    first = spark.sent()
    late = [spark.task(first, 0, b"first")]
    second = spark.sent()
    with pytest.raises(CannotWriteOnce, match="another run of the query has taken over"):
        spark.task(first, 1, b"first")
    assert not spark.cluster.by_id["p-1"].open
    with pytest.raises(NotDecided, match="another query with this 'transactionalIdPrefix', has fenced it"):
        spark.writer().commit(late, 0)
    spark.writer().abort(late, 0)
    spark.writer().commit([spark.task(second, 0, b"second")], 0)
    assert spark.seen() == [b"second"]


def test_brokers_before_transactions_are_refused_before_a_task_runs(monkeypatch):
    spark = Spark(monkeypatch, StreamWriter)
    spark.cluster.unserved = {INIT_PRODUCER_ID, DESCRIBE_TRANSACTIONS}
    with pytest.raises(UnsupportedApiVersion, match=r"'deliveryGuarantee'=exactly_once needs .* Kafka 0\.11"):
        spark.sent()
    assert spark.cluster.calls == []


@pytest.mark.parametrize(
    "api",
    [
        FIND_COORDINATOR,
        INIT_PRODUCER_ID,
        ADD_PARTITIONS_TO_TXN,
        ADD_OFFSETS_TO_TXN,
        TXN_OFFSET_COMMIT,
        END_TXN,
        OFFSET_FETCH,
        PRODUCE,
    ],
    ids=str,
)
def test_a_server_that_lacks_one_of_the_requests_of_a_transaction_is_refused_by_its_name_before_a_task_runs(
    monkeypatch, api
):
    """By KIP-98 these make a transaction with offsets: a commit that lacks one would leave all tasks' rows hanging."""
    spark = Spark(monkeypatch, StreamWriter)
    spark.cluster.unserved = {api}
    with pytest.raises(UnsupportedApiVersion, match=rf"these do not offer {api.name}\. Use at_least_once"):
        spark.sent()
    assert spark.cluster.calls == []


def test_one_transaction_for_all_tasks_is_refused_before_a_task_runs_where_brokers_cannot_tell_what_is_open(
    monkeypatch,
):
    spark = Spark(monkeypatch, StreamWriter, atomicBatch="true")
    spark.cluster.unserved = {DESCRIBE_TRANSACTIONS}
    with pytest.raises(UnsupportedApiVersion, match=r"option 'atomicBatch'=true needs .* Kafka 3\.0"):
        spark.sent()
    assert spark.cluster.calls == []


def test_without_checkpoint_and_prefix_it_is_refused(monkeypatch, tmp_path):
    spark = Spark(monkeypatch, StreamWriter)
    spark.written = {}
    with pytest.raises(OptionError, match=r"'checkpointLocation' .* 'transactionalIdPrefix'"):
        spark.writer()
    (tmp_path / "metadata").write_text('{"id":"q"}')
    spark.written = {"checkpointlocation": str(tmp_path)}
    spark.sent()


def test_a_batch_write_has_no_query_so_a_checkpoint_does_not_stand_for_its_prefix(monkeypatch, tmp_path):
    (tmp_path / "metadata").write_text('{"id":"q"}')
    spark = Spark(monkeypatch, BatchWriter)
    spark.written = {"checkpointlocation": str(tmp_path)}
    with pytest.raises(OptionError, match="'transactionalIdPrefix', which a batch write always needs"):
        spark.writer()


@pytest.mark.parametrize("atomic", ["false", "true"])
@pytest.mark.parametrize("then", [[b"0", b"1"], [b"0", b"1", b"2", b"3"], []], ids=["fewer", "more", "none"])
def test_a_batch_in_the_topics_that_is_planned_anew_with_other_rows_is_refused(monkeypatch, atomic, then):
    """A checkpoint that was rolled back by one batch. Skipped, what is new in the batch would never be written."""
    spark = Spark(monkeypatch, StreamWriter, atomicBatch=atomic)
    rows = [b"0", b"1", b"2"]
    sent = spark.sent()
    spark.writer().commit([spark.task(sent, slot, row) for slot, row in enumerate(rows)], 0)
    sent = spark.sent()
    messages = [spark.task(sent, 0, *then)]
    with pytest.raises(CheckpointBehind, match=rf"with 3 rows \(.*\), and now it has {len(then)} rows"):
        spark.writer().commit(messages, 0)
    assert spark.seen() == rows
    spark.written["lostTransactions"] = "skip"
    spark.writer().commit([spark.task(spark.sent(), 0, *then)], 0)
    assert spark.seen() == rows


@pytest.mark.parametrize("atomic", ["false", "true"])
def test_the_same_rows_in_other_tasks_are_the_same_batch(monkeypatch, atomic):
    spark = Spark(monkeypatch, StreamWriter, atomicBatch=atomic)
    sent = spark.sent()
    spark.writer().commit([spark.task(sent, slot, b"%d" % slot) for slot in range(3)], 0)
    sent = spark.sent()
    spark.writer().commit([spark.task(sent, 0, b"0", b"1"), spark.task(sent, 1, b"2")], 0)
    assert spark.seen() == [b"0", b"1", b"2"]


# Who the query is.


@pytest.mark.parametrize("spelled", ["{0}", "{0}/", "file:{0}", "file://{0}", "file:///{0}", "{0}/x/.."])
def test_a_batch_that_was_decided_is_skipped_however_the_checkpoint_is_spelled_by_then(monkeypatch, tmp_path, spelled):
    (tmp_path / "metadata").write_text('{"id":"q"}')
    spark = Spark(monkeypatch, StreamWriter)
    for location in (str(tmp_path), spelled.format(tmp_path)):
        spark.written = {"checkpointLocation": location}
        sent = spark.sent()
        messages = [spark.task(sent, slot, b"%d" % slot) for slot in range(3)]
        spark.writer().commit(messages, 0)
        assert spark.seen() == [b"0", b"1", b"2"]


def test_a_checkpoint_that_is_not_the_querys_is_refused_by_its_tasks(monkeypatch, tmp_path):
    (tmp_path / "metadata").write_text('{"id":"another"}')
    spark = Spark(monkeypatch, StreamWriter, checkpointLocation=str(tmp_path))
    del spark.written["transactionalIdPrefix"]
    sent = spark.sent()
    with pytest.raises(AnotherQuery, match=r"'checkpointLocation': .* is of query another, but this is query q\."):
        spark.task(sent, 0, b"x")
    assert not any("produce" in call for call in spark.cluster.calls)


def test_batch_writes_under_one_prefix_follow_each_other_but_not_a_stream(monkeypatch):
    spark = Spark(monkeypatch, BatchWriter)
    for _ in range(3):  # as of foreachBatch
        sent = spark.sent()
        pickle.loads(sent).commit([spark.task(sent, 0, b"x")])
    spark.kind = StreamWriter
    with pytest.raises(AnotherQuery, match=r"'transactionalIdPrefix': the last decision under 'p' is .* batch write"):
        spark.task(spark.sent(), 0, b"y")
    assert spark.seen() == [b"x"] * 3


def test_a_batch_write_does_not_follow_a_stream(monkeypatch):
    spark = Spark(monkeypatch, StreamWriter)
    spark.writer().commit([spark.task(spark.sent(), 0, b"x")], 0)
    spark.kind = BatchWriter
    with pytest.raises(AnotherQuery, match=r"'p' is that of batch 0 of query q, not"):
        spark.task(spark.sent(), 0, b"y")
    assert spark.seen() == [b"x"]
