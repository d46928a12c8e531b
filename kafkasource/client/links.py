"""The brokers of a client and the connections to them: made, given up, closed. What goes through them is in `streams`.

Each broker has one `Link`, with or without a connection. An attempt to connect tries all addresses of the broker's
host, one after the other, then waits, longer each time. Whatever ends a connection fails what was under way on it with
the reason, once its socket is closed, so that the requests' memory is free again.
"""

from __future__ import annotations

import logging
import selectors
from collections.abc import Callable
from typing import Any, Protocol

from kafkasource.client.config import ClientConfig, backoff_ms
from kafkasource.client.connection import NUDGE_MS, SILENT, Connection, Step, next_step
from kafkasource.client.link import NEVER, Link, Pending
from kafkasource.client.metadata import Metadata
from kafkasource.client.sockets import Address, Connector, Resolution, is_address, process_resolver
from kafkasource.errors import ConnectFailed, ConnectionLost, KafkaSourceError, ProtocolError

log = logging.getLogger("kafkasource.client")

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Selector(Protocol):
    """The part of `selectors.BaseSelector` used here; tests bring one that moves a fake clock."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any: ...
    def modify(self, fileobj: Any, events: int, data: Any = None) -> Any: ...
    def unregister(self, fileobj: Any) -> Any: ...
    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]: ...
    def close(self) -> None: ...


class Links:
    """Base of `NetworkClient`. `random`: uniform numbers in [0, 1); `now` is milliseconds of the client's clock."""

    def __init__(
        self,
        config: ClientConfig,
        metadata: Metadata,
        connector: Connector,
        random: Callable[[], float],
    ) -> None:
        self.config = config
        self.metadata = metadata
        self.bootstrap_errors: dict[str, KafkaSourceError] = {}  # by "host:port", the last of each
        self._connector = connector
        self._selector: Selector  # once there is something to poll
        self._random = random
        self._links: dict[int, Link] = {}
        self._buffers = _ReceiveMemory()
        self._bootstrap = {-1 - i: server for i, server in enumerate(config.bootstrap_servers)}
        self._completed: list[Pending] = []  # for `poll` to return

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
            if link.queue and link.transport is None and link.resolution is None and link.retry_at_ms <= now:
                self._connect(link, now)

    def _connect(self, link: Link, now: float) -> None:
        """Begin an attempt: all addresses of the host, one after the other."""
        link.reasons = []
        link.step = Step()
        if self._connector.resolve_blocks and not is_address(link.host):
            link.resolution = process_resolver().ask(self._connector.resolve, link.host, link.port, self.wakeup)
            link.connect_deadline_ms = now + self._setup_timeout_ms(link)
            return
        resolution = Resolution(self._connector.resolve, link.host, link.port)
        resolution.run()
        self._resolved(link, resolution, now)

    def wakeup(self) -> None:
        """Make a `poll` that is blocked, or else the next one, return at once. Any thread."""
        raise NotImplementedError

    def _take_resolved(self, now: float) -> None:
        """Go on with the links whose names have been looked up."""
        for link in self._links.values():
            if link.resolution is not None and link.resolution.done:
                self._resolved(link, link.resolution, now)

    def _resolved(self, link: Link, resolution: Resolution, now: float) -> None:
        link.resolution = None
        link.connect_deadline_ms = NEVER
        link.addresses = list(resolution.addresses)
        error = resolution.error
        if isinstance(error, (OSError, UnicodeError)):  # a label of more than 63 bytes is a UnicodeError
            link.reasons.append(f"cannot resolve the name: {reason_of(error)}")
        elif error is not None:
            raise error
        self._connect_next(link, now)

    def _setup_timeout_ms(self, link: Link) -> float:
        config = self.config
        return min(
            config.socket_connection_setup_timeout_ms * 2.0 ** min(link.failures, 62),
            max(config.socket_connection_setup_timeout_max_ms, config.socket_connection_setup_timeout_ms),
        )

    def _connect_next(self, link: Link, now: float) -> None:
        while link.addresses:
            address = link.addresses.pop(0)
            try:
                transport = self._connector.open(address)
            except OSError as error:
                link.reasons.append(self._about(link, address, reason_of(error)))
                continue
            log.debug("Initiating connection to node %d at %s", link.node_id, link.address)
            config = self.config
            link.transport = transport
            link.connection = Connection(
                link.name, config.client_id, config.receive_message_max_bytes, self._buffers, link.step
            )
            link.connected = False
            link.current_address = address
            link.connect_deadline_ms = now + self._setup_timeout_ms(link)
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
        link.step = Step()
        if protocol_error is not None and self.metadata.version == 0:  # all addresses of one name are one service
            self._connect_failed(link, now, protocol_error)
        else:
            self._connect_next(link, now)

    def _next_step(self, link: Link, now: float) -> bool:
        """The broker closed the connection without an answer to ApiVersions: go on as `releases` says. False: no way.

        From a failure to connect again it goes on as from any other.
        """
        assert link.connection is not None
        assert link.current_address is not None
        step = next_step(link.step, link.connection.identified, self.config.broker_version_fallback)
        if step is None:
            return False
        self._close_transport(link)
        link.addresses.insert(0, link.current_address)
        link.step = step
        self._connect_next(link, now)
        return True

    def _connect_failed(self, link: Link, now: float, error: KafkaSourceError) -> None:
        """The attempt failed with all addresses: what waited for it fails, the next one waits for its backoff."""
        config = self.config
        wait = backoff_ms(link.failures, config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self._random())
        link.retry_at_ms = now + wait
        link.failures += 1
        text = str(error)
        if link.node_id < 0:
            self.bootstrap_errors[link.address] = error
            if isinstance(error, ConnectFailed):
                error = ConnectFailed(f"cannot connect to {link.name}: {text}")
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
        log.debug("Completed connection to node %d", link.node_id)
        link.nudge_at_ms = NEVER
        assert link.connection is not None
        release = link.connection.release
        link.nudge_after_ms = 0.0 if release is SILENT else NUDGE_MS
        if release is not None:
            log.info("%s knows no ApiVersions: it is spoken to as Kafka %s", link.name, release.name)
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
        link.transport = link.connection = link.resolution = None
        link.round_trip_ms = NEVER
        link.connected = False
        link.connect_deadline_ms = link.nudge_at_ms = NEVER

    def _fail(self, pendings: list[Pending], error: Exception) -> None:
        for pending in pendings:
            if not pending.done:
                pending.finish(None, error)
                self._completed.append(pending)


class _ReceiveMemory:
    """Of the process's memory budget. That brings Arrow: who gets no large answers does without."""

    def take(self, at_least: int, at_most: int) -> memoryview:
        from kafkasource.client.receive_memory import frame_buffers

        return frame_buffers().take(at_least, at_most)


def reason_of(error: OSError | UnicodeError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} (errno {error.errno})" if error.errno is not None else error.strerror
    return str(error) or type(error).__name__
