"""A TCP proxy in front of a real broker that harms the bytes on command, and counts what it did.

    with Proxy(("127.0.0.1", 9092)) as proxy:
        connect to proxy.address
        proxy.flip(at=30)          # a bit of the 31st byte that comes from the broker from now on
        proxy.cut(after=100)       # reset the connection after so many more bytes from the broker
        proxy.blackhole = True     # take bytes, deliver none, both ways
        proxy.refuse = True        # close new connections at once
        proxy.bytes_per_s = 10e6   # all connections together, to the broker: a broker that is slow to take records
    proxy.from_broker_bytes_per_s = 1e6   # the same, from the broker: a thin line
    Proxy(upstream, delay_ms=10)   # bytes come so much later, each way, and as fast as ever

So that clients come through it, a broker must advertise the port of the proxy (`advertised.listeners`), or our
client is given a `ThroughProxy` connector.
Faults concern the next bytes of any connection, once each; those of `proxy_frames` the answers to chosen requests.
Threads, since clients under test block.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable

from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.connector import SocketConnector
from kafkasource.kafka.network.sockets import Address

CHUNK = 65536
Harm = Callable[[bytes], tuple[bytes, bool]]  # from bytes to what is passed on of them, and whether to reset after it


class Proxy:
    def __init__(
        self, upstream: tuple[str, int] | None = None, port: int = 0, delay_ms: float = 0, host: str = "127.0.0.1"
    ) -> None:
        self.upstream = upstream  # may be set later: a broker needs to know the proxy's port before it starts
        self.delay_s = delay_ms / 1000
        self.blackhole = False
        self.refuse = False
        self.bytes_per_s: float | None = None
        self.from_broker_bytes_per_s: float | None = None
        self.bytes_to_broker = 0  # passed on so far
        self._free_at_s = {True: 0.0, False: 0.0}  # when the line to the broker, or from it, has sent what it was given
        self.connections = 0  # accepted so far
        self.harmed = 0  # faults that met bytes
        self._flip_at: int | None = None
        self._cut_after: int | None = None
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._server = socket.create_server((host, port))
        self.address: tuple[str, int] = self._server.getsockname()[:2]
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.reset_all()
        self._thread.join()

    def flip(self, at: int) -> None:
        with self._lock:
            self._flip_at = at

    def cut(self, after: int) -> None:
        with self._lock:
            self._cut_after = after

    def reset_all(self) -> None:
        """End all connections now, with RST."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for sock in sockets:
            _reset(sock)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self.connections += 1
                if self.refuse or self.upstream is None:
                    _reset(client)
                    continue
                try:
                    broker = socket.create_connection(self.upstream)
                except OSError:
                    _reset(client)
                    continue
                with self._lock:
                    self._sockets |= {client, broker}
                to_broker, to_client = self._harms()
                for source, target, harm in ((client, broker, to_broker), (broker, client, to_client)):
                    pump = threading.Thread(target=self._pump, args=(source, target, harm, target is broker))
                    pump.daemon = True
                    pump.start()

    def _harms(self) -> tuple[Harm, Harm]:
        """For one connection: of what goes to the broker, and of what comes from it."""
        return self._count, self._harm

    def _count(self, data: bytes) -> tuple[bytes, bool]:
        with self._lock:
            self.bytes_to_broker += len(data)
        return data, False

    def _throttle(self, size: int, to_broker: bool) -> None:
        """Wait for as long as the line needs."""
        with self._lock:
            now_s = time.monotonic()
            bytes_per_s = self.bytes_per_s if to_broker else self.from_broker_bytes_per_s
            if not bytes_per_s:
                return
            free_at_s = self._free_at_s[to_broker] = max(now_s, self._free_at_s[to_broker]) + size / bytes_per_s
        time.sleep(free_at_s - now_s)

    def _pump(self, source: socket.socket, target: socket.socket, harm: Harm, to_broker: bool) -> None:
        line = _DelayLine(target, self.delay_s) if self.delay_s else None
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                if self.blackhole:
                    continue
                data, cut = harm(data)
                self._throttle(len(data), to_broker)
                if data:
                    (line or target).sendall(data)
                if cut:
                    break
        if line:
            line.end()
        for sock in (source, target):
            _reset(sock)
            with self._lock:
                self._sockets.discard(sock)

    def _harm(self, data: bytes) -> tuple[bytes, bool]:
        with self._lock:
            if self._flip_at is not None:
                at, self._flip_at = self._flip_at, None
                if at < len(data):
                    data = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
                    self.harmed += 1
                else:
                    self._flip_at = at - len(data)
            if self._cut_after is not None:
                after, self._cut_after = self._cut_after, None
                if after < len(data):
                    self.harmed += 1
                    return data[:after], True
                self._cut_after = after - len(data)
        return data, False


class _DelayLine:
    """Sends what it is given some time later, in order, without holding up what comes behind."""

    def __init__(self, target: socket.socket, delay_s: float) -> None:
        self._target = target
        self._delay_s = delay_s
        self._queue: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def sendall(self, data: bytes) -> None:
        self._queue.put((time.monotonic() + self._delay_s, data))

    def end(self) -> None:
        self.sendall(b"")
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = self._queue.get()
                if not data:
                    return
                time.sleep(max(0.0, due - time.monotonic()))
                self._target.sendall(data)


def _reset(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Linger of 0: what is unsent is dropped and the other side gets RST, as from a crashed machine's firewall.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


class ThroughProxy(SocketConnector):
    """A client's connector that leads to the proxy, whatever address a broker advertises."""

    def __init__(self, config: ClientConfig, proxy: Proxy) -> None:
        super().__init__(config)
        self._proxy = proxy

    def resolve(self, host: str, port: int) -> list[Address]:  # type: ignore[override]
        return SocketConnector.resolve(*self._proxy.address)
