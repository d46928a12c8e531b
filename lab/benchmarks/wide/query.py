"""The same stream as a Spark query: what Spark reports of its micro-batches, and what its processes and files take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.benchmarks.lab import spark_conf, start_with_ours
from lab.benchmarks.processes import kind, peak_bytes, tree
from lab.benchmarks.streaming import with_rows
from lab.benchmarks.wide.planning import Figures
from lab.benchmarks.wide.topics import PATTERN

WARM_UP, BATCHES = 3, 15
GIVE_UP_S = 240.0
STEPS = ("triggerExecution", "latestOffset", "getBatch", "queryPlanning", "addBatch", "walCommit", "commitOffsets")
MB = 1_000_000


def run(folder: Path, servers: str, beside: Callable[[Callable[[], int]], None], pid: int) -> Figures:
    """`beside(rows)` adds topics after the measured batches; `rows()` is how many the query has read by now."""
    spark = start_with_ours(folder, "local[2]", spark_conf() | {"spark.sql.streaming.numRecentProgressUpdates": "9999"})
    try:
        rows = spark.readStream.format("pykafka").options(
            **{"kafka.bootstrap.servers": servers, "subscribePattern": PATTERN, "startingOffsets": "earliest"}
        )
        checkpoint = folder / "checkpoint"
        query = (
            rows.load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime="1 second")
            .start()
        )
        try:
            return _watched(query, checkpoint, beside, pid)
        finally:
            query.stop()
    finally:
        spark.stop()


def _watched(query: Any, checkpoint: Path, beside: Callable[[Callable[[], int]], None], pid: int) -> Figures:
    deadline = time.monotonic() + GIVE_UP_S
    while query.isActive and len(with_rows(query)) < WARM_UP + BATCHES and time.monotonic() < deadline:
        time.sleep(0.5)
    batches = with_rows(query)[WARM_UP:]
    if query.exception() is not None or not batches:
        raise query.exception() or TimeoutError(f"no micro-batch within {GIVE_UP_S:g} s")
    found = {f"{step}, ms": statistics.median(batch["durationMs"].get(step, 0) for batch in batches) for step in STEPS}
    found["rows of a micro-batch"] = statistics.median(batch["numInputRows"] for batch in batches)
    offsets = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    found["offsets of a micro-batch in the checkpoint, bytes"] = offsets.stat().st_size
    for each in tree(pid):
        name = kind(each)
        if name in ("planner", "Spark JVM", "executor worker"):
            found[f"peak of {name}, MB"] = max(found.get(f"peak of {name}, MB", 0.0), peak_bytes(each) / MB)
    beside(lambda: sum(batch["numInputRows"] for batch in with_rows(query)))
    if query.exception() is not None:
        raise query.exception()
    last = with_rows(query)[-5:]
    found["triggerExecution while topics are added, ms"] = statistics.median(
        batch["durationMs"]["triggerExecution"] for batch in last
    )
    return found
