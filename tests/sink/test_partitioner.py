"""Rows go where Kafka's Java producer would send them; without a key they share the partitions evenly."""

import random
from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.sink.columns import InvalidRow, Rows
from kafkasource.sink.partitioner import Partitioner


def rows(count, keys=None, partitions=None, value=b"v" * 84, topic="t"):
    return Rows(
        topic=topic,
        count=count,
        keys=None if keys is None else pa.array(keys, pa.binary()),
        values=pa.array([value] * count, pa.binary()),
        headers=None,
        partitions=None if partitions is None else pa.array(partitions, pa.int32()),
        timestamps_ms=None,
    )


def partitioner(batch_bytes=1024, seed=7):
    return Partitioner(batch_bytes, randomness=random.Random(seed))


def test_keys_go_where_javas_murmur2_sends_them():
    # UtilsTest.testMurmur2 of Kafka: murmur2("21") = -973932308, ("foobar") = -790332482, ("abc") = 479470107
    for key, hashed in [(b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107)]:
        assert partitioner().partitions(rows(1, [key]), 7, range(7)).to_pylist() == [(hashed & 0x7FFFFFFF) % 7]


def test_the_column_wins_over_the_key_and_null_leaves_it_to_the_key():
    keyed = partitioner().partitions(rows(2, [b"abc", b"abc"]), 50, range(50)).to_pylist()
    mixed = partitioner().partitions(rows(2, [b"abc", b"abc"], [49, None]), 50, range(50)).to_pylist()
    assert mixed == [49, keyed[1]]


def test_the_column_wins_where_there_is_no_key():
    found = partitioner().partitions(rows(3, None, [2, None, 1]), 3, [0]).to_pylist()
    assert found == [2, 0, 1]


@pytest.mark.parametrize("bad", [-1, 3])
def test_a_partition_that_the_topic_lacks_is_refused(bad):
    with pytest.raises(InvalidRow, match=f"partition {bad}"):
        partitioner().partitions(rows(2, None, [0, bad]), 3, range(3))


@given(
    keys=st.lists(st.none() | st.binary(max_size=8), min_size=1, max_size=50),
    count=st.integers(1, 12),
    given_partition=st.none() | st.integers(0, 0),
)
def test_every_row_gets_a_partition_that_exists(keys, count, given_partition):
    chosen = None if given_partition is None else [given_partition, *[None] * (len(keys) - 1)]
    found = partitioner().partitions(rows(len(keys), keys, chosen), count, range(count))
    assert found.type == pa.int32()
    assert found.null_count == 0
    assert all(0 <= partition < count for partition in found.to_pylist())


def test_rows_without_a_key_fill_one_batch_before_they_move_on():
    found = partitioner(batch_bytes=1000).partitions(rows(100), 4, range(4)).to_pylist()
    changes = [i for i in range(1, 100) if found[i] != found[i - 1]]
    assert all(b - a >= 9 for a, b in pairwise(changes))
    assert set(found) == {0, 1, 2, 3}


def test_rows_without_a_key_share_the_partitions_evenly():
    sticky = partitioner(batch_bytes=1000)
    counts = Counter()
    for _ in range(400):
        counts.update(sticky.partitions(rows(5), 4, range(4)).to_pylist())
    assert max(counts.values()) - min(counts.values()) <= 20


def test_rows_without_a_key_avoid_partitions_without_a_leader():
    assert set(partitioner(batch_bytes=100).partitions(rows(100), 4, [1, 3]).to_pylist()) == {1, 3}


def test_few_rows_of_many_tasks_do_not_all_go_to_the_first_partition():
    starts = {partitioner(seed=seed).partitions(rows(1), 8, range(8)).to_pylist()[0] for seed in range(50)}
    assert len(starts) > 4
