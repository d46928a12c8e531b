"""Cutting ranges: the cases of Spark's KafkaOffsetRangeCalculatorSuite with their numbers, and what holds for any."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.source.plan.splitting import split
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


ranges = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 10**6)), max_size=20).map(
    lambda held: [r(n, start, start + size) for n, (start, size) in enumerate(held)]
)
limits = st.none() | st.integers(1, 60)


@given(ranges, limits, st.none() | st.integers(10**4, 10**7))
def test_a_split_neither_loses_nor_repeats_an_offset(ranges, at_least, max_size):
    pieces = split(ranges, at_least=at_least, max_size=max_size)
    for one in ranges:
        own = [piece for piece in pieces if piece.topic_partition == one.topic_partition]
        joined = [own[0].start_offset, *(piece.end_offset for piece in own)] if own else []
        assert [piece.start_offset for piece in own] == joined[:-1]
        assert joined[:1] + joined[-1:] == ([one.start_offset, one.end_offset] if one.size else [])


@given(ranges, limits, st.integers(10**4, 10**7))
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
