"""Filters narrow what is read: never a row that passes is left out, and what can be left out is."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pytest
from fake_cluster import FakeCluster

from kafkasource import options
from kafkasource.spark import releases

if not releases.HAS_FILTERS:
    pytest.skip("this release of Spark gives no filters", allow_module_level=True)

from kafkasource.errors import error_for
from kafkasource.source.spark import batch
from kafkasource.source.spark.pushdown import FilteringBatchReader, Narrowing
from kafkasource.spark.releases import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)
from kafkasource.types import OffsetRange, TopicPartition


@dataclass(frozen=True)
class OtherFilter(Filter):
    """One of pyspark's that the connector does not use, such as IsNotNull."""

    attribute: tuple[str, ...]


A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
RANGES = [OffsetRange(A, 10, 50), OffsetRange(B, 0, 20), OffsetRange(C, 5, 6)]
ENDS = {A: 50, B: 20, C: 6}
COMPARISONS = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
SYMBOLS = {
    EqualTo: "==",
    EqualNullSafe: "==",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def moment(ms, micros=0):
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms, microseconds=micros)


def left_by(*filters, ranges=RANGES):
    return [str(one) for one in Narrowing.of(filters).by_offset(ranges)]


def test_filters_on_topic_and_partition_leave_out_partitions():
    assert left_by(EqualTo(("topic",), "b")) == ["b-0 [5, 6)"]
    assert left_by(In(("partition",), [1, 2, None])) == ["a-1 [0, 20)"]
    assert left_by(Not(EqualTo(("partition",), 0))) == ["a-1 [0, 20)"]
    assert left_by(EqualTo(("topic",), "a"), GreaterThan(("partition",), 0)) == ["a-1 [0, 20)"]
    assert left_by(EqualTo(("topic",), "c")) == []


def test_filters_on_offset_move_both_ends():
    assert left_by(GreaterThanOrEqual(("offset",), 15), LessThan(("offset",), 30)) == ["a-0 [15, 30)", "a-1 [15, 20)"]
    assert left_by(GreaterThan(("offset",), 15), LessThanOrEqual(("offset",), 16)) == ["a-0 [16, 17)", "a-1 [16, 17)"]
    assert left_by(EqualTo(("offset",), 5)) == ["a-1 [5, 6)", "b-0 [5, 6)"]
    assert left_by(In(("offset",), [17, 12])) == ["a-0 [12, 18)", "a-1 [12, 18)"]
    assert left_by(LessThan(("offset",), 0)) == []


@pytest.mark.parametrize(
    "unknown",
    [
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "topic"),
        EqualTo(("partition",), "0"),
        EqualTo(("partition",), None),
        In(("partition",), [None]),
        In(("offset",), [1, "2"]),
        Not(EqualTo(("offset",), 5)),
        OtherFilter(("topic",)),
        Not(OtherFilter(("topic",))),
        GreaterThan(("offset",), 1.5),
    ],
)
def test_what_is_not_understood_narrows_nothing(unknown):
    assert left_by(unknown) == [str(one) for one in RANGES]


def test_time_has_a_lower_bound_alone_in_whole_milliseconds():
    def since(one):
        return Narrowing.of([one]).since_ms

    # Rows show whole milliseconds: at 1000.5 ms and later means at 1001 ms and later, and so does after 1000 ms.
    assert since(GreaterThanOrEqual(("timestamp",), moment(1000))) == 1000
    assert since(GreaterThanOrEqual(("timestamp",), moment(1000, 500))) == 1001
    assert since(GreaterThan(("timestamp",), moment(1000))) == 1001
    assert since(GreaterThan(("timestamp",), moment(1000, -1))) == 1000
    assert since(EqualTo(("timestamp",), moment(1000))) == 1000
    assert since(In(("timestamp",), [moment(3000), moment(2000)])) == 2000
    assert since(LessThan(("timestamp",), moment(1000))) is None
    # Records without a timestamp have -1, which asks ListOffsets for the end of the log.
    assert since(GreaterThanOrEqual(("timestamp",), moment(-1))) is None
    assert since(GreaterThanOrEqual(("timestamp",), datetime(2020, 1, 1))) is None
    summer = timezone(timedelta(hours=2))
    assert since(GreaterThanOrEqual(("timestamp",), moment(7200_000).astimezone(summer))) == 7200_000


def test_an_end_at_latest_stays_one_unless_the_filter_is_reached_before():
    ranges = [OffsetRange(A, 10, 50, from_earliest=True, to_latest=True)]
    assert Narrowing.of([LessThan(("offset",), 51)]).by_offset(ranges) == ranges
    assert Narrowing.of([LessThan(("offset",), 50)]).by_offset(ranges) == [OffsetRange(A, 10, 50, from_earliest=True)]
    (later,) = Narrowing.of([GreaterThan(("offset",), 99)]).by_offset(ranges)
    assert (later.start_offset, later.end_offset, later.to_latest) == (50, 50, True)
    since = Narrowing.of([GreaterThan(("timestamp",), moment(5))])
    (later,) = since.by_time(ranges, {A: None}, {A: 50})
    assert (later.start_offset, later.end_offset, later.to_latest) == (50, 50, True)
    assert since.by_time(RANGES[:1], {A: None}, {A: 50}) == []
    assert since.by_time(RANGES[:1], {}, {A: 50}) == RANGES[:1]
    assert since.by_time(RANGES[:1], {A: 3}, {A: 50}) == RANGES[:1]
    assert since.by_time(RANGES[:1], {A: 20}, {A: 50}) == [OffsetRange(A, 20, 50)]


def test_that_no_record_is_new_enough_is_believed_only_below_the_end_of_the_log_as_it_was_listed():
    since = Narrowing.of([GreaterThan(("timestamp",), moment(5))])
    assert since.by_time(RANGES[:1], {A: None}, {A: 30}) == [OffsetRange(A, 30, 50)]
    assert since.by_time(RANGES[:1], {A: None}, {A: 4}) == RANGES[:1]
    assert since.by_time(RANGES[:1], {A: None}, {}) == RANGES[:1]


# Record n is of second n, and a transaction is open from offset 4 on.
@pytest.mark.parametrize(
    ("since_s", "end", "planned"),
    [
        (2, {"endingOffsets": '{"t":{"0":10}}'}, [(2, 10, False)]),
        (5, {"endingOffsets": '{"t":{"0":10}}'}, [(4, 10, False)]),  # 5 to 9 pass, once the transaction has ended
        (5, {"endingOffsets": '{"t":{"0":4}}'}, []),
        (5, {}, [(4, 4, True)]),
    ],
)
def test_records_behind_an_open_transaction_that_the_tasks_wait_for_are_not_left_out(
    monkeypatch, since_s, end, planned
):
    cluster, tp = FakeCluster(t=[(0, 10)]), TopicPartition("t", 0)
    cluster.stable, cluster.timestamps = {tp: 4}, {tp: [1000 * number for number in range(10)]}
    monkeypatch.setattr(batch, "shared_cluster", lambda config: cluster)
    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "kafka.isolation.level": "read_committed"}
    reader = FilteringBatchReader(options.parse(given | end, "source"))
    reader.pushFilters([GreaterThanOrEqual(("timestamp",), moment(1000 * since_s))])
    ranges = [one for partition in reader.partitions() for one in partition.value]
    assert [(one.start_offset, one.end_offset, one.to_latest) for one in ranges] == planned


def random_filters(rng, values):
    """Filters as Spark sends them, and the same as a Python expression over the columns, times as ms."""
    filters, text = [], []
    for _ in range(rng.randrange(1, 4)):
        column, negated = rng.choice(list(values)), rng.random() < 0.2
        if rng.random() < 0.3:
            literals = [rng.choice(values[column]) for _ in range(2)]
            kind, shown = In, f"{column} in {literals}"
            literal = [moment(ms) for ms in literals] if column == "timestamp" else literals
        else:
            kind, value = rng.choice(COMPARISONS), rng.choice(values[column])
            shown, literal = f"{column} {SYMBOLS[kind]} {value!r}", moment(value) if column == "timestamp" else value
        one = kind((column,), literal)
        filters.append(Not(one) if negated else one)
        text.append(f"not ({shown})" if negated else shown)
    return filters, " and ".join(text)


@pytest.mark.parametrize("ten_seeds", range(30))
def test_no_row_that_passes_is_left_out(ten_seeds):
    for seed in range(ten_seeds * 10, ten_seeds * 10 + 10):
        keeps_what_passes(seed)


def keeps_what_passes(seed):
    rng = random.Random(seed)
    times = {(one.topic_partition, o): rng.randrange(-1, 40) for one in RANGES for o in range(one.end_offset)}
    values = {"topic": ["a", "b", "c"], "partition": [-1, 0, 1], "offset": range(-1, 55), "timestamp": range(-1, 42)}
    filters, text = random_filters(rng, values)
    narrowing = Narrowing.of(filters)
    kept = narrowing.by_offset(RANGES)
    if narrowing.since_ms is not None:
        log_ends = {one.topic_partition: rng.choice([one.end_offset, rng.randrange(one.end_offset)]) for one in RANGES}
        found = {
            tp: min(
                (o for (p, o), ms in times.items() if p == tp and o < end and ms >= narrowing.since_ms), default=None
            )
            for tp, end in log_ends.items()
        }
        kept = narrowing.by_time(kept, found, log_ends)
    read = {(one.topic_partition, o) for one in kept for o in range(one.start_offset, one.end_offset)}
    asked = {(one.topic_partition, o) for one in RANGES for o in range(one.start_offset, one.end_offset)}
    passing = {
        (tp, o)
        for tp, o in asked
        if eval(text, {"topic": tp.topic, "partition": tp.partition, "offset": o, "timestamp": times[tp, o]})
    }
    assert passing <= read <= asked, text


class Reader:
    """Answers as an OffsetReader would."""

    def __init__(self, answer):
        self.answer, self.asked = answer, None

    def offsets_for_times(self, timestamps):
        self.asked = dict(timestamps)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def filtering(*filters):
    reader = object.__new__(FilteringBatchReader)
    assert list(reader.pushFilters(list(filters))) == list(filters), "Spark checks every row again"
    return reader


def test_only_partitions_that_are_left_are_asked_for_times():
    reader = Reader({B: 7})
    later = GreaterThanOrEqual(("timestamp",), moment(9))
    assert list(filtering(EqualTo(("partition",), 1), later)._narrowed(RANGES, ENDS, reader)) == [OffsetRange(B, 7, 20)]
    assert reader.asked == {B: 9}


def test_a_log_without_timestamps_is_read_from_its_start():
    reader = Reader(error_for(43))  # UNSUPPORTED_FOR_MESSAGE_FORMAT: message format v0
    assert list(filtering(GreaterThan(("timestamp",), moment(9)))._narrowed(RANGES, ENDS, reader)) == RANGES
