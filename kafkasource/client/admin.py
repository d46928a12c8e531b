"""What an operator asks of a cluster, beside what `Cluster` offers to jobs: groups, settings, who the brokers are.

`Admin` is a `Cluster`: the same connections, retries, deadline and thread rules. Brokers that lack an API raise
UnsupportedApiVersion: groups are listed and described from 0.9 on, settings shown from 0.11 and changed from 2.3 on,
groups deleted from 1.1, single offsets of a group from 2.4 on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkasource.client.cluster import Cluster
from kafkasource.client.connection import Body
from kafkasource.client.coordinators import GROUP
from kafkasource.client.leaders import indexes_by_topic
from kafkasource.errors import BrokerError, ProtocolError, error_for
from kafkasource.protocol.apis import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_GROUPS,
    OFFSET_DELETE,
    Api,
)
from kafkasource.types import Node, TopicPartition

_TOPIC = 2  # the type of a resource that has settings
_SET, _DELETE = 0, 1
_DYNAMIC_TOPIC, _DEFAULT = 1, 5  # where a setting's value comes from; between them: the brokers
_UNSUPPORTED_VERSION, _GROUP_ID_NOT_FOUND = 35, 69
_DEAD = "Dead"
_CONSUMERS = "consumer"  # the protocol type of all groups of the newer consumer protocol


class ListedGroup(NamedTuple):
    group: str
    protocol_type: str  # "consumer"; empty where nobody ever joined and only offsets were committed
    state: str | None  # None: the broker is too old to tell here (before 2.6)
    type: str | None  # classic, consumer (KIP-848), share, streams; None: before 3.8
    coordinator_id: int  # the node that told


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One consumer of a group as its coordinator sees it.

    `assignment` is what the group's leader wrote for it: for consumers, bytes of the consumer protocol. Where the
    coordinator assigns by itself (KIP-848) it is the partitions, and `to_come` those that others are to give up for it.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: bytes | frozenset[TopicPartition]
    to_come: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    group: str
    state: str  # Stable, Empty, PreparingRebalance, CompletingRebalance; KIP-848: Assigning, Reconciling
    protocol_type: str
    assignor: str  # while Stable
    members: tuple[GroupMember, ...]
    type: str = "classic"  # or consumer (KIP-848)


class Setting(NamedTuple):
    """One setting of a topic. `value` None: sensitive, or not set."""

    name: str
    value: str | None
    source: str  # "topic", "broker" or "default"


class Members(NamedTuple):
    """The brokers of a cluster now."""

    cluster_id: str | None  # None: before 0.10.1
    controller_id: int | None
    nodes: tuple[Node, ...]


class Admin(Cluster):
    """See the module. Opens no socket before the first call."""

    def __enter__(self) -> Admin:
        return self

    # Brokers.

    def brokers(self) -> Members:
        """Ask now who the brokers are, as they advertise themselves."""
        self.partitions_of([])
        nodes = tuple(sorted(self.metadata.nodes(), key=lambda node: node.node_id))
        return Members(self.metadata.cluster_id, self.metadata.controller_id, nodes)

    # Groups.

    def list_groups(self) -> list[ListedGroup]:
        """All groups, by name. Every broker is asked; what the ACLs hide is left out without a word."""

        def attempt(left_ms: float) -> list[ListedGroup]:
            self._ask_metadata([], left_ms)
            timeout = min(left_ms, self.config.request_timeout_ms)
            pendings = {
                node.node_id: self.send(node.node_id, LIST_GROUPS, {}, timeout_ms=timeout)
                for node in self.metadata.nodes()
            }
            self.wait(*pendings.values())
            return [row for node_id, pending in pendings.items() for row in _listed(pending.result(), node_id)]

        found = {each.group: each for each in self._retrying("ListGroups", attempt)}
        return [found[name] for name in sorted(found)]

    def describe_groups(self, groups: Iterable[str]) -> dict[str, DescribedGroup | None]:
        """Each group's state and members, from its coordinator. None: it does not exist.

        Groups of the newer consumer protocol (KIP-848) too, by another API: the first says of them that they are none.
        """
        described = self._describe_with(DESCRIBE_GROUPS, "groups", groups, _described)
        others = [name for name, found in described.items() if found is None]
        if others and self.supports(CONSUMER_GROUP_DESCRIBE):
            described |= self._describe_with(CONSUMER_GROUP_DESCRIBE, "group_ids", others, _described_by_coordinator)
        return described

    def _describe_with(
        self, api: Api, names: str, groups: Iterable[str], told: Callable[[Mapping[str, Any]], DescribedGroup]
    ) -> dict[str, DescribedGroup | None]:
        described: dict[str, DescribedGroup | None] = {}
        for name, answer in self.ask_each(GROUP, api, {name: {names: [name]} for name in groups}).items():
            if isinstance(answer, BrokerError):
                if answer.code not in (_GROUP_ID_NOT_FOUND, _UNSUPPORTED_VERSION):  # 3.7 to 3.9 may have it disabled
                    raise answer
                described[name] = None
            else:
                row = next((row for row in answer["groups"] if row["group_id"] == name), None)
                if row is None:
                    raise ProtocolError(f"{api.name} of {name!r}: the answer does not speak of it")
                described[name] = None if row["group_state"] == _DEAD else told(row)
        return described

    def delete_groups(self, groups: Iterable[str]) -> dict[str, BrokerError | None]:
        """Delete groups that have no members, with their offsets. None: done; else why not."""
        bodies: dict[str, Body] = {name: {"groups_names": [name]} for name in groups}
        answers = self.ask_each(GROUP, DELETE_GROUPS, bodies)
        return {name: each if isinstance(each, BrokerError) else None for name, each in answers.items()}

    def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what a group has committed for partitions of topics that none of its members reads."""
        topics = [
            {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
            for name, indexes in indexes_by_topic(partitions).items()
        ]
        self.call_coordinator(GROUP, group, OFFSET_DELETE, {"group_id": group, "topics": topics})

    # Settings of topics.

    def topic_settings(self, topics: Iterable[str]) -> dict[str, list[Setting]]:
        """All settings of topics, defaults included, by name."""
        resources = [
            {"resource_type": _TOPIC, "resource_name": name, "configuration_keys": None}
            for name in dict.fromkeys(topics)
        ]
        answer = self.call_any(DESCRIBE_CONFIGS, {"resources": resources}) if resources else {"results": []}
        return {
            row["resource_name"]: sorted(map(_setting, row["configs"]), key=lambda each: each.name)
            for row in answer["results"]
        }

    def alter_topic_settings(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change single settings, the others stay; None: back to the brokers' default. Raises InvalidConfig."""
        configs = [
            {"name": name, "config_operation": _DELETE if value is None else _SET, "value": value}
            for name, value in changes.items()
        ]
        resources = [{"resource_type": _TOPIC, "resource_name": topic, "configs": configs}]
        self.call_any(INCREMENTAL_ALTER_CONFIGS, {"resources": resources, "validate_only": False})


def _listed(answer: dict[str, Any], node_id: int) -> Iterator[ListedGroup]:
    if answer["error_code"]:
        raise error_for(answer["error_code"], f"ListGroups of broker {node_id}")
    for row in answer["groups"]:
        kind = row.get("group_type") or None
        yield ListedGroup(row["group_id"], row["protocol_type"], row.get("group_state") or None, kind, node_id)


def _described(row: Mapping[str, Any]) -> DescribedGroup:
    members = (
        GroupMember(
            each["member_id"],
            each["group_instance_id"],
            each["client_id"],
            each["client_host"].removeprefix("/"),  # as Java prints an address
            bytes(each["member_assignment"]),
        )
        for each in row["members"]
    )
    return DescribedGroup(
        row["group_id"], row["group_state"], row["protocol_type"], row["protocol_data"], tuple(members)
    )


def _described_by_coordinator(row: Mapping[str, Any]) -> DescribedGroup:
    members = []
    for each in row["members"]:
        has, shall_have = (_partitions(each[name]) for name in ("assignment", "target_assignment"))
        host = each["client_host"].removeprefix("/")
        members.append(
            GroupMember(each["member_id"], each["instance_id"], each["client_id"], host, has, shall_have - has)
        )
    return DescribedGroup(
        row["group_id"], row["group_state"], _CONSUMERS, row["assignor_name"], tuple(members), "consumer"
    )


def _partitions(assignment: Mapping[str, Any]) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic["topic_name"], index)
        for topic in assignment["topic_partitions"]
        for index in topic["partitions"]
    )


def _setting(row: Mapping[str, Any]) -> Setting:
    source = row.get("config_source", -1)
    if source < 0:  # version 0
        where = "default" if row.get("is_default") else "topic"
    else:
        where = "topic" if source == _DYNAMIC_TOPIC else "default" if source == _DEFAULT else "broker"
    return Setting(row["name"], row["value"], where)
