"""The lines of `pykafka lag --watch`, and the totals that several commands begin with."""

from kafkasource.tools.admin.lag import LagReport, PartitionLag
from kafkasource.tools.cli.lag import _Trend
from kafkasource.types import TopicPartition

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


def report(*places):
    return LagReport("group g", [PartitionLag(*place) for place in places])


def test_totals_say_what_lags_what_has_no_offset_and_what_is_gone():
    lag_report = report((T0, 5, 1_205), (T1, None, 7), (T2, 3, None))
    assert lag_report.totals == (
        "lag 1,200 in 1 of 3 partitions, group g; 1 without a committed offset; 1 no longer exist"
    )


def test_totals_say_in_words_that_nothing_lags_and_count_only_what_is_known():
    assert report((T0, 5, 5), (T1, 7, 7)).totals == "no lag in 2 partitions, group g"
    assert report((T0, 5, 5), (T1, None, 7)).totals == "no lag in 1 partition, group g; 1 without a committed offset"
    ahead = "; 1 beyond the end of the log: was the topic created again?"
    assert report((T0, 5, 5), (T1, 9, 7)).totals == f"no lag in 1 partition, group g{ahead}"
    assert report((T0, None, 7)).totals == "lag not known, group g; 1 without a committed offset"
    assert report().totals == "no partitions, group g"


def test_a_partition_without_a_leader_is_not_gone():
    lag_report = LagReport("group g", [PartitionLag(T0, 5, 7), PartitionLag(T1, 5, None, leaderless=True)])
    assert lag_report.totals == "lag 2 in 1 of 2 partitions, group g; 1 without a leader"


def test_a_group_ahead_of_a_log_that_became_shorter_lags_by_nothing():
    assert report((T0, 10, 4)).lag == 0


def test_rates_and_the_time_left_come_with_the_second_look():
    trend = _Trend()
    assert trend.since_last(report((T0, 0, 1000)), 100.0) == ""
    assert trend.since_last(report((T0, 500, 1100)), 105.0) == "; reads 100/s, 20/s come in, done in 8 s"


def test_a_group_that_falls_behind_is_promised_no_end():
    trend = _Trend()
    trend.since_last(report((T0, 0, 1000)), 0.0)
    assert trend.since_last(report((T0, 10, 2000)), 10.0) == "; reads 1/s, 100/s come in"


def test_one_that_is_done_says_no_more():
    trend = _Trend()
    trend.since_last(report((T0, 0, 10)), 0.0)
    assert trend.since_last(report((T0, 10, 10)), 1.0) == "; reads 10/s, 0/s come in"
