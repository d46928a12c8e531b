"""Micro-batches: triggerExecution as Spark reports it, for a topic that is read in batches of a fixed size.

triggerExecution holds everything from one micro-batch to the next: asking for offsets, planning, the tasks (addBatch),
and two writes to the checkpoint (walCommit, commitOffsets) that are Spark's own and cost all contestants the same.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from tempfile import mkdtemp
from typing import Any

from lab.benchmarks.lab import Lab
from lab.benchmarks.records import Records
from lab.benchmarks.results import TRIGGER, Row
from lab.benchmarks.stages import Effort
from lab.benchmarks.turns import in_turn, reason

TITLE = "micro-batches, 4 partitions, noop sink"
WARM_UP_BATCHES = 5  # of each query: workers start, code is compiled


@dataclass(frozen=True)
class Work:
    rows_per_batch: int
    batches: int  # timed, of each query
    queries: int  # of each contestant, in turns

    @property
    def name(self) -> str:
        return f"micro-batch of {self.rows_per_batch:,} rows"

    @property
    def rows(self) -> int:
        return self.rows_per_batch * (self.batches + WARM_UP_BATCHES)


def works(effort: Effort) -> list[Work]:
    if effort.quick:
        return [Work(4_000, 25, 1), Work(200_000, 4, 1)]
    return [Work(4_000, 50, 2), Work(200_000, 8, 2)]


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    for work in works(effort):
        records = Records(work.rows)
        with lab.topic_of(records) as topic:
            kafka = {
                "kafka.bootstrap.servers": lab.servers,
                "subscribe": topic,
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(work.rows_per_batch),
            }
            ready = {"rows": str(work.rows), "bytes": "100", "rowsPerTrigger": str(work.rows_per_batch)}
            sources = {
                "pykafka": ("pykafka", kafka),
                "jvm": ("kafka", kafka),
                "ready-arrow, 4 tasks": ("ready_arrow", {**ready, "partitions": "4"}),
                "ready-arrow, 1 task": ("ready_arrow", {**ready, "partitions": "1"}),
            }
            if not effort.quick:
                sources["pykafka, 4 tasks"] = ("pykafka", {**kafka, "minRecordsPerPartition": "1"})
            yield from compare_queries(lab, work.name, sources, work.queries, rows_per_batch=work.rows_per_batch)


@dataclass
class _Times:
    trigger_ms: list[float] = field(default_factory=list)
    add_batch_ms: list[float] = field(default_factory=list)
    planning_ms: list[float] = field(default_factory=list)
    failure: str | None = None


Progress = dict[str, Any]  # of one micro-batch, as Spark reports it
Sources = Mapping[str, tuple[str, Mapping[str, str]]]  # by contestant: format and options


def compare_queries(
    lab: Lab,
    work: str,
    sources: Sources,
    queries: int,
    *,
    rows_per_batch: int,
    warm_up: int = WARM_UP_BATCHES,
    at_most: int | None = None,
    give_up_s: float | None = None,
) -> Iterator[Row]:
    """Each contestant's queries in turns with the others'; the first batches of each are left out.

    A query is stopped after `at_most` batches more or after `give_up_s`, else when all is read.
    """
    limit = None if at_most is None else warm_up + at_most

    def batches_of(source: tuple[str, Mapping[str, str]]) -> list[Progress]:
        batches = run_query(lab, *source, at_most=limit, give_up_s=give_up_s)
        if len(batches) <= warm_up:
            raise TimeoutError(f"{len(batches)} micro-batches in {give_up_s} s")
        return batches[warm_up:]

    contestants = {name: partial(batches_of, source) for name, source in sources.items()}
    yield from rows_of(work, contestants, queries, rows_per_batch)


def rows_of(
    work: str, contestants: Mapping[str, Callable[[], list[Progress]]], queries: int, rows_per_batch: int
) -> Iterator[Row]:
    """The times of the micro-batches that each contestant's queries had, in turns with the others'. One that fails is
    left out from there on."""
    times = {name: _Times() for name in contestants}
    for turn in range(queries):
        for name in in_turn(contestants, turn):
            taken = times[name]
            if taken.failure is None:
                try:
                    _take(taken, contestants[name]())
                except Exception as error:  # a peer's fault is a row of the report, not its end
                    taken.failure = reason(error)
    for name, taken in times.items():
        note = ""
        if taken.add_batch_ms:
            note = (
                f"addBatch p50 {statistics.median(taken.add_batch_ms):.0f} ms,"
                f" planning p50 {statistics.median(taken.planning_ms):.0f} ms"
            )
        yield Row(work, name, TRIGGER, tuple(taken.trigger_ms), rows_per_batch, None, note, taken.failure)


def _take(times: _Times, batches: list[Progress]) -> None:
    for batch in batches:
        took = batch["durationMs"]
        times.trigger_ms.append(took["triggerExecution"])
        times.add_batch_ms.append(took.get("addBatch", 0))
        times.planning_ms.append(sum(took.get(step, 0) for step in ("latestOffset", "getBatch", "queryPlanning")))


def run_query(
    lab: Lab,
    format_name: str,
    options: Mapping[str, str],
    at_most: int | None = None,
    give_up_s: float | None = None,
    sink: tuple[str, Mapping[str, str]] = ("noop", {}),
) -> list[Progress]:
    """The progress of each micro-batch with rows: all there are, or the first of them, or those that were in time.

    `sink`: format and options.
    """
    query = (
        lab.spark.readStream.format(format_name)
        .options(**options)
        .load()
        .writeStream.format(sink[0])
        .options(**sink[1])
        .option("checkpointLocation", mkdtemp(dir=lab.folder))
        .start()
    )
    ends = time.monotonic() + (give_up_s or 3600)
    try:
        if at_most is None:
            query.processAllAvailable()
        while at_most is not None and query.isActive and len(with_rows(query)) < at_most and time.monotonic() < ends:
            time.sleep(0.05)
        if (error := query.exception()) is not None:
            raise error
        return with_rows(query)[:at_most]
    finally:
        query.stop()


def with_rows(query: Any) -> list[dict[str, Any]]:
    return [progress for progress in query.recentProgress if progress["numInputRows"]]
