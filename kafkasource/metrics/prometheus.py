"""Metrics in an application's registry of prometheus-client (`pip install 'kafkasource[prometheus]'`).

prometheus-client's multiprocess mode needs its folder in the environment before Python starts, and a user who empties
it. Spark starts and ends the workers, not the user. So `folder` counts, and the client's registry only collects the
sums. `/metrics` needs no client: exposition.py writes that page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from kafkasource.metrics.snapshot import Snapshot
from kafkasource.metrics.table import TABLE, Metric


class Collector:
    """A collector for a registry of prometheus-client: `REGISTRY.register(Collector(served.snapshot))`."""

    def __init__(self, source: Callable[[], Snapshot]) -> None:
        self._source = source

    def describe(self) -> list[Family]:
        """Registering the collector collects nothing."""
        return []

    def collect(self) -> Iterator[Family]:
        """A family for each metric that has a value, in the order of the table."""
        found = self._source()
        for metric in TABLE:
            family = _family(metric, found)
            if family.samples:
                yield family


def _family(metric: Metric, found: Snapshot) -> Family:
    if metric.kind == "histogram":
        family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        bounds = [*(repr(bound) for bound in metric.buckets), "+Inf"]
        for (name, labels), (counts, total) in sorted(found.histograms.items()):
            if name == metric.name:
                family.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
        return family
    counter = metric.kind == "counter"
    family = (CounterMetricFamily if counter else GaugeMetricFamily)(metric.name, metric.help, labels=metric.labels)
    for (name, labels), value in sorted((found.counters if counter else found.gauges).items()):
        if name == metric.name:
            family.add_metric(labels, value)
    return family
