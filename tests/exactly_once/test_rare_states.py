"""Rare states of a batch, each of which once went wrong."""

import re
from contextlib import nullcontext
from itertools import count

import pytest
from test_exactly_once import ANY_DIALECT, IDS, Query, check, content_of, decided_then_lost, seen
from transaction_fakes import Crash, FakeTransactionCluster, but_first, still_open

from kafkasource.errors import DeadlineExceeded
from kafkasource.exactly_once.decision_status import DecisionStatus
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.errors import DecidedNotCommitted, LostDecision, LostTransactions
from kafkasource.types import ProducerId, TopicPartition


@ANY_DIALECT
def test_a_batch_that_fails_while_lost_rows_are_written_again_leaves_nothing_open(version):
    """Task 1 wrote its lost rows again, task 2 failed."""
    cluster, query = decided_then_lost(version, "rewrite")
    begun = query.new_driver().begin()
    results = [query.task(begun, 0, slot) for slot in (0, 1)]
    with pytest.raises(LostTransactions):
        query.new_driver().abort(results, 0, (2,), begun.driver)
    assert not any(still_open(log) for log in cluster.logs.values())
    query.run()
    check(cluster, query.expected())


@ANY_DIALECT
@pytest.mark.parametrize("on_lost", ["fail", "rewrite"])
def test_what_a_later_batch_took_over_is_not_lost_to_a_checkpoint_that_has_gone_back(version, on_lost):
    """Batch 1 was about to be decided when the driver died. Then the checkpoint of before batch 0 comes back."""
    cluster = FakeTransactionCluster(version)
    query = Query(cluster, batches=2)
    query.run_batch(0)
    results = query.write(1)
    cluster.crash_before = "offsets p-driver"
    with pytest.raises(Crash):
        query.new_driver().commit(results, 1)
    query.done, query.on_lost = set(), on_lost
    query.run()
    check(cluster, query.expected())


class OneTopicEach(Query):
    """Each batch writes to a topic of its own."""

    def rows_of(self, batch_id, slot):
        return {TopicPartition(f"t{batch_id}", slot): [f"{batch_id}/{slot}"]}


@ANY_DIALECT
def test_a_batch_that_is_gone_without_is_skipped_again_though_an_older_record_is_left(version):
    """The user went on without batch 1, Spark had not noted that, and the record of batch 0 is still there."""
    cluster = FakeTransactionCluster(version)
    cluster.logs = {TopicPartition(f"t{number}", slot): [] for number in range(3) for slot in range(3)}
    query = OneTopicEach(cluster)
    query.run_batch(0)
    number = query.new_driver().begin().driver.number
    given = [content_of(query.rows_of(1, slot)) for slot in range(3)]
    rows, content = sum(each["rows"] for each in given), sum(each["content"] for each in given) % 2**64
    gone_without = DecisionStatus(number, "q", 1, "ended", ProducerId(1, 1), rows, content)
    query.write(1)  # takes the slots of batch 0
    cluster.time_is_up()
    cluster.groups.keep(IDS.kept_group, gone_without.placed([TopicPartition("t0", 0)]), 1)
    query.run()
    assert seen(cluster) == query.expected([0, 2])


@ANY_DIALECT
@pytest.mark.parametrize("started_since", [False, True])
def test_a_batch_with_visible_rows_is_not_written_whole_when_its_record_has_expired(version, started_since):
    """Its lost rows were about to be decided again when the driver died. The coordinator knows that they were not."""
    cluster, query = decided_then_lost(version, "rewrite")
    results = query.write(0)
    cluster.crash_before = "offsets p-driver"
    with pytest.raises(Crash):
        query.new_driver().commit(results, 0)
    if started_since:
        query.new_driver().begin()
    cluster.time_is_up()
    cluster.forget_offsets()  # and no transactional ids: the record is older than the last use of these
    query.on_lost = "fail"
    with pytest.raises(LostDecision, match="batch 0 was about to be decided"):
        query.run()
    assert sum(seen(cluster).values()) == 4


@ANY_DIALECT
@pytest.mark.parametrize("committed", [0, 1, 3])
def test_of_transactions_whose_ids_brokers_have_forgotten_nobody_says_that_they_were_aborted(version, committed):
    """The driver died while it committed, and was away until their ids expired. The decision record is still there."""
    cluster = FakeTransactionCluster(version)
    Query(cluster, batches=1).run()
    first_end = cluster.calls.index("end p-0 True")

    cluster = FakeTransactionCluster(version)
    query = Query(cluster, batches=2)
    cluster.crash_at = {first_end + committed: "before"}  # 3: before P-kept says that they have ended
    with pytest.raises(Crash):
        query.run()
    assert sum(seen(cluster).values()) == 4 * committed
    cluster.forget_ids()
    for _ in range(2):
        text = r"batch 0 was decided.*transactional\.id\.expiration\.ms.*tasks \[0, 1, 2\] \(12 rows\).*Look whether"
        with pytest.raises(LostDecision, match=text):
            query.run()
    query.on_lost = "skip" if committed else "rewrite"  # as who looks into the topics would set it
    query.run()
    if committed in (0, 3):
        check(cluster, query.expected())


# Batch writes. None is replayed, so nothing is kept of one but its decision.


def write(cluster, write_id, *, crash_before=None):
    query = Query(cluster, batches=1, query_id=write_id)
    begun = query.new_driver().begin(write_id)
    results = [query.task(begun, 0, slot) for slot in range(3)]
    cluster.crash_before = crash_before
    with nullcontext() if crash_before is None else pytest.raises(Crash):
        query.new_driver().commit(results, 0)
    return query


@ANY_DIALECT
def test_a_batch_write_that_lost_some_of_its_rows_is_told_of_by_the_next_one_alone(version, caplog):
    cluster = FakeTransactionCluster(version)
    first = write(cluster, "w1", crash_before="end p-1 True")
    cluster.time_is_up()
    second = write(cluster, "w2")
    assert re.findall(r"batch write (\w+) under 'p'.* tasks (.*) were not committed", caplog.text) == [
        ("w1", "[1, 2] (8 rows)")
    ]
    caplog.clear()
    third = write(cluster, "w3")
    assert caplog.text == ""
    assert sum((seen(cluster) & first.expected()).values()) == 4
    assert seen(cluster) - first.expected() == second.expected() + third.expected()


@ANY_DIALECT
def test_a_batch_write_that_comes_in_time_commits_the_rest_of_the_one_before_and_warns_of_nothing(version, caplog):
    cluster = FakeTransactionCluster(version)
    first = write(cluster, "w1", crash_before="end p-1 True")
    second = write(cluster, "w2")
    check(cluster, first.expected() + second.expected())
    assert caplog.text == ""


@ANY_DIALECT
def test_a_batch_write_whose_rows_are_all_there_is_not_told_of_after_one_that_failed(version, caplog):
    """The ids of its transactions were in use again, and what used them was aborted."""
    cluster = FakeTransactionCluster(version)
    first = write(cluster, "w1")
    failed = Query(cluster, batches=1, query_id="w2")
    begun = failed.new_driver().begin("w2")
    failed.new_driver().abort([failed.task(begun, 0, slot) for slot in (0, 1)], 0, [2], begun.driver)
    third = write(cluster, "w3")
    check(cluster, first.expected() + third.expected())
    assert caplog.text == ""


def test_brokers_that_cannot_tell_leave_it_to_the_user_whether_it_lost_rows(caplog):
    cluster = FakeTransactionCluster(1)
    cluster.cannot_list()
    write(cluster, "w1", crash_before="end p-1 True")
    cluster.time_is_up()
    write(cluster, "w2")
    assert (
        "tasks [1, 2] (8 rows) cannot be committed again. If a write has failed since, that is expected" in caplog.text
    )


@ANY_DIALECT
@pytest.mark.parametrize("lists", [True, False])
def test_nor_does_one_say_anything_that_finds_the_ids_forgotten(version, lists, caplog):
    """They are after each week's pause, whatever became of the write before. Its record may still be there."""
    cluster = FakeTransactionCluster(version)
    if not lists:
        cluster.cannot_list()
    first = write(cluster, "w1")
    cluster.forget_ids()
    second = write(cluster, "w2")
    check(cluster, first.expected() + second.expected())
    assert caplog.text == ""


# A batch write whose coordinator does not answer after the decision. Who runs it again writes its rows again.


class Away:
    """The coordinator of the task transactions, for some requests."""

    def __init__(self, cluster, requests):
        self.requests, self.end_each = requests, cluster.transactions.end_each
        cluster.transactions.end_each = self

    def __call__(self, transactions, commit, tv):
        if self.requests > 0:
            self.requests -= 1
            raise DeadlineExceeded("EndTxn of 'p-0': not done within 60000 ms; the last error: ... (15)")
        return self.end_each(transactions, commit, tv)


def decided_write(cluster, clock_ms):
    query = Query(cluster, batches=1, query_id="w")

    def new_driver():
        return ExactlyOnce(cluster, IDS, timeout_ms=600_000, wall_clock_ms=lambda: next(clock_ms))

    begun = new_driver().begin("w")
    return query, new_driver, [query.task(begun, 0, slot) for slot in range(3)], begun.driver


@ANY_DIALECT
def test_a_decided_batch_write_waits_for_its_coordinator_and_ends_well(version, caplog):
    cluster = FakeTransactionCluster(version)
    query, new_driver, results, _ = decided_write(cluster, count(0, 60_000))
    Away(cluster, 5)
    new_driver().commit(results, 0)
    check(cluster, query.expected())
    assert "batch write w under 'p': it is decided, but not all of it is committed yet" in caplog.text


@ANY_DIALECT
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_batch_write_that_fails_after_its_decision_says_that_it_must_not_be_run_again(version, comes_back, caplog):
    cluster = FakeTransactionCluster(version)
    query, new_driver, results, driver = decided_write(cluster, count(0, 60_000))
    away = Away(cluster, 1_000)
    with pytest.raises(DecidedNotCommitted, match=r"batch write w .* is decided.* Do not run it again: its rows"):
        new_driver().commit(results, 0)
    assert away.requests > 980  # until 'kafka.transaction.timeout.ms'
    if comes_back:
        away.requests = 0
        new_driver().abort(results, 0, (), driver)  # as Spark calls it then
        assert "is complete now: do not run it again" in caplog.text
    else:
        with pytest.raises(DeadlineExceeded):
            new_driver().abort(results, 0, (), driver)
        away.requests = 0
        new_driver().begin("w2")
    check(cluster, query.expected())


@ANY_DIALECT
def test_a_batch_write_that_lost_rows_itself_says_that_the_others_are_there(version):
    cluster = FakeTransactionCluster(version)
    _, _, results, _ = decided_write(cluster, count(0, 60_000))

    late = but_first(cluster.time_is_up)(cluster, IDS, timeout_ms=600_000)
    with pytest.raises(LostTransactions, match=r"this batch write was decided.*tasks \[0, 1, 2\].*do not run"):
        late.commit(results, 0)


def test_a_batch_write_of_which_nobody_knows_whether_it_is_decided_says_so(monkeypatch):
    cluster = FakeTransactionCluster(2)
    _, new_driver, results, _ = decided_write(cluster, count(0, 60_000))

    def no_answer(*_):
        raise DeadlineExceeded("no answer")

    cluster.transactions.end = no_answer
    monkeypatch.setattr(cluster.groups, "committed", no_answer)
    with pytest.raises(DecidedNotCommitted, match="it is not known yet whether it was decided: no answer Look whether"):
        new_driver().commit(results, 0)
