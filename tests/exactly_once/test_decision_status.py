"""A decision outlives its record, and where it does not nothing is written twice, or left out, in silence."""

from collections import Counter

import pytest
from test_exactly_once import ANY_DIALECT, BOTH_WAYS, EVERYWHERE, IDS, Query, check, seen
from transaction_fakes import OFFSETS, Crash, FakeGroupCalls, FakeTransactionCluster

from kafkasource.errors import TopicAuthorizationFailed
from kafkasource.exactly_once.decision import Decision, last_decision
from kafkasource.exactly_once.decision_status import MAX_PLACES, DecisionStatus, last_status, was_decided
from kafkasource.exactly_once.driver.commit import BatchCommit
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.errors import (
    CheckpointBehind,
    LostDecision,
    LostTransactions,
    NotDecided,
    UnreadableDecision,
)
from kafkasource.exactly_once.names import WrittenTransaction
from kafkasource.kafka.cluster.transactions import DescribedTransaction
from kafkasource.types import ProducerId, TopicPartition


def crashed_then_away(version, atomic, crash_at=None, moment="after"):
    """Dies at a call and is started again after weeks. Whoever is asked then answers by what the topics show."""
    cluster = FakeTransactionCluster(version)
    query = Query(cluster, atomic=atomic)
    if crash_at is not None:
        cluster.crash_at = {crash_at: moment}
    try:
        query.run()
        return cluster, query, None
    except Crash:
        cluster.away_for_weeks()
    try:
        query.run()
        return cluster, query, None
    except (LostDecision, LostTransactions) as error:
        return cluster, query, error


@ANY_DIALECT
@BOTH_WAYS
@EVERYWHERE
def test_a_crash_at_any_call_and_weeks_away_double_nothing_and_lose_nothing_in_silence(version, atomic, moment):
    cluster, query, _ = crashed_then_away(version, atomic)
    calls, stopped = list(cluster.calls), []
    for number, name in enumerate(calls):
        cluster, query, error = crashed_then_away(version, atomic, number, moment)
        if error is None:
            check(cluster, query.expected())
            continue
        stopped.append(name)
        there = seen(cluster)
        batch_id = len(query.done)
        rows = query.expected([batch_id])
        assert there == query.expected(query.done) + (rows & there)  # nothing else, and nothing twice
        if (rows & there) in (rows, Counter()):  # or some transactions were lost, which other tests are about
            query.on_lost = "skip" if rows & there else "rewrite"
            query.run_batch(batch_id)
            query.on_lost = "fail"
            query.run()
            check(cluster, query.expected())
    # Only from when it is kept that a decision is about to be made until it is kept that its transactions have ended.
    assert stopped
    assert {name.split()[0] for name in stopped} <= {"keep", "add", "offsets", "end"}
    assert len(stopped) < len(calls) / 2


@ANY_DIALECT
@BOTH_WAYS
def test_a_batch_that_was_decided_is_skipped_though_its_record_has_expired(version, atomic):
    cluster = FakeTransactionCluster(version)
    query = Query(cluster, atomic=atomic)
    query.run()
    query.done = {0, 1}  # it died before Spark had noted the last one
    cluster.away_for_weeks()
    query.run()
    check(cluster, query.expected())
    assert cluster.offsets.keys() == {("p-kept", TopicPartition("t", 0))}


# Batches without rows.


class Quiet(Query):
    """Its first batches have no rows, or no tasks at all."""

    tasks, first_with_rows = 3, 2

    def rows_of(self, batch_id, slot):
        return super().rows_of(batch_id, slot) if batch_id >= self.first_with_rows else {}

    def run_batch(self, batch_id):
        if self.tasks or batch_id >= self.first_with_rows:
            return super().run_batch(batch_id)
        self.new_driver().begin()
        self.new_driver().commit([], batch_id)
        self.done.add(batch_id)
        return None


@ANY_DIALECT
@pytest.mark.parametrize("tasks", [3, 0])
def test_a_first_batch_with_rows_that_is_not_batch_0_is_written_whatever_dies(version, tasks):
    """As of a query that starts at `latest`."""

    def run(crashes=None):
        cluster = FakeTransactionCluster(version)
        cluster.crash_at = crashes or {}
        query = Quiet(cluster)
        query.tasks = tasks
        query.run_to_the_end()
        check(cluster, query.expected())
        return len(cluster.calls)

    for number in range(run()):
        for moment in ("before", "after"):
            run({number: moment})


# Nothing is known.


class AtLeastOnce(Query):
    """Three of its six batches were written at least once, and the driver died in the middle of the fourth."""

    def __init__(self, cluster, **how):
        super().__init__(cluster, batches=6, **how)
        for batch_id in range(4):
            for slot in range(3):
                for tp, rows in self.rows_of(batch_id, slot).items():
                    written = rows if batch_id < 3 else rows[:1] if slot == 0 else []
                    cluster.logs[tp] += [("row", -1, row) for row in written] + [("commit", -1, None)]
        self.before = seen(cluster)
        self.done = {0, 1, 2}


@ANY_DIALECT
@BOTH_WAYS
def test_the_first_batch_that_is_written_exactly_once_on_a_checkpoint_that_wrote_at_least_once_is_warned_of(
    version, atomic, caplog
):
    cluster = FakeTransactionCluster(version)
    query = AtLeastOnce(cluster, atomic=atomic)
    query.run()
    check(cluster, query.before + query.expected([3, 4, 5]))
    (warning,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert "batch 3 is the first that query q decides under 'p'" in warning.message
    assert "twice" in warning.message


@ANY_DIALECT
def test_a_crash_at_any_call_of_the_first_batch_that_is_written_exactly_once_doubles_nothing_more(version):
    def run(crash_at=None):
        cluster = FakeTransactionCluster(version)
        query = AtLeastOnce(cluster)
        cluster.crash_at = {} if crash_at is None else {crash_at: "after"}
        query.run_to_the_end()
        check(cluster, query.before + query.expected([3, 4, 5]))
        return len(cluster.calls)

    for number in range(run()):
        run(number)


@ANY_DIALECT
def test_a_first_batch_with_rows_after_batches_without_is_no_warning(version, caplog):
    """As of a query that starts at `latest`: no batch of it can have been written in another way."""
    cluster = FakeTransactionCluster(version)
    query = Quiet(cluster)
    query.run()
    check(cluster, query.expected())
    assert not [each for each in caplog.records if each.levelname == "WARNING"]


class Forbidding(FakeTransactionCluster):
    """Nobody may read the brokers' own topic."""

    def __init__(self, transaction_version):
        super().__init__(transaction_version)
        self.groups = ForbiddingGroups(self)


class ForbiddingGroups(FakeGroupCalls):
    def keep(self, group, offsets, retention_ms):
        if OFFSETS in offsets:
            self.cluster.calls.append("keep refused")
            raise TopicAuthorizationFailed(29, "__consumer_offsets")
        super().keep(group, offsets, retention_ms)


def nobody_knows(cluster, **how):
    """Whether batch 1 was decided: its driver died on the way there, and was away for weeks."""
    query = Query(cluster, **how)
    query.run_batch(0)
    results = query.write(1)
    cluster.crash_before = "offsets p-driver"
    with pytest.raises(Crash):
        query.new_driver().commit(results, 1)
    cluster.away_for_weeks()
    return query


@ANY_DIALECT
def test_a_batch_that_is_gone_without_is_one_batch_and_no_more(version, caplog):
    cluster = FakeTransactionCluster(version)
    query = nobody_knows(cluster, on_lost="skip")
    query.run()
    check(cluster, query.expected([0, 2]))
    assert caplog.text.count("gone without") == 1


def test_what_is_gone_without_is_kept_in_the_querys_topic_by_who_may_not_read_the_brokers_one():
    class WithoutTopic(Query):
        def new_driver(self):
            return ExactlyOnce(self.cluster, IDS, timeout_ms=600_000, on_lost="skip", topic="t")

    cluster = Forbidding(2)
    query = nobody_knows(cluster)
    query.__class__ = WithoutTopic
    query.on_lost = "skip"
    query.run()
    check(cluster, query.expected([0, 2]))


@ANY_DIALECT
def test_a_decided_batch_whose_record_has_expired_is_skipped_only_with_the_same_rows(version):
    """P-kept outlives P-marker, and knows rows and content, too."""
    cluster = FakeTransactionCluster(version)
    query = Query(cluster)
    query.run()
    query.done = {0, 1}
    cluster.away_for_weeks()
    rows_of = query.rows_of
    query.rows_of = lambda batch_id, slot: {tp: [*rows[:-1], "new"] for tp, rows in rows_of(batch_id, slot).items()}
    with pytest.raises(CheckpointBehind, match=r"batch 2 of query q was decided with 12 rows .* now it has 12 other"):
        query.run()
    query.rows_of = rows_of
    query.run()
    check(cluster, query.expected())


# Topics that are deleted.


class TwoTopics(Query):
    """Each task writes to both."""

    def rows_of(self, batch_id, slot):
        return {TopicPartition(name, slot): [f"{name} {batch_id}/{slot}"] for name in ("t", "u")}


@ANY_DIALECT
@pytest.mark.parametrize("gone", ["t", "u"])
@pytest.mark.parametrize("expired", [False, True])
def test_while_a_topic_of_the_batch_is_left_its_decision_is(version, gone, expired):
    cluster = FakeTransactionCluster(version)
    cluster.logs.update({TopicPartition("u", number): [] for number in range(3)})
    query = TwoTopics(cluster)
    query.run()
    query.done = {0, 1}
    cluster.delete_topic(gone)
    if expired:
        cluster.forget_offsets()
    query.run()
    left = {"t", "u"} - {gone}
    assert seen(cluster) == Counter({row: n for row, n in query.expected().items() if row[0] in left})


@ANY_DIALECT
@pytest.mark.parametrize("gone", ["t", "u"])
def test_so_it_is_where_it_died_between_the_decision_and_the_end_of_its_transactions(version, gone):
    cluster = FakeTransactionCluster(version)
    cluster.logs.update({TopicPartition("u", number): [] for number in range(3)})
    query = TwoTopics(cluster, batches=2)
    query.run_batch(0)
    results = query.write(1)
    cluster.crash_before = "end p-1 True"
    with pytest.raises(Crash):
        query.new_driver().commit(results, 1)
    cluster.delete_topic(gone)
    query.run()
    left = {"t", "u"} - {gone}
    assert seen(cluster) == Counter({row: n for row, n in query.expected().items() if row[0] in left})


def test_each_topic_that_has_room_has_a_copy_of_the_whole_record():
    def decided(transactions):
        return Decision(
            1, "q", 7, 2, tuple(WrittenTransaction(i, 4000 + i, 3, 25_000 + i, i << 54) for i in range(transactions))
        )

    places = [TopicPartition(name, number) for name in ("a", "b", "c") for number in range({"a": 1}.get(name, 4))]
    for transactions in (3, 800):
        placed = decided(transactions).placed(places)
        for gone in ("a", "b", "c"):
            left = {tp: row for tp, row in placed.items() if tp.topic != gone}
            assert last_decision(left) == decided(transactions)
    many = [TopicPartition(f"topic-{number:03}", 0) for number in range(500)]
    placed = decided(200).placed(many)
    assert 20 < len(placed) < 40  # of 3.7 kB each
    assert last_decision(placed) == decided(200)
    assert len(DecisionStatus(1, "q", 7, "ended", ProducerId(1, 2)).placed(many)) == MAX_PLACES


# Drivers that live on.


@ANY_DIALECT
@BOTH_WAYS
def test_what_an_older_driver_keeps_too_late_hides_no_decision(version, atomic, monkeypatch):
    """It was about to decide batch 0 when it stood still, and another run decided batches 0 and 1."""
    cluster = FakeTransactionCluster(version)
    old, new = Query(cluster, atomic=atomic), Query(cluster, atomic=atomic)
    begun = old.new_driver().begin()
    late = [old.task(begun, 0, slot) for slot in range(3)]
    require_open = BatchCommit._require_open

    def stands_still(commit):
        monkeypatch.undo()
        answer = require_open(commit)
        new.run_batch(0)
        new.run_batch(1)
        return answer

    monkeypatch.setattr(BatchCommit, "_require_open", stands_still)
    with pytest.raises(NotDecided):
        old.new_driver().commit(late, 0)
    new.done = {0}  # it dies before Spark has noted batch 1
    new.run()
    check(cluster, new.expected())


# The record.

RECORD = DecisionStatus(8, "6f0c2f5e-8a53-4a9c-b7a2-0123456789ab", 7, "deciding", ProducerId(4001, 3), 12, 0xC0FFEE)
PLACES = [TopicPartition("t", 2), TopicPartition("t", 1), TopicPartition("u", 0)]


def test_what_is_kept_is_what_is_read_at_one_place_of_each_topic():
    placed = RECORD.placed(PLACES)
    assert set(placed) == {TopicPartition("t", 1), TopicPartition("u", 0)}
    assert last_status(placed) == (RECORD, (TopicPartition("t", 1), TopicPartition("u", 0)))
    assert last_status({}) == (None, ())
    text = (
        f"kafkasource/1 number=8 query={RECORD.query_id} batch=7 state=deciding rows=12 content=0000000000c0ffee "
        "producer=4001 epoch=3"
    )
    assert placed[TopicPartition("u", 0)] == (7, text)


def test_of_several_records_the_highest_number_holds_and_of_one_number_the_state_that_comes_later():
    earlier = DecisionStatus(7, "q", 99, "ended", ProducerId(1, 1)).placed([TopicPartition("z", 0)])
    ended = RECORD.now("ended").placed([TopicPartition("u", 0)])
    assert last_status({**RECORD.placed(PLACES), **earlier}) == (
        RECORD,
        (TopicPartition("t", 1), TopicPartition("u", 0)),
    )
    assert last_status({**RECORD.placed(PLACES), **earlier, **ended})[0] == RECORD.now("ended")


def test_text_of_others_is_not_taken():
    ((offset, text),) = RECORD.placed(PLACES[:1]).values()
    wrong = [text[:cut] for cut in range(len(text) - 1)] + [text.replace("/1", "/2"), text + "\n", "hello", ""]
    for each in wrong:
        with pytest.raises(UnreadableDecision):
            last_status({PLACES[0]: (offset, each)})
    with pytest.raises(UnreadableDecision):
        last_status({PLACES[0]: (offset + 1, text)})


@pytest.mark.parametrize(
    ("state", "producer", "answer"),
    [
        ("Empty", (4001, 3), False),
        ("Ongoing", (4001, 3), False),
        ("CompleteAbort", (4001, 3), False),  # dialect 1
        ("CompleteAbort", (4001, 4), False),  # dialect 2, or its time was up
        ("PrepareCommit", (4001, 3), True),
        ("CompleteCommit", (4001, 3), True),
        ("CompleteCommit", (4001, 4), True),
        ("Empty", (4001, 4), None),  # InitProducerId came since
        ("Empty", (5001, 0), None),
        ("CompleteCommit", (4001, 5), None),
    ],
)
def test_the_coordinator_says_what_became_of_the_drivers_one_transaction(state, producer, answer):
    assert was_decided(RECORD, DescribedTransaction("p-driver", state, *producer, 60_000, None, ())) is answer  # type: ignore[call-arg]
    assert was_decided(RECORD, None) is None
