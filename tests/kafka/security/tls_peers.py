"""Two ends of a TLS connection in memory: our `TlsStream`, and a server by Python's own `ssl`."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
from collections.abc import Callable

from certificate_maker import Issued

from kafkasource.kafka.security.tls.config import TlsConfig
from kafkasource.kafka.security.tls.context import TlsContext
from kafkasource.kafka.security.tls.stream import TlsStream


def server_context(issued: Issued, clients_of: Issued | None = None, version: str = "") -> ssl.SSLContext:
    """A server with this certificate. `clients_of`: it wants client certificates of this authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(issued.chain_pem + issued.key_pem())
        file.flush()
        context.load_cert_chain(file.name)
    if clients_of is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients_of.pem)
    if version:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version.replace(".", "_")]
    return context


def stream(options: dict[str, str], host: str = "broker.test") -> TlsStream:
    return TlsStream(TlsContext(TlsConfig.of(options)).setup(), host)


class Server:
    """The other end. It decrypts all that comes into `received`, and keeps the error that ended it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.established = False
        self.received = bytearray()
        self.error: ssl.SSLError | None = None

    def feed(self, data: bytes) -> None:
        self._incoming.write(data)
        if self.error is not None:
            return
        try:
            if not self.established:
                self.tls.do_handshake()
                self.established = True
            while data := self.tls.read(1 << 16):
                self.received += data
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.error = error

    def take(self) -> bytes:
        """The bytes for the client."""
        return self._outgoing.read()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.tls.write(view) :]

    def close(self) -> None:
        """Say close_notify."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()


Cut = Callable[[bytes], list[bytes]]
"""How a run of bytes is delivered."""


def whole(data: bytes) -> list[bytes]:
    return [data] if data else []


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def exchange(client: TlsStream, server: Server, cut: Cut = whole) -> None:
    """Deliver what each end has for the other, until both have nothing. The client's handshake goes on meanwhile.

    Raises what `handshake` raises, after the server has got the client's alert.
    """
    try:
        while True:
            client.handshake()
            mine, theirs = take(client), server.take()
            if not mine and not theirs:
                return
            for piece in cut(mine):
                server.feed(piece)
            for piece in cut(theirs):
                client.feed(piece)
                client.handshake()
    except Exception:
        server.feed(take(client))
        raise


def take(client: TlsStream) -> bytes:
    """The bytes for the server."""
    taken = b""
    while out := bytes(client.outgoing()):
        client.sent(len(out))
        taken += out
    return taken


def read_all(client: TlsStream, size: int = 1 << 16) -> bytes:
    """Read with `read_into` into buffers of `size` bytes until nothing is left."""
    target, data = bytearray(size), bytearray()
    while got := client.read_into(memoryview(target)):
        data += target[:got]
    return bytes(data)
