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
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kafkasource.client.config import ClientConfig
from kafkasource.client.metadata import Metadata, metadata_body
from kafkasource.client.network.connection import RequestBody
from kafkasource.client.network.link import Link
from kafkasource.client.network.pending import READ, Pending, Selector, Shared, address_of
from kafkasource.client.network.sockets import Connector, SocketConnector
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
from kafkasource.protocol.schema import Fields
from kafkasource.types import NEVER

log = logging.getLogger("kafkasource.client")


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
        self._shared = Shared(config, self.metadata, connector or SocketConnector(config), random, self.wakeup)
        self.bootstrap_errors = self._shared.bootstrap_errors  # by "host:port", the last of each
        self._links: dict[int, Link] = {}
        self._bootstrap = {-1 - i: server for i, server in enumerate(config.bootstrap_servers)}
        self._random = random
        self.fatal: ClusterMismatch | None = None  # found while refreshing metadata; nothing may be trusted after it
        self._clock = clock
        self._metadata_request: Pending | None = None
        self._closed = False
        self._given_selector = selector
        self._wakers: tuple[socket.socket, socket.socket] | None = None  # in, out; None: it rests
        self._woken = False  # while it rested
        self._last_used_s = clock()

    # The caller's side.

    def now_ms(self) -> float:
        return self._clock() * 1000

    def send(
        self,
        node_id: int,
        api: Api,
        body: RequestBody,
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
        now = self._used_ms()
        timeout = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        pending = Pending(node_id, api, (body, max_version), now + timeout, expect_response)
        if self._closed:
            self._shared.fail([pending], ClientClosed("the client is closed"))
            return pending
        link = self._link(node_id)
        if link is None:
            self._shared.fail([pending], ConnectFailed(f"no broker {node_id} in the cluster's metadata"))
            self.metadata.request_update()
            return pending
        if link.ready and not link.load and not link.out:
            link.receive(now)  # has the broker closed it since the last poll, between two micro-batches?
        pending.deadline_ms = max(now, link.throttled_until_ms) + timeout
        link.queue.append(pending)
        if link.ready:
            link.write_queued(now)
        return pending

    def poll(self, timeout_ms: float) -> list[Pending]:
        """Do what is due, wait for more at most `timeout_ms`; return the requests that got done, after their callbacks.

        May return early with nothing, for instance after `wakeup`. Raises ClientClosed after `close`.
        """
        if self._closed:
            raise ClientClosed("the client is closed")
        self._open()
        now = self._used_ms()
        self._connect_due(now)
        wait = min(timeout_ms, self._update_metadata(now), self._next_timer(now))
        if self._shared.completed:
            wait = 0
        ready = self._shared.selector.select(max(wait, 0) / 1000)
        now = self._used_ms()
        for key, events in ready:
            link = key.data
            if link is None:
                self._drain_wakeups()
            elif link.transport is not None and link.transport is key.fileobj:  # else: closed by an event before
                link.serve(events, now)
        self._take_resolved(now)
        self._expire(now)
        self._connect_due(now)
        completed, self._shared.completed = self._shared.completed, []
        for pending in completed:
            pending.call_back()
        return completed

    def wakeup(self) -> None:
        """Make a `poll` that is blocked, or else the next one, return at once. Any thread may call it."""
        if self._wakers is None:
            self._woken = True
        wakers = self._wakers  # a poll in another thread may have opened them since
        if wakers is not None:
            try:
                wakers[1].send(b"w")
            except BlockingIOError:
                pass  # full: it will wake up
            except OSError:
                if wakers is self._wakers and not self._closed:
                    raise
                self._woken = True  # it was put to rest meanwhile

    @property
    def idle_s(self) -> float:
        """How long nobody has used it; 0: a request is under way."""
        if self._shared.completed or any(link.load or link.out for link in self._links.values()):
            return 0.0
        return max(self._clock() - self._last_used_s, 1e-9)

    def rest(self) -> None:
        """Close all sockets until the next `send` or `poll`; what is known of the cluster stays. Does nothing while a
        request is under way. Of the polling thread, as all but `wakeup`."""
        if self.idle_s and not self._closed:
            for link in self._links.values():
                link.disconnect(None)
            self._close_selector()

    def _open(self) -> None:
        if self._wakers is None and not self._closed:
            self._shared.selector = self._given_selector or selectors.DefaultSelector()
            wakers = socket.socketpair()
            for end in wakers:
                end.setblocking(False)
            self._shared.selector.register(wakers[0], READ, None)
            self._wakers = wakers
            if self._woken:
                self._woken = False
                wakers[1].send(b"w")

    def _close_selector(self) -> None:
        wakers, self._wakers = self._wakers, None
        if wakers is not None:
            self._shared.selector.unregister(wakers[0])
            if self._given_selector is None:
                self._shared.selector.close()
            for end in wakers:
                end.close()

    def _used_ms(self) -> float:
        self._last_used_s = self._clock()
        return self._last_used_s * 1000

    def in_flight(self, node_id: int) -> int:
        """Requests to the node that are not done, queued ones included."""
        link = self._links.get(node_id)
        return link.load if link else 0

    def connect_failures(self, node_id: int) -> int:
        """How many attempts to connect have failed, with none succeeding since?"""
        link = self._links.get(node_id)
        return link.failures if link else 0

    @property
    def unreachable(self) -> bool:
        """Have attempts to connect to each broker that is known failed, with none succeeding since?"""
        known = [*(node.node_id for node in self.metadata.nodes()), *self._bootstrap]
        return all(self.connect_failures(node_id) for node_id in known)

    def served(self, api: Api, node_id: int | None = None) -> tuple[int, int] | None:
        """The versions of an API (first, last) that a node and this client have in common; None: none.

        Of the node's present connection, or of any ready one. Raises ConnectFailed where there is none.
        """
        for link in self._links.values():
            if link.connection is not None and link.ready and node_id in (None, link.node_id):
                return link.connection.served(api)
        raise ConnectFailed("not connected")

    def round_trip_ms(self, node_id: int) -> float | None:
        """The shortest time from sending a request to the node to having its answer, on the present connection."""
        link = self._links.get(node_id)
        return None if link is None or link.round_trip_ms == NEVER else link.round_trip_ms

    def disconnect(self, node_id: int, reason: str) -> None:
        """Close the connection to a node, if there is one; what is under way on it fails with ConnectionLost."""
        link = self._links.get(node_id)
        if link is not None and link.transport is not None:
            link.disconnect(ConnectionLost(f"{link.name}: {reason}"))

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
            link.disconnect(ClientClosed("the client was closed before the answer came"))
        self._links.clear()
        self._close_selector()
        completed, self._shared.completed = self._shared.completed, []
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
            link.disconnect(None)
            link = None
        if link is None:
            link = self._links[node_id] = Link(node_id, host, port, self._shared)
        return link

    def _connect_due(self, now: float) -> None:
        for link in self._links.values():
            if link.queue and link.transport is None and link.resolution is None and link.retry_at_ms <= now:
                link.connect(now)

    def _take_resolved(self, now: float) -> None:
        """Go on with the links whose names have been looked up."""
        for link in self._links.values():
            if link.resolution is not None and link.resolution.done:
                link.resolved(link.resolution, now)

    # Time.

    def _next_timer(self, now: float) -> float:
        """Milliseconds until something is due that no socket will tell of."""
        at = NEVER
        for link in self._links.values():
            for pending in link.pending():
                at = min(at, pending.deadline_ms)
            at = min(at, link.connect_deadline_ms, link.nudge_at_ms)
            if link.queue and link.transport is None and link.resolution is None:
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
                if link.resolution is not None:
                    what = "cannot resolve the name: no answer"
                link.address_failed(now, f"{what} in time (socket.connection.setup.timeout.ms)")
            if now >= link.nudge_at_ms:
                link.nudge(now)
            if not link.receiving:  # what nobody polled for in time may be here in full
                self._expire_requests(link, now)
            link.receiving = False
            if link.queue and link.ready:
                link.write_queued(now)  # a throttle ended
            idle_ms = self.config.connections_max_idle_ms
            idle = idle_ms >= 0 and link.last_used_ms + idle_ms <= now  # added up as for the timer, so rounded alike
            if link.ready and not link.load and not link.out and idle:
                log.debug("closing the idle connection to %s", link.name)
                link.disconnect(None)

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
            self._shared.fail(
                [pending], ConnectFailed(f"{link.name}: {pending.api.name} not sent, no connection in time ({why})")
            )
        sent = [pending for pending in late if not pending.done]
        if sent:
            # Closing is the only way to take a request back: its memory is ours again and a late answer meets no one.
            got = link.connection.pending_bytes if link.connection else 0
            names = ", ".join(sorted({pending.api.name for pending in sent}))
            text = f"no complete response to {names} in time ({got} bytes of a response had come)"
            error = RequestTimeout(f"{link.name}: {text}")
            error.received_bytes = got
            self._shared.fail(sent, error)
            link.lost(now, text, error)

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
        request = metadata_body(topics)

        def body(version: int) -> Fields:  # called when there is a connection to write it to
            log.debug("Sending metadata request {topics=%s} to node %d", "all" if topics is None else topics, node_id)
            return request(version)

        pending = self.send(node_id, METADATA, body, timeout_ms=timeout_ms)
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
            if log.isEnabledFor(logging.DEBUG):
                log.debug("Updated cluster metadata version %d to %s", self.metadata.version, str(self.metadata))
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
                link.disconnect(None)

    def least_loaded(
        self, now: float | None = None, in_vain: Mapping[int, int] = MappingProxyType({})
    ) -> tuple[int | None, float]:
        """The node to ask what any node can answer; None: none can be tried for that many milliseconds.

        The broker that failed least comes first: attempts to connect, and `in_vain`, how often the caller has asked a
        node for this and got no use from it. So each retry goes to another node. Of equals, a ready connection with the
        fewest requests comes first, then one being made. Where no broker that metadata names can be reached, the
        bootstrap servers are tried again: the cluster may have moved.
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
            failed = in_vain.get(node_id, 0) + (link.failures if link else 0)
            rank = (failed, kind, link.load if link else 0, place)
            best = min(best, rank) if best else rank
        return (order[best[3]], 0.0) if best else (None, wait)

    def _drain_wakeups(self) -> None:
        assert self._wakers is not None
        try:
            while self._wakers[0].recv(4096):
                pass
        except BlockingIOError:
            pass
