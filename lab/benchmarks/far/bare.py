"""What the line gives to one plain TCP connection: the measure of all contestants."""

from __future__ import annotations

import socket
import threading
import time

CHUNK = 65_536


class Bare:
    """A server that sends what it is asked for: a `with` block. A request is the number of bytes, as 8 bytes."""

    def __enter__(self) -> Bare:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _accept(self) -> None:
        try:
            while True:
                connection, _ = self._server.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
        except OSError:
            return

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            left = int.from_bytes(connection.recv(8), "big")
            while left > 0:
                try:
                    connection.sendall(bytes(min(CHUNK, left)))
                except OSError:
                    return
                left -= CHUNK


def bytes_per_s(port: int, size: int) -> float:
    """Of `size` bytes that come through the line at this port, from their first byte on."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(size.to_bytes(8, "big"))
        got = len(connection.recv(CHUNK))
        began_s, first = time.monotonic(), got
        while got < size:
            got += len(connection.recv(CHUNK)) or size
        return (size - first) / (time.monotonic() - began_s)
