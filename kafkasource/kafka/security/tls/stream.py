"""The client's side of one TLS connection without a socket. It turns bytes of the wire into plain text and back.

Order of events: `handshake` until it is true, then `read_into` and `write`. Each of the three may leave bytes in
`outgoing`, and each may need bytes that `feed` has not had. So the owner of the socket, after every call, sends what is
in `outgoing`; a read can want to write (a key update, an alert), and a write never waits for a read.

`SSLObject` over two `MemoryBIO`s costs one copy more than `SSLSocket`, and saves it two reads of the socket for each
record of 16 KiB. It also has none of the traps of `SSLSocket`: no bytes that `select` does not see, no write that must
be repeated with the same bytes.

No clock, thread or log here, except in `warn_of_expiry`. Not thread-safe.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator, Sequence

from kafkasource.errors import ConnectFailed, TlsError
from kafkasource.kafka.security.tls.certificates import readable
from kafkasource.kafka.security.tls.context import TlsSetup, warn_of_expiry
from kafkasource.kafka.security.tls.errors import TlsAttempt, alert_error, closed_error, handshake_error

Buffer = bytes | bytearray | memoryview

RECORD_BYTES = 16_384
"""Most plain text of one record; each `SSLObject.read` and `write` takes one."""
MOST_OUTGOING_BYTES = 256 * 1024
"""Encrypted bytes that may wait in `outgoing`; `write` takes no more before they are sent."""
_DER = 2  # _ssl.ENCODING_DER
_FIRST_BYTES = 16  # of the peer, kept for errors


class TlsStream:
    def __init__(self, setup: TlsSetup, host: str) -> None:
        """`host`: the name or IP address that the client connects to; it goes to the broker (SNI) and is what the
        broker's certificate must be for. Raises TlsError for a host that no certificate can be for."""
        self._setup = setup
        self._host = host
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            self._tls = setup.context.wrap_bio(self._incoming, self._outgoing, server_hostname=name_to_check(host))
        except (ValueError, TypeError) as error:  # bad labels; a zero byte
            raise TlsError(f"TLS cannot check the host name {host!r}: {error}") from None
        self._unsent = memoryview(b"")
        self._first_bytes = b""
        self._established = False
        self._ended = False  # the peer has closed
        self._answered = False  # plain text has come
        self._filled = False  # the last read filled its target, so there may be more
        self._failure: Exception | None = None  # behind bytes that were read with it

    @property
    def own_certificate(self) -> bytes | None:
        """DER; None: the client has none."""
        return next(iter(self._setup.own_chain), None)

    # The wire.

    def feed(self, data: Buffer) -> None:
        """Bytes from the broker, copied; none: the broker has closed the connection."""
        if not data:
            self._incoming.write_eof()
        else:
            if len(self._first_bytes) < _FIRST_BYTES:
                self._first_bytes += bytes(data[: _FIRST_BYTES - len(self._first_bytes)])
            self._incoming.write(data)

    def outgoing(self) -> memoryview:
        """The next bytes for the broker, often none; `sent` takes them away. After an error: the alert."""
        if not self._unsent and self._outgoing.pending:
            self._unsent = memoryview(self._outgoing.read())
        return self._unsent

    def sent(self, count: int) -> None:
        """The socket has taken the first `count` bytes of `outgoing`."""
        self._unsent = self._unsent[count:]

    # Plain text.

    def handshake(self) -> bool:
        """Go on with the handshake: True once it is done, False where bytes from the broker are missing.

        Raises TlsError (not retriable), and ConnectFailed where the broker closed.
        """
        if self._established:
            return True
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise handshake_error(error, self._attempt()) from None
        self._setup.check_suite(self.version, self.suite)
        self._established = True
        return True

    def closed(self) -> ConnectFailed:
        """Explains that the broker reset the connection in the middle of the handshake."""
        return closed_error(self._attempt())

    def read_into(self, target: memoryview) -> int | None:
        """Decrypt into `target` (bytes, not empty) until it is full or nothing is left.

        How many bytes came; None: none right now; 0: the broker has closed. A close without close_notify counts as one:
        Kafka's frames say their lengths, so a cut shows there. Raises OSError where the stream broke, and
        ClientCertificateRefused where the broker does not take the client's certificate.
        """
        if self._failure is not None:
            raise self._failure
        self._filled = False
        filled, size = 0, len(target)
        try:
            while filled < size and not self._ended:
                got: int = self._tls.read(size - filled, target[filled:])  # type: ignore[assignment]
                filled += got
                self._ended = not got
        except ssl.SSLWantReadError:
            self._answered = self._answered or filled > 0
            return filled or None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            self._ended = True
        except ssl.SSLError as error:
            self._failure = self._explained(error)
            if not filled:
                raise self._failure from None
        self._answered = self._answered or filled > 0
        self._filled = filled == size
        return filled

    @property
    def may_have_more(self) -> bool:
        """The last read stopped because its target was full: read again before waiting for the socket."""
        return self._filled

    def write(self, pieces: Sequence[Buffer]) -> int:
        """Plain bytes taken from the front of the pieces; 0 while the handshake goes on or `outgoing` is full.

        Small pieces share a record. Raises OSError where the stream broke: read first, as the broker may have said why.
        """
        if not self._established:
            return 0
        taken = 0
        for record in _records(pieces):
            if self._outgoing.pending + len(self._unsent) >= MOST_OUTGOING_BYTES:
                break
            taken += self._tls.write(record)
        return taken

    # The peer: complete after `handshake`; errors use it before.

    @property
    def version(self) -> str:
        """ "TLSv1.3", for instance; empty before there is one."""
        return self._tls.version() or ""

    @property
    def suite(self) -> str:
        """The cipher suite, by OpenSSL's name; empty before there is one."""
        chosen = self._tls.cipher()
        return chosen[0] if chosen else ""

    def chain(self) -> tuple[bytes, ...]:
        """The certificates that the broker has sent, trusted or not, as DER; its own first."""
        if hasattr(self._tls, "get_unverified_chain"):  # Python 3.13
            return tuple(self._tls.get_unverified_chain())
        sent = self._tls._sslobj.get_unverified_chain()  # type: ignore[attr-defined]
        return tuple(certificate.public_bytes(_DER) for certificate in sent or ())

    def warn_of_expiry(self) -> None:
        """Warn of the broker's certificates that expire within 14 days; of each once in a process."""
        warn_of_expiry(self.chain(), f"{self._host} presents a certificate that must be renewed:", self._setup.now())

    def _explained(self, error: ssl.SSLError) -> Exception:
        """An error of a read. The broker's answer to the client's certificate comes before all plain text."""
        return error if self._answered else alert_error(error, self._attempt()) or error

    def _attempt(self) -> TlsAttempt:
        return TlsAttempt(
            host=self._host,
            trusted=self._setup.trusted,
            presents_certificate=self._setup.presents_certificate,
            offered=self._setup.offered,
            now=self._setup.now(),
            chain=readable(self.chain()),
            first_bytes=self._first_bytes,
        )


def name_to_check(host: str) -> str:
    """The name as certificates have it: without the dot that ends an absolute name, an address without its zone."""
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return host[:-1] if host.endswith(".") else host


def _records(pieces: Sequence[Buffer]) -> Iterator[Buffer]:
    """The plain text of each record: a slice of a large piece, or small pieces joined."""
    run: list[Buffer] = []
    size = 0
    for piece in pieces:
        if size + len(piece) < RECORD_BYTES:  # the most frequent case, without a slice
            run.append(piece)
            size += len(piece)
            continue
        view = memoryview(piece)
        while view:
            run.append(view[: RECORD_BYTES - size])
            view = view[len(run[-1]) :]
            size += len(run[-1])
            if size == RECORD_BYTES:
                yield run[0] if len(run) == 1 else b"".join(run)
                run, size = [], 0
    if size:
        yield run[0] if len(run) == 1 else b"".join(run)
