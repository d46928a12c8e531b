"""Sharing ranges out to tasks: what must hold for any ranges, and what it gives for some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.source.plan.packing import OFFSET_BYTES, RANGE_COST, pack
from kafkasource.types import OffsetRange
from kafkasource.types import TopicPartition as TP


def r(partition, size, start=0):
    return OffsetRange(TP("t", partition), start, start + size)


def cost(ranges, weights=None):
    heavy = {tp: weight / OFFSET_BYTES for tp, weight in (weights or {}).items()}
    return sum(max(one.size, int(one.size * heavy.get(one.topic_partition, 0))) + RANGE_COST for one in ranges)


# Up to 40 topic-partitions, each whole or cut into neighbours, as minPartitions will cut them.
ranges = st.dictionaries(
    st.builds(TP, st.sampled_from(("t", "u")), st.integers(0, 20)),
    st.tuples(st.integers(0, 2**40), st.integers(1, 10**6), st.integers(1, 3)),
    max_size=40,
).map(
    lambda held: [
        piece
        for tp in sorted(held)
        for (start, size, pieces) in [held[tp]]
        for piece in OffsetRange(tp, start, start + size).split(pieces)
    ]
)
weights = st.none() | st.dictionaries(
    st.builds(TP, st.sampled_from(("t", "u")), st.integers(0, 20)), st.floats(1e-3, 1e9), max_size=20
)
limits = st.none() | st.integers(1, 60)
least_sizes = st.integers(1, 10**7)


@given(ranges, least_sizes, limits, weights)
def test_every_range_is_read_by_exactly_one_task(ranges, least_size, at_most, weights):
    tasks = pack(ranges, least_size=least_size, at_most=at_most, weights=weights)
    assert all(tasks)
    assert sorted(str(one) for task in tasks for one in task) == sorted(map(str, ranges))


@given(ranges, least_sizes, limits)
def test_a_task_reads_a_topic_partition_in_order(ranges, least_size, at_most):
    for task in pack(ranges, least_size=least_size, at_most=at_most):
        assert list(task) == sorted(task, key=lambda one: (one.topic_partition, one.start_offset))


@given(ranges, least_sizes, st.integers(1, 60))
def test_there_are_never_more_tasks_than_allowed(ranges, least_size, at_most):
    assert len(pack(ranges, least_size=least_size, at_most=at_most)) <= at_most


@given(ranges, limits, weights)
def test_no_task_has_more_than_its_share_and_one_range(ranges, at_most, weights):
    tasks = pack(ranges, at_most=at_most, weights=weights)
    if tasks:
        share = cost(ranges, weights) / len(tasks)
        assert max(cost(task, weights) for task in tasks) <= share + max(cost([one], weights) for one in ranges)


@given(ranges, least_sizes, limits, st.floats(1e-3, OFFSET_BYTES))
def test_light_records_are_packed_by_their_offsets_alone(ranges, least_size, at_most, weight):
    alone = pack(ranges, least_size=least_size, at_most=at_most)
    light = {one.topic_partition: weight for one in ranges}
    assert pack(ranges, least_size=least_size, at_most=at_most, weights=light) == alone


@given(ranges, least_sizes, limits, st.randoms())
def test_the_same_ranges_give_the_same_tasks_whatever_their_order(ranges, least_size, at_most, random):
    mixed = random.sample(ranges, len(ranges))
    tasks = pack(ranges, least_size=least_size, at_most=at_most)
    assert sorted(pack(mixed, least_size=least_size, at_most=at_most), key=str) == sorted(tasks, key=str)


def test_each_range_has_a_task_of_its_own_unless_told_otherwise():
    assert pack([r(0, 5), r(1, 1)]) == [(r(0, 5),), (r(1, 1),)]
    assert pack([]) == []


def test_what_is_small_together_is_one_task():
    assert pack([r(0, 1000), r(1, 1000), r(2, 1000)], least_size=50_000) == [(r(0, 1000), r(1, 1000), r(2, 1000))]


def test_large_ranges_keep_their_tasks_and_small_ones_join():
    tasks = pack([r(0, 100_000), r(1, 10), r(2, 10), r(3, 90_000)], at_most=2)
    assert tasks == [(r(0, 100_000),), (r(1, 10), r(2, 10), r(3, 90_000))]


@pytest.mark.parametrize(("least_size", "tasks"), [(1, 4), (100_000, 4), (150_000, 2), (200_000, 2), (10**9, 1)])
def test_the_least_size_of_a_task_sets_their_number(least_size, tasks):
    assert len(pack([r(n, 100_000) for n in range(4)], least_size=least_size)) == tasks


@pytest.mark.parametrize(("at_least", "at_most", "tasks"), [(1, None, 1), (3, None, 3), (9, None, 4), (3, 3, 3)])
def test_small_ranges_are_not_packed_into_fewer_tasks_than_asked_for(at_least, at_most, tasks):
    packed = pack([r(n, 1000) for n in range(4)], least_size=10**9, at_least=at_least, at_most=at_most)
    assert len(packed) == tasks


@pytest.mark.parametrize(("weight", "tasks"), [(1, 1), (1_000, 1), (2_000, 1), (10_000, 4), (1_000_000, 4)])
def test_heavy_records_do_not_become_one_task_because_they_are_few(weight, tasks):
    """20 GB of records of 1 MB, which were one task; 20,000 offsets of 2 kB are 40 MB, which are one still."""
    ranges = [r(n, 5_000) for n in range(4)]
    weights = {one.topic_partition: weight for one in ranges}
    assert len(pack(ranges, least_size=25_000, weights=weights)) == tasks


def test_bytes_balance_tasks_too():
    ranges = [r(0, 10), r(1, 1_000), r(2, 1_000), r(3, 1_000)]
    tasks = pack(ranges, at_most=2, weights={ranges[0].topic_partition: 1_000_000})
    assert tasks == [(ranges[0],), tuple(ranges[1:])]
