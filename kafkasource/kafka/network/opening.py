"""The making of one broker's connection: its name looked up, its addresses tried, its answers awaited in time.

It changes no state and fires no event: each step returns what happened, and the link lets its table decide. Of a
connection in use it knows one thing: how SASL goes once more where the session ends. The thread that polls the client
calls all methods. `now` is milliseconds of the client's clock.
"""

from __future__ import annotations

import logging
from typing import TypeAlias

from kafkasource.errors import (
    AuthenticationFailed,
    ConnectFailed,
    KafkaSourceError,
    OptionError,
    ProtocolError,
    SaslAuthenticationFailed,
    TlsError,
    TlsUnanswered,
)
from kafkasource.kafka.network.attempt import Attempt
from kafkasource.kafka.network.authentication import Authentication
from kafkasource.kafka.network.background import BackgroundCall
from kafkasource.kafka.network.connection import Connection, Parts
from kafkasource.kafka.network.old_releases import HandshakeStep
from kafkasource.kafka.network.pending import Pending, Shared, address_of
from kafkasource.kafka.network.resolver import Resolution, is_address, process_resolver
from kafkasource.kafka.network.sockets import reason_of
from kafkasource.kafka.network.states import LinkEvent, LinkState
from kafkasource.kafka.network.stream import BudgetedFrames, Stream
from kafkasource.kafka.security.identity import identity_by, identity_of
from kafkasource.kafka.security.refusals import Servers, process_refusals
from kafkasource.kafka.security.sasl.credentials import SaslConfig
from kafkasource.kafka.security.tls.errors import listener_with_tls
from kafkasource.types import NEVER

log = logging.getLogger("kafkasource.client")

Happened: TypeAlias = tuple[LinkEvent, Exception | None]
"""An event of the link's table, with the error that goes with it."""

_NOT_IN_TIME = {
    LinkState.RESOLVING: "cannot resolve the name: no answer",
    LinkState.CONNECTING: "no connection",
    LinkState.PROBING: "no answer to ApiVersions",
    LinkState.NEGOTIATING: "no answer to ApiVersions",
    LinkState.AUTHENTICATING: "SASL was not done",
    LinkState.REAUTHENTICATING: "SASL was not done again",
}
_BEFORE_VERSIONS = {LinkState.PROBING, LinkState.NEGOTIATING}
_HOLD_MS = 50.0  # a login takes some milliseconds, a refusal 300
_FINAL = (TlsError, AuthenticationFailed, OptionError)  # what would happen again at each address, and at each attempt


class ConnectionAttempt:
    """Opens connections to one broker, for all its attempts; see the module."""

    def __init__(self, host: str, port: int, shared: Shared) -> None:
        self._host, self._port = host, port
        self._shared = shared
        self.attempt = Attempt(address_of(host, port))  # the last one
        self.resolution: Resolution | None = None  # while RESOLVING
        self._login: BackgroundCall[bytes | None] | None = None  # what SASL waits for
        self.deadline_ms = NEVER  # resolving, connecting and negotiating, or authenticating again
        self.hold_until_ms = 0.0  # no attempt begins before: another connection tries the password
        self._credentials: SaslConfig | None = None  # that the broker is asked with; read once for an attempt
        self._accepted: SaslConfig | None = None  # with which the present session began
        self.nudge_at_ms = NEVER

    @property
    def due_ms(self) -> float:
        """When something is due that no socket will tell of."""
        return min(self.deadline_ms, self.nudge_at_ms)

    def stop(self) -> None:
        """Wait for nothing any more: the socket is closed."""
        self.resolution = self._login = None
        self.deadline_ms = self.nudge_at_ms = NEVER

    def end(self) -> None:
        """There is no connection any more, and none is made."""
        self.stop()
        process_refusals.get().end(self)

    def may_begin(self, now: float) -> bool:
        """May an attempt begin? Until a broker has accepted a password, one connection of the process tries it."""
        login = self._shared.login
        if login is None:
            return True
        if now < self.hold_until_ms:
            return False
        self._credentials = None
        try:
            credentials = login.credentials()
        except OptionError:
            return True  # the attempt will say so
        if process_refusals.get().begin(credentials, self._servers, self):
            self._credentials = credentials
            return True
        self.hold_until_ms = now + _HOLD_MS
        return False

    @property
    def _servers(self) -> Servers:
        """The key under which the process knows the cluster."""
        return self._shared.config.bootstrap_servers

    # The name.

    def resolve(self, now: float, patience_ms: float) -> Happened | None:
        """Begin an attempt."""
        address = address_of(self._host, self._port)
        self.attempt = Attempt(address, self._shared.first_steps.get(address, HandshakeStep()))
        connector = self._shared.connector
        if connector.resolve_blocks and not is_address(self._host):
            self.deadline_ms = now + patience_ms
            wakeup = self._shared.poller.wakeup
            self.resolution = process_resolver().ask(connector.resolve, self._host, self._port, wakeup)
            return None
        self.resolution = Resolution(connector.resolve, self._host, self._port)
        self.resolution.run()
        return self.resolved()

    def resolved(self) -> Happened | None:
        """The result of the look-up; None: it is not done. The error of RESOLVER_BROKE is a bug."""
        found = self.resolution
        if found is None or not found.done:
            return None
        self.resolution = None
        self.deadline_ms = NEVER
        error = found.error
        if error is not None and not isinstance(error, (OSError, UnicodeError)):
            return LinkEvent.RESOLVER_BROKE, error
        self.attempt.addresses = list(found.addresses)
        if found.addresses:
            return LinkEvent.RESOLVED, None
        # A label of more than 63 bytes is a UnicodeError.
        why = f"cannot resolve the name: {reason_of(error)}" if error else "the name has no address"
        return self.failed(LinkState.RESOLVING, why)

    # The socket.

    def open(self, name: str, served_by: object, now: float, patience_ms: float) -> Stream | Happened:
        """A socket that connects to the attempt's next address. `name` names the broker in texts."""
        config = self._shared.config
        try:
            login = self._authentication(name)
            transport = self._shared.connector.open(self.attempt.next_address())
        except OSError as error:
            return self.failed(LinkState.CONNECTING, reason_of(error))
        except (OptionError, AuthenticationFailed) as error:  # a file that cannot be read; a password refused before
            return LinkEvent.ATTEMPT_FAILED, error
        connection: Connection[Pending] = Connection(
            name,
            config.client_id,
            config.receive_message_max_bytes,
            BudgetedFrames(),
            self.attempt.step,
            login,
            self._shared.last_metadata,
        )
        self.deadline_ms = now + patience_ms
        return Stream(transport, connection, self._shared.poller.selector, served_by)

    def _authentication(self, name: str) -> Authentication | None:
        """Raises OptionError, and AuthenticationFailed where a broker has refused the password a moment ago."""
        login = self._shared.login
        if login is None:
            return None
        self._credentials = credentials = self._credentials or login.credentials()
        process_refusals.get().check(credentials, self._servers)
        return Authentication(login.mechanism(self._host, credentials), name)

    def connected(self, stream: Stream) -> Happened | None:
        """Go on with TCP's and TLS's handshakes; None: they are not done."""
        try:
            if stream.transport.finish_connect():
                return self.attempt.connected(), None
            stream.await_handshake()
        except OSError as error:
            return self.failed(LinkState.CONNECTING, reason_of(error))
        except KafkaSourceError as error:
            return self.failed(LinkState.CONNECTING, str(error), error)
        return None

    # The broker's versions, and SASL.

    def negotiate(self, stream: Stream, now: float) -> None:
        """Send the first request."""
        stream.put(stream.connection.negotiate())
        if self._shared.login is None:
            self.nudge_at_ms = now + self.attempt.step.nudge_after_ms(self._shared.config.broker_version_fallback)

    def understood(self, stream: Stream, state: LinkState) -> Happened | None:
        """The conversation's state as an event; None: the link's state says that already."""
        connection = stream.connection
        if state is LinkState.PROBING and connection.identified:
            return LinkEvent.IDENTIFIED, None
        if connection.dropped and state is LinkState.NEGOTIATING:
            self.attempt.again(self.attempt.step.after_drop())
            return LinkEvent.UNANSWERED, None
        if connection.authenticating and state is LinkState.NEGOTIATING:
            return LinkEvent.VERSIONS_KNOWN_TO_LOG_IN, None
        if connection.ready and state is LinkState.NEGOTIATING:
            return LinkEvent.VERSIONS_KNOWN, None
        if connection.ready and state in (LinkState.AUTHENTICATING, LinkState.REAUTHENTICATING):
            return LinkEvent.LOGGED_IN, None
        return None

    def renew(self, stream: Stream, name: str, now: float, patience_ms: float) -> Happened | None:
        """Begin SASL once more, with what the options' references stand for now.

        Brokers let a connection change neither its user nor its mechanism. Another user needs another connection.
        """
        self.deadline_ms = now + patience_ms
        try:
            authentication = self._authentication(name)
        except (OptionError, AuthenticationFailed) as error:
            return LinkEvent.REFUSED, error
        assert authentication is not None
        assert self._credentials is not None
        if self._accepted is not None and self._accepted.user != self._credentials.user:
            return LinkEvent.RENEWAL_LOST, None
        stream.put(stream.connection.authenticate_again(authentication))
        return None

    def await_login(self, stream: Stream) -> None:
        """Wait for SASL's next token in another thread, if it may take a while."""
        if stream.connection.blocked is not None and self._login is None:
            self._login = BackgroundCall(stream.connection.blocked, self._shared.poller.wakeup)

    def take_login(self, stream: Stream) -> Parts | None:
        """The bytes to send once SASL's next token is here; None: it is not. Raises the error of making the token."""
        login = self._login
        if login is None or not login.done:
            return None
        self._login = None
        return stream.connection.proceed(login.result())

    def done(self, stream: Stream) -> None:
        """The connection may be used: wait for nothing, and remember how the broker was found to be what it is."""
        self.stop()
        self._shared.first_steps[self.attempt.host] = self.attempt.step.next_time(stream.connection.release)
        if self._shared.login is not None:
            self._shared.identity = identity_of(stream.connection.user)
        else:
            self._shared.identity = identity_by(stream.transport.own_certificate)
        if self._credentials is not None:
            process_refusals.get().accepted(self._credentials, self._servers)
            self._accepted, self._credentials = self._credentials, None

    # Errors.

    def late(self, state: LinkState) -> Happened:
        if state in _BEFORE_VERSIONS:
            self._shared.first_steps[self.attempt.host] = self.attempt.step.after_silence()
        return self.failed(state, f"{self.missing(state)} in time (socket.connection.setup.timeout.ms)")

    def missing(self, state: LinkState) -> str:
        """The event that the running attempt waits for."""
        awaited = "" if self._login is None else f"{self._awaited} has not answered; "
        return awaited + _NOT_IN_TIME[state]

    @property
    def _awaited(self) -> str:
        """The server, other than the broker, for which SASL waits in another thread."""
        source = None if self._credentials is None else self._credentials.token_source
        return "the KDC" if source is None else source.origin

    def failed(self, state: LinkState, reason: str, error: KafkaSourceError | None = None) -> Happened:
        """Give up this address and continue with the host's next one, if there is one.

        If the client was authenticating again, it needs another connection, not another address.

        An `error` that the host's other addresses would repeat, as all are one service, ends the attempt: TLS or SASL
        refused, or, before any broker has answered, an answer that is not Kafka's protocol.
        """
        if isinstance(error, SaslAuthenticationFailed) and self._credentials is not None:
            process_refusals.get().refused(self._credentials, self._servers, error)
        if state is LinkState.REAUTHENTICATING:
            log.debug("no new session with %s: %s", self.attempt.host, reason)
            return (LinkEvent.REFUSED, error) if isinstance(error, _FINAL) else (LinkEvent.RENEWAL_LOST, None)
        self.attempt.tls_unanswered |= isinstance(error, TlsUnanswered)
        event = self.attempt.failed(reason)
        first = self._shared.metadata.version == 0
        if isinstance(error, _FINAL) or (isinstance(error, ProtocolError) and first):
            return LinkEvent.ATTEMPT_FAILED, error
        return event, ConnectFailed("; ".join(self.attempt.reasons))

    def ended(self, stream: Stream, state: LinkState, reason: str, error: OSError | TlsError) -> Happened:
        """The broker closed before the connection could be used: it refuses, or it does not know what it was asked."""
        connection = stream.connection
        if isinstance(error, TlsError):  # TLS 1.3: the broker checks the client's certificate after the handshake
            return self.failed(state, reason, error)
        if connection.pending_bytes:
            return self.failed(state, reason)
        refusal = connection.refusal_by_close()
        if refusal is not None:
            return self.failed(state, reason, refusal)
        if state not in _BEFORE_VERSIONS:
            return self.failed(state, f"{reason} ({_NOT_IN_TIME[state]})")
        sasl, fallback = self._shared.login is not None, self._shared.config.broker_version_fallback
        step = self.attempt.step.after_end(connection.identified, connection.nudged, fallback, sasl)
        if step is not None:
            self.attempt.again(step)
            return LinkEvent.UNANSWERED, None
        self._shared.first_steps.pop(self.attempt.host, None)
        hint = _NOT_IN_TIME[state] if sasl else f"{_NOT_IN_TIME[state]}, nor as Kafka 0.9 or 0.8.2"
        if not self._shared.config.security.encrypts:
            hint += f": is it {listener_with_tls(sasl)}, or not Kafka?"
        return self.failed(state, f"{reason} ({hint})")
