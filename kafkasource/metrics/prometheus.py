"""Metrics in an application's registry of prometheus-client (`pip install 'kafkasource[prometheus]'`).

prometheus-client's multiprocess mode needs its folder in the environment before Python starts, and a user who empties
it. Spark starts and ends the workers, not the user. So `folder` counts, and the client's registry only collects the
sums. `/metrics` needs no client: exposition.py writes that page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import Metric as Family

from kafkasource.metrics.snapshot import Snapshot


class Collector:
    """A collector for a registry of prometheus-client: `REGISTRY.register(Collector(served.snapshot))`."""

    def __init__(self, source: Callable[[], Snapshot]) -> None:
        self._source = source

    def describe(self) -> list[Family]:
        """Registering the collector collects nothing."""
        return []

    def collect(self) -> Iterator[Family]:
        """A family for each metric that has a value, in the order of the table."""
        for metric, samples in self._source().samples():
            family = Family(metric.name.removesuffix("_total"), metric.help, metric.kind)
            for suffix, labels, value in samples:
                family.add_sample(metric.name + suffix, labels, value)
            yield family
