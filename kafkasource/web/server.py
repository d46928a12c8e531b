"""The HTTP server below a site: a thread for each connection, and TLS where there is a certificate."""

from __future__ import annotations

import logging
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kafkasource.web.certificate import ServerCertificate

log = logging.getLogger("kafkasource.web")

_HANDSHAKE_S = 30.0  # for a client that does not finish its handshake
_HANDSHAKE = b"\x16"  # the first byte of every connection with TLS
_PLAIN = b"this port speaks TLS: use https://\n"
_REFUSAL = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_PLAIN), _PLAIN)
)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        certificate: ServerCertificate | None,
    ) -> None:
        """Listens from now on. Raises OSError where the port is taken."""
        self._certificate = certificate
        super().__init__(address, handler)

    def finish_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """In the thread of the connection, so a slow handshake holds up nobody else."""
        assert isinstance(request, socket.socket)
        if self._certificate is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(_HANDSHAKE_S)
        if request.recv(1, socket.MSG_PEEK) not in (_HANDSHAKE, b""):
            request.sendall(_REFUSAL)
            return
        with self._certificate.context().wrap_socket(request, server_side=True) as encrypted:
            super().finish_request(encrypted, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """What a client does wrong is no error of the user's program: the standard library would print it there."""
        log.debug("connection from %s ended: %s", client_address, sys.exc_info()[1])
