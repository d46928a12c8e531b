"""Rare states of a batch, each of which once went wrong."""

import pytest
from test_exactly_once import ANY_DIALECT, IDS, Query, check, decided_then_lost, seen
from transaction_fakes import FakeTransactionCluster, still_open

from kafkasource.sink.transactions.decision_status import DecisionStatus
from kafkasource.sink.transactions.errors import LostTransactions
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
