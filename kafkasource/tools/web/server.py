"""The HTTP server below a site: a thread for each connection, and TLS where there is a certificate.

Everybody who reaches the port can open connections, before a token or a name is checked. So there are at most
MOST_CONNECTIONS at a time; the server answers 503 to others and closes. `Handler` gives each one a deadline.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kafkasource.tools.web.certificate import ServerCertificate

log = logging.getLogger("kafkasource.web")

MOST_CONNECTIONS = 64
_HANDSHAKE_S = 30.0  # for a client that does not finish its handshake
_HANDSHAKE = b"\x16"  # the first byte of every connection with TLS
_PLAIN = b"this port speaks TLS: use https://\n"
_BUSY = b"this server has too many connections: try again\n"
_ANSWER = b"HTTP/1.1 %b\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
_REFUSAL = _ANSWER % (b"400 Bad Request", len(_PLAIN), _PLAIN)
_TOO_MANY = _ANSWER % (b"503 Service Unavailable", len(_BUSY), _BUSY)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # connections that the system accepts before this process does

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        certificate: ServerCertificate | None,
    ) -> None:
        """Listens from now on. Raises OSError where the port is taken."""
        self._certificate = certificate
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        self.address_family = _family(address[0])
        super().__init__(address, handler)

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """In the thread that accepts, so it waits for nobody."""
        assert isinstance(request, socket.socket)
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        request.setblocking(False)
        with contextlib.suppress(OSError):
            if self._certificate is None:
                request.send(_TOO_MANY)
        self.shutdown_request(request)

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

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
        """Log a client's fault at debug level. The standard library would print it in the user's program."""
        log.debug("connection from %s ended: %s", client_address, sys.exc_info()[1])


def _family(host: str) -> socket.AddressFamily:
    """IPv6 for an address of it; a name is looked up as IPv4."""
    try:
        return socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        return socket.AF_INET
