"""Where records are, and whether they are as they were written."""

from __future__ import annotations

from collections.abc import Iterator

from lab.campaign.checker.findings import Finding, place, shown
from lab.campaign.checker.history import Copy, Record
from lab.campaign.checker.index import Index


def misplaced(index: Index) -> Iterator[Finding]:
    """A record is where the broker acknowledged it; a copy is where its promise says, and a key in one partition."""
    for written in index.history.written:
        record = index.first(written.log).get(written.value)
        if record is None:
            continue
        right_partition = record.partition == written.partition
        if not right_partition or written.offset not in (None, record.offset):
            text = (
                f"{shown(written.value)} was acknowledged at {written.log}-{written.partition} offset {written.offset}"
            )
            yield Finding(written.log, f"{place(written.log, record)}: {text}")
    for copy in index.history.copies:
        yield from _misplaced_copies(index, copy)


def _misplaced_copies(index: Index, copy: Copy) -> Iterator[Finding]:
    source, partitions = index.first(copy.source), dict[bytes, int]()
    for record in index.log(copy.target):
        origin = source.get(record.value)
        if origin is None:
            continue
        wrong = None
        if copy.same_partition or copy.same_offset:
            if record.partition != origin.partition:
                wrong = "another partition"
            elif copy.same_offset and record.offset != origin.offset:
                wrong = "another offset"
        elif origin.key is not None:
            of_key = copy.partition_of(origin.key) if copy.partition_of else record.partition
            right = partitions.setdefault(origin.key, of_key)
            if record.partition != right:
                wrong = f"and key {shown(origin.key)} belongs to partition {right}"
        if wrong:
            text = f"{copy.name} took it from {place(copy.source, origin)}, {wrong}"
            yield Finding(copy.target, f"{place(copy.target, record)}: {text}")


def altered(index: Index) -> Iterator[Finding]:
    """Key and headers are those that were written."""
    for log in sorted(index.written_logs):
        for record in index.log(log):
            written = index.written.get(record.value)
            if written is not None and (written.key, written.headers) != (record.key, record.headers):
                yield Finding(log, _difference(log, record, written.key))
    for copy in index.history.copies:
        source = index.first(copy.source)
        for record in index.log(copy.target):
            origin = source.get(record.value)
            if origin is None:
                continue
            lacking = copy.with_headers and record.headers[: len(origin.headers)] != origin.headers
            if record.key != origin.key or lacking:
                yield Finding(copy.target, _difference(copy.target, record, origin.key))


def _difference(log: str, record: Record, key: bytes | None) -> str:
    what = "has other headers" if record.key == key else f"has key {shown(record.key)} in place of {shown(key)}"
    return f"{place(log, record)}: {shown(record.value)} {what}"
