"""What happens to the cost as the work grows: a topic ten times as large, records of 10 B to 1 MB."""

from __future__ import annotations

from collections.abc import Iterator

from lab.benchmarks.lab import Lab
from lab.benchmarks.read import readers
from lab.benchmarks.records import Records, size_name
from lab.benchmarks.results import Row
from lab.benchmarks.stages import Effort, compare
from lab.benchmarks.write import Topics, writers

TITLE = "cost as the topic and the records grow"

# Value bytes and rows of a full run: some 100 MB each from 100 B on.
SIZES = ((10, 4_000_000), (100, 1_000_000), (1000, 200_000), (10_000, 20_000), (100_000, 2_000), (1_000_000, 200))


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    turns = min(effort.turns, 2)
    for rows in (effort.rows(400_000), effort.rows(4_000_000)):
        yield from _read(lab, f"read {rows:,} × 100 B", Records(rows), turns)
    for size, rows in SIZES[1::2] if effort.quick else SIZES:
        records = Records(max(40, effort.rows(rows)), value_bytes=size)
        name = f"{records.rows:,} × {size_name(size)}"
        yield from _read(lab, f"read {name}", records, turns)
        yield from _write(lab, f"write {name}", records, turns)


def _read(lab: Lab, work: str, records: Records, turns: int) -> Iterator[Row]:
    with lab.topic_of(records) as topic:
        yield from compare(work, readers(lab, topic, records), turns, records=records)


def _write(lab: Lab, work: str, records: Records, turns: int) -> Iterator[Row]:
    topics = Topics(lab, records.partitions)
    contestants = {
        name: run
        for name, run in writers(lab, records, topics.new).items()
        if name in ("pykafka", "jvm", "ready-arrow")
    }
    yield from compare(work, contestants, turns, records=records)
    topics.drop()
