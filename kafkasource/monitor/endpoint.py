"""An HTTP server for metrics: Prometheus' text, the same as JSON, and the page. Standard library only.

    GET /                     the page
    GET /metrics              Prometheus' text format (needs the extra `prometheus`)
    GET /api/queries          streaming queries: lag, rates, history
    GET /api/queries/<id>     Spark's last progress of one query, unchanged
    GET /api/metrics          all metrics as JSON

It shows names of topics and queries, and changes nothing. It listens on this machine only, unless an address is given.
`access` decides which requests may read; with a certificate (`certificate`) they come over TLS.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from pathlib import Path

from kafkasource.metrics.snapshot import Snapshot
from kafkasource.metrics.table import METRICS
from kafkasource.monitor.access import LOOKED_AT, Access, Refusal
from kafkasource.monitor.certificate import ServerCertificate
from kafkasource.monitor.queries import Queries
from kafkasource.monitor.server import Server

HOSTS_ENVIRONMENT = "KAFKASOURCE_METRICS_HOSTS"  # names, with commas between them
TOKEN_ENVIRONMENT = "KAFKASOURCE_METRICS_TOKEN"

log = logging.getLogger("kafkasource.metrics")

_POLL_S = 0.1  # how long `close` may wait for the server's thread
_JSON = "application/json; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_NO_CLIENT = "prometheus-client is not installed: pip install 'kafkasource[prometheus]'; /api/metrics has the same\n"

_ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # and how they are reached from here

Answer = tuple[int, str, bytes]


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
        """`port` 0: any that is free. `allowed_hosts`, `token`, `certificate`, `key`: as `serve_metrics` has them.

        The environment adds names, and has the token and the files where none are given. Raises OSError where the port
        is taken, OptionError for files or a token that cannot be used.
        """
        self._snapshot = snapshot
        self._queries = queries or Queries()
        endpoint = self
        token = os.environ.get(TOKEN_ENVIRONMENT) or None if token is None else token
        names = [*allowed_hosts, *os.environ.get(HOSTS_ENVIRONMENT, "").split(",")]
        if not _is_loopback(host):
            names.append(socket.gethostname())
        if host not in _ALL_ADDRESSES:
            names.append(host)

        class Handler(_Handler):
            answer = staticmethod(endpoint._answer)
            access = Access.of(names, token)

        own = ServerCertificate.of(certificate, key)
        self._scheme = "http" if own is None else "https"
        self._server = Server((host, port), Handler, own)
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(_POLL_S,), name="kafkasource-metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        host = str(self._server.server_address[0])
        host = _ALL_ADDRESSES.get(host, host)
        return f"{self._scheme}://{host}:{self.port}"

    def close(self) -> None:
        """Close the server, and cut off answers that are under way."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, path: str) -> Answer:
        if path == "/":
            return 200, "text/html; charset=utf-8", page()
        if path == "/metrics":
            return self._prometheus()
        if path == "/api/metrics":
            return 200, _JSON, _dumped(as_json(self._snapshot()))
        if path == "/api/queries":
            return 200, _JSON, _dumped(self._queries.as_json())
        if path.startswith("/api/queries/"):
            progress = self._queries.progress(path.removeprefix("/api/queries/"))
            if progress is not None:
                return 200, _JSON, _dumped(progress)
        return 404, _TEXT, b"there is /, /metrics, /api/queries and /api/metrics\n"

    def _prometheus(self) -> Answer:
        try:
            from kafkasource.metrics import prometheus
        except ImportError:
            return 501, _TEXT, _NO_CLIENT.encode()
        return 200, prometheus.CONTENT_TYPE, prometheus.text(self._snapshot())


class _Handler(BaseHTTPRequestHandler):
    server_version = "kafkasource"
    sys_version = ""
    timeout = 30  # seconds, for a client that does not finish its request
    answer: Callable[[str], Answer]
    access: Access

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        headers = {name: self.headers[name] for name in LOOKED_AT if name in self.headers}
        refusal = self.access.refusal(path, headers, str(self.connection.getsockname()[0]))
        try:
            status, kind, body = self.answer(path) if refusal is None else _refused(refusal)
        except Exception as error:
            log.warning("GET %s failed", self.path, exc_info=True)
            status, kind, body = 500, _TEXT, f"{type(error).__name__}: see the log\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if kind.startswith("text/html"):
            self.send_header("Content-Security-Policy", _PAGE_POLICY)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        log.debug("%s " + format, self.address_string(), *args)


def _refused(refusal: Refusal) -> Answer:
    return refusal.status, _TEXT, f"{refusal.reason}\n".encode()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def page() -> bytes:
    return (files("kafkasource.monitor") / "page.html").read_bytes()


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


def _dumped(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
