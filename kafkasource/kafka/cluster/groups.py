"""Consumer groups: their committed offsets, and the questions of operators about them.

Brokers that lack an API raise UnsupportedApiVersion: groups are listed and described from 0.9 on, deleted from 1.1,
single offsets of a group deleted from 2.4 on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkasource.errors import (
    BrokerError,
    GroupIdNotFound,
    KafkaSourceError,
    ProtocolError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedApiVersion,
    UnsupportedVersion,
    check,
    error_for,
)
from kafkasource.kafka.cluster.caller import Caller, checked
from kafkasource.kafka.cluster.every_broker import EveryBroker
from kafkasource.kafka.cluster.routing import GROUP, Coordinators, by_topic, indexes_by_topic
from kafkasource.kafka.network.connection import RequestBody
from kafkasource.kafka.protocol.apis import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    Api,
)
from kafkasource.kafka.protocol.schema import Body, Fields
from kafkasource.types import TopicPartition

_DEAD = "Dead"
_CONSUMERS = "consumer"  # the protocol type of all groups of the newer consumer protocol
_COMMITS_BY_NAME = 9  # the last version of OffsetCommit and OffsetFetch with topic names; 10 has topic ids


class Committed(NamedTuple):
    """An offset that a group has committed: the next one to read, and the text that was committed with it."""

    offset: int
    text: str  # Kafka calls it metadata; empty where there is none


class ListedGroup(NamedTuple):
    group: str
    protocol_type: str  # "consumer"; empty where nobody ever joined and only offsets were committed
    state: str | None  # None: the broker is too old to tell here (before 2.6)
    type: str | None  # classic, consumer (KIP-848), share, streams; None: before 3.8
    coordinator_id: int  # the node that listed it


class ListedGroups(NamedTuple):
    groups: Sequence[ListedGroup]  # by name
    unreachable: Mapping[int, KafkaSourceError]  # by node id: the groups that these brokers coordinate are not known


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One consumer of a group as its coordinator sees it.

    `assignment` is what the group's leader wrote for it: for consumers, bytes of the consumer protocol. Where the
    coordinator itself assigns (KIP-848) it is the partitions, and `to_come` those that other members still have to give
    up for it.
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
    members: tuple[MemberDescription, ...]
    type: str = "classic"  # or consumer (KIP-848)


class Groups:
    """Questions to the coordinators of groups."""

    def __init__(self, caller: Caller, coordinators: Coordinators) -> None:
        self._caller = caller
        self._coordinators = coordinators

    # Committed offsets.

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit as a consumer without membership. Raises UnknownMemberId where the group has live members.

        UnknownTopicOrPartition is raised where it is all that is wrong: the other partitions are committed then.
        """
        if any(offset < 0 for offset in offsets.values()):
            raise ValueError(f"a negative offset to commit for group {group!r}")  # brokers would take it
        # An empty text, as Java's consumer: 0.8 and 0.9 make an error of null.
        topics = committed_rows({tp: (offset, "") for tp, offset in offsets.items()})
        body = {**_without_membership(group), "topics": topics}
        check = check_unknown_topics_last
        self._coordinators.ask(GROUP, group, OFFSET_COMMIT, body, max_version=_COMMITS_BY_NAME, check=check)

    def keep(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]], retention_ms: int) -> None:
        """Commit without membership, with a text beside each offset, for longer than the brokers would keep them.

        A topic that is deleted takes its offsets along all the same. Raises UnsupportedApiVersion where the broker
        serves no version that has the field (2 to 4); those from 0.9 to 4.3 do.
        """

        def body(version: int) -> Fields:
            if version < 2:
                raise UnsupportedApiVersion(f"OffsetCommit v{version} cannot ask for a retention")
            return {
                **_without_membership(group),
                "retention_time_ms": retention_ms,
                "topics": committed_rows(offsets),
            }

        self._coordinators.ask(GROUP, group, OFFSET_COMMIT, body, max_version=4, check=check_committed)

    def committed_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Committed offsets; None: none, or one below 0. Waits while a transaction that writes them is open."""
        return {tp: found and found.offset for tp, found in self.committed(group, partitions).items()}

    def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, require_stable: bool = True
    ) -> dict[TopicPartition, Committed | None]:
        """Committed offsets and their texts; None: none, or one below 0.

        Without `partitions`: of all that have some. While a transaction that writes them is open, `require_stable`
        waits for its end; without it the call returns the offsets from before. Unnamed partitions that have only what
        such a transaction is about to write, or has just written, are left out (Kafka 3.9 and 4.3). Brokers before 0.9
        cannot list the partitions: UnsupportedApiVersion.
        """
        wanted = None if partitions is None else [*partitions]
        # Kafka 0.9 lists them in version 1, in which 0.8.2 does not.
        lists = wanted is not None or self._caller.supports(OFFSET_FETCH, 2) or self._caller.supports(LIST_GROUPS)
        if not lists:
            raise UnsupportedApiVersion(
                f"Kafka before 0.9 cannot list the partitions with offsets of group {group!r}: name them"
            )

        names_group = True  # the request that was sent last: is its answer in rows of groups?

        def body(version: int) -> Fields:
            nonlocal names_group
            # In version 1 a request without topics asks for all, as seen on 0.9.0.1.
            rows: list[Fields] | None = None if version >= 2 else []
            if wanted is not None:
                rows = [{"name": name, "partition_indexes": found} for name, found in indexes_by_topic(wanted).items()]
            stable = {"require_stable": require_stable} if version >= 7 else {}
            names_group = version >= 8
            if names_group:
                return {"groups": [{"group_id": group, "topics": rows}], **stable}
            return {"group_id": group, "topics": rows, **stable}

        def of_group(answer: Body, what: str) -> Body:
            row = answer if not names_group else next((x for x in answer["groups"] if x["group_id"] == group), None)
            if row is None:
                raise ProtocolError(f"{what}: the answer does not name the group")
            # Apache's brokers give an unknown group an empty answer, others an error.
            return {"topics": []} if row["error_code"] == GroupIdNotFound.CODE else checked(row, what)

        answer = self._coordinators.ask(GROUP, group, OFFSET_FETCH, body, max_version=_COMMITS_BY_NAME, check=of_group)
        committed: dict[TopicPartition, Committed | None] = dict.fromkeys(wanted or ())
        for topic in answer["topics"]:
            for row in topic["partitions"]:
                tp = TopicPartition(topic["name"], row["partition_index"])
                if (wanted is None or tp in committed) and row["committed_offset"] >= 0:
                    committed[tp] = Committed(row["committed_offset"], row["metadata"] or "")
        return committed

    def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of partitions whose topics no member of the group reads."""
        topics = [
            {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
            for name, indexes in indexes_by_topic(partitions).items()
        ]

        self._coordinators.ask(GROUP, group, OFFSET_DELETE, {"group_id": group, "topics": topics}, check=_check_deleted)

    # Groups themselves.

    def list(self) -> Sequence[ListedGroup]:
        """All groups, by name. Asks every broker; leaves out, without a word, groups that the ACLs hide."""
        return self._listed(patient=True).groups

    def list_reachable(self) -> ListedGroups:
        """The same of the brokers that answer within seconds, and which do not."""
        return self._listed(patient=False)

    def _listed(self, *, patient: bool) -> ListedGroups:
        found: dict[str, ListedGroup] = {}

        def take(node_id: int, answer: Body) -> None:
            for row in answer["groups"]:
                kind, state = row.get("group_type") or None, row.get("group_state") or None
                found[row["group_id"]] = ListedGroup(row["group_id"], row["protocol_type"], state, kind, node_id)

        brokers = EveryBroker(self._caller, LIST_GROUPS, {}, take, patient=patient, leaves_out_busy=True)
        brokers.finish("ListGroups")
        return ListedGroups([found[name] for name in sorted(found)], brokers.unreachable)

    def describe(self, groups: Iterable[str]) -> dict[str, DescribedGroup | None]:
        """Each group's state and members, from its coordinator. None: it does not exist. Raises the first refusal."""
        described: dict[str, DescribedGroup | None] = {}
        for name, found in self.describe_each(groups).items():
            if isinstance(found, BrokerError):
                raise found
            described[name] = found
        return described

    def describe_each(self, groups: Iterable[str]) -> dict[str, DescribedGroup | BrokerError | None]:
        """The same, with the error of each group that a broker does not describe: the permission may be missing.

        Asks about groups of the newer consumer protocol (KIP-848) by another API: the first one calls them unknown. A
        coordinator without that API has no such groups, whatever others have: brokers are upgraded one by one.
        """
        described = self._describe_with(DESCRIBE_GROUPS, "groups", groups, _described)
        others = [name for name, found in described.items() if found is None]
        newer = CONSUMER_GROUP_DESCRIBE
        return described | self._describe_with(newer, "group_ids", others, _described_by_coordinator, may_lack=True)

    def _describe_with(
        self,
        api: Api,
        names: str,
        groups: Iterable[str],
        read: Callable[[Fields], DescribedGroup],
        *,
        may_lack: bool = False,
    ) -> dict[str, DescribedGroup | BrokerError | None]:
        described: dict[str, DescribedGroup | BrokerError | None] = {}
        bodies: dict[str, RequestBody] = {name: {names: [name]} for name in groups}
        for name, answer in self._coordinators.ask_each(GROUP, api, bodies, may_lack=may_lack).items():
            if isinstance(answer, BrokerError):
                absent = isinstance(answer, (GroupIdNotFound, UnsupportedVersion))  # 3.7 to 3.9 may have it disabled
                described[name] = None if absent else answer
            else:
                row = next((row for row in answer["groups"] if row["group_id"] == name), None)
                if row is None:
                    raise ProtocolError(f"{api.name} of {name!r}: the answer does not speak of it")
                described[name] = None if row["group_state"] == _DEAD else read(row)
        return described

    def delete(self, groups: Iterable[str]) -> dict[str, BrokerError | None]:
        """Delete groups that have no members, with their offsets. None: done; else the error."""
        bodies: dict[str, RequestBody] = {name: {"groups_names": [name]} for name in groups}
        answers = self._coordinators.ask_each(GROUP, DELETE_GROUPS, bodies)
        return {name: each if isinstance(each, BrokerError) else None for name, each in answers.items()}


def committed_rows(offsets: Mapping[TopicPartition, tuple[int, str]]) -> Sequence[Body]:
    """The topics of a request that commits offsets with a text beside each."""

    def row(tp: TopicPartition) -> Fields:
        offset, text = offsets[tp]
        return {"partition_index": tp.partition, "committed_offset": offset, "committed_metadata": text}

    return by_topic(offsets, row)


def check_committed(answer: Body, what: str) -> Body:
    """Raise the first error, with its partition: it may be the permission for one topic that is missing."""
    for error in _partition_errors(answer, what):
        if isinstance(error, TopicAuthorizationFailed):
            raise error.at(
                f"{error.context} (grant Read on it: with exactly_once the sink commits offsets of the topics that it "
                "writes, and brokers require Read for that)"
            )
        raise error
    return answer


def check_unknown_topics_last(answer: Body, what: str) -> Body:
    """Raise the first error code in an answer to OffsetCommit, that of unknown topics only where there is no other."""
    errors = _partition_errors(answer, what)
    if errors:
        raise min(errors, key=lambda error: isinstance(error, UnknownTopicOrPartition))
    return answer


def _check_deleted(answer: Body, what: str) -> Body:
    """Raise the first error code in an answer to OffsetDelete: the group's own one, or a partition's."""
    check(answer["error_code"], what)
    for error in _partition_errors(answer, what):
        raise error
    return answer


def _partition_errors(answer: Body, what: str) -> Sequence[BrokerError]:
    """The rows of partitions in an answer that nests them in rows of topics."""
    return [
        error_for(row["error_code"], f"{what}, {topic['name']}-{row['partition_index']}")
        for topic in answer["topics"]
        for row in topic["partitions"]
        if row["error_code"]
    ]


def _without_membership(group: str) -> Fields:
    return {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}


def _described(row: Fields) -> DescribedGroup:
    members = (
        MemberDescription(
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


def _described_by_coordinator(row: Fields) -> DescribedGroup:
    members = []
    for each in row["members"]:
        has, shall_have = (_partitions(each[name]) for name in ("assignment", "target_assignment"))
        host = each["client_host"].removeprefix("/")
        members.append(
            MemberDescription(each["member_id"], each["instance_id"], each["client_id"], host, has, shall_have - has)
        )
    return DescribedGroup(
        row["group_id"], row["group_state"], _CONSUMERS, row["assignor_name"], tuple(members), "consumer"
    )


def _partitions(assignment: Fields) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic["topic_name"], index)
        for topic in assignment["topic_partitions"]
        for index in topic["partitions"]
    )
