"""The first read of a session, and the first micro-batch of a query from topic to topic, which every restart pays.

Spark's Python processes start, modules are imported, the JVM compiles its code. Each value is of a session of its own.
Spark's start is not in the time: all contestants pay it alike.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from tempfile import mkdtemp
from typing import Any

from lab.benchmarks.lab import Lab, load, spark_conf, to_noop
from lab.benchmarks.processes import CpuByKind, watching
from lab.benchmarks.records import Records, size_name
from lab.benchmarks.results import CPU, OURS, SECONDS, WITH_DAEMON, Row
from lab.benchmarks.session import in_session
from lab.benchmarks.stages import Effort
from lab.benchmarks.turns import take_turns

TITLE = "the first read and the first micro-batch of a session, 4 partitions"
DAEMON = {"spark.python.daemon.module": "kafkasource.spark.daemon"}
FORMATS = {OURS: "pykafka", WITH_DAEMON: "pykafka", "jvm": "kafka"}
WORKS = {"read": "first read", "micro_batch": "first micro-batch"}  # by the function that does it


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    records = Records(100_000)  # few, so that what comes but once counts; also in a full run
    with lab.topic_of(records) as topic:
        lab.stop_spark()
        for task, name in WORKS.items():
            work = f"{name}, {records.rows:,} × {size_name(records.value_bytes)}"
            yield from _in_turns(lab, effort, f"lab.benchmarks.first_read:{task}", work, topic, records.rows)


def _in_turns(lab: Lab, effort: Effort, task: str, work: str, topic: str, rows: int) -> Iterator[Row]:
    cpu: dict[str, dict[str, list[float]]] = {name: {} for name in FORMATS}

    def first(contestant: str) -> float:
        target = lab.new_topic()
        try:
            arguments = {"format_name": FORMATS[contestant], "servers": lab.servers, "topic": topic, "target": target}
            settings = {**spark_conf(), **(DAEMON if contestant == WITH_DAEMON else {})}
            answer = in_session(task, settings=settings, arguments=arguments).value
        finally:
            lab.drop(target)
        for kind, seconds in answer["cpu"].items():
            cpu[contestant].setdefault(kind, []).append(seconds)
        return float(answer["seconds"])

    runs = {name: partial(first, name) for name in FORMATS}
    for name, result in take_turns(runs, effort.turns, warm_up=0).items():
        yield Row(work, name, SECONDS, tuple(result.values), rows, failure=result.failure)
    for name, kinds in cpu.items():
        for kind, values in sorted(kinds.items()):
            yield Row(work, f"{name}, {kind}", CPU, tuple(values))


def read(spark: Any, format_name: str, servers: str, topic: str, target: str) -> dict[str, Any]:
    """In the session's process: how long its first read takes, and the processor time of each kind of process."""
    return _measured(lambda: to_noop(load(spark, format_name, _source(servers, topic))))


def micro_batch(spark: Any, format_name: str, servers: str, topic: str, target: str) -> dict[str, Any]:
    """In the session's process: as `read`, from `load()` of a query to the commit of its first micro-batch."""

    def one_batch() -> None:
        query = (
            spark.readStream.format(format_name)
            .options(**_source(servers, topic))
            .load()
            .select("value")
            .writeStream.format(format_name)
            .options(**{"kafka.bootstrap.servers": servers}, topic=target, checkpointLocation=mkdtemp())
            .start()
        )
        try:
            while not query.recentProgress:
                if query.awaitTermination(0.01):
                    raise RuntimeError("the query ended before its first micro-batch")
        finally:
            query.stop()

    return _measured(one_batch)


def _source(servers: str, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}


def _measured(work: Callable[[], None]) -> dict[str, Any]:
    with watching(os.getpid(), CpuByKind()) as cpu:
        before = cpu.now(os.getpid())
        started = time.perf_counter()
        work()
        seconds = time.perf_counter() - started
        after = cpu.now(os.getpid())
    used = {kind: after[kind] - before.get(kind, 0.0) for kind in after if kind != "driver"}
    return {"seconds": seconds, "cpu": used}
