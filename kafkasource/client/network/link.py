"""One broker: its connection if there is one, made, used, given up and closed, and the requests that wait for it.

An attempt to connect tries all addresses of the broker's host, one after the other, then waits, longer each time.
Whatever ends a connection fails what was under way on it with the reason, once its socket is closed, so that the
requests' memory is free again.

The thread that polls the client calls all methods. `now` is milliseconds of the client's clock.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator

from kafkasource.client.config import backoff_ms
from kafkasource.client.network.connection import Connection, Parts
from kafkasource.client.network.old_releases import NUDGE_MS, SILENT, Step, next_step
from kafkasource.client.network.pending import READ, WRITE, Pending, Shared, address_of
from kafkasource.client.network.resolver import Resolution, is_address, process_resolver
from kafkasource.client.network.sockets import Address, Transport
from kafkasource.errors import ConnectFailed, ConnectionLost, KafkaSourceError, ProtocolError
from kafkasource.protocol.schema import Body
from kafkasource.types import NEVER

log = logging.getLogger("kafkasource.client")

_RECEIVES_PER_POLL = 32  # of one socket, so that a fast broker does not starve the others


class Link:
    """See the module."""

    def __init__(self, node_id: int, host: str, port: int, shared: Shared) -> None:
        self._shared = shared
        self.node_id = node_id  # below 0: a bootstrap server
        self.host, self.port = host, port
        self.queue: deque[Pending] = deque()  # not encoded yet
        self.out: deque[memoryview | Pending] = deque()  # bytes to write; a Pending: done once all before it is written
        self.transport: Transport | None = None
        self.connection: Connection[Pending] | None = None
        self.connected = False  # the transport; versions may still be under negotiation
        self.events = 0
        self.resolution: Resolution | None = None  # the host's name is being looked up
        self.addresses: list[Address] = []  # still to try in this attempt
        self.reasons: list[str] = []  # why the ones before failed
        self.step = Step()  # of finding out what the broker at this address serves
        self.nudge_after_ms = NUDGE_MS  # once it was found to be silent: at once
        self.nudge_at_ms = NEVER
        self.connect_deadline_ms = NEVER  # connecting and negotiating
        self.failures = 0  # attempts to connect that failed, with none succeeding since
        self.retry_at_ms = 0.0
        self.throttled_until_ms = 0.0
        self.last_used_ms = 0.0
        self.receiving = False  # did bytes come in the poll that runs?
        self.round_trip_ms = NEVER  # the shortest seen on this connection
        self.current_address: Address | None = None  # the one being tried or in use

    @property
    def address(self) -> str:
        return address_of(self.host, self.port)

    @property
    def name(self) -> str:
        return f"bootstrap server {self.address}" if self.node_id < 0 else f"broker {self.node_id} at {self.address}"

    @property
    def ready(self) -> bool:
        return self.connection is not None and self.connection.ready

    @property
    def load(self) -> int:
        """Requests that are not done."""
        return sum(1 for _ in self.pending())

    def pending(self) -> Iterator[Pending]:
        yield from self.queue
        yield from (item for item in self.out if isinstance(item, Pending))
        if self.connection is not None:
            yield from self.connection.tokens()

    # Connecting.

    def connect(self, now: float) -> None:
        """Begin an attempt: all addresses of the host, one after the other."""
        self.reasons = []
        self.step = Step()
        if self._shared.connector.resolve_blocks and not is_address(self.host):
            self.resolution = process_resolver().ask(
                self._shared.connector.resolve, self.host, self.port, self._shared.wakeup
            )
            self.connect_deadline_ms = now + self._setup_timeout_ms()
            return
        resolution = Resolution(self._shared.connector.resolve, self.host, self.port)
        resolution.run()
        self.resolved(resolution, now)

    def resolved(self, resolution: Resolution, now: float) -> None:
        self.resolution = None
        self.connect_deadline_ms = NEVER
        self.addresses = list(resolution.addresses)
        error = resolution.error
        if isinstance(error, (OSError, UnicodeError)):  # a label of more than 63 bytes is a UnicodeError
            self.reasons.append(f"cannot resolve the name: {reason_of(error)}")
        elif error is not None:
            raise error
        self._connect_next(now)

    def _setup_timeout_ms(self) -> float:
        config = self._shared.config
        return min(
            config.socket_connection_setup_timeout_ms * 2.0 ** min(self.failures, 62),
            max(config.socket_connection_setup_timeout_max_ms, config.socket_connection_setup_timeout_ms),
        )

    def _connect_next(self, now: float) -> None:
        while self.addresses:
            address = self.addresses.pop(0)
            try:
                transport = self._shared.connector.open(address)
            except OSError as error:
                self.reasons.append(self._about(address, reason_of(error)))
                continue
            log.debug("Initiating connection to node %d at %s", self.node_id, self.address)
            config = self._shared.config
            self.transport = transport
            self.connection = Connection(
                self.name, config.client_id, config.receive_message_max_bytes, _ReceiveMemory(), self.step
            )
            self.connected = False
            self.current_address = address
            self.connect_deadline_ms = now + self._setup_timeout_ms()
            self.events = WRITE
            self._shared.selector.register(transport, WRITE, self)
            return
        self._connect_failed(now, ConnectFailed("; ".join(self.reasons) or "the name has no address"))

    def _about(self, address: Address, reason: str) -> str:
        text = str(address)
        return reason if text == self.address else f"{text}: {reason}"

    def address_failed(self, now: float, reason: str, protocol_error: ProtocolError | None = None) -> None:
        """This address did not work out; go on with the next one of the host."""
        self.reasons.append(self._about(self.current_address, reason) if self.current_address else reason)
        self._close_transport()
        self.step = Step()
        if protocol_error is not None and self._shared.metadata.version == 0:
            self._connect_failed(now, protocol_error)  # all addresses of one name are one service
        else:
            self._connect_next(now)

    def _next_step(self, now: float) -> bool:
        """The broker closed the connection without an answer to ApiVersions: try what `next_step` says. False: nothing.

        From a failure to connect again it goes on as from any other.
        """
        assert self.connection is not None
        assert self.current_address is not None
        step = next_step(self.step, self.connection.identified, self._shared.config.broker_version_fallback)
        if step is None:
            return False
        self._close_transport()
        self.addresses.insert(0, self.current_address)
        self.step = step
        self._connect_next(now)
        return True

    def _connect_failed(self, now: float, error: KafkaSourceError) -> None:
        """The attempt failed with all addresses: what waited for it fails, the next one waits for its backoff."""
        config = self._shared.config
        wait = backoff_ms(
            self.failures, config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self._shared.random()
        )
        self.retry_at_ms = now + wait
        self.failures += 1
        text = str(error)
        if self.node_id < 0:
            self._shared.bootstrap_errors[self.address] = error
            if isinstance(error, ConnectFailed):
                error = ConnectFailed(f"cannot connect to {self.name}: {text}")
        elif isinstance(error, ConnectFailed):
            error = ConnectFailed(
                f"cannot connect to {self.name}, the address it advertises: {text}. If that address cannot be reached"
                " from here, correct advertised.listeners of the broker"
            )
        if self.failures & (self.failures - 1) == 0:  # the 1st, 2nd, 4th, 8th ...: a dead broker must not fill the log
            log.warning("cannot connect to %s (attempt %d): %s", self.name, self.failures, text)
        self._shared.metadata.request_update()
        self.disconnect(error)

    def _became_ready(self, now: float) -> None:
        self.failures = 0
        self.retry_at_ms = 0.0
        self.connect_deadline_ms = NEVER
        self.last_used_ms = now
        log.debug("Completed connection to node %d", self.node_id)
        self.nudge_at_ms = NEVER
        assert self.connection is not None
        release = self.connection.release
        self.nudge_after_ms = 0.0 if release is SILENT else NUDGE_MS
        if release is not None:
            log.info("%s knows no ApiVersions: it is spoken to as Kafka %s", self.name, release.name)
        if self.node_id < 0:
            self._shared.bootstrap_errors.pop(self.address, None)

    def lost(self, now: float, reason: str, cause: Exception | None = None) -> None:
        """An established connection ended. With nothing under way that is no failure: brokers close idle ones."""
        if not self.load and not self.out and cause is None:
            log.debug("%s closed an idle connection", self.name)
            self.disconnect(None)
            return
        log.warning("connection to %s lost with %d requests under way: %s", self.name, self.load, reason)
        config = self._shared.config
        self.retry_at_ms = now + backoff_ms(
            0, config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self._shared.random()
        )
        self._shared.metadata.request_update()
        error = ConnectionLost(f"{self.name}: {reason}")
        error.__cause__ = cause
        self.disconnect(error)

    def disconnect(self, error: Exception | None) -> None:
        """Close the socket, then fail everything of the link with `error`."""
        under_way = list(self.pending())
        self.queue.clear()
        self._close_transport()
        if error is not None:
            self._shared.fail(under_way, error)

    def _close_transport(self) -> None:
        self.out.clear()
        if self.transport is not None:
            self._shared.selector.unregister(self.transport)
            self.transport.close()
        self.transport = self.connection = self.resolution = None
        self.round_trip_ms = NEVER
        self.connected = False
        self.connect_deadline_ms = self.nudge_at_ms = NEVER

    # Reading and writing.

    def serve(self, events: int, now: float) -> None:
        if not self.connected and not self._finish_connect(now):
            return
        transport = self.transport
        if events & READ:
            self.receive(now)
        if transport is not None and self.transport is transport:  # else: closed, or the next attempt began
            self._write(now)

    def _finish_connect(self, now: float) -> bool:
        assert self.transport is not None
        assert self.connection is not None
        try:
            self.connected = self.transport.finish_connect()
        except OSError as error:
            self.address_failed(now, reason_of(error))
            return False
        if self.connected:
            self._enqueue(self.connection.negotiate())
            self.nudge_at_ms = now + self.nudge_after_ms
            if self.connection.ready:
                self._became_ready(now)
                self.write_queued(now)
        return self.connected

    def nudge(self, now: float) -> None:
        """No answer to ApiVersions so far; see `old_releases`."""
        self.nudge_at_ms = NEVER
        if self.connection is not None and not self.connection.pending_bytes:
            self._enqueue(self.connection.nudge())
            self._write(now)

    def receive(self, now: float) -> None:
        transport, connection = self.transport, self.connection
        assert transport is not None
        assert connection is not None
        for _ in range(_RECEIVES_PER_POLL):
            target = connection.writable()
            try:
                size = transport.receive_into(target)
            except OSError as error:
                self._stream_ended(now, reason_of(error))
                return
            if size is None:
                return
            if size == 0:
                self._stream_ended(now, "the broker closed the connection")
                return
            self.last_used_ms, self.receiving = now, True
            was_ready = connection.ready
            received = connection.received(size)
            for response in received.responses:
                self._answered(response.token, response.body, now)
            if received.error is not None:
                if connection.ready:
                    self.lost(now, f"closed, because {received.error}", received.error)
                else:
                    self.address_failed(now, str(received.error), received.error)
                return
            self._enqueue(received.reply)
            if connection.ready and not was_ready:
                self._became_ready(now)
                self.write_queued(now)
                if self.transport is None:
                    return
            if size < len(target):
                return  # the socket is empty; if it is not, select says so

    def _stream_ended(self, now: float, reason: str) -> None:
        connection = self.connection
        assert connection is not None
        if not connection.ready:
            hint = ""
            if not connection.pending_bytes:
                if self._next_step(now):
                    return
                hint = " (no answer to ApiVersions, nor as Kafka 0.9 or 0.8.2: a TLS listener, or not Kafka?)"
            self.address_failed(now, reason + hint)
        elif connection.pending_bytes:
            self.lost(now, f"{reason} in the middle of a response ({connection.pending_bytes} bytes had come)")
        else:
            self.lost(now, reason)

    def _answered(self, pending: Pending, body: Body, now: float) -> None:
        log.debug("Received %s response from node %d", pending.api.name, self.node_id)
        pending.took_ms = now - pending.sent_ms
        pending.finish(body, None)
        self._shared.completed.append(pending)
        self.round_trip_ms = min(self.round_trip_ms, pending.took_ms)
        throttle = body.get("throttle_time_ms", 0)
        if throttle > 0:
            # The broker does not read from us for this long (KIP-219), so it answers nothing either.
            log.log(
                logging.WARNING if throttle >= 1000 else logging.DEBUG,
                "%s asks for a pause of %d ms: a quota is exceeded",
                self.name,
                throttle,
            )
            self.throttled_until_ms = max(self.throttled_until_ms, now + throttle)
            for other in self.pending():
                other.deadline_ms += throttle

    def write_queued(self, now: float) -> None:
        """Encode what waited for the connection, in order, and write as much as the socket takes."""
        connection = self.connection
        assert connection is not None
        while self.queue and now >= self.throttled_until_ms:
            pending = self.queue.popleft()
            assert pending.request is not None
            body, max_version = pending.request
            try:
                parts = connection.send(
                    pending.api, body, pending, max_version=max_version, expect_response=pending.expect_response
                )
            except Exception as error:  # an unfit body or version concerns its sender only
                self._shared.fail([pending], error)
                continue
            pending.request = None  # the parts hold what is still needed of it
            pending.sent_ms = now
            log.debug("Sending %s request to node %d", pending.api.name, self.node_id)
            self._enqueue(parts)
            if not pending.expect_response:
                self.out.append(pending)
        self._write(now)

    def _enqueue(self, parts: Parts) -> None:
        self.out.extend(memoryview(part).cast("B") for part in parts if len(part))

    def _write(self, now: float) -> None:
        transport, out = self.transport, self.out
        assert transport is not None
        while out:
            first = out[0]
            if isinstance(first, Pending):
                out.popleft()
                first.finish({}, None)
                self._shared.completed.append(first)
                continue
            pieces: list[memoryview] = []
            for item in out:
                if isinstance(item, Pending):
                    break
                pieces.append(item)
            try:
                sent = transport.send(pieces)
            except OSError as error:
                self._stream_ended(now, reason_of(error))
                return
            if not sent:
                break
            self.last_used_ms = now
            for piece in pieces:
                if sent < len(piece):
                    out[0] = piece[sent:]
                    break
                sent -= len(piece)
                out.popleft()
                if not sent:
                    break
        self._want(READ | WRITE if out else READ)

    def _want(self, events: int) -> None:
        if self.events != events and self.transport is not None:
            self._shared.selector.modify(self.transport, events, self)
            self.events = events


class _ReceiveMemory:
    """Of the process's memory budget. That brings Arrow: who gets no large answers does without."""

    def take(self, at_least: int, at_most: int) -> memoryview:
        from kafkasource.client.network.receive_memory import frame_buffers

        return frame_buffers().take(at_least, at_most)


def reason_of(error: OSError | UnicodeError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} (errno {error.errno})" if error.errno is not None else error.strerror
    return str(error) or type(error).__name__
