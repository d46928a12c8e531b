"""The driver's side of exactly once on the real client and in-process brokers, each the coordinator of some."""

from fake_broker import FakeKafka, FakeNet

from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.names import TransactionalIds, WrittenTransaction
from kafkasource.exactly_once.task.plan import TaskResult
from kafkasource.types import TopicPartition

IDS = TransactionalIds("p")
T = [TopicPartition("t", number) for number in range(4)]


class World:
    def __init__(self, version=2, net=FakeNet, **client_settings):
        self.kafka = FakeKafka(nodes=3, topics={"t": 4})
        self.kafka.transaction_version = version
        self.kafka.coordinators = {IDS.task(slot): 1 + slot % 3 for slot in range(4)}
        self.kafka.coordinators |= {IDS.driver: 2, IDS.marker_group: 3, IDS.kept_group: 2}
        self.net = net(self.kafka)
        self.cluster = self.net.cluster(**client_settings)

    def driver(self, kind=ExactlyOnce, **settings):
        return kind(self.cluster, IDS, timeout_ms=600_000, **settings)

    def write(self, decider, slot):
        """A task's transaction with a row in it."""
        name = IDS.task(slot)
        producer = self.cluster.transactions.init_producer_id(name, 600_000)
        if decider.transaction_version == 1:
            self.cluster.transactions.add_partitions(name, producer, [T[slot]])
        else:  # as Produce v12 does
            self.kafka.transactions[name].state = "Ongoing"
            self.kafka.transactions[name].partitions.add(("t", slot))
        return TaskResult(decider, "q", transaction=WrittenTransaction(slot, *producer, 1, 0), partitions=(T[slot],))  # type: ignore[call-arg]

    def written(self, slots=range(4)):
        """A batch that begins, with a task for each slot."""
        decider = self.driver().begin().driver
        return [self.write(decider, slot) for slot in slots]

    def states(self):
        return [self.kafka.transactions[IDS.task(slot)].state for slot in range(4)]

    def open_names(self):
        return [name for name, each in self.kafka.transactions.items() if each.state == "Ongoing"]

    def cut_off(self, node):
        """The driver cannot reach it any more: it hears nothing, though it is among the cluster's brokers."""
        self.net.fates[f"broker-{node}"] = "unreachable"
        for transport in self.net.live():
            if transport.node_id == node:
                transport.fate, transport.reset = "unreachable", True
