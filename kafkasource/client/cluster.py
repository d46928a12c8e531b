"""A Kafka cluster as the source and the sink see it: blocking calls with retries, and `send` for those who pipeline.

Each call has one deadline for everything it does (`default.api.timeout.ms`): finding a broker, refreshing metadata,
backoff and retries. Errors that the table calls retriable are retried until then, the others raised at once.

Threads: calls lock the cluster, so several threads may use one; but who drives `send` and `poll` himself (a sender or
fetcher thread) should own a cluster of his own. It does not pickle, and a fork must not use its parent's (`cache`).
"""

from __future__ import annotations

import random as random_module
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kafkasource.client.config import ClientConfig, backoff_ms
from kafkasource.client.connection import Body
from kafkasource.client.metadata import Metadata, PartitionMetadata, TopicMetadata
from kafkasource.client.network import NetworkClient, Pending, Selector
from kafkasource.client.transport import Connector
from kafkasource.errors import (
    BootstrapFailed,
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    DeadlineExceeded,
    KafkaSourceError,
    LeaderNotAvailable,
    ProtocolError,
    RequestTimeout,
    UnknownTopicOrPartition,
    error_for,
)
from kafkasource.protocol.apis import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Api,
)
from kafkasource.types import TopicPartition

EARLIEST, LATEST = -2, -1
PROPAGATION_MS = 5_000  # for so long may a broker not know of a topic that was created through another

_ISOLATION_LEVELS: dict[int | str, int] = {"read_uncommitted": 0, "read_committed": 1, 0: 0, 1: 1}
_GROUP, _TRANSACTION = 0, 1  # kinds of coordinator
_UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID, _TOPIC_ALREADY_EXISTS = 3, 100, 36
_INVALID_PARTITIONS = 37

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """`offset` is None when no record is at or after the timestamp asked for."""

    offset: int | None
    timestamp_ms: int | None = None  # of that record; None for EARLIEST and LATEST
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ProducerId:
    producer_id: int
    producer_epoch: int


class Cluster:
    """See the module. Opens no socket before the first call."""

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
        self._coordinators: dict[tuple[int, str], int] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Cluster has sockets and does not pickle; send its ClientConfig")

    def close(self) -> None:
        """Close all connections; what is under way fails with ClientClosed."""
        with self._lock:
            self.network.close()

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
        """Do network work for at most about `timeout_ms`. Raises ClusterMismatch."""
        with self._lock:
            done = self.network.poll(timeout_ms)
            if self.network.fatal is not None:
                raise self.network.fatal
            return done

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

    # Topics and leaders.

    def partitions_of(
        self, topics: Iterable[str], *, propagation_ms: int = PROPAGATION_MS
    ) -> dict[str, TopicMetadata | None]:
        """Ask the cluster now for these topics. None: no such topic, even after `propagation_ms` of asking again.

        Raises AuthorizationFailed and other fatal errors of a topic.
        """
        names = list(dict.fromkeys(topics))
        patience = self.network.now_ms() + propagation_ms
        return self._retrying(f"metadata of {_few(names)}", lambda left: self._describe(names, patience, left))

    def _describe(self, names: list[str], patience_ms: float, left_ms: float) -> dict[str, TopicMetadata | None]:
        self._ask_metadata(names, left_ms)
        errors = {name: self.metadata.topic_errors[name] for name in names if name in self.metadata.topic_errors}
        late = self.network.now_ms() >= patience_ms
        for name, code in errors.items():
            if code not in (_UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID) or not late:
                raise error_for(code, f"topic {name!r}")
        return {name: None if name in errors else self.metadata.topic(name) for name in names}

    def all_topics(self) -> list[TopicMetadata]:
        """Ask the cluster now for all topics that it lets us see, internal ones (flagged) included."""

        def attempt(left_ms: float) -> list[TopicMetadata]:
            body = self._ask_metadata(None, left_ms)
            found = [self.metadata.topic(topic["name"]) for topic in body["topics"] if not topic["error_code"]]
            return [topic for topic in found if topic is not None]

        return self._retrying("metadata of all topics", attempt)

    def _ask_metadata(self, names: list[str] | None, left_ms: float) -> dict[str, Any]:
        timeout = min(left_ms, self.config.request_timeout_ms)
        pending = self.network.refresh_metadata(self._any_node(left_ms), names, timeout)
        self.metadata.keep(names or [])
        self.wait(pending)
        return pending.result()

    def cached_partition(self, tp: TopicPartition) -> PartitionMetadata | None:
        """What is known without asking; its `leader_epoch` goes into Fetch and ListOffsets requests (KIP-320)."""
        return self.metadata.partition(tp)

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """What is known without asking. None: not known, or the brokers have none (< 2.8)."""
        known = self.metadata.topic(topic)
        return known.topic_id if known else None

    def leader(self, tp: TopicPartition) -> int:
        """The node id of the partition's leader; waits for metadata and elections as long as the deadline allows.

        Raises UnknownTopicOrPartition, where that stays so, and DeadlineExceeded.
        """
        known = self.metadata.leader_id(tp)
        if known is not None:
            return known
        patience = self.network.now_ms() + PROPAGATION_MS
        return self._retrying(f"the leader of {tp}", lambda left: self._leaders([tp], patience, left)[tp])

    def _leaders(
        self, partitions: Iterable[TopicPartition], patience_ms: float, left_ms: float
    ) -> dict[TopicPartition, int]:
        """Leaders known or asked for once. Raises a retriable BrokerError where one is missing."""
        found = {tp: self.metadata.leader_id(tp) for tp in partitions}
        if None in found.values():
            self._ask_metadata(sorted({tp.topic for tp, leader in found.items() if leader is None}), left_ms)
        leaders = {}
        for tp in found:
            leader = self.metadata.leader_id(tp)
            if leader is None:
                code = self.metadata.topic_errors.get(tp.topic, 0)
                if not code and self.metadata.partition(tp) is None:
                    code = _UNKNOWN_TOPIC
                error = error_for(code, str(tp)) if code else LeaderNotAvailable(5, str(tp))
                if isinstance(error, UnknownTopicOrPartition) and self.network.now_ms() >= patience_ms:
                    error.retriable = False
                raise error
            leaders[tp] = leader
        return leaders

    # Offsets of logs.

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], isolation_level: int | str = "read_uncommitted"
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset at EARLIEST (-2), LATEST (-1; exclusive) or at the first record not older than a timestamp in ms.

        One request per leader, in parallel. LATEST is the high watermark, under read_committed the last stable offset.
        Every partition is in the answer, or an error is raised.
        """
        level = _ISOLATION_LEVELS[isolation_level]
        found: dict[TopicPartition, ListedOffset] = {}
        patience = self.network.now_ms() + PROPAGATION_MS

        def attempt(left_ms: float) -> None:
            missing = [tp for tp in wanted if tp not in found]
            leaders = self._leaders(missing, patience, left_ms)
            bodies = {
                node: {
                    "isolation_level": level,
                    "topics": _by_topic(
                        (tp for tp in missing if leaders[tp] == node), lambda tp: self._list_one(tp, wanted[tp])
                    ),
                }
                for node in set(leaders.values())
            }
            errors = self._send_all(LIST_OFFSETS, bodies, left_ms, lambda body: _take_listed(body, wanted, found))
            absent = [tp for tp in missing if tp not in found]
            if absent:
                raise _worst(errors, patience, self.network.now_ms()) or ProtocolError(
                    f"ListOffsets: no answer for {_few([str(tp) for tp in absent])}"
                )

        if wanted:
            self._retrying(f"offsets of {_few([str(tp) for tp in wanted])}", attempt)
        return found

    def _list_one(self, tp: TopicPartition, timestamp: int) -> dict[str, Any]:
        known = self.metadata.partition(tp)
        epoch = known.leader_epoch if known else None
        return {
            "partition_index": tp.partition,
            "current_leader_epoch": -1 if epoch is None else epoch,
            "timestamp": timestamp,
        }

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete records below an offset (-1: the high watermark); the new log start offset of each partition."""
        done: dict[TopicPartition, int] = {}
        patience = self.network.now_ms() + PROPAGATION_MS

        def take(body: dict[str, Any]) -> list[BrokerError]:
            errors = []
            for topic in body["topics"]:
                for row in topic["partitions"]:
                    tp = TopicPartition(topic["name"], row["partition_index"])
                    if row["error_code"]:
                        errors.append(error_for(row["error_code"], f"DeleteRecords {tp}"))
                    else:
                        done[tp] = row["low_watermark"]
            return errors

        def attempt(left_ms: float) -> None:
            missing = [tp for tp in before if tp not in done]
            leaders = self._leaders(missing, patience, left_ms)
            bodies = {
                node: {
                    "topics": _by_topic(
                        (tp for tp in missing if leaders[tp] == node),
                        lambda tp: {"partition_index": tp.partition, "offset": before[tp]},
                    ),
                    "timeout_ms": int(left_ms),
                }
                for node in set(leaders.values())
            }
            errors = self._send_all(DELETE_RECORDS, bodies, left_ms, take)
            if errors:
                raise _worst(errors, patience, self.network.now_ms()) or errors[0]

        self._retrying(f"DeleteRecords of {_few([str(tp) for tp in before])}", attempt)
        return done

    # Producers and groups.

    def init_producer_id(self, transactional_id: str | None = None, transaction_timeout_ms: int = 60_000) -> ProducerId:
        """A producer id: any broker's for an idempotent producer, the coordinator's for a transactional one."""
        body = {"transactional_id": transactional_id, "transaction_timeout_ms": transaction_timeout_ms}
        if transactional_id is None:
            answer = self.call_any(INIT_PRODUCER_ID, body)
        else:
            answer = self.call_coordinator(_TRANSACTION, transactional_id, INIT_PRODUCER_ID, body)
        return ProducerId(answer["producer_id"], answer["producer_epoch"])

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit as a consumer without membership. Raises UnknownMemberId where the group has live members."""
        if any(offset < 0 for offset in offsets.values()):
            raise ValueError(f"a negative offset to commit for group {group!r}")  # brokers would take it
        body = {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": _by_topic(offsets, lambda tp: {"partition_index": tp.partition, "committed_offset": offsets[tp]}),
        }
        self.call_coordinator(_GROUP, group, OFFSET_COMMIT, body, max_version=9)  # 10 has topic ids for names

    def fetch_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Committed offsets; None: none, or one below 0. Waits while a transaction that writes them is open."""
        wanted = list(partitions)

        def body(version: int) -> dict[str, Any]:
            topics: dict[str, list[int]] = {}
            for tp in wanted:
                topics.setdefault(tp.topic, []).append(tp.partition)
            rows = [{"name": name, "partition_indexes": indexes} for name, indexes in topics.items()]
            stable = {"require_stable": True} if version >= 7 else {}
            if version >= 8:
                return {"groups": [{"group_id": group, "topics": rows}], **stable}
            return {"group_id": group, "topics": rows, **stable}

        answer = self.call_coordinator(_GROUP, group, OFFSET_FETCH, body, max_version=9)
        found: dict[TopicPartition, int | None] = dict.fromkeys(wanted)
        for part in answer.get("groups") or [answer]:
            for topic in part["topics"]:
                for row in topic["partitions"]:
                    tp = TopicPartition(topic["name"], row["partition_index"])
                    if tp in found and row["committed_offset"] >= 0:
                        found[tp] = row["committed_offset"]
        return found

    # Topics, made and unmade. Nothing of this package does it without being asked.

    def create_topics(
        self,
        names: Iterable[str],
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create topics that are alike, then wait until every partition has a leader. -1: the broker's default.

        Raises a topic's errors, as TopicAlreadyExists; those named before it may have been created.
        """
        wanted = list(names)
        settings = [{"name": name, "value": value} for name, value in (configs or {}).items()]
        rows = [
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": replication_factor,
                "assignments": [],
                "configs": settings,
            }
            for name in wanted
        ]
        self._ask_controller(CREATE_TOPICS, {"topics": rows}, wanted, "topics", done_already=_TOPIC_ALREADY_EXISTS)
        self._await_leaders(dict.fromkeys(wanted, partitions))

    def _await_leaders(self, totals: Mapping[str, int]) -> None:
        """Wait until topics have so many partitions, and all of them leaders."""

        def attempt(left_ms: float) -> None:
            described = self._describe(list(totals), float("inf"), left_ms)
            for name, total in totals.items():
                topic = described[name]
                if topic is None or len(topic.partitions) < total:
                    raise UnknownTopicOrPartition(_UNKNOWN_TOPIC, f"topic {name!r}")
                for partition in topic.partitions.values():
                    if partition.leader_id is None:
                        raise LeaderNotAvailable(5, f"{name}-{partition.partition}")

        self._retrying(f"leaders of {_few(list(totals))}", attempt)

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete. Raises UnknownTopicOrPartition and other errors of a topic."""
        wanted = list(names)

        def body(version: int) -> dict[str, Any]:
            return {"topics": [{"name": name} for name in wanted]} if version >= 6 else {"topic_names": wanted}

        self._ask_controller(DELETE_TOPICS, body, wanted, "responses", done_already=_UNKNOWN_TOPIC)
        with self._lock:
            self.metadata.forget(wanted)

    def create_partitions(self, totals: Mapping[str, int]) -> None:
        """Let topics have this many partitions in all, then wait until all have a leader."""
        rows = [{"name": name, "count": count, "assignments": None} for name, count in totals.items()]
        self._ask_controller(
            CREATE_PARTITIONS, {"topics": rows}, list(totals), "results", done_already=_INVALID_PARTITIONS
        )
        self._await_leaders(totals)

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

        self._retrying(f"{api.name} {_few(names)}", attempt)

    # Retries.

    def call_any(self, api: Api, body: Body, *, max_version: int | None = None) -> dict[str, Any]:
        """Ask any broker; retry within the deadline. Raises what the answer's top-level `error_code` says."""

        def attempt(left_ms: float) -> dict[str, Any]:
            pending = self._send_any(api, body, left_ms, max_version)
            self.wait(pending)
            return _checked(pending.result(), api.name)

        return self._retrying(api.name, attempt)

    def call_coordinator(
        self, kind: int, key: str, api: Api, body: Body, *, max_version: int | None = None
    ) -> dict[str, Any]:
        """Ask the coordinator of a group (kind 0) or transactional id (1), found, kept and found again when it moves.

        Raises the first error that the answer holds anywhere.
        """

        def attempt(left_ms: float) -> dict[str, Any]:
            node_id = self._coordinators.get((kind, key))
            if node_id is None:
                node_id = self._coordinators[kind, key] = self._find_coordinator(kind, key, left_ms)
            timeout = min(left_ms, self.config.request_timeout_ms)
            try:
                answer = self.call(node_id, api, body, timeout_ms=timeout, max_version=max_version)
                return _checked(answer, f"{api.name} of {key!r}")
            except KafkaSourceError as error:
                if getattr(error, "refresh_coordinator", not isinstance(error, BrokerError)):
                    self._coordinators.pop((kind, key), None)
                raise

        return self._retrying(f"{api.name} of {key!r}", attempt)

    def _find_coordinator(self, kind: int, key: str, left_ms: float) -> int:
        def body(version: int) -> dict[str, Any]:
            if version >= 4:
                return {"key_type": kind, "coordinator_keys": [key]}
            return {"key": key, "key_type": kind} if version >= 1 else {"key": key}

        pending = self._send_any(FIND_COORDINATOR, body, left_ms)
        self.wait(pending)
        answer = _checked(pending.result(), f"FindCoordinator of {key!r}")
        found = (answer.get("coordinators") or [answer])[0]
        node_id: int = found["node_id"]
        if self.metadata.node(node_id) is None:
            self._ask_metadata([], left_ms)
        return node_id

    def _send_any(self, api: Api, body: Body, left_ms: float, max_version: int | None = None) -> Pending:
        node_id, timeout = self._any_node(left_ms), min(left_ms, self.config.request_timeout_ms)
        return self.network.send(node_id, api, body, timeout_ms=timeout, max_version=max_version)

    def _any_node(self, left_ms: float) -> int:
        """The least loaded node; waits for one that can be tried."""
        deadline = self.network.now_ms() + left_ms
        while True:
            node_id, wait_ms = self.network.least_loaded()
            if node_id is not None:
                return node_id
            left = deadline - self.network.now_ms()
            if left <= 0:
                raise ConnectFailed("no broker can be reached")
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

    def _hopeless(self) -> bool:
        """Does every bootstrap server speak something other than Kafka's protocol? Waiting will not change that."""
        errors = self.network.bootstrap_errors
        return len(errors) == len(set(self.config.bootstrap_servers)) and all(
            isinstance(error, ProtocolError) for error in errors.values()
        )

    def _retrying(self, what: str, attempt: Callable[[float], T]) -> T:
        """Run `attempt(milliseconds left)` until it returns; retriable errors are waited off, until the deadline."""
        start = self.network.now_ms()
        deadline = start + self.config.default_api_timeout_ms
        failures = 0
        while True:
            try:
                with self._lock:
                    return attempt(max(deadline - self.network.now_ms(), 1.0))
            except KafkaSourceError as error:
                never_reached = self.metadata.version == 0
                if never_reached and self._hopeless():
                    raise self._no_broker(self.network.now_ms() - start) from error
                if not error.retriable and not (never_reached and isinstance(error, ProtocolError)):
                    raise
                if error.refresh_metadata:
                    with self._lock:
                        self.metadata.request_update()
                again = self.network.now_ms() + backoff_ms(
                    failures, self.config.retry_backoff_ms, self.config.retry_backoff_max_ms, self._random()
                )
                failures += 1
                if again >= deadline:
                    waited = self.network.now_ms() - start
                    if never_reached and self.network.bootstrap_errors:
                        raise self._no_broker(waited) from error
                    raise DeadlineExceeded(
                        f"{what}: not done within {round(waited)} ms and {failures} attempts (default.api.timeout.ms);"
                        f" the last error: {error}"
                    ) from error
            while self.network.now_ms() < again:
                self.poll(again - self.network.now_ms())


def _by_topic(
    partitions: Iterable[TopicPartition], row: Callable[[TopicPartition], dict[str, Any]]
) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(row(tp))
    return [{"name": name, "partitions": rows} for name, rows in topics.items()]


def _take_listed(
    body: dict[str, Any], wanted: Mapping[TopicPartition, int], found: dict[TopicPartition, ListedOffset]
) -> list[BrokerError]:
    errors = []
    for topic in body["topics"]:
        for row in topic["partitions"]:
            tp = TopicPartition(topic["name"], row["partition_index"])
            if row["error_code"]:
                errors.append(error_for(row["error_code"], f"ListOffsets {tp}"))
            elif tp in wanted:
                found[tp] = ListedOffset(
                    _known(row["offset"]), _known(row["timestamp"]), _known(row.get("leader_epoch", -1))
                )
    return errors


def _known(value: int) -> int | None:
    return value if value >= 0 else None


def _worst(errors: list[KafkaSourceError], patience_ms: float, now_ms: float) -> KafkaSourceError | None:
    """The error to raise for several: a fatal one first. An unknown topic is fatal once patience with it has ended."""
    for error in errors:
        if isinstance(error, UnknownTopicOrPartition) and now_ms >= patience_ms:
            error.retriable = False
    return min(errors, key=lambda error: (error.retriable, not error.refresh_metadata), default=None)


def _checked(body: dict[str, Any], context: str) -> dict[str, Any]:
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


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
