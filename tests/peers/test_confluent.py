"""confluent-kafka (librdkafka) as the second client: it reads what our sink wrote and writes what our source reads."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_reader import messages_of

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.peers]

RECORDS = 100_000
CODEC = "zstd"  # tests/sink/test_write_to_broker.py and tests/kafka/fetch/test_read_from_broker.py have all of them


def key_of(i):
    """Null, empty and ordinary keys."""
    return None if i % 10 == 0 else b"" if i % 10 == 1 else b"key-%d" % (i % 1000)


def value_of(i):
    """Tombstones, empty values, and values that name the record."""
    return None if i % 100 == 7 else b"" if i % 100 == 8 else b"value-%d" % i


def headers_of(i):
    """None for most; duplicates, a null and an empty value where there are some."""
    return [("i", b"%d" % i), ("dup", None), ("dup", b"")] if i % 5 == 0 else None


def expected():
    return sorted(map(repr, ((key_of(i), value_of(i), headers_of(i)) for i in range(RECORDS))))


def consume_all(bootstrap_servers, topic, partitions):
    """Everything in a topic, by librdkafka, as sorted texts of (key, value, headers)."""
    found = messages_of(bootstrap_servers, topic, range(partitions), settled=True)
    return sorted(repr((message.key(), message.value(), message.headers())) for message in found)


def test_what_our_sink_wrote_another_client_reads(pykafka, kafka_topic):
    topic = kafka_topic(partitions=3)
    frame = pykafka.spark.range(RECORDS).selectExpr(
        "CASE WHEN id % 10 = 0 THEN NULL WHEN id % 10 = 1 THEN '' ELSE concat('key-', id % 1000) END AS key",
        "CASE WHEN id % 100 = 7 THEN NULL WHEN id % 100 = 8 THEN '' ELSE concat('value-', id) END AS value",
        "CASE WHEN id % 5 = 0 THEN array("
        " named_struct('key', 'i', 'value', CAST(CAST(id AS STRING) AS BINARY)),"
        " named_struct('key', 'dup', 'value', CAST(NULL AS BINARY)),"
        " named_struct('key', 'dup', 'value', CAST('' AS BINARY))) END AS headers",
    )
    pykafka.write(frame, topic, **{"kafka.compression.type": CODEC})
    assert consume_all(pykafka.bootstrap_servers, topic, 3) == expected()


def test_what_another_client_wrote_our_source_reads(pykafka, kafka_topic):
    topic = kafka_topic(partitions=3)
    producer = Producer(
        {
            "bootstrap.servers": pykafka.bootstrap_servers,
            "compression.type": CODEC,
            "linger.ms": 20,
            "queue.buffering.max.messages": RECORDS,
        }
    )
    for i in range(RECORDS):
        producer.produce(topic, key=key_of(i), value=value_of(i), headers=headers_of(i))
    assert producer.flush(120) == 0
    rows = pykafka.read(topic, includeHeaders="true").select("key", "value", "headers").toLocalIterator()
    found = sorted(repr((binary(r.key), binary(r.value), headers(r.headers))) for r in rows)
    assert found == expected()


def binary(value):
    return None if value is None else bytes(value)


def headers(found):
    return None if found is None else [(h.key, binary(h.value)) for h in found]
