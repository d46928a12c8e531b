"""The pure parts of the comparison with MirrorMaker 2: figures, verdicts, what both are told. Nothing is measured."""

import json

import pytest

from kafkasource.mirror import job, toml_file
from lab.benchmarks.mirror import command, maker
from lab.benchmarks.mirror.contest import Figures
from lab.benchmarks.mirror.lab import KEYS, VALUE_BYTES, batch_of, number_of
from lab.benchmarks.mirror.proof import Found, Proof
from lab.benchmarks.mirror.table import MirrorRun, kept, markdown, middle, verdicts

SERVERS = {"source": "s:1", "east": "e:2", "west": "w:3"}


def figures(contestant="pykafka", targets=2, arrived=1000, cpu=1.0, read=100, failure=None):
    return Figures(
        contestant, targets, 1000, arrived=arrived, seconds=2.0, cpu_seconds=cpu, read_bytes=read, log_bytes=100,
        failure=failure,
    )  # fmt: skip


def test_rates_are_of_what_arrived_in_the_timed_window():
    one = figures(arrived=3000, cpu=1.5, read=300)
    assert (one.per_second, one.per_cpu_second, one.times_read) == (1500, 2000, 3)


def test_of_several_turns_the_middle_one_is_shown_and_a_failed_one_before_all():
    turns = [figures(cpu=cpu) for cpu in (4.0, 1.0, 2.0)]
    assert [one.cpu_seconds for one in middle(turns)] == [2.0]
    assert middle([*turns, figures(failure="gone")])[0].failure == "gone"


def test_a_table_goes_from_one_target_to_three_whatever_was_measured_first():
    measured = [figures(name, targets=many) for many in (3, 1, 2) for name in ("b", "a")]
    assert [(one.targets, one.contestant) for one in middle(measured)] == [
        (many, name) for many in (1, 2, 3) for name in ("b", "a")
    ]


@pytest.mark.parametrize(("ours_cpu", "read", "met"), [(1.0, 100, [True, True]), (3.0, 300, [False, False])])
def test_ahead_and_read_once_or_the_verdict_says_missed(ours_cpu, read, met):
    measured = [figures(cpu=ours_cpu, read=read), figures("MirrorMaker 2", cpu=2.0, read=200)]
    assert [each for _, each in verdicts(measured)] == met


def test_one_target_promises_nothing():
    assert list(verdicts([figures(targets=1, cpu=9.0), figures("MirrorMaker 2", targets=1)])) == []


def test_no_figures_of_ours_is_a_promise_missed():
    assert [met for _, met in verdicts([figures("MirrorMaker 2"), figures(failure="gone")])] == [False]


def test_a_run_as_text_and_json_names_failures_and_every_target():
    found = {name: Found(10, 2, 0, 0, 8, 2) for name in ("east", "west")}
    proof = Proof("killed half way, discard", 10, 1.5, None, 200, 200, found)
    run = MirrorRun("today", {"cores": "2"}, {"kafka": "4.3.1"}, [proof], [figures(), figures("x", failure="a|b")])
    text = markdown(run)
    assert "failed: a\\|b" in text
    assert "| killed half way, discard | 1.5 | 0 MB (1.00 ×) | east | 10 | 2 | 0 | 0 | 2 |" in text
    assert "| west | 10 | 2 |" in text
    assert json.loads(json.dumps(run.as_json()))["figures"][0]["per_cpu_second"] == 1000


@pytest.mark.parametrize(
    ("south", "met"),
    [
        (Found(10, 0, 0, 0, 10, 0), [True, True, True]),
        (Found(8, 2, 0, 0, 8, 2), [True, True, True]),
        (Found(9, 1, 0, 0, 8, 2), [True, True, True]),  # discarded on the wire, and stored all the same
        (Found(9, 1, 0, 0, 10, 0), [True, True, False]),
        (Found(11, 0, 1, 0, 10, 0), [True, False, True]),
        (Found(10, 0, 0, 1, 10, 0), [True, False, True]),
    ],
)
def test_a_row_that_nobody_reported_as_discarded_or_that_came_twice_is_a_promise_missed(south, met):
    found = {"east": Found(10, 0, 0, 0, 10, 0), "south": south}
    assert [each for _, each in kept([Proof("some case", 10, 1.0, None, 200, 200, found)])] == met


def test_the_mirrors_file_is_one_that_the_mirror_takes(tmp_path):
    plan = toml_file.parse(command.toml(tmp_path, SERVERS, ["east", "west"], "t"), "mirror.toml")
    assert not plan.warnings
    (route,) = job.check(plan)  # read once
    assert sorted(json.loads(route.write["clusters"])) == ["east", "west"]


def test_mirror_maker_is_told_of_every_target_and_tuned_only_where_asked():
    plain = maker.properties(SERVERS, ["east", "west"], "t", tuned=False)
    assert plain["source->west.topics"] == "t"
    assert not any("producer" in key or "tasks.max" in key for key in plain)
    tuned = maker.properties(SERVERS, ["east", "west"], "t", tuned=True)
    assert {tuned[f"source->{name}.tasks.max"] for name in ("east", "west")} == {"8"}


def test_a_value_tells_its_number_and_has_its_size():
    batch = batch_of(range(KEYS + 5, KEYS + 7)).to_pylist()
    assert [number_of(row["value"]) for row in batch] == [KEYS + 5, KEYS + 6]
    assert {len(row["value"]) for row in batch} == {VALUE_BYTES}
    assert batch[0]["key"] == b"0000005"
