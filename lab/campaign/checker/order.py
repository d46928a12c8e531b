"""Order: records of a key and producer stay in the order in which they were written."""

from __future__ import annotations

from collections.abc import Iterator

from lab.campaign.checker.findings import Finding, place, shown
from lab.campaign.checker.index import Index


def reordered(index: Index) -> Iterator[Finding]:
    """Within a key, a producer and a partition numbers count up. Where a record came again, its first place counts:
    a task that is run again begins anew.
    """
    without_promise = {copy.target for copy in index.history.copies if copy.left_out is not None}
    for log, records in index.history.logs.items():
        if log in without_promise:
            continue
        first = index.first(log)
        highest: dict[tuple[str, bytes | None, int], int] = {}
        for record in records:
            written = index.written.get(record.value)
            if written is None or first[record.value] is not record:
                continue
            sequence = (written.producer, written.key, record.partition)
            before = highest.get(sequence, -1)
            if written.number < before:
                text = f"{shown(record.value)} is number {written.number} of its key, and comes after number {before}"
                yield Finding(log, f"{place(log, record)}: {text}")
            else:
                highest[sequence] = written.number
