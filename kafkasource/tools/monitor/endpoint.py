"""An HTTP server for metrics: Prometheus' text, the same as JSON, and the page. Standard library only.

    GET /                     the page
    GET /metrics              Prometheus' text format
    GET /api/queries          streaming queries: lag, rates, history
    GET /api/queries/<id>     Spark's last progress of one query, unchanged
    GET /api/metrics          all metrics as JSON

It shows names of topics and queries, and changes nothing. It listens on this machine only, unless an address is given.
`web` has the server below it: which requests may read, TLS.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasource.metrics import exposition
from kafkasource.metrics.snapshot import Snapshot
from kafkasource.metrics.table import METRICS
from kafkasource.tools.monitor.queries import Queries
from kafkasource.tools.web import handler
from kafkasource.tools.web.access import ServerKind
from kafkasource.tools.web.handler import HttpResponse, Request, as_text
from kafkasource.tools.web.serving import Listening, Serving, file_of


class MetricsServer(Serving):
    kind = ServerKind(
        "the metrics server",
        "KAFKASOURCE_METRICS",
        "serve_metrics(allowed_hosts=...), pykafka metrics --allow-host or KAFKASOURCE_METRICS_HOSTS",
        "'token', the file of --token-file, or KAFKASOURCE_METRICS_TOKEN",
        "kafkasource-metrics",
        policy="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self';"
        " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    )

    def __init__(self, at: Listening, snapshot: Callable[[], Snapshot], queries: Queries | None = None) -> None:
        self._snapshot = snapshot
        self._queries = queries or Queries()
        super().__init__(at)

    def answer(self, request: Request) -> HttpResponse:
        path = request.path
        if path == "/":
            return HttpResponse(200, handler.HTML, _page().encode())
        if path == "/metrics":
            return HttpResponse(200, exposition.CONTENT_TYPE, exposition.text(self._snapshot()))
        if path == "/api/metrics":
            return handler.as_json(as_json(self._snapshot()))
        if path == "/api/queries":
            return handler.as_json(self._queries.as_json())
        if path.startswith("/api/queries/"):
            progress = self._queries.progress(path.removeprefix("/api/queries/"))
            if progress is not None:
                return handler.as_json(progress)
        return as_text("there is /, /metrics, /api/queries and /api/metrics", 404)


def _page() -> str:
    """One file, with the common parts in place of the comments that name them."""
    page = file_of("monitor", "page.html")
    for name in ("common.css", "common.js"):
        page = page.replace(f"/* {name} */", file_of("web", name), 1)
    return page


def as_json(snapshot: Snapshot) -> list[dict[str, object]]:
    """Each value with its labels by name, sorted. A histogram has the count of each bucket, not cumulative, and the
    sum."""
    rows: list[dict[str, object]] = []
    for (name, labels), value in sorted([*snapshot.counters.items(), *snapshot.gauges.items()]):
        rows.append({"name": name, "labels": _labelled(name, labels), "value": value})
    for (name, labels), (counts, total) in sorted(snapshot.histograms.items()):
        bounds = [*METRICS[name].buckets, None]
        buckets = [[bound, count] for bound, count in zip(bounds, counts, strict=True)]
        rows.append(
            {"name": name, "labels": _labelled(name, labels), "buckets": buckets, "count": sum(counts), "sum": total}
        )
    return rows


def _labelled(name: str, labels: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(METRICS[name].labels, labels, strict=True))
