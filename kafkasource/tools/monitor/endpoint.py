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

from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path

from kafkasource.metrics import exposition
from kafkasource.metrics.snapshot import Snapshot
from kafkasource.metrics.table import METRICS
from kafkasource.tools.monitor.queries import Queries
from kafkasource.tools.web import handler
from kafkasource.tools.web.access import Kind
from kafkasource.tools.web.handler import Answer, Request, as_text
from kafkasource.tools.web.page import with_common_parts
from kafkasource.tools.web.site import Site

KIND = Kind(
    "the metrics server",
    "KAFKASOURCE_METRICS",
    "serve_metrics(allowed_hosts=...), pykafka metrics --allow-host or KAFKASOURCE_METRICS_HOSTS",
    "'token', the file of --token-file, or KAFKASOURCE_METRICS_TOKEN",
    "kafkasource-metrics",
)

_PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self';"
    " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Endpoint:
    """Serves until it is closed, from daemon threads."""

    def __init__(
        self,
        host: str,
        port: int,
        snapshot: Callable[[], Snapshot],
        queries: Queries | None = None,
        *,
        allowed_hosts: Iterable[str] = (),
        token: str | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
    ) -> None:
        """The arguments are those of `Site` and `serve_metrics`; raises as `Site` does."""
        self._snapshot = snapshot
        self._queries = queries or Queries()
        self._site = Site(
            KIND,
            host,
            port,
            self._answer,
            policy=_PAGE_POLICY,
            allowed_hosts=allowed_hosts,
            token=token,
            certificate=certificate,
            key=key,
        )

    @property
    def port(self) -> int:
        return self._site.port

    @property
    def url(self) -> str:
        return self._site.url

    def close(self) -> None:
        self._site.close()

    def _answer(self, request: Request) -> Answer:
        path = request.path
        if path == "/":
            return Answer(200, handler.HTML, page())
        if path == "/metrics":
            return Answer(200, exposition.CONTENT_TYPE, exposition.text(self._snapshot()))
        if path == "/api/metrics":
            return handler.as_json(as_json(self._snapshot()))
        if path == "/api/queries":
            return handler.as_json(self._queries.as_json())
        if path.startswith("/api/queries/"):
            progress = self._queries.progress(path.removeprefix("/api/queries/"))
            if progress is not None:
                return handler.as_json(progress)
        return as_text("there is /, /metrics, /api/queries and /api/metrics", 404)


def page() -> bytes:
    return with_common_parts((files("kafkasource.tools.monitor") / "page.html").read_text()).encode()


def as_json(found: Snapshot) -> list[dict[str, object]]:
    """Each value with its labels by name, sorted. A histogram has the count of each bucket, not cumulative, and the
    sum."""
    rows: list[dict[str, object]] = []
    for (name, labels), value in sorted([*found.counters.items(), *found.gauges.items()]):
        rows.append({"name": name, "labels": _labelled(name, labels), "value": value})
    for (name, labels), (counts, total) in sorted(found.histograms.items()):
        bounds = [*METRICS[name].buckets, None]
        buckets = [[bound, count] for bound, count in zip(bounds, counts, strict=True)]
        rows.append(
            {"name": name, "labels": _labelled(name, labels), "buckets": buckets, "count": sum(counts), "sum": total}
        )
    return rows


def _labelled(name: str, labels: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(METRICS[name].labels, labels, strict=True))
