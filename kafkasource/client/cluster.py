"""A Kafka cluster as the source and the sink see it: blocking calls with retries, and `send` for those who pipeline.

How calls retry, and their deadline, is in `calls`; topics and their leaders are in `leaders`.

Threads: calls lock the cluster, so several threads may use one; but who drives `send` and `poll` himself (a sender or
fetcher thread) should own a cluster of his own. It does not pickle, and a fork must not use its parent's (`cache`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafkasource.client.calls import checked, few
from kafkasource.client.connection import Body
from kafkasource.client.coordinators import GROUP
from kafkasource.client.leaders import PROPAGATION_MS, by_topic, indexes_by_topic
from kafkasource.client.transaction_admin import TransactionAdmin
from kafkasource.client.transactions import check_committed_offsets
from kafkasource.errors import (
    LeaderNotAvailable,
    UnknownTopicOrPartition,
    UnsupportedApiVersion,
)
from kafkasource.protocol.apis import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    LIST_GROUPS,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
)
from kafkasource.types import IsolationLevel, TopicPartition

EARLIEST, LATEST = -2, -1

_UNKNOWN_TOPIC, _TOPIC_ALREADY_EXISTS = 3, 36
_INVALID_PARTITIONS = 37
_LISTS_BY_TIME, _LISTS_COMMITTED = 1, 2  # versions of ListOffsets (KIP-79, KIP-98)


class ListedOffset(NamedTuple):
    """`offset` is None when no record is at or after the timestamp asked for."""

    offset: int | None
    timestamp_ms: int | None = None  # of that record; None for EARLIEST and LATEST
    leader_epoch: int | None = None


class EpochEnd(NamedTuple):
    """Where a leader epoch ends in the leader's log. Both are None where the leader cannot tell."""

    leader_epoch: int | None  # the one asked for, or the last before it that has records
    end_offset: int | None  # exclusive; the log's end for the newest epoch


class Cluster(TransactionAdmin):
    """See the module. Opens no socket before the first call."""

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

    # Offsets of logs.

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset at EARLIEST (-2), LATEST (-1; exclusive) or at the first record not older than a timestamp in ms.

        One request per leader, in parallel. LATEST is the high watermark, under read_committed the last stable offset.
        Every partition is in the answer, or an error is raised: UnsupportedApiVersion where a timestamp is asked of a
        broker before 0.10.1, which knows only when segments of the log were written. Brokers before 0.11 have no
        transactions, so both isolation levels see the same there.
        """
        level = isolation_level.value

        def body(led: list[TopicPartition], left_ms: float) -> Body:
            topics = by_topic(led, lambda tp: self._list_one(tp, wanted[tp]))

            def of_version(version: int) -> dict[str, Any]:
                by_time = [tp for tp in led if wanted[tp] >= 0]
                if by_time and version < _LISTS_BY_TIME:
                    raise UnsupportedApiVersion(
                        f"the offset of a timestamp cannot be asked for, here of {few(by_time)}: that needs Kafka"
                        f" 0.10.1 (ListOffsets v{_LISTS_BY_TIME}), and its leader serves ListOffsets v{version}. Use"
                        " offsets instead of times"
                    )
                return {"topics": topics} | ({"isolation_level": level} if version >= _LISTS_COMMITTED else {})

            return of_version

        return self._ask_leaders(LIST_OFFSETS, wanted, body, _listed)

    def _list_one(self, tp: TopicPartition, timestamp: int) -> dict[str, Any]:
        return {
            "partition_index": tp.partition,
            "current_leader_epoch": self._current_leader_epoch(tp),
            "timestamp": timestamp,
        }

    def epoch_ends(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        """Where leader epochs end (KIP-320). Who stands beyond the end of the epoch of his last record, or of a later
        one, stands in a log that was truncated meanwhile.

        One request per leader, in parallel. Every partition is in the answer, or an error is raised. Brokers before
        2.3 want the right to act as a replica for it.
        """

        def row(tp: TopicPartition) -> dict[str, Any]:
            return {
                "partition": tp.partition,
                "current_leader_epoch": self._current_leader_epoch(tp),
                "leader_epoch": wanted[tp],
            }

        def body(led: list[TopicPartition], left_ms: float) -> Body:
            topics = [{"topic": topic["name"], "partitions": topic["partitions"]} for topic in by_topic(led, row)]
            return {"replica_id": -1, "topics": topics}

        return self._ask_leaders(OFFSET_FOR_LEADER_EPOCH, wanted, body, _epoch_end)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete records below an offset (-1: the high watermark); the new log start offset of each partition."""

        def body(led: list[TopicPartition], left_ms: float) -> Body:
            rows = by_topic(led, lambda tp: {"partition_index": tp.partition, "offset": before[tp]})
            return {"topics": rows, "timeout_ms": int(left_ms)}

        return self._ask_leaders(DELETE_RECORDS, before, body, lambda row: int(row["low_watermark"]))

    # Groups.

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit as a consumer without membership. Raises UnknownMemberId where the group has live members.

        UnknownTopicOrPartition is raised where it is all that is wrong: the other partitions are committed then.
        """
        if any(offset < 0 for offset in offsets.values()):
            raise ValueError(f"a negative offset to commit for group {group!r}")  # brokers would take it
        rows = by_topic(
            offsets,
            lambda tp: {
                "partition_index": tp.partition,
                "committed_offset": offsets[tp],
                "committed_metadata": "",  # as Java's consumer; of null 0.8 and 0.9 make an error
            },
        )
        body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": rows}
        check = _checked_unknown_topics_last
        self.call_coordinator(
            GROUP, group, OFFSET_COMMIT, body, max_version=9, check=check
        )  # 10 has topic ids for names

    def keep_offsets(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]], retention_ms: int) -> None:
        """Commit without membership, with a text beside each offset, for longer than the brokers would keep them.

        A topic that is deleted takes its offsets along all the same. Raises UnsupportedApiVersion where the broker
        serves no version that has the field (2 to 4); those from 0.9 to 4.3 do.
        """

        def row(tp: TopicPartition) -> dict[str, Any]:
            offset, text = offsets[tp]
            return {"partition_index": tp.partition, "committed_offset": offset, "committed_metadata": text}

        def body(version: int) -> dict[str, Any]:
            if version < 2:
                raise UnsupportedApiVersion(f"OffsetCommit v{version} cannot ask for a retention")
            group_of = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
            return {**group_of, "retention_time_ms": retention_ms, "topics": by_topic(offsets, row)}

        self.call_coordinator(GROUP, group, OFFSET_COMMIT, body, max_version=4, check=check_committed_offsets)

    def fetch_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Committed offsets; None: none, or one below 0. Waits while a transaction that writes them is open."""
        return {tp: found and found[0] for tp, found in self.fetch_committed(group, partitions).items()}

    def fetch_committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, require_stable: bool = True
    ) -> dict[TopicPartition, tuple[int, str] | None]:
        """Committed offsets and what was written beside them; None: none, or one below 0.

        Of the partitions named, or else of all that have some. With `require_stable` it waits while a transaction that
        writes them is open, without it gives those before. Partitions that are not named and have only what such a
        transaction is about to write, or has just written, are left out (Kafka 3.9 and 4.3). Brokers before 0.9 cannot
        name all: UnsupportedApiVersion.
        """
        wanted = None if partitions is None else list(partitions)
        if wanted is None and not self.supports(LIST_GROUPS):
            raise UnsupportedApiVersion(
                f"Kafka before 0.9 does not tell of which partitions group {group!r} has offsets: name them"
            )

        def body(version: int) -> dict[str, Any]:
            # In version 1 asking for nothing asks for all, as seen on 0.9.0.1.
            rows: list[dict[str, Any]] | None = None if version >= 2 else []
            if wanted is not None:
                rows = [{"name": name, "partition_indexes": found} for name, found in indexes_by_topic(wanted).items()]
            stable = {"require_stable": require_stable} if version >= 7 else {}
            if version >= 8:
                return {"groups": [{"group_id": group, "topics": rows}], **stable}
            return {"group_id": group, "topics": rows, **stable}

        answer = self.call_coordinator(GROUP, group, OFFSET_FETCH, body, max_version=9)
        committed: dict[TopicPartition, tuple[int, str] | None] = dict.fromkeys(wanted or ())
        for part in answer["groups"] or [answer]:
            for topic in part["topics"]:
                for row in topic["partitions"]:
                    tp = TopicPartition(topic["name"], row["partition_index"])
                    if (wanted is None or tp in committed) and row["committed_offset"] >= 0:
                        committed[tp] = row["committed_offset"], row["metadata"] or ""
        return committed

    # Topics, made and unmade. Nothing of this package does it without being asked.

    def create_topics(
        self,
        names: Iterable[str],
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create topics that are alike, then wait until every partition has a leader. -1: the broker's default.
        `validate_only`: only ask whether the brokers would (from 0.10.2 on).

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
        body = {"topics": rows, **({"validate_only": True} if validate_only else {})}
        self._ask_controller(CREATE_TOPICS, body, wanted, "topics", done_already=_TOPIC_ALREADY_EXISTS)
        if not validate_only:
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

        self._retrying(f"leaders of {few(totals)}", attempt)

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete, then wait some seconds at most for the brokers to know. Raises UnknownTopicOrPartition and others."""
        wanted = list(names)

        def body(version: int) -> dict[str, Any]:
            return {"topics": [{"name": name} for name in wanted]} if version >= 6 else {"topic_names": wanted}

        self._ask_controller(DELETE_TOPICS, body, wanted, "responses", done_already=_UNKNOWN_TOPIC)
        with self._lock:
            self.metadata.forget(wanted)
        patience = self.network.now_ms() + PROPAGATION_MS

        def attempt(left_ms: float) -> None:
            described = self._describe(wanted, 0, left_ms)
            if any(described.values()) and self.network.now_ms() < patience:
                raise LeaderNotAvailable(5, "a deleted topic is still known")
            self.metadata.forget(wanted)

        self._retrying(f"the end of {few(wanted)}", attempt)

    def create_partitions(self, totals: Mapping[str, int]) -> None:
        """Let topics have this many partitions in all, then wait until all have a leader."""
        rows = [{"name": name, "count": count, "assignments": None} for name, count in totals.items()]
        self._ask_controller(
            CREATE_PARTITIONS, {"topics": rows}, list(totals), "results", done_already=_INVALID_PARTITIONS
        )
        self._await_leaders(totals)


def _listed(row: dict[str, Any]) -> ListedOffset:
    if row.get("old_style_offsets"):  # v0: as many as were asked for, the newest first
        return ListedOffset(row["old_style_offsets"][0])
    return ListedOffset(_known(row["offset"]), _known(row["timestamp"]), _known(row.get("leader_epoch", -1)))


def _checked_unknown_topics_last(body: dict[str, Any], context: str) -> dict[str, Any]:
    """Raise the first error code in an answer to OffsetCommit, that of unknown topics only where there is no other."""
    rows = [row for topic in body["topics"] for row in topic["partitions"]]
    checked({"rows": sorted(rows, key=lambda row: row["error_code"] == _UNKNOWN_TOPIC)}, context)
    return body


def _epoch_end(row: dict[str, Any]) -> EpochEnd:
    return EpochEnd(_known(row.get("leader_epoch", -1)), _known(row["end_offset"]))


def _known(value: int) -> int | None:
    return value if value >= 0 else None
