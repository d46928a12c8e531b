"""TLS over a socket that does not block: `kafka.security.tls.stream` encrypts and decrypts, this moves the bytes.

The thread that polls the client calls all methods.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.network.sockets import Buffer, PlaintextTransport
from kafkasource.kafka.security.tls.stream import TlsStream

RECEIVE_BYTES = 256 * 1024  # of one read of the socket: smaller reads cost calls, larger ones gain nothing


class TlsTransport:
    """A `Transport`. `finish_connect` drives the handshake, too: it is called again for each event of the socket."""

    def __init__(self, socket: PlaintextTransport, tls: TlsStream, received: memoryview) -> None:
        """`received`: where encrypted bytes arrive. Transports of one thread share it: nothing stays in it."""
        self._socket, self.tls, self._received = socket, tls, received
        self.connected = False  # the TCP connection is there

    def fileno(self) -> int:
        return self._socket.fileno()

    def finish_connect(self) -> bool:
        """Raises TlsError, or ConnectFailed where the broker closed or reset in the middle of the handshake."""
        self.connected = self.connected or self._socket.finish_connect()
        try:
            while not self.tls.handshake():
                self.flush()
                if not self._fill():
                    return False
        except ConnectionError:  # a plaintext listener of Kafka leaves bytes unread: its close is a reset
            raise self.tls.closed() from None
        except KafkaSourceError:
            with contextlib.suppress(OSError):
                self.flush()  # the alert, by which the broker's log says why
            raise
        self.flush()
        self.tls.warn_of_expiry()
        return True

    def receive_into(self, target: memoryview) -> int | None:
        """Fills the target until the socket is empty. What is decrypted and has no place there stays for the next."""
        filled, size = 0, len(target)
        try:
            while filled < size:
                got = self.tls.read_into(target[filled:])
                if got == 0:
                    return filled
                filled += got or 0
                if filled < size and not self._fill():
                    break
            self.flush()  # the answer to a key update, or an alert
        except (OSError, KafkaSourceError):
            if not filled:
                raise  # else: at the next call, as the end of the stream does
        return filled or None

    def send(self, pieces: Sequence[Buffer]) -> int:
        try:
            if not self.flush():
                return 0
            taken = self.tls.write(pieces)
            self.flush()
        except OSError:
            self._raise_alert()
            raise
        return taken

    def _raise_alert(self) -> None:
        """Look for the broker's alert after a failed write: it may have given the reason before it closed."""
        with contextlib.suppress(OSError):
            if self._fill():
                self.tls.read_into(memoryview(bytearray(1)))

    def flush(self) -> bool:
        while unsent := self.tls.outgoing():
            sent = self._socket.send([unsent])
            if not sent:
                return False
            self.tls.sent(sent)
        return True

    @property
    def unread(self) -> bool:
        return self.tls.may_have_more

    @property
    def own_certificate(self) -> bytes | None:
        return self.tls.own_certificate

    def close(self) -> None:
        """Close without close_notify: after a fork the other process may still use the connection."""
        self._socket.close()

    def _fill(self) -> bool:
        """Take what the socket has; False: nothing right now."""
        size = self._socket.receive_into(self._received)
        if size is None:
            return False
        self.tls.feed(self._received[:size])
        return True
