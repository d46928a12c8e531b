"""Rows go where Kafka's Java producer would send them; without a key they share the partitions evenly."""

import random
from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.errors import OptionError
from kafkasource.kafka.producer.partitioner import Partitioner, PartitionerFailed
from kafkasource.kafka.producer.rows import InvalidRow, Rows
from kafkasource.sink.partitioner import partitioner_of


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


def test_rows_without_a_key_can_go_round_in_turn():
    in_turn = Partitioner(1024, in_turn=True, randomness=random.Random(7))
    found = [p for n in (1, 5, 2, 100) for p in in_turn.partitions(rows(n), 4, [0, 2, 3]).to_pylist()]
    start = [0, 2, 3].index(found[0])
    assert found == [[0, 2, 3][(start + i) % 3] for i in range(108)]


def test_in_turn_is_only_for_rows_without_a_key():
    mixed = rows(4, [b"abc", None, b"abc", None])
    sticking, in_turn = partitioner(), Partitioner(1024, in_turn=True)
    keyed = sticking.partitions(mixed, 50, range(50)).to_pylist()[0]
    found = in_turn.partitions(mixed, 50, range(50)).to_pylist()
    assert found[0] == found[2] == keyed
    assert found[3] == (found[1] + 1) % 50


def by_value_length(topic, keys, values, count):
    return pc.cast(pc.binary_length(values), pa.int64())


def named(function):
    return Partitioner(1024, function=function, randomness=random.Random(7))


def test_a_function_is_named_by_module_and_name():
    mine = partitioner_of(f"{__name__}:by_value_length", 1024)
    assert mine.partitions(rows(3, value=b"xx"), 7, range(7)).to_pylist() == [2, 2, 2]
    assert mine.partitions(rows(3, value=b"xx"), 7, range(7)).type == pa.int32()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_module:f", "'partitioner': module 'no_such_module' cannot be imported.*--py-files"),
        ("json:no_such_function", "'partitioner': module 'json' has no function 'no_such_function'"),
    ],
)
def test_a_function_that_is_not_there_names_the_option(name, says):
    with pytest.raises(OptionError, match=says):
        partitioner_of(name, 1024)


def test_a_function_is_given_arrow_columns_and_how_many_partitions_there_are():
    given = []

    def function(topic, keys, values, count):
        given.append((topic, keys.type, keys.to_pylist(), values.type, values.to_pylist(), count))
        return pa.array([0] * len(values), pa.int32())

    named(function).partitions(rows(2, [b"k", None], value=b"v"), 3, range(3))
    named(function).partitions(rows(1, value=b"v"), 3, range(3))
    binary = pa.binary()
    assert given == [("t", binary, [b"k", None], binary, [b"v"] * 2, 3), ("t", binary, [None], binary, [b"v"], 3)]


def test_the_column_wins_over_the_function_and_null_leaves_it_to_the_key():
    def third_and_fourth(topic, keys, values, count):
        return pa.array([7, 8, None, 9], pa.int32())

    keyed = partitioner().partitions(rows(1, [b"abc"]), 50, range(50)).to_pylist()[0]
    mixed = rows(4, [b"abc"] * 4, [49, None, None, None])
    assert named(third_and_fourth).partitions(mixed, 50, range(50)).to_pylist() == [49, 8, keyed, 9]


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (pa.array([0, 3], pa.int32()), "returned partition 3 for topic 't', which has 0 to 2"),
        (pa.array([-1, 0], pa.int32()), "returned partition -1"),
        (pa.array([0], pa.int32()), "returned 1 partitions for 2 rows"),
        (pa.array(["a", "b"]), "ArrowInvalid"),
        (None, "TypeError"),
    ],
)
def test_what_cannot_be_partitions_is_refused_naming_the_function(result, says):
    with pytest.raises(PartitionerFailed, match=rf"{__name__}:.*{says}"):
        named(lambda *_: result).partitions(rows(2), 3, range(3))


def test_an_error_in_the_function_names_it():
    with pytest.raises(PartitionerFailed, match=r"test_partitioner:.*ZeroDivisionError"):
        named(lambda *_: 1 // 0).partitions(rows(2), 3, range(3))
