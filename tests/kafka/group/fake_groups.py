"""A group coordinator in this process: holds JoinGroup and SyncGroup, as brokers do, until everybody has come.

For `fake_broker.serve`, whose connections have a thread each, so an answer may wait. Members go only when they leave
or are told to (`expire`): no clock is involved.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from fake_broker import FakeKafka, Request

WAIT_S = 10.0  # for something that is to come; a test that needs it all fails


@dataclass
class FakeGroup:
    members: dict[str, dict] = field(default_factory=dict)  # what they joined with, by member id
    waiting: set[str] = field(default_factory=set)  # with a JoinGroup that is held
    generation: int = 0
    state: str = "Empty"
    protocol: str = ""
    leader: str = ""
    assignments: dict[str, bytes] = field(default_factory=dict)

    def rebalance(self) -> None:
        self.state = "PreparingRebalance" if self.members else "Empty"


class GroupKafka(FakeKafka):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.groups: dict[str, FakeGroup] = {}
        self.moved = threading.Condition()  # something in the groups changed
        self._ids = 0

    def expire(self, group: str, member_id: str) -> None:
        """What the end of a session does."""
        with self.moved:
            self._remove(self.groups[group], member_id)

    def expect(self, wanted: Any) -> None:
        """Wait until this is true of the groups."""
        with self.moved:
            assert self.moved.wait_for(wanted, WAIT_S)

    def _remove(self, group: FakeGroup, member_id: str) -> None:
        group.members.pop(member_id, None)
        group.waiting.discard(member_id)
        group.rebalance()
        self.moved.notify_all()

    def _join_group(self, request: Request) -> dict:
        body = request.body
        with self.moved:
            group = self.groups.setdefault(body["group_id"], FakeGroup())
            names = [protocol["name"] for protocol in body["protocols"]]
            others = [member for name, member in group.members.items() if name != body["member_id"]]
            if others and not set(names) & {each["name"] for each in others[0]["protocols"]}:
                return {"error_code": 23, "member_id": body["member_id"], "leader": "", "protocol_name": ""}
            member_id = body["member_id"]
            if not member_id:
                self._ids += 1
                member_id = f"member-{self._ids}"
                if request.version >= 4 and body["group_instance_id"] is None:
                    return {"error_code": 79, "member_id": member_id, "leader": "", "protocol_name": ""}
            protocols = [{**each, "metadata": bytes(each["metadata"])} for each in body["protocols"]]
            group.members[member_id] = {**body, "protocols": protocols}
            group.waiting.add(member_id)
            group.rebalance()
            self.moved.notify_all()
            generation = group.generation

            def come() -> bool:
                over = group.generation > generation or member_id not in group.members
                return over or group.waiting >= group.members.keys()

            self.moved.wait_for(come, WAIT_S)
            if member_id not in group.members:
                return {"error_code": 25, "member_id": member_id, "leader": "", "protocol_name": ""}
            if group.generation == generation:
                self._begin_generation(group)
            return self._joined(group, member_id)

    def _begin_generation(self, group: FakeGroup) -> None:
        group.generation += 1
        group.state, group.waiting, group.assignments = "CompletingRebalance", set(), {}
        known = [[each["name"] for each in member["protocols"]] for member in group.members.values()]
        group.protocol = next(name for name in known[0] if all(name in names for names in known))
        if group.leader not in group.members:
            group.leader = next(iter(group.members))
        self.moved.notify_all()

    def _joined(self, group: FakeGroup, member_id: str) -> dict:
        def metadata(member: dict) -> bytes:
            return next(each["metadata"] for each in member["protocols"] if each["name"] == group.protocol)

        rows = [
            {"member_id": name, "group_instance_id": member["group_instance_id"], "metadata": metadata(member)}
            for name, member in group.members.items()
        ]
        return {
            "error_code": 0,
            "generation_id": group.generation,
            "protocol_name": group.protocol,
            "leader": group.leader,
            "member_id": member_id,
            "members": rows if member_id == group.leader else [],
        }

    def _sync_group(self, request: Request) -> dict:
        with self.moved:
            group, code = self._known(request.body)
            if not code and request.body["member_id"] == group.leader:
                group.assignments = {row["member_id"]: bytes(row["assignment"]) for row in request.body["assignments"]}
                group.state = "Stable"
                self.moved.notify_all()
            generation = request.body["generation_id"]
            if not code:
                self.moved.wait_for(
                    lambda: group.state == "Stable" or group.generation > generation or group.waiting, WAIT_S
                )
            code = code or (0 if group.state == "Stable" else 27)
            return {"error_code": code, "assignment": group.assignments.get(request.body["member_id"], b"")}

    def _heartbeat(self, request: Request) -> dict:
        with self.moved:
            group, code = self._known(request.body)
            self.moved.notify_all()
            return {"error_code": code or (27 if group.state == "PreparingRebalance" else 0)}

    def _leave_group(self, request: Request) -> dict:
        with self.moved:
            for row in request.body["members"] or [request.body]:
                self._remove(self.groups[request.body["group_id"]], row["member_id"])
        return {"error_code": 0}

    def _describe_groups(self, request: Request) -> dict:
        def row(name: str) -> dict:
            group = self.groups.get(name, FakeGroup())
            members = [
                {
                    "member_id": each,
                    "client_id": "c",
                    "client_host": "/10.0.0.7",
                    "member_metadata": b"",
                    "member_assignment": b"",
                }
                for each in group.members
            ]
            return {"error_code": 0, "group_id": name, "group_state": group.state, "members": members}

        with self.moved:
            return {"groups": [row(name) for name in request.body["groups"]]}

    def _offset_commit(self, request: Request) -> dict:
        body = request.body
        with self.moved:
            group = self.groups.get(body["group_id"])
            asked = {"member_id": body["member_id"], "generation_id": body["generation_id_or_member_epoch"]}
            alone = asked["generation_id"] < 0 and (group is None or not group.members)
            code = 0 if alone else self._known({**body, **asked})[1]
            if not code:
                return super()._offset_commit(request)
        rows = [  # brokers ask the group's coordinator for topics that exist alone
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": p["partition_index"], "error_code": code if topic["name"] in self.topics else 3}
                    for p in topic["partitions"]
                ],
            }
            for topic in body["topics"]
        ]
        return {"topics": rows}

    def _known(self, body: dict) -> tuple[FakeGroup, int]:
        group = self.groups[body["group_id"]]
        if body["member_id"] not in group.members:
            return group, 25
        return group, 0 if body["generation_id"] == group.generation else 22
