"""What brokers do with transactions, which the sink's promises rest on: Kafka 3.9 and 4.3, and the fake of both.

The fake cluster goes through the same tests, so that tests on it prove something.
"""

from __future__ import annotations

import itertools
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fake_broker import FakeKafka, FakeNet

from kafkasource.errors import (
    BrokerError,
    DeadlineExceeded,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.offsets import LATEST
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import END_TXN, PRODUCE
from kafkasource.kafka.records.checksum import crc32c
from kafkasource.testing.broker import Broker
from kafkasource.types import IsolationLevel, ProducerId, TopicPartition

_names = itertools.count()


@dataclass
class World:
    """A cluster, real or not, and the dialect that the test speaks there."""

    connect: Callable[..., Cluster]
    topic: str
    tv: int
    fake: FakeKafka | None = None
    bootstrap_servers: str = ""

    def __post_init__(self) -> None:
        self.cluster = self.connect()
        self.name = f"txn-{uuid.uuid4().hex[:8]}"
        self.group = f"g-{self.name}"

    def tp(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    def begin(self, name: str | None = None, **settings: Any) -> ProducerId:
        return self.cluster.transactions.init_producer_id(name or self.name, **settings)

    def produce(
        self,
        producer: ProducerId,
        partition: int,
        values: list[bytes] | None = None,
        sequence: int = 0,
        *,
        name: str | None = None,
        by: Cluster | None = None,
        add: bool = True,
    ) -> int:
        """Write in the transaction, as its dialect wants it; the base offset."""
        cluster, name, tp = by or self.cluster, name or self.name, self.tp(partition)
        if add and self.tv == 1:
            cluster.transactions.add_partitions(name, producer, [tp])
        data = {"index": partition, "records": record_batch(producer, sequence, values or [b"v"])}
        body = {
            "transactional_id": name,
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [{"name": self.topic, "partition_data": [data]}],
        }
        until = time.monotonic() + 60
        while True:
            answer = cluster.caller.call(cluster.leaders.of(tp), PRODUCE, body, max_version=11 if self.tv == 1 else 12)
            row = answer["responses"][0]["partition_responses"][0]
            if row["error_code"] not in (3, 6, 51) or time.monotonic() >= until:
                break  # else the topic is new, or the markers of the last transaction are being written
            time.sleep(0.02)
        if row["error_code"]:
            raise BrokerError(row["error_code"], "Produce")
        offset: int = row["base_offset"]
        return offset

    def mark(self, producer: ProducerId, offset: int, text: str = "", partition: int = 0) -> None:
        if self.tv == 1:
            self.cluster.transactions.add_offsets(self.name, producer, self.group)
        offsets = {self.tp(partition): (offset, text)}
        self.cluster.transactions.commit_offsets(self.name, producer, self.group, offsets, self.tv)

    def end(self, producer: ProducerId, commit: bool = True, tv: int | None = None) -> ProducerId:
        return self.cluster.transactions.end(self.name, producer, commit, tv or self.tv)

    def marked(self, **settings: Any) -> tuple[int, str] | None:
        return self.cluster.groups.committed(self.group, [self.tp(0)], **settings)[self.tp(0)]

    def ends(self, level: IsolationLevel) -> list[int | None]:
        found = self.cluster.offsets.list({self.tp(i): LATEST for i in range(2)}, level)
        return [found[self.tp(i)].offset for i in range(2)]

    def time_out(self) -> None:
        if self.fake is not None:
            self.fake.time_out(self.name)
        until = time.monotonic() + 60
        while self.cluster.transactions.describe([self.name])[self.name].state != "CompleteAbort":
            assert time.monotonic() < until
            time.sleep(0.1)


def record_batch(producer: ProducerId, sequence: int, values: list[bytes]) -> bytes:
    """A transactional record batch v2 of short values, by hand."""
    records = b""
    for i, value in enumerate(values):
        # attributes, timestamp delta, offset delta, no key, value, no headers; all varints of one byte
        body = bytes([0, 0, 2 * i, 1, 2 * len(value)]) + value + b"\0"
        records += bytes([2 * len(body)]) + body
    now = int(time.time() * 1000)
    rest = struct.pack(">hiqqqhii", 0x10, len(values) - 1, now, now, *producer, sequence, len(values)) + records
    return struct.pack(">qiibI", 0, len(rest) + 9, -1, 2, crc32c(rest)) + rest


# A broker of 3.9 has dialect 1 only; one of 4.3 has both, so that clients of both kinds work on it.
REAL = [("3.9.2", 1), ("4.3.1", 1), ("4.3.1", 2)]


@pytest.fixture(scope="module")
def brokers() -> Iterator[Callable[[str], Broker]]:
    started: dict[str, Broker] = {}
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 300}

    def broker(version: str) -> Broker:
        if version not in started:
            started[version] = Broker(version=version, properties=often, use_existing=False)
            started[version].start()
        return started[version]

    yield broker
    for each in started.values():
        each.stop()


def real_world(brokers: Any, version: str, tv: int) -> Iterator[World]:
    servers = brokers(version).bootstrap_servers
    clusters: list[Cluster] = []

    def connect(**settings: Any) -> Cluster:
        clusters.append(Cluster(ClientConfig.of(servers, **settings)))
        return clusters[-1]

    topic = f"facts-{next(_names)}"
    connect().topics.create([topic], partitions=2)
    yield World(connect, topic, tv, bootstrap_servers=servers)
    for cluster in clusters:
        cluster.close()


def fake_world(tv: int) -> World:
    kafka = FakeKafka(nodes=1, topics={"t": 2})
    kafka.transaction_version = tv
    net = FakeNet(kafka)
    return World(net.cluster, "t", tv, kafka)


# They are facts of Kafka's releases, which do not change: of dialect 1 `make test` asks the fake broker alone.
AGAIN = {each: [pytest.mark.extended] for each in REAL if each[1] == 1}
REAL_WORLDS = [
    pytest.param(each, marks=[pytest.mark.broker, *AGAIN.get(each, ())], id=f"{each[0]}, dialect {each[1]}")
    for each in REAL
]
FAKE_WORLDS = [pytest.param(("fake", tv), id=f"fake, dialect {tv}") for tv in (1, 2)]


@pytest.fixture(params=FAKE_WORLDS + REAL_WORLDS)
def world(request: Any) -> Iterator[World]:
    version, tv = request.param
    if version == "fake":
        yield fake_world(tv)
    else:
        yield from real_world(request.getfixturevalue("brokers"), version, tv)


@pytest.fixture(params=REAL_WORLDS)
def real(request: Any) -> Iterator[World]:
    yield from real_world(request.getfixturevalue("brokers"), *request.param)


def code_of(action: Callable[[], Any]) -> int:
    with pytest.raises(BrokerError) as raised:
        action()
    return raised.value.code


# What others see.


def test_what_two_wrote_under_one_id_shows_at_its_end_all_at_once(real: World) -> None:
    producer = real.begin()
    for partition in range(2):
        real.produce(producer, partition, [b"a", b"b"], by=real.connect())
    assert real.ends(IsolationLevel.READ_UNCOMMITTED) == [2, 2]
    assert real.ends(IsolationLevel.READ_COMMITTED) == [0, 0]
    after = real.end(producer)
    assert after == ProducerId(producer.producer_id, producer.producer_epoch + (real.tv == 2))
    wait_until(lambda: real.ends(IsolationLevel.READ_COMMITTED) == [3, 3])  # two records and the marker


def test_what_two_wrote_to_one_partition_under_one_id_is_lost_without_a_word(real: World) -> None:
    """Why each task has a transaction of its own."""
    producer = real.begin()
    assert real.produce(producer, 0, [b"a", b"b", b"c"]) == 0
    assert real.produce(producer, 0, [b"x", b"y", b"z"], by=real.connect()) == 0  # the offset of the first
    assert real.ends(IsolationLevel.READ_UNCOMMITTED)[0] == 3
    assert code_of(lambda: real.produce(producer, 0, [b"x"])) == 45
    assert code_of(lambda: real.produce(producer, 0, [b"x"], sequence=7)) == 45
    (found,) = real.cluster.transactions.producers([real.tp(0)])[real.tp(0)]
    assert (found.producer, found.last_sequence, found.txn_start_offset) == (producer, 2, 0)
    assert real.produce(producer, 0, [b"d"], sequence=3) == 3
    real.end(producer, commit=False)


def test_several_transactions_share_a_partition(real: World) -> None:
    names = [f"{real.name}-{i}" for i in range(3)]
    producers = real.cluster.transactions.init_producer_ids(names)
    for round_ in range(2):
        for name in names:
            real.produce(producers[name], 0, [b"v"], sequence=round_, name=name)
    ended = real.cluster.transactions.end_each([(name, producers[name]) for name in names[:2]], True, real.tv)
    assert set(ended.values()) == {None}
    time.sleep(0.1)
    assert real.ends(IsolationLevel.READ_COMMITTED)[0] == 2  # the third holds back all readers
    real.cluster.transactions.end_each([(names[2], producers[names[2]])], False, real.tv)
    wait_until(lambda: real.ends(IsolationLevel.READ_COMMITTED)[0] == 9)


def test_many_are_begun_and_ended_pipelined(real: World) -> None:
    names = [f"{real.name}-{i}" for i in range(32)]
    for _ in range(2):  # begun anew at once, while markers are written
        producers = real.cluster.transactions.init_producer_ids(names)
        for name in names:
            real.produce(producers[name], 0, name=name)
        assert set(real.cluster.transactions.end_each(producers.items(), True, real.tv).values()) == {None}
    wait_until(lambda: real.ends(IsolationLevel.READ_COMMITTED) == [128, 0])


# Fencing.


def test_a_new_owner_aborts_what_is_open_and_fences_the_old_one(world: World) -> None:
    old = world.begin()
    world.produce(old, 0)
    assert world.begin() == ProducerId(old.producer_id, old.producer_epoch + 2)
    assert code_of(lambda: world.produce(old, 0, sequence=1, add=False)) == 47
    if world.tv == 1:
        assert code_of(lambda: world.cluster.transactions.add_partitions(world.name, old, [world.tp(1)])) == 90
        assert code_of(lambda: world.cluster.transactions.add_offsets(world.name, old, world.group)) == 90
    offsets = {world.tp(0): (1, "")}
    with pytest.raises((InvalidProducerEpoch, TransactionAbortable)):
        world.cluster.transactions.commit_offsets(world.name, old, world.group, offsets, world.tv)
    for commit in (True, False):
        with pytest.raises(ProducerFenced, match=repr(world.name)):
            world.end(old, commit)
    with pytest.raises(InvalidProducerIdMapping):
        world.end(ProducerId(old.producer_id + 1000, 0))


def test_without_one_open_a_new_owner_raises_the_epoch_by_one(world: World) -> None:
    first = world.begin()
    assert world.begin() == ProducerId(first.producer_id, first.producer_epoch + 1)


# Ends.


def test_an_end_may_be_asked_again_until_somebody_begins_anew(world: World) -> None:
    producer = world.begin()
    world.produce(producer, 0)
    after = world.end(producer)
    assert world.end(producer) == after
    fresh = world.connect()
    # From a new connection, as after a crash.
    assert fresh.transactions.end(world.name, producer, True, world.tv) == after
    with pytest.raises(InvalidTxnState):
        world.end(producer, commit=False)
    world.begin()
    with pytest.raises(ProducerFenced):
        world.end(producer)


def test_an_end_asked_again_in_the_other_dialect_looks_as_if_it_had_failed(world: World) -> None:
    """Why the dialect is written down before the first attempt."""
    if world.tv == 1:
        pytest.skip("dialect 2 raises the epoch")
    producer = world.begin()
    world.produce(producer, 0)
    world.end(producer)
    with pytest.raises(ProducerFenced):
        world.end(producer, tv=1)


def test_an_empty_transaction_has_no_end(world: World) -> None:
    producer = world.begin()
    with pytest.raises(InvalidTxnState):
        world.end(producer)


def test_what_was_aborted_cannot_be_committed(world: World) -> None:
    producer = world.begin()
    world.produce(producer, 0)
    after = world.end(producer, commit=False)
    assert world.end(producer, commit=False) == after
    with pytest.raises(InvalidTxnState):
        world.end(producer)


def test_after_its_timeout_a_transaction_is_aborted_by_the_broker(world: World) -> None:
    producer = world.begin(transaction_timeout_ms=1000)
    world.produce(producer, 0)
    world.time_out()
    with pytest.raises(ProducerFenced if world.tv == 1 else InvalidTxnState):
        world.end(producer)


def test_a_timeout_has_the_brokers_limit(world: World) -> None:
    assert world.begin(transaction_timeout_ms=900_000)
    with pytest.raises(InvalidTransactionTimeout, match=r"kafka\.transaction\.timeout\.ms"):
        world.begin(transaction_timeout_ms=900_001)


def test_produce_of_dialect_1_wants_its_partition_added(world: World) -> None:
    if world.tv == 2:
        pytest.skip("Produce v12 adds it")
    producer = world.begin()
    assert code_of(lambda: world.produce(producer, 0, add=False)) == 120  # 48 before Produce v11


# Offsets as markers of a decision.


def test_a_marker_shows_with_its_transaction_or_not_at_all(world: World) -> None:
    producer = world.begin()
    world.mark(producer, 5, "decided: å")
    assert world.marked(require_stable=False) is None
    hasty = world.connect(default_api_timeout_ms=1000)
    with pytest.raises(DeadlineExceeded, match="UNSTABLE_OFFSET_COMMIT"):
        hasty.groups.committed(world.group, [world.tp(0)])
    assert hasty.groups.committed(world.group) == {}  # left out, where nothing was committed before: name the partition
    world.end(producer)
    assert world.marked() == (5, "decided: å")
    producer = world.begin()
    world.mark(producer, 6)
    with pytest.raises(DeadlineExceeded, match="UNSTABLE_OFFSET_COMMIT"):
        hasty.groups.committed(world.group)
    world.end(producer, commit=False)
    assert world.marked() == (5, "decided: å")
    assert world.cluster.groups.committed(world.group) == {world.tp(0): (5, "decided: å")}


def test_a_new_owner_settles_a_marker_that_was_left_open(world: World) -> None:
    world.mark(world.begin(), 5)
    world.begin()
    assert world.marked() is None


def test_a_marker_has_its_limits(world: World) -> None:
    producer = world.begin()
    world.mark(producer, 1, "x" * 4096)
    assert code_of(lambda: world.mark(producer, 1, "x" * 4097)) == 12
    with pytest.raises(UnknownTopicOrPartition):
        world.mark(producer, 1, partition=999)
    world.end(producer)
    assert world.marked() == (1, "x" * 4096)


def test_a_marker_of_dialect_1_wants_its_group_added(world: World) -> None:
    if world.tv == 2:
        pytest.skip("TxnOffsetCommit v5 adds it")
    producer = world.begin()
    world.produce(producer, 0)
    offsets = {world.tp(0): (1, "")}
    with pytest.raises(TransactionAbortable):
        world.cluster.transactions.commit_offsets(world.name, producer, world.group, offsets, 1)


# What an operator sees.


def test_open_ones_are_listed_described_and_aborted(world: World) -> None:
    producer = world.begin(transaction_timeout_ms=70_000)
    world.produce(producer, 1)
    (listed,) = world.cluster.transactions.list(world.name[:-1])
    assert (listed.transactional_id, listed.producer_id, listed.state) == (world.name, producer.producer_id, "Ongoing")
    found = world.cluster.transactions.describe([world.name, "nobody"])
    assert found["nobody"] is None
    described = found[world.name]
    assert (described.producer_id, described.producer_epoch, described.timeout_ms) == (*producer, 70_000)
    assert described.partitions == (world.tp(1),)
    assert described.start_time_ms is not None
    world.cluster.transactions.abort(world.name)
    assert world.cluster.transactions.list(world.name) == []
    (empty,) = world.cluster.transactions.list(world.name, states=())
    assert empty.state in ("Empty", "CompleteAbort")
    with pytest.raises(ProducerFenced):
        world.end(producer)


def test_the_cluster_tells_its_dialect(real: World) -> None:
    served = real.cluster.transactions.version()
    assert served >= real.tv
    assert (served == 1) == ("3.9" in real_version(real))


def test_the_prefix_of_a_list_is_no_expression(real: World) -> None:
    odd = f"{real.name}.*\\E[å]_{{2}}-"
    plain = f"{real.name}xxE[å]_{{2}}-"
    for name in (odd + "1", plain + "1"):
        real.produce(real.begin(name), 0, name=name)
    assert [found.transactional_id for found in real.cluster.transactions.list(odd)] == [odd + "1"]
    for name in (odd + "1", plain + "1"):
        real.cluster.transactions.abort(name)


def real_version(real: World) -> str:
    link = next(link for link in real.cluster.network._links.values() if link.connection is not None)
    assert link.connection is not None
    return "3.9" if link.connection.version_of(END_TXN) < 5 else "4.3"


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.broker
@pytest.mark.slow
def test_a_killed_coordinator_keeps_no_transaction_from_its_end(three_brokers: Broker) -> None:
    ends_though_its_coordinator_is_killed(three_brokers, tv=2)


@pytest.mark.broker
@pytest.mark.extended
def test_a_killed_coordinator_keeps_no_older_transaction_from_its_end() -> None:
    with Broker(version="3.9.2", nodes=3, use_existing=False) as brokers:
        ends_though_its_coordinator_is_killed(brokers, tv=1)


def ends_though_its_coordinator_is_killed(broker: Broker, tv: int) -> None:
    with Cluster(ClientConfig.of(broker.bootstrap_servers, request_timeout_ms=5_000)) as cluster:
        cluster.topics.create(["ended"], partitions=2)
        world = World(lambda: cluster, "ended", tv)
        names = [f"task-{i}" for i in range(12)]
        producers = cluster.transactions.init_producer_ids(names)
        for name in names:
            world.produce(producers[name], 0, name=name)
        nodes = {found.transactional_id: found.coordinator_id for found in cluster.transactions.list("task-")}
        assert len(nodes) == 12
        assert len(set(nodes.values())) > 1
        broker.kill(nodes["task-0"])
        assert set(cluster.transactions.end_each(producers.items(), True, tv).values()) == {None}
        wait_until(lambda: world.ends(IsolationLevel.READ_COMMITTED)[0] == 24)
        assert cluster.transactions.list("task-") == []
