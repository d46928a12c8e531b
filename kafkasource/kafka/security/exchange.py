"""One bounded HTTP request and its answer: for token endpoints, metadata services of clouds, and schema registries.

A server is not trusted with anything but the request: a deadline for the whole answer, so that a byte now and then does
not keep a thread; a limit on its bytes; no redirect is followed. Each exchange has a connection of its own.

The bytes are counted where they leave the socket. http.client cannot be left to count them: a chunk size of "-1" makes
it read until the server closes.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import re
import socket
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_USER = re.compile(r"^(\w+://)?.*@", re.DOTALL)
_QUERY = re.compile(r"([?#]).*", re.DOTALL)
_HEAD_BYTES = 64 << 10  # room for the status line, the headers and the trailers of an answer


@dataclass(frozen=True)
class HttpAddress:
    """The target of a request. It prints without its query, which may hold a secret."""

    scheme: str  # "http", "https"
    host: str
    port: int
    target: str  # path and query

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.target.partition('?')[0]}"

    @property
    def encrypts(self) -> bool:
        return self.scheme == "https"


@dataclass(frozen=True)
class HttpAnswer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class HttpAnswerTooLarge(Exception):
    """The body has more bytes than the caller takes."""


def address_of(url: str) -> HttpAddress | None:
    """Parse http(s)://host[:port]/path without user and password. None for any other text."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # as it is looked up; UnicodeError is a ValueError
    except ValueError:
        return None
    known = parts.scheme in ("https", "http") and host and parts.username is None and url.isprintable()
    if not known or not host or " " in url:
        return None
    target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    if not target.isascii():
        return None
    return HttpAddress(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), target)


def is_this_machine(host: str) -> bool:
    """Whether a name or an address is of the loopback interface. No name is looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def shown_url(url: str) -> str:
    """Hide user, password, query and fragment in the text that a user gave as a URL. It may not be a URL."""
    return _QUERY.sub(r"\1[hidden]", _USER.sub(r"\1[hidden]@", url))


def exchange(
    address: HttpAddress,
    method: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    connect_timeout_ms: int,
    read_timeout_ms: int,
    most_bytes: int,
    tls: Callable[[], ssl.SSLContext],
    clock: Callable[[], float],
    check: Callable[[ssl.SSLSocket], None] = lambda _: None,
) -> HttpAnswer:
    """Send one request. `connect_timeout_ms` bounds TCP and TLS, `read_timeout_ms` the request and its whole answer.
    `check` is called after the handshake, before anything is sent.

    Raises OSError (`ssl.SSLError` among them), `http.client.HTTPException`, HttpAnswerTooLarge, and the errors of `tls`
    and `check`.
    """
    most_raw_bytes = 2 * most_bytes + _HEAD_BYTES  # chunks of a few bytes each have sizes that are as long as they
    connection = _Connection(address, connect_timeout_ms, read_timeout_ms, most_raw_bytes, tls, check, clock)
    try:
        connection.request(method, address.target, body, dict(headers))
        response = connection.getresponse()
        try:
            data = response.read(most_bytes + 1)
        except ValueError as error:  # http.client takes a chunk size of "-ff" to read(-255)
            raise http.client.HTTPException(str(error)) from None
        if len(data) > most_bytes:
            raise HttpAnswerTooLarge
        if response.length:  # http.client tells of a body that is cut only where it reads without a limit
            raise http.client.IncompleteRead(data, response.length)
        return HttpAnswer(response.status, {name.lower(): text for name, text in response.getheaders()}, data)
    finally:
        connection.shut()


class _Connection(http.client.HTTPConnection):
    """One request on a socket whose every wait ends at the deadline."""

    def __init__(
        self,
        address: HttpAddress,
        connect_timeout_ms: int,
        read_timeout_ms: int,
        most_raw_bytes: int,
        tls: Callable[[], ssl.SSLContext],
        check: Callable[[ssl.SSLSocket], None],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(address.host, address.port)
        self._address = address
        self._connecting_s = connect_timeout_ms / 1000
        self._reading_s = read_timeout_ms / 1000
        self._most_raw_bytes = most_raw_bytes
        self._tls = tls
        self._check = check
        self._clock = clock
        self._connected: socket.socket | None = None

    def shut(self) -> None:
        self.close()
        if self._connected is not None:
            self._connected.close()

    def connect(self) -> None:
        context = self._tls() if self._address.encrypts else None
        self._connected = socket.create_connection((self._address.host, self._address.port), timeout=self._connecting_s)
        if context is not None:
            self._connected = encrypted = context.wrap_socket(self._connected, server_hostname=self._address.host)
            self._check(encrypted)
        deadline = self._clock() + self._reading_s
        self.sock = BoundedSocket(self._connected, self._clock, deadline, self._most_raw_bytes)


class BoundedSocket(io.RawIOBase):
    """A socket for HTTP with one deadline for all calls and a limit on the bytes that it reads.

    It does not close the socket, because http.client closes too early when the answer's length is unknown.
    """

    def __init__(self, connected: socket.socket, clock: Callable[[], float], deadline: float, most_bytes: int) -> None:
        """`deadline`: in seconds by `clock`. `most_bytes`: of all that is read through this object."""
        self._connected = connected
        self._clock = clock
        self._deadline = deadline
        self._left_bytes = most_bytes

    def _set_timeout(self) -> None:
        left_s = self._deadline - self._clock()
        if left_s <= 0:
            raise TimeoutError
        self._connected.settimeout(left_s)

    def sendall(self, data: bytes) -> None:
        self._set_timeout()
        self._connected.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(BoundedSocket(self._connected, self._clock, self._deadline, self._left_bytes))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Raises TimeoutError after the deadline, HttpAnswerTooLarge above the limit."""
        self._set_timeout()
        count = self._connected.recv_into(buffer)
        self._left_bytes -= count
        if self._left_bytes < 0:
            raise HttpAnswerTooLarge
        return count
