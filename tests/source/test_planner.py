"""Numbers and cases of the JVM connector's own suites: KafkaMicroBatchSourceSuite (limits) and
KafkaOffsetRangeCalculatorSuite (no splits).
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.errors import KafkaSourceError
from kafkasource.source import loss
from kafkasource.source.planner import admit, check_available_now, plan, plan_batch
from kafkasource.types import OffsetRange
from kafkasource.types import TopicPartition as TP

T0, T1, T2, T3 = (TP("t", number) for number in range(4))
partitions = st.builds(TP, st.just("t"), st.integers(0, 30))


def taken(start, end):
    return {tp.partition: end[tp] - start[tp] for tp in end}


def test_the_jvm_connectors_three_batches_of_ten_from_101_11_and_1():
    # Its test "maxOffsetsPerTrigger": values 100..200, 10..20 and 1.
    latest = {T0: 101, T1: 11, T2: 1}
    first = admit({T0: 0, T1: 0, T2: 0}, latest, 10)
    assert first == {T0: 8, T1: 1, T2: 1}
    second = admit(first, latest, 10)
    assert taken(first, second) == {0: 9, 1: 1, 2: 0}
    third = admit(second, latest, 10)
    assert taken(second, third) == {0: 9, 1: 1, 2: 0}


def test_every_partition_that_holds_something_moves_even_past_the_limit():
    assert admit(dict.fromkeys((T0, T1, T2, T3), 0), dict.fromkeys((T0, T1, T2, T3), 5), 1) == dict.fromkeys(
        (T0, T1, T2, T3), 1
    )


def test_the_largest_limit_takes_everything():
    assert admit({T0: 2**62, T1: 0}, {T0: 2**63 - 1, T1: 3}, 2**63 - 1)[T1] == 3
    assert admit({T0: 0, T1: 0}, {T0: 200, T1: 3}, 2**63 - 1) == {T0: 200, T1: 3}


def test_nothing_new_is_admitted_as_it_is():
    assert admit({T0: 5}, {T0: 5}, 10) == {T0: 5}


def test_a_log_that_shrank_keeps_its_end_so_that_the_loss_is_seen_when_planned():
    assert admit({T0: 8, T1: 0}, {T0: 3, T1: 100}, 10) == {T0: 3, T1: 10}


@given(
    st.dictionaries(partitions, st.tuples(st.integers(0, 2**40), st.integers(0, 2**20)), max_size=20),
    st.integers(1, 2**24),
)
def test_admission_never_passes_latest_nor_starves_and_ends(held, limit):
    start = {tp: begin for tp, (begin, _) in held.items()}
    latest = {tp: begin + size for tp, (begin, size) in held.items()}
    admitted = admit(start, latest, limit)
    assert admitted.keys() == latest.keys()
    assert all(start[tp] <= admitted[tp] <= latest[tp] for tp in latest)
    assert all(admitted[tp] > start[tp] for tp in latest if latest[tp] > start[tp])
    assert sum(taken(start, admitted).values()) <= limit + len(latest)


def test_one_range_per_partition_in_order():
    assert plan({T1: 1, T0: 5}, {T0: 7, T1: 2}, {}).ranges == [OffsetRange(T0, 5, 7), OffsetRange(T1, 1, 2)]


def test_empty_ranges_make_no_task():
    made = plan({T0: 5, T1: 5}, {T0: 5, T1: 6}, {})
    assert (made.ranges, made.losses) == ([OffsetRange(T1, 5, 6)], [])


def test_a_new_partition_is_read_from_its_beginning():
    made = plan({T0: 5}, {T0: 5, T1: 4}, {T1: 0})
    assert (made.ranges, made.losses) == ([OffsetRange(T1, 0, 4)], [])


@pytest.mark.parametrize(
    ("start", "end", "new", "condition", "text", "ranges"),
    [
        (
            {},
            {T1: 9},
            {T1: 5},
            loss.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO,
            "Added partition t-1 starts from 5 instead of 0.",
            [OffsetRange(T1, 5, 9)],
        ),
        ({}, {T1: 9}, {}, loss.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS, "t-1", []),
        ({T0: 3, T1: 1}, {T1: 2}, {}, loss.PARTITIONS_DELETED, "t-0 have been deleted.", [OffsetRange(T1, 1, 2)]),
        ({T0: 8}, {T0: 3}, {}, loss.PARTITION_OFFSET_CHANGED, "Partition t-0 offset was changed from 8 to 3", []),
    ],
)
def test_what_cannot_be_read_is_a_named_loss(start, end, new, condition, text, ranges):
    made = plan(start, end, new)
    assert [found.condition for found in made.losses] == [condition]
    assert text in made.losses[0].text
    assert made.ranges == ranges


@given(
    st.dictionaries(partitions, st.integers(0, 100)),
    st.dictionaries(partitions, st.integers(0, 100)),
    st.dictionaries(partitions, st.integers(0, 100)),
)
def test_every_partition_is_read_empty_or_reported(start, end, earliest_of_new):
    made = plan(start, end, earliest_of_new)
    told = " ".join(found.text for found in made.losses)
    read = {r.topic_partition for r in made.ranges}
    for tp in start.keys() | end.keys():
        begin = start.get(tp, earliest_of_new.get(tp))
        assert tp in read or begin == end.get(tp) or str(tp) in told or "more" in told
    assert all(r.size > 0 for r in made.ranges)
    assert len(read) == len(made.ranges)


def test_a_batch_read_refuses_a_start_behind_its_end():
    with pytest.raises(KafkaSourceError, match="resolved start offset 4 is greater than the resolved end offset 3"):
        plan_batch({T0: 4}, {T0: 3})
    assert plan_batch({T0: 3, T1: 2}, {T0: 3, T1: 4}) == [OffsetRange(T1, 2, 4)]


@pytest.mark.parametrize(
    ("end", "frozen", "latest", "message"),
    [
        ({T0: 1}, {T0: 1, T1: 1}, {T0: 1, T1: 1}, "differ: t-1"),
        ({T0: 2}, {T0: 1}, {T0: 5}, "after the goal of the run: t-0"),
        ({T0: 1}, {T0: 1}, {}, "deleted: t-0"),
        ({T0: 2}, {T0: 2}, {T0: 1}, "logs end before the batch does: t-0"),
    ],
)
def test_available_now_stops_when_its_goal_vanishes(end, frozen, latest, message):
    with pytest.raises(KafkaSourceError, match=message):
        check_available_now(end, frozen, latest)


def test_available_now_goes_on_when_more_arrives():
    check_available_now({T0: 1}, {T0: 2}, {T0: 9, T1: 4})
