"""The protocol guide against the brokers it was written for: each API in each version that 0.8.2.2 and 0.9.0.1 serve.

Which these are is written here from the guide, apart from the table in `kafka/network/old_releases.py`.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from test_every_version_on_a_broker import ASSIGNMENT, SUBSCRIPTION, Conversation, first_partition, joined

from kafkasource.kafka.protocol.apis import (
    DESCRIBE_GROUPS,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SYNC_GROUP,
    Api,
)
from kafkasource.testing.broker import Broker

pytestmark = pytest.mark.broker

OF_0_9_ONLY = (JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP, DESCRIBE_GROUPS, LIST_GROUPS)


class OldConversation(Conversation):
    """One with a broker that cannot be asked what it serves."""

    release: str

    def negotiate(self) -> None:
        pass

    def versions(self, api: Api) -> range:
        old = self.release == "0.8.2.2"
        if api in OF_0_9_ONLY:
            return range(0 if old else 1)
        if api is OFFSET_COMMIT:
            return range(2 if old else 3)
        if api in (PRODUCE, FETCH):
            return range(1 if old else 2)
        return range(2 if api is OFFSET_FETCH else 1)


@pytest.fixture(scope="module", params=["0.8.2.2", "0.9.0.1"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(request.param, properties={"num.partitions": 1}, use_existing=False) as broker:
        yield broker


@pytest.fixture
def conversation(broker: Broker) -> Iterator[OldConversation]:
    conversation = OldConversation(broker.bootstrap_servers)
    conversation.release = broker.version
    yield conversation
    conversation.close()


@pytest.fixture
def topic(conversation: OldConversation, request: pytest.FixtureRequest) -> str:
    """Made by being asked for."""
    name: str = request.node.originalname

    def code(answer: Any) -> int:
        (row,) = answer["topics"]
        return int(row["error_code"] or (0 if row["partitions"] else 5) or row["partitions"][0]["error_code"])

    conversation.settled(METADATA, 0, {"topics": [{"name": name}]}, code)
    return name


def message(value: bytes, offset: int = 0) -> bytes:
    """A message set of one message v0 without a key, as the guide describes it."""
    covered = struct.pack(">BBii", 0, 0, -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered


def test_messages_and_their_offsets(conversation: OldConversation, topic: str) -> None:
    written = b""
    for count, version in enumerate(conversation.versions(PRODUCE)):
        data = [{"name": topic, "partition_data": [{"index": 0, "records": message(b"v%d" % count)}]}]
        answer = conversation.settled(
            PRODUCE,
            version,
            {"acks": -1, "timeout_ms": 10_000, "topic_data": data},
            first_partition("responses", "partition_responses"),
        )
        assert answer["responses"][0]["partition_responses"][0]["base_offset"] == count
        written += message(b"v%d" % count, offset=count)
    end = len(conversation.versions(PRODUCE))

    for timestamp, expected in ((-1, [end, 0]), (-2, [0])):  # the log's end, then the starts of its segments
        asked = {"partition_index": 0, "timestamp": timestamp, "max_num_offsets": 10}
        body = {"topics": [{"name": topic, "partitions": [asked]}]}
        answer = conversation.settled(LIST_OFFSETS, 0, body, first_partition("topics"))
        assert answer["topics"][0]["partitions"][0]["old_style_offsets"] == expected

    for version in conversation.versions(FETCH):
        asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        body = {"max_wait_ms": 100, "min_bytes": 1, "topics": [{"topic": topic, "partitions": [asked]}]}
        answer = conversation.settled(FETCH, version, body, first_partition("responses"))
        partition = answer["responses"][0]["partitions"][0]
        assert (partition["high_watermark"], bytes(partition["records"])) == (end, written)


def test_group_offsets(conversation: OldConversation, topic: str) -> None:
    conversation.settled(FIND_COORDINATOR, 0, {"key": topic}, lambda a: int(a["error_code"]))
    committed: dict[int, int] = {}  # by the version that wrote it; 0 writes into ZooKeeper, the others into Kafka
    for version in conversation.versions(OFFSET_COMMIT):
        partition = {"partition_index": 0, "committed_offset": 10 + version, "committed_metadata": "å"}
        body = {"group_id": topic, "topics": [{"name": topic, "partitions": [partition]}]}
        conversation.settled(OFFSET_COMMIT, version, body, first_partition("topics"))
        committed[min(version, 1)] = 10 + version
    for version in conversation.versions(OFFSET_FETCH):
        body = {"group_id": topic, "topics": [{"name": topic, "partition_indexes": [0]}]}
        answer = conversation.settled(OFFSET_FETCH, version, body, first_partition("topics"))
        row = answer["topics"][0]["partitions"][0]
        assert row["committed_offset"] == committed[version]
        assert row["metadata"] == ("å" if version else "")


def test_a_group_and_its_member(conversation: OldConversation, topic: str) -> None:
    if not conversation.versions(JOIN_GROUP):
        pytest.skip("groups came with 0.9")
    conversation.settled(FIND_COORDINATOR, 0, {"key": topic}, lambda a: int(a["error_code"]))
    answer = joined(conversation, topic, 0)
    member = {"group_id": topic, "generation_id": answer["generation_id"], "member_id": answer["member_id"]}
    assert (answer["leader"], answer["protocol_name"]) == (member["member_id"], "range")
    told = {"assignments": [{"member_id": member["member_id"], "assignment": ASSIGNMENT}]}
    assert bytes(conversation.ask(SYNC_GROUP, 0, {**member, **told})["assignment"]) == ASSIGNMENT
    assert conversation.ask(HEARTBEAT, 0, member)["error_code"] == 0
    (row,) = conversation.ask(DESCRIBE_GROUPS, 0, {"groups": [topic]})["groups"]
    assert (row["group_state"], bytes(row["members"][0]["member_metadata"])) == ("Stable", SUBSCRIPTION)
    groups = conversation.ask(LIST_GROUPS, 0, {})["groups"]
    assert (topic, "consumer") in [(each["group_id"], each["protocol_type"]) for each in groups]
    assert conversation.ask(LEAVE_GROUP, 0, {"group_id": topic, "member_id": member["member_id"]})["error_code"] == 0
    assert conversation.ask(HEARTBEAT, 0, member)["error_code"] in (22, 25)  # it is no member any more


def test_a_broker_that_is_asked_for_a_version_it_never_heard_of_says_so_by_silence_or_a_close(
    conversation: OldConversation, broker: Broker
) -> None:
    """What the client goes by when ApiVersions brings no answer."""
    from kafkasource.kafka.protocol.apis import API_VERSIONS

    conversation._socket.settimeout(2)
    expected = AssertionError if broker.version == "0.8.2.2" else TimeoutError
    begun = time.monotonic()
    with pytest.raises(expected):
        conversation.ask(API_VERSIONS, 0, {})
    assert broker.version == "0.9.0.1" or time.monotonic() - begun < 2
