"""One broker conversation, without its socket: requests to bytes, bytes to responses, versions negotiated first.

Order of events: `negotiate()` gives the ApiVersions request; once its answer is in, and the client has authenticated
where the listener wants it (`ready`), `send()` gives the bytes of any other request. `authenticate_again()` begins the
next session, and `ready` is false until the broker has answered. A broker answers in order, so the
oldest request in flight owns the next frame; anything else is a `ProtocolError`, after which the connection must be
closed (nothing is matched by guess).

Some brokers take more than one connection to be known: see `old_releases`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Generic, TypeAlias, TypeVar

from kafkasource.errors import KafkaSourceError, ProtocolError, UnsupportedApiVersion, UnsupportedVersion, error_for
from kafkasource.kafka.network.authentication import Authentication, SaslStep
from kafkasource.kafka.network.last_metadata import LastMetadata
from kafkasource.kafka.network.old_releases import FORMS, SILENT, HandshakeStep, Release
from kafkasource.kafka.protocol.apis import API_VERSIONS, METADATA, SASL_HANDSHAKE, Api
from kafkasource.kafka.protocol.frames import (
    FrameMemory,
    FrameReader,
    decode_response,
    encode_request_parts,
    peek_correlation_id,
)
from kafkasource.kafka.protocol.schema import Body, Fields
from kafkasource.version import __version__

Token = TypeVar("Token")
"""What a caller gives with a request, to know its answer by."""
Parts: TypeAlias = list[bytearray | memoryview]
RequestBody: TypeAlias = Fields | Callable[[int], Fields]
"""A request; a function of the negotiated version where versions differ by more than fields left out."""


@cache
def software_version() -> str:
    """The client's name for the broker's metrics (KIP-511): only letters, digits, dots and dashes."""
    return __version__.replace("+", "-")


@dataclass(frozen=True)
class Response(Generic[Token]):
    token: Token  # what `send` was given
    version: int
    body: Body


@dataclass(frozen=True)
class Received(Generic[Token]):
    """The result of some bytes from the broker."""

    responses: list[Response[Token]]  # complete now, often none
    reply: Parts  # to be sent at once; only before it is ready
    error: KafkaSourceError | None  # the bytes behind make no sense, or SASL failed: close it


@dataclass(frozen=True)
class _InFlight(Generic[Token]):
    correlation_id: int
    api: Api
    version: int
    token: Token | None  # None: a request of the connection's own


class Connection(Generic[Token]):
    """The state of one conversation; not thread-safe. `peer` names the broker in errors."""

    def __init__(
        self,
        peer: str,
        client_id: str,
        max_frame_bytes: int,
        buffers: FrameMemory | None = None,
        step: HandshakeStep | None = None,
        authentication: Authentication | None = None,
        last_metadata: LastMetadata | None = None,
    ) -> None:
        """`authentication`: where the listener wants SASL; None: it wants none. `last_metadata`: of the client."""
        self._peer = peer
        self._authentication = authentication
        self.blocked: SaslStep | None = None  # what to call in another thread; its result: `proceed`
        self._step = step or HandshakeStep()
        self.identified = False  # did it answer the step's probe?
        self.surplus = ""  # the first answer on this connection that had bytes behind it
        self.nudged = False  # was it asked whether it drops ApiVersions?
        self.dropped = False  # has it, in another form than the lowest?
        self.release: Release | None = self._step.known  # of a broker from before ApiVersions
        self._client_id = client_id
        self._frames = FrameReader(max_frame_bytes, buffers)
        self._in_flight: deque[_InFlight[Token]] = deque()
        self._next_correlation_id = 0
        self._versions = self.release.versions if self.release else None
        self._last_metadata = LastMetadata() if last_metadata is None else last_metadata

    @property
    def ready(self) -> bool:
        """Are the versions negotiated, and the client known to the broker, so that requests may be sent?"""
        return self._versions is not None and (self._authentication is None or self._authentication.done)

    @property
    def authenticating(self) -> bool:
        """Are the versions negotiated, and SASL not done?"""
        return self._versions is not None and not self.ready

    def refusal_by_close(self) -> KafkaSourceError | None:
        """The meaning of a connection that the broker closes now; None: nothing special."""
        return None if self._authentication is None else self._authentication.refusal_by_close()

    @property
    def session_lifetime_ms(self) -> int:
        """The time from the last token until the broker closes the connection; 0: never. Only when `ready`."""
        return 0 if self._authentication is None else self._authentication.session_lifetime_ms

    @property
    def user(self) -> str | None:
        """The user that the client has logged in as; None: no SASL, or not known here. Only when `ready`."""
        return None if self._authentication is None else self._authentication.user

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def pending_bytes(self) -> int:
        """Received bytes of a response that is not complete."""
        return self._frames.pending_bytes

    # Out.

    def negotiate(self, version: int | None = None) -> Parts:
        """Return what to send first: which versions does the broker serve? By default in the step's version.

        Nothing where that is known; where an old release is probed, a request of that release.
        """
        if self.release is not None:
            return []
        if self._step.probe is not None and version is None:
            api, of, asked = self._step.probe.probe
            return self._request(api, of, asked, token=None, expect_response=True)
        version = self._step.version if version is None else version
        body = {"client_software_name": "kafkasource", "client_software_version": software_version()}
        return self._request(API_VERSIONS, version, body, token=None, expect_response=True)

    def nudge(self) -> Parts:
        """ApiVersions is not answered yet: what to send now, so that a broker that never will shows itself."""
        if self.ready or (self._step.probe is not None and not self.identified):
            return []
        self.nudged = True
        api, version, body = SILENT.probe
        return self._request(api, version, body, token=None, expect_response=True)

    def served(self, api: Api) -> tuple[int, int] | None:
        """The versions of an API that both sides know, first and last; None: none. Only when `ready`."""
        first, last = api.stable_versions
        low, high = (self._versions or {}).get(api.key, (1, 0))
        first, last = max(first, low), min(last, high)
        return (first, last) if first <= last else None

    def version_of(self, api: Api, max_version: int | None = None) -> int:
        """The highest version that broker, client and `max_version` allow. Raises UnsupportedApiVersion."""
        low, high = api.stable_versions
        if max_version is not None:
            high = min(high, max_version)
        served = (self._versions or {}).get(api.key)
        peer = f"{self._peer} (Kafka {self.release.name})" if self.release else self._peer
        if served is None and api is METADATA:  # which brokers of each release serve
            raise UnsupportedApiVersion(
                f"{peer} does not serve {api.name}: this is the listener of a KRaft controller. Name the brokers by"
                " 'kafka.bootstrap.servers': a port of their 'listeners' that 'controller.listener.names' does not name"
            )
        if served is None:
            why = "it is too old" if self.release else "this server does not offer it"
            raise UnsupportedApiVersion(f"{peer} does not serve {api.name}, which this needs: {why}")
        if max(low, served[0]) > min(high, served[1]):
            raise UnsupportedApiVersion(
                f"{peer} serves {api.name} in versions {served[0]} to {served[1]}, this client speaks {low} to"
                f" {high}: they have none in common"
            )
        return min(high, served[1])

    def send(
        self, api: Api, body: RequestBody, token: Token, *, max_version: int | None = None, expect_response: bool = True
    ) -> Parts:
        """The bytes of a request, to be written in this order and without others between. Only when `ready`.

        Large records in them are views of the caller's memory. Raises UnsupportedApiVersion and ProtocolError (the body
        does not fit the version); the connection is as before then.
        """
        version = self.version_of(api, max_version)
        return self._request(api, version, body(version) if callable(body) else body, token, expect_response)

    def _request(self, api: Api, version: int, body: Fields, token: Token | None, expect_response: bool) -> Parts:
        correlation_id = self._next_correlation_id
        parts = encode_request_parts(api, version, correlation_id, self._client_id, body)
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        if expect_response:
            self._in_flight.append(_InFlight(correlation_id, api, version, token))
        return parts

    # In.

    def writable(self) -> memoryview:
        """The buffer for the next bytes; tell `received` how many came."""
        return self._frames.writable()

    def received(self, size: int) -> Received[Token]:
        """Take `size` bytes now in `writable()`."""
        try:
            return self._take(self._frames.advance(size))
        except ProtocolError as error:
            return Received([], [], error)

    def receive(self, data: bytes) -> Received[Token]:
        """The same for bytes at hand, in any pieces."""
        try:
            return self._take(self._frames.feed(data))
        except ProtocolError as error:
            return Received([], [], error)

    def tokens(self) -> list[Token]:
        """The values that `send` got for the requests in flight, oldest first."""
        return [sent.token for sent in self._in_flight if sent.token is not None]

    def _take(self, frames: list[memoryview]) -> Received[Token]:
        responses: list[Response[Token]] = []
        reply: Parts = []
        for frame in frames:
            try:
                if self._authentication is not None and self._authentication.bare:
                    reply += self._token(self._authentication.answered_bare(bytes(frame)))
                    continue
                sent, body = self._complete(frame)
                if self.authenticating:
                    reply += self._authenticated(sent, body)
                elif not self.ready:
                    reply += self._negotiated(sent, body)
                elif sent.token is not None:  # else: late, to a nudge
                    responses.append(Response(sent.token, sent.version, body))
            except KafkaSourceError as error:
                return Received(responses, [], error)
        return Received(responses, reply, None)

    def _complete(self, frame: memoryview) -> tuple[_InFlight[Token], Body]:
        if not self._in_flight:
            raise ProtocolError(f"{self._peer} sent {len(frame)} bytes without a request for them")
        got = peek_correlation_id(frame)
        if not self.ready and len(self._in_flight) == 2 and got == self._in_flight[1].correlation_id:
            dropped = self._in_flight.popleft()  # by the broker: what was sent behind it is answered
            if dropped.version > FORMS[-1]:
                self.dropped = True
            else:
                self.release = SILENT
        sent = self._in_flight[0]
        if got != sent.correlation_id:
            raise ProtocolError(
                f"{self._peer} answered request {got}; the oldest in flight is {sent.correlation_id} ({sent.api.name})"
            )
        try:
            body = self._decoded(sent, frame)
        except ProtocolError as error:
            text = f"{self._peer}, {sent.api.name} response v{sent.version} of {len(frame)} bytes: {error}"
            raise type(error)(text) from error
        self._in_flight.popleft()  # only now: a request whose answer was garbage is abandoned with the others
        return sent, body

    def _decoded(self, sent: _InFlight[Token], frame: memoryview) -> Body:
        if sent.api is METADATA:
            return self._last_metadata.decode(sent.version, frame, self._surplus)
        return decode_response(sent.api, sent.version, frame, self._surplus)

    def _surplus(self, api: Api, version: int, size: int) -> None:
        """Take note of bytes behind an answer. Java's client and librdkafka do not look at them."""
        self.surplus = self.surplus or f"{size} bytes behind its {api.name} response v{version}"

    def _negotiated(self, sent: _InFlight[Token], body: Body) -> Parts:
        """Keep the broker's versions. If it does not serve the version of our request, return another one (KIP-511)."""
        if self.release is not None:
            self._versions = self.release.versions
            return []
        if self.dropped:
            return []
        if sent.api is not API_VERSIONS:
            self.identified = True  # whatever it says
            return self.negotiate(0)
        code = body["error_code"]
        if code == UnsupportedVersion.CODE and sent.version > 0:
            return self.negotiate(0)
        if code:
            raise ProtocolError(str(error_for(code, f"{self._peer}, ApiVersions v{sent.version}")))
        self._versions = {row["api_key"]: (row["min_version"], row["max_version"]) for row in body["api_keys"]}
        return self._begin_authentication()

    # SASL.

    def authenticate_again(self, authentication: Authentication) -> Parts:
        """The first request of a new session: SaslHandshake. Only when `ready`, and with nothing in flight.

        Until it is `ready` again nothing else may be sent: the broker would close the connection.
        """
        if not self.ready or self._in_flight:
            raise RuntimeError(f"{self._peer}: a session begins before the last one has its answers")
        self._authentication = authentication
        return self._begin_authentication()

    def _begin_authentication(self) -> Parts:
        if self._authentication is None:
            return []
        api, version, body = self._authentication.handshake(self.served)
        return self._request(api, version, body, token=None, expect_response=True)

    def _authenticated(self, sent: _InFlight[Token], body: Body) -> Parts:
        assert self._authentication is not None
        if sent.api is SASL_HANDSHAKE:
            return self._token(self._authentication.accepted(sent.version, body))
        return self._token(self._authentication.answered(body))

    def _token(self, step: SaslStep) -> Parts:
        assert self._authentication is not None
        self._frames.has_headers = not self._authentication.bare
        if self._authentication.blocks:
            self.blocked = step
            return []
        return self.proceed(step())

    def proceed(self, token: bytes | None) -> Parts:
        """The bytes to send after a step of the exchange. Raises AuthenticationFailed."""
        self.blocked, authentication = None, self._authentication
        assert authentication is not None
        if token is None:
            authentication.finish()
            self._frames.has_headers = True
            return []
        if authentication.bare:
            if authentication.complete:
                authentication.finish()
                self._frames.has_headers = True
            return [bytearray(len(token).to_bytes(4, "big") + token)]
        api, body = authentication.request(token)
        return self._request(api, self.version_of(api), body, token=None, expect_response=True)
