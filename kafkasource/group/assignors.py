"""Who reads which partition: the assignors that Kafka's own consumer has, with the same placement for the same members.

The leader of a group runs the assignor that all members have. Each is a pure function of what the members said and of
how many partitions the topics have; tests hold the results against Kafka's own classes.

    range               each topic by itself, cut into as many runs as it has readers
    roundrobin          all partitions of all topics dealt out in turn
    cooperative-sticky  even, and as few partitions as possible change hands; one that does goes to nobody for now: its
                        owner gives it up first, and the rebalance that follows hands it out (KIP-429)

Racks (KIP-881) are passed on to leaders that know them; as leader we place without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle

from kafkasource.errors import OptionError
from kafkasource.group.consumer_protocol import Subscription
from kafkasource.group.sticky import assign_sticky, generation_data
from kafkasource.types import TopicPartition

PartitionCounts = Mapping[str, int]
"""By topic; a topic that does not exist is not in it."""

Placement = dict[str, list[TopicPartition]]
"""By member id; every member is in it."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member as the leader sees it."""

    subscription: Subscription
    instance_id: str | None = None  # of a static member (KIP-345)


Members = Mapping[str, Member]
"""By member id, in the coordinator's order."""


@dataclass(frozen=True, slots=True)
class Assignor:
    """`cooperative`: members keep what they own while the group rebalances; otherwise they give up all of it before."""

    name: str
    cooperative: bool
    assign: Callable[[PartitionCounts, Members], Placement]
    user_data: Callable[[int | None], bytes | None] = lambda generation: None


def assign_range(counts: PartitionCounts, members: Members) -> Placement:
    """The first `count % readers` members of a topic have one partition more."""
    placed: Placement = {member_id: [] for member_id in members}
    for topic, readers in _readers(members).items():
        share, more = divmod(counts.get(topic, 0), len(readers))
        at = 0
        for i, member_id in enumerate(sorted(readers, key=lambda member_id: _rank(member_id, members))):
            size = share + (i < more)
            placed[member_id] += [TopicPartition(topic, partition) for partition in range(at, at + size)]
            at += size
    return placed


def assign_roundrobin(counts: PartitionCounts, members: Members) -> Placement:
    """Who does not read a topic is passed over, and is next again for the partition that follows him."""
    placed: Placement = {member_id: [] for member_id in members}
    readers = _readers(members)
    turns = cycle(sorted(members, key=lambda member_id: _rank(member_id, members)))
    for topic in sorted(readers):
        wanted = set(readers[topic])
        for partition in range(counts.get(topic, 0)):
            member_id = next(each for each in turns if each in wanted)
            placed[member_id].append(TopicPartition(topic, partition))
    return placed


def assign_cooperative_sticky(counts: PartitionCounts, members: Members) -> Placement:
    """Of a partition that changes hands neither the old nor the new owner has it in the result."""
    subscriptions = {member_id: member.subscription for member_id, member in members.items()}
    placed, moving = assign_sticky(counts, subscriptions)
    return {member_id: [tp for tp in tps if tp not in moving] for member_id, tps in placed.items()}


def _readers(members: Members) -> dict[str, list[str]]:
    """The members of each topic, in the order in which topics are first met."""
    readers: dict[str, list[str]] = {}
    for member_id, member in members.items():
        for topic in dict.fromkeys(member.subscription.topics):
            readers.setdefault(topic, []).append(member_id)
    return readers


def _rank(member_id: str, members: Members) -> tuple[bool, str]:
    """Static members come first, by their own names, which outlive a restart."""
    instance_id = members[member_id].instance_id
    return instance_id is None, member_id if instance_id is None else instance_id


ASSIGNORS: dict[str, Assignor] = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", False, assign_range),
        Assignor("roundrobin", False, assign_roundrobin),
        Assignor("cooperative-sticky", True, assign_cooperative_sticky, generation_data),
    )
}


def assignors_named(names: Iterable[str]) -> tuple[Assignor, ...]:
    """In order of preference. Raises OptionError for a name that is not one of ours, and for none at all."""
    wanted = list(names)
    unknown = [name for name in wanted if name not in ASSIGNORS]
    if unknown or not wanted:
        raise OptionError(f"assignors {unknown or wanted}: choose from {', '.join(ASSIGNORS)}")
    return tuple(ASSIGNORS[name] for name in wanted)
