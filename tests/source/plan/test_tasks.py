"""Cutting ranges, and sharing them out to tasks.

Cutting: the cases of Spark's KafkaOffsetRangeCalculatorSuite with their numbers, and what holds for any ranges.
"""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.options.table import OFFSET_BYTES, RANGE_COST
from kafkasource.source.plan.tasks import pack, split
from kafkasource.types import OffsetRange
from kafkasource.types import TopicPartition as TP


def r(partition, start, end):
    return OffsetRange(TP("t", partition), start, end)


def neighbours(partition, *cuts):
    return [r(partition, start, end) for start, end in pairwise(cuts)]


@pytest.mark.parametrize(
    ("at_least", "ranges", "pieces"),
    [
        pytest.param(None, [r(1, 1, 2)], [r(1, 1, 2)], id="N to N"),
        pytest.param(None, [r(1, 1, 2), r(2, 1, 1)], [r(1, 1, 2)], id="empty ranges ignored"),
        pytest.param(3, [r(1, 1, 2), r(2, 1, 2), r(3, 1, 2)], [r(1, 1, 2), r(2, 1, 2), r(3, 1, 2)], id="3: N to N"),
        pytest.param(4, [r(1, 1, 5)], neighbours(1, 1, 2, 3, 4, 5), id="4: 1 to N"),
        pytest.param(4, [r(1, 1, 5), r(2, 1, 21)], [r(1, 1, 5), *neighbours(2, 1, 7, 14, 21)], id="4: skewed"),
        pytest.param(4, [r(1, 1, 1), r(2, 1, 21)], neighbours(2, 1, 6, 11, 16, 21), id="4: empty ignored, rest split"),
        pytest.param(
            4, [r(1, 1, 2), r(2, 1, 1001)], [r(1, 1, 2), *neighbours(2, 1, 334, 667, 1001)], id="4: very skewed"
        ),
        pytest.param(1, [r(1, 1, 5), r(2, 1, 21)], [r(1, 1, 5), r(2, 1, 21)], id="1: fewer than there are"),
        pytest.param(3, [r(1, 1, 11)], neighbours(1, 1, 4, 7, 11), id="3: inexact multiple"),
        pytest.param(
            4,
            [r(1, 1, 5), r(2, 1, 21), r(3, 1, 1)],
            [r(1, 1, 5), *neighbours(2, 1, 7, 14, 21)],
            id="4: empty ranges ignored",
        ),
        pytest.param(
            6,
            [r(1, 0, 10), r(2, 0, 10), r(3, 0, 1)],
            [*neighbours(1, 0, 3, 6, 10), *neighbours(2, 0, 3, 6, 10), r(3, 0, 1)],
            id="6: never drop offsets",
        ),
        pytest.param(
            9,
            [r(1, 0, 10000), r(2, 0, 15000), r(3, 0, 20000)],
            [
                *neighbours(1, 0, 5000, 10000),
                *neighbours(2, 0, 5000, 10000, 15000),
                *neighbours(3, 0, 5000, 10000, 15000, 20000),
            ],
            id="9: none small, 3 large",
        ),
        pytest.param(
            6,
            [r(1, 0, 500), r(2, 0, 12000), r(3, 0, 15001)],
            [r(1, 0, 500), *neighbours(2, 0, 6000, 12000), *neighbours(3, 0, 5000, 10000, 15001)],
            id="6: 1 small, 2 large",
        ),
        pytest.param(
            6,
            [r(1, 0, 1), r(2, 0, 1), r(3, 0, 10000)],
            [r(1, 0, 1), r(2, 0, 1), *neighbours(3, 0, 2500, 5000, 7500, 10000)],
            id="6: 2 small, 1 large",
        ),
    ],
)
def test_at_least_so_many_pieces_are_those_of_the_jvm_connector(at_least, ranges, pieces):
    assert split(ranges, at_least=at_least) == pieces


@pytest.mark.parametrize(
    ("at_least", "max_size", "ranges", "pieces"),
    [
        (None, 4, [r(1, 1, 5)], [r(1, 1, 5)]),
        (None, 4, [r(1, 1, 2)], [r(1, 1, 2)]),
        (None, 4, [r(1, 1, 6)], neighbours(1, 1, 3, 6)),
        (
            None,
            20,
            [r(1, 1, 40), r(2, 1, 50), r(3, 1, 60)],
            [*neighbours(1, 1, 20, 40), *neighbours(2, 1, 17, 33, 50), *neighbours(3, 1, 20, 40, 60)],
        ),
        (1, 20, [r(1, 1, 40)], neighbours(1, 1, 20, 40)),
        (4, 20, [r(1, 1, 40)], neighbours(1, 1, 10, 20, 30, 40)),
    ],
)
def test_pieces_below_a_size_are_those_of_the_jvm_connector(at_least, max_size, ranges, pieces):
    assert split(ranges, at_least=at_least, max_size=max_size) == pieces


def test_the_larger_pieces_come_last():
    assert [piece.size for piece in split([r(0, 0, 7)], at_least=5)] == [1, 1, 1, 2, 2]


whole_ranges = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 10**6)), max_size=20).map(
    lambda held: [r(n, start, start + size) for n, (start, size) in enumerate(held)]
)
limits = st.none() | st.integers(1, 60)


@given(whole_ranges, limits, st.none() | st.integers(10**4, 10**7))
def test_a_split_neither_loses_nor_repeats_an_offset(ranges, at_least, max_size):
    pieces = split(ranges, at_least=at_least, max_size=max_size)
    for one in ranges:
        own = [piece for piece in pieces if piece.topic_partition == one.topic_partition]
        joined = [own[0].start_offset, *(piece.end_offset for piece in own)] if own else []
        assert [piece.start_offset for piece in own] == joined[:-1]
        assert joined[:1] + joined[-1:] == ([one.start_offset, one.end_offset] if one.size else [])


@given(whole_ranges, limits, st.integers(10**4, 10**7))
def test_no_piece_is_larger_than_allowed_nor_empty(ranges, at_least, max_size):
    assert all(0 < piece.size <= max_size for piece in split(ranges, at_least=at_least, max_size=max_size))


def test_only_the_outer_ends_are_bound_when_read():
    whole = replace(r(0, 0, 9), from_earliest=True, to_latest=True, leader_epoch=4)
    pieces = split([whole], at_least=3)
    assert [(p.start_offset, p.from_earliest, p.to_latest) for p in pieces] == [
        (0, True, False),
        (3, False, False),
        (6, False, True),
    ]
    assert {p.leader_epoch for p in pieces} == {4}


# Sharing them out.


def sized(partition, size, start=0):
    return OffsetRange(TP("t", partition), start, start + size)


def cost(ranges, weights=None):
    heavy = {tp: weight / OFFSET_BYTES for tp, weight in (weights or {}).items()}
    return sum(max(one.size, int(one.size * heavy.get(one.topic_partition, 0))) + RANGE_COST for one in ranges)


# Up to 40 topic-partitions, each whole or cut into neighbours, as minPartitions will cut them.
packed_ranges = st.dictionaries(
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
least_sizes = st.integers(1, 10**7)


@given(packed_ranges, least_sizes, limits, weights)
def test_every_range_is_read_by_exactly_one_task(ranges, least_size, at_most, weights):
    tasks = pack(ranges, least_size=least_size, at_most=at_most, weights=weights)
    assert all(tasks)
    assert sorted(str(one) for task in tasks for one in task) == sorted(map(str, ranges))


@given(packed_ranges, least_sizes, limits)
def test_a_task_reads_a_topic_partition_in_order(ranges, least_size, at_most):
    for task in pack(ranges, least_size=least_size, at_most=at_most):
        assert list(task) == sorted(task, key=lambda one: (one.topic_partition, one.start_offset))


@given(packed_ranges, least_sizes, st.integers(1, 60))
def test_there_are_never_more_tasks_than_allowed(ranges, least_size, at_most):
    assert len(pack(ranges, least_size=least_size, at_most=at_most)) <= at_most


@given(packed_ranges, limits, weights)
def test_no_task_has_more_than_its_share_and_one_range(ranges, at_most, weights):
    tasks = pack(ranges, at_most=at_most, weights=weights)
    if tasks:
        share = cost(ranges, weights) / len(tasks)
        assert max(cost(task, weights) for task in tasks) <= share + max(cost([one], weights) for one in ranges)


@given(packed_ranges, least_sizes, limits, st.floats(1e-3, OFFSET_BYTES))
def test_light_records_are_packed_by_their_offsets_alone(ranges, least_size, at_most, weight):
    alone = pack(ranges, least_size=least_size, at_most=at_most)
    light = {one.topic_partition: weight for one in ranges}
    assert pack(ranges, least_size=least_size, at_most=at_most, weights=light) == alone


@given(packed_ranges, least_sizes, limits, st.randoms())
def test_the_same_ranges_give_the_same_tasks_whatever_their_order(ranges, least_size, at_most, random):
    mixed = random.sample(ranges, len(ranges))
    tasks = pack(ranges, least_size=least_size, at_most=at_most)
    assert sorted(pack(mixed, least_size=least_size, at_most=at_most), key=str) == sorted(tasks, key=str)


def test_each_range_has_a_task_of_its_own_unless_told_otherwise():
    assert pack([sized(0, 5), sized(1, 1)]) == [(sized(0, 5),), (sized(1, 1),)]
    assert pack([]) == []


def test_what_is_small_together_is_one_task():
    assert pack([sized(0, 1000), sized(1, 1000), sized(2, 1000)], least_size=50_000) == [
        (sized(0, 1000), sized(1, 1000), sized(2, 1000))
    ]


def test_large_ranges_keep_their_tasks_and_small_ones_join():
    tasks = pack([sized(0, 100_000), sized(1, 10), sized(2, 10), sized(3, 90_000)], at_most=2)
    assert tasks == [(sized(0, 100_000),), (sized(1, 10), sized(2, 10), sized(3, 90_000))]


@pytest.mark.parametrize(("least_size", "tasks"), [(1, 4), (100_000, 4), (150_000, 2), (200_000, 2), (10**9, 1)])
def test_the_least_size_of_a_task_sets_their_number(least_size, tasks):
    assert len(pack([sized(n, 100_000) for n in range(4)], least_size=least_size)) == tasks


@pytest.mark.parametrize(("at_least", "at_most", "tasks"), [(1, None, 1), (3, None, 3), (9, None, 4), (3, 3, 3)])
def test_small_ranges_are_not_packed_into_fewer_tasks_than_asked_for(at_least, at_most, tasks):
    packed = pack([sized(n, 1000) for n in range(4)], least_size=10**9, at_least=at_least, at_most=at_most)
    assert len(packed) == tasks


@pytest.mark.parametrize(("weight", "tasks"), [(1, 1), (1_000, 1), (2_000, 1), (10_000, 4), (1_000_000, 4)])
def test_heavy_records_do_not_become_one_task_because_they_are_few(weight, tasks):
    """20 GB of records of 1 MB, which were one task; 20,000 offsets of 2 kB are 40 MB, which are one still."""
    ranges = [sized(n, 5_000) for n in range(4)]
    weights = {one.topic_partition: weight for one in ranges}
    assert len(pack(ranges, least_size=25_000, weights=weights)) == tasks


def test_bytes_balance_tasks_too():
    ranges = [sized(0, 10), sized(1, 1_000), sized(2, 1_000), sized(3, 1_000)]
    tasks = pack(ranges, at_most=2, weights={ranges[0].topic_partition: 1_000_000})
    assert tasks == [(ranges[0],), tuple(ranges[1:])]
