"""A request under way, and the objects that all links of a client share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.connection import RequestBody
from kafkasource.kafka.network.last_metadata import LastMetadata
from kafkasource.kafka.network.metadata import Metadata
from kafkasource.kafka.network.old_releases import HandshakeStep
from kafkasource.kafka.network.poller import Poller
from kafkasource.kafka.network.sockets import Connector
from kafkasource.kafka.protocol.apis import Api
from kafkasource.kafka.protocol.schema import Body
from kafkasource.kafka.security.login import Login


def address_of(host: str, port: int) -> str:
    """The address as people write it, IPv6 in brackets."""
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


@dataclass
class Shared:
    """The objects that the links of one client share. `random`: uniform numbers in [0, 1)."""

    config: ClientConfig
    metadata: Metadata
    connector: Connector
    random: Callable[[], float]
    poller: Poller
    last_metadata: LastMetadata = field(default_factory=LastMetadata)
    login: Login | None = None  # where listeners want SASL
    # The first step of asking a broker what it serves, by "host:port".
    first_steps: dict[str, HandshakeStep] = field(default_factory=dict)
    with_surplus: set[str] = field(default_factory=set)  # the brokers that send more than their answers, by "host:port"
    identity: str = ""  # the client's name at the broker that it connected to last, for errors; see `identity_of`
    bootstrap_errors: dict[str, KafkaSourceError] = field(default_factory=dict)  # by "host:port", the last of each
    completed: list[Pending] = field(default_factory=list)  # for `poll` to return

    def fail(self, pendings: Iterable[Pending], error: Exception) -> None:
        """Finish these requests with an error, unless they are done."""
        for pending in pendings:
            if not pending.done:
                pending.finish(None, error)
                self.completed.append(pending)
