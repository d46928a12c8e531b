"""One broker: its connection if there is one, made, used, given up and closed, and the requests that wait for it.

`states` says what it does when; here are the decisions which event it is that happened, and the actions. Whatever ends
a connection fails what was under way on it with the reason, once its socket is closed, so that the requests' memory is
free again.

The thread that polls the client calls all methods. `now` is milliseconds of the client's clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from kafkasource.client.connection.authentication import Authentication
from kafkasource.client.connection.connection import Connection
from kafkasource.client.connection.old_releases import NUDGE_MS, SILENT, next_step
from kafkasource.client.network.attempt import Attempt, Backoff
from kafkasource.client.network.background import BackgroundCall
from kafkasource.client.network.pending import Pending, Shared, address_of
from kafkasource.client.network.poller import READ
from kafkasource.client.network.request_queue import RequestQueue
from kafkasource.client.network.states import TRANSITIONS, Action, Event, State
from kafkasource.client.network.stream import BudgetedFrames, Stream
from kafkasource.client.transport.resolver import Resolution, is_address, process_resolver
from kafkasource.client.transport.sockets import reason_of
from kafkasource.errors import (
    AuthenticationFailed,
    ConnectFailed,
    ConnectionLost,
    KafkaSourceError,
    OptionError,
    ProtocolError,
    RequestTimeout,
    TlsError,
)
from kafkasource.types import NEVER

log = logging.getLogger("kafkasource.client")

_RECEIVES_PER_POLL = 32  # of one socket, so that a fast broker does not starve the others
_NOT_IN_TIME = {
    State.RESOLVING: "cannot resolve the name: no answer",
    State.CONNECTING: "no connection",
    State.PROBING: "no answer to ApiVersions",
    State.NEGOTIATING: "no answer to ApiVersions",
    State.AUTHENTICATING: "SASL was not done",
}
_ANSWERED_NOTHING = (
    " after ApiVersions, before any other answer. A listener with SASL does that: if it is one, set"
    " 'kafka.security.protocol' to SASL_SSL or SASL_PLAINTEXT"
)
_CONNECTED = {State.PROBING, State.NEGOTIATING, State.AUTHENTICATING, State.READY}
_FINAL = (TlsError, AuthenticationFailed, OptionError)  # what would happen again at each address, and at each attempt


class Link:
    """See the module."""

    def __init__(self, node_id: int, host: str, port: int, shared: Shared) -> None:
        self._shared = shared
        self.node_id = node_id  # below 0: a bootstrap server
        self.host, self.port = host, port
        self.state = State.IDLE
        self._requests = RequestQueue(shared)
        self.stream: Stream | None = None  # from CONNECTING to READY
        self.resolution: Resolution | None = None  # while RESOLVING
        self._login: BackgroundCall[bytes | None] | None = None  # while AUTHENTICATING: what SASL waits for
        self._attempt = Attempt(self.address)  # the last one
        self._connect_deadline_ms = NEVER  # resolving, or connecting and negotiating
        self._nudge_after_ms = NUDGE_MS  # once it was found to be silent: at once
        self._nudge_at_ms = NEVER
        self._backoff = Backoff(shared.config, shared.random)
        self._last_used_ms = 0.0
        self._receiving = False  # did bytes come in the poll that runs?
        self.round_trip_ms = NEVER  # the shortest seen on this connection

    @property
    def address(self) -> str:
        return address_of(self.host, self.port)

    @property
    def name(self) -> str:
        return f"bootstrap server {self.address}" if self.node_id < 0 else f"broker {self.node_id} at {self.address}"

    @property
    def ready(self) -> bool:
        return self.state is State.READY

    @property
    def failures(self) -> int:
        """Attempts to connect that failed, with none succeeding since."""
        return self._backoff.failures

    @property
    def connection(self) -> Connection[Pending] | None:
        return self.stream.connection if self.stream is not None else None

    @property
    def load(self) -> int:
        """Requests that are not done."""
        return sum(1 for _ in self.pending())

    @property
    def busy(self) -> bool:
        """Is a request not done, or are bytes still to be written?"""
        return bool(self.load or (self.stream is not None and self.stream.out))

    def pending(self) -> Iterator[Pending]:
        yield from self._requests.waiting
        if self.stream is not None:
            yield from self.stream.pending()

    def backs_off_ms(self, now: float) -> float:
        """How long no attempt to connect may begin; 0 or less: one may, or is under way, or there is a connection."""
        return self._backoff.until_ms - now if self.state is State.BACKING_OFF else 0.0

    # The table.

    def _on(self, event: Event, now: float, error: Exception | None = None) -> None:
        """Something happened: take the state that follows, and do what the table says."""
        if (self.state, event) not in TRANSITIONS:
            raise RuntimeError(f"{self.name}: {event.name} while {self.state.name}, a bug of kafkasource")
        self.state, action = TRANSITIONS[self.state, event]
        if action is not None:
            _ACTIONS[action](self, now, error)

    # Connecting.

    def connect_if_due(self, now: float) -> None:
        """Begin an attempt where a request waits for one."""
        if self._requests.waiting and self.state in (State.IDLE, State.BACKING_OFF) and self.backs_off_ms(now) <= 0:
            self._on(Event.ATTEMPT, now)

    def _resolve(self, now: float, _: Exception | None) -> None:
        self._attempt = Attempt(self.address)
        connector = self._shared.connector
        if connector.resolve_blocks and not is_address(self.host):
            self._connect_deadline_ms = now + self._backoff.setup_timeout_ms
            wakeup = self._shared.poller.wakeup
            self.resolution = process_resolver().ask(connector.resolve, self.host, self.port, wakeup)
            return
        self.resolution = Resolution(connector.resolve, self.host, self.port)
        self.resolution.run()
        self.take_resolved(now)

    def take_resolved(self, now: float) -> None:
        """Go on where the host's name has been looked up."""
        found = self.resolution
        if found is None or not found.done:
            return
        self.resolution = None
        self._connect_deadline_ms = NEVER
        error = found.error
        if error is not None and not isinstance(error, (OSError, UnicodeError)):
            self._on(Event.RESOLVER_BROKE, now)
            raise error
        self._attempt.addresses = list(found.addresses)
        if found.addresses:
            self._on(Event.RESOLVED, now)
        else:  # a label of more than 63 bytes is a UnicodeError
            why = f"cannot resolve the name: {reason_of(error)}" if error else "the name has no address"
            self._address_failed(now, why)

    def _open(self, now: float, _: Exception | None) -> None:
        self._close_stream()
        attempt, config = self._attempt, self._shared.config
        try:
            login = self._authentication()
            transport = self._shared.connector.open(attempt.next_address())
        except OSError as error:
            self._address_failed(now, reason_of(error))
            return
        except OptionError as error:  # a truststore or a password's file that cannot be read here
            self._on(Event.ATTEMPT_FAILED, now, error)
            return
        log.debug("Initiating connection to node %d at %s", self.node_id, self.address)
        connection: Connection[Pending] = Connection(
            self.name, config.client_id, config.receive_message_max_bytes, BudgetedFrames(), attempt.step, login
        )
        self.stream = Stream(transport, connection, self._shared.poller.selector, self)
        self._connect_deadline_ms = now + self._backoff.setup_timeout_ms

    def _authentication(self) -> Authentication | None:
        login = self._shared.login
        return None if login is None else Authentication(login.mechanism(self.host), self.name)

    def _finish_connect(self, now: float) -> bool:
        assert self.stream is not None
        try:
            connected = self.stream.transport.finish_connect()
            if not connected:
                self.stream.await_handshake()
        except OSError as error:
            self._address_failed(now, reason_of(error))
            return False
        except KafkaSourceError as error:
            self._address_failed(now, str(error), error)
            return False
        if connected:
            self._on(self._attempt.connected(), now)
        return connected

    def _negotiate(self, now: float, _: Exception | None) -> None:
        assert self.stream is not None
        self.stream.put(self.stream.connection.negotiate())
        if not self._shared.config.security.secures:
            self._nudge_at_ms = now + self._nudge_after_ms

    def _nudge(self, now: float, _: Exception | None) -> None:
        """No answer to ApiVersions so far; see `old_releases`."""
        assert self.stream is not None
        if not self.stream.connection.pending_bytes:
            self.stream.put(self.stream.connection.nudge())
            self._write(now)

    def _address_failed(self, now: float, reason: str, error: KafkaSourceError | None = None) -> None:
        """This address did not work out; go on with the next one of the host, if there is one.

        `error`: what will happen again at the host's other addresses, as all are one service: TLS or SASL refused, or,
        before any broker did, an answer that is not Kafka's protocol. It ends the attempt.
        """
        event = self._attempt.failed(reason)
        first = self._shared.metadata.version == 0
        if isinstance(error, _FINAL) or (isinstance(error, ProtocolError) and first):
            self._on(Event.ATTEMPT_FAILED, now, error)
        else:
            self._on(event, now, ConnectFailed("; ".join(self._attempt.reasons)))

    def _give_up(self, now: float, error: Exception | None) -> None:
        """The attempt failed with all addresses: what waited for it fails, the next one waits for its backoff."""
        assert isinstance(error, KafkaSourceError)
        self._backoff.failed(now)
        self._shared.metadata.request_update()
        if self.node_id < 0:
            self._shared.bootstrap_errors[self.address] = error
        if self.failures & (self.failures - 1) == 0:  # the 1st, 2nd, 4th, 8th ...: a dead broker must not fill the log
            log.warning("cannot connect to %s (attempt %d): %s", self.name, self.failures, error)
        in_full = self._attempt.error(self.name, advertised=self.node_id >= 0)
        self._close(now, in_full if isinstance(error, ConnectFailed) else error)

    def _start(self, now: float, _: Exception | None) -> None:
        assert self.stream is not None
        self._backoff.failures = 0
        self._last_used_ms = now
        self._connect_deadline_ms = self._nudge_at_ms = NEVER
        log.debug("Completed connection to node %d", self.node_id)
        release = self.stream.connection.release
        self._nudge_after_ms = 0.0 if release is SILENT else NUDGE_MS
        if release is not None:
            log.info("%s knows no ApiVersions: it is spoken to as Kafka %s", self.name, release.name)
        if self.node_id < 0:
            self._shared.bootstrap_errors.pop(self.address, None)
        self._write_queued(now)

    # The end of a connection.

    def _lost(self, now: float, reason: str, cause: Exception | None = None) -> None:
        """An established connection ended. With nothing under way that is no failure: brokers close idle ones."""
        if not self.busy and cause is None:
            log.debug("%s closed an idle connection", self.name)
            self._on(Event.BROKER_CLOSED, now)
            return
        log.warning("connection to %s lost with %d requests under way: %s", self.name, self.load, reason)
        error = ConnectionLost(f"{self.name}: {reason}")
        error.__cause__ = cause
        self._on(Event.LOST, now, error)

    def _lose(self, now: float, error: Exception | None) -> None:
        self._backoff.lost(now)
        self._shared.metadata.request_update()
        self._close(now, error)

    def disconnect(self, now: float, error: Exception | None) -> None:
        """Close the socket, then fail everything of the link with `error`; None: only where nothing is under way."""
        self._on(Event.CLOSE, now, error)

    def _close(self, _: float, error: Exception | None) -> None:
        under_way = list(self.pending())
        self._requests.waiting.clear()
        self._close_stream()
        if error is not None:
            self._shared.fail(under_way, error)

    def _close_stream(self) -> None:
        stream, self.stream, self.resolution, self._login = self.stream, None, None, None
        if stream is not None:
            stream.close()
        self.round_trip_ms = NEVER
        self._connect_deadline_ms = self._nudge_at_ms = NEVER

    # Time.

    def next_timer_ms(self) -> float:
        """When something is due, by the clock, that no socket will tell of."""
        if self.unread:
            return 0.0
        at = min((pending.deadline_ms for pending in self.pending()), default=NEVER)
        at = min(at, self._connect_deadline_ms, self._nudge_at_ms)
        if self._requests.waiting and self.state in (State.IDLE, State.BACKING_OFF):
            at = min(at, self._backoff.until_ms)
        elif self._requests.waiting and self.ready:
            at = min(at, self._requests.throttled_until_ms)
        elif self.ready and not self.load:
            at = min(at, self._idle_at_ms())
        return at

    def _idle_at_ms(self) -> float:
        idle_ms = self._shared.config.connections_max_idle_ms
        return self._last_used_ms + idle_ms if idle_ms >= 0 else NEVER

    def expire(self, now: float) -> None:
        """Let happen what is due, but for attempts to connect (`connect_if_due`)."""
        if now >= self._connect_deadline_ms:
            self._address_failed(now, f"{_NOT_IN_TIME[self.state]} in time (socket.connection.setup.timeout.ms)")
        if now >= self._nudge_at_ms:
            self._nudge_at_ms = NEVER
            self._on(Event.NUDGE_DUE, now)
        if not self._receiving:  # what nobody polled for in time may be here in full
            self._expire_requests(now)
        self._receiving = False
        if self._requests.waiting and self.ready:
            self._write_queued(now)  # a throttle ended
        if self.ready and not self.busy and self._idle_at_ms() <= now:
            log.debug("closing the idle connection to %s", self.name)
            self._on(Event.IDLE_EXPIRED, now)

    def _expire_requests(self, now: float) -> None:
        so_far = "ApiVersions not answered yet" if self.state in _CONNECTED else "it is still being made"
        self._requests.fail_late(now, self.name, "; ".join(self._attempt.reasons) or so_far)
        sent = [pending for pending in self.pending() if pending.deadline_ms <= now]
        if sent:
            # Closing is the only way to take a request back: its memory is ours again and a late answer meets no one.
            got = self.connection.pending_bytes if self.connection else 0
            names = ", ".join(sorted({pending.api.name for pending in sent}))
            text = f"no complete response to {names} in time ({got} bytes of a response had come)"
            error = RequestTimeout(f"{self.name}: {text}")
            error.received_bytes = got
            self._shared.fail(sent, error)
            self._lost(now, text, error)

    # Reading and writing.

    def take(self, pending: Pending, now: float) -> None:
        """A request for this broker: written at once where that is possible."""
        if self.ready and not self.busy:
            self._receive(now)  # has the broker closed it since the last poll, between two micro-batches?
        self._requests.take(pending, now)
        if self.ready:
            self._write_queued(now)

    def serve(self, fileobj: object, events: int, now: float) -> None:
        """The selector says that the link's socket is ready."""
        if self.stream is None or self.stream.transport is not fileobj:
            return  # closed by an event before
        if self.state is State.CONNECTING and not self._finish_connect(now):
            return
        stream = self.stream
        if events & READ and stream is not None:
            self._receive(now)
        if stream is not None and self.stream is stream:  # else: closed, or the next attempt began
            self._write(now)

    def receive_unread(self, now: float) -> None:
        """Take what was left when a poll had taken enough, and what no event of the socket will tell of."""
        if self.unread:
            self._receive(now)

    @property
    def unread(self) -> bool:
        return self.stream is not None and self.state in _CONNECTED and self.stream.unread

    def _receive(self, now: float) -> None:
        stream = self.stream
        assert stream is not None
        for _ in range(_RECEIVES_PER_POLL):
            try:
                received = stream.receive()
            except (OSError, TlsError) as error:
                self._stream_ended(now, error)
                return
            if received is None:
                return
            self._last_used_ms, self._receiving = now, True
            for response in received.responses:
                self._requests.answered(response.token, response.body, stream, now, self.name)
                self.round_trip_ms = min(self.round_trip_ms, response.token.took_ms)
            if self.state is State.PROBING and stream.connection.identified:
                self._on(Event.IDENTIFIED, now)
            if received.error is not None:
                if stream.connection.ready:
                    self._lost(now, f"closed, because {received.error}", received.error)
                else:
                    self._address_failed(now, str(received.error), received.error)
                return
            stream.put(received.reply)
            self._follow(stream.connection, now)
            if stream.emptied or self.stream is not stream:
                return

    def _follow(self, connection: Connection[Pending], now: float) -> None:
        """The link's state follows what the conversation has come to."""
        if connection.authenticating and self.state is State.NEGOTIATING:
            self._on(Event.VERSIONS_KNOWN_TO_LOG_IN, now)
        if connection.ready and not self.ready:
            self._on(Event.LOGGED_IN if self.state is State.AUTHENTICATING else Event.VERSIONS_KNOWN, now)
        if connection.blocked is not None and self._login is None:
            self._login = BackgroundCall(connection.blocked, self._shared.poller.wakeup)

    def take_login(self, now: float) -> None:
        """Go on with SASL where its next token was waited for."""
        login, stream = self._login, self.stream
        if login is None or stream is None or not login.done:
            return
        self._login = None
        try:
            stream.put(stream.connection.proceed(login.result()))
        except KafkaSourceError as error:
            self._address_failed(now, str(error), error)
            return
        self._follow(stream.connection, now)
        self._write(now)

    def _stream_ended(self, now: float, error: OSError | TlsError) -> None:
        connection, config = self.connection, self._shared.config
        assert connection is not None
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        if self.ready:
            if connection.pending_bytes:
                reason += f" in the middle of a response ({connection.pending_bytes} bytes had come)"
            elif self._shared.metadata.version == 0 and self._shared.login is None:
                reason += _ANSWERED_NOTHING
            self._lost(now, reason, error if isinstance(error, TlsError) else None)
            return
        if isinstance(error, TlsError):  # TLS 1.3: the broker checks the client's certificate after the handshake
            self._address_failed(now, reason, error)
            return
        if connection.pending_bytes:
            self._address_failed(now, reason)
            return
        if config.security.secures:  # probes for brokers from before ApiVersions are for PLAINTEXT listeners
            self._address_failed(now, f"{reason} ({_NOT_IN_TIME[self.state]})")
            return
        step = next_step(self._attempt.step, connection.identified, config.broker_version_fallback)
        if step is not None:
            self._attempt.again(step)
            self._on(Event.UNANSWERED, now)
            return
        hint = "no answer to ApiVersions, nor as Kafka 0.9 or 0.8.2: a TLS listener, or not Kafka?"
        self._address_failed(now, f"{reason} ({hint})")

    def _write_queued(self, now: float) -> None:
        assert self.stream is not None
        self._requests.encode(self.stream, now)
        self._write(now)

    def _write(self, now: float) -> None:
        assert self.stream is not None
        try:
            if self.stream.write(self._shared.completed):
                self._last_used_ms = now
        except (OSError, TlsError) as error:
            self._stream_ended(now, error)


_ACTIONS: dict[Action, Callable[[Link, float, Exception | None], None]] = {
    Action.RESOLVE: Link._resolve,
    Action.OPEN: Link._open,
    Action.NEGOTIATE: Link._negotiate,
    Action.NUDGE: Link._nudge,
    Action.START: Link._start,
    Action.GIVE_UP: Link._give_up,
    Action.BACK_OFF: Link._lose,
    Action.CLOSE: Link._close,
}
