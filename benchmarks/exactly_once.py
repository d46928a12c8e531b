"""What exactly once adds to a micro-batch: a query from topic to topic, at least once and exactly once, in turns.

At exactly once the driver asks for what an earlier run left, opens its transaction and decides the batch, and each task
writes in a transaction of its own: some ten round trips one after the other, and most of them end in a broker's log.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

from benchmarks.lab import Lab
from benchmarks.records import Records
from benchmarks.results import ADDED, OURS, TRIGGER, Row, quantile
from benchmarks.stages import Effort
from benchmarks.streaming import WARM_UP_BATCHES, Work, run_query
from benchmarks.turns import reason

TITLE = "micro-batches from topic to topic, at least once and exactly once, 4 partitions"
ONCE = "pykafka, exactly once"
SINKS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    OURS: ("pykafka", {}),
    ONCE: ("pykafka", {"deliveryGuarantee": "exactly_once"}),
    "jvm": ("kafka", {}),
}


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    work = Work(4_000, 30, 2 if effort.quick else 4)
    trigger_ms: dict[str, list[float]] = {name: [] for name in SINKS}
    add_batch_ms: dict[str, list[float]] = {name: [] for name in SINKS}
    failures: dict[str, str] = {}
    with lab.topic_of(Records(work.rows)) as topic:
        names = list(SINKS)
        for turn in range(work.queries):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                try:
                    for took in _durations(lab, topic, name, work):
                        trigger_ms[name].append(took["triggerExecution"])
                        add_batch_ms[name].append(took["addBatch"])
                except Exception as error:  # a peer's fault is a row of the report, not its end
                    failures[name] = reason(error)
    for name, values in trigger_ms.items():
        note = f"addBatch p50 {statistics.median(add_batch_ms[name]):.0f} ms" if values else ""
        yield Row(work.name, name, TRIGGER, tuple(values), work.rows_per_batch, None, note, failures.get(name))
    if trigger_ms[OURS] and trigger_ms[ONCE]:
        added = quantile(trigger_ms[ONCE], 0.5) - quantile(trigger_ms[OURS], 0.5)
        yield Row("exactly once", OURS, ADDED, (added,), note="p50 of the one less p50 of the other")


def _durations(lab: Lab, source: str, name: str, work: Work) -> list[dict[str, float]]:
    """Of one query's batches behind the first ones, in ms."""
    target = lab.new_topic(4)
    kafka = {"kafka.bootstrap.servers": lab.servers}
    reading = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(work.rows_per_batch)}
    format_name, options = SINKS[name]
    try:
        sink = (format_name, {**kafka, "topic": target, **options})
        progress = run_query(lab, format_name, {**kafka, **reading}, sink=sink)
        return [batch["durationMs"] for batch in progress[WARM_UP_BATCHES:]]
    finally:
        lab.drop(target)
