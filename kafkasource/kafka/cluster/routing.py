"""Routing: which broker answers a question, found, kept, and looked up again once it has moved.

`Leaders` asks the leaders of partitions, all at once. `Coordinators` asks the brokers that keep the offsets of a group
or the state of a transactional id: one question with `ask`, the same question about many ids with `ask_each`, pipelined
to all coordinators at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeAlias, TypeVar

from kafkasource.errors import (
    BrokerError,
    CoordinatorNotAvailable,
    KafkaSourceError,
    LeaderNotAvailable,
    ProtocolError,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
    UnsupportedApiVersion,
    UnsupportedVersion,
    error_for,
    few,
)
from kafkasource.kafka.cluster.caller import PROPAGATION_MS, Caller, checked
from kafkasource.kafka.network.connection import RequestBody
from kafkasource.kafka.network.metadata import topic_error
from kafkasource.kafka.network.pending import Pending
from kafkasource.kafka.protocol.apis import FIND_COORDINATOR, METADATA, Api
from kafkasource.kafka.protocol.schema import Body, Fields
from kafkasource.types import TopicPartition

GROUP, TRANSACTION = 0, 1
"""Kinds of coordinator, as FindCoordinator numbers them."""

T = TypeVar("T")

Check: TypeAlias = Callable[[Body, str], Body]
"""Returns an answer, or raises the error in it with the text as its context."""


class Leaders:
    """The brokers that lead partitions."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._metadata = caller.metadata

    def of(self, tp: TopicPartition) -> int:
        """The node id of the partition's leader; waits for metadata and elections as long as the deadline allows.

        Raises UnknownTopicOrPartition, where that stays so, and DeadlineExceeded.
        """
        known = self._metadata.leader_id(tp)
        if known is not None:
            self._metadata.use(tp.topic)
            return known
        return self._caller.retrying(
            f"the leader of {tp}", lambda left: self._find([tp], left)[tp], propagation_ms=PROPAGATION_MS
        )

    def ask(
        self,
        api: Api,
        wanted: Collection[TopicPartition],
        body: Callable[[list[TopicPartition], float], RequestBody],
        answer: Callable[[TopicPartition, Body], T],
    ) -> dict[TopicPartition, T]:
        """Ask the leaders in parallel, again until every partition has an answer, or raise.

        `body` makes the request for the partitions of one leader, within the milliseconds left. `answer` reads a
        partition's row of the response; an error that it raises counts as the row's error.
        """
        found: dict[TopicPartition, T] = {}
        outdated: set[str] = set()  # topics of partitions whose leader in metadata is older than we know it to be

        def take(response: Body) -> list[BrokerError]:
            errors = []
            for tp, row in _partition_rows(response):
                if row["error_code"]:
                    errors.append(self._caller.refusal(api, error_for(row["error_code"], f"{api.name} {tp}")))
                    if isinstance(errors[-1], UnknownLeaderEpoch):
                        outdated.add(tp.topic)
                elif tp in wanted:
                    try:
                        found[tp] = answer(tp, row)
                    except BrokerError as error:
                        errors.append(error)
            return errors

        def attempt(left_ms: float) -> None:
            if outdated:
                self._caller.asked_in_vain(self._caller.ask_metadata(sorted(outdated), left_ms).node_id)
                outdated.clear()
            missing = [tp for tp in wanted if tp not in found]
            bodies = {node_id: body(led, left_ms) for node_id, led in _by_node(self._find(missing, left_ms)).items()}
            errors = self._caller.send_all(api, bodies, left_ms, take)
            absent = [tp for tp in missing if tp not in found]
            if absent:
                # Such an error needs an update of these topics. A caller that listed all topics has not named them, so
                # the update would leave them out, and the old leader would be asked until the deadline.
                self._metadata.keep({tp.topic for tp in absent})
                raise _worst(errors) or ProtocolError(f"{api.name}: no answer for {few(absent)}")

        if wanted:
            self._caller.retrying(f"{api.name} of {few(wanted)}", attempt, propagation_ms=PROPAGATION_MS)
        return found

    def current_epoch(self, tp: TopicPartition, at_least: int | None = None) -> int:
        """The leader epoch for requests (KIP-320); -1: metadata have none. `at_least`: one that is known otherwise."""
        known = self._metadata.partition(tp)
        if known is None or known.leader_epoch is None:
            return -1
        return max(known.leader_epoch, at_least or 0)

    def _find(self, partitions: Iterable[TopicPartition], left_ms: float) -> dict[TopicPartition, int]:
        """Find the leaders, in the metadata or by one request. Raises a retriable BrokerError if a leader is
        missing."""
        metadata = self._metadata
        found = {tp: metadata.leader_id(tp) for tp in partitions}
        for topic in {tp.topic for tp in found}:  # a plan asks for 100,000 partitions of 1,000 topics
            metadata.use(topic)
        missing = [tp for tp, leader in found.items() if leader is None]
        if missing:
            asked = self._caller.ask_metadata(sorted({tp.topic for tp in missing}), left_ms)
            found.update((tp, metadata.leader_id(tp)) for tp in found)
            if any(metadata.partition(tp) is None for tp in missing):
                self._caller.asked_in_vain(asked.node_id)
        leaders = {}
        for tp, leader in found.items():
            if leader is None:
                raise self._why_no_leader(tp)
            leaders[tp] = leader
        return leaders

    def _why_no_leader(self, tp: TopicPartition) -> BrokerError:
        code = self._metadata.topic_errors.get(tp.topic, 0)
        if not code:
            absent = self._metadata.partition(tp) is None
            code = UnknownTopicOrPartition.CODE if absent else LeaderNotAvailable.CODE
        return self._caller.refusal(METADATA, topic_error(code, str(tp)))


class Coordinators:
    """The brokers that coordinate groups and transactions. `kind` is GROUP or TRANSACTION, `key` a group or an id."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._known: dict[tuple[int, str], int] = {}  # node ids, by kind and key

    def ask(
        self,
        kind: int,
        key: str,
        api: Api,
        body: RequestBody,
        *,
        max_version: int | None = None,
        check: Check = checked,
    ) -> Body:
        """Ask the coordinator of a group or transactional id; retriable errors are retried, others raised.

        By default that is the first error that the answer holds anywhere. Brokers hear of a new topic one after the
        other, so UnknownTopicOrPartition is retried for `PROPAGATION_MS`.
        """
        what = f"{api.name} of {key!r}"

        def attempt(left_ms: float) -> Body:
            node_id = self._find_one(kind, key, left_ms)
            timeout_ms = self._caller.timeout_ms(left_ms)
            try:
                answer = self._caller.call(node_id, api, body, timeout_ms=timeout_ms, max_version=max_version)
                with self._caller.reading(api):
                    return check(answer, what)
            except KafkaSourceError as error:
                self._forget_moved(kind, key, error)
                raise

        return self._caller.retrying(what, attempt, propagation_ms=PROPAGATION_MS)

    def of(self, kind: int, key: str) -> int:
        """The node id of a coordinator, for a caller that sends to it without this class.

        Once found, the answer comes without a request until `forget`.
        """
        return self._caller.retrying(f"coordinator of {key!r}", lambda left_ms: self._find_one(kind, key, left_ms))

    def of_each(self, kind: int, keys: Collection[str]) -> dict[str, int | BrokerError]:
        """Look up the coordinators of all keys again: when a broker fails, others take over its groups."""
        for key in keys:
            self.forget(kind, key)
        if not keys:
            return {}
        return self._caller.retrying(f"coordinators of {few(keys)}", lambda left_ms: self._find(kind, keys, left_ms))

    def forget(self, kind: int, key: str) -> None:
        """Look the coordinator up again before the next request: it moved, or does not answer."""
        with self._caller.lock:
            self._known.pop((kind, key), None)

    def look_up(self, node_id: int, wanted: Mapping[int, Collection[str]]) -> list[Pending]:
        """Ask a node at once for the coordinators that are not known, of keys by kind. Wait for the results.

        What is not found so is looked up again when a request needs it.
        """
        pendings = []
        for kind, keys in wanted.items():
            unknown = [key for key in keys if (kind, key) not in self._known]
            if unknown:
                pending = self._caller.send(node_id, FIND_COORDINATOR, _find_body(kind, unknown))
                pending.add_callback(partial(self._take_looked_up, kind, unknown))
                pendings.append(pending)
        return pendings

    def _take_looked_up(self, kind: int, keys: list[str], done: Pending) -> None:
        if done.error is None:
            for key, row in _found_rows(keys, done.result()).items():
                if not row["error_code"] and self._caller.metadata.node(row["node_id"]) is not None:
                    self._known[kind, key] = row["node_id"]

    def ask_each(
        self,
        kind: int,
        api: Api,
        bodies: Mapping[str, RequestBody],
        *,
        max_version: int | None = None,
        may_lack: bool = False,
    ) -> dict[str, Body | BrokerError]:
        """Ask the coordinators of many groups or transactional ids, a request for each, all under way at once.

        The result has the answer or the fatal error of each. A retriable error is retried for its key alone. Raises
        errors that concern all keys, and DeadlineExceeded where a key has neither answer nor fatal error in time.
        `may_lack`: a coordinator without the API has the error UnsupportedVersion for its keys, and is none for all.
        """
        settled: dict[str, Body | BrokerError] = {}
        again: list[KafkaSourceError] = []

        def take(key: str, error: KafkaSourceError) -> None:
            self._forget_moved(kind, key, error)
            if error.retriable:
                again.append(error)
            elif isinstance(error, BrokerError):
                settled[key] = error
            elif may_lack and isinstance(error, UnsupportedApiVersion):
                settled[key] = UnsupportedVersion(UnsupportedVersion.CODE, str(error))
            else:
                raise error

        def attempt(left_ms: float) -> None:
            again.clear()
            nodes = self._find(kind, [key for key in bodies if key not in settled], left_ms)
            timeout_ms = self._caller.timeout_ms(left_ms)
            pendings = {}
            for key, node_id in nodes.items():
                if isinstance(node_id, BrokerError):
                    take(key, node_id)
                else:
                    pendings[key] = self._caller.send(
                        node_id, api, bodies[key], timeout_ms=timeout_ms, max_version=max_version
                    )
            self._caller.wait(*pendings.values())
            for key, pending in pendings.items():
                try:
                    with self._caller.reading(api):
                        settled[key] = checked(pending.result(), f"{api.name} of {key!r}")
                except KafkaSourceError as error:
                    take(key, error)
            if again:
                raise again[-1]

        if bodies:
            self._caller.retrying(f"{api.name} of {few(bodies)}", attempt)
        return {key: settled[key] for key in bodies}

    def _forget_moved(self, kind: int, key: str, error: KafkaSourceError) -> None:
        """Look the coordinator up again after an error that may mean another one, or that it cannot be reached."""
        if not isinstance(error, BrokerError) or error.row.refresh_coordinator:
            self._known.pop((kind, key), None)

    def _find_one(self, kind: int, key: str, left_ms: float) -> int:
        node_id = self._find(kind, [key], left_ms)[key]
        if isinstance(node_id, BrokerError):
            raise node_id
        return node_id

    def _find(self, kind: int, keys: Collection[str], left_ms: float) -> dict[str, int | BrokerError]:
        """Find a node id for each key, in the metadata or by one request; or the error."""
        found: dict[str, int | BrokerError] = {}
        unknown = [key for key in keys if (kind, key) not in self._known]
        for key, row in self._request(kind, unknown, left_ms).items() if unknown else ():
            code = row["error_code"] or (CoordinatorNotAvailable.CODE if row["node_id"] < 0 else 0)
            if code:
                error = error_for(code, f"FindCoordinator of {key!r}")
                found[key] = self._caller.refusal(FIND_COORDINATOR, error)
                continue
            self._known[kind, key] = row["node_id"]
            if self._caller.metadata.node(row["node_id"]) is None:
                self._caller.ask_metadata([], left_ms)
        return {key: found[key] if key in found else self._known[kind, key] for key in keys}

    def _request(self, kind: int, keys: list[str], left_ms: float) -> dict[str, Body]:
        """The row of each key. Brokers before 3.0 take one key in a request (KIP-699)."""
        pending = self._caller.send_any(FIND_COORDINATOR, _find_body(kind, keys), left_ms)
        self._caller.wait(pending)
        if isinstance(pending.error, UnsupportedApiVersion) and len(keys) > 1:
            return {key: self._request(kind, [key], left_ms)[key] for key in keys}
        rows = _found_rows(keys, pending.result())
        missing = [key for key in keys if key not in rows]
        if missing:
            raise error_for(CoordinatorNotAvailable.CODE, f"FindCoordinator: no answer for {few(missing)}")
        return rows


def by_topic(partitions: Iterable[TopicPartition], row: Callable[[TopicPartition], Fields]) -> list[Body]:
    """Rows of partitions in rows of their topics, as most requests have them."""
    topics: dict[str, list[Fields]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(row(tp))
    return [{"name": name, "partitions": rows} for name, rows in topics.items()]


def indexes_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of partitions by topic."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics


def _by_node(leaders: Mapping[TopicPartition, int]) -> dict[int, list[TopicPartition]]:
    led: dict[int, list[TopicPartition]] = {}
    for tp, node in leaders.items():
        led.setdefault(node, []).append(tp)
    return led


def _partition_rows(response: Body) -> Iterator[tuple[TopicPartition, Body]]:
    for topic in response["topics"]:
        name = topic["name"] if "name" in topic else topic["topic"]
        for row in topic["partitions"]:
            yield TopicPartition(name, row["partition_index"] if "partition_index" in row else row["partition"]), row


def _worst(errors: list[KafkaSourceError]) -> KafkaSourceError | None:
    """The error to raise for several: a fatal one first, then that of a topic, which is fatal after a while."""

    def order(error: KafkaSourceError) -> tuple[bool, bool, bool]:
        return error.retriable, not isinstance(error, UnknownTopicOrPartition), not error.refresh_metadata

    return min(errors, key=order, default=None)


def _find_body(kind: int, keys: list[str]) -> RequestBody:
    """A FindCoordinator request. Brokers before 3.0 take one key: UnsupportedApiVersion for more."""

    def body(version: int) -> Fields:
        if version >= 4:
            return {"key_type": kind, "coordinator_keys": keys}
        if len(keys) > 1:
            raise UnsupportedApiVersion(f"FindCoordinator v{version} finds one at a time")
        return {"key": keys[0], "key_type": kind} if version >= 1 else {"key": keys[0]}

    return body


def _found_rows(keys: list[str], answer: Body) -> dict[str, Body]:
    """The row of each key that the answer names."""
    return {row["key"]: row for row in answer["coordinators"]} if answer["coordinators"] else {keys[0]: answer}
