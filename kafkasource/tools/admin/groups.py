"""Consumer groups, as operators look at them: all of them in a line each, one of them as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkasource.errors import BrokerError, KafkaSourceError
from kafkasource.tools.admin.lag import LagReport

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster

_OF_CONSUMERS = (None, "classic", "consumer")  # group types with known members; None: brokers before 3.8


@dataclass(frozen=True, slots=True)
class GroupLine:
    """None: the brokers do not say it."""

    group: str
    state: str | None
    members: int | None
    protocol: str | None
    type: str | None
    coordinator_id: int
    refusal: BrokerError | None = None  # why it cannot be described

    def as_json(self) -> dict[str, str | int | None]:
        return {
            "group": self.group,
            "state": self.state,
            "members": self.members,
            "protocol": self.protocol,
            "type": self.type,
            "coordinator": self.coordinator_id,
            "error": self.refusal.reason if self.refusal else None,
        }


@dataclass(frozen=True, slots=True)
class AllGroups:
    lines: list[GroupLine]
    unreachable: Mapping[int, KafkaSourceError]  # by node id: the groups that these brokers coordinate are not shown


def all_groups(cluster: Cluster) -> AllGroups:
    """All groups, by name. A group that may not be described has the reason beside it."""
    groups, unreachable = cluster.groups.list_reachable()
    described = cluster.groups.describe_each([group.group for group in groups if group.type in _OF_CONSUMERS])
    lines = []
    for group in groups:
        known = described.get(group.group)
        refusal = known if isinstance(known, BrokerError) else None
        known = None if isinstance(known, BrokerError) else known
        state = known.state if known else group.state
        members = len(known.members) if known else None
        protocol = group.protocol_type or None
        lines.append(GroupLine(group.group, state, members, protocol, group.type, group.coordinator_id, refusal))
    return AllGroups(lines, unreachable)


def as_json(report: LagReport) -> dict[str, object]:
    """A group with its members and its lag by partition."""
    group = report.group
    members = [
        {
            "member": member.member_id,
            "instance": member.instance_id,
            "client": member.client_id,
            "host": member.host,
            **({"to_come": [str(tp) for tp in sorted(member.to_come)]} if member.to_come else {}),
        }
        for member in (group.members if group else ())
    ]
    about = {"type": group.type if group else None, "assignor": group.assignor if group else None}
    return {**report.as_json(), **about, "members": members}
