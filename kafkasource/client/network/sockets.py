"""Sockets: host names to addresses, addresses to byte streams. All non-blocking, but for `resolve` (see `resolver`).

`Transport` is where TLS and SASL will sit: `finish_connect` then also drives their handshakes. PLAINTEXT only today.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kafkasource.client.config import ClientConfig

Buffer = bytes | bytearray | memoryview
_MAX_PIECES = 64  # of one sendmsg; systems allow 1024, and more than a few gain nothing


@dataclass(frozen=True, slots=True)
class Address:
    """One result of the resolver."""

    family: int
    sockaddr: tuple[Any, ...]

    def __str__(self) -> str:
        host, port = self.sockaddr[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Transport(Protocol):
    """A byte stream to one address. Methods raise OSError when the stream broke."""

    def fileno(self) -> int: ...

    def finish_connect(self) -> bool:
        """Called when the socket got writable: True once bytes may flow."""

    def receive_into(self, target: memoryview) -> int | None:
        """Bytes received; 0 at the end of the stream, None when there are none right now."""

    def send(self, pieces: Sequence[Buffer]) -> int:
        """Bytes taken, from the front of the pieces; 0 when the socket is full."""

    def close(self) -> None: ...


class Connector(Protocol):
    """Makes transports; tests bring their own."""

    @property
    def resolve_blocks(self) -> bool:
        """Is `resolve` to be called in a thread of the resolver's?"""

    def resolve(self, host: str, port: int) -> list[Address]:
        """All addresses of a host name, in the system's order. Raises OSError."""

    def open(self, address: Address) -> Transport:
        """Begin to connect. Raises OSError where that fails at once."""


class PlaintextTransport:
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def fileno(self) -> int:
        return self._socket.fileno()

    def finish_connect(self) -> bool:
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        return True

    def receive_into(self, target: memoryview) -> int | None:
        try:
            return self._socket.recv_into(target)
        except (BlockingIOError, InterruptedError):
            return None

    def send(self, pieces: Sequence[Buffer]) -> int:
        try:
            return self._socket.sendmsg(pieces[:_MAX_PIECES])
        except (BlockingIOError, InterruptedError):
            return 0

    def close(self) -> None:
        # close, not shutdown: after a fork the other process may still use the connection.
        self._socket.close()


class SocketConnector:
    """TCP, without delay: a request is complete when it is written, so there is nothing for Nagle to wait for."""

    resolve_blocks = True

    def __init__(self, config: ClientConfig) -> None:
        self._config = config

    @staticmethod
    def resolve(host: str, port: int) -> list[Address]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(Address(family, sockaddr) for family, _, _, _, sockaddr in found))

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
        return PlaintextTransport(sock)


def reason_of(error: OSError | UnicodeError) -> str:
    """What a user reads of it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} (errno {error.errno})" if error.errno is not None else error.strerror
    return str(error) or type(error).__name__
