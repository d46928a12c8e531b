"""Racks of members and replicas: with them the leader prefers readers near a replica (KIP-881)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkasource.kafka.group.consumer_protocol import Subscription
from kafkasource.types import TopicPartition

ReplicaRacks = Mapping[TopicPartition, frozenset[str]]
"""The racks of each partition's replicas; empty where brokers report none."""

NO_RACKS: ReplicaRacks = {}


@dataclass(frozen=True, slots=True)
class Nearness:
    """The members that are near each partition. A member without a rack is near everything."""

    rack_of: Mapping[str, str]  # by member id
    racks: ReplicaRacks

    def near(self, member_id: str, tp: TopicPartition) -> bool:
        rack = self.rack_of.get(member_id)
        return rack is None or rack in self.racks.get(tp, ())

    def beside(self, member_id: str, tp: TopicPartition) -> bool:
        """Whether the member is known to be near the partition."""
        return member_id in self.rack_of and self.near(member_id, tp)

    def matters(self, member_ids: Iterable[str], partitions: Iterable[TopicPartition]) -> bool:
        """Some of these members are near some of these partitions, and not all racks are alike to all of them."""
        members_in = {self.rack_of[member_id] for member_id in member_ids if member_id in self.rack_of}
        replicas_in = [self.racks.get(tp, frozenset()) for tp in partitions] if members_in else []
        everywhere = frozenset().union(*replicas_in)
        return bool(members_in & everywhere) and any(racks != everywhere for racks in replicas_in)


def nearness(subscriptions: Mapping[str, Subscription], racks: ReplicaRacks) -> Nearness:
    return Nearness({member_id: each.rack_id for member_id, each in subscriptions.items() if each.rack_id}, racks)
