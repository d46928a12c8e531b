"""Batches of the same records for several clusters are compressed once, and each cluster gets its rows all the same."""

import random
import threading
from itertools import count

import pyarrow as pa
import pytest
from fan_out_rig import AnsweringClient, discarded, fan_out, values, written
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from random_inputs import examples
from sink_fakes import Rig

from kafkasource.kafka import memory
from kafkasource.kafka.memory.blocks import Account
from kafkasource.kafka.producer import sharing
from kafkasource.kafka.producer.delivery import Delivery
from kafkasource.kafka.producer.rows import Rows
from kafkasource.kafka.producer.sender import others_last
from kafkasource.kafka.producer.sharing import Compressor, Origin, SharedRows
from kafkasource.kafka.records.builder import RecordColumns
from kafkasource.kafka.records.compression import GZIP, compress
from kafkasource.types import TopicPartition

PATIENT = {"kafka.linger.ms": 60_000, "kafka.delivery.timeout.ms": 120_000, "kafka.buffer.memory": 1 << 20}


@pytest.fixture
def compressions(monkeypatch):
    """The sizes of what was compressed."""
    sizes = []

    def counted(codec, data, level=None):
        sizes.append(len(data))
        return compress(codec, data, level)

    monkeypatch.setattr(sharing, "compress", counted)
    return sizes


def numbered(first, last):
    keys = pa.array([b"k%d" % (number % 7) for number in range(first, last)], pa.binary())
    texts = pa.array([b"%d " % number + b"v" * (number % 90) for number in range(first, last)], pa.binary())
    return Rows("t", last - first, keys, texts, None, None, None)


def send(clients, batches, **written_options):
    with fan_out(clients, **PATIENT, **written_options) as (to, _), to.delivery() as delivery:
        for rows in batches:
            to.append(rows, delivery)
    return delivery


def batches_of(client):
    return sum(len(sent.batches) for sent in client.sent)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_three_clusters_alike_compress_each_batch_once_and_get_every_row(compressions, codec):
    clients = {name: AnsweringClient() for name in ("east", "west", "south")}
    send(clients, [numbered(first, first + 100) for first in range(0, 1000, 100)], kafka_compression_type=codec)
    assert len(compressions) == batches_of(clients["east"]) > 20
    for client in clients.values():
        assert sorted(values(client)) == sorted(numbered(0, 1000).values.to_pylist())
        assert batches_of(client) == len(compressions)


@pytest.mark.parametrize(
    "own",
    [
        {"west__kafka_compression_type": "lz4"},
        {"west__kafka_compression_gzip_level": 1},
        {"west__kafka_batch_size": 2048},
        {"west__producersPerCluster": 2},
    ],
)
def test_a_cluster_that_encodes_otherwise_shares_nothing(compressions, own):
    clients = {"east": AnsweringClient(), "west": AnsweringClient()}
    if "west__producersPerCluster" in own:
        clients["west"] = [AnsweringClient(), AnsweringClient()]
    send(clients, [numbered(0, 300)], kafka_compression_type="gzip", **own)
    west = clients["west"] if isinstance(clients["west"], list) else [clients["west"]]
    assert sorted(values(clients["east"])) == sorted(numbered(0, 300).values.to_pylist())
    assert sorted(value for client in west for value in values(client)) == sorted(numbered(0, 300).values.to_pylist())
    assert compressions == []


def test_topics_with_other_numbers_of_partitions_share_nothing(compressions):
    three = {TopicPartition("t", number): 1 for number in range(3)}
    clients = {"east": AnsweringClient(), "west": AnsweringClient(three)}
    delivery = send(clients, [numbered(0, 300)], kafka_compression_type="gzip")
    assert len(compressions) == sum(map(batches_of, clients.values()))
    assert {tp.partition for tp in delivery.written("west")} == {0, 1, 2}
    for client in clients.values():
        assert sorted(values(client)) == sorted(numbered(0, 300).values.to_pylist())


def test_a_cluster_that_leaves_out_rows_gets_its_own_and_the_others_theirs(compressions):
    old = pa.array([1_000_000 - 60_000 * (number % 3) for number in range(100)], pa.int64())
    texts = pa.array([b"%d" % number for number in range(100)], pa.binary())
    some_old = Rows("t", 100, None, texts, None, None, old)
    clients = {name: AnsweringClient({TopicPartition("t", 0): 1}) for name in ("east", "west", "south")}
    delivery = send(
        clients, [numbered(0, 10), some_old, numbered(10, 20)], kafka_compression_type="gzip", west__maxRecordAge="10s"
    )
    everything = numbered(0, 10).values.to_pylist() + texts.to_pylist() + numbered(10, 20).values.to_pylist()
    young = [value for place, value in enumerate(everything) if not 10 <= place < 110 or (place - 10) % 3 == 0]
    assert (values(clients["east"]), values(clients["south"]), values(clients["west"])) == (
        everything,
        everything,
        young,
    )
    assert (written(delivery, "west"), discarded(delivery, "west")) == (54, 66)


def test_what_is_kept_for_other_clusters_goes_with_the_task():
    account = memory.process_budget().accounts[memory.ACCUMULATOR]
    clients = {"east": AnsweringClient(), "west": AnsweringClient({TopicPartition("t", 0): 1})}  # never asks for it
    with fan_out(clients, kafka_compression_type="gzip", **PATIENT) as (to, _):
        with to.delivery() as delivery:
            to.append(Rows("t", 1, None, pa.array([b"v"]), None, None, None), delivery)
        pools = account.used_bytes
        del delivery
        assert account.used_bytes <= pools
    del to
    clients.clear()


# Any order of appending and sending.


class Sink:
    """An accumulator of one cluster, whose batches the test sends when it likes."""

    def __init__(self, compressor, batch_bytes):
        self.rig = Rig(
            {TopicPartition("t", number): 1 for number in range(3)},
            compression="gzip",
            batch_bytes=batch_bytes,
            buffer_memory_bytes=1 << 24,
        )
        self.delivery = Delivery()
        self.delivery.compressor = compressor
        self.expected = {number: [] for number in range(3)}
        self.found = {number: [] for number in range(3)}
        self.origins = []

    def append(self, texts, spans, shared):
        columns = RecordColumns(None, pa.array(texts, pa.binary()), default_timestamp_ms=7)
        self.rig.accumulator.append("t", columns, None, spans, self.delivery, shared)
        for partition, first, last in spans:
            self.expected[partition] += texts[first:last]

    def send(self):
        for batch in self.rig.drain():
            batch.close(-1, -1, -1)
            self.origins.append(batch.origin and batch.origin.key)
            there = DefaultRecordBatch(bytes(batch.encoded))
            assert there.validate_crc()
            self.found[batch.topic_partition.partition] += [record.value for record in there]
            self.rig.settle(batch)

    def send_all(self):
        while self.rig.queues.ready(self.rig.client.metadata.leader_id, self.rig.clock()).nodes:
            self.send()


TEXTS = st.lists(st.integers(0, 1200) | st.just(5000), min_size=3, max_size=40)
STEP = st.tuples(TEXTS, st.permutations([0, 1, 2]), st.sets(st.integers(0, 2)), st.integers(0, 3))


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(STEP, max_size=8), st.integers(0, 1 << 30))
def test_whenever_each_cluster_sends_it_gets_its_own_rows_in_their_order(steps, seed):
    chance = random.Random(seed)
    numbers = count()
    compressor = Compressor(lambda: 1 << 13, lambda size: memoryview(bytearray(size)))
    sinks = [Sink(compressor, batch_bytes) for batch_bytes in (4096, 4096, 3000)]
    for sizes, order, early, alone in steps:
        texts = [bytes(chance.choices(b"abc", k=size)) for size in sizes]
        cut = len(texts) // 3
        spans = [(0, 0, cut), (1, cut, 2 * cut), (2, 2 * cut, len(texts))]
        number, begins = next(numbers), []
        for place, which in enumerate(order):
            shared = SharedRows(number, 3, place == 0, begins) if which != alone else None
            sinks[which].append(texts if shared else texts[::-1], spans, shared)
            if which in early:
                sinks[which].send()
    for sink in sinks:
        sink.send_all()
        assert sink.found == sink.expected


def test_clusters_share_again_after_one_has_sent_early(compressions):
    compressor = Compressor(lambda: 1 << 20, lambda size: memoryview(bytearray(size)))
    east, west = Sink(compressor, 4096), Sink(compressor, 4096)
    texts = [b"%0100d" % number for number in range(60)]
    for number in range(10):
        begins = []
        for sink in (east, west):
            sink.append(texts, [(0, 0, 60)], SharedRows(number, 2, sink is east, begins))
        if number == 2:
            west.send_all()  # its batch had room for more
        if number == 6:
            east.send_all()
    east.send_all()
    west.send_all()
    assert east.found == west.found == east.expected
    in_both = set(east.origins) & set(west.origins)
    assert len(in_both) >= len(east.origins) - 3
    assert len(compressions) == len(set(east.origins) | set(west.origins))


def test_a_batch_with_rows_that_others_do_not_get_or_nobody_knows_is_like_no_other():
    shared = SharedRows(1, 2, leads=True, begins=[])
    with_own, failed, same = Origin(2), Origin(2), Origin(2)
    for batch in (with_own, failed, same):
        batch.took(shared, 3, 7)
    with_own.took(None, 0, 1)
    failed.lost()
    same.took(SharedRows(2, 2, leads=True, begins=[]), 4, 4)  # it had no room
    assert (with_own.key, failed.key, same.key) == (None, None, ((1, 3, 7),))


# One thread compresses, the others take it.


def origin(number, clusters=3):
    found = Origin(clusters)
    found.took(SharedRows(number, clusters, leads=True, begins=[]), 0, 5)
    return found


def in_threads(works):
    results: list[object] = [None] * len(works)

    def run(place):
        try:
            results[place] = works[place]()
        except Exception as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [bytes(result) if isinstance(result, (bytes, memoryview)) else result for result in results]


def test_of_threads_that_want_the_same_at_once_one_compresses(compressions):
    compressor = Compressor(lambda: 1 << 20, lambda size: memoryview(bytearray(size)))
    data = memoryview(b"abc" * 1000)
    results = in_threads([lambda: compressor.compress(origin(1), GZIP, data, None)] * 3)
    assert len(compressions) == 1
    assert set(results) == {compress(GZIP, data)}


def test_a_sender_first_does_the_batches_that_no_other_thread_compresses():
    rig = Rig({TopicPartition("t", number): 1 for number in range(3)}, compression="gzip")
    delivery = Delivery()
    delivery.compressor = Compressor(lambda: 1 << 20, lambda size: memoryview(bytearray(size)))
    columns = RecordColumns(None, pa.array([b"a", b"b", b"c"], pa.binary()), default_timestamp_ms=7)
    spans = [(number, number, number + 1) for number in range(3)]
    rig.accumulator.append("t", columns, None, spans, delivery, SharedRows(1, 2, leads=True, begins=[]))
    zero, one, two = rig.drain()
    delivery.compressor.under_way = lambda origin: origin is zero.origin
    assert list(others_last([zero, one, two])) == [one, two, zero]


def test_where_compressing_fails_each_cluster_has_its_own_error_and_nobody_waits_for_ever(monkeypatch):
    outcomes = iter([MemoryError("no"), None, None])

    def failing_once(codec, data, level=None):
        error = next(outcomes)
        if error is not None:
            raise error
        return compress(codec, data, level)

    monkeypatch.setattr(sharing, "compress", failing_once)
    compressor = Compressor(lambda: 1 << 20, lambda size: memoryview(bytearray(size)))
    data = memoryview(b"abc" * 1000)
    results = in_threads([lambda: compressor.compress(origin(1), GZIP, data, None)] * 3)
    assert [type(result) for result in results].count(MemoryError) == 1
    assert results.count(compress(GZIP, data)) == 2
    assert not compressor.under_way(origin(1))


def test_where_nothing_can_be_kept_each_cluster_compresses(compressions):
    def no_memory(size):
        raise MemoryError

    data = memoryview(b"abc" * 1000)
    compressor = Compressor(lambda: 10, no_memory)
    assert [compressor.compress(origin(1), GZIP, data, None) for _ in range(3)] == [compress(GZIP, data)] * 3
    assert len(compressions) == 3


def test_it_keeps_no_more_than_its_limit_and_what_all_have_taken_not_at_all():
    account = Account()
    compressor = Compressor(lambda: 3000, account.view)
    chance = random.Random(1)
    texts = [memoryview(chance.randbytes(500 + 10 * number)) for number in range(50)]
    for number, text in enumerate(texts):
        compressor.compress(origin(number), GZIP, text, None)
        assert account.used_bytes <= 3000
    for number, text in enumerate(texts):
        for _ in range(2):
            assert bytes(compressor.compress(origin(number), GZIP, text, None)) == compress(GZIP, text)
    for number, text in enumerate(texts):  # what was not kept in the loop above was kept after its second call
        compressor.compress(origin(number, clusters=2), GZIP, text, None)
    assert account.used_bytes <= 3000
