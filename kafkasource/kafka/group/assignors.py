"""The assignors of Kafka's own consumer. For the same members they give the same assignment as Kafka's.

The leader of a group runs the assignor that all members have. An assignor is a pure function of the members'
subscriptions and the topics' partition counts. Tests compare the results with Kafka's own classes.

    range               cuts each topic into as many runs of partitions as it has readers roundrobin          gives
    all partitions of all topics to the members in turn cooperative-sticky  gives even shares and moves as few
    partitions as possible. A partition that moves has no reader at
                        first: its owner gives it up, and the next rebalance assigns it (KIP-429)

Where members name their racks, range and cooperative-sticky prefer readers near a replica (KIP-881), with
the same shares; cooperative-sticky only where all members read the same topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Protocol

from kafkasource.errors import OptionError
from kafkasource.kafka.group.consumer_protocol import Subscription
from kafkasource.kafka.group.racks import NO_RACKS, Nearness, ReplicaRacks, nearness
from kafkasource.kafka.group.sticky import assign_sticky, generation_data
from kafkasource.types import TopicPartition

PartitionCounts = Mapping[str, int]
"""By topic; a topic that does not exist is not in it."""

Placement = dict[str, list[TopicPartition]]
"""By member id; every member is in it."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member, as the leader sees it."""

    subscription: Subscription
    instance_id: str | None = None  # of a static member (KIP-345)


Members = Mapping[str, Member]
"""By member id, in the coordinator's order."""


class AssignFunction(Protocol):
    """The leader's assignment of all partitions."""

    def __call__(self, counts: PartitionCounts, members: Members, racks: ReplicaRacks = NO_RACKS) -> Placement: ...


@dataclass(frozen=True, slots=True)
class Assignor:
    """`cooperative`: members keep what they own while the group rebalances; otherwise they give up all of it before."""

    name: str
    cooperative: bool
    assign: AssignFunction
    user_data: Callable[[int | None], bytes | None] = lambda generation: None


def assign_range(counts: PartitionCounts, members: Members, racks: ReplicaRacks = NO_RACKS) -> Placement:
    """The first `count % readers` members of a topic have one partition more.

    Where racks tell readers from each other, each topic is first shared out among those near its partitions; topics of
    the same readers and the same size so that equal partition numbers stay together.
    """
    near = nearness({member_id: member.subscription for member_id, member in members.items()}, racks)
    placed: Placement = {member_id: [] for member_id in members}
    topics = [
        _Topic(topic, counts[topic], sorted(readers, key=lambda each: _rank(each, members)), placed)
        for topic, readers in _readers(members).items()
        if counts.get(topic, 0) > 0
    ]
    if any(near.matters(topic.taken, topic.free) for topic in topics):
        _share_nearby(topics, near)
    for topic in topics:
        topic.share_out(lambda member_id, tp: True)
    return placed


class _Topic:
    """The partitions of one topic that are still free, and how many each reader may still get."""

    def __init__(self, name: str, count: int, readers: list[str], placed: Placement) -> None:
        self.name = name
        self.free = dict.fromkeys(TopicPartition(name, partition) for partition in range(count))
        self.taken = dict.fromkeys(readers, 0)
        self._placed = placed
        self._share, self._more = divmod(count, len(readers))

    def room(self, member_id: str) -> int:
        return max(0, self._share + (self._more > 0) - self.taken[member_id])

    def give(self, member_id: str, partitions: list[TopicPartition]) -> None:
        self._placed[member_id] += partitions
        self.taken[member_id] += len(partitions)
        if partitions and self.taken[member_id] > self._share:
            self._more -= 1
        for tp in partitions:
            del self.free[tp]

    def share_out(self, may_have: Callable[[str, TopicPartition], bool]) -> None:
        for member_id in self.taken:
            fitting = (tp for tp in self.free if may_have(member_id, tp))
            self.give(member_id, list(islice(fitting, self.room(member_id))))


def _share_nearby(topics: list[_Topic], near: Nearness) -> None:
    alike: dict[tuple[frozenset[str], int], list[_Topic]] = {}
    for topic in topics:
        if any(member_id in near.rack_of for member_id in topic.taken):
            alike.setdefault((frozenset(topic.taken), len(topic.free)), []).append(topic)
    for (_, count), together in alike.items():
        if len(together) > 1:
            _share_together(together, count, near)
        elif near.matters(together[0].taken, together[0].free):
            together[0].share_out(near.near)


def _share_together(topics: list[_Topic], count: int, near: Nearness) -> None:
    """Give partition n of all these topics to the first reader that is near all of them and may still get one of
    each."""
    for partition in range(count):
        for member_id in topics[0].taken:
            if all(
                near.near(member_id, TopicPartition(each.name, partition)) and each.room(member_id) for each in topics
            ):
                for topic in topics:
                    topic.give(member_id, [TopicPartition(topic.name, partition)])
                break


def assign_roundrobin(counts: PartitionCounts, members: Members, racks: ReplicaRacks = NO_RACKS) -> Placement:
    """A member that does not read a topic is skipped, and is next again for the following topic. Racks do not
    matter."""
    placed: Placement = {member_id: [] for member_id in members}
    readers = _readers(members)
    turns = cycle(sorted(members, key=lambda member_id: _rank(member_id, members)))
    for topic in sorted(readers):
        wanted = set(readers[topic])
        for partition in range(counts.get(topic, 0)):
            member_id = next(each for each in turns if each in wanted)
            placed[member_id].append(TopicPartition(topic, partition))
    return placed


def assign_cooperative_sticky(counts: PartitionCounts, members: Members, racks: ReplicaRacks = NO_RACKS) -> Placement:
    """In the result, neither the old nor the new owner has a partition that changes hands."""
    subscriptions = {member_id: member.subscription for member_id, member in members.items()}
    placed, moving = assign_sticky(counts, subscriptions, racks)
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
    """The assignors in order of preference. Raises OptionError for an unknown name, and for none at all."""
    wanted = list(names)
    unknown = [name for name in wanted if name not in ASSIGNORS]
    if unknown or not wanted:
        raise OptionError(f"assignors {unknown or wanted}: choose from {', '.join(ASSIGNORS)}")
    return tuple(ASSIGNORS[name] for name in wanted)
