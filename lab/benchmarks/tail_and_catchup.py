"""A reader that keeps up with a producer, and readers that start behind while the producer goes on.

Different workloads for a broker and for a reader's memory: at the tail, records come from the broker's page cache and
each micro-batch is small; behind, they come from disk (the log's pages are dropped from the cache first) and the first
micro-batch is the whole backlog. One that is held to less than is produced falls behind for ever. Latency of a record:
from its making to the end of the micro-batch that read it. Memory: of each process, and for ours of each part of the
budget, by its own gauges at the end of each task.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from kafkasource.kafka.memory import PARTS, report
from kafkasource.kafka.memory.report import LOG_FOLDER
from lab.benchmarks import clients
from lab.benchmarks.lab import Lab
from lab.benchmarks.processes import MB, disk_read_bytes, kind, tree
from lab.benchmarks.records import Records
from lab.benchmarks.results import HELD, LATENCY, MEGABYTES, PEAK, RATE, SECONDS, Row, quantile
from lab.benchmarks.session import in_session
from lab.benchmarks.stages import Effort
from lab.benchmarks.streaming import with_rows
from lab.benchmarks.turns import reason

TITLE = "tail read and catch-up read, a producer at a fixed rate, 4 partitions"
VALUE_BYTES = 1000
PRODUCED_PER_S = 20_000
PARTITIONS = 4
HELD_TO = 5_000  # records per second, of a reader that may not catch up
CAUGHT_UP_S = 2.0  # behind by less than so many seconds of production


@dataclass(frozen=True)
class Work:
    name: str
    backlog: int  # records there before the reader starts
    seconds: float  # for which the producer goes on
    most_per_s: int | None = None  # records that are read
    budget: str | None = None  # `memoryBudget`: for ours alone


def works(effort: Effort) -> list[Work]:
    seconds = 12.0 if effort.quick else 20.0
    backlog = 200_000 if effort.quick else 1_000_000
    behind = f"from {backlog * VALUE_BYTES / 1e9:g} GB behind"
    return [
        Work("tail", 0, seconds),
        Work(f"catch-up {behind}", backlog, seconds),
        Work(f"catch-up {behind}, memoryBudget=8m", backlog, seconds, budget="8m"),
        Work(f"{HELD_TO:,} records/s {behind}", backlog, seconds, HELD_TO),
    ]


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    for work in works(effort):
        rows: list[Row] = []
        for contestant, format_name in {"pykafka": "pykafka", "jvm": "kafka"}.items():
            if work.budget is not None and contestant != "pykafka":
                continue
            try:
                rows += _measure(lab, work, contestant, format_name)
            except Exception as error:
                rows.append(Row(work.name, contestant, LATENCY, failure=reason(error)))
        yield from sorted(rows, key=lambda row: row.measure.title)


def _measure(lab: Lab, work: Work, contestant: str, format_name: str) -> list[Row]:
    topic, warm_up = lab.new_topic(PARTITIONS), lab.new_topic(PARTITIONS)
    try:
        lab.fill(warm_up, _spread(Records(200_000, VALUE_BYTES), lab.spark))
        if work.backlog:
            lab.fill(topic, _spread(Records(work.backlog, VALUE_BYTES), lab.spark))
        lab.stop_spark()
        drop_from_page_cache(lab, topic)
        before = _broker_disk_reads()
        arguments = {
            "servers": lab.servers,
            "topic": topic,
            "format_name": format_name,
            "rate": PRODUCED_PER_S,
            "seconds": work.seconds,
            "warm_up": warm_up,
            "options": _options(work),
        }
        with TemporaryDirectory(prefix="kafkasource-gauges-") as gauges:
            answer = in_session(
                "lab.benchmarks.tail_and_catchup:follow", environment={LOG_FOLDER: gauges}, arguments=arguments
            )
            lines = report.lines(gauges)
        read_mb = (_broker_disk_reads() - before) / MB
    finally:
        lab.drop(topic)
        lab.drop(warm_up)
    followed = Followed(work.backlog, **answer.value)
    held_back = work.most_per_s is not None
    rate = followed.whole_rate_mb() if held_back else followed.rate_mb()
    rows = [
        Row(work.name, contestant, RATE, (rate,), note=f"produced at {followed.produced_mb():.0f} MB/s"),
        Row(work.name, contestant, MEGABYTES, (read_mb,), note="read from disk by the broker"),
    ]
    if not held_back:
        rows.append(Row(work.name, contestant, LATENCY, tuple(followed.latencies_ms()), note=followed.note()))
    rows += _held([one for one in lines if one["time"] * 1e6 > followed.started_us], work.name, contestant)
    if work.backlog and not held_back:
        rows.append(Row(work.name, contestant, SECONDS, (followed.caught_up_s(),), note="until caught up"))
    for name in ("executor worker", "Spark JVM"):
        if peaks := answer.peaks_mb.get(name):
            rows.append(Row(work.name, contestant, PEAK, (peaks[0],), note=name))
    return rows


def _options(work: Work) -> dict[str, str]:
    found = {"maxOffsetsPerTrigger": str(work.most_per_s) if work.most_per_s else None, "memoryBudget": work.budget}
    return {name: text for name, text in found.items() if text is not None}


def _held(lines: list[dict[str, float]], work: str, contestant: str) -> Iterator[Row]:
    """What each part held at most in each task, and what the workers had at the end of each."""
    gauges = [f"{share.name}_peak_bytes" for share in PARTS if not share.publishes] + ["heap_bytes"]
    for gauge in gauges if lines else ():
        yield Row(work, contestant, HELD, tuple(one[gauge] / MB for one in lines), note=gauge)


def _spread(records: Records, spark: Any) -> Any:
    """Evenly over the partitions, as the producer at a fixed rate does it."""
    return records.frame(spark).selectExpr("value", f"CAST(CAST(key AS INT) % {PARTITIONS} AS INT) AS partition")


def _broker_disk_reads() -> int:
    return sum(disk_read_bytes(pid) for pid in tree(os.getpid()) if kind(pid) == "broker JVM")


def drop_from_page_cache(lab: Lab, topic: str) -> None:
    """What its logs hold, once written: reading it is reading the disk then. Nothing where the broker is not ours."""
    if lab.broker.existing:
        return
    os.sync()
    for log in Path(lab.broker.folder).glob(f"node-*/{topic}-*/*.log"):
        descriptor = os.open(log, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def follow(
    spark: Any,
    servers: str,
    topic: str,
    warm_up: str,
    format_name: str,
    rate: float,
    seconds: float,
    options: dict[str, str],
) -> dict[str, Any]:
    """In the session's process: a query from the earliest offset while another process produces.

    One that is held back has a micro-batch each second, and ends with the producer.
    """
    held_back = "maxOffsetsPerTrigger" in options

    def start(name: str, **more: str) -> Any:
        given = {"kafka.bootstrap.servers": servers, "subscribe": name, "startingOffsets": "earliest", **more}
        stream = spark.readStream.format(format_name).options(**given).load()
        writer = stream.writeStream.format("noop").option("checkpointLocation", mkdtemp())
        return (writer.trigger(processingTime="1 second") if more and held_back else writer).start()

    for _ in range(2):  # code is compiled, workers are there
        query = start(warm_up)
        query.processAllAvailable()
        query.stop()
    producer = clients.start(
        "produce",
        "confluent-kafka",
        servers=servers,
        topic=topic,
        rate=rate,
        seconds=seconds,
        value_bytes=VALUE_BYTES,
    )
    started_us = time.time_ns() // 1000
    query = start(topic, **options)
    try:
        made = clients.finish(producer)["made"]
        if not held_back:
            query.processAllAvailable()
        batches = [(_end_us(progress), progress["numInputRows"]) for progress in with_rows(query)]
    finally:
        query.stop()
    return {"started_us": started_us, "made": made, "batches": batches}


def _end_us(progress: Any) -> int:
    began = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00"))
    return int(began.timestamp() * 1e6) + int(progress["durationMs"]["triggerExecution"]) * 1000


class Followed:
    """What a query that follows a producer did: when each micro-batch ended, and how many rows it had."""

    def __init__(self, backlog: int, started_us: int, made: list[list[int]], batches: list[list[int]]) -> None:
        self._backlog, self.started_us = backlog, started_us
        self._times = [time_us for time_us, _ in made]
        self._counts = [count for _, count in made]
        self._batches = batches

    @cached_property
    def _caught_up_us(self) -> int:
        return self._find_caught_up()

    def _made_by(self, time_us: int) -> int:
        """Records that there were at a time, the backlog included."""
        i = bisect_left(self._times, time_us)
        return self._backlog + (self._counts[i - 1] if i else 0)

    def _find_caught_up(self) -> int:
        """When the first micro-batch ended that left less than `CAUGHT_UP_S` of production unread."""
        seen = 0
        for end_us, rows in self._batches:
            seen += rows
            if self._made_by(end_us) - seen <= CAUGHT_UP_S * PRODUCED_PER_S and seen > self._backlog:
                return end_us
        raise RuntimeError("it never caught up")

    def caught_up_s(self) -> float:
        """From the query's start (the session is there already)."""
        return (self._caught_up_us - self.started_us) / 1e6

    def latencies_ms(self) -> list[float]:
        """Of every hundredth record made and read after the reader caught up."""
        found, seen = [], 0
        for end_us, rows in self._batches:
            first, seen = seen, seen + rows
            if end_us <= self._caught_up_us:
                continue
            for number in range(max(first, self._backlog) + 1, seen + 1, 100):
                at = bisect_left(self._counts, number - self._backlog)
                found.append((end_us - self._times[min(at, len(self._times) - 1)]) / 1000)
        return [quantile(found, i / 1000) for i in range(1, 1001)] if found else []

    def rate_mb(self) -> float:
        """Read until it had caught up; for a reader that never was behind, all it read."""
        end_us = self._caught_up_us if self._backlog else self._batches[-1][0]
        seen = sum(rows for at_us, rows in self._batches if at_us <= end_us)
        return seen * VALUE_BYTES / (end_us - self.started_us)

    def whole_rate_mb(self) -> float:
        """From the query's start to its last micro-batch's end."""
        return sum(rows for _, rows in self._batches) * VALUE_BYTES / (self._batches[-1][0] - self.started_us)

    def produced_mb(self) -> float:
        return self._counts[-1] * VALUE_BYTES / (self._times[-1] - self._times[0])

    def note(self) -> str:
        return f"{len(self._batches)} micro-batches, the largest of {max(rows for _, rows in self._batches):,} rows"
