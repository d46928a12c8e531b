"""Atomic batches: at a moment of rest a micro-batch is there whole, or not at all."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from lab.campaign.checker.findings import Finding
from lab.campaign.checker.history import Batch
from lab.campaign.checker.index import Index


def torn(index: Index) -> Iterator[Finding]:
    glimpses = defaultdict(list)
    for glimpse in index.history.glimpses:
        if glimpse.at_rest:
            glimpses[glimpse.copy].append(glimpse)
    for batch in index.history.batches:
        spans, missing = _places(index, batch)
        for glimpse in glimpses[batch.copy]:
            begun = [p for p, (first, _) in spans.items() if first < glimpse.ends.get(p, 0)]
            open_ = [p for p, (_, last) in spans.items() if last >= glimpse.ends.get(p, 0)]
            if begun and (open_ or missing):
                parts = f"partitions {begun} had records of it, partitions {open_} lacked some, {missing} were nowhere"
                yield Finding(batch.copy, f"micro-batch {batch.number} at {glimpse.at_ms} ms: {parts}")


def _places(index: Index, batch: Batch) -> tuple[dict[int, tuple[int, int]], int]:
    """The first and last offset of its records by partition of the target, and how many are nowhere."""
    copy = index.copies[batch.copy]
    source, target = index.by_partition(copy.source), index.first(copy.target)
    spans: dict[int, tuple[int, int]] = {}
    missing = 0
    for partition, (start, end) in batch.ranges.items():
        records = source.get(partition, [])
        place = bisect_left(records, start, key=lambda record: record.offset)
        while place < len(records) and records[place].offset < end:
            found = target.get(records[place].value)
            place += 1
            if found is None:
                missing += 1
                continue
            first, last = spans.get(found.partition, (found.offset, found.offset))
            spans[found.partition] = (min(first, found.offset), max(last, found.offset))
    return spans, missing
