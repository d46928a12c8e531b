"""Writes a process's gauges at the end of each of its tasks, as lines of JSON in a folder: `KAFKASOURCE_MEMORY_LOG`.

Python workers start and end, and no other process can ask them. One file for each worker (`<pid>.jsonl`) outlives it.
The peaks of parts belong to one task: each line starts from zero. `native_peak_bytes` and `resident_peak_bytes` belong
to the whole life of the process until then. On a cluster set `spark.executorEnv.KAFKASOURCE_MEMORY_LOG`; the folder is
on the executor's host.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from kafkasource.kafka.memory.budget import Budget
from kafkasource.kafka.memory.gauges import gauges_of

LOG_FOLDER = "KAFKASOURCE_MEMORY_LOG"
"""Environment variable: the folder."""

log = logging.getLogger("kafkasource.memory")


def reporter(budget: Budget, folder: str) -> Callable[[], None]:
    """A function that writes a line. If that fails it warns once; no task fails because of it."""
    failed = False
    budget.peaks_of_tasks = True

    def task_ended() -> None:
        nonlocal failed
        line = json.dumps({"time": time.time(), "pid": os.getpid(), **gauges_of(budget)})
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with Path(folder, f"{os.getpid()}.jsonl").open("a") as file:
                file.write(line + "\n")
        except OSError as error:
            if not failed:
                failed = True
                log.warning("cannot write the gauges of memory: %s", error)
        budget.reset_peaks()

    return task_ended


def lines(folder: str | Path) -> list[dict[str, float]]:
    """All lines that processes have written to the folder, ordered by time."""
    found = [json.loads(line) for file in Path(folder).glob("*.jsonl") for line in file.read_text().splitlines()]
    return sorted(found, key=lambda one: one["time"])
