"""Offsets of logs: where they begin and end, and where records of a time and leader epochs are in them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kafkasource.errors import OffsetNotAvailable, UnsupportedApiVersion, error_for, few
from kafkasource.kafka.cluster.routing import Leaders, by_topic
from kafkasource.kafka.network.connection import RequestBody
from kafkasource.kafka.protocol.apis import DELETE_RECORDS, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from kafkasource.kafka.protocol.schema import Body, Fields
from kafkasource.types import IsolationLevel, TopicPartition, known

EARLIEST, LATEST = -2, -1

_LISTS_BY_TIME, _LISTS_COMMITTED = 1, 2  # versions of ListOffsets (KIP-79, KIP-98)


class ListedOffset(NamedTuple):
    """`offset` is None when no record is at or after the timestamp asked for."""

    offset: int | None
    timestamp_ms: int | None = None  # of that record; None for EARLIEST and LATEST
    leader_epoch: int | None = None


class EpochEnd(NamedTuple):
    """The end of a leader epoch in the leader's log. Both are None if the leader does not know."""

    leader_epoch: int | None  # the epoch that was asked for, or the last epoch before it that has records
    end_offset: int | None  # exclusive; the log's end for the newest epoch


class Offsets:
    """Questions to the leaders of partitions: one request to each leader, in parallel.

    Every partition is in the result, or a call raises its error.
    """

    def __init__(self, leaders: Leaders) -> None:
        self._leaders = leaders

    def list(
        self,
        wanted: Mapping[TopicPartition, int],
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        *,
        epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset at EARLIEST (-2), LATEST (-1; exclusive) or at the first record not older than a timestamp in ms.

        LATEST is the high watermark, under read_committed the last stable offset. Raises UnsupportedApiVersion where
        `wanted` has a timestamp and the leader is a broker before 0.10.1, which knows only when segments of the log
        were written. Brokers before 0.11 have no transactions, so both isolation levels see the same there. `epochs`:
        the leader epochs that the caller knows. The answer of an older leader does not count.

        Each log has a beginning and an end: a leader that gives no offset for EARLIEST or LATEST is asked again.
        """

        def row(tp: TopicPartition) -> Fields:
            epoch = self._leaders.current_epoch(tp, epochs.get(tp))
            return {"partition_index": tp.partition, "current_leader_epoch": epoch, "timestamp": wanted[tp]}

        def body(led: list[TopicPartition], left_ms: float) -> RequestBody:
            topics = by_topic(led, row)

            def of_version(version: int) -> Fields:
                by_time = [tp for tp in led if wanted[tp] >= 0]
                if by_time and version < _LISTS_BY_TIME:
                    raise UnsupportedApiVersion(
                        f"the offset of a timestamp cannot be asked for, here of {few(by_time)}: that needs Kafka"
                        f" 0.10.1 (ListOffsets v{_LISTS_BY_TIME}), and its leader serves ListOffsets v{version}. Use"
                        " offsets instead of times"
                    )
                return {"topics": topics} | (
                    {"isolation_level": isolation_level.value} if version >= _LISTS_COMMITTED else {}
                )

            return of_version

        def listed(tp: TopicPartition, row: Body) -> ListedOffset:
            found = _listed(row)
            if found.offset is None and wanted[tp] in (EARLIEST, LATEST):
                raise error_for(OffsetNotAvailable.CODE, f"ListOffsets {tp}: an answer without an error and an offset")
            return found

        return self._leaders.ask(LIST_OFFSETS, wanted, body, listed)

    def epoch_ends(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        """Ask where leader epochs end (KIP-320).

        A reader whose next offset is beyond the end of the epoch of its last record, or of a later epoch, reads a log
        that was truncated meanwhile. Brokers before 2.3 want the right to act as a replica for this.
        """

        def row(tp: TopicPartition) -> Fields:
            epoch = self._leaders.current_epoch(tp)
            return {"partition": tp.partition, "current_leader_epoch": epoch, "leader_epoch": wanted[tp]}

        def body(led: list[TopicPartition], left_ms: float) -> RequestBody:
            topics = [{"topic": topic["name"], "partitions": topic["partitions"]} for topic in by_topic(led, row)]
            return {"replica_id": -1, "topics": topics}

        return self._leaders.ask(OFFSET_FOR_LEADER_EPOCH, wanted, body, lambda _, row: _epoch_end(row))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete records below an offset (-1: the high watermark); the new log start offset of each partition."""

        def body(led: list[TopicPartition], left_ms: float) -> RequestBody:
            rows = by_topic(led, lambda tp: {"partition_index": tp.partition, "offset": before[tp]})
            return {"topics": rows, "timeout_ms": int(left_ms)}

        return self._leaders.ask(DELETE_RECORDS, before, body, lambda _, row: int(row["low_watermark"]))


def _listed(row: Body) -> ListedOffset:
    if row.get("old_style_offsets"):  # v0: as many as were asked for, the newest first
        return ListedOffset(row["old_style_offsets"][0])
    return ListedOffset(known(row["offset"]), known(row["timestamp"]), known(row.get("leader_epoch")))


def _epoch_end(row: Body) -> EpochEnd:
    return EpochEnd(known(row.get("leader_epoch")), known(row["end_offset"]))
