"""Every version of every API that a real broker offers: it understands what we write, and we what it writes."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkasource.kafka.protocol.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    ALTER_CONFIGS,
    API_VERSIONS,
    CONSUMER_GROUP_DESCRIBE,
    CREATE_ACLS,
    CREATE_DELEGATION_TOKEN,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_ACLS,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_ACLS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    Api,
)
from kafkasource.kafka.protocol.frames import FrameReader, decode_response, encode_request_parts, peek_correlation_id
from kafkasource.kafka.protocol.schema import Body

pytestmark = pytest.mark.broker

# One record with the value "v", as kafka-python writes it.
BATCH = bytes.fromhex(
    "0000000000000000000000390000000002d3f2ac750000000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff000000010e00000001027600"
)

RETRIABLE = {3, 5, 14, 15, 16, 51}  # what a broker answers while a new topic, coordinator or transaction settles


# Record batches v2 are for Produce v3; version 0 of offsets writes into ZooKeeper, which a KRaft broker has not; and of
# CreateTopics it cannot validate only. Kafka 4.3 serves none of these.
FIRST_HERE = {PRODUCE: 3, OFFSET_COMMIT: 1, OFFSET_FETCH: 1, CREATE_TOPICS: 1}


class Conversation:
    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._frames = FrameReader(1 << 24)
        self._correlation_id = 0
        self.negotiate()

    def negotiate(self) -> None:
        offered = self.ask(API_VERSIONS, 0, {})["api_keys"]
        self._offered = {each["api_key"]: (each["min_version"], each["max_version"]) for each in offered}

    def close(self) -> None:
        self._socket.close()

    def versions(self, api: Api) -> range:
        """Those that both sides know and that can be asked for here."""
        first, last = self._offered[api.key]
        first = max(first, api.stable_versions[0], FIRST_HERE.get(api, 0))
        return range(first, min(last, api.stable_versions[1]) + 1)

    def ask(self, api: Api, version: int, body: Body) -> Body:
        self._correlation_id += 1
        for part in encode_request_parts(api, version, self._correlation_id, "test", body):
            self._socket.sendall(part)
        while True:
            size = self._socket.recv_into(self._frames.writable())
            assert size, f"the broker closed the connection on {api.name} v{version}"
            for frame in self._frames.advance(size):
                assert peek_correlation_id(frame) == self._correlation_id
                return decode_response(api, version, frame)

    def settled(self, api: Api, version: int, body: Body, code: Callable[[Body], int]) -> Body:
        """The first answer without a passing error, within a minute: a fresh broker makes coordinators late."""
        for _ in range(600):
            answer = self.ask(api, version, body)
            if code(answer) not in RETRIABLE:
                break
            time.sleep(0.1)
        assert code(answer) == 0, f"{api.name} v{version}"
        return answer


@pytest.fixture
def conversation(kafka_broker: Any) -> Iterator[Conversation]:
    conversation = Conversation(kafka_broker.bootstrap_servers.split(",")[0])
    yield conversation
    conversation.close()


@pytest.fixture
def topic(kafka_topic: Any) -> str:
    name: str = kafka_topic(partitions=1)
    return name


@pytest.fixture
def topic_id(conversation: Conversation, topic: str) -> Any:
    body = {"topics": [{"name": topic}]}
    answer = conversation.settled(METADATA, 12, body, lambda a: int(a["topics"][0]["error_code"]))
    return answer["topics"][0]["topic_id"]


def first_partition(topics: str, partitions: str = "partitions") -> Callable[[Body], int]:
    return lambda answer: int(answer[topics][0][partitions][0]["error_code"])


def test_api_versions(conversation: Conversation) -> None:
    for version in conversation.versions(API_VERSIONS):
        answer = conversation.ask(
            API_VERSIONS, version, {"client_software_name": "test", "client_software_version": "0"}
        )
        assert answer["error_code"] == 0
        assert {each["api_key"] for each in answer["api_keys"]} >= {api.key for api in (FETCH, PRODUCE, METADATA)}


def test_metadata(conversation: Conversation, topic: str) -> None:
    for version in conversation.versions(METADATA):
        answer = conversation.settled(
            METADATA, version, {"topics": [{"name": topic}]}, lambda a: int(a["topics"][0]["error_code"])
        )
        assert answer["topics"][0]["name"] == topic
        assert [p["partition_index"] for p in answer["topics"][0]["partitions"]] == [0]
        assert answer["brokers"][0]["port"] > 0


def test_records_and_their_offsets(conversation: Conversation, topic: str, topic_id: Any) -> None:
    """Produce in each version, each time one record; then find and fetch them all in each version."""
    for count, version in enumerate(conversation.versions(PRODUCE)):
        to = {"topic_id": topic_id} if version >= 13 else {"name": topic}
        data = [to | {"partition_data": [{"index": 0, "records": BATCH}]}]
        answer = conversation.settled(
            PRODUCE,
            version,
            {"acks": -1, "timeout_ms": 10_000, "topic_data": data},
            first_partition("responses", "partition_responses"),
        )
        assert answer["responses"][0]["partition_responses"][0]["base_offset"] == count
    written = len(conversation.versions(PRODUCE))

    for version in conversation.versions(LIST_OFFSETS):
        body = {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
        answer = conversation.settled(LIST_OFFSETS, version, body, first_partition("topics"))
        row = answer["topics"][0]["partitions"][0]
        assert (row["old_style_offsets"] if version == 0 else [row["offset"]]) == [written]

    for version in conversation.versions(FETCH):
        of = {"topic_id": topic_id} if version >= 13 else {"topic": topic}
        asked = of | {"partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}
        answer = conversation.settled(
            FETCH, version, {"max_wait_ms": 100, "min_bytes": 1, "topics": [asked]}, first_partition("responses")
        )
        partition = answer["responses"][0]["partitions"][0]
        assert partition["high_watermark"] == written
        assert len(partition["records"]) == written * len(BATCH)

    for version in conversation.versions(OFFSET_FOR_LEADER_EPOCH):
        body = {"topics": [{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}]}
        answer = conversation.settled(OFFSET_FOR_LEADER_EPOCH, version, body, first_partition("topics"))
        row = answer["topics"][0]["partitions"][0]
        assert (row["end_offset"], row["leader_epoch"]) == (written, 0 if version >= 1 else -1)

    for version in conversation.versions(DESCRIBE_LOG_DIRS):
        asked = {"topics": [{"topic": topic, "partitions": [0]}]}
        answer = conversation.ask(DESCRIBE_LOG_DIRS, version, asked)
        (folder,) = answer["results"]
        (row,) = folder["topics"][0]["partitions"]
        assert (answer["error_code"], folder["error_code"], row["is_future_key"]) == (0, 0, False)
        assert (folder["topics"][0]["name"], row["partition_size"]) == (topic, written * len(BATCH))

    for below, version in enumerate(conversation.versions(DELETE_RECORDS), start=1):
        body = {
            "topics": [{"name": topic, "partitions": [{"partition_index": 0, "offset": below}]}],
            "timeout_ms": 10_000,
        }
        answer = conversation.settled(DELETE_RECORDS, version, body, first_partition("topics"))
        assert answer["topics"][0]["partitions"][0]["low_watermark"] == below


def test_group_offsets(conversation: Conversation, topic: str, topic_id: Any) -> None:
    """With one broker it is the coordinator; a larger cluster needs a connection to whom FindCoordinator names."""
    group = topic
    for version in conversation.versions(FIND_COORDINATOR):
        body = {"coordinator_keys": [group]} if version >= 4 else {"key": group}
        conversation.settled(
            FIND_COORDINATOR, version, body, lambda a: int((a["coordinators"] or [a])[0]["error_code"])
        )

    for version in conversation.versions(OFFSET_COMMIT):
        to = {"topic_id": topic_id} if version >= 10 else {"name": topic}
        partition = {"partition_index": 0, "committed_offset": version, "committed_metadata": "å"}
        body = {"group_id": group, "topics": [to | {"partitions": [partition]}]}
        conversation.settled(OFFSET_COMMIT, version, body, first_partition("topics"))

    for version in conversation.versions(OFFSET_FETCH):
        of = {"topic_id": topic_id} if version >= 10 else {"name": topic}
        asked = {"group_id": group, "topics": [of | {"partition_indexes": [0]}]}
        answer = conversation.settled(
            OFFSET_FETCH,
            version,
            {"groups": [asked]} if version >= 8 else asked,
            lambda a: first_partition("topics")((a["groups"] or [a])[0]),
        )
        partition = (answer["groups"] or [answer])[0]["topics"][0]["partitions"][0]
        assert (partition["committed_offset"], partition["metadata"]) == (conversation.versions(OFFSET_COMMIT)[-1], "å")


SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")  # consumer protocol v0: topic "t", no user data
ASSIGNMENT = bytes.fromhex("0000000000010001740000000100000000ffffffff")  # t-0


def joined(conversation: Conversation, group: str, version: int, member: str = "") -> Body:
    """The answer that makes us the group's only member; from version 4 on the first one only names us (KIP-394)."""
    body = {
        "group_id": group,
        "session_timeout_ms": 30_000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    }
    if version >= 1:
        body["rebalance_timeout_ms"] = 30_000
    answer = conversation.settled(JOIN_GROUP, version, body, lambda a: 0 if a["error_code"] == 79 else a["error_code"])
    return joined(conversation, group, version, answer["member_id"]) if answer["error_code"] else answer


def test_groups_and_their_members(conversation: Conversation, topic: str) -> None:
    """A member joins, syncs, lives and leaves in each version of each; meanwhile it is described and listed."""
    group = topic
    conversation.settled(FIND_COORDINATOR, 0, {"key": group}, lambda a: int(a["error_code"]))
    versions = {api: list(conversation.versions(api)) for api in (JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP)}
    for turn in range(max(map(len, versions.values()))):
        join, sync, beat, leave = (known[min(turn, len(known) - 1)] for known in versions.values())
        answer = joined(conversation, group, join)
        member = {"group_id": group, "generation_id": answer["generation_id"], "member_id": answer["member_id"]}
        assert answer["leader"] == answer["member_id"]
        assert answer["protocol_name"] == "range"
        assert [bytes(each["metadata"]) for each in answer["members"]] == [SUBSCRIPTION]
        told = {"assignments": [{"member_id": member["member_id"], "assignment": ASSIGNMENT}]}
        if sync >= 5:
            told |= {"protocol_type": "consumer", "protocol_name": "range"}
        answer = conversation.settled(SYNC_GROUP, sync, {**member, **told}, lambda a: int(a["error_code"]))
        assert bytes(answer["assignment"]) == ASSIGNMENT
        assert conversation.ask(HEARTBEAT, beat, member)["error_code"] == 0
        if turn == 0:
            stable_group_is_seen(conversation, group, member["member_id"])
        one = {"member_id": member["member_id"]}
        gone = {"group_id": group, "members": [one]} if leave >= 3 else {"group_id": group, **one}
        answer = conversation.ask(LEAVE_GROUP, leave, gone)
        assert [answer["error_code"], *(each["error_code"] for each in answer["members"])] == [0] * (1 + (leave >= 3))

    for version in conversation.versions(DELETE_GROUPS):
        answer = conversation.ask(DELETE_GROUPS, version, {"groups_names": [group]})
        assert answer["results"] == [{"group_id": group, "error_code": 69 if version else 0}]  # the first did it


def stable_group_is_seen(conversation: Conversation, group: str, member_id: str) -> None:
    for version in conversation.versions(DESCRIBE_GROUPS):
        (row,) = conversation.ask(DESCRIBE_GROUPS, version, {"groups": [group]})["groups"]
        assert (row["error_code"], row["group_state"], row["protocol_data"]) == (0, "Stable", "range")
        (member,) = row["members"]
        assert (member["member_id"], member["client_id"]) == (member_id, "test")
        assert (bytes(member["member_metadata"]), bytes(member["member_assignment"])) == (SUBSCRIPTION, ASSIGNMENT)
    for version in conversation.versions(CONSUMER_GROUP_DESCRIBE):
        (row,) = conversation.ask(CONSUMER_GROUP_DESCRIBE, version, {"group_ids": [group]})["groups"]
        assert (row["error_code"], row["group_id"], row["members"]) == (69, group, [])  # it is a classic one
    for version in conversation.versions(LIST_GROUPS):
        answer = conversation.ask(LIST_GROUPS, version, {})
        (row,) = [row for row in answer["groups"] if row["group_id"] == group]
        expected = ("consumer", "Stable" if version >= 4 else "", "classic" if version >= 5 else "")
        assert (row["protocol_type"], row["group_state"], row["group_type"]) == expected


def test_offsets_of_a_group_are_forgotten(conversation: Conversation, topic: str) -> None:
    for version in conversation.versions(OFFSET_DELETE):
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        body = {"group_id": topic, "topics": [{"name": topic, "partitions": [partition]}]}
        conversation.settled(FIND_COORDINATOR, 0, {"key": topic}, lambda a: int(a["error_code"]))
        conversation.settled(OFFSET_COMMIT, 2, body, first_partition("topics"))
        body = {"group_id": topic, "topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]}
        answer = conversation.ask(OFFSET_DELETE, version, body)
        assert (answer["error_code"], first_partition("topics")(answer)) == (0, 0)


def test_settings_and_brokers(conversation: Conversation, topic: str) -> None:
    resource = {"resource_type": 2, "resource_name": topic}
    for version in conversation.versions(INCREMENTAL_ALTER_CONFIGS):
        change = {"name": "retention.ms", "config_operation": 0, "value": str(1000 + version)}
        body = {"resources": [{**resource, "configs": [change]}]}
        assert conversation.ask(INCREMENTAL_ALTER_CONFIGS, version, body)["responses"][0]["error_code"] == 0
    for version in conversation.versions(ALTER_CONFIGS):
        body = {"resources": [{**resource, "configs": [{"name": "retention.ms", "value": "1001"}]}]}
        assert conversation.ask(ALTER_CONFIGS, version, body)["responses"][0]["error_code"] == 0
    for version in conversation.versions(DESCRIBE_CONFIGS):
        (row,) = conversation.ask(
            DESCRIBE_CONFIGS, version, {"resources": [{**resource, "configuration_keys": ["retention.ms"]}]}
        )["results"]
        assert [(each["name"], each["value"]) for each in row["configs"]] == [("retention.ms", "1001")]
    for version in conversation.versions(DESCRIBE_CLUSTER):
        answer = conversation.ask(DESCRIBE_CLUSTER, version, {})
        assert answer["error_code"] == 0
        assert len(answer["brokers"]) >= 1


def test_producer_ids(conversation: Conversation) -> None:
    ids = set()
    for version in conversation.versions(INIT_PRODUCER_ID):
        body = {"transactional_id": None, "transaction_timeout_ms": 1000}
        ids.add(
            conversation.settled(INIT_PRODUCER_ID, version, body, lambda a: int(a["error_code"]))["producer_id"]
        )  # each is new
    assert len(ids) == len(conversation.versions(INIT_PRODUCER_ID))


def test_transactions(conversation: Conversation, topic: str) -> None:
    def begin() -> Body:
        body = {"transactional_id": topic, "transaction_timeout_ms": 60_000}
        answer = conversation.settled(INIT_PRODUCER_ID, 1, body, lambda a: int(a["error_code"]))
        return {"transactional_id": topic, **{name: answer[name] for name in ("producer_id", "producer_epoch")}}

    def add(version: int, owner: Body) -> None:
        whole = {"topics": [{"name": topic, "partitions": [0]}], **owner}
        old = {f"v3_and_below_{name}": value for name, value in whole.items()}

        def code(answer: Body) -> int:
            topics = answer["results_by_topic_v3_and_below"]
            for each in answer["results_by_transaction"]:
                topics = each["topic_results"]
            return int(topics[0]["results_by_partition"][0]["partition_error_code"])

        conversation.settled(ADD_PARTITIONS_TO_TXN, version, {"transactions": [whole]} if version >= 4 else old, code)

    find = {"key": topic, "key_type": 1}
    conversation.settled(FIND_COORDINATOR, 1, find, lambda a: int(a["error_code"]))
    conversation.settled(FIND_COORDINATOR, 1, {**find, "key_type": 0}, lambda a: int(a["error_code"]))
    owner = begin()
    for version in conversation.versions(ADD_PARTITIONS_TO_TXN):
        add(version, owner)
    for version in conversation.versions(ADD_OFFSETS_TO_TXN):
        body = {**owner, "group_id": topic}
        conversation.settled(ADD_OFFSETS_TO_TXN, version, body, lambda a: int(a["error_code"]))
    for version in conversation.versions(TXN_OFFSET_COMMIT):
        partition = {"partition_index": 0, "committed_offset": version, "committed_metadata": "å"}
        body = {**owner, "group_id": topic, "topics": [{"name": topic, "partitions": [partition]}]}
        conversation.settled(TXN_OFFSET_COMMIT, version, body, first_partition("topics"))

    for version in conversation.versions(LIST_TRANSACTIONS):
        rows = conversation.ask(LIST_TRANSACTIONS, version, {"state_filters": ["Ongoing"]})["transaction_states"]
        assert [row["producer_id"] for row in rows if row["transactional_id"] == topic] == [owner["producer_id"]]
    for version in conversation.versions(DESCRIBE_TRANSACTIONS):
        answer = conversation.ask(DESCRIBE_TRANSACTIONS, version, {"transactional_ids": [topic]})
        (row,) = answer["transaction_states"]
        assert (row["error_code"], row["transaction_state"], row["transaction_timeout_ms"]) == (0, "Ongoing", 60_000)
        assert {"topic": topic, "partitions": [0]} in row["topics"]
    for version in conversation.versions(DESCRIBE_PRODUCERS):
        asked = {"topics": [{"name": topic, "partition_indexes": [0]}]}
        answer = conversation.settled(DESCRIBE_PRODUCERS, version, asked, first_partition("topics"))
        assert answer["topics"][0]["partitions"][0]["active_producers"] == []  # nothing was written

    for version in conversation.versions(END_TXN):
        owner = begin()  # aborts what is open
        add(3, owner)
        answer = conversation.settled(END_TXN, version, {**owner, "committed": True}, lambda a: int(a["error_code"]))
        raised = (owner["producer_id"], owner["producer_epoch"] + 1)
        assert (answer["producer_id"], answer["producer_epoch"]) == (raised if version >= 5 else (-1, -1))


def test_topics(conversation: Conversation, topic: str) -> None:
    for version in conversation.versions(CREATE_TOPICS):
        new = {"name": f"{topic}-{version}", "num_partitions": 1, "replication_factor": 1}
        configs = [{"name": "retention.ms", "value": "1000"}]
        answer = conversation.ask(
            CREATE_TOPICS, version, {"topics": [new | {"configs": configs}], "validate_only": True}
        )
        assert answer["topics"][0]["error_code"] == 0

    for count, version in enumerate(conversation.versions(CREATE_PARTITIONS), start=2):
        body = {"topics": [{"name": topic, "count": count, "assignments": None}], "timeout_ms": 10_000}
        conversation.settled(CREATE_PARTITIONS, version, body, lambda a: int(a["results"][0]["error_code"]))

    # Of topics that are not there, lest the fixture misses its own.
    for version in conversation.versions(DELETE_TOPICS):
        absent = {"topics": [{"topic_id": uuid.uuid4()}]} if version >= 6 else {"topic_names": [f"{topic}-absent"]}
        answer = conversation.ask(DELETE_TOPICS, version, absent | {"timeout_ms": 10_000})
        assert answer["responses"][0]["error_code"] == (100 if version >= 6 else 3)


def test_acls_and_delegation_tokens(secured_conversation: Conversation) -> None:
    """Made, found and removed in each version, as the super user; nobody gets a token without having logged in."""
    tell = secured_conversation
    own = {"operation": 3, "permission_type": 3}
    names = {"principal": "User:carol", "host": "*"}
    wanted = {"resource_type_filter": 2, "resource_name_filter": "of-carol", "pattern_type_filter": 3} | own
    wanted |= {"principal_filter": "User:carol", "host_filter": None}

    def found(version: int) -> list[Body]:
        answer = tell.ask(DESCRIBE_ACLS, version, wanted)
        assert answer["error_code"] == 0
        return [{**acl, "name": row["resource_name"]} for row in answer["resources"] for acl in row["acls"]]

    def eventually(version: int, expected: list[Body]) -> None:
        deadline = time.monotonic() + 60  # the controller answers before its broker has applied the change
        while found(version) != expected:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    for version in tell.versions(CREATE_ACLS):
        creation = {"resource_type": 2, "resource_name": "of-carol", **names, **own}
        (result,) = tell.ask(CREATE_ACLS, version, {"creations": [creation]})["results"]
        assert result["error_code"] == 0
        for describing in tell.versions(DESCRIBE_ACLS):
            eventually(describing, [{"name": "of-carol", **names, **own}])
        deleting = min(version, tell.versions(DELETE_ACLS)[-1])
        (result,) = tell.ask(DELETE_ACLS, deleting, {"filters": [wanted]})["filter_results"]
        assert [acl["principal"] for acl in result["matching_acls"]] == ["User:carol"]
        eventually(version, [])
    for version in tell.versions(CREATE_DELEGATION_TOKEN):
        asked = {"owner_principal_type": None, "owner_principal_name": None} if version >= 3 else {}
        answer = tell.ask(CREATE_DELEGATION_TOKEN, version, {"renewers": [], "max_lifetime_ms": -1, **asked})
        assert answer["error_code"] == 64  # DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.fixture
def secured_conversation(secured_broker: Any) -> Iterator[Conversation]:
    conversation = Conversation(secured_broker.secured.bootstrap_servers("PLAINTEXT"))
    yield conversation
    conversation.close()
