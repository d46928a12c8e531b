"""Lag in seconds is read off a line through the ends of the log that were seen. Times and offsets are made up."""

from kafkasource.tools.monitor.log_times import LogTimes


def seen(*points):
    log = LogTimes()
    for now_s, end in points:
        log.seen(now_s, end)
    return log


def test_who_has_read_all_is_not_behind():
    assert seen((0, 100)).seconds_behind(100, now_s=50) == 0.0


def test_between_two_sights_the_log_grew_evenly():
    log = seen((0, 0), (10, 100), (20, 200))
    assert log.seconds_behind(150, now_s=20) == 5.0
    assert log.seconds_behind(100, now_s=25) == 15.0


def test_while_nothing_came_nobody_fell_behind():
    log = seen((0, 100), (10, 100), (500, 100), (510, 200))
    assert log.seconds_behind(100, now_s=510) == 10.0


def test_before_the_first_sight_it_grew_as_fast_as_since():
    assert seen((100, 1000), (110, 1100)).seconds_behind(500, now_s=110) == 60.0


def test_of_a_log_that_never_grew_nothing_is_said():
    assert seen((100, 1000), (110, 1000)).seconds_behind(500, now_s=110) is None
    assert LogTimes().seconds_behind(0, now_s=1) is None


def test_a_log_that_became_shorter_is_another_one():
    log = seen((0, 1000), (10, 2000), (20, 50), (30, 150))
    assert log.seconds_behind(100, now_s=30) == 5.0


def test_what_is_unknown_has_a_bound_since_the_end_was_first_seen_behind_it():
    log = seen((100, 1000), (110, 1000))
    assert log.at_least_behind(500, now_s=130) == 30.0
    assert log.at_least_behind(999, now_s=130) == 30.0
    assert log.at_least_behind(1000, now_s=130) == 0.0
    log.seen(120, 1001)
    assert log.at_least_behind(1000, now_s=130) == 10.0
    assert LogTimes().at_least_behind(5, now_s=1) == 0.0


def test_a_records_timestamp_is_a_sight_of_the_log():
    log = seen((100, 1000), (110, 1000))
    log.written(40, 500)
    assert log.seconds_behind(500, now_s=110) == 70.0
    assert log.seconds_behind(750, now_s=110) == 40.0
    assert log.seconds_behind(400, now_s=110) == 84.0  # as fast as since
    log.written(70, 600)
    assert log.seconds_behind(600, now_s=110) == 40.0


def test_a_timestamp_that_contradicts_what_was_seen_counts_for_nothing():
    """Producers write it by their own clock, or by the time of an event."""
    log = seen((100, 1000), (110, 2000))
    for written_s, offset in ((105, 500), (50, 1000), (105, 3000), (111, 1500), (5, 1500)):
        log.written(written_s, offset)
        assert log.seconds_behind(1500, now_s=110) == 5.0, (written_s, offset)


def test_an_end_that_moved_within_the_clocks_resolution_is_seen():
    assert seen((0, 100), (10, 100), (10, 200)).seconds_behind(100, now_s=20) == 20.0


def test_a_long_life_is_remembered_in_few_points():
    log = LogTimes()
    for second in range(100_000):
        log.seen(second, second * 10)
    assert len(log._points) <= 240
    assert abs(log.seconds_behind(99_000 * 10, now_s=99_999) - 999) < 1
    assert abs(log.seconds_behind(10, now_s=99_999) - 99_998) < 1
