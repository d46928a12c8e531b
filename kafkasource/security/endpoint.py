"""HTTP to token endpoints and to the metadata services of clouds: the only sockets of SASL.

An endpoint is not trusted with anything but the request: https unless the user allows http, no redirects, at most 1 MiB
of an answer, a deadline for the whole of it, so that a byte now and then does not keep a thread. What cannot become
better is not asked for again: 4xx, but for 408 and 429. Errors name the address and RFC 6749's code of the error,
never the rest of the answer.
"""

from __future__ import annotations

import http.client
import io
import json
import random
import re
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkasource.errors import OptionError, TokenNotAvailable, TokenRefused
from kafkasource.shipped_files import find_file

MOST_ANSWER_BYTES = 1 << 20
_FINAL_5XX = (501, 505)  # as for Java; every other one may be over in a moment
_RETRIABLE_4XX = (408, 429)
_ERROR_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class HttpLimits:
    """The `sasl.login.*` that bound a request. Java waits without end by default."""

    connect_timeout_ms: int = 10_000  # TCP and TLS
    read_timeout_ms: int = 10_000  # the request and its whole answer
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000  # all attempts together, as in Java
    allow_http: bool = False
    ca_location: str | None = None  # a PEM file of the authorities that are trusted; else `ca_pem`, else the system's
    ca_pem: str | None = None

    def tls(self) -> ssl.SSLContext:
        """The context of one connection: chain and name are checked. Raises OptionError.

        Not `create_default_context`: from Python 3.13 on it refuses certificates that Java and librdkafka take.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            if self.ca_location is not None:
                context.load_verify_locations(cafile=find_file(self.ca_location))
            elif self.ca_pem is not None:
                context.load_verify_locations(cadata=self.ca_pem)
            else:
                context.load_default_certs()
        except (OSError, ValueError) as error:  # SSLError is an OSError
            name = "https.ca.pem" if self.ca_location is None else "https.ca.location"
            reason = getattr(error, "strerror", None) or "no certificate as PEM"
            raise OptionError(f"option 'kafka.{name}' cannot be read on this machine: {reason}") from None
        return context


class HttpClient:
    """Blocks: never in the thread that polls. Any thread may use it; each request has a connection of its own."""

    def __init__(
        self,
        limits: HttpLimits,
        tls: Callable[[], ssl.SSLContext] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`tls`: makes the context of one connection; None: as the limits say."""
        self._limits = limits
        self._tls = tls or limits.tls
        self._clock = clock
        self._sleep = sleep

    def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Mapping[str, object]:
        """The JSON object that a form gets. Raises TokenNotAvailable, TokenRefused, OptionError for the URL."""
        body = urllib.parse.urlencode(form).encode()
        every = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return _object_of(url, self._ask(url, "POST", body, every, self._limits.allow_http))

    def get(self, url: str, headers: Mapping[str, str], local: bool = False) -> bytes:
        """The body of an answer. `local`: a metadata service of the machine itself, which speaks http only."""
        return self._ask(url, "GET", None, headers, local or self._limits.allow_http)

    def get_object(self, url: str, headers: Mapping[str, str], local: bool = False) -> Mapping[str, object]:
        """As `get`, of a JSON object."""
        return _object_of(url, self.get(url, headers, local))

    def put(self, url: str, headers: Mapping[str, str]) -> bytes:
        """As `get`, to a metadata service."""
        return self._ask(url, "PUT", b"", headers, True)

    def _ask(self, url: str, method: str, body: bytes | None, headers: Mapping[str, str], allow_http: bool) -> bytes:
        """Attempts until one succeeds, one is final, or the time for all of them has passed."""
        address = _address_of(url, allow_http)
        end = self._clock() + self._limits.retry_backoff_max_ms / 1000
        backoff_s = self._limits.retry_backoff_ms / 1000
        while True:
            try:
                return self._once(address, method, body, headers)
            except TokenNotAvailable:
                left_s = end - self._clock()
                if left_s <= 0:
                    raise
                self._sleep(min(left_s, backoff_s * (0.8 + 0.4 * random.random())))
                backoff_s *= 2

    def _once(self, address: _Address, method: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        try:
            connection = _Connection(address, self._limits, self._tls, self._clock)
            try:
                connection.request(
                    method, address.target, body, {"Accept": "application/json", "Cache-Control": "no-cache", **headers}
                )
                response = connection.getresponse()
                status = response.status
                answer = response.read(MOST_ANSWER_BYTES + 1)
            finally:
                connection.shut()
        except ssl.SSLCertVerificationError as error:
            raise TokenRefused(
                f"{address}: its certificate is not trusted ({error.verify_message}). Name the authority that issued it"
                " in kafka.https.ca.location"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise TokenNotAvailable(f"{address} gives no answer: {reason}") from None
        if len(answer) > MOST_ANSWER_BYTES:
            raise TokenRefused(f"{address}: the answer has more than {MOST_ANSWER_BYTES} bytes")
        _check_status(address, status, answer)
        return answer


@dataclass(frozen=True)
class _Address:
    scheme: str
    host: str
    port: int
    target: str  # path and query

    def __str__(self) -> str:
        """Without the query, which may hold a secret."""
        return f"{self.scheme}://{self.host}:{self.port}{self.target.partition('?')[0]}"


def _address_of(url: str, allow_http: bool) -> _Address:
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urllib.parse.urlsplit("")
    if parts.scheme not in ("https", "http") or not host or parts.username is not None or not url.isprintable():
        raise OptionError(
            "kafka.sasl.oauthbearer.token.endpoint.url: not a URL https://host[:port]/path without user and password"
        )
    if parts.scheme == "http" and not allow_http:
        raise OptionError(
            f"kafka.sasl.oauthbearer.token.endpoint.url: http://{host} would send the credentials in clear. Use https, "
            "or set kafka.sasl.oauthbearer.token.endpoint.allow.http=true for a test"
        )
    target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    return _Address(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), target)


class _Connection(http.client.HTTPConnection):
    """One request on a socket whose every wait ends at the deadline."""

    def __init__(
        self,
        address: _Address,
        limits: HttpLimits,
        tls: Callable[[], ssl.SSLContext],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(address.host, address.port)
        self._address = address
        self._limits = limits
        self._tls = tls
        self._clock = clock
        self._connected: socket.socket | None = None

    def shut(self) -> None:
        self.close()
        if self._connected is not None:
            self._connected.close()

    def connect(self) -> None:
        connecting_s = self._limits.connect_timeout_ms / 1000
        context = self._tls() if self._address.scheme == "https" else None
        address = (self._address.host, self._address.port)
        self._connected = socket.create_connection(address, timeout=connecting_s)
        if context is not None:
            self._connected = context.wrap_socket(self._connected, server_hostname=self._address.host)
        self.sock = _Timed(self._connected, self._clock, self._clock() + self._limits.read_timeout_ms / 1000)


class _Timed(io.RawIOBase):
    """A socket with a deadline for everything on it together: what http.client uses of one.

    It does not close the socket: http.client closes it before the answer is read where the answer has no length.
    """

    def __init__(self, connected: socket.socket, clock: Callable[[], float], deadline: float) -> None:
        self._connected = connected
        self._clock = clock
        self._deadline = deadline

    def _set_timeout(self) -> None:
        left_s = self._deadline - self._clock()
        if left_s <= 0:
            raise TimeoutError
        self._connected.settimeout(left_s)

    def sendall(self, data: bytes) -> None:
        self._set_timeout()
        self._connected.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Timed(self._connected, self._clock, self._deadline))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._set_timeout()
        return self._connected.recv_into(buffer)


def _check_status(address: _Address, status: int, answer: bytes) -> None:
    if status == 200:
        return
    if 300 <= status < 400:
        raise TokenRefused(
            f"{address} sends the client elsewhere ({status}); redirects are not followed. Correct the URL"
        )
    code = _error_code(answer)
    said = f"{address} answers {status}" + (f" {code}" if code else "")
    if status in _RETRIABLE_4XX or (status >= 500 and status not in _FINAL_5XX):
        raise TokenNotAvailable(said)
    raise TokenRefused(f"{said}. Check client id, secret, scope and URL of kafka.sasl.oauthbearer.*")


def _error_code(answer: bytes) -> str | None:
    """RFC 6749, section 5.2: `invalid_client`."""
    try:
        code = json.loads(answer)["error"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else None


def _object_of(url: str, answer: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TokenRefused(f"{urllib.parse.urlsplit(url).hostname}: the answer is no JSON object")
    return found
