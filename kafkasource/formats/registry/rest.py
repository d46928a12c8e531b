"""One question to a registry: any of its URLs, asked again while that may help.

A URL that gave an answer is asked first the next time. A redirect is never followed. What cannot become better is not
asked for again: a refusal, a certificate that is not trusted. With TLS 1.3 a server refuses a missing client
certificate after the handshake. If it resets the connection then, the reason is lost, and the client asks again.
"""

from __future__ import annotations

import http.client
import json
import logging
import random
import ssl
import time
from collections.abc import Callable

from kafkasource import metrics
from kafkasource.errors import (
    OptionError,
    RegistryAccessRefused,
    RegistryError,
    RegistryUnavailable,
    TlsError,
    TokenNotAvailable,
)
from kafkasource.formats.registry.answers import is_retriable, json_of, retry_after_s, status_text
from kafkasource.formats.registry.credentials import Credentials, Proof
from kafkasource.formats.registry.settings import RegistryOptions, RegistrySettings, renamed
from kafkasource.kafka.security.exchange import HttpAddress, HttpAnswer, HttpAnswerTooLarge, exchange
from kafkasource.kafka.security.tls.context import TlsSetup, context_of

log = logging.getLogger("kafkasource.client")

MOST_ANSWER_BYTES = 16 << 20
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0
_WARN_FROM_S = 1.0  # a pause from which on somebody may wonder why the query stands


class RestClient:
    """Blocks: never in the thread that polls. Any thread may use it; each request has a connection of its own."""

    def __init__(
        self,
        options: RegistryOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self._options = options
        self._clock = clock
        self._sleep = sleep
        self._uniform = uniform
        self._credentials = Credentials()
        self._first = 0  # the URL that is asked first
        for address in options.in_clear:
            log.warning("credentials for the schema registry go to %s in clear: use https", address)

    def ask(self, question: str, method: str, path: str, body: object = None) -> object:
        """Return the JSON of the answer. `question` names the request in errors; `path`: begins with a slash, quoted.

        Raises RegistryError and its subclasses, OptionError.
        """
        data = None if body is None else json.dumps(body).encode()
        end_s = self._clock() + self._options.retry_timeout_ms / 1000
        pause_s = _FIRST_PAUSE_S
        while True:
            answered, failures, wanted_s = self._round(method, path, data)
            if answered is not None:
                return json_of(answered[1], question, f"{answered[0]}{path}".partition("?")[0])
            left_s = end_s - self._clock()
            if left_s <= 0:
                raise self._unavailable(question, failures)
            if pause_s / 2 < _WARN_FROM_S <= pause_s:  # once a question
                log.warning(
                    "the schema registry gives no answer for %s (%s); it is asked again for %.0f s",
                    *(question, _reasons(failures), left_s),
                )
            self._sleep(min(left_s, max(wanted_s, pause_s * (0.8 + 0.4 * self._uniform()))))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _round(
        self, method: str, path: str, data: bytes | None
    ) -> tuple[tuple[HttpAddress, HttpAnswer] | None, dict[HttpAddress, str], float]:
        """Ask each URL until one answers: it, and its answer; else why each did not, and the pause that they want."""
        failures: dict[HttpAddress, str] = {}
        wanted_s = 0.0
        for number in range(len(self._options.addresses)):
            at = (self._first + number) % len(self._options.addresses)
            address = self._options.addresses[at]
            outcome = "failed"
            try:
                answer = self._once(address, method, path, data)
                if not is_retriable(answer.status):
                    outcome = "answered" if answer.status < 400 else "refused"
            except (OSError, http.client.HTTPException) as error:
                _check_tls(error, address)
                failures[address] = getattr(error, "strerror", None) or type(error).__name__
                continue
            except TokenNotAvailable as error:
                failures[address] = f"there is no token for it: {renamed(str(error))}"
                continue
            finally:
                metrics.count("kafkasource_registry_requests_total", 1, outcome)
            if is_retriable(answer.status):
                failures[address] = status_text(answer.status)
                wanted_s = max(wanted_s, retry_after_s(answer))
                continue
            self._first = at
            return (address, answer), failures, 0.0
        return None, failures, wanted_s

    def _once(self, address: HttpAddress, method: str, path: str, data: bytes | None) -> HttpAnswer:
        settings = self._options.resolve()
        proof = self._credentials.proof(settings)
        answer = self._exchange(address, method, path, data, settings, proof)
        if answer.status == 401 and self._credentials.renew(proof):  # a token that was revoked before its time
            proof = self._credentials.proof(settings)
            answer = self._exchange(address, method, path, data, settings, proof)
        return answer

    def _exchange(
        self, address: HttpAddress, method: str, path: str, data: bytes | None, settings: RegistrySettings, proof: Proof
    ) -> HttpAnswer:
        headers = {"Accept": f"{_MEDIA_TYPE}, application/json", **dict(settings.more_headers)}
        if data is not None:
            headers["Content-Type"] = _MEDIA_TYPE
        if proof.header is not None:
            headers["Authorization"] = proof.header.reveal()
        try:
            return exchange(
                HttpAddress(address.scheme, address.host, address.port, address.target + path),
                method,
                data,
                headers,
                connect_timeout_ms=self._options.connect_timeout_ms,
                read_timeout_ms=self._options.read_timeout_ms,
                most_bytes=MOST_ANSWER_BYTES,
                tls=lambda: _tls(settings).context,
                clock=self._clock,
                check=lambda connected: _check_suite(settings, connected, address),
            )
        except HttpAnswerTooLarge:
            question = f"{address}{path}".partition("?")[0]
            raise RegistryError(
                f"{question}: the answer has more than {MOST_ANSWER_BYTES} bytes. Check that schemaRegistry.url is the"
                " URL of a schema registry",
                str(address),
            ) from None

    def _unavailable(self, question: str, failures: dict[HttpAddress, str]) -> RegistryUnavailable:
        return RegistryUnavailable(
            f"the schema registry gives no answer for {question} ({_reasons(failures)}). It was asked again for "
            f"{self._options.retry_timeout_ms} ms (schemaRegistry.retry.timeout.ms). Check that it runs, and that this "
            "machine reaches schemaRegistry.url",
            self._options.url,
        )


def _reasons(failures: dict[HttpAddress, str]) -> str:
    return "; ".join(f"{address}: {reason}" for address, reason in failures.items())


def _tls(settings: RegistrySettings) -> TlsSetup:
    try:
        return context_of(settings.tls).setup()
    except OptionError as error:
        raise OptionError(renamed(str(error))) from None


def _check_suite(settings: RegistrySettings, connected: ssl.SSLSocket, address: HttpAddress) -> None:
    suite = connected.cipher()
    assert suite is not None  # there is one after the handshake
    try:
        _tls(settings).check_suite(connected.version(), suite[0])
    except TlsError as error:
        raise RegistryAccessRefused(f"{address}: {renamed(str(error))}", str(address)) from None


def _check_tls(error: Exception, address: HttpAddress) -> None:
    """Raise RegistryAccessRefused where TLS failed for a reason that stays."""
    if isinstance(error, ssl.SSLCertVerificationError):
        raise RegistryAccessRefused(
            f"{address}: its certificate is not trusted ({error.verify_message}). Name the authority that issued it in "
            "schemaRegistry.ssl.truststore.location",
            str(address),
        ) from None
    reason = (getattr(error, "reason", None) or "") if isinstance(error, ssl.SSLError) else ""
    if "CERTIFICATE" in reason or "HANDSHAKE_FAILURE" in reason or "UNKNOWN_CA" in reason:
        raise RegistryAccessRefused(
            f"{address} refuses the client in the TLS handshake ({reason}). It may require a client certificate: set "
            "schemaRegistry.ssl.keystore.location",
            str(address),
        ) from None
    if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason:
        raise RegistryError(
            f"{address} does not speak TLS. Write http:// in schemaRegistry.url", str(address)
        ) from None
