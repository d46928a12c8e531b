"""One connection to one address of a broker, stage by stage, for `pykafka doctor`. Notes the result of each stage.

It uses the parts of the client (connector, connection, authentication), but no loop, no retry and no other address, so
it sees what a `Link` hides. Each call blocks, and closes the connection that it opens.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from dataclasses import dataclass

from kafkasource.errors import AuthenticationFailed, ConnectFailed, KafkaSourceError, SaslExchangeFailed, TlsError
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.authentication import Authentication
from kafkasource.kafka.network.connection import Connection, Received
from kafkasource.kafka.network.connector import SocketConnector
from kafkasource.kafka.network.metadata import metadata_body
from kafkasource.kafka.network.old_releases import FORMS, HandshakeStep
from kafkasource.kafka.network.sockets import Address, Transport, reason_of
from kafkasource.kafka.network.tls_transport import TlsTransport
from kafkasource.kafka.protocol.apis import METADATA
from kafkasource.kafka.security.sasl.mechanism import Mechanism
from kafkasource.kafka.security.tls.certificates import Certificate, readable
from kafkasource.kafka.security.tls.errors import listener_with_tls

DNS, TCP, TLS, API_VERSIONS, SASL = "DNS", "TCP", "TLS", "ApiVersions", "SASL"
_UNKNOWN_MECHANISM = "KAFKASOURCE-ASKS"
_DOING = {
    TCP: "no connection",
    TLS: "the TLS handshake was not done",
    API_VERSIONS: "no answer to ApiVersions",
    SASL: "SASL was not done",
}


@dataclass
class AddressCheck:
    """The results at one address."""

    address: str  # "127.0.0.1:9093"
    stage: str  # the last one that was begun
    error: KafkaSourceError | None = None  # the error of that stage; None: all went well
    tls_version: str = ""  # "TLSv1.3"; empty where there is no TLS
    tls_suite: str = ""
    chain: tuple[Certificate, ...] = ()  # that the broker sent, trusted or not; its own certificate first
    mechanisms: tuple[str, ...] = ()  # of SASL, that the listener offers; empty where nobody asked
    session_lifetime_ms: int = 0  # until the client must authenticate again; 0: no limit


def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host. Blocks for as long as the system's resolver does. Raises ConnectFailed."""
    try:
        found = SocketConnector.resolve(host, port)
    except (OSError, UnicodeError) as error:
        raise ConnectFailed(f"cannot resolve the name {host!r}: {reason_of(error)}") from None
    if not found:
        raise ConnectFailed(f"the name {host!r} has no address")
    return found


def visit(config: ClientConfig, address: Address, timeout_ms: float) -> AddressCheck:
    """Connect, and do what the configuration says: TLS, ApiVersions, SASL. Does not raise what the network does.

    Without TLS and SASL it stops behind TCP: brokers from before ApiVersions need more than one connection. Raises
    OptionError where a file or a reference of the options cannot be read.
    """
    login = config.security.login(config.bootstrap_servers[0][0])
    if not config.security.secures:
        return _walk(config, address, timeout_ms, None, None)
    return _converse(config, address, timeout_ms, None if login is None else lambda: login.mechanism(address.name))


def offered_mechanisms(config: ClientConfig, address: Address, timeout_ms: float) -> tuple[str, ...]:
    """The mechanisms of SASL that the listener offers to a client that has not set one; empty: it has no SASL.

    The client asks for a mechanism that nobody has. Empty, too, where the broker does not answer.
    """
    return _converse(config, address, timeout_ms, _Unknown).mechanisms


def _converse(
    config: ClientConfig, address: Address, timeout_ms: float, mechanism: Callable[[], Mechanism] | None
) -> AddressCheck:
    """The last of the connections that it takes to have an answer to ApiVersions, see `old_releases`."""
    for version in FORMS:
        peer = str(address)
        authentication = None if mechanism is None else Authentication(mechanism(), peer)
        connection: Connection[object] = Connection(
            peer, config.client_id, config.receive_message_max_bytes, None, HandshakeStep(version), authentication
        )
        found = _walk(config, address, timeout_ms, connection, authentication)
        if found.stage != API_VERSIONS or not isinstance(found.error, ConnectFailed):
            return found
    if not config.security.encrypts:
        found.error = ConnectFailed(f"{found.error}: is it {listener_with_tls(sasl=mechanism is not None)}?")
    return found


def answers_without_sasl(config: ClientConfig, address: Address, timeout_ms: float) -> bool:
    """Does the listener answer a client that has not logged in? Some servers answer SaslHandshake on each listener.

    One that wants SASL closes the connection on such a request.
    """
    return any(_answers_metadata(config, address, timeout_ms, HandshakeStep(version)) for version in FORMS)


def _answers_metadata(config: ClientConfig, address: Address, timeout_ms: float, step: HandshakeStep) -> bool:
    found = AddressCheck(str(address), TCP)
    try:
        line = _Line(SocketConnector(config).open(address), found, timeout_ms)
        try:
            line.connect()
            most_bytes = config.receive_message_max_bytes
            connection = Connection[object](str(address), config.client_id, most_bytes, None, step)
            line.converse(connection)
            line.ask_metadata(connection)
        finally:
            line.close()
    except (OSError, KafkaSourceError):
        return False
    return True


def _walk(
    config: ClientConfig,
    address: Address,
    timeout_ms: float,
    connection: Connection[object] | None,
    authentication: Authentication | None,
) -> AddressCheck:
    found = AddressCheck(str(address), TCP)
    try:
        line = _Line(SocketConnector(config).open(address), found, timeout_ms)
    except OSError as error:
        found.error = ConnectFailed(reason_of(error))
        return found
    try:
        line.connect()
        if connection is not None:
            line.converse(connection)
    except OSError as error:
        found.error = ConnectFailed(reason_of(error))
    except KafkaSourceError as error:
        found.error = error
        if isinstance(error, TlsError):  # TLS 1.3: the broker refuses the client's certificate after the handshake
            found.stage = TLS
    finally:
        line.close()
        if authentication is not None:
            found.mechanisms = authentication.offered
            found.session_lifetime_ms = authentication.session_lifetime_ms
    return found


class _Line:
    """The transport, waited for. Methods raise OSError and KafkaSourceError."""

    def __init__(self, transport: Transport, found: AddressCheck, timeout_ms: float) -> None:
        self._transport, self._found = transport, found
        self._timeout_ms = timeout_ms
        self._end_s = time.monotonic() + timeout_ms / 1000

    def connect(self) -> None:
        transport, found = self._transport, self._found
        self._wait(select.POLLOUT)
        try:
            while not transport.finish_connect():
                found.stage = TLS
                self._wait(select.POLLIN if transport.flush() else select.POLLIN | select.POLLOUT)
        except (OSError, KafkaSourceError):
            if isinstance(transport, TlsTransport) and transport.connected:
                found.stage = TLS
            raise
        finally:
            if isinstance(transport, TlsTransport):
                found.tls_version, found.tls_suite = transport.tls.version, transport.tls.suite
                found.chain = readable(transport.tls.chain())

    def converse(self, connection: Connection[object]) -> None:
        """ApiVersions, and SASL where the connection has it."""
        self._found.stage = API_VERSIONS
        self._send(b"".join(connection.negotiate()))
        while not connection.ready:
            received = self._received(connection)
            if connection.authenticating or isinstance(received.error, AuthenticationFailed):
                self._found.stage = SASL
            if received.error is not None:
                raise received.error
            reply = b"".join(received.reply)
            if connection.blocked is not None:
                reply += b"".join(connection.proceed(connection.blocked()))
            self._send(reply)

    def ask_metadata(self, connection: Connection[object]) -> None:
        """Returns once there is an answer, whatever it says."""
        self._send(b"".join(connection.send(METADATA, metadata_body([]), METADATA)))
        while not (received := self._received(connection)).responses:
            if received.error is not None:
                raise received.error

    def _received(self, connection: Connection[object]) -> Received[object]:
        """Read and name the next bytes."""
        while (size := self._transport.receive_into(connection.writable())) is None:
            self._wait(select.POLLIN)
        if not size:
            raise connection.refusal_by_close() or ConnectFailed("the broker closed the connection")
        return connection.received(size)

    def close(self) -> None:
        self._transport.close()

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._transport.send([left]) :]
            if left:
                self._wait(select.POLLOUT)
        while not self._transport.flush():
            self._wait(select.POLLOUT)

    def _wait(self, events: int) -> None:
        left_ms = (self._end_s - time.monotonic()) * 1000
        poll = select.poll()
        poll.register(self._transport.fileno(), events)
        if left_ms <= 0 or not poll.poll(left_ms):
            raise ConnectFailed(f"{_DOING[self._found.stage]} within {self._timeout_ms / 1000:g} s")


class _Unknown:
    """A mechanism that no broker has. Its answer ends the exchange, so nothing but the name is asked for."""

    name = _UNKNOWN_MECHANISM
    blocks = complete = False
    user = None

    def first(self) -> bytes:
        raise SaslExchangeFailed(f"the broker accepts the mechanism {self.name}, which no broker has")

    def respond(self, challenge: bytes) -> bytes | None:
        return self.first()

    def finish(self) -> None:
        self.first()
