"""A client without a network, told what each request gets, and a clock that is moved by hand."""

from __future__ import annotations

import struct
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from kafkasource import options
from kafkasource.errors import KafkaSourceError, UnsupportedApiVersion
from kafkasource.kafka.network.metadata import PartitionMetadata, TopicMetadata
from kafkasource.kafka.producer.accumulator import RecordAccumulator
from kafkasource.kafka.producer.client import Wakeup
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.pool import BufferPool
from kafkasource.kafka.producer.queues import PartitionQueues
from kafkasource.kafka.producer.sender import Sender
from kafkasource.kafka.protocol.apis import INIT_PRODUCER_ID, PRODUCE
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns
from kafkasource.types import Node, ProducerId, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeClock:
    """Milliseconds, moved by hand."""

    def __init__(self):
        self.now_ms = 1_000_000.0

    def __call__(self):
        return self.now_ms


class FakeMetadata:
    def __init__(self, leaders):
        self.leaders = dict(leaders)  # TopicPartition -> node id or None
        self.topic_errors = {}
        self.version = 1
        self.updates_requested = 0
        self.wanted = set()
        self.used = set()

    def leader_id(self, tp):
        return self.leaders.get(tp)

    def topic(self, name):
        found = {
            tp.partition: PartitionMetadata(tp.partition, n, 0) for tp, n in self.leaders.items() if tp.topic == name
        }
        return TopicMetadata(name, None, False, found) if found else None

    def node(self, node_id):
        return next((node for node in self.nodes() if node.node_id == node_id), None)

    def nodes(self):
        return [Node(n, "localhost", 9092) for n in {n for n in self.leaders.values() if n is not None}]

    def want(self, topics):
        self.wanted |= set(topics)

    def use(self, topic):
        self.used.add(topic)

    def request_update(self):
        self.updates_requested += 1
        return self.version


class FakePending:
    def __init__(self):
        self.done, self.error, self.body = False, None, None

    def result(self):
        return self.body


@dataclass
class Sent:
    """One produce request as the broker would see it."""

    node_id: int
    body: dict
    pending: FakePending
    expect_response: bool
    batches: dict = field(default_factory=dict)  # TopicPartition -> bytes as they were when sent
    max_version: int | None = None

    def answer(self, offsets=None, codes=None, **extra):
        """Acknowledge every partition, but those in `codes` with their error."""
        by_topic = {}
        for tp in self.batches:
            code = (codes or {}).get(tp, 0)
            offset = -1 if code else (offsets or {}).get(tp, 0)
            row = {"index": tp.partition, "error_code": code, "base_offset": offset, **extra}
            by_topic.setdefault(tp.topic, []).append(row)
        rows = [{"name": name, "partition_responses": parts} for name, parts in by_topic.items()]
        self.pending.body = {"responses": rows, "throttle_time_ms": 0}
        self.pending.done = True

    def fail(self, error):
        self.pending.error = error
        self.pending.done = True


class FakeClient:
    """Keeps what is sent until the test answers it. InitProducerId is answered at once with ids 1000, 1001, ..."""

    def __init__(self, leaders):
        self.metadata = FakeMetadata(leaders)
        self.fatal = None
        self.bootstrap_errors = {}
        self.bootstrap_is_hopeless = lambda: False
        self.identity = ""
        self.sent: list[Sent] = []
        self.polls: list[float] = []
        self.init_codes: list[int] = []  # errors to give first
        self.produce_version = 13  # what the brokers serve
        self.inits = 0
        self.wakeups = 0
        self.closed = False

    def send(self, node_id, api, body, *, timeout_ms=None, expect_response=True, max_version=None):
        pending = FakePending()
        if api is INIT_PRODUCER_ID and self.produce_version < 3:
            pending.error, pending.done = UnsupportedApiVersion("broker 1 does not serve InitProducerId"), True
        elif api is INIT_PRODUCER_ID:
            code = self.init_codes.pop(0) if self.init_codes else 0
            if not code:
                self.inits += 1
            pending.body = {"error_code": code, "producer_id": 999 + self.inits, "producer_epoch": 0}
            pending.done = True
        else:
            assert api is PRODUCE
            try:
                body = body(min(self.produce_version, max_version))
            except KafkaSourceError as error:
                pending.error, pending.done = error, True
                self.wakeup()  # the next poll of the real client returns at once
                return pending
            batches = {
                TopicPartition(topic["name"], part["index"]): bytes(part["records"])
                for topic in body["topic_data"]
                for part in topic["partition_data"]
            }
            self.sent.append(Sent(node_id, body, pending, expect_response, batches, max_version))
        return pending

    def least_loaded(self, now, in_vain):
        nodes = self.metadata.nodes()
        return (nodes[0].node_id, 0.0) if nodes else (None, 100.0)

    def poll(self, timeout_ms):
        self.polls.append(timeout_ms)

    def wakeup(self):
        self.wakeups += 1

    def close(self):
        self.closed = True


class AcknowledgingClient(FakeClient):
    """Answers each produce request within the next poll; fails the first with `code` where one is given."""

    def __init__(self, leaders, code=0):
        super().__init__(leaders)
        self.code, self.offsets = code, {}
        self.inits_seen = 0
        self.woken = threading.Event()

    def wakeup(self):
        self.woken.set()

    def poll(self, timeout_ms):
        if all(sent.pending.done for sent in self.sent) and self.inits == self.inits_seen:
            self.woken.wait(timeout_ms / 1000)
            self.woken.clear()
        self.inits_seen = self.inits
        for sent in self.sent:
            if not sent.pending.done:
                codes, self.code = {tp: self.code for tp in sent.batches if self.code}, 0
                sent.answer(self.offsets, codes)


def producer_of(batch):
    """(producer id, epoch, base sequence, record count) in the header of a record batch v2."""
    producer_id, epoch, sequence, count = struct.unpack_from(">qhii", batch, 43)
    return producer_id, epoch, sequence, count


def is_transactional(batch):
    return bool(struct.unpack_from(">h", batch, 21)[0] & 0x10)


class FakeTransactions:
    """Stands for `Cluster.transactions`, for a task; producer ids stay, epochs grow."""

    def __init__(self):
        self.epochs = Counter()
        self.timeouts_ms = []
        self.added = []  # (transactional id, ProducerId, [partitions]) of each request

    def init_producer_id(self, transactional_id=None, transaction_timeout_ms=None):
        self.timeouts_ms.append(transaction_timeout_ms)
        self.epochs[transactional_id] += 1
        return ProducerId(5000 + list(self.epochs).index(transactional_id), self.epochs[transactional_id] - 1)

    def add_partitions(self, transactional_id, producer_id, partitions):
        self.added.append((transactional_id, producer_id, list(partitions)))


def columns(count, value=b"v" * 100):
    return RecordColumns(None, pa.array([value] * count, pa.binary()), default_timestamp_ms=1)


class Rig:
    """Accumulator and sender on a fake client: the test is the sender thread."""

    def __init__(self, leaders=None, **settings):
        settings = {"linger_ms": 0, "batch_bytes": 4096, "buffer_memory_bytes": 16 * 4096, "max_block_ms": 0} | settings
        defaults = options.parse({"kafka.bootstrap.servers": "localhost:9092"}, "sink")
        self.config = replace(ProducerConfig.from_options(defaults), **settings)
        self.clock = FakeClock()
        self.client = FakeClient({T0: 1, T1: 1} if leaders is None else leaders)
        self.pool = BufferPool(self.config.buffer_memory_bytes, self.config.batch_bytes)
        self.build(self.clock)

    def build(self, clock):
        """Queues, accumulator and sender, on the pool and the client that the rig has now."""
        self.queues = PartitionQueues(self.config, self.pool, partial(BatchBuilder, codec=self.config.compression))
        self.accumulator = RecordAccumulator(self.config, self.queues, clock, lambda: self.client.wakeup())
        self.sender = Sender(self.config, self.queues, self.client, Wakeup(self.client), clock_ms=clock)

    def append(self, delivery, tp=T0, count=1, value=b"v" * 100):
        rows = columns(count, value)
        self.accumulator.append(tp.topic, rows, None, [(tp.partition, 0, count)], delivery)

    def drain(self, node_id=1):
        """The batches of one request, which the sender would take now."""
        ready = self.queues.ready(self.client.metadata.leader_id, self.clock())
        return self.queues.drain(ready.nodes.get(node_id, []))

    def settle(self, batch, *, stored=True):
        """Do what the sender does after a batch's final answer."""
        self.queues.release(batch)
        self.queues.answered(batch, stored=stored)

    def sent_and_settled(self):
        """The batches that are left, each encoded, with its bytes, and stored before the next request."""
        while batches := self.drain():
            for batch in batches:
                if batch.encoded is None:
                    batch.close(-1, -1, -1)
                yield batch, bytes(batch.encoded)
                self.settle(batch)

    def send(self, tp=T0, count=1, transaction=None, delivery=None, value=b"v" * 100):
        """A task's batch, and the one request that it is in."""
        delivery = delivery or self.sender.begin(transaction)
        self.append(delivery, tp, count, value)
        (sent,) = self.turn()
        return delivery, sent

    def answer(self, sent, offsets=None, codes=None, **extra):
        """As a broker does, and the sender takes it in. `codes`: of each partition, or one for T0."""
        sent.answer(offsets, {T0: codes} if isinstance(codes, int) else codes, **extra)
        return self.turn()

    def turn(self, times=3):
        """Turns of the sender's loop; the first may be spent on the producer id."""
        before = len(self.client.sent)
        for _ in range(times):
            self.sender.run_once()
        return self.client.sent[before:]

    @property
    def leaked_bytes(self):
        return self.pool.total_bytes - self.pool.available_bytes
