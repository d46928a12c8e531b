"""The conversations with all brokers: sockets, timeouts, reconnects, metadata. One thread owns a `NetworkClient`.

Everything happens in `poll`, which blocks at most as long as the nearest of: the caller's timeout, the next metadata
request, the deadline of a request or a connect, the end of a backoff. `send` may be called before a connection exists:
the request waits for it, within its own deadline. Only `wakeup` may be called by other threads.

What a request's end means to the caller:
    a body            the broker answered
    ConnectFailed     nothing was sent
    ConnectionLost, RequestTimeout   the broker may or may not have acted; the socket is closed, so that the
                      request's memory is free again
A deadline is total: from `send` to the response's last byte, however slowly they dribble in. Throttle time that a
broker asks for (KIP-219) is waited before anything else is sent to it, and not counted.
"""

from __future__ import annotations

import logging
import random as random_module
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol

from kafkasource.client.config import ClientConfig, backoff_ms
from kafkasource.client.connection import Body, Connection, Parts
from kafkasource.client.link import NEVER, Link, Pending, address_of
from kafkasource.client.metadata import Metadata
from kafkasource.client.transport import Address, Connector, SocketConnector
from kafkasource.errors import (
    ClientClosed,
    ClusterMismatch,
    ConnectFailed,
    ConnectionLost,
    KafkaSourceError,
    ProtocolError,
    RequestTimeout,
)
from kafkasource.protocol.apis import METADATA, Api
from kafkasource.protocol.frames import FrameBuffers

__all__ = ["NetworkClient", "Pending", "Selector"]

log = logging.getLogger("kafkasource.client")

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_RECEIVES_PER_POLL = 32  # of one socket, so that a fast broker does not starve the others


class Selector(Protocol):
    """The part of `selectors.BaseSelector` used here; tests bring one that moves a fake clock."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any: ...
    def modify(self, fileobj: Any, events: int, data: Any = None) -> Any: ...
    def unregister(self, fileobj: Any) -> Any: ...
    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]: ...
    def close(self) -> None: ...


class NetworkClient:
    """See the module. `clock` gives seconds, as `time.monotonic`; `random` uniform numbers in [0, 1)."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        metadata: Metadata | None = None,
        clock: Callable[[], float] = time.monotonic,
        connector: Connector | None = None,
        random: Callable[[], float] = random_module.random,
        selector: Selector | None = None,
    ) -> None:
        self.config = config
        self.metadata = metadata or Metadata(config)
        self.fatal: ClusterMismatch | None = None  # found while refreshing metadata; nothing may be trusted after it
        self.bootstrap_errors: dict[str, KafkaSourceError] = {}  # by "host:port", the last of each
        self._clock = clock
        self._connector: Connector = connector or SocketConnector(config)
        self._random = random
        self._selector: Selector = selector or selectors.DefaultSelector()
        self._links: dict[int, Link] = {}
        self._buffers = FrameBuffers()
        self._bootstrap = {-1 - i: server for i, server in enumerate(config.bootstrap_servers)}
        self._metadata_request: Pending | None = None
        self._completed: list[Pending] = []
        self._closed = False
        self._wake_in, self._wake_out = socket.socketpair()
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)
        self._selector.register(self._wake_in, READ, None)

    # The caller's side.

    def now_ms(self) -> float:
        return self._clock() * 1000

    def send(
        self,
        node_id: int,
        api: Api,
        body: Body,
        *,
        timeout_ms: float | None = None,
        expect_response: bool = True,
        max_version: int | None = None,
    ) -> Pending:
        """Queue a request, and write it at once where the connection is ready.

        `body` is a dict, or a function from the negotiated version to one. `timeout_ms` is `request.timeout.ms` by
        default. Without `expect_response` (acks=0) the request is done when its last byte is handed to the system.
        Never raises for what the network does; the error is in the Pending.
        """
        now = self.now_ms()
        timeout = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        pending = Pending(node_id, api, (body, max_version), now + timeout, expect_response)
        if self._closed:
            self._fail([pending], ClientClosed("the client is closed"))
            return pending
        link = self._link(node_id)
        if link is None:
            self._fail([pending], ConnectFailed(f"no broker {node_id} in the cluster's metadata"))
            self.metadata.request_update()
            return pending
        pending.deadline_ms = max(now, link.throttled_until_ms) + timeout
        link.queue.append(pending)
        if link.ready:
            self._write_queued(link, now)
        return pending

    def poll(self, timeout_ms: float) -> list[Pending]:
        """Do what is due, wait for more at most `timeout_ms`; return the requests that got done, after their callbacks.

        May return early with nothing, for instance after `wakeup`. Raises ClientClosed after `close`.
        """
        if self._closed:
            raise ClientClosed("the client is closed")
        now = self.now_ms()
        self._connect_due(now)
        wait = min(timeout_ms, self._update_metadata(now), self._next_timer(now))
        if self._completed:
            wait = 0
        ready = self._selector.select(max(wait, 0) / 1000)
        now = self.now_ms()
        for key, events in ready:
            link = key.data
            if link is None:
                self._drain_wakeups()
            elif link.transport is not None and link.transport is key.fileobj:  # else: closed by an event before
                self._serve(link, events, now)
        self._expire(now)
        self._connect_due(now)
        completed, self._completed = self._completed, []
        for pending in completed:
            pending.call_back()
        return completed

    def wakeup(self) -> None:
        """Make a `poll` that is blocked, or else the next one, return at once. Any thread may call it."""
        try:
            self._wake_out.send(b"w")
        except BlockingIOError:
            pass  # full: it will wake up
        except OSError:
            if not self._closed:
                raise

    def in_flight(self, node_id: int) -> int:
        """Requests to the node that are not done, queued ones included."""
        link = self._links.get(node_id)
        return link.load if link else 0

    def connect_failures(self, node_id: int) -> int:
        """How many attempts to connect have failed, with none succeeding since?"""
        link = self._links.get(node_id)
        return link.failures if link else 0

    def round_trip_ms(self, node_id: int) -> float | None:
        """The shortest time from sending a request to the node to having its answer, on the present connection."""
        link = self._links.get(node_id)
        return None if link is None or link.round_trip_ms == NEVER else link.round_trip_ms

    def disconnect(self, node_id: int, reason: str) -> None:
        """Close the connection to a node, if there is one; what is under way on it fails with ConnectionLost."""
        link = self._links.get(node_id)
        if link is not None and link.transport is not None:
            self._disconnect(link, ConnectionLost(f"{link.name}: {reason}"))

    def bootstrap_is_hopeless(self) -> bool:
        """Did every bootstrap server answer with something other than Kafka's protocol? Twice: a bit may flip once."""
        return all(
            self.connect_failures(node_id) >= 2
            and isinstance(self.bootstrap_errors.get(address_of(*server)), ProtocolError)
            for node_id, server in self._bootstrap.items()
        )

    def close(self) -> None:
        """Close all sockets; what is under way fails with ClientClosed (callbacks run). Idempotent."""
        if self._closed:
            return
        self._closed = True
        for link in self._links.values():
            self._disconnect(link, ClientClosed("the client was closed before the answer came"))
        self._links.clear()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()
        completed, self._completed = self._completed, []
        for pending in completed:
            pending.call_back()

    # Links.

    def _link(self, node_id: int) -> Link | None:
        """The link of a node, made or moved to the node's present address where needed."""
        link = self._links.get(node_id)
        if node_id < 0:
            host, port = self._bootstrap[node_id]
        else:
            node = self.metadata.node(node_id)
            if node is None:
                return link  # what is connected may be used to the end
            host, port = node.host, node.port
        if link is not None and (link.host, link.port) != (host, port) and not link.load:
            self._disconnect(link, None)
            link = None
        if link is None:
            link = self._links[node_id] = Link(node_id, host, port)
        return link

    def _connect_due(self, now: float) -> None:
        for link in self._links.values():
            if link.queue and link.transport is None and link.retry_at_ms <= now:
                self._connect(link, now)

    def _connect(self, link: Link, now: float) -> None:
        """Begin an attempt: all addresses of the host, one after the other."""
        link.reasons = []
        try:
            link.addresses = self._connector.resolve(link.host, link.port)
        except (OSError, UnicodeError) as error:  # a label of more than 63 bytes is a UnicodeError
            link.addresses = []
            link.reasons.append(f"cannot resolve the name: {_reason(error)}")
        self._connect_next(link, now)

    def _connect_next(self, link: Link, now: float) -> None:
        while link.addresses:
            address = link.addresses.pop(0)
            try:
                transport = self._connector.open(address)
            except OSError as error:
                link.reasons.append(self._about(link, address, _reason(error)))
                continue
            config = self.config
            link.transport = transport
            link.connection = Connection(link.name, config.client_id, config.receive_message_max_bytes, self._buffers)
            link.connected = False
            link.current_address = address
            link.connect_deadline_ms = now + min(
                config.socket_connection_setup_timeout_ms * 2.0 ** min(link.failures, 62),
                max(config.socket_connection_setup_timeout_max_ms, config.socket_connection_setup_timeout_ms),
            )
            link.events = WRITE
            self._selector.register(transport, WRITE, link)
            return
        self._connect_failed(link, now, ConnectFailed("; ".join(link.reasons) or "the name has no address"))

    def _about(self, link: Link, address: Address, reason: str) -> str:
        text = str(address)
        return reason if text == link.address else f"{text}: {reason}"

    def _address_failed(self, link: Link, now: float, reason: str, protocol_error: ProtocolError | None = None) -> None:
        """This address did not work out; go on with the next one of the host."""
        link.reasons.append(self._about(link, link.current_address, reason) if link.current_address else reason)
        self._close_transport(link)
        if protocol_error is not None and self.metadata.version == 0:  # all addresses of one name are one service
            self._connect_failed(link, now, protocol_error)
        else:
            self._connect_next(link, now)

    def _connect_failed(self, link: Link, now: float, error: KafkaSourceError) -> None:
        """The attempt failed with all addresses: what waited for it fails, the next one waits for its backoff."""
        config = self.config
        wait = backoff_ms(link.failures, config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self._random())
        link.retry_at_ms = now + wait
        link.failures += 1
        text = str(error)
        if link.node_id < 0:
            self.bootstrap_errors[link.address] = error
        elif isinstance(error, ConnectFailed):
            error = ConnectFailed(
                f"cannot connect to {link.name}, the address it advertises: {text}. If that address cannot be reached"
                " from here, correct advertised.listeners of the broker"
            )
        if link.failures & (link.failures - 1) == 0:  # the 1st, 2nd, 4th, 8th ...: a dead broker must not fill the log
            log.warning("cannot connect to %s (attempt %d): %s", link.name, link.failures, text)
        self.metadata.request_update()
        self._disconnect(link, error)

    def _became_ready(self, link: Link, now: float) -> None:
        link.failures = 0
        link.retry_at_ms = 0.0
        link.connect_deadline_ms = NEVER
        link.last_used_ms = now
        if link.node_id < 0:
            self.bootstrap_errors.pop(link.address, None)

    def _lost(self, link: Link, now: float, reason: str, cause: Exception | None = None) -> None:
        """An established connection ended. With nothing under way that is no failure: brokers close idle ones."""
        if not link.load and not link.out and cause is None:
            log.debug("%s closed an idle connection", link.name)
            self._disconnect(link, None)
            return
        log.warning("connection to %s lost with %d requests under way: %s", link.name, link.load, reason)
        config = self.config
        link.retry_at_ms = now + backoff_ms(
            0, config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self._random()
        )
        self.metadata.request_update()
        error = ConnectionLost(f"{link.name}: {reason}")
        error.__cause__ = cause
        self._disconnect(link, error)

    def _disconnect(self, link: Link, error: Exception | None) -> None:
        """Close the socket, then fail everything of the link with `error`."""
        under_way = list(link.pending())
        link.queue.clear()
        self._close_transport(link)
        if error is not None:
            self._fail(under_way, error)

    def _close_transport(self, link: Link) -> None:
        link.out.clear()
        if link.transport is not None:
            self._selector.unregister(link.transport)
            link.transport.close()
        link.transport = link.connection = None
        link.round_trip_ms = NEVER
        link.connected = False
        link.connect_deadline_ms = NEVER

    def _fail(self, pendings: list[Pending], error: Exception) -> None:
        for pending in pendings:
            if not pending.done:
                pending.finish(None, error)
                self._completed.append(pending)

    # Bytes.

    def _serve(self, link: Link, events: int, now: float) -> None:
        if not link.connected and not self._finish_connect(link, now):
            return
        if events & READ:
            self._receive(link, now)
        if link.transport is not None:
            self._write(link, now)

    def _finish_connect(self, link: Link, now: float) -> bool:
        assert link.transport is not None
        assert link.connection is not None
        try:
            link.connected = link.transport.finish_connect()
        except OSError as error:
            self._address_failed(link, now, _reason(error))
            return False
        if link.connected:
            self._enqueue(link, link.connection.negotiate())
        return link.connected

    def _receive(self, link: Link, now: float) -> None:
        transport, connection = link.transport, link.connection
        assert transport is not None
        assert connection is not None
        for _ in range(_RECEIVES_PER_POLL):
            target = connection.writable()
            try:
                size = transport.receive_into(target)
            except OSError as error:
                self._stream_ended(link, now, _reason(error))
                return
            if size is None:
                return
            if size == 0:
                self._stream_ended(link, now, "the broker closed the connection")
                return
            link.last_used_ms = now
            was_ready = connection.ready
            received = connection.received(size)
            for response in received.responses:
                self._answered(link, response.token, response.body, now)
            if received.error is not None:
                if connection.ready:
                    self._lost(link, now, f"closed, because {received.error}", received.error)
                else:
                    self._address_failed(link, now, str(received.error), received.error)
                return
            self._enqueue(link, received.reply)
            if connection.ready and not was_ready:
                self._became_ready(link, now)
                self._write_queued(link, now)
                if link.transport is None:
                    return
            if size < len(target):
                return  # the socket is empty; if it is not, select says so

    def _stream_ended(self, link: Link, now: float, reason: str) -> None:
        connection = link.connection
        assert connection is not None
        if not connection.ready:
            hint = (
                ""
                if connection.pending_bytes
                else (" (no answer to ApiVersions: a TLS listener, a broker older than 0.10, or not Kafka?)")
            )
            self._address_failed(link, now, reason + hint)
        elif connection.pending_bytes:
            self._lost(link, now, f"{reason} in the middle of a response ({connection.pending_bytes} bytes had come)")
        else:
            self._lost(link, now, reason)

    def _answered(self, link: Link, pending: Pending, body: dict[str, Any], now: float) -> None:
        pending.finish(body, None)
        self._completed.append(pending)
        link.round_trip_ms = min(link.round_trip_ms, now - pending.sent_ms)
        throttle = body.get("throttle_time_ms", 0)
        if throttle > 0:
            # The broker does not read from us for this long (KIP-219), so it answers nothing either.
            log.log(
                logging.WARNING if throttle >= 1000 else logging.DEBUG,
                "%s asks for a pause of %d ms: a quota is exceeded",
                link.name,
                throttle,
            )
            link.throttled_until_ms = max(link.throttled_until_ms, now + throttle)
            for other in link.pending():
                other.deadline_ms += throttle

    def _write_queued(self, link: Link, now: float) -> None:
        """Encode what waited for the connection, in order, and write as much as the socket takes."""
        connection = link.connection
        assert connection is not None
        while link.queue and now >= link.throttled_until_ms:
            pending = link.queue.popleft()
            assert pending.request is not None
            body, max_version = pending.request
            try:
                parts = connection.send(
                    pending.api, body, pending, max_version=max_version, expect_response=pending.expect_response
                )
            except Exception as error:  # an unfit body or version concerns its sender only
                self._fail([pending], error)
                continue
            pending.request = None  # the parts hold what is still needed of it
            pending.sent_ms = now
            self._enqueue(link, parts)
            if not pending.expect_response:
                link.out.append(pending)
        self._write(link, now)

    def _enqueue(self, link: Link, parts: Parts) -> None:
        link.out.extend(memoryview(part).cast("B") for part in parts if len(part))

    def _write(self, link: Link, now: float) -> None:
        transport, out = link.transport, link.out
        assert transport is not None
        while out:
            first = out[0]
            if isinstance(first, Pending):
                out.popleft()
                first.finish({}, None)
                self._completed.append(first)
                continue
            pieces: list[memoryview] = []
            for item in out:
                if isinstance(item, Pending):
                    break
                pieces.append(item)
            try:
                sent = transport.send(pieces)
            except OSError as error:
                self._stream_ended(link, now, _reason(error))
                return
            if not sent:
                break
            link.last_used_ms = now
            for piece in pieces:
                if sent < len(piece):
                    out[0] = piece[sent:]
                    break
                sent -= len(piece)
                out.popleft()
                if not sent:
                    break
        self._want(link, READ | WRITE if out else READ)

    def _want(self, link: Link, events: int) -> None:
        if link.events != events and link.transport is not None:
            self._selector.modify(link.transport, events, link)
            link.events = events

    # Time.

    def _next_timer(self, now: float) -> float:
        """Milliseconds until something is due that no socket will tell of."""
        at = NEVER
        for link in self._links.values():
            for pending in link.pending():
                at = min(at, pending.deadline_ms)
            at = min(at, link.connect_deadline_ms)
            if link.queue and link.transport is None:
                at = min(at, link.retry_at_ms)
            elif link.queue and link.ready:
                at = min(at, link.throttled_until_ms)
            elif link.ready and not link.load and self.config.connections_max_idle_ms >= 0:
                at = min(at, link.last_used_ms + self.config.connections_max_idle_ms)
        return at - now

    def _expire(self, now: float) -> None:
        for link in list(self._links.values()):
            if now >= link.connect_deadline_ms:
                what = "no answer to ApiVersions" if link.connected else "no connection"
                self._address_failed(link, now, f"{what} in time (socket.connection.setup.timeout.ms)")
            self._expire_requests(link, now)
            if link.queue and link.ready:
                self._write_queued(link, now)  # a throttle ended
            idle_ms = self.config.connections_max_idle_ms
            if link.ready and not link.load and not link.out and 0 <= idle_ms <= now - link.last_used_ms:
                log.debug("closing the idle connection to %s", link.name)
                self._disconnect(link, None)

    def _expire_requests(self, link: Link, now: float) -> None:
        late = [pending for pending in link.pending() if pending.deadline_ms <= now]
        if not late:
            return
        waiting = [pending for pending in late if pending in link.queue]
        for pending in waiting:
            link.queue.remove(pending)
            why = "; ".join(link.reasons) or (
                "ApiVersions not answered yet" if link.connected else "it is still being made"
            )
            self._fail(
                [pending], ConnectFailed(f"{link.name}: {pending.api.name} not sent, no connection in time ({why})")
            )
        sent = [pending for pending in late if not pending.done]
        if sent:
            # Closing is the only way to take a request back: its memory is ours again and a late answer meets no one.
            got = link.connection.pending_bytes if link.connection else 0
            names = ", ".join(sorted({pending.api.name for pending in sent}))
            text = f"no complete response to {names} in time ({got} bytes of a response had come)"
            error = RequestTimeout(f"{link.name}: {text}")
            self._fail(sent, error)
            self._lost(link, now, text, error)

    # Metadata.

    def _update_metadata(self, now: float) -> float:
        """Ask for metadata where that is due; milliseconds until it will be."""
        if self._metadata_request is not None or self._closed or self.fatal is not None:
            return NEVER
        wait = self.metadata.time_to_next_update(now)
        if wait > 0:
            return wait
        node_id, wait = self.least_loaded(now)
        if node_id is not None:
            self.refresh_metadata(node_id, self.metadata.wanted)
            self._connect_due(now)
            wait = self._next_timer(now)
        return wait

    def refresh_metadata(self, node_id: int, topics: list[str] | None, timeout_ms: float | None = None) -> Pending:
        """Ask a node for these topics (None: all); the answer goes into `metadata` before the Pending is seen as done.

        An answer that cannot be used makes the Pending fail.
        """
        pending = self.send(node_id, METADATA, metadata_body(topics), timeout_ms=timeout_ms)
        self._metadata_request = pending
        pending.add_callback(self._take_metadata)
        return pending

    def _take_metadata(self, pending: Pending) -> None:
        if self._metadata_request is pending:
            self._metadata_request = None
        now = self.now_ms()
        try:
            self.metadata.update(pending.result(), now, self._random())
        except KafkaSourceError as error:
            log.debug("metadata not refreshed: %s", error)
            pending.error = error
            self.metadata.failed(now, self._random())
            if isinstance(error, ClusterMismatch):
                self.fatal = error
        else:
            self._settle_links()

    def _settle_links(self) -> None:
        """A bootstrap connection goes on as the broker's own where their addresses agree; unused others close."""
        by_address: dict[tuple[str, int], list[int]] = {}
        for node in self.metadata.nodes():
            by_address.setdefault((node.host, node.port), []).append(node.node_id)
        for link in [link for link in self._links.values() if link.node_id < 0]:
            ids = by_address.get((link.host, link.port), [])
            if len(ids) == 1 and ids[0] not in self._links and link.ready:
                del self._links[link.node_id]
                link.node_id = ids[0]
                self._links[link.node_id] = link
            elif not link.load and not link.out:
                self._disconnect(link, None)

    def least_loaded(self, now: float | None = None) -> tuple[int | None, float]:
        """The node to ask what any node can answer; None: none can be tried for that many milliseconds.

        A ready connection with the fewest requests first, then one being made, then the broker that failed least. Where
        no broker that metadata names can be reached, the bootstrap servers are tried again: the cluster may have moved.
        """
        now = self.now_ms() if now is None else now
        known = [] if self.metadata.rebootstrap else [node.node_id for node in self.metadata.nodes()]
        bootstrap = list(self._bootstrap)
        if known and any(not self.connect_failures(node_id) for node_id in known):
            candidates = known
        else:
            self.metadata.rebootstrap = False
            candidates = known + bootstrap
        start = int(self._random() * len(candidates)) % len(candidates)
        order = candidates[start:] + candidates[:start]
        best: tuple[int, int, int, int] | None = None
        wait = NEVER
        for place, node_id in enumerate(order):
            link = self._links.get(node_id)
            if link is not None and link.transport is None and link.retry_at_ms > now:
                wait = min(wait, link.retry_at_ms - now)
                continue
            kind = 0 if link and link.ready else 1 if link and link.transport is not None else 2
            rank = (kind, link.load if link else 0, link.failures if link else 0, place)
            best = min(best, rank) if best else rank
        return (order[best[3]], 0.0) if best else (None, wait)

    def _drain_wakeups(self) -> None:
        try:
            while self._wake_in.recv(4096):
                pass
        except BlockingIOError:
            pass


def metadata_body(topics: list[str] | None) -> Callable[[int], dict[str, Any]]:
    """A Metadata request for these topics (none: the brokers only), or for all with None; never creates a topic."""

    def body(version: int) -> dict[str, Any]:
        everything: list[dict[str, Any]] | None = [] if version == 0 else None
        wanted: dict[str, Any] = {"topics": everything if topics is None else [{"name": name} for name in topics]}
        if version >= 4:  # before, a broker with auto.create.topics.enable creates what it is asked about
            wanted["allow_auto_topic_creation"] = False
        return wanted

    return body


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} (errno {error.errno})" if error.errno is not None else error.strerror
    return str(error) or type(error).__name__
