"""The first read of a session: Spark's Python processes start, modules are imported, the JVM compiles its code.

Each value is of a session of its own. Spark's start is not in the time: all contestants pay it alike.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from lab.benchmarks.lab import Lab, load, to_noop
from lab.benchmarks.processes import CpuByKind, watching
from lab.benchmarks.records import Records, size_name
from lab.benchmarks.results import CPU, SECONDS, Row
from lab.benchmarks.session import in_session
from lab.benchmarks.stages import Effort
from lab.benchmarks.turns import take_turns

TITLE = "the first read of a session, 4 partitions"
FORMATS = {"pykafka": "pykafka", "jvm": "kafka"}


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    records = Records(100_000)  # few, so that what comes but once counts; also in a full run
    work = f"first read, {records.rows:,} × {size_name(records.value_bytes)}"
    with lab.topic_of(records) as topic:
        lab.stop_spark()
        cpu: dict[str, dict[str, list[float]]] = {name: {} for name in FORMATS}

        def first(contestant: str) -> float:
            arguments = {"format_name": FORMATS[contestant], "servers": lab.servers, "topic": topic}
            answer = in_session("lab.benchmarks.first_read:read", arguments=arguments).value
            for kind, seconds in answer["cpu"].items():
                cpu[contestant].setdefault(kind, []).append(seconds)
            return float(answer["seconds"])

        runs = {name: partial(first, name) for name in FORMATS}
        for name, result in take_turns(runs, effort.turns, warm_up=0).items():
            yield Row(work, name, SECONDS, tuple(result.values), records.rows, failure=result.failure)
        for name, kinds in cpu.items():
            for kind, values in sorted(kinds.items()):
                yield Row(work, f"{name}, {kind}", CPU, tuple(values))


def read(spark: Any, format_name: str, servers: str, topic: str) -> dict[str, Any]:
    """In the session's process: how long its first read takes, and the processor time of each kind of process."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    with watching(os.getpid(), CpuByKind()) as cpu:
        before = cpu.now(os.getpid())
        started = time.perf_counter()
        to_noop(load(spark, format_name, options))
        seconds = time.perf_counter() - started
        after = cpu.now(os.getpid())
    used = {kind: after[kind] - before.get(kind, 0.0) for kind in after if kind != "driver"}
    return {"seconds": seconds, "cpu": used}
