"""What a soak calls a leak."""

import random

import pytest

from lab.benchmarks.processes import SPARK_JVM
from lab.benchmarks.soak.slopes import MIB, blocks, judge, slope_of
from lab.benchmarks.soak.traffic import _NUMBER, Counts

HOUR_S = 3600.0


def samples(grown, hours=2.0, app="once", kind="executor worker", series="rss_bytes"):
    """A process that has `grown(t_s)` bytes, every ten seconds."""
    times = [10.0 * n for n in range(int(hours * 360))]
    return [{"t_s": t, "app": app, "pid": len(app), "kind": kind, series: grown(t)} for t in times]


def noisy(a_day, seed=7):
    noise = random.Random(seed)
    return lambda t: 150 * MIB + a_day * MIB * t / 86_400 + noise.gauss(0, MIB)


def is_leak(found):
    (verdict,) = judge(found)
    return verdict.leak


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_leak(seed):
    assert not is_leak(samples(noisy(0, seed)))


@pytest.mark.parametrize("seed", range(20))
def test_growth_of_twice_the_limit_is_a_leak_within_the_noise_of_two_hours(seed):
    assert is_leak(samples(noisy(128, seed)))


def test_what_settles_within_an_hour_is_no_leak():
    settles = noisy(0)
    assert not is_leak(samples(lambda t: settles(t) + min(t, HOUR_S) / HOUR_S * 20 * MIB))


def test_growth_that_takes_weeks_to_matter_is_no_leak():
    assert not is_leak(samples(lambda t: 150 * MIB + 10 * MIB * t / 86_400))


@pytest.mark.parametrize("seed", range(5))
def test_growth_of_less_than_a_step_of_an_allocator_needs_a_longer_run(seed):
    grown = noisy(85, seed)
    assert not is_leak(samples(grown))
    assert is_leak(samples(grown, hours=8.0))


def test_steps_that_go_on_are_a_leak():
    flat = noisy(0)
    assert is_leak(samples(lambda t: flat(t) + t // 1800 * 6 * MIB))


def test_one_spike_is_no_leak():
    assert not is_leak(samples(lambda t: 150 * MIB + (900 * MIB if t > 7100 else 0)))


def test_brokers_the_control_and_processes_of_minutes_are_not_judged():
    assert not is_leak(samples(noisy(10_000), app="broker east"))
    assert not is_leak(samples(noisy(10_000), app="control"))
    assert not is_leak(samples(noisy(10_000), hours=0.4))


def of_jvms(ours, controls, series="native_total_bytes"):
    """`ours`, `controls`: what the Spark JVM of the query and that of the control have, at each moment."""
    return samples(ours, kind=SPARK_JVM, series=series) + samples(
        controls, app="control", kind=SPARK_JVM, series=series
    )


def jvm_is_leak(ours, controls):
    found = judge(of_jvms(ours, controls))
    return {verdict.app: verdict.leak for verdict in found} == {"once": True, "control": False}


@pytest.mark.parametrize("seed", range(10))
def test_what_spark_grows_without_us_is_no_leak_and_what_grows_beyond_it_is(seed):
    assert not jvm_is_leak(noisy(300, seed), noisy(300, seed + 100))
    assert jvm_is_leak(noisy(450, seed), noisy(300, seed + 100))


def test_a_jvm_is_judged_by_what_it_accounts_for():
    assert judge(of_jvms(noisy(3000), noisy(0), "rss_bytes")) == []
    kept = judge(of_jvms(noisy(3000), noisy(0), "live_heap_bytes"))
    assert [(verdict.app, verdict.leak) for verdict in kept] == [("control", False), ("once", True)]


def test_a_process_that_the_control_does_not_have_is_judged_by_itself():
    found = judge(samples(noisy(300)) + samples(noisy(300), app="control", kind=SPARK_JVM, series="live_heap_bytes"))
    assert [(verdict.app, verdict.leak) for verdict in found] == [("control", False), ("once", True)]


def test_an_outlier_does_not_move_the_slope_of_a_line():
    points = [(x, 3.0 * x + (100.0 if x == 5 else 0.0)) for x in range(24)]
    found = slope_of(points)
    assert found.per_s == 3.0
    assert found.low <= 3.0 <= found.high


def test_blocks_are_medians_of_equal_spans():
    assert blocks([(0, 1), (1, 9), (2, 2), (10, 4)], 2) == [(1, 2), (10, 4)]


def counted(*numbers):
    counts = Counts()
    for number in numbers:
        counts.take(b"k", _NUMBER.pack(number))
    return counts.read, counts.lost, counts.doubled, counts.reached


def test_a_reader_counts_what_is_lost_and_what_comes_twice():
    assert counted(0, 1, 2) == (3, 0, 0, 3)
    assert counted(0, 3) == (2, 2, 0, 4)
    assert counted(0, 1, 1, 0, 2) == (5, 0, 2, 3)
