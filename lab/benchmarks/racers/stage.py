"""Others that read Kafka into Arrow, or move records between topics. Those move values alone: Flink's `raw` format has
one column.

A latency ends when a consumer of committed records has the record, for every contestant. So exactly once includes the
wait for the commit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from tempfile import mkdtemp
from typing import Any

from kafkasource.reader import Reader
from lab.benchmarks import clients
from lab.benchmarks.exactly_once import ONCE, SINKS
from lab.benchmarks.lab import Lab
from lab.benchmarks.processes import cpu_seconds
from lab.benchmarks.racers.flink import FLINK, flink
from lab.benchmarks.racers.packages import environment
from lab.benchmarks.racers.readers import PARTITIONS, READERS
from lab.benchmarks.records import Records
from lab.benchmarks.results import LATENCY, OURS, SECONDS, Measure, Row
from lab.benchmarks.stages import Effort, compare
from lab.benchmarks.turns import reason

TITLE = "racers: into Arrow, and from topic to topic, 4 partitions"
CPU_PER_ROW = Measure("processor time of the process", "µs a row")
RATES = (1_000, 10_000)  # records a second
WARM_UP_S, PATIENCE_S = 3.0, 90.0
EXACTLY_ONCE = "exactly once"
# Contestants by guarantee: Spark's format and options, or the interval of Flink's checkpoints.
MOVERS: dict[str, dict[str, Any]] = {
    "at least once": {OURS: SINKS[OURS], "jvm": SINKS["jvm"], FLINK: "1 s"},
    EXACTLY_ONCE: {OURS: SINKS[ONCE], f"{FLINK}, checkpoints 1 s": "1 s", f"{FLINK}, checkpoints 100 ms": "100 ms"},
}


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    works = (Records(effort.rows(1_000_000)), Records(effort.rows(100_000), value_bytes=1000))
    with ExitStack() as stack:
        topics = [stack.enter_context(lab.topic_of(records)) for records in works]
        lab.stop_spark()
        for records, topic in zip(works, topics, strict=True):
            yield from into_arrow(lab, effort, records, topic)
    with ExitStack() as stack:
        start_flink = cache(lambda: stack.enter_context(flink(lab.folder)))  # where it fails, that is a row
        yield from throughput(partial(moving, lab, start_flink), lab, effort)
        yield from latencies(partial(moving, lab, start_flink), lab, 2.0 if effort.quick else 8.0)


def into_arrow(lab: Lab, effort: Effort, records: Records, topic: str) -> Iterator[Row]:
    cpu_us: dict[str, list[float]] = {name: [] for name in READERS}

    def read(reader: str) -> float:
        command = [sys.executable, "-m", "lab.benchmarks.racers.readers", reader, lab.servers, topic, str(records.rows)]
        pipe, told = subprocess.PIPE, environment(reader)
        answer = clients.finish(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=told))
        cpu_us[reader].append(answer["cpu_us"])
        return float(answer["seconds"])

    work, runs = f"{records.rows:,} × {records.name} into Arrow", {name: partial(read, name) for name in READERS}
    yield from compare(work, runs, effort.turns, records=records, warm_up=0, cpu=False)
    yield Row(work, "arrow-kafka-pyo3 0.2.0", SECONDS, failure="it only writes: Arrow to Kafka, as Avro")
    yield from (Row(work, name, CPU_PER_ROW, tuple(values)) for name, values in cpu_us.items() if values)


@contextmanager
def moving(lab: Lab, start_flink: Callable[[], Any], source: str, target: str, how: Any, once: bool) -> Iterator[None]:
    """Runs a query or a job for the block. It moves the records that exist and those that come."""
    if isinstance(how, str):
        start_flink()({"servers": lab.servers, "source": source, "target": target, "once": once, "interval": how})
        try:
            yield
        finally:
            start_flink()(None)
        return
    format_name, options = how
    rows = lab.spark.readStream.format(format_name).options(**lab.reach, subscribe=source, startingOffsets="earliest")
    writer = rows.load().select("value").writeStream.format(format_name).options(**lab.reach, topic=target, **options)
    query = writer.option("checkpointLocation", mkdtemp(dir=lab.folder)).start()
    try:
        yield
    finally:
        query.stop()


def throughput(move: Callable[..., Any], lab: Lab, effort: Effort) -> Iterator[Row]:
    """Seconds from the first record in the target to the last that a consumer of committed records may read."""
    records = Records(effort.rows(2_000_000))

    def wait_for(count: int, target: str, isolation: str) -> float:
        options = {**lab.reach, "subscribe": target, "startingOffsets": "earliest", "kafka.isolation.level": isolation}
        ends = time.monotonic() + PATIENCE_S
        with Reader(options) as reader:
            while sum(one.size for one in reader.plan()) < count:
                if time.monotonic() > ends:
                    raise TimeoutError(f"the target has no {count:,} records after {PATIENCE_S:.0f} s")
                time.sleep(0.02)
        return time.perf_counter()

    def moved(source: str, how: Any, once: bool, cpu: list[float]) -> float:
        target = lab.new_topic(PARTITIONS)
        with move(source, target, how, once):
            began, before = wait_for(1, target, "read_uncommitted"), cpu_seconds(os.getpid())
            seconds = wait_for(records.rows, target, "read_committed") - began
            cpu.append(cpu_seconds(os.getpid()) - before)
        lab.drop(target)
        return seconds

    with lab.topic_of(records) as source:
        for guarantee, movers in MOVERS.items():
            cpu: dict[str, list[float]] = {name: [] for name in movers}
            once = guarantee == EXACTLY_ONCE
            runs = {name: partial(moved, source, how, once, cpu[name]) for name, how in movers.items()}
            work = f"{records.rows:,} × {records.name} from topic to topic, {guarantee}"
            for row in compare(work, runs, min(effort.turns, 3), records=records, warm_up=1, cpu=False):
                yield replace(row, cpu_seconds=tuple(cpu[row.contestant][1:]))


def latencies(move: Callable[..., Any], lab: Lab, seconds: float) -> Iterator[Row]:
    """The first round is short and not counted: JVMs warm up in it."""

    def measured(rate: int, seconds: float, how: Any, once: bool) -> tuple[float, ...]:
        topics = {"source": lab.new_topic(PARTITIONS), "target": lab.new_topic(PARTITIONS)}
        told = {**topics, "partitions": PARTITIONS, "rate": rate, "seconds": seconds, "warm_up_s": WARM_UP_S}
        with move(**topics, how=how, once=once):
            answer = clients.run("round-trips", "confluent-kafka", servers=lab.servers, **told)
        return tuple(map(float, answer["ms"]))

    for rate in (0, *RATES):
        for guarantee, movers in MOVERS.items():
            for name, how in movers.items():
                values: tuple[float, ...] = ()
                failure, before = None, cpu_seconds(os.getpid())
                try:
                    values = measured(rate or RATES[0], seconds if rate else 1.0, how, guarantee == EXACTLY_ONCE)
                except Exception as error:  # a peer's fault is a row of the report, not its end
                    failure = reason(error)
                cpu = (cpu_seconds(os.getpid()) - before,)
                if rate:
                    work = f"{rate:,} a second from topic to topic, {guarantee}"
                    yield Row(work, name, LATENCY, values, failure=failure, cpu_seconds=cpu)
