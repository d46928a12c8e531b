"""Batch writes that are over soon, so that what a write costs whatever it writes counts; and few, large records."""

from __future__ import annotations

from collections.abc import Iterator

from lab.benchmarks.lab import Lab
from lab.benchmarks.records import Records, size_name
from lab.benchmarks.results import Row
from lab.benchmarks.stages import Effort, compare
from lab.benchmarks.write import Topics, wire_ceiling, writers

TITLE = "small batch writes, 4 partitions, keyed, acks=all, idempotent"
WORKS = (Records(100_000), Records(2_000, value_bytes=100_000))  # also of a quick run


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    for records in WORKS:
        topics = Topics(lab, records.partitions)
        contestants = writers(lab, records, topics.new) | {"wire ceiling": wire_ceiling(lab, records, topics.new)}
        work = f"write {records.rows:,} × {size_name(records.value_bytes)}"
        yield from compare(work, contestants, 3 * effort.turns, records=records, warm_up=4)
        topics.drop()
