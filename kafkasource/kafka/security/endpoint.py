"""HTTP requests to token endpoints and to the metadata services of clouds. SASL opens no other sockets.

An endpoint is not trusted with anything but the request (`exchange`): https unless the user allows http, no redirects,
at most 1 MiB of an answer. The client repeats no request that cannot succeed later: 4xx, except 408 and 429. Errors
name the address and RFC 6749's code of the error, never the rest of the answer.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkasource.errors import OptionError, TokenNotAvailable, TokenRefused
from kafkasource.kafka.security.exchange import HttpAddress, HttpAnswerTooLarge, address_of, exchange
from kafkasource.kafka.security.shipped_files import find_file

MOST_ANSWER_BYTES = 1 << 20
_CHECK_URL = "Check kafka.sasl.oauthbearer.token.endpoint.url"
_GRANTED = (200, 201)  # as for Java
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
        """Make the context of one connection, which checks chain and name. Raises OptionError.

        Not `create_default_context`: from Python 3.13 on it refuses certificates that Java and librdkafka take
        (decision 114).
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
        """Get a JSON object."""
        return _object_of(url, self.get(url, headers, local))

    def put(self, url: str, headers: Mapping[str, str]) -> bytes:
        """Send an empty PUT to a metadata service."""
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

    def _once(self, address: HttpAddress, method: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        try:
            answer = exchange(
                address,
                method,
                body,
                {"Accept": "application/json", "Cache-Control": "no-cache", **headers},
                connect_timeout_ms=self._limits.connect_timeout_ms,
                read_timeout_ms=self._limits.read_timeout_ms,
                most_bytes=MOST_ANSWER_BYTES,
                tls=self._tls,
                clock=self._clock,
            )
        except ssl.SSLCertVerificationError as error:
            raise TokenRefused(
                f"{address}: its certificate is not trusted ({error.verify_message}). Name the authority that issued it"
                " in kafka.https.ca.location"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise TokenNotAvailable(
                f"{address} gives no answer: {reason}. Check its URL, and that this machine reaches it"
            ) from None
        except HttpAnswerTooLarge:
            raise TokenRefused(f"{address}: the answer has more than {MOST_ANSWER_BYTES} bytes. {_CHECK_URL}") from None
        _check_status(address, answer.status, answer.body)
        return answer.body


def origin_of(url: str) -> str:
    """A token endpoint by its address, for errors."""
    return f"the token endpoint {address_of(url) or ''}".rstrip()


def endpoint_address(url: str) -> HttpAddress:
    """Parse a token endpoint's URL. Raises OptionError, which does not quote the URL: it may have a password."""
    address = address_of(url)
    if address is None:
        raise OptionError(
            "kafka.sasl.oauthbearer.token.endpoint.url: not a URL https://host[:port]/path without user and password"
        )
    return address


def _address_of(url: str, allow_http: bool) -> HttpAddress:
    address = endpoint_address(url)
    if not address.encrypts and not allow_http:
        raise OptionError(
            f"kafka.sasl.oauthbearer.token.endpoint.url: http://{address.host} would send the credentials in clear. "
            "Use https, or set kafka.sasl.oauthbearer.token.endpoint.allow.http=true for a test"
        )
    return address


def _check_status(address: HttpAddress, status: int, answer: bytes) -> None:
    if status in _GRANTED:
        return
    if 300 <= status < 400:
        raise TokenRefused(f"{address} sends the client elsewhere ({status}); redirects are not followed. {_CHECK_URL}")
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
        value = json.loads(answer)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise TokenRefused(f"{urllib.parse.urlsplit(url).hostname}: the answer is not a JSON object. {_CHECK_URL}")
    return value
