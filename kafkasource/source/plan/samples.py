"""Fetches a sample of some partitions: a few record batches, whose headers are all that the callers read.

One request per leader, all in parallel, and no broker waits for records. A first record batch comes whole, however
large it is (KIP-74). So a partition whose batch did not fit beside others is asked again in a request of its own.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kafkasource.errors import BrokerError, KafkaSourceError, error_for
from kafkasource.kafka.fetch.messages import fetch_body, last_version, partition_row
from kafkasource.kafka.protocol.apis import FETCH
from kafkasource.kafka.protocol.schema import Body
from kafkasource.types import IsolationLevel, TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster

log = logging.getLogger("kafkasource.source")

SAMPLE_PARTITIONS = 64  # at a time; the others have their turn later
MOST_ALONE = 8  # partitions at a time that get a request of their own
TIMEOUT_MS = 2_000

Sample: TypeAlias = tuple[TopicPartition, memoryview | bytes | BrokerError]
Requests: TypeAlias = list[tuple[int, list[TopicPartition]]]
"""The leader's node id, and the partitions to ask it about."""


def longest_waiting(
    partitions: Iterable[TopicPartition], asked_s: Mapping[TopicPartition, float]
) -> list[TopicPartition]:
    """The partitions whose turn it is: those never asked come first, then those asked longest ago."""
    return sorted(partitions, key=lambda tp: (asked_s.get(tp, -math.inf), tp))[:SAMPLE_PARTITIONS]


class Sampler:
    """Reader process, one thread. Asks through the cluster that plans."""

    def __init__(self, cluster: Cluster, isolation_level: IsolationLevel) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level

    def by_leader(self, partitions: Iterable[TopicPartition]) -> Requests:
        """One request per leader. Leaves out partitions without a known leader."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in partitions:
            leader = self._cluster.metadata.leader_id(tp)
            if leader is not None:
                by_leader.setdefault(leader, []).append(tp)
        return list(by_leader.items())

    def each_alone(self, partitions: Sequence[TopicPartition]) -> Requests:
        """One request for each of the first few partitions."""
        return [(leader, [tp]) for leader, led in self.by_leader(partitions[:MOST_ALONE]) for tp in led]

    def fetch(
        self, requests: Requests, begin: Mapping[TopicPartition, int], each_bytes: int, timeout_ms: float = TIMEOUT_MS
    ) -> Iterator[Sample]:
        """Records from `begin` on: `each_bytes` of each partition, and at least one batch of a request's first.

        A leader that does not answer in time gives nothing.
        """
        metadata, caller = self._cluster.metadata, self._cluster.caller
        sent = []
        for leader, partitions in requests:
            ids = {tp.topic: metadata.topic_id(tp.topic) for tp in partitions}
            body = self._body(partitions, begin, ids, each_bytes)
            pending = caller.send(leader, FETCH, body, timeout_ms=timeout_ms, max_version=last_version(ids.values()))
            sent.append((pending, partitions, ids))
        caller.wait(*(pending for pending, _, _ in sent))
        for pending, partitions, ids in sent:
            try:
                yield from _records_of(pending.result(), partitions, ids)
            except KafkaSourceError as error:
                log.debug("no sample of the records on node %d: %s", pending.node_id, error)

    def _body(
        self,
        partitions: Sequence[TopicPartition],
        begin: Mapping[TopicPartition, int],
        ids: Mapping[str, uuid.UUID | None],
        each_bytes: int,
    ) -> Body:
        topics: dict[str, list[dict[str, int]]] = {}
        for tp in partitions:
            known = self._cluster.metadata.partition(tp)
            row = partition_row(tp, begin[tp], known.leader_epoch if known else None, each_bytes)
            topics.setdefault(tp.topic, []).append(row)
        return fetch_body(
            topics,
            ids,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=each_bytes * len(partitions),
            isolation_level=self._isolation_level,
        )


def _records_of(body: Body, asked: Sequence[TopicPartition], ids: Mapping[str, uuid.UUID | None]) -> Iterator[Sample]:
    wanted = set(asked)
    names = {topic_id: topic for topic, topic_id in ids.items()}
    for topic in body["responses"]:
        name = topic.get("topic") or names.get(topic.get("topic_id")) or ""
        for row in topic["partitions"]:
            tp = TopicPartition(name, row["partition_index"])
            if tp in wanted:
                code = row["error_code"]
                yield tp, error_for(code, f"Fetch of {tp}") if code else row["records"] or b""
