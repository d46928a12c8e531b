"""Rare states of a batch, each of which once went wrong."""

from dataclasses import replace

import pytest
from test_exactly_once import ANY_DIALECT, IDS, Query, check, decided_then_lost, seen
from transaction_fakes import Crash, FakeTransactionCluster, still_open

from kafkasource.sink.transactions.decision_status import DecisionStatus
from kafkasource.sink.transactions.errors import LostDecision, LostTransactions
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
    gone_without = DecisionStatus(number, "q", 1, "ended", ProducerId(1, 1))
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


@ANY_DIALECT
def test_lost_rows_that_no_task_came_to_write_again_stop_the_query_with_atomic_batch_too(version):
    """Which it was given after the loss."""
    cluster, query = decided_then_lost(version, "rewrite")
    query.atomic = True
    begun = query.new_driver().begin()
    lost = {each.slot: each for each in begun.lost}
    results = [query.task(begun, 0, slot) for slot in (0, 1)]  # task 2 had nothing to read any more
    results[1] = replace(results[1], transaction=lost[1])  # its claim, which names the slot
    with pytest.raises(LostTransactions, match=r"tasks \[2\]"):
        query.new_driver().commit(results, 0)
    assert sum(seen(cluster).values()) == 4
