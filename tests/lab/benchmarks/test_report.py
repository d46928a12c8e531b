"""The benchmarks' pure parts: statistics, turns, verdicts, tables and the chart. Nothing is measured here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from lab.benchmarks import chart, report
from lab.benchmarks.goals import Goal, judge
from lab.benchmarks.processes import CpuByKind, kind
from lab.benchmarks.results import LATENCY, SECONDS, TRIGGER, Row, Run, Stage, quantile
from lab.benchmarks.tail_and_catchup import Followed
from lab.benchmarks.turns import take_turns


def run_of(*rows: Row) -> Run:
    return Run(
        "quick", "2026-01-01 00:00 UTC", {"cores": "2"}, {"kafka": "4.3.1"}, [Stage("read", "reads", list(rows))]
    )


def read(contestant: str, *seconds: float, failure: str | None = None) -> Row:
    return Row("read 100 B none", contestant, SECONDS, seconds, 1_000_000, 107_000_000, failure=failure)


def test_a_quantile_is_one_of_the_values():
    values = [float(i) for i in range(1, 101)]
    assert [quantile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert quantile([7.0], 0.99) == 7


def test_every_contestant_takes_its_turn_and_warm_ups_are_not_counted():
    calls = []

    def contestant(name):
        def run():
            calls.append(name)
            return float(len(calls))

        return run

    results = take_turns({name: contestant(name) for name in "abc"}, turns=2, warm_up=1)
    assert calls == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert {name: result.values for name, result in results.items()} == {"a": [6, 8], "b": [4, 9], "c": [5, 7]}


def test_a_contestant_that_fails_is_left_out_and_says_why():
    def broken():
        raise ConnectionError("Traceback\nkafka.errors.NoBrokersAvailable: NoBrokersError\n\tat somewhere")

    results = take_turns({"broken": broken, "good": lambda: 1.0}, turns=3)
    assert results["good"].values == [1, 1, 1]
    assert results["broken"].values == []
    assert "NoBrokersAvailable" in results["broken"].failure


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal("faster", "read", "read 100 B none", SECONDS, at_least=3, than="jvm"), True),
        (Goal("much faster", "read", "read 100 B none", SECONDS, at_least=5, than="jvm"), False),
        (Goal("near", "read", "read 100 B none", SECONDS, at_most=1.3, than="ready-arrow"), False),
        (Goal("short", "read", "read 100 B none", SECONDS, at_most=2), True),
        (Goal("of what failed", "read", "read 100 B none", SECONDS, at_least=1, than="aiokafka"), None),
    ],
)
def test_a_goal_is_judged_by_the_minimum(goal, met):
    run = run_of(
        read("pykafka", 1.5, 1.0), read("jvm", 4.0, 9.0), read("ready-arrow", 0.5), read("aiokafka", failure="no")
    )
    assert [verdict.met for verdict in judge(run, [goal])] == [met]


@pytest.mark.parametrize(("statistic", "met"), [(None, True), ("p99", False), ("max", False)])
def test_a_goal_may_be_judged_by_another_statistic_than_the_first(statistic, met):
    run = run_of(Row("topic to topic", "pykafka", LATENCY, tuple(map(float, range(1, 201)))))
    goal = Goal("soon", "read", "topic to topic", LATENCY, at_most=150, statistic=statistic)
    assert [verdict.met for verdict in judge(run, [goal])] == [met]


def test_processor_time_of_a_process_that_has_ended_still_counts():
    cpu = CpuByKind()
    program = "import time\nwhile time.process_time() < 0.1: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        while_it_ran = cpu.now(child.pid)
        child.communicate(b"\n")
    assert while_it_ran["other"] >= 0.05  # counted in ticks of 10 ms
    assert cpu.now(child.pid)["other"] >= while_it_ran["other"]


def test_a_process_that_ends_keeps_its_kind():
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has no command line any more, but is still there
        assert kind(child.pid, before="planner") == "planner"


def test_a_row_where_a_peer_wins_or_failed_is_shown():
    text = report.markdown(run_of(read("pykafka", 2.0), read("jvm", 1.0), read("aiokafka", failure="not installed")))
    assert "| jvm | min 1 s, median 1 s, 1 M rows/s, 107 MB/s, 0.50 × ours |" in text
    assert "| aiokafka | failed: not installed |" in text


def test_tables_and_chart_are_the_same_from_the_json_of_a_run_which_keeps_no_single_values():
    run = run_of(
        read("pykafka", 2.0, 3.0, 2.5),
        read("jvm", 4.0, 5.0),
        read("aiokafka", failure="not installed"),
        read("confluent-kafka", 3.0, failure="the second time"),
        Row("micro-batch", "jvm", TRIGGER, (5.0, 7.0, 9.0), note="n", cpu_seconds=(1.0, 4.0, 2.0)),
    )
    text = run.as_json()
    again = Run.from_json(json.loads(text))
    assert (report.markdown(again), chart.draw(again)) == (report.markdown(run), chart.draw(run))
    assert again.as_json() == text
    assert len(text.splitlines()) < 30
    assert "2.5" not in text.replace('"median": 2.5', "")


def test_the_chart_is_well_formed_and_its_bars_are_in_proportion():
    drawing = ElementTree.fromstring(chart.draw(run_of(read("pykafka", 1.0), read("jvm", 4.0), read("a<b", 2.0))))
    widths = {bar.get("class"): float(bar.get("width")) for bar in drawing.iter("{http://www.w3.org/2000/svg}rect")}
    assert widths["ours"] == pytest.approx(2 * widths["bar"], rel=0.01)


def test_a_reader_has_caught_up_at_the_first_micro_batch_that_leaves_little():
    made = [[second * 1_000_000, second * 20_000] for second in range(1, 11)]  # 20,000 a second for ten seconds
    followed = Followed(
        backlog=100_000,
        started_us=0,
        made=made,
        batches=[[4_000_000, 100_000], [5_000_000, 80_000], [6_500_000, 20_000], [10_500_000, 100_000]],
    )
    assert followed.caught_up_s() == 5.0
    assert followed.rate_mb() == 180_000 * 1000 / 5_000_000
    assert min(followed.latencies_ms()) == 500  # made in the tenth second, read by half a second after it
