"""Keys to partitions as Java does it, and rows grouped by partition."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2

from kafkasource.kafka.records.partitions import order_by_partition, partition_by_key

# UtilsTest.testMurmur2 of kafka-clients.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
INT_MAX = (1 << 31) - 1


def test_keys_hash_to_the_known_answers_of_kafkas_own_test():
    # With 2^31 - 1 partitions the hash itself shows, but for its sign bit.
    got = partition_by_key(pa.array(list(JAVA)), INT_MAX).tolist()
    assert got == [(h & INT_MAX) % INT_MAX for h in JAVA.values()]


def test_a_null_key_has_no_partition_and_an_empty_one_has():
    assert partition_by_key(pa.array([None, b"", None], pa.binary()), 7).tolist() == [
        -1,
        (murmur2(b"") & INT_MAX) % 7,
        -1,
    ]


def test_a_slice_of_keys_and_strings_hash_alike():
    keys = pa.array(["x", None, "foobar", "abc"])
    both = partition_by_key(keys.slice(2), 1000).tolist()
    assert both == [(JAVA[b"foobar"] & INT_MAX) % 1000, (JAVA[b"abc"] & INT_MAX) % 1000]
    assert partition_by_key(keys.cast(pa.binary()), 1000).tolist()[2:] == both


def test_no_keys_no_partitions():
    assert partition_by_key(pa.array([], pa.binary()), 5).tolist() == []
    with pytest.raises(ValueError, match="0 partitions"):
        partition_by_key(pa.array([b""]), 0)


@pytest.mark.parametrize("seed", range(5))
def test_grouping_is_stable_and_loses_no_row(seed):
    rng = random.Random(seed)
    count = rng.choice([1, 2, 8, 1000])
    partitions = [rng.randrange(count) for _ in range(rng.choice([0, 1, 500]))]
    order, spans = order_by_partition(struct.pack(f"{len(partitions)}i", *partitions), count)
    assert [(p, order[first:last].tolist()) for p, first, last in spans] == [
        (p, [i for i, q in enumerate(partitions) if q == p]) for p in sorted(set(partitions))
    ]


@pytest.mark.parametrize("bad", [-1, 3, INT_MAX])
def test_a_partition_that_does_not_exist_is_refused_by_row(bad):
    with pytest.raises(ValueError, match=f"row 1 has partition {bad}"):
        order_by_partition(struct.pack("3i", 0, bad, 2), 3)
