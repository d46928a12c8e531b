"""What the driver says became of its transactions, counted against what the brokers show."""

import pytest
from driver_world import IDS, T, World
from transaction_fakes import CommitsOtherwise, but_first

from kafkasource.exactly_once.counts import TransactionCounts
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.task.plan import TaskResult
from kafkasource.kafka.protocol.apis import LIST_TRANSACTIONS

STARTED_MS = 1_700_000_000_000  # of every transaction, says the fake coordinator


@pytest.fixture
def world():
    return World()


def commit(world, results, batch_id, kind=ExactlyOnce, **settings):
    driver = world.driver(kind, wall_clock_ms=lambda: STARTED_MS + 2_500, **settings)
    return driver.commit(results, batch_id)


def test_a_batch_counts_its_own(world):
    counts = TransactionCounts(opened=4, committed=4, oldest_open_ms=2_500)
    assert commit(world, world.written(), 7) == counts


def test_what_was_left_undecided_is_counted_as_aborted_by_the_batch_that_comes_next(world):
    world.written(range(3))
    assert commit(world, world.written([0]), 7) == TransactionCounts(1, 1, 2_500, aborted=3)


def test_what_was_decided_and_not_committed_is_counted_as_recovered_by_the_replay(world):
    class Killed(CommitsOtherwise):
        def end_tasks(self, decision, transactions):
            self.tasks.commit(decision, transactions[:1])
            raise KeyboardInterrupt

    results = world.written()
    with pytest.raises(KeyboardInterrupt):
        commit(world, results, 7, Killed)
    decider = world.driver().begin().driver
    assert commit(world, [TaskResult(decider, "q", skipped=True)], 7) == TransactionCounts(recovered=3)


def test_a_newer_transaction_in_the_slot_of_a_decided_one_is_aborted_and_not_recovered(world):
    commit(world, world.written(range(2)), 7)
    world.written([1])
    decider = world.driver().begin().driver
    assert commit(world, [TaskResult(decider, "q")], 8) == TransactionCounts(aborted=1)


def test_what_brokers_gave_up_is_missing_among_the_committed(world):
    late = but_first(lambda: world.kafka.time_out(IDS.task(2)))
    assert commit(world, world.written(), 7, late, on_lost="skip") == TransactionCounts(4, 3, 2_500)


def test_one_transaction_for_all_is_one(world):
    decider = world.driver(atomic=True).begin().driver
    world.kafka.transactions[IDS.driver].state = "Ongoing"
    results = [TaskResult(decider, "q", partitions=(T[slot],)) for slot in range(2)]
    assert commit(world, results, 7, atomic=True) == TransactionCounts(1, 1)


def test_brokers_are_asked_for_open_transactions_once_while_none_are_found(world):
    commit(world, world.written(), 7)
    world.kafka.requests.clear()
    world.driver().begin()
    assert len(world.kafka.asked(LIST_TRANSACTIONS)) == 3  # nodes


def test_nothing_written_at_all_is_nothing_counted(world):
    assert commit(world, [], 7) == TransactionCounts()
