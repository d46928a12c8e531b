"""A group coordinator that assigns (KIP-848), by the rules of Kafka's GroupMetadataManager, in this process.

No clock is involved: members go when they leave or are told to (`forget`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fake_broker import Request
from fake_groups import GroupKafka

INTERVAL_MS = 10
GONE_FOR_A_WHILE = -2


@dataclass
class FakeConsumer:
    topics: list[str]
    instance_id: str | None
    epoch: int = 0
    previous: int = 0
    assigned: set = field(default_factory=set)  # (topic, partition)
    revoking: set = field(default_factory=set)


@dataclass
class FakeConsumerGroup:
    epoch: int = 0
    state: str = "Stable"
    members: dict[str, FakeConsumer] = field(default_factory=dict)
    target: dict[str, set] = field(default_factory=dict)

    def taken(self, but: FakeConsumer) -> set:
        others = [member for member in self.members.values() if member is not but]
        return set().union(*(member.assigned | member.revoking for member in others))


class ConsumerKafka(GroupKafka):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.consumers: dict[str, FakeConsumerGroup] = {}

    def forget(self, group: str, member_id: str) -> None:
        """What the end of a session does."""
        with self.moved:
            del self.consumers[group].members[member_id]
            self._bump(self.consumers[group])

    def _bump(self, group: FakeConsumerGroup) -> None:
        """A new target: the partitions in order, cut into runs."""
        group.epoch += 1
        ids, topics = list(group.members), {topic for member in group.members.values() for topic in member.topics}
        known = sorted(topics & self.topics.keys())
        everything = [(name, n) for name in known for n in range(len(self.topics[name].leaders))]
        group.target = {name: set() for name in ids}
        for at, tp in enumerate(everything):
            group.target[ids[at * len(ids) // len(everything)]].add(tp)
        self.moved.notify_all()

    def _consumer_group_heartbeat(self, request: Request) -> dict:
        body = request.body
        with self.moved:
            group = self.consumers.setdefault(body["group_id"], FakeConsumerGroup())
            if body["member_epoch"] == 0:
                code = self._join(group, body)
            else:
                code = self._recognize(group, body)
            self.moved.notify_all()
            if code:
                return {"error_code": code, "error_message": "no", "member_epoch": 0, "heartbeat_interval_ms": 0}
            if body["member_epoch"] < 0:
                self._leave(group, body)
                return {"error_code": 0, "member_epoch": body["member_epoch"], "heartbeat_interval_ms": 0}
            member = group.members[body["member_id"]]
            before = set(member.assigned)
            self._reconcile(group, body["member_id"], body["topic_partitions"])
            full = body["rebalance_timeout_ms"] != -1 and body["topic_partitions"] is not None
            return {
                "error_code": 0,
                "member_id": body["member_id"],
                "member_epoch": member.epoch,
                "heartbeat_interval_ms": INTERVAL_MS,
                "assignment": {"topic_partitions": self._rows(member)} if full or member.assigned != before else None,
            }

    def _join(self, group: FakeConsumerGroup, body: dict) -> int:
        if not body["member_id"] or body["rebalance_timeout_ms"] <= 0 or body["topic_partitions"] != []:
            return 42
        if not body["subscribed_topic_names"]:
            return 42
        instance_id = body["instance_id"]
        old = next(
            (name for name, each in group.members.items() if instance_id and each.instance_id == instance_id), ""
        )
        if old and group.members[old].epoch != GONE_FOR_A_WHILE:
            return 111
        if old:
            member = group.members.pop(old)
            group.target[body["member_id"]] = group.target.pop(old)
            member.epoch = 0
            group.members[body["member_id"]] = member
            return 0
        known = group.members.get(body["member_id"])
        if known is not None and known.epoch != 0:
            return 110
        group.members[body["member_id"]] = FakeConsumer(body["subscribed_topic_names"], instance_id)
        self._bump(group)
        return 0

    def _recognize(self, group: FakeConsumerGroup, body: dict) -> int:
        member = group.members.get(body["member_id"])
        if member is None:
            names = [each.instance_id for each in group.members.values()]
            return 82 if body["instance_id"] and body["instance_id"] in names else 25
        epoch = body["member_epoch"]
        if epoch < 0 or epoch == member.epoch:
            return 0
        owned = self._owned(body["topic_partitions"])
        return 0 if epoch == member.previous and owned is not None and owned <= member.assigned else 110

    def _leave(self, group: FakeConsumerGroup, body: dict) -> None:
        if body["member_epoch"] == GONE_FOR_A_WHILE:
            group.members[body["member_id"]].epoch = GONE_FOR_A_WHILE
        else:
            del group.members[body["member_id"]]
            self._bump(group)

    def _reconcile(self, group: FakeConsumerGroup, member_id: str, rows: list | None) -> None:
        member, target, owned = group.members[member_id], group.target[member_id], self._owned(rows)
        if member.revoking and (owned is None or owned & member.revoking):
            return
        member.revoking = member.assigned - target
        member.assigned &= target
        if member.revoking and (owned is None or owned & member.revoking):
            return
        member.revoking = set()
        member.assigned |= target - group.taken(member)
        if member.epoch != group.epoch:
            member.previous, member.epoch = member.epoch, group.epoch

    def _owned(self, rows: list | None) -> set | None:
        names = {topic.topic_id: name for name, topic in self.topics.items()}
        return None if rows is None else {(names.get(row["topic_id"]), n) for row in rows for n in row["partitions"]}

    def _rows(self, member: FakeConsumer) -> list[dict]:
        topics: dict[str, list[int]] = {}
        for topic, n in sorted(member.assigned):
            topics.setdefault(topic, []).append(n)
        return [{"topic_id": self.topics[name].topic_id, "partitions": found} for name, found in topics.items()]

    def _consumer_group_describe(self, request: Request) -> dict:
        def assignment(partitions: set) -> dict:
            rows = [
                {"topic_id": self.topics[topic].topic_id, "topic_name": topic, "partitions": [n]}
                for topic, n in sorted(partitions)
            ]
            return {"topic_partitions": rows}

        def row(name: str) -> dict:
            group = self.consumers.get(name)
            if group is None:
                return {"group_id": name, "error_code": 69}
            members = [
                {
                    "member_id": member_id,
                    "instance_id": member.instance_id,
                    "member_epoch": member.epoch,
                    "client_id": "c",
                    "client_host": "/10.0.0.7",
                    "assignment": assignment(member.assigned),
                    "target_assignment": assignment(group.target[member_id]),
                }
                for member_id, member in group.members.items()
            ]
            state = {"group_state": group.state if members else "Empty", "group_epoch": group.epoch}
            return {"group_id": name, "error_code": 0, "assignor_name": "range", "members": members, **state}

        with self.moved:
            return {"groups": [row(name) for name in request.body["group_ids"]]}

    def _describe_groups(self, request: Request) -> dict:
        with self.moved:
            theirs = [{"group_id": name, "error_code": 69} for name in request.body["groups"] if name in self.consumers]
        return {"groups": theirs} if theirs else super()._describe_groups(request)

    def _known(self, body: dict) -> tuple[Any, int]:
        group = self.consumers.get(body["group_id"])
        if group is None:
            return super()._known(body)
        member = group.members.get(body["member_id"])
        return group, 25 if member is None else 0 if member.epoch == body["generation_id"] else 113
