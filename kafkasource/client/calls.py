"""Asking a cluster: one request to one node, or with retries to whichever node can answer.

`Caller` is what `Cluster` is made of. Each retried call has one deadline (`default.api.timeout.ms`) for everything it
does: finding a broker, refreshing metadata, backoff and retries. Errors that the table calls retriable are retried
until then, the others raised at once.
"""

from __future__ import annotations

import math
import random as random_module
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from kafkasource.client.config import ClientConfig, backoff_ms
from kafkasource.client.connection import Body
from kafkasource.client.link import Pending, address_of
from kafkasource.client.metadata import Metadata
from kafkasource.client.network import NetworkClient, Selector
from kafkasource.client.transport import Connector
from kafkasource.errors import (
    BootstrapFailed,
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    DeadlineExceeded,
    GivenUp,
    KafkaSourceError,
    ProtocolError,
    RequestTimeout,
    error_for,
)
from kafkasource.protocol.apis import Api

_UNKNOWN_TOPIC = 3

# A transaction that ends, after its last answer, writes its markers: some milliseconds. Java waits 20 in such a case.
_CONCURRENT_TRANSACTIONS, _UNSTABLE_OFFSET_COMMIT = 51, 88
_MARKERS_MS = 10

T = TypeVar("T")


class Caller:
    """Opens no socket before the first call."""

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
        self._random = random
        self._lock = threading.RLock()
        self._limit: tuple[float, Callable[[], bool]] | None = None  # of `giving_up`: until when, and unless what
        self._coordinators: dict[tuple[int, str], int] = {}  # by kind and key; see `coordinators`
        self._in_vain: Counter[int] = Counter()  # of the call that is retried now: nodes asked, without use

    # For those who pipeline: the fetcher and the sender.

    @property
    def metadata(self) -> Metadata:
        return self.network.metadata

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
        """One request, not retried; see `NetworkClient.send`."""
        with self._lock:
            return self.network.send(
                node_id, api, body, timeout_ms=timeout_ms, expect_response=expect_response, max_version=max_version
            )

    def poll(self, timeout_ms: float) -> list[Pending]:
        """Do network work for at most about `timeout_ms`. Raises ClusterMismatch, and GivenUp in `giving_up`."""
        with self._lock:
            until_ms, unwanted = self._limit or (math.inf, None)
            done = self.network.poll(min(timeout_ms, until_ms - self.network.now_ms()))
            if self.network.fatal is not None:
                raise self.network.fatal
            if unwanted is not None and (unwanted() or self.network.now_ms() >= until_ms):
                raise GivenUp("the answer is not waited for any more")
            return done

    @contextmanager
    def giving_up(self, unwanted: Callable[[], bool] = bool, *, after_ms: float = math.inf) -> Iterator[None]:
        """Calls in this block raise GivenUp instead of going on to wait when so much time is over, or it is `unwanted`.

        For the one thread that uses this client. `unwanted` is asked whenever something has happened, so whoever makes
        it true calls `wakeup`.
        """
        before, self._limit = self._limit, (self.network.now_ms() + after_ms, unwanted)
        try:
            yield
        finally:
            self._limit = before

    def disconnect(self, node_id: int) -> None:
        """Close the connection to a node, for the next request to open another. What is under way on it fails."""
        with self._lock:
            self.network.disconnect(node_id, "closed by this client")

    def wakeup(self) -> None:
        """Make another thread's blocked `poll` return."""
        self.network.wakeup()

    def wait(self, *pendings: Pending) -> None:
        """Poll until all are done. Each has its own deadline, so this ends."""
        while not all(pending.done for pending in pendings):
            self.poll(self.config.request_timeout_ms)

    def call(
        self, node_id: int, api: Api, body: Body, *, timeout_ms: float | None = None, max_version: int | None = None
    ) -> dict[str, Any]:
        """One request to one node and its answer; no retry. The answer's error codes are the caller's to look at."""
        pending = self.send(node_id, api, body, timeout_ms=timeout_ms, max_version=max_version)
        self.wait(pending)
        return pending.result()

    @property
    def idle_s(self) -> float:
        """How long nobody has used it; 0: a call or a request is under way. Any thread; waits for nobody."""
        if not self._lock.acquire(blocking=False):
            return 0.0
        try:
            return self.network.idle_s
        finally:
            self._lock.release()

    def rest(self) -> None:
        """Close all sockets, unless a call or a request is under way; the next one opens them again."""
        if self._lock.acquire(blocking=False):
            try:
                self.network.rest()
            finally:
                self._lock.release()

    # With retries.

    def served(self, api: Api, node_id: int | None = None) -> tuple[int, int] | None:
        """The versions of an API, first and last, that a broker and this client have in common; None: none.

        Of `node_id`, or of any broker: where they differ, as during an upgrade, a request may still meet
        UnsupportedApiVersion.
        """

        def attempt(left_ms: float) -> tuple[int, int] | None:
            try:
                return self.network.served(api, node_id)
            except ConnectFailed:
                node = self._any_node(left_ms) if node_id is None else node_id
                timeout = min(left_ms, self.config.request_timeout_ms)
                pending = self.network.refresh_metadata(node, self.metadata.wanted, timeout)
                self.wait(pending)
                pending.result()
                return self.network.served(api, node_id)

        return self._retrying(f"versions of {api.name}", attempt)

    def supports(self, api: Api, version: int = 0) -> bool:
        """May requests of this version, or of a later one, be sent? Blocking at the first question; see `served`."""
        versions = self.served(api)
        return versions is not None and versions[1] >= version

    def call_any(self, api: Api, body: Body, *, max_version: int | None = None) -> dict[str, Any]:
        """Ask any broker; retry within the deadline. Raises what the answer's top-level `error_code` says."""

        def attempt(left_ms: float) -> dict[str, Any]:
            pending = self._send_any(api, body, left_ms, max_version)
            self.wait(pending)
            answer = pending.result()
            try:
                return checked(answer, api.name)
            except BrokerError:
                self._in_vain[pending.node_id] += 1  # another broker may be able to
                raise

        return self._retrying(api.name, attempt)

    def _send_any(self, api: Api, body: Body, left_ms: float, max_version: int | None = None) -> Pending:
        node_id, timeout = self._any_node(left_ms), min(left_ms, self.config.request_timeout_ms)
        pending = self.network.send(node_id, api, body, timeout_ms=timeout, max_version=max_version)
        in_vain = self._in_vain

        def count(done: Pending) -> None:
            in_vain[node_id] += done.error is not None

        pending.add_callback(count)
        return pending

    def _any_node(self, left_ms: float) -> int:
        """The least loaded node, in a retry another one than before; waits for one that can be tried."""
        deadline = self.network.now_ms() + left_ms
        while True:
            node_id, wait_ms = self.network.least_loaded(in_vain=self._in_vain)
            if node_id is not None:
                return node_id
            left = deadline - self.network.now_ms()
            if left <= 0:
                known = [(node.host, node.port) for node in self.metadata.nodes()] or self.config.bootstrap_servers
                raise ConnectFailed(f"cannot connect to any broker: {few([address_of(*each) for each in known])}")
            self.poll(min(wait_ms, left))

    def _send_all(
        self, api: Api, bodies: Mapping[int, Body], left_ms: float, take: Callable[[dict[str, Any]], list[BrokerError]]
    ) -> list[KafkaSourceError]:
        """One request per node, in parallel; `take` uses an answer and returns its errors. Returns all errors."""
        timeout = min(left_ms, self.config.request_timeout_ms)
        pendings = [self.send(node_id, api, body, timeout_ms=timeout) for node_id, body in bodies.items()]
        self.wait(*pendings)
        errors: list[KafkaSourceError] = []
        for pending in pendings:
            try:
                errors += take(pending.result())
            except KafkaSourceError as error:
                errors.append(error)
        return errors

    def _no_broker(self, waited_ms: float) -> BootstrapFailed:
        tried = tuple((address, str(error)) for address, error in sorted(self.network.bootstrap_errors.items()))
        return BootstrapFailed(tried, round(waited_ms))

    def _retrying(self, what: str, attempt: Callable[[float], T]) -> T:
        """Run `attempt(milliseconds left)` until it returns; retriable errors are waited off, until the deadline."""
        start = self.network.now_ms()
        deadline = start + self.config.default_api_timeout_ms
        failures = 0
        in_vain: Counter[int] = Counter()
        while True:
            try:
                with self._lock, self._counting(in_vain):
                    return attempt(max(deadline - self.network.now_ms(), 1.0))
            except KafkaSourceError as error:
                never_reached = self.metadata.version == 0
                if never_reached and self.network.bootstrap_is_hopeless():
                    raise self._no_broker(self.network.now_ms() - start) from None  # its text has the reasons
                if not error.retriable and not (never_reached and isinstance(error, ProtocolError)):
                    raise
                if error.refresh_metadata:
                    with self._lock:
                        self.metadata.request_update()
                first = self.config.retry_backoff_ms
                if getattr(error, "code", 0) in (_CONCURRENT_TRANSACTIONS, _UNSTABLE_OFFSET_COMMIT):
                    first = min(first, _MARKERS_MS)
                again = self.network.now_ms() + backoff_ms(
                    failures, first, self.config.retry_backoff_max_ms, self._random()
                )
                failures += 1
                if again >= deadline:
                    waited = self.network.now_ms() - start
                    if never_reached and self.network.bootstrap_errors:
                        raise self._no_broker(waited) from None
                    raise DeadlineExceeded(
                        f"{what}: not done within {round(waited)} ms and {failures} attempts (option"
                        f" kafka.default.api.timeout.ms); the last error: {error}"
                    ) from error
            while self.network.now_ms() < again:
                self.poll(again - self.network.now_ms())

    @contextmanager
    def _counting(self, in_vain: Counter[int]) -> Iterator[None]:
        """Nodes that are asked in vain in this block count here. For who holds the lock."""
        before, self._in_vain = self._in_vain, in_vain
        try:
            yield
        finally:
            self._in_vain = before

    def _ask_metadata(self, names: list[str] | None, left_ms: float) -> dict[str, Any]:
        timeout = min(left_ms, self.config.request_timeout_ms)
        pending = self.network.refresh_metadata(self._any_node(left_ms), names, timeout)
        self.metadata.keep(names or [])
        self.wait(pending)
        return pending.result()

    def _ask_controller(
        self, api: Api, body: Body, names: list[str], rows: str, *, done_already: int | None = None
    ) -> None:
        """An admin request for topics; retried whole while a retriable error is all that is wrong.

        Once an answer was lost, the error `done_already` means that the request took effect.
        """
        answer_lost = False

        def timed(version: int, left_ms: float) -> Mapping[str, Any]:
            # The broker's own wait ends before the request does, so that we hear how it went.
            wait = int(min(left_ms, self.config.request_timeout_ms) * 0.9)
            return {**(body(version) if callable(body) else body), "timeout_ms": wait}

        def attempt(left_ms: float) -> None:
            nonlocal answer_lost
            controller = self.metadata.controller_id
            if controller is None:
                self._ask_metadata([], left_ms)
                controller = self.metadata.controller_id
            node_id = self._any_node(left_ms) if controller is None else controller
            timeout = min(left_ms, self.config.request_timeout_ms)
            try:
                answer = self.call(node_id, api, lambda version: timed(version, left_ms), timeout_ms=timeout)
            except (ConnectionLost, RequestTimeout):
                answer_lost = True
                raise
            for row in answer[rows]:
                code = row["error_code"]
                if code and not (answer_lost and code == done_already):
                    error = error_for(code, f"{api.name} {row.get('name')!r}" + _message(row))
                    if code == _UNKNOWN_TOPIC:
                        error.retriable = False  # the controller is where topics are made: it knows
                    raise error

        self._retrying(f"{api.name} {few(names)}", attempt)


def checked(body: dict[str, Any], context: str) -> dict[str, Any]:
    """Raise the first error code in a response, wherever it is; else return it."""
    stack: list[Any] = [body]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack += reversed(item)
        elif isinstance(item, dict):
            code = item.get("error_code", 0)
            if code:
                raise error_for(code, context + _message(item))
            stack += (value for value in item.values() if isinstance(value, (list, dict)))
    return body


def _message(row: Mapping[str, Any]) -> str:
    """What the broker had to say, fit for a log line."""
    text = str(row.get("error_message") or "")[:500]
    return " (" + "".join(c if c.isprintable() else " " for c in text) + ")" if text else ""


def few(names: Collection[object]) -> str:
    """The first five, for an error's text; made for every call, so of 1,000 names the rest is only counted."""
    shown = ", ".join(map(str, islice(names, 5)))
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
