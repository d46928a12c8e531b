"""Consumer groups as JSON: their states, their members, their lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasource.tools.admin.groups import all_groups, as_json
from kafkasource.tools.admin.lag import of_group

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster


def all_of_them(cluster: Cluster) -> dict[str, object]:
    found = all_groups(cluster)
    lines = [
        {
            "group": each.group,
            "state": each.state,
            "members": each.members,
            "protocol": each.protocol,
            "type": each.type,
            "coordinator": each.coordinator_id,
            "error": each.refusal.reason if each.refusal else None,
        }
        for each in found.lines
    ]
    return {"groups": lines, "unreachable": sorted(found.unreachable)}


def one(cluster: Cluster, name: str) -> dict[str, object]:
    """Raises KafkaSourceError where it does not exist."""
    return as_json(of_group(cluster, name))
