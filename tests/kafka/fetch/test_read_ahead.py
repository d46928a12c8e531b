"""How large fetches get, how large answers are cut, and what of several ranges is under way at once."""

import pyarrow as pa
import pytest
from fetch_rig import fetch_settings
from kafka.record.memory_records import MemoryRecordsBuilder

from kafkasource.errors import ConnectionLost
from kafkasource.kafka.fetch.budget import FetchBudget
from kafkasource.kafka.fetch.fetcher import PartitionFetcher
from kafkasource.kafka.fetch.messages import FetchedPartition
from kafkasource.kafka.fetch.partition import LogBounds
from kafkasource.kafka.fetch.pieces import portions
from kafkasource.kafka.fetch.task import in_order
from kafkasource.types import OffsetRange, TopicPartition

MIB = 1 << 20
THICK = 1 << 30  # what a line carries that sets no bound
SIZE = 1000  # of a batch below, in offsets


def batch(first, count=SIZE):
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
    for number in range(count):
        builder.append(timestamp=1000, key=None, value=b"v%d" % (first + number), headers=[])
    builder.close()
    return first.to_bytes(8, "big") + bytes(builder.buffer())[8:]


# How much to ask for.


def budget(read_ahead=8, most_bytes=50 * MIB, mib_per_second=100, partition_bytes=MIB):
    settings = fetch_settings(max_partition_bytes=partition_bytes, read_ahead=read_ahead, most_fetch_bytes=most_bytes)
    found = FetchBudget(settings)
    if mib_per_second:
        found.used_up(mib_per_second * MIB, 1.0)
    return found


def test_where_the_broker_is_near_a_fetch_has_the_ordinary_size():
    assert budget(mib_per_second=800).next_size(0.0005, None) == MIB


def test_the_fetches_of_a_range_double_from_one_mib_to_the_limit():
    near = budget(partition_bytes=6 * MIB)
    assert [near.next_size(0.0005, None, answers) // MIB for answers in range(5)] == [1, 2, 2, 2, 2]  # an unseen line
    assert [near.next_size(0.0005, THICK, answers) // MIB for answers in range(5)] == [1, 2, 4, 6, 6]


def test_a_fetch_covers_two_round_trips_of_what_the_task_takes_in():
    assert budget(mib_per_second=100).next_size(0.02, THICK) == 4 * MIB


@pytest.mark.parametrize(("round_trip_s", "read_ahead", "most", "others", "mib"), [
    (9.0, 8, 50, 0, 8),
    (9.0, 1, 50, 0, 1),
    (9.0, 8, 3, 0, 3),
    (9.0, 8, 50, 5, 3),
    (9.0, 8, 50, 9, 1),
    (0.0, 8, 50, 0, 1),
])  # fmt: skip
def test_a_fetch_is_bounded(round_trip_s, read_ahead, most, others, mib):
    found = budget(read_ahead, most * MIB)
    for _ in range(others):
        found.sent(1)
    assert found.next_size(round_trip_s, THICK) == mib * MIB


def test_before_anything_was_taken_in_a_fetch_has_the_ordinary_size():
    assert budget(mib_per_second=0).next_size(9.0, None) == MIB


# Cutting large answers.


@pytest.mark.parametrize("tail", [b"", batch(7000)[:-1], batch(7000)[:20]])
def test_an_answer_is_cut_between_batches_and_nothing_is_lost(tail):
    batches = [batch(n * SIZE, 1 + 100 * (n % 3)) for n in range(7)]
    ends = {sum(map(len, batches[: n + 1])) for n in range(7)}
    whole = b"".join(batches) + tail
    for most in (1, 100, 2000, 5000, len(whole)):
        pieces = [bytes(piece) for piece in portions(whole, most)]
        assert b"".join(pieces) == whole
        at = 0
        for piece in pieces[:-1]:
            at += len(piece)
            assert at in ends
            assert len(piece) <= most or piece in batches


def test_an_answer_of_about_the_ordinary_size_is_not_cut():
    whole = batch(0) + batch(SIZE)
    assert [bytes(piece) for piece in portions(whole, len(whole) - 1)] == [whole]


@pytest.mark.parametrize("nonsense", [b"\xff" * 500, bytes(500), batch(0) + b"\x00" * 500, b""])
def test_what_makes_no_sense_is_left_to_the_decoder(nonsense):
    assert b"".join(bytes(piece) for piece in portions(nonsense, 10)) == nonsense


# Several ranges.


class Cluster:
    """Partitions of batches of a thousand offsets; an answer holds as many as fit, one at least."""

    round_trip_s = 0.0

    def __init__(self):
        self.events = []
        self.faults = {}  # offset -> an error, once
        self.in_flight = self.most_in_flight = 0

    def client(self, partition):
        return Leader(self, partition)


class Leader:
    is_ready = True
    line_bytes = THICK

    def __init__(self, cluster, partition):
        self.cluster, self.partition = cluster, partition
        self.round_trip_s = cluster.round_trip_s

    def send(self, fetch_offset, max_bytes):
        self.cluster.events.append(("send", self.partition, fetch_offset))
        self.cluster.in_flight += 1
        self.cluster.most_in_flight = max(self.cluster.most_in_flight, self.cluster.in_flight)
        return fetch_offset, max_bytes

    def receive(self, sent):
        offset, max_bytes = sent
        self.cluster.in_flight -= 1
        self.cluster.events.append(("receive", self.partition, offset))
        if (self.partition, offset) in self.cluster.faults:
            raise self.cluster.faults.pop((self.partition, offset))
        first = offset // SIZE * SIZE
        data = batch(first)
        while len(data) < max_bytes and (first := first + SIZE) < 20 * SIZE:
            data += batch(first)
        return FetchedPartition(data[: max(max_bytes, len(batch(0)) + 99)], 20 * SIZE)

    def extend(self, sent, seconds):
        pass

    def forget(self, sent):
        self.cluster.in_flight -= 1
        self.cluster.events.append(("forget", self.partition, sent[0]))

    def refresh_leader(self):
        pass

    reconnect = refresh_leader

    def bounds(self):
        return LogBounds(0, 20 * SIZE)


def read(cluster, *ranges, **given):
    settings = fetch_settings(**{"max_partition_bytes": 30_000, "read_ahead": 4} | given)
    now = iter(range(10**9))
    shared = FetchBudget(settings)
    fetchers = [
        PartitionFetcher(
            OffsetRange(TopicPartition("t", partition), start, end),
            settings,
            cluster.client(partition),
            shared,
            clock=lambda: next(now) / 1000,
            sleep=lambda seconds: None,
        )
        for partition, start, end in ranges
    ]
    return in_order(fetchers)


def rows(batches):
    table = pa.Table.from_batches(list(batches))
    return list(zip(table.column("partition").to_pylist(), table.column("offset").to_pylist(), strict=True))


def expected(*ranges):
    return [(partition, offset) for partition, start, end in ranges for offset in range(start, end)]


RANGES = [(0, 0, 5000), (1, 700, 800), (2, 19_990, 20_000), (3, 5, 6), (4, 1500, 1501), (5, 0, 3), (6, 900, 9_000)]


@pytest.mark.parametrize("read_ahead", [1, 2, 4, 100])
def test_ranges_are_read_one_after_the_other_and_whole(read_ahead):
    cluster = Cluster()
    assert rows(read(cluster, *RANGES, read_ahead=read_ahead)) == expected(*RANGES)
    assert cluster.most_in_flight <= read_ahead
    assert cluster.in_flight == 0


def test_the_next_range_is_begun_before_the_last_answer_of_this_one_is_handed_on():
    cluster = Cluster()
    batches = read(cluster, (0, 0, 500), (1, 0, 500))
    next(batches)
    assert cluster.events == [("send", 0, 0), ("receive", 0, 0), ("send", 1, 0)]


def test_ranges_that_one_fetch_will_bring_are_begun_together():
    cluster = Cluster()
    next(read(cluster, (0, 0, 9), (1, 0, 9), (2, 0, 9), (3, 0, 9), (4, 0, 9)))
    sent = [partition for what, partition, _ in cluster.events if what == "send"]
    assert sent == [0, 1, 2, 3, 4]
    assert cluster.events.index(("receive", 0, 0)) == 4  # readAhead of them; then one more, for one came


def test_a_fault_of_a_range_that_was_begun_early_is_met_when_its_turn_comes():
    cluster = Cluster()
    cluster.faults = {(1, 0): ConnectionLost("reset"), (2, 0): ConnectionLost("reset")}
    ranges = [(0, 0, 9), (1, 0, 9), (2, 0, 9)]
    assert rows(read(cluster, *ranges)) == expected(*ranges)


def test_a_reader_that_stops_early_forgets_all_that_is_in_flight():
    cluster = Cluster()
    batches = read(cluster, (0, 0, 9), (1, 0, 9), (2, 0, 9))
    next(batches)
    batches.close()
    assert cluster.in_flight == 0


def test_no_ranges_are_no_rows():
    assert list(read(Cluster())) == []


def test_a_long_way_makes_large_fetches_and_rows_in_ordinary_pieces():
    cluster = Cluster()
    cluster.round_trip_s = 10.0
    batches = list(read(cluster, (0, 0, 20_000), max_partition_bytes=20_000))
    assert rows(batches) == expected((0, 0, 20_000))
    fetches = sum(what == "send" for what, *_ in cluster.events)
    near = Cluster()
    rows(read(near, (0, 0, 20_000), max_partition_bytes=20_000))
    assert fetches < sum(what == "send" for what, *_ in near.events) / 2
    assert max(map(len, batches)) <= 2 * SIZE
