"""Numbers of the JVM connector's KafkaMicroBatchSourceSuite for limits in offsets; properties for limits in bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource import options
from kafkasource.source.plan.admission import Admission, Turns, share_offsets
from kafkasource.spark.releases import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows
from kafkasource.types import TopicPartition as TP

T0, T1, T2, T3 = (TP("t", number) for number in range(4))
EMPTY = {T0: 0, T1: 0, T2: 0}
LIMITED = ReadMaxRows(1)  # what Spark gives back when the trigger knows limits; its number is not looked at
partitions = st.builds(TP, st.just("t"), st.integers(0, 30))
held_by_partition = st.dictionaries(partitions, st.tuples(st.integers(0, 2**40), st.integers(0, 2**20)), max_size=20)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Query:
    """An admission and where its query stands; `trigger` answers what a batch takes per partition, None: it waits."""

    def __init__(self, start=EMPTY, **given):
        given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t"} | given
        self.clock = Clock()
        self.admission = Admission(options.parse(given, "source"), self.clock)
        self.at = dict(start)
        self.asked_new = []

    def trigger(self, latest, limit=LIMITED, weights=None, earliest=None):
        def earliest_of_new(new):
            self.asked_new.append(set(new))
            return {tp: earliest[tp] for tp in new if tp in earliest}

        end = self.admission.admit(
            self.at, latest, limit, earliest_of_new=earliest_of_new, weigh=lambda begin, end, limit: (begin, weights)
        )
        if end is None:
            return None
        taken = [end[tp] - self.at.get(tp, (earliest or {}).get(tp, 0)) for tp in sorted(end)]
        self.at = end
        return taken


def test_the_jvm_connectors_batches_of_ten_from_101_11_and_1():
    # Its test "maxOffsetsPerTrigger": values 100..200, 10..20 and 1; the query is stopped and started in between.
    query, latest = Query(maxOffsetsPerTrigger="10"), {T0: 101, T1: 11, T2: 1}
    assert query.trigger(latest) == [8, 1, 1]
    assert query.trigger(latest) == [9, 1, 0]
    query = Query(query.at, maxOffsetsPerTrigger="10")
    assert query.trigger(latest) == [9, 1, 0]
    assert query.trigger(latest) == [9, 1, 0]


def test_the_jvm_connectors_batches_of_at_least_15():
    # Its test "minOffsetsPerTrigger", maxTriggerDelay 5s: values 100..109, 10..14 and 1 first.
    query = Query(minOffsetsPerTrigger="15", maxTriggerDelay="5s")
    assert query.trigger({T0: 10, T1: 5, T2: 1}) == [10, 5, 1]
    query.clock.now += 0.1
    assert query.trigger({T0: 10, T1: 11, T2: 1}) is None
    query.clock.now += 0.1
    assert query.trigger({T0: 21, T1: 11, T2: 2}) == [11, 6, 1]
    query.clock.now += 0.1
    assert query.trigger({T0: 26, T1: 16, T2: 2}) is None
    query.clock.now += 5
    assert query.trigger({T0: 26, T1: 16, T2: 2}) == [5, 5, 0]


def test_the_jvm_connectors_batches_with_both_limits():
    # Its test "compositeReadLimit": at least 15, at most 20, maxTriggerDelay 5s.
    query = Query(minOffsetsPerTrigger="15", maxTriggerDelay="5s", maxOffsetsPerTrigger="20")
    assert query.trigger({T0: 21, T1: 11, T2: 1}) == [12, 6, 1]
    query.clock.now += 0.1
    assert query.trigger({T0: 21, T1: 11, T2: 1}) is None
    query.clock.now += 0.1
    assert query.trigger({T0: 29, T1: 21, T2: 2}) == [10, 9, 1]
    query.clock.now += 0.1
    assert query.trigger({T0: 29, T1: 21, T2: 2}) is None
    query.clock.now += 5.1
    assert query.trigger({T0: 29, T1: 21, T2: 2}) == [7, 6, 0]


def test_the_first_batch_after_a_start_never_waits_also_when_it_is_empty():
    # The JVM connector's timer starts at 0 and is not kept; what fires first may find nothing, and the next must wait.
    query = Query({T0: 5}, minOffsetsPerTrigger="15")
    assert query.trigger({T0: 5}) == [0]
    assert query.trigger({T0: 19}) is None
    assert query.trigger({T0: 20}) == [15]


def test_a_batch_waits_fifteen_minutes_at_most_when_nothing_else_is_said():
    query = Query({T0: 0}, minOffsetsPerTrigger="15")
    query.trigger({T0: 0})
    query.clock.now += 15 * 60 - 1
    assert query.trigger({T0: 1}) is None
    query.clock.now += 1
    assert query.trigger({T0: 1}) == [1]


def test_a_partition_that_is_new_counts_from_offset_0_in_the_question_whether_to_wait():
    query = Query({T0: 0}, minOffsetsPerTrigger="15")
    query.trigger({T0: 0})
    assert query.trigger({T0: 0, T1: 14}) is None
    assert query.trigger({T0: 0, T1: 15}) == [0, 15]
    assert query.asked_new == []  # nobody needed their beginning


@pytest.mark.parametrize(
    "given", [{"maxOffsetsPerTrigger": "1"}, {"maxBytesPerTrigger": "1"}, {"minOffsetsPerTrigger": "1000"}]
)
def test_trigger_once_ignores_every_limit(given):
    query = Query(**given)
    query.trigger(EMPTY, weights={})
    assert query.trigger({T0: 101, T1: 11, T2: 1}, ReadAllAvailable()) == [101, 11, 1]


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "10"}, ReadMaxRows(10)),
        ({"maxBytesPerTrigger": "1k"}, ReadMaxBytes(1024)),
        ({"minOffsetsPerTrigger": "5"}, ReadMinRows(5)),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "10", "maxBytesPerTrigger": "1k"}, ReadMaxRows(10)),
    ],
)
def test_spark_hears_of_a_limit(given, limit):
    assert Query(**given).admission.read_limit() == limit


def test_a_new_partition_is_shared_out_from_its_earliest_offset():
    query = Query({T0: 5}, maxOffsetsPerTrigger="4")
    assert query.trigger({T0: 5, T1: 109}, earliest={T1: 100}) == [0, 4]
    assert query.asked_new == [{T1}]


def test_a_new_partition_that_is_gone_again_keeps_its_end_for_the_plan_to_find_the_loss():
    query = Query({T0: 0}, maxOffsetsPerTrigger="4")
    assert query.trigger({T0: 8, T1: 7}, earliest={}) == [4, 7]


def test_every_partition_that_holds_something_moves_even_past_the_limit():
    assert share_offsets(dict.fromkeys((T0, T1, T2, T3), 0), dict.fromkeys((T0, T1, T2, T3), 5), 1) == dict.fromkeys(
        (T0, T1, T2, T3), 1
    )


def test_the_largest_limit_takes_everything():
    assert share_offsets({T0: 2**62, T1: 0}, {T0: 2**63 - 1, T1: 3}, 2**63 - 1)[T1] == 3
    assert share_offsets({T0: 0, T1: 0}, {T0: 200, T1: 3}, 2**63 - 1) == {T0: 200, T1: 3}


def test_nothing_new_is_admitted_as_it_is():
    assert share_offsets({T0: 5}, {T0: 5}, 10) == {T0: 5}
    assert Turns().share_bytes({T0: 5}, {T0: 5}, {}, 10) == {T0: 5}


def test_a_log_that_shrank_keeps_its_end_so_that_the_loss_is_seen_when_planned():
    assert share_offsets({T0: 8, T1: 0}, {T0: 3, T1: 100}, 10) == {T0: 3, T1: 10}
    assert Turns().share_bytes({T0: 8, T1: 0}, {T0: 3, T1: 100}, {T1: 10.0}, 100) == {T0: 3, T1: 10}


@given(held_by_partition, st.integers(1, 2**24))
def test_a_share_of_offsets_never_passes_the_end_nor_starves_and_the_last_one_takes_all(held, limit):
    start = {tp: begin for tp, (begin, _) in held.items()}
    latest = {tp: begin + size for tp, (begin, size) in held.items()}
    admitted = share_offsets(start, latest, limit)
    assert admitted.keys() == latest.keys()
    for tp, (begin, size) in held.items():
        assert begin + (size > 0) <= admitted[tp] <= latest[tp]
    assert sum(admitted.values()) - sum(start.values()) <= limit + len(held)
    if sum(size for _, size in held.values()) <= limit // 2:
        assert share_offsets(admitted, latest, 2**24 * 32) == latest


# Bytes.


def test_bytes_are_shared_out_by_how_much_each_partition_holds():
    # 100 kB and 900 kB behind: of 100 kB a tenth of each.
    query = Query({T0: 0, T1: 0}, maxBytesPerTrigger="100000")
    assert query.trigger({T0: 1000, T1: 90}, weights={T0: 100.0, T1: 10_000.0}) == [100, 9]


def test_partitions_whose_share_is_less_than_a_record_take_turns():
    heavy = {TP("t", number): 0 for number in range(10)}
    weights = dict.fromkeys(heavy, 1000.0)
    turns, at, latest = Turns(), heavy, dict.fromkeys(heavy, 100)
    moved = []
    for _ in range(5):
        end = turns.share_bytes(at, latest, weights, 2000)
        moved.append({tp for tp in end if end[tp] > at[tp]})
        assert sum(end.values()) - sum(at.values()) == 2
        at = end
    assert set.union(*moved) == set(heavy)  # each once in five batches of two


def test_a_heavy_record_beside_light_ones_has_its_turn():
    # Of 101 MB in all 1 MB is heavy: of a batch of 1 kB a thousandth of a heavy record, one in 1,010 batches.
    turns, at, latest = Turns(), {T0: 0, T1: 0}, {T0: 10**6, T1: 100}
    batches = 0
    while not at[T1]:
        at = turns.share_bytes(at, latest, {T0: 100.0, T1: 10_000.0}, 1000)
        batches += 1
    assert batches <= 1010


def test_a_record_larger_than_the_limit_goes_alone():
    turns, at, latest = Turns(), {T0: 0, T1: 0}, {T0: 2, T1: 2}
    sizes = []
    while at != latest:
        end = turns.share_bytes(at, latest, {T0: 5000.0, T1: 5000.0}, 10)
        sizes.append(sum(end.values()) - sum(at.values()))
        at = end
    assert sizes == [1, 1, 1, 1]


def test_the_smaller_end_counts_where_offsets_and_bytes_are_limited():
    query = Query({T0: 0}, maxOffsetsPerTrigger="50", maxBytesPerTrigger="1000")
    assert query.trigger({T0: 100}, weights={T0: 100.0}) == [10]
    assert query.trigger({T0: 100}, weights={T0: 1.0}) == [50]


@given(held_by_partition, st.integers(1, 2**30), st.data())
def test_bytes_never_pass_the_end_nor_stop_and_keep_to_the_limit_but_for_a_record_each(held, limit, data):
    start = {tp: begin for tp, (begin, _) in held.items()}
    latest = {tp: begin + size for tp, (begin, size) in held.items()}
    weights = {tp: data.draw(st.floats(0.001, 2**27)) for tp in held}
    turns, at = Turns(), start
    for _ in range(3):
        end = turns.share_bytes(at, latest, weights, limit)
        assert all(at[tp] <= end[tp] <= latest[tp] for tp in latest)
        assert end != at or at == latest
        taken = sum((end[tp] - at[tp]) * weights[tp] for tp in latest)
        assert taken <= limit * 1.000001 + sum(weights.values())
        at = end
