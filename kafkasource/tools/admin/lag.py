"""The lag of a consumer group or of a streaming query, by partition, and a group's offsets.

Lag is counted in offsets. It is an upper bound of the records, because compaction and transaction markers leave holes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError, ProtocolError, UnknownMemberId, UnsupportedApiVersion
from kafkasource.options.spelling import lag_in_words, many
from kafkasource.tools.admin.topics import described_topics

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.kafka.cluster.groups import DescribedGroup, MemberDescription
    from kafkasource.types import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group or a query has read one partition."""

    tp: TopicPartition
    consumed: int | None  # the next offset to read; None: nothing committed
    latest: int | None  # the end of the log, exclusive; None: not known, as there is no leader, or no such partition
    member: MemberDescription | None = None  # the member that reads the partition now
    leaderless: bool = False  # the partition exists, and no broker can say where its log ends
    earliest: int | None = None  # the start of the log, where nothing is committed

    @property
    def lag(self) -> int | None:
        return None if self.consumed is None or self.latest is None else max(0, self.latest - self.consumed)

    @property
    def gone(self) -> bool:
        return self.latest is None and not self.leaderless

    @property
    def why_unknown(self) -> str | None:
        """Why the lag is not known."""
        if self.latest is None:
            return "no leader" if self.leaderless else "gone"
        return "no offset" if self.consumed is None else None

    @property
    def ahead(self) -> bool:
        """Whether the next offset is beyond the log's end: the topic was created again, or the log was truncated."""
        return self.consumed is not None and self.latest is not None and self.consumed > self.latest

    @property
    def never_read(self) -> bool:
        """Whether there are records, and nothing is committed: how far it is behind depends on where it starts."""
        return self.consumed is None and self.latest is not None and self.latest > (self.earliest or 0)


@dataclass(frozen=True, slots=True)
class LagReport:
    """The lag of one group or query. `name` is for people."""

    name: str
    places: list[PartitionLag]
    group: DescribedGroup | None = None
    facts: Mapping[str, object] = field(default_factory=dict)  # further keys of the JSON output

    @property
    def lag(self) -> int:
        """The sum over the partitions whose lag is known."""
        return sum(place.lag or 0 for place in self.places)

    @property
    def leaderless(self) -> list[TopicPartition]:
        return [place.tp for place in self.places if place.leaderless]

    @property
    def totals(self) -> str:
        """One line for people; the most important number comes first."""
        behind = sum(1 for place in self.places if place.lag)
        not_known = sum(1 for place in self.places if place.lag is None or place.ahead)
        text = f"{lag_in_words(self.lag, behind, len(self.places), not_known)}, {self.name}"
        unknown = sum(1 for place in self.places if place.consumed is None)
        gone = sum(1 for place in self.places if place.gone)
        ahead = sum(1 for place in self.places if place.ahead)
        text += f"; {len(self.leaderless)} without a leader" if self.leaderless else ""
        text += f"; {unknown} without a committed offset" if unknown else ""
        text += f"; {ahead} beyond the end of the log: was the topic created again?" if ahead else ""
        return text + (f"; {gone} no longer exist" if gone else "")

    def as_json(self) -> dict[str, object]:
        return {
            **self.facts,
            "lag": self.lag,
            "partitions": [
                {
                    "topic": place.tp.topic,
                    "partition": place.tp.partition,
                    "offset": place.consumed,
                    "latest": place.latest,
                    "lag": place.lag,
                    "why_unknown": place.why_unknown,
                    **({} if place.member is None else {"member": place.member.member_id}),
                }
                for place in self.places
            ],
        }


def of_group(cluster: Cluster, group: str) -> LagReport:
    """The lag of a consumer group. Raises KafkaSourceError if the cluster has no such group."""
    described = described_group(cluster, group)
    committed = committed_offsets(cluster, group)
    readers = assignments(described) if described else {}
    if described is None and not committed:
        raise KafkaSourceError(f"no group {group!r} (`pykafka groups list` shows all)")
    partitions = sorted(committed.keys() | readers.keys())
    places = places_of(cluster, {tp: committed.get(tp) for tp in partitions}, readers)
    state = f"{described.state}, {many(len(described.members), 'member')}" if described else "members not known"
    facts = {"group": group, "state": described.state if described else None}
    return LagReport(f"group {group}: {state}", places, described, facts)


def of_query(cluster: Cluster, location: str, name: str | None = None) -> LagReport:
    """The lag of a streaming query: from the offsets that its checkpoint has finished to the current ends of the logs.

    Before its first micro-batch is done, the lag counts from the start of that micro-batch, which the JVM connector's
    checkpoint does not have. `name`: replaces the checkpoint's name in texts."""
    from kafkasource.source.plan.checkpoint import read_checkpoint

    checkpoint = read_checkpoint(location)
    done, planned = checkpoint.done.offsets, checkpoint.planned
    if done or planned is None:
        consumed, partitions = done, done
    else:  # its end is read only when it is done
        consumed, partitions = planned.start.offsets if planned.start else {}, planned.offsets
    batch, where = checkpoint.done_batch, checkpoint.shown_location  # it may be beneath `location`
    progress = "in its first micro-batch" if batch is None else f"after micro-batch {batch}"
    places = places_of(cluster, {tp: consumed.get(tp) for tp in partitions})
    return LagReport(f"{name or f'query of {where}'} {progress}", places, facts={"checkpoint": where, "batch": batch})


def finished_offsets(location: str) -> dict[TopicPartition, int]:
    """The offsets that a checkpoint's query has finished. Raises KafkaSourceError if no micro-batch is finished."""
    from kafkasource.source.plan.checkpoint import read_checkpoint

    offsets = read_checkpoint(location).done.offsets
    if not offsets:
        raise KafkaSourceError(f"{location}: no micro-batch is finished yet, so it has no offsets")
    return offsets


def described_group(cluster: Cluster, group: str) -> DescribedGroup | None:
    """None: the group does not exist, or the brokers cannot describe groups."""
    try:
        return cluster.groups.describe([group])[group]
    except UnsupportedApiVersion:  # brokers before 0.9 store only a group's offsets
        return None


def committed_offsets(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    """All offsets that a group has committed. Offsets in an open transaction do not count yet."""
    try:
        committed = cluster.groups.committed(group, require_stable=False)
    except UnsupportedApiVersion:  # 0.8
        partitions = [tp for topic in cluster.topics.list() for tp in topic.topic_partitions]
        committed = cluster.groups.committed(group, partitions, require_stable=False)
    return {tp: position.offset for tp, position in committed.items() if position is not None}


def commit_offsets(cluster: Cluster, group: str, wanted: Mapping[TopicPartition, int]) -> None:
    """Commit the offsets. Raises KafkaSourceError if the group has members."""
    described = described_group(cluster, group)
    members = len(described.members) if described else 0
    busy = KafkaSourceError(
        f"group {group!r} has {many(members, 'member') if members else 'members'} to commit over it: end them first "
        f"(`pykafka groups describe {group}` shows them)"
    )
    if members:
        raise busy
    try:
        cluster.groups.commit(group, wanted)
    except UnknownMemberId:
        raise busy from None


def assignments(group: DescribedGroup) -> dict[TopicPartition, MemberDescription]:
    """The member that reads each partition. Empty while a classic group rebalances."""
    from kafkasource.kafka.group.consumer_protocol import PROTOCOL_TYPE, Assignment

    readers: dict[TopicPartition, MemberDescription] = {}
    for member in group.members if group.protocol_type == PROTOCOL_TYPE else ():
        if isinstance(member.assignment, frozenset):
            readers.update(dict.fromkeys(member.assignment, member))
            continue
        try:
            readers.update(dict.fromkeys(Assignment.decode(member.assignment).partitions, member))
        except ProtocolError:  # the members use another protocol than consumers
            continue
    return readers


def places_of(
    cluster: Cluster,
    consumed: Mapping[TopicPartition, int | None],
    members: Mapping[TopicPartition, MemberDescription] | None = None,
) -> list[PartitionLag]:
    """How far these partitions are read, against the current ends of their logs. In order."""
    from kafkasource.kafka.cluster.offsets import EARLIEST

    ends = ends_of(cluster, consumed)
    starts = cluster.offsets.list({tp: EARLIEST for tp, at in consumed.items() if at is None and ends.get(tp)})
    return [
        PartitionLag(
            tp,
            at,
            ends.get(tp),
            (members or {}).get(tp),
            tp in ends and ends[tp] is None,
            starts[tp].offset if tp in starts else None,
        )
        for tp, at in sorted(consumed.items())
    ]


def ends_of(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
    """The current ends of the logs; None: the partition has no leader. Partitions that do not exist are left out."""
    from kafkasource.kafka.cluster.offsets import LATEST

    wanted = set(partitions)
    known = described_topics(cluster, sorted({tp.topic for tp in wanted})) if wanted else {}
    there = {tp for topic in known.values() if topic is not None for tp in topic.topic_partitions} & wanted
    led = {tp for tp in there if cluster.metadata.leader_id(tp) is not None}  # for others the call would wait
    listed = cluster.offsets.list(dict.fromkeys(led, LATEST))
    return {tp: listed[tp].offset if tp in listed else None for tp in there}
