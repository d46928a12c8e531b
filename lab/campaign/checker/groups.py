"""Offsets that a query commits to its group: never ahead of what it has written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from lab.campaign.checker.findings import Finding
from lab.campaign.checker.history import Copy, Glimpse
from lab.campaign.checker.index import Index


def group_ahead(index: Index) -> Iterator[Finding]:
    """Every record below the committed offset was in the target when the offset was seen."""
    waiting: dict[tuple[str, int], list[tuple[int, Glimpse]]] = defaultdict(list)
    for glimpse in index.history.glimpses:
        for partition, offset in glimpse.committed.items():
            waiting[glimpse.copy, partition].append((offset, glimpse))
    for (name, partition), commits in waiting.items():
        yield from _of_partition(index, index.copies[name], partition, sorted(commits, key=lambda each: each[0]))


def _of_partition(index: Index, copy: Copy, partition: int, commits: list[tuple[int, Glimpse]]) -> Iterator[Finding]:
    """`commits` in the order of offsets: one walk over the source's records serves them all."""
    records, target = index.by_partition(copy.source).get(partition, []), index.first(copy.target)
    reached: dict[int, int] = {}  # by partition of the target: the highest offset of a copy so far
    nowhere = place = 0
    for offset, glimpse in commits:
        while place < len(records) and records[place].offset < offset:
            found = target.get(records[place].value)
            nowhere += found is None
            if found is not None:
                reached[found.partition] = max(reached.get(found.partition, -1), found.offset)
            place += 1
        late = [to for to, highest in reached.items() if highest >= glimpse.ends.get(to, 0)]
        if late or nowhere:
            text = f"the group is at offset {offset} of {copy.source}-{partition}"
            yield Finding(
                copy.name, f"{text} at {glimpse.at_ms} ms: copies were missing in partitions {late}, {nowhere} for ever"
            )
