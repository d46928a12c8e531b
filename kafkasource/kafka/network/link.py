"""One broker: its connection if there is one, used, given up and closed, and the requests that wait for it.

`states` says what it does when; here are the decisions which event it is that happened, and the actions. How a
connection is made is `opening`. Whatever ends
a connection fails what was under way on it with the reason, once its socket is closed, so that the requests' memory is
free again.

The thread that polls the client calls all methods. `now` is milliseconds of the client's clock.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator

from kafkasource.errors import AnswerTooLarge, ConnectFailed, ConnectionLost, KafkaSourceError, RequestTimeout, TlsError
from kafkasource.kafka.network.attempt import Backoff
from kafkasource.kafka.network.connection import Connection, Parts
from kafkasource.kafka.network.opening import ConnectionAttempt, Happened
from kafkasource.kafka.network.pending import Pending, Shared, address_of
from kafkasource.kafka.network.poller import READ
from kafkasource.kafka.network.request_queue import RequestQueue
from kafkasource.kafka.network.resolver import Resolution
from kafkasource.kafka.network.session import Session
from kafkasource.kafka.network.sockets import reason_of
from kafkasource.kafka.network.states import TRANSITIONS, LinkAction, LinkEvent, LinkState
from kafkasource.kafka.network.stream import Stream
from kafkasource.kafka.security.tls.errors import listener_with_tls
from kafkasource.types import NEVER

log = logging.getLogger("kafkasource.client")

_RECEIVES_PER_POLL = 32  # of one socket, so that a fast broker does not starve the others
_ANSWERED_NOTHING = (
    " after ApiVersions, before any other answer. A listener with SASL does that: if it is one, set"
    " 'kafka.security.protocol' to SASL_SSL or SASL_PLAINTEXT"
)
_IN_USE = {LinkState.READY, LinkState.DRAINING}
_ESTABLISHED = _IN_USE | {LinkState.REAUTHENTICATING}
_UNKNOWN = {LinkState.PROBING, LinkState.NEGOTIATING}  # connected to what may not be a broker at all
_CONNECTED = _ESTABLISHED | _UNKNOWN | {LinkState.AUTHENTICATING}
_UNDER_WAY = {LinkState.RESOLVING, LinkState.CONNECTING, LinkState.AUTHENTICATING} | _UNKNOWN


class BrokerLink:
    """See the module."""

    def __init__(self, node_id: int, host: str, port: int, shared: Shared) -> None:
        self._shared = shared
        self.node_id = node_id  # below 0: a bootstrap server
        self.host, self.port = host, port
        self.state = LinkState.IDLE
        self._requests = RequestQueue(shared)
        self.stream: Stream | None = None  # from CONNECTING to READY
        self._opening = ConnectionAttempt(host, port, shared)
        self._backoff = Backoff(shared.config, shared.random)
        self._session = Session(shared.random)
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
    def _advice(self) -> str:
        """Said once, and early: the error comes only after minutes of attempts, and most often the address is wrong."""
        if self.node_id >= 0 or self.failures > 1:
            return ""
        return ". The client keeps trying. Does a broker run there, and is kafka.bootstrap.servers right?"

    @property
    def ready(self) -> bool:
        """May a request be sent at once?"""
        return self.state is LinkState.READY

    @property
    def established(self) -> bool:
        """Whether the broker and its versions are known on its connection. Requests may wait for the next session."""
        return self.state in _ESTABLISHED

    @property
    def failures(self) -> int:
        """Attempts to connect that failed, with none succeeding since."""
        return self._backoff.failures

    def lacks_tls(self, now: float) -> bool:
        """Is it a port without TLS, as far as the failed attempts show?"""
        return self._backoff.lacks_tls(now)

    @property
    def missing(self) -> str:
        """The event that a running attempt to connect waits for; empty if none runs. Any thread."""
        state = self.state
        if state not in _UNDER_WAY:
            return ""
        text = self._opening.missing(state)
        if state not in _UNKNOWN:
            return text
        sasl = self._shared.login is not None
        tls = "" if self._shared.config.security.encrypts else f", or {listener_with_tls(sasl)}"
        return f"connected, but {text}: is it a port of Kafka's{tls}?"

    @property
    def resolution(self) -> Resolution | None:
        """While RESOLVING."""
        return self._opening.resolution

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
        return self._backoff.until_ms - now if self.state is LinkState.BACKING_OFF else 0.0

    # The table.

    def _on(self, event: LinkEvent, now: float, error: Exception | None = None) -> None:
        """Something happened: take the state that follows, and do what the table says."""
        if (self.state, event) not in TRANSITIONS:
            raise RuntimeError(f"{self.name}: {event.name} while {self.state.name}, a bug of kafkasource")
        self.state, action = TRANSITIONS[self.state, event]
        if action is not None:
            _ACTIONS[action](self, now, error)

    def _happened(self, happened: Happened | None, now: float) -> None:
        """The same for what a step of the opening returns."""
        if happened is None:
            return
        event, error = happened
        self._on(event, now, error)
        if event is LinkEvent.RESOLVER_BROKE:
            self._opening.end()
            assert error is not None
            raise error

    # Connecting.

    def connect_if_due(self, now: float) -> None:
        """Begin an attempt where a request waits for one."""
        if not self._requests.waiting or self.state not in (LinkState.IDLE, LinkState.BACKING_OFF):
            return
        if self.backs_off_ms(now) <= 0 and self._opening.may_begin(now):
            self._on(LinkEvent.ATTEMPT, now)

    def _resolve(self, now: float, _: Exception | None) -> None:
        self._happened(self._opening.resolve(now, self._backoff.setup_timeout_ms), now)

    def take_resolved(self, now: float) -> None:
        """Go on where the host's name has been looked up."""
        self._happened(self._opening.resolved(), now)

    def _open(self, now: float, _: Exception | None) -> None:
        self._close_stream()
        opened = self._opening.open(self.name, self, now, self._backoff.setup_timeout_ms)
        if isinstance(opened, Stream):
            log.debug("Initiating connection to node %d at %s", self.node_id, self.address)
            self.stream = opened
        else:
            self._happened(opened, now)

    def _negotiate(self, now: float, _: Exception | None) -> None:
        assert self.stream is not None
        self._opening.negotiate(self.stream, now)

    def _nudge(self, now: float, _: Exception | None) -> None:
        """Whether the broker has not answered ApiVersions yet; see `old_releases`."""
        assert self.stream is not None
        if not self.stream.connection.pending_bytes:
            self.stream.put(self.stream.connection.nudge())
            self._write(now)

    def _give_up(self, now: float, error: Exception | None) -> None:
        """The attempt failed with all addresses: what waited for it fails, the next one waits for its backoff."""
        assert isinstance(error, KafkaSourceError)
        self._backoff.failed(now, self._opening.attempt.tls_unanswered)
        self._shared.metadata.request_update()
        if self.node_id < 0:
            self._shared.bootstrap_errors[self.address] = error
        if self.failures & (self.failures - 1) == 0:  # the 1st, 2nd, 4th, 8th ...: a dead broker must not fill the log
            log.warning("cannot connect to %s (attempt %d): %s%s", self.name, self.failures, error, self._advice)
        in_full = self._opening.attempt.error(self.name, advertised=self.node_id >= 0)
        self._close(now, in_full if isinstance(error, ConnectFailed) else error)

    def _start(self, now: float, _: Exception | None) -> None:
        assert self.stream is not None
        self._backoff.failures = 0
        self._last_used_ms = now
        log.debug("Completed connection to node %d", self.node_id)
        release = self.stream.connection.release
        if release is not None:
            log.info("%s does not answer ApiVersions: the client treats it as Kafka %s", self.name, release.name)
        if self.node_id < 0:
            self._shared.bootstrap_errors.pop(self.address, None)
        self._resume(now)

    # The end of a session.

    def _resume(self, now: float, _: Exception | None = None) -> None:
        """A session begins."""
        assert self.stream is not None
        self._opening.done(self.stream)
        self._session.begin(self.stream.connection.session_lifetime_ms, now)
        self._write_queued(now)

    def _drain(self, now: float, _: Exception | None = None) -> None:
        """The broker answers in order, so it need not be asked when it is done with what came before."""
        stream = self.stream
        if (
            self.state is LinkState.DRAINING
            and stream is not None
            and not stream.out
            and not stream.connection.in_flight
        ):
            self._on(LinkEvent.DRAINED, now)

    def _renew(self, now: float, _: Exception | None) -> None:
        assert self.stream is not None
        log.debug("authenticating again with %s: its session ends", self.name)
        happened = self._opening.renew(self.stream, self.name, now, self._backoff.setup_timeout_ms)
        if happened is None:
            self._write(now)
        else:
            self._happened(happened, now)

    def _let_go(self, _: float, __: Exception | None) -> None:
        log.debug("%s ended the session before the next one began: connecting again", self.name)
        self._close_stream()
        self._opening.end()

    # The end of a connection.

    def _lost(self, now: float, reason: str, cause: Exception | None = None) -> None:
        """Handle the end of an established connection. If it was idle, that is normal: brokers close idle ones."""
        if not self.busy and cause is None:
            log.debug("%s closed an idle connection", self.name)
            self._on(LinkEvent.BROKER_CLOSED, now)
            return
        log.warning("connection to %s lost with %d requests under way: %s", self.name, self.load, reason)
        error = ConnectionLost(f"{self.name}: {reason}")
        error.__cause__ = cause
        self._on(LinkEvent.LOST, now, error)

    def _lose(self, now: float, error: Exception | None) -> None:
        self._backoff.lost(now)
        self._shared.metadata.request_update()
        self._close(now, error)

    def disconnect(self, now: float, error: Exception | None) -> None:
        """Close the socket, then fail everything of the link with `error`; None: only where nothing is under way."""
        self._on(LinkEvent.CLOSE, now, error)

    def _close(self, _: float, error: Exception | None) -> None:
        under_way = list(self.pending())
        self._requests.waiting.clear()
        self._close_stream()
        self._opening.end()
        if error is not None:
            self._shared.fail(under_way, error)

    def _close_stream(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.close()
        self.round_trip_ms = NEVER
        self._opening.stop()

    # Time.

    def next_timer_ms(self) -> float:
        """When something is due, by the clock, that no socket will tell of."""
        if self.unread:
            return 0.0
        at = min((pending.deadline_ms for pending in self.pending()), default=NEVER)
        at = min(at, self._opening.due_ms)
        if self._requests.waiting and self.state in (LinkState.IDLE, LinkState.BACKING_OFF):
            at = min(at, max(self._backoff.until_ms, self._opening.hold_until_ms))
        elif self._requests.waiting and self.ready:
            at = min(at, self._requests.throttled_until_ms)
        elif self.ready and not self.load:
            at = min(at, self._idle_at_ms())
        return at

    def _idle_at_ms(self) -> float:
        idle_ms = self._shared.config.connections_max_idle_ms
        return self._last_used_ms + idle_ms if idle_ms >= 0 else NEVER

    def expire(self, now: float) -> None:
        """Do everything that is due, except attempts to connect (`connect_if_due`)."""
        if now >= self._opening.deadline_ms:
            self._happened(self._opening.late(self.state), now)
        if now >= self._opening.nudge_at_ms:
            self._opening.nudge_at_ms = NEVER
            self._on(LinkEvent.NUDGE_DUE, now)
        if not self._receiving:  # what nobody polled for in time may be here in full
            self._expire_requests(now)
        self._receiving = False
        if self._requests.waiting and self.ready:
            self._write_queued(now)  # a throttle ended
        if self.ready and not self.busy and self._idle_at_ms() <= now:
            log.debug("closing the idle connection to %s", self.name)
            self._on(LinkEvent.IDLE_EXPIRED, now)

    def _expire_requests(self, now: float) -> None:
        so_far = "ApiVersions not answered yet" if self.state in _CONNECTED else "it is still being made"
        if self.established:
            so_far = "the session ends, and the next one has not begun"
        self._requests.fail_late(now, self.name, "; ".join(self._opening.attempt.reasons) or so_far)
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
        if self.state is LinkState.CONNECTING:
            self._happened(self._opening.connected(self.stream), now)
            if self.state not in _CONNECTED:
                return
        stream = self.stream
        if events & READ and stream is not None:
            self._receive(now)
        if stream is not None and self.stream is stream:  # else: closed, or the next attempt began
            self._write(now)

    def receive_unread(self, now: float) -> None:
        """Take bytes that an earlier poll has left, for which the socket will have no event."""
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
            self._warn_of_surplus(stream.connection.surplus)
            for response in received.responses:
                self._requests.answered(response, stream, now, self.name)
                self.round_trip_ms = min(self.round_trip_ms, response.token.took_ms)
            if received.error is not None:
                self._broken(stream, received.error, now)
                return
            self._say(stream, received.reply, now)
            self._follow(stream, now)
            self._drain(now)
            if stream.emptied or self.stream is not stream:
                return

    def _warn_of_surplus(self, surplus: str) -> None:
        if surplus and self.address not in self._shared.with_surplus:
            self._shared.with_surplus.add(self.address)
            log.warning("%s sent %s: the client ignores them from now on, as other clients do", self.name, surplus)

    def _broken(self, stream: Stream, error: KafkaSourceError, now: float) -> None:
        """The broker's bytes make no sense, or it refuses the client."""
        if self.state is LinkState.PROBING and stream.connection.identified:
            self._on(LinkEvent.IDENTIFIED, now)
        if stream.connection.ready:
            if isinstance(error, AnswerTooLarge):  # no retry can help who asked for it
                self._shared.fail(stream.connection.tokens()[:1], error)
            self._lost(now, f"closed, because {error}", error)
        else:
            self._happened(self._opening.failed(self.state, str(error), error), now)

    def _say(self, stream: Stream, parts: Parts, now: float) -> None:
        """Send the conversation's own answers, before it is ready."""
        if parts:
            stream.put(parts)
            self._session.token_sent(now)

    def _follow(self, stream: Stream, now: float) -> None:
        """The link's state follows what the conversation has come to."""
        while self.stream is stream and (happened := self._opening.understood(stream, self.state)) is not None:
            self._happened(happened, now)
        if self.stream is stream:
            self._opening.await_login(stream)

    def take_login(self, now: float) -> None:
        """Go on with SASL where its next token was waited for."""
        stream = self.stream
        if stream is None:
            return
        try:
            parts = self._opening.take_login(stream)
        except KafkaSourceError as error:
            self._happened(self._opening.failed(self.state, str(error), error), now)
            return
        except Exception as error:  # of a user's function, or of a library: it ends this attempt, and not the client
            self._happened(self._opening.failed(self.state, _unexpected(error)), now)
            return
        if parts is not None:
            self._say(stream, parts, now)
            self._follow(stream, now)
            if self.stream is stream:  # else: the connection broke as the requests that waited were written
                self._write(now)

    def _stream_ended(self, now: float, error: OSError | TlsError) -> None:
        stream = self.stream
        assert stream is not None
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        if self.state not in _IN_USE:
            self._happened(self._opening.ended(stream, self.state, reason, error), now)
            return
        if stream.connection.pending_bytes:
            reason += f" in the middle of a response ({stream.connection.pending_bytes} bytes had come)"
        elif self._shared.metadata.version == 0 and self._shared.login is None:
            reason += _ANSWERED_NOTHING
        self._lost(now, reason, error if isinstance(error, TlsError) else None)

    def _write_queued(self, now: float) -> None:
        assert self.stream is not None
        if now >= self._session.renew_at_ms and self._requests.may_write(now):
            self._on(LinkEvent.SESSION_ENDING, now)
            return
        self._requests.encode(self.stream, now)
        self._write(now)

    def _write(self, now: float) -> None:
        assert self.stream is not None
        try:
            if self.stream.write(self._shared.completed):
                self._last_used_ms = now
            self._drain(now)
        except (OSError, TlsError) as error:
            self._stream_ended(now, error)


def _unexpected(error: Exception) -> str:
    """Describe a failure of SASL by the place that raised it, because the error's text may hold a secret."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"SASL failed: {type(error).__name__}, raised by {place.name} ({place.filename}:{place.lineno})"


_ACTIONS: dict[LinkAction, Callable[[BrokerLink, float, Exception | None], None]] = {
    LinkAction.RESOLVE: BrokerLink._resolve,
    LinkAction.OPEN: BrokerLink._open,
    LinkAction.NEGOTIATE: BrokerLink._negotiate,
    LinkAction.NUDGE: BrokerLink._nudge,
    LinkAction.START: BrokerLink._start,
    LinkAction.GIVE_UP: BrokerLink._give_up,
    LinkAction.BACK_OFF: BrokerLink._lose,
    LinkAction.CLOSE: BrokerLink._close,
    LinkAction.DRAIN: BrokerLink._drain,
    LinkAction.RENEW: BrokerLink._renew,
    LinkAction.RESUME: BrokerLink._resume,
    LinkAction.LET_GO: BrokerLink._let_go,
}
