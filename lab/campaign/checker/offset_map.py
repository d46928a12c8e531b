"""A mirror's map of offsets: who continues at a translated offset misses nothing, and reads twice only where the map
says so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from lab.campaign.checker.findings import Finding
from lab.campaign.checker.history import Copy, Translation
from lab.campaign.checker.index import Index


class _Partition:
    """Where the copies of one partition of the source lie in the target's partition of the same number."""

    def __init__(self, index: Index, copy: Copy, partition: int, last: dict[bytes, int]) -> None:
        there = [
            (record.offset, last[record.value])
            for record in index.by_partition(copy.source).get(partition, ())
            if record.value in last
        ]
        self.offsets = [offset for offset, _ in there]
        places = [place for _, place in there]
        self._lowest_from = list(accumulate(reversed(places), min))[::-1]  # of this record's and all later copies
        self._highest_to = list(accumulate(places, max))  # of this record's and all earlier copies

    def first_missed(self, asked: Translation) -> int | None:
        """The lowest place below the translated offset at which the copy of a record lies that is yet to be read."""
        at = bisect_left(self.offsets, asked.source_offset)
        lowest = self._lowest_from[at] if at < len(self.offsets) else None
        return lowest if lowest is not None and lowest < asked.target_offset else None

    def last_repeated(self, asked: Translation) -> int | None:
        """The highest place from the translated offset on at which the copy of a record lies that was read before."""
        at = bisect_left(self.offsets, asked.source_offset)
        highest = self._highest_to[at - 1] if at else None
        return highest if highest is not None and highest >= asked.target_offset else None


def map_skips(index: Index) -> Iterator[Finding]:
    for copy, partition, asked in _asked(index):
        if (missed := partition.first_missed(asked)) is not None:
            yield Finding(copy.name, f"{_said(copy, asked)}: the copy at offset {missed} would not be read")


def map_repeats(index: Index) -> Iterator[Finding]:
    """Only of copies that are `once`: in others the same record may lie on both sides of any offset."""
    for copy, partition, asked in _asked(index):
        if copy.once and asked.exact and (repeated := partition.last_repeated(asked)) is not None:
            yield Finding(
                copy.name, f"{_said(copy, asked)}, exactly: the copy at offset {repeated} would be read twice"
            )


def _asked(index: Index) -> Iterator[tuple[Copy, _Partition, Translation]]:
    partitions: dict[tuple[str, int], _Partition] = {}
    lasts: dict[str, dict[bytes, int]] = {}
    for asked in index.history.translations:
        copy = index.copies[asked.copy]
        if copy.name not in lasts:  # of a record that came again, the later place: it is read in any case
            last = lasts[copy.name] = {}
            for record in index.log(copy.target):
                last[record.value] = max(last.get(record.value, -1), record.offset)
        if (copy.name, asked.partition) not in partitions:
            partitions[copy.name, asked.partition] = _Partition(index, copy, asked.partition, lasts[copy.name])
        yield copy, partitions[copy.name, asked.partition], asked


def _said(copy: Copy, asked: Translation) -> str:
    place = f"offset {asked.source_offset} of {copy.source}-{asked.partition}"
    return f"{place} is offset {asked.target_offset} of {copy.target}, says the map"
