"""`pykafka dlq` on a real Kafka: confluent-kafka writes the dead letters, with the headers of KIP-1191."""

import json

import pytest
from confluent_producer import ordered_producer

from kafkasource.tools.cli import main

pytestmark = pytest.mark.broker


@pytest.fixture
def command(kafka_broker, capfdbinary):
    def run(*words):
        code = main(["dlq", *words, "-b", kafka_broker.bootstrap_servers])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


def letter(topic, partition, offset, message):
    names = ("topic", "partition", "offset", "message")
    values = (topic, str(partition), str(offset), message)
    return [(f"__dlq.errors.{name}", value.encode()) for name, value in zip(names, values, strict=True)]


@pytest.fixture
def topic(kafka_broker, kafka_topic):
    """Three kinds of dead letters, and a record that is none."""
    name = kafka_topic()
    producer = ordered_producer(kafka_broker.bootstrap_servers)
    cut, wide = "the value, field $.n: the bytes end", "the value: bytes are left over"
    for number in range(3):
        producer.produce(name, b"\0cut\xff", b"k", headers=[("own", b"1"), *letter("orders", 1, number, cut)])
    producer.produce(name, b"wide", headers=letter("orders", 0, 7, wide))
    again = [*letter("dlq.old", 0, 1, wide), *letter("payments", 2, 9, cut)]  # the last headers count
    producer.produce(name, b"again", headers=again)
    producer.produce(name, b"no dead letter")
    assert producer.flush(30) == 0
    return name


def test_list_counts_by_topic_and_reason(command, topic):
    code, out, err = command("list", topic, "--json")
    assert code == 0, err
    rows = {(row["topic"], row["reason"]): row for row in json.loads(out)}
    cut, wide = "the value, field $.n: the bytes end", "the value: bytes are left over"
    assert {key: row["records"] for key, row in rows.items()} == {
        ("orders", cut): 3,
        ("orders", wide): 1,
        ("payments", cut): 1,
        (None, None): 1,
    }
    last = rows["orders", cut]
    assert (last["last_partition"], last["last_offset"]) == ("1", "2")
    code, out, _ = command("list", topic)
    assert out.splitlines()[1].split()[:2] == ["3", "orders"]


def test_show_gives_the_bytes_and_headers_of_those_with_a_reason(command, topic):
    code, out, err = command("show", topic, "--reason", "BYTES END", "--json", "-n", "2")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["value_base64"] for row in rows] == ["AGN1dP8=", "AGN1dP8="]
    assert rows[0]["headers"][0] == {"key": "own", "value": "1"}
    assert {"key": "__dlq.errors.offset", "value": "1"} in rows[1]["headers"]
    _, out, _ = command("show", topic, "--reason", "left over")
    assert "wide" in out
    assert "again" not in out
    _, out, _ = command("show", topic, "--json")
    assert len(out.splitlines()) == 6


def test_a_topic_that_is_not_there_is_an_error_of_one_line(command):
    code, out, err = command("list", "no-such-topic")
    assert (code, out) == (1, "")
    assert "no-such-topic" in err
