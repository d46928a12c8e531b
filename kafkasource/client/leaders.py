"""Topics, who leads their partitions, and asking all leaders at once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from kafkasource.client.calls import Caller, few
from kafkasource.client.connection import Body
from kafkasource.client.metadata import PartitionMetadata, TopicMetadata
from kafkasource.errors import (
    BrokerError,
    KafkaSourceError,
    LeaderNotAvailable,
    ProtocolError,
    UnknownTopicOrPartition,
    error_for,
)
from kafkasource.protocol.apis import Api
from kafkasource.types import TopicPartition

PROPAGATION_MS = 5_000  # for so long may a broker not know of a topic that was created through another

_UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID = 3, 100

T = TypeVar("T")


class LeaderCaller(Caller):
    """What `Cluster` knows of topics, and how it asks those who lead them."""

    def partitions_of(
        self, topics: Iterable[str], *, propagation_ms: int = PROPAGATION_MS
    ) -> dict[str, TopicMetadata | None]:
        """Ask the cluster now for these topics. None: no such topic, even after `propagation_ms` of asking again.

        Raises AuthorizationFailed and other fatal errors of a topic.
        """
        names = list(dict.fromkeys(topics))
        patience = self.network.now_ms() + propagation_ms
        return self._retrying(f"metadata of {few(names)}", lambda left: self._describe(names, patience, left))

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
        missing = [tp for tp, leader in found.items() if leader is None]
        if missing:
            self._ask_metadata(sorted({tp.topic for tp in missing}), left_ms)
            found.update((tp, self.metadata.leader_id(tp)) for tp in found)
        leaders = {}
        for tp, leader in found.items():
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

    def _ask_leaders(
        self,
        api: Api,
        wanted: Collection[TopicPartition],
        body: Callable[[list[TopicPartition], float], Body],
        answer: Callable[[dict[str, Any]], T],
    ) -> dict[TopicPartition, T]:
        """Ask the leaders in parallel, again until every partition has an answer, or raise.

        `body` makes the request for the partitions that one node leads, within the milliseconds left; `answer` reads a
        partition's row of the response.
        """
        found: dict[TopicPartition, T] = {}
        patience = self.network.now_ms() + PROPAGATION_MS

        def take(response: dict[str, Any]) -> list[BrokerError]:
            errors = []
            for tp, row in _partition_rows(response):
                if row["error_code"]:
                    errors.append(error_for(row["error_code"], f"{api.name} {tp}"))
                elif tp in wanted:
                    found[tp] = answer(row)
            return errors

        def attempt(left_ms: float) -> None:
            missing = [tp for tp in wanted if tp not in found]
            leaders = _by_node(self._leaders(missing, patience, left_ms))
            errors = self._send_all(api, {node: body(led, left_ms) for node, led in leaders.items()}, left_ms, take)
            absent = [tp for tp in missing if tp not in found]
            if absent:
                raise _worst(errors, patience, self.network.now_ms()) or ProtocolError(
                    f"{api.name}: no answer for {few(absent)}"
                )

        if wanted:
            self._retrying(f"{api.name} of {few(wanted)}", attempt)
        return found

    def _current_leader_epoch(self, tp: TopicPartition) -> int:
        known = self.metadata.partition(tp)
        return -1 if known is None or known.leader_epoch is None else known.leader_epoch


def by_topic(
    partitions: Iterable[TopicPartition], row: Callable[[TopicPartition], dict[str, Any]]
) -> list[dict[str, Any]]:
    """What a request says of each partition, in a row for each topic."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(row(tp))
    return [{"name": name, "partitions": rows} for name, rows in topics.items()]


def indexes_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics


def _by_node(leaders: Mapping[TopicPartition, int]) -> dict[int, list[TopicPartition]]:
    led: dict[int, list[TopicPartition]] = {}
    for tp, node in leaders.items():
        led.setdefault(node, []).append(tp)
    return led


def _partition_rows(response: dict[str, Any]) -> Iterator[tuple[TopicPartition, dict[str, Any]]]:
    for topic in response["topics"]:
        name = topic["name"] if "name" in topic else topic["topic"]
        for row in topic["partitions"]:
            yield TopicPartition(name, row["partition_index"] if "partition_index" in row else row["partition"]), row


def _worst(errors: list[KafkaSourceError], patience_ms: float, now_ms: float) -> KafkaSourceError | None:
    """The error to raise for several: a fatal one first. An unknown topic is fatal once patience with it has ended."""
    for error in errors:
        if isinstance(error, UnknownTopicOrPartition) and now_ms >= patience_ms:
            error.retriable = False
    return min(errors, key=lambda error: (error.retriable, not error.refresh_metadata), default=None)
