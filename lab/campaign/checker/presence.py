"""Which records are there: lost, doubled, aborted, or written by nobody."""

from __future__ import annotations

from collections.abc import Iterator

from lab.campaign.checker.findings import Finding, place, shown
from lab.campaign.checker.history import Outcome, Record
from lab.campaign.checker.index import Index


def lost(index: Index) -> Iterator[Finding]:
    """What a producer was told is written is in its topic, and what is in a source is in each copy, or told of."""
    passed = {each.log for each in index.history.passed}
    for written in index.history.written:
        if written.log in passed:
            continue
        if written.outcome is Outcome.COMMITTED and written.value not in index.first(written.log):
            where = f"{written.log}-{written.partition} offset {written.offset}"
            yield Finding(written.log, f"{where}: {shown(written.value)} was acknowledged, and is not there")
    for copy in index.history.copies:
        there = index.first(copy.target)
        missing = [record for record in index.log(copy.source) if record.value not in there]
        if len(missing) <= (copy.left_out or 0):
            continue
        said = "" if copy.left_out is None else f", and said of {copy.left_out} records that it left them out"
        for record in missing[copy.left_out or 0 :]:
            yield Finding(
                copy.target, f"{place(copy.source, record)}: {copy.name} did not copy {shown(record.value)}{said}"
            )


def lost_in_passing(index: Index) -> Iterator[Finding]:
    """What a reader did not get of a topic whose records are removed, it said was lost; and no more than was removed.

    Of records without a known offset nothing can be said.
    """
    for passed in index.history.passed:
        given = index.first(passed.told)
        for written in index.history.written:
            at = written.offset
            if written.log != passed.log or written.outcome is not Outcome.COMMITTED or at is None:
                continue
            said = any(start <= at < end for start, end in passed.said_lost.get(written.partition, ()))
            if not said and written.value not in given:
                where = f"{passed.log}-{written.partition} offset {at}"
                yield Finding(passed.told, f"{where}: {shown(written.value)} was not read, nor said to be lost")
        for partition, ranges in passed.said_lost.items():
            removed = passed.removed_below.get(partition, 0)
            for start, end in ranges:
                if end > removed:
                    text = f"offsets [{start}, {end}) were said to be lost, and only those below {removed} were removed"
                    yield Finding(passed.told, f"{passed.log}-{partition}: {text}")


def doubled(index: Index) -> Iterator[Finding]:
    """Producers are idempotent, and copies with `once` repeat nothing."""
    passed = {each.told for each in index.history.passed}
    for log in sorted(passed | index.written_logs | {copy.target for copy in index.history.copies if copy.once}):
        first = index.first(log)
        for record in index.log(log):
            before = first[record.value]
            if before is not record:
                yield Finding(log, f"{place(log, record)}: {shown(record.value)} is at {place(log, before)}, too")


def aborted(index: Index) -> Iterator[Finding]:
    """Nobody at read_committed sees a record of an aborted transaction, nor a copy of one."""
    for log, record in _all_records(index):
        written = index.written.get(record.value)
        if written is not None and written.outcome is Outcome.ABORTED:
            yield Finding(log, f"{place(log, record)}: {shown(record.value)} is of an aborted transaction")


def unwritten(index: Index) -> Iterator[Finding]:
    """Every value that is read was written by a producer."""
    for log, record in _all_records(index):
        if record.value not in index.written:
            yield Finding(log, f"{place(log, record)}: nobody wrote {shown(record.value)}")


def _all_records(index: Index) -> Iterator[tuple[str, Record]]:
    for log, records in index.history.logs.items():
        for record in records:
            yield log, record
