"""One HTTP request of a site, and its answer. Every answer has the headers that keep other sites' pages out."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.security.exchange import BoundedSocket, HttpAnswerTooLarge
from kafkasource.kafka.security.quoting import printable
from kafkasource.tools.web.access import LOOKED_AT, Access

log = logging.getLogger("kafkasource.web")

HTML = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"

_MOST_BODY_BYTES = 2 << 20  # of a request: a record that is written, in base64
_MOST_REQUEST_BYTES = _MOST_BODY_BYTES + (1 << 20)  # with its headers
_REQUEST_S = 30.0  # for a client that sends a byte now and then, in seconds


class HttpResponse(NamedTuple):
    status: int
    content_type: str
    body: bytes


class Request(NamedTuple):
    path: str  # without the query
    query: dict[str, str]  # of repeated names the last one counts
    body: bytes | None = None  # None: GET


class RequestRefused(KafkaSourceError):
    """A request that cannot be answered as it is; `status` is HTTP's."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def as_json(document: object, status: int = 200) -> HttpResponse:
    return HttpResponse(status, JSON, json.dumps(document, separators=(",", ":")).encode())


def as_text(text: str, status: int) -> HttpResponse:
    return HttpResponse(status, TEXT, f"{text}\n".encode())


class Handler(BaseHTTPRequestHandler):
    """`Serving` makes a subclass with the attributes."""

    server_version = "kafkasource"
    sys_version = ""
    timeout = _REQUEST_S  # for a client that does not take its answer
    answer: Callable[[Request], HttpResponse]
    access: Access
    takes_posts: bool

    def setup(self) -> None:
        """Give the whole request one deadline and a limit: without them only the pauses between its bytes have one."""
        super().setup()
        self.rfile.close()
        deadline = time.monotonic() + _REQUEST_S
        self.rfile = io.BufferedReader(BoundedSocket(self.connection, time.monotonic, deadline, _MOST_REQUEST_BYTES))

    def do_GET(self) -> None:
        self._respond(lambda request: request)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self._respond(self._with_body)

    def _respond(self, complete: Callable[[Request], Request]) -> None:
        try:
            split = urlsplit(self.path)
        except ValueError:  # `http://[`, say
            self._send(as_text("the target of the request is not a URL", 400))
            return
        headers = {name: self.headers[name] for name in LOOKED_AT if name in self.headers}
        refusal = self.access.refusal(split.path, headers, str(self.connection.getsockname()[0]))
        try:
            if refusal is not None:
                self._send(as_text(refusal.reason, refusal.status))
                return
            query = {name: values[-1] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
            response = self.answer(complete(Request(split.path, query)))
        except RequestRefused as refused:
            response = as_text(str(refused), refused.status)
        except (ConnectionError, TimeoutError, HttpAnswerTooLarge):  # the client: `Server.handle_error` notes it
            raise
        except Exception as error:
            log.warning("%s %s failed", self.command, printable(split.path), exc_info=True)
            response = as_text(f"{type(error).__name__}: see the log", 500)
        self._send(response)

    def _with_body(self, request: Request) -> Request:
        """Read the body. A page of another origin can send no JSON without asking first, and is not allowed to."""
        if not self.takes_posts:
            raise RequestRefused(405, "this server changes nothing")
        if self.headers.get_content_type() != "application/json":
            raise RequestRefused(415, "send JSON: Content-Type: application/json")
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            raise RequestRefused(411, "send a Content-Length")
        if int(length) > _MOST_BODY_BYTES:
            raise RequestRefused(413, f"a request may have at most {_MOST_BODY_BYTES} bytes")
        return request._replace(body=self.rfile.read(int(length)))

    def _send(self, response: HttpResponse) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        if response.status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if response.content_type.startswith("text/html"):
            self.send_header("Content-Security-Policy", self.access.kind.policy)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:
        log.debug("%s %s", self.address_string(), printable(format % args))
