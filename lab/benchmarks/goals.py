"""The goals of the design as a table, and whether a run met them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.benchmarks.results import (
    ADDED,
    CPU_PER_MILLION,
    DIFFERENCES,
    LATENCY,
    NANOSECONDS,
    OURS,
    PEAK,
    SECONDS,
    TRIGGER,
    WITH_DAEMON,
    Measure,
    Row,
    Run,
)


@dataclass(frozen=True)
class Goal:
    """`ours` of `work`, alone or as a ratio to the contestant `than`, is to be at most or at least a bound."""

    name: str
    stage: str
    work: str
    measure: Measure
    at_least: float | None = None  # times faster than `than`
    at_most: float | None = None  # of our own figure; with `than`, of our figure divided by theirs
    than: str | None = None
    ours: str = OURS
    statistic: str | None = None  # None: the first of the measure


@dataclass(frozen=True)
class Verdict:
    goal: Goal
    figure: float | None  # None: not measured in this run
    text: str

    @property
    def met(self) -> bool | None:
        if self.figure is None:
            return None
        goal = self.goal
        return (goal.at_least is None or self.figure >= goal.at_least) and (
            goal.at_most is None or self.figure <= goal.at_most
        )


WIRE = "wire ceiling"
SMALL, LARGE, FIRST = "write 100,000 × 100 B", "write 2,000 × 100 kB", "first read, 100,000 × 100 B"
FIRST_BATCH = "first micro-batch, 100,000 × 100 B"
MEMORY_WORKS = (
    "read 300 MB partition",
    "read 1.5 GB partition",
    "read 1 MiB records",
    "read 300 MB partition, max.partition.fetch.bytes=65536",
)

GOALS: tuple[Goal, ...] = (
    Goal("batch read 100 B, against the JVM connector", "read", "read 100 B none", SECONDS, at_least=3, than="jvm"),
    Goal("batch read 100 B, against the ceiling", "read", "read 100 B none", SECONDS, at_most=1.3, than="ready-arrow"),
    Goal("batch read 1 kB, against the JVM connector", "read", "read 1 kB none", SECONDS, at_least=2.5, than="jvm"),
    Goal("write, both with defaults", "write", "write 100 B none", SECONDS, at_least=2, than="jvm"),
    Goal("write, against the JVM one tuned", "write", "write 100 B none", SECONDS, at_least=1.2, than="jvm tuned"),
    *(
        Goal(f"{work}, against the wire ceiling", work[:5].strip(), f"{work} none", SECONDS, at_most=1.15, than=WIRE)
        for work in ("read 100 B", "read 1 kB", "read 10 kB", "write 100 B", "write 1 kB", "write 10 kB")
    ),
    Goal("write of 100,000 × 100 B, against the JVM one tuned", "small", SMALL, SECONDS, at_least=1, than="jvm tuned"),
    Goal("write of 100,000 × 100 B, both with defaults", "small", SMALL, SECONDS, at_least=1, than="jvm"),
    Goal("write of records of 100 kB, both with defaults", "small", LARGE, SECONDS, at_least=1, than="jvm"),
    Goal("first read of a session", "first", FIRST, SECONDS, at_most=0.8, than="jvm"),
    *(
        Goal(f"first micro-batch of a session{how}", "first", FIRST_BATCH, SECONDS, at_most=1.0, than="jvm", ours=ours)
        for how, ours in (("", OURS), (", with our daemon", WITH_DAEMON))
    ),
    *(
        Goal(
            f"{work} 100 B, processor time of Spark's processes beyond Spark alone",
            "cpu",
            f"{work} 100 B none",
            CPU_PER_MILLION,
            at_most=0.5,
            than="jvm, beyond Spark alone",
            ours="pykafka, beyond Spark alone",
        )
        for work in ("read", "write")
    ),
    Goal("batch read 100 B over TLS 1.3", "tls", "read 100 B none, TLS 1.3", SECONDS, at_least=2, than="jvm"),
    Goal("batch read 1 kB over TLS 1.3", "tls", "read 1 kB none, TLS 1.3", SECONDS, at_least=2, than="jvm"),
    Goal("write over TLS 1.3", "tls", "write 100 B none, TLS 1.3", SECONDS, at_least=1.5, than="jvm"),
    Goal("micro-batch of 4,000 rows, p50", "streaming", "micro-batch of 4,000 rows", TRIGGER, at_most=1, than="jvm"),
    Goal("topic to topic, p99", "latency", "topic to topic", LATENCY, at_most=150, statistic="p99"),
    Goal("what exactly once adds to a micro-batch, p50", "once", "exactly once", ADDED, at_most=30),
    Goal("decode 100 B with CRC", "kernel", "decode 100 B", NANOSECONDS, at_most=40),
    Goal("encode 100 B", "kernel", "encode 100 B", NANOSECONDS, at_most=30),
    Goal("decode with 2 headers", "kernel", "decode 100 B, 2 headers", NANOSECONDS, at_most=60),
    Goal("decode batches of one record", "kernel", "decode batches of 1 record", NANOSECONDS, at_most=2000),
    Goal("partition by key (murmur2)", "kernel", "murmur2 of a key", NANOSECONDS, at_most=10),
    Goal("decode Avro of 5 fields", "typed", "Avro, 5 fields", NANOSECONDS, at_most=60),
    Goal("encode Avro of 5 fields", "typed", "Avro, 5 fields, written", NANOSECONDS, at_most=80),
    Goal("encode Protobuf of 5 fields", "typed", "Protobuf, 5 fields, written", NANOSECONDS, at_most=80),
    Goal("decode Protobuf of 5 fields", "typed", "Protobuf, 5 fields", NANOSECONDS, at_most=60),
    Goal("typed Avro, against from_avro", "typed-spark", "Avro, 5 fields", SECONDS, at_least=1, than="jvm from_avro"),
    Goal(
        "typed Protobuf, against from_protobuf",
        "typed-spark",
        "Protobuf, 5 fields",
        SECONDS,
        at_least=1,
        than="jvm from_protobuf",
    ),
    Goal("decode Avro of two writers", "typed", "Avro, 5 fields, two writers in turns", NANOSECONDS, at_most=80),
    *(
        Goal(f"worker's peak memory, {work}", "memory", work, PEAK, at_most=200, ours="pykafka worker")
        for work in MEMORY_WORKS
    ),
    Goal("2 million records, every codec, row by row", "correctness", "all codecs", DIFFERENCES, at_most=0),
)  # fmt: skip


def judge(run: Run, goals: Sequence[Goal] = GOALS) -> list[Verdict]:
    """A verdict for each goal whose stage was run."""
    return [_judge(run, goal) for goal in goals if run.stage(goal.stage) is not None]


def _judge(run: Run, goal: Goal) -> Verdict:
    stage = run.stage(goal.stage)
    ours = stage.find(goal.work, goal.ours, goal.measure) if stage else None
    theirs = stage.find(goal.work, goal.than, goal.measure) if stage and goal.than else None
    mine, other = (_figure(row, goal) for row in (ours, theirs))
    if mine is None or (goal.than is not None and not other):
        return Verdict(goal, None, "not measured")
    if goal.than is None:
        return Verdict(goal, mine, f"{mine:,.4g} {goal.measure.unit}, goal ≤ {goal.at_most:g} {goal.measure.unit}")
    assert other is not None
    if goal.at_least is not None:
        ratio = other / mine
        return Verdict(goal, ratio, f"{ratio:.2f} × faster, goal ≥ {goal.at_least:g} ×")
    ratio = mine / other
    return Verdict(goal, ratio, f"{ratio:.2f} × its {goal.measure.title}, goal ≤ {goal.at_most:g} ×")


def _figure(row: Row | None, goal: Goal) -> float | None:
    if row is None:
        return None
    return row.headline if goal.statistic is None else row.statistic(goal.statistic)
