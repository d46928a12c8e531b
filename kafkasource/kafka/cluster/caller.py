"""Asking a cluster: one request to one node, or with retries to any node that can answer.

The parts of a `Cluster` share one `Caller`. Each retried call has one deadline (`default.api.timeout.ms`) for all it
does: finding a broker, refreshing metadata, backoff and retries. Errors that the table calls retriable are retried
until then, the others are raised at once.

Threads: every call holds the lock of the caller, so several threads may share it.
"""

from __future__ import annotations

import math
import random as random_module
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from kafkasource.errors import (
    AnswerTooLarge,
    BootstrapFailed,
    BootstrapHopeless,
    BrokerError,
    ClientClosed,
    ConcurrentTransactions,
    ConnectFailed,
    DeadlineExceeded,
    GivenUp,
    KafkaSourceError,
    ProtocolError,
    RequestTimeout,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
    error_for,
    few,
    refusal,
)
from kafkasource.kafka.config import ClientConfig, backoff_ms
from kafkasource.kafka.network.connection import RequestBody
from kafkasource.kafka.network.metadata import Metadata
from kafkasource.kafka.network.network_client import NetworkClient
from kafkasource.kafka.network.pending import Pending, address_of
from kafkasource.kafka.network.poller import Selector
from kafkasource.kafka.network.sockets import Connector
from kafkasource.kafka.protocol.apis import FIND_COORDINATOR, INIT_PRODUCER_ID, Api
from kafkasource.kafka.protocol.schema import Body, Fields
from kafkasource.kafka.security.quoting import printable

_MAX_IDLE_MS = 300_000.0
"""The default of `kafka.metadata.max.idle.ms`: otherwise a client would refresh all topics it ever read, for ever."""

PROPAGATION_MS = 5_000
"""A broker may not know for this long of a topic that was created through another broker."""

_FURTHER_MS = 2_000  # how long to wait for a connection to another node while one node is connected

_OTHERS = 3  # how many other nodes are asked whether an answer is true, until one of them answers

_MARKERS_MS = 10  # a transaction writes its markers after its last answer: some milliseconds. Java waits 20 here.

_REPEATABLE = (FIND_COORDINATOR, INIT_PRODUCER_ID)  # a producer id whose answer is lost does no harm

T = TypeVar("T")


class Caller:
    """Sends requests, waits for their answers, retries. Opens no socket before the first call."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        connector: Connector | None = None,
        random: Callable[[], float] = random_module.random,
        selector: Selector | None = None,
    ) -> None:
        self.config = config
        self.network = NetworkClient(config, clock=clock, connector=connector, random=random, selector=selector)
        self.network.metadata.max_idle_ms = _MAX_IDLE_MS
        self.lock = threading.RLock()
        self._random = random
        self._closing = False
        self._limit: tuple[float, Callable[[], bool]] | None = None  # of `giving_up`: until when, and unless what
        self._in_vain: Counter[int] = Counter()  # of the call that is retried now: nodes that were asked without use

    @property
    def metadata(self) -> Metadata:
        return self.network.metadata

    def now_ms(self) -> float:
        """Milliseconds of the client's clock."""
        return self.network.now_ms()

    def timeout_ms(self, left_ms: float) -> float:
        """The time that a request gets in a call that has `left_ms` left."""
        return min(left_ms, self.config.request_timeout_ms)

    @contextmanager
    def reading(self, api: Api) -> Iterator[None]:
        """In this block an answer is looked at: an error in it is a `refusal`."""
        try:
            yield
        except BrokerError as error:
            raise self.refusal(api, error) from None

    def refusal(self, api: Api, error: BrokerError) -> BrokerError:
        """The error. It says which API was refused to which client, if a permission is missing.

        A request that may be repeated is retried after an unknown error, as in librdkafka.
        """
        if api in _REPEATABLE and error.row.unknown:
            return error_for(error.code, error.context, retriable=True)
        return refusal(error, api.name, self.network.identity)

    # One request.

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
        """Send one request, without retries; see `NetworkClient.send`."""
        with self.lock:
            return self.network.send(
                node_id, api, body, timeout_ms=timeout_ms, expect_response=expect_response, max_version=max_version
            )

    def poll(self, timeout_ms: float) -> list[Pending]:
        """Do network work for at most about `timeout_ms`. Raises ClusterMismatch, ClientClosed once another thread has
        called `close`, and GivenUp in `giving_up`."""
        with self.lock:
            until_ms, unwanted = self._limit or (math.inf, None)
            done = self.network.poll(min(timeout_ms, until_ms - self.now_ms()))
            if self._closing:
                raise ClientClosed("the client was closed before the answer came")
            if self.network.fatal is not None:
                raise self.network.fatal
            if unwanted is not None and (unwanted() or self.now_ms() >= until_ms):
                raise GivenUp("the answer is not waited for any more")
            return done

    def wait(self, *pendings: Pending) -> None:
        """Poll until all are done. Each has its own deadline, so this ends."""
        while not all(pending.done for pending in pendings):
            self.poll(self.config.request_timeout_ms)

    def call(
        self,
        node_id: int,
        api: Api,
        body: RequestBody,
        *,
        timeout_ms: float | None = None,
        max_version: int | None = None,
    ) -> Body:
        """Send one request to one node and wait for its answer; no retry. Does not look at the answer's error codes."""
        pending = self.send(node_id, api, body, timeout_ms=timeout_ms, max_version=max_version)
        self.wait(pending)
        return pending.result()

    @contextmanager
    def giving_up(self, unwanted: Callable[[], bool] = bool, *, after_ms: float = math.inf) -> Iterator[None]:
        """Make calls in this block raise GivenUp once `after_ms` have passed or `unwanted` returns true.

        Only for a client with a single thread. The caller evaluates `unwanted` after each network event, so a thread
        that changes its result calls `wakeup`.
        """
        before, self._limit = self._limit, (self.now_ms() + after_ms, unwanted)
        try:
            yield
        finally:
            self._limit = before

    def wakeup(self) -> None:
        """Make another thread's blocked `poll` return. Any thread."""
        self.network.wakeup()

    def disconnect(self, node_id: int) -> None:
        """Close the connection to a node; the next request opens another. Requests under way on it fail."""
        with self.lock:
            self.network.disconnect(node_id, "closed by this client")

    @property
    def idle_s(self) -> float:
        """Seconds since the last use; 0: a call or a request is under way. Any thread; never blocks."""
        if not self.lock.acquire(blocking=False):
            return 0.0
        try:
            return self.network.idle_s
        finally:
            self.lock.release()

    def rest(self) -> None:
        """Close all sockets, unless a call or a request is under way; the next request opens them again."""
        if self.lock.acquire(blocking=False):
            try:
                self.network.rest()
            finally:
                self.lock.release()

    def close(self) -> None:
        """Close all connections; requests under way fail with ClientClosed, and so do calls of other threads.

        A calling thread holds the lock while it waits for its answer, so it must hear of this first.
        """
        self._closing = True
        self.wakeup()
        with self.lock:
            self.network.close()

    # With retries.

    def retrying(
        self,
        what: str,
        attempt: Callable[[float], T],
        *,
        asked: Counter[int] | None = None,
        propagation_ms: float = math.inf,
    ) -> T:
        """Run `attempt(milliseconds left)` until it returns. Retriable errors lead to a retry, until the deadline.

        `what` names the call in DeadlineExceeded. `attempt` runs with the lock held. `asked`: how often each node was
        asked without success, kept by a caller that asks again because it doubts an answer; else each call starts at
        zero. `propagation_ms`: UnknownTopicOrPartition is retried for this long.
        """
        start = self.now_ms()
        deadline = start + self.config.default_api_timeout_ms
        failures = 0
        said: KafkaSourceError | None = None
        in_vain: Counter[int] = Counter() if asked is None else asked
        while True:
            try:
                with self.lock, self._counting(in_vain):
                    return attempt(max(deadline - self.now_ms(), 1.0))
            except KafkaSourceError as error:
                refusal(error, "", self.network.identity)
                never_reached = self.metadata.version == 0
                if never_reached and self.network.bootstrap_is_hopeless():  # its text has the reasons
                    raise BootstrapHopeless(*self._no_broker(self.now_ms() - start).args) from None
                garbled = isinstance(error, ProtocolError) and not isinstance(error, AnswerTooLarge)
                absent = isinstance(error, UnknownTopicOrPartition) and self.now_ms() - start >= propagation_ms
                if absent or (not error.retriable and not (never_reached and garbled)):
                    raise
                if error.refresh_metadata:
                    with self.lock:
                        self.metadata.request_update()
                again = self.now_ms() + self._backoff_ms(error, failures)
                failures += 1
                said = error if _tells(error) >= _tells(said) else said
                if again >= deadline:
                    waited = self.now_ms() - start
                    nothing_sent = isinstance(said, ConnectFailed) and self.network.unanswered()
                    if never_reached and (nothing_sent or self.network.bootstrap_errors):
                        raise self._no_broker(waited) from None
                    raise DeadlineExceeded(
                        f"{what}: not done by the cluster at {servers_of(self.config)} within {round(waited)} ms and"
                        f" {_attempts(failures)} (option kafka.default.api.timeout.ms); the last error: {error}"
                        # The deadline cut this attempt short. What a broker did before says more than that.
                        + ("" if said is error else f"; before it: {said}")
                    ) from error
            while self.now_ms() < again:
                self.poll(again - self.now_ms())

    def _backoff_ms(self, error: KafkaSourceError, failures: int) -> float:
        first = self.config.retry_backoff_ms
        if isinstance(error, (ConcurrentTransactions, UnstableOffsetCommit)):
            first = min(first, _MARKERS_MS)
        return backoff_ms(failures, first, self.config.retry_backoff_max_ms, self._random())

    def _no_broker(self, waited_ms: float) -> BootstrapFailed:
        return BootstrapFailed(tuple(sorted(self.network.unanswered().items())), round(waited_ms))

    @contextmanager
    def _counting(self, in_vain: Counter[int]) -> Iterator[None]:
        """Count here the nodes that are asked without success in this block. The caller of this method holds the
        lock."""
        before, self._in_vain = self._in_vain, in_vain
        try:
            yield
        finally:
            self._in_vain = before

    def call_any(self, api: Api, body: RequestBody, *, max_version: int | None = None) -> Body:
        """Ask any broker; retry within the deadline. Raises the first error code in the answer."""

        def attempt(left_ms: float) -> Body:
            pending = self.send_any(api, body, left_ms, max_version)
            self.wait(pending)
            answer = pending.result()
            try:
                with self.reading(api):
                    return checked(answer, api.name)
            except BrokerError:
                self.asked_in_vain(pending.node_id)  # another broker may be able to
                raise

        return self.retrying(api.name, attempt)

    def served(self, api: Api, node_id: int | None = None) -> tuple[int, int] | None:
        """The versions of an API, first and last, that a broker and this client have in common; None: none.

        Of `node_id`, or of any broker: where they differ, as during an upgrade, a request may still meet
        UnsupportedApiVersion.
        """

        def attempt(left_ms: float) -> tuple[int, int] | None:
            try:
                return self.network.served(api, node_id)
            except ConnectFailed:
                node = self.any_node(left_ms) if node_id is None else node_id
                pending = self.network.refresh_metadata(node, self.metadata.wanted, self.timeout_ms(left_ms))
                self.wait(pending)
                pending.result()
                return self.network.served(api, node_id)

        return self.retrying(f"the question which versions of {api.name} a broker serves", attempt)

    def supports(self, api: Api, version: int = 0) -> bool:
        """May requests of this version, or of a later one, be sent? Blocks at the first question; see `served`."""
        versions = self.served(api)
        return versions is not None and versions[1] >= version

    # Pieces of an attempt: for functions that `retrying` runs.

    def any_node(self, left_ms: float) -> int:
        """The least loaded node; a retry gets another node than before. Waits until there is a node to try.

        Raises ConnectFailed after `left_ms`.
        """
        deadline = self.now_ms() + left_ms
        while True:
            node_id, wait_ms = self.network.least_loaded(in_vain=self._in_vain)
            if node_id is not None:
                return node_id
            left = deadline - self.now_ms()
            if left <= 0:
                known = few([address_of(node.host, node.port) for node in self.metadata.nodes()]) or servers_of(
                    self.config
                )
                raise ConnectFailed(f"cannot connect to any broker: {known}")
            self.poll(min(wait_ms, left))

    def asked_in_vain(self, node_id: int) -> None:
        """A node that answered was of no use to this call: `any_node` takes others first."""
        self._in_vain[node_id] += 1
        if node_id < 0:  # a bootstrap server: it is known by its own id now
            address = self.config.bootstrap_servers[-1 - node_id]
            self._in_vain.update(node.node_id for node in self.metadata.nodes() if (node.host, node.port) == address)

    def send_any(self, api: Api, body: RequestBody, left_ms: float, max_version: int | None = None) -> Pending:
        """Send a request to any node, once."""
        node_id = self.any_node(left_ms)
        pending = self.send(node_id, api, body, timeout_ms=self.timeout_ms(left_ms), max_version=max_version)
        in_vain = self._in_vain

        def count(done: Pending) -> None:
            in_vain[node_id] += done.error is not None

        pending.add_callback(count)
        return pending

    def send_all(
        self, api: Api, bodies: Mapping[int, RequestBody], left_ms: float, take: Callable[[Body], list[BrokerError]]
    ) -> list[KafkaSourceError]:
        """Send one request to each node, in parallel. `take` uses an answer and returns its errors."""
        timeout_ms = self.timeout_ms(left_ms)
        pendings = [self.send(node_id, api, body, timeout_ms=timeout_ms) for node_id, body in bodies.items()]
        self.wait(*pendings)
        errors: list[KafkaSourceError] = []
        for pending in pendings:
            try:
                errors += take(pending.result())
            except KafkaSourceError as error:
                errors.append(error)
        return errors

    def ask_metadata(self, names: list[str] | None, left_ms: float) -> Pending:
        """Ask any node for these topics, once; None: for all. The answer is in `metadata` when this returns.

        A caller that cannot use the answer calls `asked_in_vain`: the broker may be cut off from the controllers and
        have old metadata, and being connected it would be asked again. Raises the error of a request that failed.
        """
        node_id = self.any_node(left_ms)
        pending = self.network.refresh_metadata(node_id, names, self.timeout_ms(left_ms))
        self.metadata.keep(names or [])
        if not self._comes(pending, further=bool(self._in_vain and self.network.connections)):
            self.asked_in_vain(node_id)
            raise pending.error or ConnectFailed(f"broker {node_id}: still being connected; others are asked meanwhile")
        return pending

    def ask_another(self, names: list[str], asked: Counter[int]) -> bool:
        """Ask a node that was not asked yet for these topics, for a caller that doubts the answers of those `asked`.

        False: none of some others answers, or can be connected in a short while. The answer is in `metadata`.
        """
        others = sorted(
            (node.node_id for node in self.metadata.nodes() if not asked[node.node_id]),
            key=lambda node_id: (self.network.connect_failures(node_id), not self.network.connected(node_id)),
        )[:_OTHERS]
        for node_id in others:
            asked[node_id] += 1
            with self.lock:
                pending = self.network.refresh_metadata(node_id, names)
            if self._comes(pending, further=True):
                return True
        return False

    def _comes(self, pending: Pending, *, further: bool) -> bool:
        """Wait for an answer. If other nodes can be asked instead (`further`), wait only briefly for a connection, less
        after each failed attempt; connecting continues in the background."""
        until = math.inf
        if further:
            until = self.now_ms() + _FURTHER_MS / (1 + self.network.connect_failures(pending.node_id))
        while not pending.done:
            left = math.inf if self.network.connected(pending.node_id) else until - self.now_ms()
            if left <= 0:
                return False
            self.poll(min(left, self.config.request_timeout_ms))
        return pending.error is None


def _tells(error: KafkaSourceError | None) -> int:
    """How much an error says of why a call fails: a broker's answer most, that nothing came in time least."""
    if isinstance(error, BrokerError):
        return 2
    return 0 if error is None or isinstance(error, (ConnectFailed, RequestTimeout)) else 1


def checked(body: Body, context: str) -> Body:
    """Return a response, or raise the first error code in it, wherever that is."""
    stack: list[object] = [body]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack += reversed(item)
        elif isinstance(item, dict):
            code = item.get("error_code", 0)
            if code:
                of = f" of {item['resource_name']!r}" if item.get("resource_name") else ""
                raise error_for(code, context + of + message_in(item))
            stack += (value for value in item.values() if isinstance(value, (list, dict)))
    return body


def message_in(row: Fields) -> str:
    """The broker's own error message in parentheses, fit for a log line; empty where there is none."""
    text = str(row.get("error_message") or "")
    return f" ({printable(text, 500)})" if text else ""


def servers_of(config: ClientConfig) -> str:
    """The bootstrap servers, for the text of an error: of several clusters, which one it is."""
    return few([address_of(*each) for each in config.bootstrap_servers])


def _attempts(count: int) -> str:
    return f"{count:,} attempt{'' if count == 1 else 's'}"
