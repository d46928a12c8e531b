"""Lag is what Spark's progress says: latestOffset - endOffset, for each partition."""

import json
import logging
from types import SimpleNamespace

import pytest

import kafkasource
from kafkasource.metrics.lag import LOG_EVERY_S, LagLog, behind
from kafkasource.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def progress(*sources):
    """As pyspark makes it of Spark's JSON: offsets are texts."""
    return {
        "batchId": 3,
        "sources": [
            {"description": "d", "startOffset": None, "endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}
            for end, latest in sources
        ],
    }


def query_of(*recent):
    return SimpleNamespace(lastProgress=recent[-1] if recent else None, recentProgress=list(recent))


def test_lag_is_latest_minus_end_of_each_partition():
    last = progress(({"t": {"0": 10, "1": 7}}, {"t": {"0": 25, "1": 7}}))
    assert kafkasource.lag(query_of(last)) == {T0: 15, T1: 0}


def test_what_the_offset_holds_beside_topics_is_left_out():
    reserved = {"@kafkasource:1:ids": {}}
    last = progress(({"t": {"0": 10}, **reserved}, {"t": {"0": 11}, **reserved}))
    assert kafkasource.lag(query_of(last)) == {T0: 1}


@pytest.mark.parametrize("text", [json.dumps, str], ids=["4.1", "4.0"])
def test_before_spark_4_2_the_offset_names_the_logs_that_end_behind_it(text):
    """The texts of a progress on 4.0.4 and 4.1.4: the latest offset is the end offset."""
    end = text({"t": {"0": 0, "1": 20}, "@1;t/gMEQ3yiCSm-Sq5ze_Tc8eQ/0-1=0": {}, "@logends;t/1=50": {}})
    last = {"batchId": 3, "sources": [{"description": "d", "endOffset": end, "latestOffset": end}]}
    assert kafkasource.lag(last) == {T0: 0, T1: 30}


def test_other_sources_of_the_query_do_not_count():
    rate = (5, 7)
    files = ({"logOffset": 3}, None)
    last = progress(rate, ({"t": {"0": 1}}, {"t": {"0": 3}}), files)
    assert kafkasource.lag(query_of(last)) == {T0: 2}


def test_two_sources_are_taken_together_and_of_one_topic_the_slower_counts():
    last = progress(
        ({"t": {"0": 1}}, {"t": {"0": 3}}),
        ({"t": {"0": 0}}, {"t": {"0": 3}}),
        ({"u": {"0": 4}}, {"u": {"0": 4}}),
    )
    assert kafkasource.lag(query_of(last)) == {T0: 3, U0: 0}


def test_before_the_first_progress_there_is_none():
    assert kafkasource.lag(query_of()) == {}


def test_a_replayed_batch_that_knows_no_ends_leaves_the_last_known_lag():
    known = progress(({"t": {"0": 1}}, {"t": {"0": 3}}))
    assert kafkasource.lag(query_of(known, progress(({"t": {"0": 2}}, None)))) == {T0: 2}
    assert kafkasource.lag(query_of(progress(({"t": {"0": 2}}, None)))) == {}


def test_a_listener_may_ask_about_the_progress_it_got():
    assert kafkasource.lag(progress(({"t": {"0": 1}}, {"t": {"0": 3}}))) == {T0: 2}


def test_offsets_that_were_parsed_already_are_understood():
    source = {"endOffset": {"t": {"0": 1}}, "latestOffset": {"t": {"0": 3}}}
    assert kafkasource.lag({"sources": [source]}) == {T0: 2}


def test_a_log_that_ends_below_what_was_read_has_no_lag():
    assert behind({T0: 10}, {T0: 3}) == {T0: 0}


def test_partitions_that_only_one_side_knows_are_left_out():
    assert behind({T0: 10, T1: 5}, {T1: 6, U0: 9}) == {T1: 1}


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "kafkasource.source")
    return lambda: [record.getMessage() for record in caplog.records]


def test_the_log_names_the_partitions_that_are_behind_the_furthest_first(lines):
    LagLog(Clock())({T0: 0, T1: 0, U0: 4}, {T0: 2, T1: 30, U0: 4})
    assert lines() == ["lag 32 in 2 of 3 partitions (t-1 30, t-0 2)"]


def test_the_log_counts_what_it_does_not_name(lines):
    partitions = [TopicPartition("t", n) for n in range(23)]
    LagLog(Clock())(dict.fromkeys(partitions, 0), dict.fromkeys(partitions, 1))
    assert lines()[0].startswith("lag 23 in 23 of 23 partitions (t-0 1, t-1 1, ")
    assert lines()[0].endswith(" t-19 1 and 3 more)")


def test_the_log_gets_a_line_a_minute_at_most(lines):
    clock, say = Clock(), LagLog(Clock())
    say = LagLog(clock)
    for _ in range(600):
        say({T0: 0}, {T0: 1})
        clock.now_s += 0.1
    assert lines() == ["lag 1 in 1 of 1 partition (t-0 1)"]
    clock.now_s = 100.0 + LOG_EVERY_S
    say({T0: 1}, {T0: 1})
    assert lines()[1:] == ["no lag in 1 partition"]


def test_nothing_is_computed_for_a_log_that_is_off(caplog):
    caplog.set_level(logging.WARNING, "kafkasource.source")
    LagLog(Clock())(None, None)
    assert caplog.records == []
