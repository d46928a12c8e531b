"""The Python worker processes of a test's Spark session, and how a test kills them."""

import contextlib
import os
import signal
import subprocess
import time

import pytest


def kill_idle_workers(spark) -> list[int]:
    """kill -9 to the session's Python workers while they wait for a task; the pids of those killed.

    It returns when their daemon has reaped all of them: before that, Spark takes a dead worker for an idle one, and
    fails the job that it gives to it.
    """
    pids = _idle_workers(spark)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        _wait_until_reaped(pid)
    return pids


def _idle_workers(spark) -> list[int]:
    """Processes in which this session's executor ran Python tasks, and will run the next: children of its daemon."""
    listed = subprocess.run(["ps", "-axo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    found = [line.split(None, 2) for line in listed.splitlines() if "pyspark.daemon" in line]
    jvm = str(spark.sparkContext._gateway.proc.pid)
    daemons = {pid for pid, parent, _ in found if parent == jvm}
    return [int(pid) for pid, parent, _ in found if parent in daemons]


def _wait_until_reaped(pid: int) -> None:
    deadline = time.monotonic() + 60
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.01)
        pytest.fail(f"process {pid} was killed and is still there")
