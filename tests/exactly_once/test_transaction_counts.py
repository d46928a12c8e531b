"""What the driver says became of its transactions, counted against what the brokers show."""

import pytest
from fake_broker import FakeKafka, FakeNet
from transaction_fakes import CommitsOtherwise

from kafkasource.exactly_once.counts import TransactionCounts
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.names import TransactionalIds, WrittenTransaction
from kafkasource.exactly_once.task.plan import TaskResult
from kafkasource.kafka.protocol.apis import LIST_TRANSACTIONS
from kafkasource.types import TopicPartition

IDS = TransactionalIds("p")
STARTED_MS = 1_700_000_000_000  # of every transaction, says the fake coordinator


class Dies(Exception):
    """Where a process would."""


class World:
    def __init__(self):
        self.kafka = FakeKafka(nodes=2, topics={"t": 4})
        self.kafka.coordinators = {IDS.task(slot): 1 + slot % 2 for slot in range(4)}
        self.cluster = FakeNet(self.kafka).cluster()

    def driver(self, kind=ExactlyOnce, **settings):
        return kind(self.cluster, IDS, timeout_ms=600_000, wall_clock_ms=lambda: STARTED_MS + 2_500, **settings)

    def write(self, decider, slots):
        """A task's transaction for each, with a row in it as Produce v12 puts it there."""
        results = []
        for slot in slots:
            name = IDS.task(slot)
            producer = self.cluster.transactions.init_producer_id(name, 600_000)
            self.kafka.transactions[name].state = "Ongoing"
            self.kafka.transactions[name].partitions.add(("t", slot))
            transaction = WrittenTransaction(slot, *producer, 1, 0)
            results.append(TaskResult(decider, "q", transaction=transaction, partitions=(TopicPartition("t", slot),)))
        return results


@pytest.fixture
def world():
    return World()


def test_a_batch_counts_its_own(world):
    results = world.write(world.driver().begin().driver, range(4))
    assert world.driver().commit(results, 7) == TransactionCounts(opened=4, committed=4, oldest_open_ms=2_500)


def test_what_was_left_undecided_is_counted_as_aborted_by_the_batch_that_comes_next(world):
    world.write(world.driver().begin().driver, range(3))
    results = world.write(world.driver().begin().driver, [0])
    assert world.driver().commit(results, 7) == TransactionCounts(1, 1, 2_500, aborted=3)


def test_what_was_decided_and_not_committed_is_counted_as_recovered_by_the_replay(world):
    class Killed(CommitsOtherwise):
        def end_tasks(self, decision, transactions):
            self.tasks.commit(decision, transactions[:1])
            raise Dies

    results = world.write(world.driver().begin().driver, range(4))
    with pytest.raises(Dies):
        world.driver(Killed).commit(results, 7)
    decider = world.driver().begin().driver
    assert world.driver().commit([TaskResult(decider, "q", skipped=True)], 7) == TransactionCounts(recovered=3)


def test_a_newer_transaction_in_the_slot_of_a_decided_one_is_aborted_and_not_recovered(world):
    world.driver().commit(world.write(world.driver().begin().driver, range(2)), 7)
    world.write(world.driver().begin().driver, [1])
    decider = world.driver().begin().driver
    assert world.driver().commit([TaskResult(decider, "q")], 8) == TransactionCounts(aborted=1)


def test_what_brokers_gave_up_is_missing_among_the_committed(world):
    class Late(CommitsOtherwise):
        def end_tasks(self, decision, transactions):
            world.kafka.time_out(IDS.task(2))
            return super().end_tasks(decision, transactions)

    results = world.write(world.driver().begin().driver, range(4))
    assert world.driver(Late, on_lost="skip").commit(results, 7) == TransactionCounts(4, 3, 2_500)


def test_one_transaction_for_all_is_one(world):
    decider = world.driver(atomic=True).begin().driver
    world.kafka.transactions[IDS.driver].state = "Ongoing"
    results = [TaskResult(decider, "q", partitions=(TopicPartition("t", slot),)) for slot in range(2)]
    assert world.driver(atomic=True).commit(results, 7) == TransactionCounts(1, 1)


def test_brokers_are_asked_for_open_transactions_once_while_none_are_found(world):
    world.driver().commit(world.write(world.driver().begin().driver, range(4)), 7)
    world.kafka.requests.clear()
    world.driver().begin()
    assert len(world.kafka.asked(LIST_TRANSACTIONS)) == 2  # nodes


def test_nothing_written_at_all_is_nothing_counted(world):
    assert world.driver().commit([], 7) == TransactionCounts()
