"""Metrics for OpenTelemetry (`pip install 'kafkasource[otel]'`): instruments that read the counts when the SDK asks.

Names and attributes are the table's. OpenTelemetry accepts no histogram that another library has counted, so a
histogram is three counters, as in Prometheus' text: `_count`, `_sum`, and `_bucket` with the attribute `le`.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from opentelemetry import metrics as otel
from opentelemetry.metrics import Observation

from kafkasource.metrics.snapshot import Snapshot
from kafkasource.metrics.table import TABLE

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExporter

_KEEP_S = 0.5  # one look serves all instruments of one collection
_PUSH_EVERY_MS = 10_000  # Spark ends a worker that idles after a minute


def bind(source: Callable[[], Snapshot], meter_provider: otel.MeterProvider | None = None) -> None:
    """Make the instruments. They stay until the meter provider is shut down.

    `source`: the method `snapshot` of `serve_metrics`'s object, on the driver. `meter_provider`: the global provider,
    if none is given.
    """
    meter = (meter_provider or otel.get_meter_provider()).get_meter("kafkasource")
    look = _Look(source)

    def callback(name: str) -> Callable[[object], list[Observation]]:
        return lambda _options: look().get(name, [])

    for metric in TABLE:
        if metric.kind == "gauge":
            meter.create_observable_gauge(metric.name, [callback(metric.name)], _unit(metric.name), metric.help)
        elif metric.kind == "counter":
            meter.create_observable_counter(metric.name, [callback(metric.name)], _unit(metric.name), metric.help)
        else:
            for part, unit in (("bucket", "1"), ("count", "1"), ("sum", "s")):
                name = f"{metric.name}_{part}"
                meter.create_observable_counter(name, [callback(name)], unit, metric.help)


def push(source: Callable[[], Snapshot], process: str, exporter: MetricExporter | None = None) -> MeterProvider:
    """Send the counts of this process to a collector at intervals. Returns the SDK's MeterProvider.

    `source` and `process`: `ProcessCounts.snapshot` and `ProcessCounts.process`.

    For executors on hosts where no process collects: with `KAFKASOURCE_OTEL=1` in their environment each worker does
    this when it first publishes. It sends OTLP over HTTP to the address in OpenTelemetry's own variable
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
    """The observations of the source's last snapshot by name of the instrument, kept for a moment."""

    def __init__(self, source: Callable[[], Snapshot]) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._observations: dict[str, list[Observation]] = {}
        self._until_s = -math.inf

    def __call__(self) -> dict[str, list[Observation]]:
        with self._lock:
            if time.monotonic() >= self._until_s:
                observations: defaultdict[str, list[Observation]] = defaultdict(list)
                for metric, samples in self._source().samples():
                    for suffix, labels, value in samples:
                        observations[metric.name + suffix].append(Observation(value, labels))
                self._observations = observations
                self._until_s = time.monotonic() + _KEEP_S
            return self._observations


def _unit(name: str) -> str:
    stem = name.removesuffix("_total")
    return "s" if stem.endswith("_seconds") else "By" if "bytes" in stem else "1"
