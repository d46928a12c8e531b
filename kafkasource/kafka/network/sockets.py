"""A connection as the layers above see it: addresses, and byte streams to them. And the plain stream.

`Transport` is where TLS sits (`tls_transport`): `finish_connect` then drives its handshake, too.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Buffer = bytes | bytearray | memoryview
_MAX_PIECES = 64  # of one sendmsg; systems allow 1024, and more than a few gain nothing


@dataclass(frozen=True, slots=True)
class Address:
    """One result of the resolver."""

    family: int
    sockaddr: tuple[Any, ...]
    name: str = ""  # that was looked up: what the broker's certificate must be for

    def __str__(self) -> str:
        host, port = self.sockaddr[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Transport(Protocol):
    """A byte stream to one address. Methods raise OSError when the stream broke, and TlsError where TLS refuses."""

    def fileno(self) -> int: ...

    def finish_connect(self) -> bool:
        """Called when the socket got writable, and after a False for each event of it: True once bytes may flow."""

    def receive_into(self, target: memoryview) -> int | None:
        """Bytes received; 0 at the end of the stream, None when there are none right now."""

    def send(self, pieces: Sequence[Buffer]) -> int:
        """Bytes taken, from the front of the pieces; 0 when the socket is full."""

    def flush(self) -> bool:
        """Send what the transport itself holds back; False: the socket is full, so call again when it is not."""

    @property
    def unread(self) -> bool:
        """Are there bytes to receive that the socket does not have any more, so that no selector tells of them?"""

    @property
    def own_certificate(self) -> bytes | None:
        """The client's certificate, which it shows to a broker that asks for one: DER."""

    def close(self) -> None: ...


class Connector(Protocol):
    """Makes transports; tests bring their own."""

    @property
    def resolve_blocks(self) -> bool:
        """Is `resolve` to be called in a thread of the resolver's?"""

    def resolve(self, host: str, port: int) -> list[Address]:
        """All addresses of a host name, in the system's order. Raises OSError."""

    def open(self, address: Address) -> Transport:
        """Begin to connect. Raises OSError where that fails at once, and OptionError where TLS cannot be set up."""


class PlaintextTransport:
    own_certificate = None

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

    def flush(self) -> bool:
        return True

    @property
    def unread(self) -> bool:
        return False

    def close(self) -> None:
        # close, not shutdown: after a fork the other process may still use the connection.
        self._socket.close()


def reason_of(error: OSError | UnicodeError) -> str:
    """The error as a user reads it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} (errno {error.errno})" if error.errno is not None else error.strerror
    return str(error) or type(error).__name__
