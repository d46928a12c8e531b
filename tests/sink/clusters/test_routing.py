"""Rows to producers and partitions: nothing lost, keys where Java puts them, one key at one producer, order kept."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.kafka.producer.partitioner import Partitioner
from kafkasource.kafka.producer.rows import Rows
from kafkasource.sink.clusters.routing import Placer

# murmur2 of Kafka's own tests (UtilsTest.testMurmur2), as toPositive(hash).
MURMUR2 = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}


def rows(keys, partitions=None):
    count = len(keys)
    return Rows(
        "t",
        count,
        None if all(key is None for key in keys) else pa.array(keys, pa.binary()),
        pa.array([b"%d" % number for number in range(count)], pa.binary()),
        None,
        None if partitions is None else pa.array(partitions, pa.int32()),
        None,
    )


def placed(placer, rows_, count):
    """(producer, partition, row numbers), as they will be appended."""
    found = placer.place(rows_, count, range(count))
    order = list(range(rows_.count)) if found.order is None else list(found.order)
    return [(producer, p, order[a:b]) for producer, spans in found.by_producer.items() for p, a, b in spans]


def placer(producers, **settings):
    return Placer(Partitioner(100), producers, **settings)


keys = st.lists(st.one_of(st.none(), st.sampled_from([b"a", b"b", b"c", b"dd", b"", b"f" * 20])), min_size=1)


@given(keys=keys, producers=st.integers(1, 5), count=st.integers(1, 7))
def test_every_row_is_in_one_place_and_a_key_keeps_its_order_at_one_producer(keys, producers, count):
    found = placed(placer(producers), rows(keys), count)
    assert sorted(row for _, _, numbers in found for row in numbers) == list(range(len(keys)))
    for key in set(keys) - {None}:
        homes = [(producer, p, [row for row in numbers if keys[row] == key]) for producer, p, numbers in found]
        homes = [home for home in homes if home[2]]
        assert len(homes) == 1
        assert homes[0][2] == sorted(homes[0][2])


@pytest.mark.parametrize("key", MURMUR2)
def test_a_keys_lane_and_partition_are_of_its_murmur2_hash(key):
    positive = MURMUR2[key] & 0x7FFFFFFF
    [(producer, partition, _)] = placed(placer(4), rows([key]), 7)
    assert (producer, partition) == (positive % 4, positive % 7)


def test_rows_without_a_key_take_the_lanes_in_turn_a_batch_each():
    of = placer(3)
    assert [{producer for producer, _, _ in placed(of, rows([None] * 10), 2)} for _ in range(4)] == [{0}, {1}, {2}, {0}]


def test_the_column_partition_counts_unless_it_is_told_not_to():
    assert [(p, numbers) for _, p, numbers in placed(placer(1), rows([b"21"] * 2, [3, 1]), 5)] == [(1, [1]), (3, [0])]
    by_key = placed(placer(1, by_key=True), rows([b"21"] * 2, [3, 1]), 5)
    assert [(p, numbers) for _, p, numbers in by_key] == [((MURMUR2[b"21"] & 0x7FFFFFFF) % 5, [0, 1])]


def test_records_are_counted_by_partition_over_all_lanes():
    found = placer(4).place(rows([b"21", b"foobar", b"21", None], [1, 1, 0, 0]), 2, [0, 1])
    assert found.records == {0: 2, 1: 2}
