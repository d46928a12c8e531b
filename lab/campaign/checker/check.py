"""All rules by name, and what they find in a history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from lab.campaign.checker.batches import torn
from lab.campaign.checker.findings import Finding
from lab.campaign.checker.groups import group_ahead
from lab.campaign.checker.history import History
from lab.campaign.checker.index import Index
from lab.campaign.checker.offset_map import map_repeats, map_skips
from lab.campaign.checker.order import reordered
from lab.campaign.checker.places import altered, misplaced
from lab.campaign.checker.presence import aborted, doubled, lost, lost_in_passing, unwritten
from lab.campaign.checker.stalls import stalled

RULES: dict[str, Callable[[Index], Iterator[Finding]]] = {
    "lost": lambda index: chain(lost(index), lost_in_passing(index)),
    "doubled": doubled,
    "aborted": aborted,
    "unwritten": unwritten,
    "reordered": reordered,
    "misplaced": misplaced,
    "altered": altered,
    "torn": torn,
    "map skips": map_skips,
    "map repeats": map_repeats,
    "group ahead": group_ahead,
    "stalled": stalled,
}


@dataclass(frozen=True)
class Report:
    counts: dict[str, int]  # by rule, all of them
    findings: dict[str, list[Finding]]  # by rule, the first ones

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def check(history: History, most: int = 20) -> Report:
    """`most`: so many findings of each rule are kept; all are counted."""
    index = Index(history)
    counts, kept = dict.fromkeys(RULES, 0), {rule: list[Finding]() for rule in RULES}
    for rule, findings_of in RULES.items():
        for finding in findings_of(index):
            counts[rule] += 1
            if counts[rule] <= most:
                kept[rule].append(finding)
    return Report(counts, {rule: found for rule, found in kept.items() if found})
