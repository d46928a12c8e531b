"""A schema registry on localhost by the standard library: Confluent's API in memory, faults that a test asks for, and
a note of each request."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

Answer = tuple[int, bytes]


def json_answer(status: int, value: object) -> Answer:
    return status, json.dumps(value).encode()


def refusal(status: int, code: int, message: str = "") -> Answer:
    return json_answer(status, {"error_code": code, "message": message})


@dataclass
class Fault:
    """In place of an answer, once."""

    status: int = 503
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    write: Callable[[Any, bytes], object] = lambda stream, body: stream.write(body)


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class FakeRegistry:
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)  # the next requests get them, one each
    always: Fault | None = None  # every request gets it
    user: str | None = None  # the `Authorization` that it wants
    compatible: bool = True
    silent_check: bool = False  # whether the check gives no reason, as Apicurio 3.0 does
    by_id: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, dict[int, int]] = field(default_factory=dict)  # the ids of a subject's versions
    before: Callable[[Request], object] = lambda request: None  # called before each answer
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(
        self, subject: str, text: str, kind: str = "AVRO", references: tuple[tuple[str, str, int], ...] = ()
    ) -> int:
        """Register a schema: its id."""
        schema: dict[str, Any] = {"schema": text}
        if kind != "AVRO":
            schema["schemaType"] = kind
        if references:
            schema["references"] = [{"name": n, "subject": s, "version": v} for n, s, v in references]
        return self._register(subject, schema)

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def _register(self, subject: str, schema: dict[str, Any]) -> int:
        with self._lock:
            schema_id = next((each for each, found in self.by_id.items() if found == schema), len(self.by_id) + 1)
            self.by_id[schema_id] = schema
            versions = self.subjects.setdefault(subject, {})
            if schema_id not in versions.values():
                versions[max(versions, default=0) + 1] = schema_id
            return schema_id

    def answer(self, request: Request) -> Answer:
        path, _, _ = request.path.partition("?")
        words = [unquote(word) for word in path.strip("/").split("/")]
        if self.user is not None and request.headers.get("Authorization") != self.user:
            return refusal(401, 401, "Unauthorized")
        if words[:2] == ["schemas", "ids"]:
            found = self.by_id.get(int(words[2]))
            if found is not None and words[3:] == ["versions"]:
                return json_answer(200, self._places(int(words[2])))
            return refusal(404, 40403, "Schema not found") if found is None else json_answer(200, found)
        if words == ["subjects"]:
            return json_answer(200, list(self.subjects))
        if words[0] == "compatibility":
            silent = self.compatible or self.silent_check
            messages = [] if silent else ["READER_FIELD_MISSING_DEFAULT_VALUE: field 'extra'"]
            return json_answer(200, {"is_compatible": self.compatible, "messages": messages})
        if words[0] == "subjects":
            return self._of_subject(words[1], words[2:], request)
        return 404, b"<html>no such page</html>"

    def _places(self, schema_id: int) -> list[dict[str, Any]]:
        return [
            {"subject": subject, "version": number}
            for subject, versions in self.subjects.items()
            for number, each in versions.items()
            if each == schema_id
        ]

    def _of_subject(self, subject: str, words: list[str], request: Request) -> Answer:
        if request.method == "POST" and words == ["versions"]:
            if not self.compatible:
                return refusal(409, 409, "Schema being registered is incompatible: field 'extra' has no default")
            return json_answer(200, {"id": self._register(subject, request.body)})
        versions = self.subjects.get(subject)
        if versions is None:
            return refusal(404, 40401, f"Subject '{subject}' not found.")
        if words == ["versions"]:
            return json_answer(200, list(versions))
        if request.method == "POST":
            at = next((number for number, each in versions.items() if self.by_id[each] == request.body), None)
            return refusal(404, 40403, "Schema not found") if at is None else self._version(subject, at)
        number = max(versions) if words[1] in ("latest", "-1") else int(words[1])
        return self._version(subject, number) if number in versions else refusal(404, 40402, "Version not found.")

    def _version(self, subject: str, number: int) -> Answer:
        schema_id = self.subjects[subject][number]
        return json_answer(200, {"subject": subject, "version": number, "id": schema_id, **self.by_id[schema_id]})


@contextmanager
def a_registry(context: ssl.SSLContext | None = None) -> Iterator[FakeRegistry]:
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.command, self.path, dict(self.headers), json.loads(body) if body else None)
            with registry._lock:
                registry.requests.append(request)
                fault = registry.faults.pop(0) if registry.faults else registry.always
            registry.before(request)
            try:
                if fault is None:
                    status, answer = registry.answer(request)
                    fault = Fault(status, answer, {"Content-Length": str(len(answer))})
                self.send_response(fault.status)
                for name, value in fault.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                fault.write(self.wfile, fault.body)
            except OSError:
                pass  # the client has had enough

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that ends its connection, or a TLS handshake

        def finish_request(self, request: Any, client_address: Any) -> None:
            if context is not None:
                request = context.wrap_socket(request, server_side=True)
            super().finish_request(request, client_address)
            request.close()

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry.url = f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
