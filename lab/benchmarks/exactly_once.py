"""What exactly once adds to a micro-batch: a query from topic to topic, at least once and exactly once, in turns.

At exactly once the driver asks for what an earlier run left, opens its transaction and decides the batch, and each task
writes in a transaction of its own: some ten round trips one after the other, and most of them end in a broker's log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from lab.benchmarks.lab import Lab
from lab.benchmarks.records import Records
from lab.benchmarks.results import ADDED, OURS, Row, quantile
from lab.benchmarks.stages import Effort
from lab.benchmarks.streaming import WARM_UP_BATCHES, Progress, Work, rows_of, run_query

TITLE = "micro-batches from topic to topic, at least once and exactly once, 4 partitions"
ONCE = "pykafka, exactly once"
SINKS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    OURS: ("pykafka", {}),
    ONCE: ("pykafka", {"deliveryGuarantee": "exactly_once"}),
    "jvm": ("kafka", {}),
}


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    work = Work(4_000, 30, 2 if effort.quick else 4)
    with lab.topic_of(Records(work.rows)) as topic:
        contestants = {name: partial(_batches, lab, topic, *sink, work) for name, sink in SINKS.items()}
        rows = list(rows_of(work.name, contestants, work.queries, work.rows_per_batch))
    yield from rows
    times = {row.contestant: row.values for row in rows}
    if times[OURS] and times[ONCE]:
        added = quantile(times[ONCE], 0.5) - quantile(times[OURS], 0.5)
        yield Row("exactly once", OURS, ADDED, (added,), note="p50 with exactly once, less p50 without it")


def _batches(lab: Lab, source: str, format_name: str, options: Mapping[str, str], work: Work) -> list[Progress]:
    """Of one query, into a topic of its own; the first batches are left out."""
    target = lab.new_topic(4)
    kafka = {"kafka.bootstrap.servers": lab.servers}
    reading = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(work.rows_per_batch)}
    try:
        sink = (format_name, {**kafka, "topic": target, **options})
        return run_query(lab, format_name, {**kafka, **reading}, sink=sink)[WARM_UP_BATCHES:]
    finally:
        lab.drop(target)
