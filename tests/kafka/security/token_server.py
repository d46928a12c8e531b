"""A token endpoint on localhost that answers as a test says, and notes what it was asked."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import BinaryIO
from urllib.parse import parse_qs


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, str]


@dataclass
class Endpoint:
    """`answers`: (status, body) one after another, the last of them for ever."""

    url: str = ""
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    write: Callable[[BinaryIO, bytes], object] = lambda stream, body: stream.write(body)


def jwt(**claims: object) -> str:
    """A token that nobody has signed."""

    def part(of: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(of).encode()).decode().rstrip("=")

    return f"{part({'alg': 'RS256'})}.{part(claims)}.c2ln"


def granted(token: str, **more: object) -> tuple[int, bytes]:
    return 200, json.dumps({"access_token": token, "token_type": "Bearer", **more}).encode()


@contextmanager
def an_endpoint(*answers: tuple[int, bytes], context=None) -> Iterator[Endpoint]:
    endpoint = Endpoint(answers=list(answers) or [granted(jwt(exp=time.time() + 3600))])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            form = {name: values[0] for name, values in parse_qs(body, keep_blank_values=True).items()}
            endpoint.requests.append(Request(self.command, self.path, dict(self.headers), form))
            status, answer = endpoint.answers[0] if len(endpoint.answers) == 1 else endpoint.answers.pop(0)
            try:
                self.send_response(status)
                for name, value in endpoint.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                endpoint.write(self.wfile, answer)
            except OSError:
                pass  # the client has had enough

        do_GET = do_PUT = do_POST

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    endpoint.url = f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_port}/token"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
