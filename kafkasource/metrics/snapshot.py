"""All counts of one process, as a value. They are cumulative: the newest snapshot of a process replaces older ones.

A collector never adds two snapshots of the same process; it keeps the snapshot with the higher sequence. A task's
report carries a snapshot to the driver, and a file in the folder holds one, as JSON.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from kafkasource.metrics.table import METRICS, TABLE, Metric

Key = tuple[str, tuple[str, ...]]
"""A metric's name and the values of its labels."""

Histogram = tuple[tuple[int, ...], float]
"""Observations in each bucket, not cumulative, with one more bucket above the last bound; and their sum."""


class Sample(NamedTuple):
    """One value with its labels. `suffix` follows the metric's name; only a histogram's samples have one."""

    suffix: str
    labels: dict[str, str]
    value: float


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

    def samples(self) -> Iterator[tuple[Metric, list[Sample]]]:
        """The samples of each metric that has a value, in the order of the table, as Prometheus defines them.

        A histogram has cumulative samples `_bucket` with the label `le`, up to +Inf, then `_count` and `_sum`.
        """
        values: defaultdict[str, dict[tuple[str, ...], Any]] = defaultdict(dict)
        for (name, labels), value in [*self.counters.items(), *self.gauges.items(), *self.histograms.items()]:
            values[name][labels] = value
        for metric in TABLE:
            samples: list[Sample] = []
            for label_values, value in sorted(values[metric.name].items()):
                by_label = dict(zip(metric.labels, label_values, strict=True))
                if metric.buckets:
                    samples += _histogram_samples(metric, by_label, *value)
                else:
                    samples.append(Sample("", by_label, float(value)))
            if samples:
                yield metric, samples

    @classmethod
    def from_json(cls, text: str | bytes) -> Snapshot:
        """Leaves out metrics that the table does not have, or has with other labels (another version).

        Raises ValueError if the text is not a snapshot.
        """
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


def _histogram_samples(
    metric: Metric, labels: dict[str, str], counts: tuple[int, ...], total: float
) -> Iterator[Sample]:
    for bound, count in zip((*map(repr, metric.buckets), "+Inf"), accumulate(counts), strict=True):
        yield Sample("_bucket", labels | {"le": bound}, count)
    yield Sample("_count", labels, sum(counts))
    yield Sample("_sum", labels, total)


def _is_known(name: str, labels: Collection[str]) -> bool:
    return name in METRICS and len(labels) == len(METRICS[name].labels)


def added(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The sum of snapshots, each of another process. Gauges add up, or the largest counts, as the table says."""
    counters: dict[Key, float] = {}
    histograms: dict[Key, Histogram] = {}
    gauges: dict[Key, float] = {}
    for snapshot in snapshots:
        for key, value in snapshot.counters.items():
            counters[key] = counters.get(key, 0.0) + value
        for key, (buckets, total) in snapshot.histograms.items():
            if key in histograms:
                before, total_before = histograms[key]
                buckets = tuple(a + b for a, b in zip(buckets, before, strict=True))
                total += total_before
            histograms[key] = buckets, total
        for key, value in snapshot.gauges.items():
            if key in gauges:
                value = max(value, gauges[key]) if METRICS[key[0]].of_all == "max" else value + gauges[key]
            gauges[key] = value
    return Snapshot("", 0, counters, histograms, gauges)
