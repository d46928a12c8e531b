"""The processes of a storm: what was killed on purpose stays away until it is started, and nothing runs twice."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.campaign.queries import Names
from lab.campaign.storm import processes as module
from lab.campaign.storm.checkpoint import Checkpoint
from lab.campaign.storm.processes import QUERIES, READERS, WRITERS, StormProcesses


@pytest.fixture
def processes(tmp_path, monkeypatch):
    started = []

    def start(name, module, *arguments):
        started.append((name, subprocess.Popen(["sleep", "1000"])))
        return started[-1][1]

    found = StormProcesses("localhost:1", Names("x"), tmp_path, 1, ())
    monkeypatch.setattr(found._programs, "start", start)
    found.started = started  # type: ignore[attr-defined]
    found.start()
    yield found
    for _, process in started:
        process.kill()
        process.wait()


def running(processes):
    return sorted(name for name, process in processes.started if process.poll() is None)


ALL = sorted([*QUERIES, READERS, WRITERS, "member-0", "member-1", "member-2"])


def test_what_ends_by_itself_starts_again_once(processes):
    assert running(processes) == ALL
    killed = next(process for name, process in processes.started if name == "once")
    killed.kill()
    killed.wait()
    assert processes.keep_running()
    assert not processes.keep_running()
    assert running(processes) == ALL


def test_an_application_that_was_killed_stays_away_until_it_is_started(processes):
    processes.kill_application()
    assert not processes.keep_running()
    assert not processes.roll_back(0.0, planned=True)
    assert not set(running(processes)) & {*QUERIES}
    processes.start_application()
    assert not processes.keep_running()
    assert running(processes) == ALL


@pytest.mark.parametrize("draw", [0.0, 0.5, 0.99])
def test_one_process_stands_still_for_a_while_and_goes_on(processes, monkeypatch, draw):
    def stopped():
        states = {name: Path(f"/proc/{process.pid}/stat").read_text() for name, process in processes.started}
        return [name for name, text in states.items() if text.rpartition(")")[2].split()[0] == "T"]

    def until(count):
        deadline = time.monotonic() + 20
        while len(stopped()) != count:
            assert time.monotonic() < deadline
        return count

    slept = []
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda seconds: slept.append((seconds, until(1)))))
    assert processes.hang_a_python_process(draw, 7.0)
    assert slept == [(7.0, 1)]
    until(0)
    assert running(processes) == ALL


def test_writers_that_are_to_end_do_not_start_again(processes):
    processes.end_writers()
    assert not processes.keep_running()
    assert WRITERS not in running(processes)
    assert processes.failures == [f"{WRITERS} ended with exit code -15"]  # `sleep` does not know how to end in order


@pytest.mark.parametrize("draw", [0.0, 0.5, 0.99])
def test_the_checkpoint_of_a_query_whose_last_batch_is_done_is_rolled_back_whichever_was_drawn(
    processes, tmp_path, draw
):
    assert not processes.roll_back(draw, planned=True)
    fan = Checkpoint(tmp_path / "checkpoints" / "fan")
    fan.plan(0, {})
    fan.finish(0)
    assert processes.roll_back(draw, planned=True)
    assert (fan.planned(), fan.done()) == (0, -1)
    assert running(processes) == ALL
