"""Processor time by process, for a million rows, and how much of it is beyond what Spark alone spends on such rows.

Spark alone, reading: the same columns, constants where they can be, to the noop sink. Writing: making the rows, to the
noop sink. Each contestant is charged with what Spark's processes use beyond that; the broker's is a row of its own.
Ready-made Arrow and the wire ceiling show how much of it any Python data source takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lab.benchmarks import read, write
from lab.benchmarks.lab import Lab, to_noop
from lab.benchmarks.processes import OTHER, CpuByKind, watching
from lab.benchmarks.records import Records
from lab.benchmarks.results import CPU_PER_MILLION, Row
from lab.benchmarks.stages import Effort
from lab.benchmarks.turns import take_turns
from lab.benchmarks.write import Topics

TITLE = "processor time by process, 100 B, 4 partitions"
COMPARED = ("pykafka", "jvm", "ready-arrow")
ALONE = "Spark alone"
BROKER = "broker JVM"
WARM_UP = 3
OTHERS = ("driver", OTHER)  # this process, which measures, and shells

ByKind = dict[str, float]
Contestants = Mapping[str, Callable[[], object]]


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    records = Records(effort.rows(2_000_000))
    with lab.topic_of(records) as topic:
        reads = read.readers(lab, topic, records)
        named: Contestants = {
            **{name: reads[name] for name in COMPARED},
            "wire ceiling": read.wire_ceiling(lab, topic, records),
            ALONE: lambda: to_noop(without_source(lab.spark, records)),
        }
        yield from _compare("read", records, named, effort)
    records = Records(effort.rows(1_000_000))
    topics = Topics(lab, records.partitions)
    writes = write.writers(lab, records, topics.new)
    named = {
        **{name: writes[name] for name in COMPARED},
        "wire ceiling": write.wire_ceiling(lab, records, topics.new),
        ALONE: writes["rows alone"],
    }
    yield from _compare("write", records, named, effort)
    topics.drop()


def without_source(spark: Any, records: Records) -> Any:
    """Rows as a topic gives them, out of nowhere."""
    return spark.range(0, records.rows, 1, records.partitions).selectExpr(
        "CAST('0000000' AS BINARY) AS key",
        f"CAST(repeat('x', {records.value_bytes}) AS BINARY) AS value",
        "'bench' AS topic",
        "0 AS partition",
        "id AS offset",
        "timestamp_millis(id) AS timestamp",
        "0 AS timestampType",
    )


def _compare(work: str, records: Records, contestants: Contestants, effort: Effort) -> Iterator[Row]:
    title = f"{work} {records.name}"
    used: dict[str, list[ByKind]] = {name: [] for name in contestants}
    with watching(os.getpid(), CpuByKind()) as cpu:
        runs = {name: _counted(work, cpu, used[name], records.rows / 1e6) for name, work in contestants.items()}
        failures = {name: turns.failure for name, turns in take_turns(runs, effort.turns, warm_up=WARM_UP).items()}
    for name, failure in failures.items():
        timed = used[name][WARM_UP:]
        for kind in sorted({kind for each in timed for kind in each}):
            yield Row(title, f"{name}, {kind}", CPU_PER_MILLION, tuple(each.get(kind, 0.0) for each in timed))
        if failure is not None:
            yield Row(title, name, CPU_PER_MILLION, failure=failure)
    alone = min((_of_spark(each) for each in used[ALONE][WARM_UP:]), default=0.0)
    for name in contestants:
        if name != ALONE and failures[name] is None:
            beyond = tuple(_of_spark(each) - alone for each in used[name][WARM_UP:])
            yield Row(title, f"{name}, beyond Spark alone", CPU_PER_MILLION, beyond, note="Spark's processes together")


def _counted(work: Callable[[], object], cpu: CpuByKind, used: list[ByKind], millions: float) -> Callable[[], float]:
    def run() -> float:
        before = cpu.now(os.getpid())
        work()
        after = cpu.now(os.getpid())
        used.append({kind: (after[kind] - before.get(kind, 0.0)) / millions for kind in after if kind not in OTHERS})
        return _of_spark(used[-1])

    return run


def _of_spark(by_kind: ByKind) -> float:
    return sum(seconds for kind, seconds in by_kind.items() if kind != BROKER)
