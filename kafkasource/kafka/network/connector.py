"""Host names to addresses, addresses to connections."""

from __future__ import annotations

import errno
import os
import socket

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.sockets import Address, PlaintextTransport, Transport
from kafkasource.kafka.network.tls_transport import RECEIVE_BYTES, TlsTransport
from kafkasource.kafka.security.tls.stream import TlsStream


class SocketConnector:
    """The real network: TCP, and TLS on it where `security.protocol` says so. Non-blocking, except `resolve`.

    It sets TCP_NODELAY: a request is complete when it is written, so Nagle's algorithm has nothing to wait for.
    The thread that polls the client calls `open`.
    """

    resolve_blocks = True

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._received: memoryview | None = None  # see TlsTransport

    @staticmethod
    def resolve(host: str, port: int) -> list[Address]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(Address(family, sockaddr, host) for family, _, _, _, sockaddr in found))

    def open(self, address: Address) -> Transport:
        sock = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, size in (
                (socket.SO_RCVBUF, self._config.receive_buffer_bytes),
                (socket.SO_SNDBUF, self._config.send_buffer_bytes),
            ):
                if size > 0:
                    sock.setsockopt(socket.SOL_SOCKET, option, size)
            code = sock.connect_ex(address.sockaddr)
            if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                raise OSError(code, os.strerror(code))
        except OSError:
            sock.close()
            raise
        plain = PlaintextTransport(sock)
        return self._encrypted(plain, address.name) if self._config.security.encrypts else plain

    def _encrypted(self, plain: PlaintextTransport, host: str) -> Transport:
        """Files are read here where they have changed, so a renewed certificate counts from the next connection on."""
        if self._received is None:
            self._received = memoryview(bytearray(RECEIVE_BYTES))
        try:
            return TlsTransport(plain, TlsStream(self._config.security.tls_context().setup(), host), self._received)
        except KafkaSourceError:
            plain.close()
            raise
