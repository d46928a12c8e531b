"""Groups with their lag, and open transactions, on a real Kafka: another client is the member and the producer."""

import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

pytestmark = pytest.mark.broker


@pytest.fixture
def topic(kafka_topic, produce):
    name = kafka_topic(partitions=2)
    produce(name, [{"value": b"x", "partition": number % 2} for number in range(20)])
    return name


def test_a_group_is_shown_with_its_members_and_the_lag_of_each_partition(served, browser, topic, kafka_broker):
    group = f'audit <b>"{uuid.uuid4()}'
    consumer = Consumer(
        {
            **{"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": group, "client.id": "auditor"},
            **{"auto.offset.reset": "earliest", "enable.auto.commit": False},
        }
    )
    try:
        consumer.subscribe([topic])
        while consumer.poll(1) is None:
            pass
        consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        status, answer = served.get("/api/group", name=group)
        assert (status, answer["state"], answer["lag"]) == (200, "Stable", 6)
        assert {
            (partition["partition"], partition["offset"], partition["latest"], partition["lag"])
            for partition in answer["partitions"]
        } == {
            (0, 4, 10, 6),
            (1, None, 10, None),
        }
        assert [(member["client"], member["host"]) for member in answer["members"]] == [("auditor", "127.0.0.1")]
        (line,) = [line for line in served.get("/api/groups")[1]["groups"] if line["group"] == group]
        assert (line["state"], line["members"], line["error"]) == ("Stable", 1, None)
        browser.errors.clear()
        browser.open(served.page(view="group", name=group))
        assert browser.text("h2") == group
        assert browser.text("[data-field=lag]") == "6"
        assert browser.errors == []
    finally:
        consumer.close()
    status, text = served.get("/api/group", name="no-such-group")
    assert (status, "no group 'no-such-group'" in text) == (502, True)


def test_an_open_transaction_is_shown_until_it_ends(served, browser, topic, kafka_broker):
    name = f"ui-{uuid.uuid4()}"
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions()

    def shown():
        status, answer = served.get("/api/transactions")
        assert status == 200, answer
        return [transaction for transaction in answer["transactions"] if transaction["transactional_id"] == name]

    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    assert producer.flush(60) == 0
    (row,) = shown()
    assert (row["state"], row["partitions"], row["timeout_s"]) == ("Ongoing", [f"{topic}-1"], 60)
    assert 0 <= row["open_for_s"] < 60
    browser.open(served.page(view="transactions"))
    assert name in browser.text("#view table")
    producer.abort_transaction()
    assert [
        transaction for transaction in shown() if transaction["state"] == "Ongoing"
    ] == []  # its markers may be under way
