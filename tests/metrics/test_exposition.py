"""The page of `/metrics`, against the page that prometheus-client writes of the same counts."""

import math

from prometheus_client import CollectorRegistry
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


def page_of_prometheus_client(snapshot):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(lambda: snapshot))
    return generate_latest(registry)


def read(page):
    """What prometheus-client's parser makes of it. Labels have no order."""
    return [
        (family.name, family.documentation, family.type, [(one.name, one.labels, repr(one.value)) for one in samples])
        for family in text_string_to_metric_families(page.decode())
        for samples in [family.samples]
    ]


def test_the_page_says_what_prometheus_clients_says():
    ours, theirs = exposition.text(everything()), page_of_prometheus_client(everything())
    assert read(ours) == read(theirs)
    assert [family[0] for family in read(ours)] == [metric.name.removesuffix("_total") for metric in TABLE]
    comments = [[line for line in page.splitlines() if line.startswith(b"#")] for page in (ours, theirs)]
    assert comments[0] == comments[1]


def test_nothing_counted_is_an_empty_page():
    assert exposition.text(Snapshot("")) == b""
