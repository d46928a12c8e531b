"""The Fetch of one partition: its request body, and the contents of the response. Values in, values out, no I/O."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kafkasource.errors import ProtocolError, error_for
from kafkasource.kafka.fetch.config import FetchSettings
from kafkasource.kafka.protocol.schema import Body
from kafkasource.types import IsolationLevel, TopicPartition, known

_NO_ID = uuid.UUID(int=0)
_LAST_VERSION_BY_NAME = 12  # from 13 on a fetch names topics by id (KIP-516)


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """A broker's answer about one partition. `records` views the response: whole batches, the last may be cut."""

    records: memoryview | bytes
    high_watermark: int
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    aborted_transactions: tuple[tuple[int, int], ...] = ()  # (producer id, first offset) among these records
    preferred_read_replica: int | None = None  # node id of the replica to ask; then `records` is empty (KIP-392)
    throttled_ms: int = 0  # a quota of the broker allows nothing for this long (KIP-219); `records` is empty


def request_body(
    tp: TopicPartition,
    fetch_offset: int,
    settings: FetchSettings,
    *,
    topic_id: uuid.UUID | None,
    leader_epoch: int | None,
    max_bytes: int,
    rack: str = "",
    wait: bool = True,
) -> Body:
    """A Fetch of one partition. With a rack the leader may point to a replica there; without `wait` a broker answers
    at once.
    """
    return fetch_body(
        {tp.topic: [partition_row(tp, fetch_offset, leader_epoch, max_bytes)]},
        {tp.topic: topic_id},
        max_wait_ms=settings.max_wait_ms if wait else 0,
        min_bytes=settings.min_bytes,
        max_bytes=max_bytes,
        isolation_level=settings.isolation_level,
        rack=rack,
    )


def fetch_body(
    rows: Mapping[str, Sequence[Mapping[str, int]]],
    topic_ids: Mapping[str, uuid.UUID | None],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation_level: IsolationLevel,
    rack: str = "",
) -> Body:
    """A Fetch without a session (KIP-227: epoch -1). A topic has rows from `partition_row`, and both name and id: each
    version sends one of the two.
    """
    return {
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation_level.value,
        "topics": [
            {"topic": topic, "topic_id": topic_ids[topic] or _NO_ID, "partitions": partitions}
            for topic, partitions in rows.items()
        ],
        "rack_id": rack,
    }


def partition_row(tp: TopicPartition, fetch_offset: int, leader_epoch: int | None, max_bytes: int) -> dict[str, int]:
    return {
        "partition": tp.partition,
        "current_leader_epoch": -1 if leader_epoch is None else leader_epoch,
        "fetch_offset": fetch_offset,
        "partition_max_bytes": max_bytes,
    }


def last_version(topic_ids: Collection[uuid.UUID | None]) -> int | None:
    """The newest version that can fetch these topics. None: any."""
    return _LAST_VERSION_BY_NAME if None in topic_ids else None


def read_response(body: Body, tp: TopicPartition, fetch_offset: int, topic_id: uuid.UUID | None) -> FetchedPartition:
    """The one partition that was asked for.

    Raises the broker's error, and ProtocolError when the response speaks of anything else: missing is not empty, but
    where a quota is used up. From Kafka 2.0 on a broker answers that at once, without any partition.
    """
    context = f"Fetch of {tp} at offset {fetch_offset}"
    if body.get("error_code"):
        raise error_for(body["error_code"], context)
    topics, throttled_ms = body["responses"], body.get("throttle_time_ms", 0)
    if not topics and throttled_ms > 0:
        return FetchedPartition(b"", high_watermark=-1, throttled_ms=throttled_ms)
    if len(topics) != 1 or len(topics[0]["partitions"]) != 1:
        raise ProtocolError(f"{context}: the response does not hold exactly the partition that was asked for")
    topic, partition = topics[0], topics[0]["partitions"][0]
    by_name = topic.get("topic") or tp.topic
    by_id = topic.get("topic_id") or _NO_ID
    if by_name != tp.topic or by_id not in (_NO_ID, topic_id) or partition["partition_index"] != tp.partition:
        raise ProtocolError(f"{context}: the response is about {by_name}-{partition['partition_index']}")
    if partition["error_code"]:
        raise error_for(partition["error_code"], context)
    aborted = partition.get("aborted_transactions") or ()
    records = partition["records"]
    return FetchedPartition(
        records=b"" if records is None else records,
        high_watermark=partition["high_watermark"],
        last_stable_offset=known(partition.get("last_stable_offset")),
        log_start_offset=known(partition.get("log_start_offset")),
        aborted_transactions=tuple((one["producer_id"], one["first_offset"]) for one in aborted),
        preferred_read_replica=known(partition.get("preferred_read_replica")),
    )
