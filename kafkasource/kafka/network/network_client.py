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
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kafkasource.errors import (
    ClientClosed,
    ClusterMismatch,
    ConnectFailed,
    ConnectionLost,
    KafkaSourceError,
    ProtocolError,
)
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.connection import RequestBody
from kafkasource.kafka.network.connector import SocketConnector
from kafkasource.kafka.network.link import BrokerLink
from kafkasource.kafka.network.metadata import EPOCHS_HOLD, Metadata, metadata_body
from kafkasource.kafka.network.pending import Pending, Shared
from kafkasource.kafka.network.poller import Poller, Selector
from kafkasource.kafka.network.sockets import Connector
from kafkasource.kafka.protocol.apis import METADATA, Api
from kafkasource.kafka.protocol.schema import Fields
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
        self.poller = Poller(selector)
        self._shared = Shared(config, self.metadata, connector or SocketConnector(config), random, self.poller)
        self._shared.login = config.security.login(config.bootstrap_servers[0][0])
        self.bootstrap_errors = self._shared.bootstrap_errors  # by "host:port", the last of each
        self._links: dict[int, BrokerLink] = {}
        self._bootstrap = {-1 - i: server for i, server in enumerate(config.bootstrap_servers)}
        self._random = random
        self.fatal: ClusterMismatch | None = None  # found while refreshing metadata; nothing may be trusted after it
        self._clock = clock
        self._metadata_request: Pending | None = None
        self._closed = False
        self._last_used_s = clock()

    # The caller's side.

    def now_ms(self) -> float:
        return self._clock() * 1000

    @property
    def identity(self) -> str:
        """The client's name at the brokers, as the predicate of a sentence; empty if it is not known here."""
        return self._shared.identity

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
        link.take(pending, now)
        return pending

    def poll(self, timeout_ms: float) -> list[Pending]:
        """Do what is due, wait for more at most `timeout_ms`; return the requests that got done, after their callbacks.

        May return early with nothing, for instance after `wakeup`. Raises ClientClosed after `close`.
        """
        if self._closed:
            raise ClientClosed("the client is closed")
        self.poller.open()
        now = self._used_ms()
        self._connect_due(now)
        wait = min(timeout_ms, self._update_metadata(now), self._next_timer(now))
        if self._shared.completed:
            wait = 0
        ready = self.poller.select(wait)
        now = self._used_ms()
        for key, events in ready:
            key.data.serve(key.fileobj, events, now)
        for link in self._links.values():
            link.receive_unread(now)
            link.take_resolved(now)
            link.take_login(now)
            link.expire(now)
        self._connect_due(now)
        completed, self._shared.completed = self._shared.completed, []
        for pending in completed:
            pending.call_back()
        return completed

    def wakeup(self) -> None:
        """Make a `poll` that is blocked, or else the next one, return at once. Any thread may call it."""
        self.poller.wakeup()

    @property
    def idle_s(self) -> float:
        """How long nobody has used it; 0: a request is under way. After a fatal error nobody waits for requests."""
        if self.fatal is None and (self._shared.completed or any(link.busy for link in self._links.values())):
            return 0.0
        return max(self._clock() - self._last_used_s, 1e-9)

    def rest(self) -> None:
        """Close all sockets until the next `send` or `poll`; the metadata stays. Does nothing while a request is
        under way. For the polling thread, like all methods but `wakeup`."""
        if self.idle_s and not self._closed:
            for link in self._links.values():
                link.disconnect(self.now_ms(), self.fatal)
            self.poller.close()

    def _used_ms(self) -> float:
        self._last_used_s = self._clock()
        return self._last_used_s * 1000

    def in_flight(self, node_id: int) -> int:
        """Requests to the node that are not done, queued ones included."""
        link = self._links.get(node_id)
        return link.load if link else 0

    @property
    def connections(self) -> int:
        """How many are open. Any thread."""
        return sum(link.ready for link in list(self._links.values()))

    def connected(self, node_id: int) -> bool:
        """Is there a connection on which the node answers?"""
        link = self._links.get(node_id)
        return link is not None and link.established

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
            if link.established and link.connection is not None and node_id in (None, link.node_id):
                return link.connection.served(api)
        asked = None if node_id is None else self._links.get(node_id)
        raise ConnectFailed(f"no connection to {'any broker' if asked is None else asked.name} yet")

    def round_trip_ms(self, node_id: int) -> float | None:
        """The shortest time from sending a request to the node to having its answer, on the present connection."""
        link = self._links.get(node_id)
        return None if link is None or link.round_trip_ms == NEVER else link.round_trip_ms

    def disconnect(self, node_id: int, reason: str) -> None:
        """Close the connection to a node, if there is one; what is under way on it fails with ConnectionLost."""
        link = self._links.get(node_id)
        if link is not None and link.stream is not None:
            link.disconnect(self.now_ms(), ConnectionLost(f"{link.name}: {reason}"))

    def bootstrap_is_hopeless(self) -> bool:
        """Does each bootstrap server speak something other than Kafka's protocol, or no TLS where the client does?"""
        return all(map(self._is_hopeless, self._bootstrap))

    def _is_hopeless(self, node_id: int) -> bool:
        link = self._links.get(node_id)
        if link is None:
            return False
        garbled = isinstance(self.bootstrap_errors.get(link.address), ProtocolError)
        return (garbled and link.failures >= 2) or link.lacks_tls(self.now_ms())  # twice: a bit may flip once

    def unanswered(self) -> dict[str, str]:
        """The reason why each bootstrap server cannot be used yet, by "host:port": its last error, or the awaited
        event.

        Any thread.
        """
        bootstrap = [link for link in list(self._links.values()) if link.node_id < 0]
        waited_for = {link.address: text for link in bootstrap if (text := link.missing)}
        return waited_for | {address: str(error) for address, error in self.bootstrap_errors.items()}

    def close(self) -> None:
        """Close all sockets; what is under way fails with ClientClosed (callbacks run). Idempotent."""
        if self._closed:
            return
        self._closed = True
        for link in self._links.values():
            link.disconnect(self.now_ms(), ClientClosed("the client was closed before the answer came"))
        self._links.clear()
        self.poller.close()
        completed, self._shared.completed = self._shared.completed, []
        for pending in completed:
            pending.call_back()

    # Links.

    def _link(self, node_id: int) -> BrokerLink | None:
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
            link.disconnect(self.now_ms(), None)
            link = None
        if link is None:
            link = self._links[node_id] = BrokerLink(node_id, host, port, self._shared)
        return link

    def _connect_due(self, now: float) -> None:
        for link in self._links.values():
            link.connect_if_due(now)

    def _next_timer(self, now: float) -> float:
        """Milliseconds until something is due that no socket will tell of."""
        return min((link.next_timer_ms() for link in self._links.values()), default=NEVER) - now

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
        written = 0  # the version of the request

        def body(version: int) -> Fields:  # called when there is a connection to write it to
            nonlocal written
            written = version
            log.debug("Sending metadata request {topics=%s} to node %d", "all" if topics is None else topics, node_id)
            return request(version)

        pending = self.send(node_id, METADATA, body, timeout_ms=timeout_ms)
        self._metadata_request = pending
        pending.add_callback(lambda done: self._take_metadata(done, written, of_all=topics is None))
        return pending

    def _take_metadata(self, pending: Pending, version: int, *, of_all: bool) -> None:
        if self._metadata_request is pending:
            self._metadata_request = None
        now = self.now_ms()
        try:
            epochs_hold = version >= EPOCHS_HOLD
            self.metadata.update(
                pending.result(),
                now,
                self._random(),
                epochs_hold=epochs_hold,
                of_all=of_all,
                node_id=pending.node_id,
            )
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
            if len(ids) == 1 and ids[0] not in self._links and link.established:
                del self._links[link.node_id]
                link.node_id = ids[0]
                self._links[link.node_id] = link
            elif not link.busy:
                link.disconnect(self.now_ms(), None)

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
            if link is not None and link.backs_off_ms(now) > 0:
                wait = min(wait, link.backs_off_ms(now))
                continue
            kind = 0 if link and link.established else 1 if link and link.stream is not None else 2
            failed = in_vain.get(node_id, 0) + (link.failures if link else 0)
            rank = (failed, kind, link.load if link else 0, place)
            best = min(best, rank) if best else rank
        return (order[best[3]], 0.0) if best else (None, wait)
