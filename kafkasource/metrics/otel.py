"""Metrics for OpenTelemetry (`pip install 'kafkasource[otel]'`): instruments that read the counts when the SDK asks.

Names and attributes are the table's. OpenTelemetry accepts no histogram that another library has counted, so a
histogram is three counters, as in Prometheus' text: `_count`, `_sum`, and `_bucket` with the attribute `le`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from opentelemetry import metrics as otel
from opentelemetry.metrics import Observation

from kafkasource.metrics.snapshot import Snapshot
from kafkasource.metrics.table import TABLE, Metric

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExporter

_KEEP_S = 0.5  # one look serves all instruments of one collection
_PUSH_EVERY_MS = 10_000  # Spark ends a worker that idles after a minute


def bind(source: Callable[[], Snapshot], meter_provider: otel.MeterProvider | None = None) -> None:
    """Make the instruments. `source`: of `serve_metrics`'s object `.snapshot`, on the driver.

    `meter_provider`: the global one, if none is given. There is no unbinding: shut the provider down.
    """
    meter = (meter_provider or otel.get_meter_provider()).get_meter("kafkasource")
    look = _Look(source)
    for metric in TABLE:
        if metric.kind == "gauge":
            meter.create_observable_gauge(
                metric.name, [_callback(partial(_plain, metric, look))], _unit(metric.name), metric.help
            )
        elif metric.kind == "counter":
            meter.create_observable_counter(
                metric.name, [_callback(partial(_plain, metric, look))], _unit(metric.name), metric.help
            )
        else:
            for part, unit in (("bucket", "1"), ("count", "1"), ("sum", "s")):
                meter.create_observable_counter(
                    f"{metric.name}_{part}", [_callback(partial(_histogram, metric, part, look))], unit, metric.help
                )


def push(source: Callable[[], Snapshot], process: str, exporter: MetricExporter | None = None) -> MeterProvider:
    """From now on, send the counts of this process to a collector. Returns the SDK's MeterProvider.

    `source` and `process`: what the process has counted, and its name (`Registry.snapshot`, `Registry.process`).

    For executors on whose hosts nobody collects: with `KAFKASOURCE_OTEL=1` in their environment each worker does this
    when it first publishes. It sends OTLP over HTTP to the address in OpenTelemetry's own variable
    (`OTEL_EXPORTER_OTLP_ENDPOINT`), every ten seconds or every `OTEL_METRIC_EXPORT_INTERVAL` milliseconds. A worker
    sends its last interval while it idles, before Spark ends it; a killed worker loses it.
    """
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource

    if exporter is None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        exporter = OTLPMetricExporter()
    resource = Resource.create({"service.instance.id": process})
    every_ms = None if os.environ.get("OTEL_METRIC_EXPORT_INTERVAL") else _PUSH_EVERY_MS  # None: as that says
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=every_ms)
    provider = MeterProvider([reader], resource=resource)
    bind(source, provider)
    return provider


class _Look:
    """The source's last snapshot, kept for a moment."""

    def __init__(self, source: Callable[[], Snapshot]) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._found: Snapshot | None = None
        self._until_s = 0.0

    def __call__(self) -> Snapshot:
        with self._lock:
            if self._found is None or time.monotonic() >= self._until_s:
                self._found = self._source()
                self._until_s = time.monotonic() + _KEEP_S
            return self._found


def _callback(observe: Callable[[], Iterator[Observation]]) -> Callable[[object], Iterable[Observation]]:
    return lambda _options: list(observe())


def _plain(metric: Metric, look: _Look) -> Iterator[Observation]:
    found = look().counters if metric.kind == "counter" else look().gauges
    for (name, labels), value in found.items():
        if name == metric.name:
            yield Observation(float(value), dict(zip(metric.labels, labels, strict=True)))


def _histogram(metric: Metric, part: str, look: _Look) -> Iterator[Observation]:
    bounds = [*(repr(bound) for bound in metric.buckets), "+Inf"]
    for (name, labels), (counts, total) in look().histograms.items():
        if name != metric.name:
            continue
        attributes = dict(zip(metric.labels, labels, strict=True))
        if part == "bucket":
            for bound, count in zip(bounds, accumulate(counts), strict=True):
                yield Observation(count, attributes | {"le": bound})
        else:
            yield Observation(sum(counts) if part == "count" else total, attributes)


def _unit(name: str) -> str:
    stem = name.removesuffix("_total")
    return "s" if stem.endswith("_seconds") else "By" if "bytes" in stem else "1"
