"""How long begin and commit take where each answer takes a while, and what it does where a broker cannot be reached."""

import logging
import statistics
import time
import uuid

import pytest
from driver_world import IDS, World
from fake_broker import FakeNet, FakeTransport

from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.exactly_once.task import transactions as task_transactions
from kafkasource.exactly_once.task.plan import TaskResult
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.transactions import Ahead
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import LIST_TRANSACTIONS
from kafkasource.types import TopicPartition

ROUND_TRIP_S = 0.1


class FarTransport(FakeTransport):
    """What the broker answers is here a round trip later."""

    def send(self, pieces):
        before = len(self.incoming)
        size = super().send(pieces)
        answer = bytes(self.incoming[before:])
        del self.incoming[before:]
        if answer:
            self.net.later(ROUND_TRIP_S, lambda: self.incoming.extend(answer))
        return size


class FarNet(FakeNet):
    def open(self, address):
        transport = super().open(address)
        transport.__class__ = FarTransport
        return transport


@pytest.fixture(params=[1, 2])
def version(request):
    return request.param


def round_trips(world, act):
    before = world.net.now
    act()
    return round((world.net.now - before) / ROUND_TRIP_S, 1)


def test_what_does_not_depend_on_each_other_goes_together(version):
    """What was kept, then the driver's epoch, then the last decision. All in a row it was six.

    Where nothing is kept yet the decision is read once more, before another query could be fenced.
    """
    world = World(version, FarNet)
    world.driver().begin()
    assert round_trips(world, world.driver().begin) == 4
    world.driver().commit(world.written(range(2)), 0)
    assert round_trips(world, world.driver().begin) == 3


def test_a_commit_has_only_steps_that_follow_from_each_other(version):
    """Look whether all is open, keep that it is about to be decided, offer, decide, end the tasks' transactions, keep.

    The older dialect adds the group to the transaction before it offers. More tasks take no more round trips.
    """
    world = World(version, FarNet)
    for batch_id, tasks in enumerate((1, 4)):
        written = world.written(range(tasks))
        if batch_id == 0:
            world.cluster.transactions.describe([IDS.task(slot) for slot in range(4)])  # their coordinators are known
        assert round_trips(world, lambda: world.driver().commit(written, batch_id)) == {1: 7, 2: 6}[version]  # noqa: B023


def test_the_coordinators_are_looked_up_together(version):
    """One round trip more, after one more as nothing is kept yet; it was nine."""
    world = World(version, FarNet)
    world.cluster.supports(LIST_TRANSACTIONS)
    for node in world.kafka.node_ids:
        world.cluster.caller.call(node, LIST_TRANSACTIONS, {"state_filters": []})
    assert round_trips(world, world.driver().begin) == 5


def test_a_begin_finds_what_is_open_and_aborts_it(version):
    world = World(version, FarNet)
    world.written()
    assert world.driver().begin().driver.aborted == 4
    assert world.open_names() == []


def test_a_broker_that_cannot_be_reached_is_gone_without_and_named(version, caplog):
    task_transactions._warned.reset()
    world = World(version)
    world.written()  # 0 and 3 are coordinated by broker 1
    world.cut_off(1)
    began = world.net.now
    with caplog.at_level(logging.WARNING, "kafkasource.sink"):
        begun = world.driver().begin()
    assert begun.driver.aborted == 2
    assert world.open_names() == ["p-0", "p-3"]
    assert world.net.now - began < 25
    (warning,) = [record.message for record in caplog.records if record.name == "kafkasource.sink"]
    assert "broker 1 cannot be reached from the driver" in warning
    began = world.net.now
    with caplog.at_level(logging.WARNING, "kafkasource.sink"):
        world.driver().begin()
    assert world.net.now - began < 2  # each micro-batch begins
    assert len([record for record in caplog.records if record.name == "kafkasource.sink"]) == 1


def test_what_an_unreachable_broker_coordinated_is_aborted_where_it_moved_to(version):
    world = World(version)
    world.driver().commit(world.written(), 0)
    world.written()
    world.cut_off(1)
    world.cluster.transactions.list_reachable("p-")  # and only then it moves
    real = world.cluster.transactions.list_reachable

    def moves_afterwards(prefix):
        found = real(prefix)
        world.kafka.coordinators |= {IDS.task(0): 2, IDS.task(3): 2}
        return found

    world.cluster.transactions.list_reachable = moves_afterwards
    ahead = Ahead(world.cluster.transactions.version, lambda: moves_afterwards("p-"))
    world.cluster.transactions.ahead = lambda *_: ahead
    world.driver().begin()
    assert world.open_names() == []


def test_a_transaction_left_open_at_an_unreachable_broker_is_aborted_by_the_task_that_opens_it_again(version):
    world = World(version)
    (stale,) = world.written([0])
    world.cut_off(1)
    decider = world.driver().begin().driver
    assert world.open_names() == ["p-0"]
    world.net.fates.clear()
    again = world.write(decider, 0)
    assert again.transaction.producer_epoch > stale.transaction.producer_epoch
    world.driver().commit([again], 1)
    assert world.open_names() == []
    assert world.kafka.transactions["p-0"].state == "CompleteCommit"


@pytest.mark.broker
def test_a_begin_on_a_real_broker_takes_milliseconds(kafka_broker, kafka_topic):
    """No limit is set: the figure is printed for docs/decisions/exactly-once.md."""
    topic, ids = kafka_topic(), TransactionalIds(f"ms-{uuid.uuid4().hex[:8]}")
    took_ms = []
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as cluster:
        for batch_id in range(30):
            driver = ExactlyOnce(cluster, ids, timeout_ms=60_000)
            began = time.perf_counter()
            decider = driver.begin().driver
            took_ms.append((time.perf_counter() - began) * 1000)
            driver.commit([TaskResult(decider, "q", partitions=(TopicPartition(topic, 0),))], batch_id)
        print(f"begin: median {statistics.median(took_ms[1:]):.1f} ms, the first {took_ms[0]:.1f} ms")
        assert driver.begin().last.batch_id == 29
