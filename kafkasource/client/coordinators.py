"""Coordinators: the brokers that keep a group's offsets or a transaction's state. Found, kept, found again when moved.

One question goes to one coordinator with `call_coordinator`; the same question about many transactional ids goes with
`ask_each`, pipelined to all their coordinators at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafkasource.client.calls import checked, few
from kafkasource.client.connection import Body
from kafkasource.client.leaders import PROPAGATION_MS, LeaderCaller
from kafkasource.errors import (
    BrokerError,
    KafkaSourceError,
    UnknownTopicOrPartition,
    UnsupportedApiVersion,
    error_for,
)
from kafkasource.protocol.apis import FIND_COORDINATOR, Api

GROUP, TRANSACTION = 0, 1  # kinds of coordinator
_NOT_AVAILABLE = 15

Check = Callable[[dict[str, Any], str], dict[str, Any]]
"""Gives an answer back, or raises the error in it, whose context is the text."""


class CoordinatorCaller(LeaderCaller):
    """See the module."""

    def call_coordinator(
        self, kind: int, key: str, api: Api, body: Body, *, max_version: int | None = None, check: Check = checked
    ) -> dict[str, Any]:
        """Ask the coordinator of a group or transactional id; retriable errors are retried, others raised.

        By default the error is the first that the answer holds anywhere. A topic that is not known may be news that
        travels: it is retried for as long as that may take.
        """
        patience = self.network.now_ms() + PROPAGATION_MS
        what = f"{api.name} of {key!r}"

        def attempt(left_ms: float) -> dict[str, Any]:
            node_id = self._coordinators_of(kind, [key], left_ms)[key]
            if isinstance(node_id, BrokerError):
                raise node_id
            timeout = min(left_ms, self.config.request_timeout_ms)
            try:
                return check(self.call(node_id, api, body, timeout_ms=timeout, max_version=max_version), what)
            except KafkaSourceError as error:
                self._forget_moved(kind, key, error)
                if isinstance(error, UnknownTopicOrPartition) and self.network.now_ms() >= patience:
                    error.retriable = False
                raise

        return self._retrying(what, attempt)

    def coordinator(self, kind: int, key: str) -> int:
        """The node id of the coordinator of a group or transactional id, for those who `send` to it themselves.

        What is known is answered at once, until `forget_coordinator`.
        """

        def attempt(left_ms: float) -> int:
            node_id = self._coordinators_of(kind, [key], left_ms)[key]
            if isinstance(node_id, BrokerError):
                raise node_id
            return node_id

        return self._retrying(f"coordinator of {key!r}", attempt)

    def forget_coordinator(self, kind: int, key: str) -> None:
        """It moved, or does not answer: look it up again before the next request."""
        with self._lock:
            self._coordinators.pop((kind, key), None)

    def ask_each(
        self, kind: int, api: Api, bodies: Mapping[str, Body], *, max_version: int | None = None
    ) -> dict[str, dict[str, Any] | BrokerError]:
        """Ask the coordinators of many groups or transactional ids, a request for each, all under way at once.

        Each has its answer or its fatal error in the result; what is retriable is retried, alone. Raises what concerns
        all, and DeadlineExceeded where one of them has neither answer nor fatal error in time.
        """
        settled: dict[str, dict[str, Any] | BrokerError] = {}

        def attempt(left_ms: float) -> None:
            nodes = self._coordinators_of(kind, [key for key in bodies if key not in settled], left_ms)
            again: list[KafkaSourceError] = []

            def take(key: str, error: KafkaSourceError) -> None:
                self._forget_moved(kind, key, error)
                if error.retriable:
                    again.append(error)
                elif isinstance(error, BrokerError):
                    settled[key] = error
                else:
                    raise error

            timeout = min(left_ms, self.config.request_timeout_ms)
            pendings = {}
            for key, node_id in nodes.items():
                if isinstance(node_id, BrokerError):
                    take(key, node_id)
                else:
                    pendings[key] = self.send(node_id, api, bodies[key], timeout_ms=timeout, max_version=max_version)
            self.wait(*pendings.values())
            for key, pending in pendings.items():
                try:
                    settled[key] = checked(pending.result(), f"{api.name} of {key!r}")
                except KafkaSourceError as error:
                    take(key, error)
            if again:
                raise again[-1]

        if bodies:
            self._retrying(f"{api.name} of {few(bodies)}", attempt)
        return {key: settled[key] for key in bodies}

    def _forget_moved(self, kind: int, key: str, error: KafkaSourceError) -> None:
        """Look the coordinator up again where it may be another one by now, or cannot be reached."""
        if getattr(error, "refresh_coordinator", not isinstance(error, BrokerError)):
            self._coordinators.pop((kind, key), None)

    def _coordinators_of(self, kind: int, keys: Collection[str], left_ms: float) -> dict[str, int | BrokerError]:
        """Known, or asked for once: a node id for each, or the error."""
        found: dict[str, int | BrokerError] = {}
        unknown = [key for key in keys if (kind, key) not in self._coordinators]
        for key, row in self._find_coordinators(kind, unknown, left_ms).items() if unknown else ():
            code = row["error_code"] or (_NOT_AVAILABLE if row["node_id"] < 0 else 0)
            if code:
                found[key] = error_for(code, f"FindCoordinator of {key!r}")
                continue
            self._coordinators[kind, key] = row["node_id"]
            if self.metadata.node(row["node_id"]) is None:
                self._ask_metadata([], left_ms)
        return {key: found[key] if key in found else self._coordinators[kind, key] for key in keys}

    def _find_coordinators(self, kind: int, keys: list[str], left_ms: float) -> dict[str, dict[str, Any]]:
        """The row of each key. Brokers before 3.0 take one key in a request (KIP-699)."""

        pending = self._send_any(FIND_COORDINATOR, coordinators_body(kind, keys), left_ms)
        self.wait(pending)
        if isinstance(pending.error, UnsupportedApiVersion) and len(keys) > 1:
            return {key: self._find_coordinators(kind, [key], left_ms)[key] for key in keys}
        answer = pending.result()
        rows = coordinator_rows(keys, answer)
        missing = [key for key in keys if key not in rows]
        if missing:
            raise error_for(_NOT_AVAILABLE, f"FindCoordinator: no answer for {few(missing)}")
        return rows


def coordinators_body(kind: int, keys: list[str]) -> Callable[[int], dict[str, Any]]:
    """Of a FindCoordinator request. Brokers before 3.0 take one key: UnsupportedApiVersion for more."""

    def body(version: int) -> dict[str, Any]:
        if version >= 4:
            return {"key_type": kind, "coordinator_keys": keys}
        if len(keys) > 1:
            raise UnsupportedApiVersion(f"FindCoordinator v{version} finds one at a time")
        return {"key": keys[0], "key_type": kind} if version >= 1 else {"key": keys[0]}

    return body


def coordinator_rows(keys: list[str], answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The row of each key that the answer speaks of."""
    return {row["key"]: row for row in answer["coordinators"]} if answer["coordinators"] else {keys[0]: answer}
