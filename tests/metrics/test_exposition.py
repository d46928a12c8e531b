"""The page of `/metrics`, against the page that prometheus-client writes of the same counts."""

import math

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kafkasource.metrics import exposition
from kafkasource.metrics.prometheus import Collector
from kafkasource.metrics.snapshot import Histogram, Key, Snapshot
from kafkasource.metrics.table import TABLE

LABELS = ("a", 'a "quoted"\\name\n<b>', "ümlaut {x=1}", "")
VALUES = (0.0, 12345.0, 1e21, 0.1 + 0.2, math.inf, math.nan)


def everything():
    """Each row of the table, with labels and values that need care."""
    counters: dict[Key, float] = {}
    gauges: dict[Key, float] = {}
    histograms: dict[Key, Histogram] = {}
    for at, metric in enumerate(TABLE):
        for n, label in enumerate(LABELS):
            key = (metric.name, tuple(f"{label}{place}" for place, _ in enumerate(metric.labels)))
            if metric.kind == "histogram":
                histograms[key] = (tuple(range(len(metric.buckets) + 1)), 1.5 * n)
            else:
                (counters if metric.kind == "counter" else gauges)[key] = VALUES[(at + n) % len(VALUES)]
    return Snapshot("", 0, counters, histograms, gauges)


class Families:
    """The same counts in prometheus-client's own classes, which write a histogram's samples."""

    def __init__(self, snapshot):
        self.snapshot = snapshot

    def describe(self):
        return []

    def collect(self):
        for metric in TABLE:
            family_of = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
            family = family_of[metric.kind](metric.name, metric.help, labels=metric.labels)
            for (name, labels), (counts, total) in self.snapshot.histograms.items():
                if name == metric.name:
                    bounds = [*map(str, metric.buckets), "+Inf"]
                    up_to = [sum(counts[: at + 1]) for at in range(len(counts))]
                    family.add_metric(labels, list(zip(bounds, up_to, strict=True)), total)
            for (name, labels), value in [*self.snapshot.counters.items(), *self.snapshot.gauges.items()]:
                if name == metric.name:
                    family.add_metric(labels, value)
            yield family


def page_of(collector):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)


def read(page):
    """Parse a page with prometheus-client's parser. Neither labels nor samples of a family have an order."""
    return [
        (
            family.name,
            family.documentation,
            family.type,
            sorted((sample.name, sorted(sample.labels.items()), repr(sample.value)) for sample in family.samples),
        )
        for family in text_string_to_metric_families(page.decode())
    ]


@pytest.mark.parametrize("page", [exposition.text, lambda snapshot: page_of(Collector(lambda: snapshot))])
def test_the_page_and_the_collector_show_what_prometheus_client_shows(page):
    ours, theirs = page(everything()), page_of(Families(everything()))
    assert read(ours) == read(theirs)
    assert [family[0] for family in read(ours)] == [metric.name.removesuffix("_total") for metric in TABLE]
    comments = [[line for line in page.splitlines() if line.startswith(b"#")] for page in (ours, theirs)]
    assert comments[0] == comments[1]


def test_nothing_counted_is_an_empty_page():
    assert exposition.text(Snapshot("")) == b""
