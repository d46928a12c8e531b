"""OpenTelemetry's SDK collects what was counted."""

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExporter, MetricExportResult

from kafkasource import metrics
from kafkasource.metrics import otel
from kafkasource.metrics.counting import ProcessCounts


def points(data):
    """The metric of each name with the (attributes, value) of its points."""
    found = {}
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                found[metric.name] = metric, [(dict(p.attributes), p.value) for p in metric.data.data_points]
    return found


def test_counters_gauges_and_histograms_arrive():
    counts = ProcessCounts(publish=lambda _: None)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    otel.bind(counts.snapshot, provider)
    counts.count("kafkasource_bytes_written_total", 99, "east", "t")
    counts.poll(counts, lambda _: [("kafkasource_query_active", ("q",), 1)])
    for seconds in (0.2, 0.3, 40.0):
        counts.observe("kafkasource_fetch_latency_seconds", seconds)
    found = points(reader.get_metrics_data())
    provider.shutdown()
    written, values = found["kafkasource_bytes_written_total"]
    assert (written.unit, values) == ("By", [({"cluster_name": "east", "topic": "t"}, 99)])
    assert found["kafkasource_query_active"][1] == [({"query": "q"}, 1)]
    assert found["kafkasource_fetch_latency_seconds_count"][1] == [({}, 3)]
    buckets = {attributes["le"]: value for attributes, value in found["kafkasource_fetch_latency_seconds_bucket"][1]}
    assert (buckets["0.1"], buckets["0.25"], buckets["0.5"], buckets["+Inf"]) == (0, 1, 2, 3)
    assert found["kafkasource_fetch_latency_seconds_sum"][0].unit == "s"


def test_a_worker_pushes_what_it_counts_itself():
    class Kept(MetricExporter):
        def __init__(self):
            super().__init__()
            self.exported = []

        def export(self, metrics_data, timeout_millis=10_000, **_):
            self.exported.append(metrics_data)
            return MetricExportResult.SUCCESS

        def shutdown(self, timeout_millis=30_000, **_):
            pass

        def force_flush(self, timeout_millis=10_000):
            return True

    kept = Kept()
    metrics.count("kafkasource_records_read_total", 5, "pushed")
    own = metrics.process_counts()
    provider = otel.push(own.snapshot, own.process, kept)
    provider.force_flush()
    provider.shutdown()
    assert ({"topic": "pushed"}, 5) in points(kept.exported[0])["kafkasource_records_read_total"][1]
    instance = kept.exported[0].resource_metrics[0].resource.attributes["service.instance.id"]
    assert instance == own.process


def test_a_worker_whose_environment_says_so_pushes_over_http():
    received = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    environment = {
        **os.environ,
        "KAFKASOURCE_OTEL": "1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
    }
    # `publish` waits five seconds: on a busy machine the exporter's import alone takes longer.
    worker = (
        "import opentelemetry.exporter.otlp.proto.http.metric_exporter, opentelemetry.sdk.metrics.export\n"
        "from kafkasource import metrics\nmetrics.count('kafkasource_records_read_total', 5, 'far')\nmetrics.publish()"
    )
    try:
        subprocess.run([sys.executable, "-c", worker], env=environment, check=True, timeout=60)
    finally:
        server.shutdown()
        server.server_close()
    path, body = received[-1]
    assert path == "/v1/metrics"
    (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    (scope,) = resource.scope_metrics
    (metric,) = (one for one in scope.metrics if one.name == "kafkasource_records_read_total")
    (point,) = metric.sum.data_points
    assert point.as_double == 5
    assert metric.sum.is_monotonic
    assert [(one.key, one.value.string_value) for one in point.attributes] == [("topic", "far")]
