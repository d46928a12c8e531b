"""A broker that answers each request with its own bytes, for tests of the storm's proxy."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

BODY = bytes(range(100))
METADATA, PRODUCE = 3, 0


class EchoingBroker:
    """Answers each frame with its body, and keeps all bytes that came on each connection."""

    def __init__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = self._server.getsockname()
        self._connections = []
        self.got: list[bytearray] = []
        self.answered = threading.Semaphore(0)
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            self.got.append(bytearray())
            threading.Thread(target=self._converse, args=(connection, self.got[-1]), daemon=True).start()

    def _converse(self, connection, got):
        buffer = b""
        while True:
            try:
                data = connection.recv(65536)
            except OSError:
                return
            if not data:
                return
            got += data
            buffer += data
            while len(buffer) >= 4 and len(buffer) >= (size := 4 + struct.unpack(">i", buffer[:4])[0]):
                connection.sendall(buffer[:size])
                buffer = buffer[size:]
                self.answered.release()

    def close(self):
        self._server.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()  # else a connection could come that nobody closes
        for each in (self._server, *self._connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def frame(api_key=METADATA, client_id=b"campaign", body=BODY):
    request = struct.pack(">hhi", api_key, 9, 77) + struct.pack(">h", len(client_id)) + client_id + body
    return struct.pack(">i", len(request)) + request
