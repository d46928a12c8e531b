"""A Spark session in a process of its own, for another master, other settings, or to see the memory of its processes.

in_session("lab.benchmarks.cores:turns", master="local[1]", arguments={...})   in this process
python -m lab.benchmarks.session JSON                                          in the other one
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from lab.benchmarks.processes import PeakMemory, watching

TIMEOUT_S = 600


class SessionFailed(Exception):
    """The other process ended with an error; the text is the last line that it printed."""


@dataclass(frozen=True)
class Answer:
    value: Any
    peaks_mb: dict[str, list[float]]  # by kind of process (processes.kind), largest first


def in_session(
    task: str,
    *,
    master: str = "local[2]",
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, Any],
) -> Answer:
    """Call `task` (module:function) with a new session and `arguments`, which are JSON as its answer is."""
    with tempfile.TemporaryDirectory(prefix="kafkasource-bench-", ignore_cleanup_errors=True) as folder:
        answer = Path(folder, "answer.json")
        told = json.dumps([task, master, settings, dict(arguments), folder, str(answer)])
        process = subprocess.Popen(
            [sys.executable, "-m", "lab.benchmarks.session", told],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=dict(os.environ, TMPDIR=folder, **(environment or {})),  # checkpoints and the like go with it
        )
        with watching(process.pid, PeakMemory()) as memory:
            try:
                said, _ = process.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired as late:
                raise SessionFailed(f"no end after {TIMEOUT_S} s") from late
            finally:
                if process.poll() is None:
                    process.kill()  # its JVM goes with it
                    process.wait()
        if process.returncode != 0 or not answer.exists():
            raise SessionFailed((said.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
        return Answer(json.loads(answer.read_text()), memory.by_kind())


def main() -> None:
    from lab.benchmarks.lab import prepare_environment, start_spark

    task, master, settings, arguments, folder, answer = json.loads(sys.argv[1])
    prepare_environment()
    module, _, function = task.partition(":")
    spark = start_spark(Path(folder), master, settings)
    try:
        value = getattr(import_module(module), function)(spark, **arguments)
    finally:
        spark.stop()
    Path(answer).write_text(json.dumps(value))


if __name__ == "__main__":
    main()
