"""A request under way, and one broker with all that is under way to it. No behaviour: `NetworkClient` moves them on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from kafkasource.client.connection import NUDGE_MS, Connection, RequestBody, Step
from kafkasource.client.sockets import Address, Resolution, Transport
from kafkasource.protocol.apis import Api
from kafkasource.protocol.schema import Body

NEVER = float("inf")


def address_of(host: str, port: int) -> str:
    """As people write it, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Pending:
    """A request under way. `done` turns true inside `poll`; then there is either a body or an error."""

    __slots__ = (
        "_body",
        "_callbacks",
        "api",
        "deadline_ms",
        "done",
        "error",
        "expect_response",
        "node_id",
        "request",
        "sent_ms",
        "took_ms",
    )

    def __init__(
        self, node_id: int, api: Api, request: tuple[RequestBody, int | None], deadline_ms: float, answer: bool
    ):
        self.node_id = node_id
        self.api = api
        self.deadline_ms = deadline_ms  # of the client's clock
        self.sent_ms = 0.0  # when it was handed to its connection
        self.took_ms = 0.0  # until its answer was here, once it is
        self.expect_response = answer
        self.done = False
        self.error: Exception | None = None
        self.request: tuple[RequestBody, int | None] | None = request  # until it is encoded
        self._body: Body | None = None
        self._callbacks: list[Callable[[Pending], None]] = []

    def result(self) -> Body:
        """The response's body, empty where none was expected; raises the error if there is one. Only when `done`."""
        if self.error is not None:
            raise self.error
        if self._body is None:
            raise RuntimeError(f"{self.api.name} request to node {self.node_id} is not done")
        return self._body

    def add_callback(self, callback: Callable[[Pending], None]) -> None:
        """Call it with this when done, in the polling thread; at once when that was already so."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def finish(self, body: Body | None, error: Exception | None) -> None:
        self._body, self.error, self.done, self.request = body, error, True, None

    def call_back(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


class Link:
    """One broker: its connection if there is one, what waits for it, and how often connecting has failed."""

    def __init__(self, node_id: int, host: str, port: int) -> None:
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
        self.failures = 0
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
