"""Right frames with wrong words in them: what the client once threw, or believed."""

from __future__ import annotations

import random
from typing import Any

import pytest
from fake_broker import Answer, FakeKafka, FakeNet
from lying_broker import with_lies
from message_bodies import EVERY_VERSION, full_body

from kafkasource.errors import ProtocolError
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_GROUPS,
    DESCRIBE_TRANSACTIONS,
    FIND_COORDINATOR,
    METADATA,
    OFFSET_FETCH,
)
from kafkasource.types import TopicPartition


@pytest.fixture
def kafka() -> FakeKafka:
    return FakeKafka(nodes=2, topics={"t": 2})


@pytest.fixture
def client(kafka: FakeKafka) -> Any:
    client = Cluster(ClientConfig.of("bootstrap:9092"), **FakeNet(kafka).parts())
    yield client
    client.close()


def test_a_coordinator_with_a_node_id_below_0_is_asked_for_again(kafka: FakeKafka, client: Cluster) -> None:
    nobody = {"key": "g", "node_id": -2, "host": "", "port": -1, "error_code": 0}
    kafka.fault(FIND_COORDINATOR, Answer({"coordinators": [nobody]}))
    assert client.groups.committed_offsets("g", [TopicPartition("t", 0)]) == {TopicPartition("t", 0): None}
    assert len(kafka.asked(FIND_COORDINATOR)) == 2
    assert len(kafka.asked(OFFSET_FETCH)) == 1


def test_a_broker_with_a_node_id_below_0_is_not_believed(kafka: FakeKafka, client: Cluster) -> None:
    broker = {"node_id": -1, "host": "broker-1", "port": 9092}
    kafka.fault(METADATA, Answer({"brokers": [broker], "topics": []}))
    assert [node.node_id for node in client.brokers().nodes] == [1, 2]
    assert len(kafka.asked(METADATA)) == 2


def test_an_answer_about_another_group_or_transaction_is_none(kafka: FakeKafka, client: Cluster) -> None:
    for rows in ([], [{"group_id": "another", "group_state": "Stable"}]):
        kafka.fault(DESCRIBE_GROUPS, Answer({"groups": rows}))
        with pytest.raises(ProtocolError, match="DescribeGroups of 'g'"):
            client.groups.describe(["g"])
    for states in ([], [{"transactional_id": "another", "transaction_state": "Ongoing"}]):
        kafka.fault(DESCRIBE_TRANSACTIONS, Answer({"transaction_states": states}))
        with pytest.raises(ProtocolError, match="DescribeTransactions of 'x'"):
            client.transactions.describe(["x"])


def test_a_topic_that_only_the_answer_names_is_neither_made_nor_deleted(kafka: FakeKafka, client: Cluster) -> None:
    busy = [
        {"name": "u", "error_code": 7, "error_message": None}
    ]  # REQUEST_TIMED_OUT, after which a name is asked again
    for api, rows, change in (
        (CREATE_TOPICS, "topics", client.topics.create),
        (DELETE_TOPICS, "responses", client.topics.delete),
    ):
        kafka.fault(api, Answer({rows: busy}))
        with pytest.raises(ProtocolError, match="the answer speaks of u"):
            change(["new"])
        assert len(kafka.asked(api)) == 1


def test_an_idle_connection_is_closed_at_the_time_that_was_waited_for(kafka: FakeKafka) -> None:
    """The time was `last used + idle` for the wait and `now - last used` for the end: rounded apart, nobody slept."""
    for start in range(380, 400):  # some of these round apart
        net = FakeNet(kafka)
        net.now += start * 0.1234567
        client = net.client(connections_max_idle_ms=1000)
        for node_id in (-1, 1):  # the first brings the address of the other
            pending = client.send(node_id, METADATA, {"topics": None})
            while not pending.done:
                client.poll(1000)
        rounds, until = 0, net.now + 5
        while net.now < until:
            client.poll(1000 * (until - net.now) + 1)
            rounds += 1
            assert rounds < 50
        assert not net.live()
        client.close()


def test_lies_can_be_said_in_every_version() -> None:
    for message, version in EVERY_VERSION:
        if not message.name.endswith("Response"):
            continue
        for seed in range(5):
            body = with_lies(random.Random(seed), message.fields, version, full_body(message, version))
            assert message.encode(version, body)
