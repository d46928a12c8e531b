"""A server of ours that listens: its names, its token, its certificate, its thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from kafkasource.kafka.security.exchange import is_this_machine
from kafkasource.tools.web.access import Access, Kind
from kafkasource.tools.web.certificate import ServerCertificate
from kafkasource.tools.web.handler import Answer, Handler, Request
from kafkasource.tools.web.server import Server

_POLL_S = 0.1  # how long `close` may wait for the server's thread
_ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # and how they are reached from here


class Site:
    """Serves until it is closed, from daemon threads. It listens on this machine only, unless an address is given."""

    def __init__(
        self,
        kind: Kind,
        host: str,
        port: int,
        answer: Callable[[Request], Answer],
        *,
        policy: str,
        open_paths: Iterable[str] = ("/",),
        takes_posts: bool = False,
        allowed_hosts: Iterable[str] = (),
        token: str | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
    ) -> None:
        """`port` 0: any that is free. The environment (`kind`) adds names, and has the token and the files where none
        are given.

        Raises OSError where the port is taken, OptionError for files or a token that cannot be used.
        """
        names = [*allowed_hosts, *(kind.variable("HOSTS") or "").split(",")]
        if not is_this_machine(host):
            names.append(socket.gethostname())
        if host not in _ALL_ADDRESSES:
            names.append(host)
        attributes = {
            "answer": staticmethod(answer),
            "access": Access.of(kind, names, kind.variable("TOKEN") if token is None else token, open_paths),
            "policy": policy,
            "takes_posts": takes_posts,
        }
        own = ServerCertificate.of(kind, certificate, key)
        self._scheme = "http" if own is None else "https"
        self._server = Server((host, port), type("_Handler", (Handler,), attributes), own)
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(_POLL_S,), name=kind.thread, daemon=True)
        self._thread.start()

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
