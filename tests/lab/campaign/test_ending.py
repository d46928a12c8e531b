"""A campaign that is told to end, or is killed, leaves no broker, no Spark and no reader behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from descendants import descendants

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow, pytest.mark.extended]
ROOT = Path(__file__).parents[3]
PATIENCE_S = 120


@pytest.fixture
def folder():
    """With a short name: unix sockets are made in it."""
    made = Path(tempfile.mkdtemp(prefix="ending-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def until(found):
    deadline = time.monotonic() + PATIENCE_S
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return value


def everything_runs(campaign):
    """What descends from the campaign, once brokers, Spark with a Python worker, and the follower are there."""
    assert campaign.poll() is None
    found = descendants(campaign.pid)
    parts = (b"kafka.Kafka", b"lab.campaign.spark_app", b"pyspark.daemon", b"SparkSubmit", b"lab.campaign.follow_app")
    return found if all(any(part in line for line in found.values()) for part in parts) else None


def is_running(pid, line):
    """Not a zombie, and not another process under the same number."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == line
    except OSError:
        return False


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda by: by.name)
def test_all_that_a_campaign_has_started_ends_with_it(folder, by):
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "lab.campaign", "--minutes", "10", "--seed", "1"]
    with (folder / "out").open("wb") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=out) as ours:
        started = until(lambda: everything_runs(ours))
        ours.send_signal(by)
        ours.wait(PATIENCE_S)
    assert ours.returncode != 0
    until(lambda: not [line for pid, line in started.items() if is_running(pid, line)])
