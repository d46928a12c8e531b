"""The writers as Spark calls them with deliveryGuarantee=exactly_once, on clusters of the tests' own."""

import pickle

import pytest
from packed_values import packed
from producers_of_fakes import PACKED, TWO, Spark, batch
from transaction_fakes import Crash

from kafkasource.errors import OptionError, UnsupportedApiVersion
from kafkasource.exactly_once.driver import begin
from kafkasource.exactly_once.errors import (
    AnotherQuery,
    CheckpointBehind,
    LostTransactions,
)
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
from kafkasource.sink.writer import BatchWriter

ATOMIC = {"atomicBatch": "true"}
WAYS = {"one cluster": {}, "one, atomic": ATOMIC, "two": TWO, "two, atomic": TWO | ATOMIC}
WAYS["two, 3 producers"] = TWO | {"producersPerCluster": "3"}
EVERY_WAY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
VALUES = sorted(b"%d" % number for number in range(20))

heard = []


def listener(commit):
    heard.append(commit)


def test_the_listener_is_told_of_the_batchs_transactions_and_of_those_left_behind(monkeypatch):
    heard.clear()
    spark = Spark(monkeypatch, commitListener=f"{__name__}:listener")
    spark.task(spark.sent(), 2, b"x")  # and the application dies
    sent = spark.sent()
    spark.writer().commit([spark.task(sent, slot, b"y") for slot in range(2)], 0)
    (commit,) = heard
    told = commit.transactions
    assert (commit.records, told.opened, told.committed, told.aborted, told.recovered) == (2, 2, 2, 1, 0)


def test_a_batch_begins_once_however_often_the_writer_is_pickled(monkeypatch):
    spark = Spark(monkeypatch)
    spark.sent()
    assert spark.cluster.calls.count("init p-driver") == 1


def test_a_writer_that_writes_at_least_once_asks_nobody(monkeypatch):
    spark = Spark(monkeypatch, deliveryGuarantee="at_least_once")
    with pytest.raises(OptionError, match="transactionalIdPrefix"):
        spark.writer()
    del spark.options["transactionalIdPrefix"]
    spark.sent()
    assert spark.cluster.calls == []


@EVERY_WAY
def test_a_micro_batch_is_seen_once_its_commit_returned_and_its_replay_writes_nothing(monkeypatch, way):
    spark = Spark(monkeypatch, **way)
    for before in ([], VALUES):
        sent = spark.sent()
        messages = [spark.task(sent, slot, *VALUES[slot::3]) for slot in range(3)]
        assert spark.seen() == before
        spark.writer().commit(messages, 0)
        assert spark.seen() == VALUES
    assert {one.records for message in messages for one in message.clusters.values()} == {0}


@EVERY_WAY
@pytest.mark.parametrize("reports", [(0, 2), ()], ids=["two of three tasks report", "none does"])
def test_a_batch_write_is_seen_whole_or_not_at_all(monkeypatch, way, reports):
    spark = Spark(monkeypatch, BatchWriter, **way)
    sent = spark.sent()
    messages = [spark.task(sent, slot, b"%d" % slot) for slot in range(3)]
    pickle.loads(sent).abort([message if slot in reports else None for slot, message in enumerate(messages)])
    assert (spark.seen(), spark.open()) == ([], [])
    for _ in range(2):  # run again it is another write
        sent = spark.sent()
        pickle.loads(sent).commit([spark.task(sent, slot, b"%d" % slot) for slot in range(3)])
    assert spark.seen() == sorted([b"0", b"1", b"2"] * 2)


@EVERY_WAY
def test_a_stopped_query_leaves_nothing_open(monkeypatch, tmp_path, way):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    spark = Spark(monkeypatch, **way)
    sent = spark.sent()
    for slot in range(2):
        spark.task(sent, slot, b"%d" % slot)  # whose messages never come
    assert spark.open()
    spark.writer().abort([None, None], 0)
    assert (spark.seen(), spark.open()) == ([], [])


def test_a_task_that_fails_aborts_what_it_opened_in_each_cluster(monkeypatch):
    spark = Spark(monkeypatch, **WAYS["two, 3 producers"])

    def rows():
        yield batch(*VALUES)
        assert all(any(known.open for known in each.by_id.values()) for each in spark.clusters.values())
        raise ValueError("no more rows")

    with pytest.raises(ValueError, match="no more rows"):
        spark.write(spark.sent(), 0, rows())
    assert spark.open() == []


@EVERY_WAY
@pytest.mark.parametrize("then", [VALUES[:-1], [*VALUES, b"new"], []], ids=["fewer", "more", "none"])
def test_a_batch_in_the_topics_that_is_planned_anew_with_other_rows_is_refused(monkeypatch, way, then):
    """A checkpoint that was rolled back by one batch. Skipped, what is new in the batch would never be written."""
    spark = Spark(monkeypatch, **way)
    sent = spark.sent()
    spark.writer().commit([spark.task(sent, slot, *VALUES[slot::3]) for slot in range(3)], 0)
    with pytest.raises(CheckpointBehind, match=rf"with 20 rows \(.*\), and now it has {len(then)} rows"):
        spark.commit(*then)
    assert spark.seen() == VALUES
    spark.options["lostTransactions"] = "skip"
    spark.commit(*then)
    assert spark.seen() == VALUES


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
    spark = Spark(monkeypatch)
    spark.cluster.unserved = {api}
    with pytest.raises(
        UnsupportedApiVersion, match=rf"=exactly_once needs .* Kafka 0\.11 .* do not offer {api.name}\. Use at_least"
    ):
        spark.sent()
    assert spark.cluster.calls == []


def test_one_transaction_for_all_tasks_is_refused_before_a_task_runs_where_brokers_cannot_tell_what_is_open(
    monkeypatch,
):
    spark = Spark(monkeypatch, atomicBatch="true")
    spark.cluster.unserved = {DESCRIBE_TRANSACTIONS}
    with pytest.raises(UnsupportedApiVersion, match=r"option 'atomicBatch'=true needs .* Kafka 3\.0"):
        spark.sent()
    assert spark.cluster.calls == []


def test_without_checkpoint_and_prefix_it_is_refused(monkeypatch, tmp_path):
    spark = Spark(monkeypatch)
    spark.options = {}
    with pytest.raises(OptionError, match=r"'checkpointLocation' .* 'transactionalIdPrefix'"):
        spark.writer()
    (tmp_path / "metadata").write_text('{"id":"q"}')
    spark.options = {"checkpointlocation": str(tmp_path)}
    spark.sent()


def test_a_batch_write_has_no_query_so_a_checkpoint_does_not_stand_for_its_prefix(monkeypatch, tmp_path):
    (tmp_path / "metadata").write_text('{"id":"q"}')
    spark = Spark(monkeypatch, BatchWriter)
    spark.options = {"checkpointlocation": str(tmp_path)}
    with pytest.raises(OptionError, match="'transactionalIdPrefix', which a batch write always needs"):
        spark.writer()


@EVERY_WAY
def test_the_same_rows_in_other_tasks_are_the_same_batch(monkeypatch, way):
    spark = Spark(monkeypatch, **way)
    sent = spark.sent()
    spark.writer().commit([spark.task(sent, slot, *VALUES[slot::3]) for slot in range(3)], 0)
    sent = spark.sent()
    spark.writer().commit([spark.task(sent, 0, *VALUES[:9]), spark.task(sent, 1, *VALUES[9:])], 0)
    assert spark.seen() == VALUES


# Who the query is.


def test_a_checkpoint_that_is_not_the_querys_is_refused_by_its_tasks(monkeypatch, tmp_path):
    (tmp_path / "metadata").write_text('{"id":"another"}')
    spark = Spark(monkeypatch, checkpointLocation=str(tmp_path))
    del spark.options["transactionalIdPrefix"]
    sent = spark.sent()
    with pytest.raises(AnotherQuery, match=r"'checkpointLocation': .* is of query another, but this is query q\."):
        spark.task(sent, 0, b"x")
    assert not any("produce" in call for call in spark.cluster.calls)


# Packed records: Spark's row is a piece of a fetch's answer, and where fetches end differs from run to run.


def pieces(*of):
    return iter([packed(values) for values in of])


@pytest.mark.parametrize("way", [WAYS["one cluster"], WAYS["two"], WAYS["two, 3 producers"]])
def test_packed_records_in_the_topics_are_skipped_however_they_are_cut_and_others_are_refused(monkeypatch, way):
    spark = Spark(monkeypatch, schema=PACKED, **way)
    for cut in ([VALUES[:12], VALUES[12:]], [VALUES[:7], VALUES[7:]], [VALUES], [[each] for each in VALUES]):
        spark.writer().commit([spark.write(spark.sent(), 0, pieces(*cut))], 0)
    assert spark.seen() == VALUES
    for others in (VALUES[:-1], [*VALUES, b"new"]):
        messages = [spark.write(spark.sent(), 0, pieces(others))]
        with pytest.raises(CheckpointBehind, match=rf"with 20 rows \(.*\), and now it has {len(others)} rows"):
            spark.writer().commit(messages, 0)


def test_packed_records_that_were_lost_are_written_again_however_they_are_cut(monkeypatch):
    """As of a mirror: the answers of its fetches end elsewhere when it reads the same records again."""
    spark = Spark(monkeypatch, schema=PACKED, onlyTopics="t", **TWO)
    west = spark.clusters["west"]
    messages, west.crash_before = [spark.write(spark.sent(), 0, pieces(VALUES))], "end p-west-0 True"
    with pytest.raises(Crash):
        spark.writer().commit(messages, 0)
    west.time_is_up()
    with pytest.raises(LostTransactions, match=r"stay missing \(docs/.*#before-they-were-committed\)$"):
        spark.write(spark.sent(), 0, pieces(VALUES))
    spark.options["lostTransactions"] = "rewrite"
    with pytest.raises(LostTransactions, match=r"\(19 now, 20 then\).* stay missing in the topics \(docs"):
        spark.write(spark.sent(), 0, pieces(VALUES[1:]))
    spark.writer().commit([spark.write(spark.sent(), 0, pieces(VALUES[:3], VALUES[3:]))], 0)
    assert spark.seen() == VALUES


@pytest.mark.parametrize("way", [WAYS["one cluster"], WAYS["two"], WAYS["two, 3 producers"]])
def test_the_first_tasks_after_a_start_end_what_is_open_in_a_cluster_that_cannot_list_it(monkeypatch, way):
    """Kafka before 3.0. Of the task that has rows now, and of the one that has none."""
    begin._begun.reset()
    spark = Spark(monkeypatch, **way)
    for cluster in spark.clusters.values():
        cluster.version = 1
        cluster.cannot_list()
    sent = spark.sent()
    for slot in range(2):
        spark.task(sent, slot, *VALUES)
    begin._begun.reset()  # the application was killed, and starts again
    sent = spark.sent()
    spark.writer().commit([spark.task(sent, 0, VALUES[0]), spark.task(sent, 1)], 0)
    assert (spark.seen(), spark.open()) == ([VALUES[0]], [])
