r"""The page of `/metrics`: Prometheus' text format, version 0.0.4, which every Prometheus and every agent reads.

    # HELP name help          in help, \ and a line feed are escaped
    # TYPE name counter       counter, gauge or histogram
    name{label="value"} 1.0   in a label's value, \ and a line feed and " are escaped

A histogram has cumulative `_bucket` lines with the label `le`, up to +Inf, then `_count` and `_sum`. The lines of a
metric stand together. tests/metrics compare this with what prometheus-client writes of the same counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import accumulate

from kafkasource.metrics.snapshot import Histogram, Snapshot
from kafkasource.metrics.table import TABLE, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_OF_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_OF_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def text(snapshot: Snapshot) -> bytes:
    """The metrics that have a value, in the order of the table."""
    return "".join(f"{line}\n" for metric in TABLE for line in _family(metric, snapshot)).encode(errors="replace")


def _family(metric: Metric, found: Snapshot) -> list[str]:
    lines = list(_histograms(metric, found) if metric.kind == "histogram" else _values(metric, found))
    if not lines:
        return []
    head = [f"# HELP {metric.name} {metric.help.translate(_OF_HELP)}", f"# TYPE {metric.name} {metric.kind}"]
    return head + lines


def _values(metric: Metric, found: Snapshot) -> Iterator[str]:
    for (name, labels), value in sorted((found.counters if metric.kind == "counter" else found.gauges).items()):
        if name == metric.name:
            yield _line(name, zip(metric.labels, labels, strict=True), value)


def _histograms(metric: Metric, found: Snapshot) -> Iterator[str]:
    for (name, labels), histogram in sorted(found.histograms.items()):
        if name == metric.name:
            yield from _histogram(metric, labels, histogram)


def _histogram(metric: Metric, labels: tuple[str, ...], histogram: Histogram) -> Iterator[str]:
    counts, total = histogram
    own = list(zip(metric.labels, labels, strict=True))
    up_to = list(accumulate(counts))
    for bound, count in zip((*map(_number, metric.buckets), "+Inf"), up_to, strict=True):
        yield _line(f"{metric.name}_bucket", [*own, ("le", bound)], count)
    yield _line(f"{metric.name}_count", own, up_to[-1])
    yield _line(f"{metric.name}_sum", own, total)


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    shown = ",".join(f'{label}="{text.translate(_OF_LABEL)}"' for label, text in labels)
    return f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))
