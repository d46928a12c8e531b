"""`Serving`: a server of ours that listens: its names, its token, its certificate, its thread; and its page's files."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from kafkasource.kafka.security.exchange import is_this_machine
from kafkasource.tools.web.access import Access, ServerKind
from kafkasource.tools.web.certificate import ServerCertificate
from kafkasource.tools.web.handler import Handler, HttpResponse, Request
from kafkasource.tools.web.server import Server

_POLL_S = 0.1  # how long `close` may wait for the server's thread
_ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # and how they are reached from here


@dataclass(frozen=True, slots=True)
class Listening:
    """The address of a server, and the conditions of its requests. Environment variables add host names; without a
    token or files here, they may have some."""

    host: str = "127.0.0.1"
    port: int = 0  # 0: any that is free
    allowed_hosts: Iterable[str] = ()
    token: str | None = field(default=None, repr=False)
    certificate: str | Path | None = None
    key: str | Path | None = None


class Serving(ABC):
    """Serves until it is closed, from daemon threads."""

    kind: ClassVar[ServerKind]
    takes_posts = False

    def __init__(self, at: Listening) -> None:
        """Requests may come before this returns. Raises OSError where the port is taken, OptionError for files or a
        token that cannot be used."""
        names = [*at.allowed_hosts, *(self.kind.variable("HOSTS") or "").split(",")]
        if not is_this_machine(at.host):
            names.append(socket.gethostname())
        if at.host not in _ALL_ADDRESSES:
            names.append(at.host)
        token = self.kind.variable("TOKEN") if at.token is None else at.token
        certificate = ServerCertificate.of(self.kind, at.certificate, at.key)
        attributes = {
            "answer": self.answer,
            "access": Access.of(self.kind, names, token),
            "takes_posts": self.takes_posts,
        }
        self._scheme = "http" if certificate is None else "https"
        self._server = Server((at.host, at.port), type("_Handler", (Handler,), attributes), certificate)
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(_POLL_S,), name=self.kind.thread, daemon=True)
        self._thread.start()

    @abstractmethod
    def answer(self, request: Request) -> HttpResponse:
        """In the thread of the connection."""

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The address, without a slash at its end."""
        host = str(self._server.server_address[0])
        host = _ALL_ADDRESSES.get(host, f"[{host}]" if ":" in host else host)
        return f"{self._scheme}://{host}:{self.port}"

    def close(self) -> None:
        """Close the server, and cut off answers that are under way."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def file_of(room: str, name: str) -> str:
    """A file of a page, in `web` (common.css, common.js), `ui` or `monitor`."""
    return (files(f"kafkasource.tools.{room}") / name).read_text()
