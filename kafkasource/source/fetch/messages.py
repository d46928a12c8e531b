"""One partition's Fetch, as request body and as what its response says: values in, values out, nothing sent here."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkasource.errors import OptionError, ProtocolError, error_for
from kafkasource.source.fetch.memory import Room
from kafkasource.source.fetch.sizing import Pace
from kafkasource.types import IsolationLevel, TopicPartition

_NO_ID = uuid.UUID(int=0)
_SIZES = ("kafka.max.partition.fetch.bytes", "readAhead")
_LAST_VERSION_BY_NAME = 12  # from 13 on a fetch names topics by id (KIP-516)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """What a task needs to know to fetch and decode. Defaults are the option table's: made by `from_options`."""

    include_headers: bool
    fail_on_data_loss: bool
    poll_timeout_ms: int  # a partition that gives nothing for this long, though records are due, fails the task
    max_partition_bytes: int  # of one fetch; a first batch that is larger comes whole (KIP-74)
    max_wait_ms: int  # of the broker, for min_bytes
    min_bytes: int
    isolation_level: IsolationLevel
    check_crcs: bool
    max_decompressed_bytes: int
    max_message_bytes: int  # the largest response that the client takes
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    read_ahead: int  # fetches of max_partition_bytes that a task may have in flight
    most_fetch_bytes: int  # of one fetch, however long the way
    rack: str | None  # as the user wrote it; what it is in this process: `read_replicas.rack_of`
    memory_budget_bytes: int | None = None  # of the worker that the task runs in; None: what it can find out
    named_size: str | None = None  # an option by which the user has said how much may be under way

    def pace(self, room: Room | None = None) -> Pace:
        return Pace(self.max_partition_bytes, self.read_ahead, self._most_at_once, room)

    @property
    def _most_at_once(self) -> int:
        return max(min(self.most_fetch_bytes, self.max_message_bytes // 2), self.max_partition_bytes)

    @property
    def most_under_way_bytes(self) -> int:
        """Of all fetches of a task together."""
        return max(min(self.read_ahead * self.max_partition_bytes, self._most_at_once), self.max_partition_bytes)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> FetchSettings:
        """Raises OptionError for limits that contradict each other; so it is called on the driver too."""
        most, limit = options["kafka.max.partition.fetch.bytes"], options["kafka.receive.message.max.bytes"]
        if most > limit:
            raise OptionError(
                f"option 'kafka.max.partition.fetch.bytes' ({most}) asks for more than"
                f" 'kafka.receive.message.max.bytes' ({limit}) accepts: lower the one or raise the other"
            )
        return cls(
            include_headers=options["includeHeaders"],
            fail_on_data_loss=options["failOnDataLoss"],
            poll_timeout_ms=options["kafkaConsumer.pollTimeoutMs"],
            max_partition_bytes=min(most, options["kafka.fetch.max.bytes"]),
            max_wait_ms=options["kafka.fetch.max.wait.ms"],
            min_bytes=options["kafka.fetch.min.bytes"],
            isolation_level=options["kafka.isolation.level"],
            check_crcs=options["kafka.check.crcs"],
            max_decompressed_bytes=options["kafka.max.decompressed.batch.bytes"],
            max_message_bytes=options["kafka.receive.message.max.bytes"],
            retry_backoff_ms=options["kafka.retry.backoff.ms"],
            retry_backoff_max_ms=options["kafka.retry.backoff.max.ms"],
            read_ahead=options["readAhead"],
            most_fetch_bytes=options["kafka.fetch.max.bytes"],
            rack=options["kafka.client.rack"],
            memory_budget_bytes=options["memoryBudget"],
            named_size=next((name for name in _SIZES if name in getattr(options, "given", ())), None),
        )


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """What a broker answered about one partition. `records` views the response: whole batches, the last may be cut."""

    records: memoryview | bytes
    high_watermark: int
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    aborted_transactions: tuple[tuple[int, int], ...] = ()  # (producer id, first offset), of these records
    preferred_read_replica: int | None = None  # a node id: ask that one, there are no records here (KIP-392)


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
) -> dict[str, Any]:
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
) -> dict[str, Any]:
    """A Fetch without a session (KIP-227: epoch -1) of topics' rows, from `partition_row`. Versions take a topic's name
    or its id, as they need.
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
    """The newest version in which these topics can be fetched; None: any."""
    return _LAST_VERSION_BY_NAME if None in topic_ids else None


def read_response(
    body: Mapping[str, Any], tp: TopicPartition, fetch_offset: int, topic_id: uuid.UUID | None
) -> FetchedPartition:
    """The one partition that was asked for.

    Raises the broker's error, and ProtocolError when the response speaks of anything else: missing is not empty.
    """
    context = f"Fetch of {tp} at offset {fetch_offset}"
    if body.get("error_code"):
        raise error_for(body["error_code"], context)
    topics = body["responses"]
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
        last_stable_offset=_known(partition.get("last_stable_offset")),
        log_start_offset=_known(partition.get("log_start_offset")),
        aborted_transactions=tuple((one["producer_id"], one["first_offset"]) for one in aborted),
        preferred_read_replica=_known(partition.get("preferred_read_replica")),
    )


def _known(value: int | None) -> int | None:
    return None if value is None or value < 0 else value
