"""All counts of one process, as a value. They are cumulative: the newest snapshot of a process replaces older ones.

A collector never adds two snapshots of the same process; it keeps the one with the higher sequence. A task's report
carries a snapshot to the driver, and a file in the folder holds one, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkasource.metrics.table import METRICS

Key = tuple[str, tuple[str, ...]]
"""A metric's name and the values of its labels."""

Histogram = tuple[tuple[int, ...], float]
"""Observations in each bucket, not cumulative, with one more bucket above the last bound; and their sum."""


@dataclass(frozen=True)
class Snapshot:
    """The counts of one process, or the sums of several."""

    process: str  # unique over hosts and restarts; empty: several processes
    sequence: int = 0
    counters: Mapping[Key, float] = field(default_factory=dict)
    histograms: Mapping[Key, Histogram] = field(default_factory=dict)
    gauges: Mapping[Key, float] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(
            {
                "process": self.process,
                "sequence": self.sequence,
                "counters": [[*key, value] for key, value in self.counters.items()],
                "histograms": [[*key, *value] for key, value in self.histograms.items()],
                "gauges": [[*key, value] for key, value in self.gauges.items()],
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Snapshot:
        """Raises ValueError for a text that is no snapshot. Leaves out metrics that the table does not have, or
        has with other labels (another version)."""
        try:
            document: dict[str, Any] = json.loads(text)
            return cls(
                str(document["process"]),
                int(document["sequence"]),
                {
                    (name, tuple(labels)): float(value)
                    for name, labels, value in document["counters"]
                    if _is_known(name, labels)
                },
                {
                    (name, tuple(labels)): (tuple(map(int, buckets)), float(total))
                    for name, labels, buckets, total in document["histograms"]
                    if _is_known(name, labels) and len(buckets) == len(METRICS[name].buckets) + 1
                },
                {
                    (name, tuple(labels)): float(value)
                    for name, labels, value in document["gauges"]
                    if _is_known(name, labels)
                },
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"not a snapshot of metrics: {error!r}") from None


def _is_known(name: str, labels: Collection[str]) -> bool:
    return name in METRICS and len(labels) == len(METRICS[name].labels)


def added(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The sum of snapshots, each of another process. Gauges add up, or the largest counts, as their rows in the table
    say."""
    counters: dict[Key, float] = {}
    histograms: dict[Key, Histogram] = {}
    gauges: dict[Key, float] = {}
    for one in snapshots:
        for key, value in one.counters.items():
            counters[key] = counters.get(key, 0.0) + value
        for key, (buckets, total) in one.histograms.items():
            if key in histograms:
                before, total_before = histograms[key]
                buckets = tuple(a + b for a, b in zip(buckets, before, strict=True))
                total += total_before
            histograms[key] = buckets, total
        for key, value in one.gauges.items():
            if key in gauges:
                value = max(value, gauges[key]) if METRICS[key[0]].of_all == "max" else value + gauges[key]
            gauges[key] = value
    return Snapshot("", 0, counters, histograms, gauges)
