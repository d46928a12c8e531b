"""Good rows and dead letters of one query, on a real Kafka: confluent-kafka reads what is committed."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from contextlib import suppress

import pytest
from confluent_producer import ordered_producer
from confluent_reader import messages_of
from fake_registry import a_registry
from kept_schemas import framed
from pyspark.errors import PySparkException

from kafkasource.sink.transactions.crash_points import POINTS

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "number", "type": "long"}]}
TO_WRITE = (
    "CAST(value.number AS STRING) AS value",
    "key",
    "topic",
    "IF(badRecord IS NULL, NULL, partition) AS partition",  # the partitioner chooses those of good rows
    "offset",
    "headers",
    "badRecord",
)


def fill(pykafka, topic, schema_id, count):
    """`count` records in two partitions, each third of them cut. Returns the cut ones: (partition, offset) to value."""
    producer, places = ordered_producer(pykafka.bootstrap_servers), {}

    def delivered(error, message):
        assert error is None
        places[message.partition(), message.offset()] = message.value()

    for number in range(count):
        value = framed(schema_id, SCHEMA, {"number": 1000 + number})
        headers = [("n", b"%d" % number), ("empty", None)]
        value, report = (value[:-1], delivered) if number % 3 == 2 else (value, None)
        producer.produce(topic, value, b"key %d" % number, number % 2, headers=headers, on_delivery=report)
    assert producer.flush(30) == 0
    return places


def frame_of(pykafka, topic, url, *, stream=False, **more):
    options = {"valueFormat": "avro", "schemaRegistry.url": url, "badRecords": "column", "includeHeaders": "true"}
    return pykafka.reading(topic, stream=stream, startingOffsets="earliest", **options, **more).load()


def check(pykafka, source, clean, dead, count, cut):
    good = Counter(message.value() for message in messages_of(pykafka.bootstrap_servers, clean))
    assert good == Counter(b"%d" % (1000 + number) for number in range(count) if number % 3 != 2)
    letters = messages_of(pykafka.bootstrap_servers, dead)
    places = []
    for letter in letters:
        headers = letter.headers()
        number = int(headers[0][1])
        assert headers[:2] == [("n", b"%d" % number), ("empty", None)]
        why = dict(headers[2:])
        place = int(why["__dlq.errors.partition"]), int(why["__dlq.errors.offset"])
        assert (letter.key(), letter.value()) == (b"key %d" % number, cut[place])
        assert why["__dlq.errors.topic"] == source.encode()
        assert b"$.number" in why["__dlq.errors.message"]
        places.append(place)
    assert sorted(places) == sorted(cut)


ONE_POINT = pytest.param(("decided",), id="one crash")
EACH_POINT = pytest.param(POINTS, id="a crash at each point", marks=pytest.mark.extended)


@pytest.mark.needs_spark("limited_available_now")
@pytest.mark.parametrize("points", [ONE_POINT, EACH_POINT])
def test_each_record_is_in_one_of_the_two_topics_once_whatever_dies(pykafka, kafka_topic, tmp_path, crash_file, points):
    source, clean, dead = kafka_topic(partitions=2), kafka_topic(partitions=1), kafka_topic(partitions=1)
    count = 12 * (len(points) + 1)
    with a_registry() as registry:
        cut = fill(pykafka, source, registry.add(f"{source}-value", json.dumps(SCHEMA)), count)

        def run():
            rows = frame_of(pykafka, source, registry.url, stream=True, maxOffsetsPerTrigger="12")
            writing = (
                rows.selectExpr(*TO_WRITE)
                .writeStream.format("pykafka")
                .options(
                    **{"kafka.bootstrap.servers": pykafka.bootstrap_servers, "topic": clean},
                    **{"badRecords": f"topic:{dead}", "deliveryGuarantee": "exactly_once"},
                    checkpointLocation=str(tmp_path / "checkpoint"),
                )
            )
            writing.trigger(availableNow=True).start().awaitTermination()

        for point in points:
            crash_file.write_text(point)
            with suppress(PySparkException):  # a task that died runs again
                run()
            assert not crash_file.exists(), f"nothing crashed at {point!r}"
        run()
    check(pykafka, source, clean, dead, count, cut)


@pytest.mark.extended
def test_a_write_that_fails_leaves_no_dead_letters(pykafka, kafka_topic):
    source, clean, dead = kafka_topic(partitions=2), kafka_topic(partitions=1), kafka_topic(partitions=1)
    with a_registry() as registry:
        cut = fill(pykafka, source, registry.add(f"{source}-value", json.dumps(SCHEMA)), 12)
        rows = frame_of(pykafka, source, registry.url).selectExpr(*TO_WRITE)
        once = {"deliveryGuarantee": "exactly_once", "transactionalIdPrefix": f"test-{uuid.uuid4().hex}"}
        options = {"badRecords": f"topic:{dead}", **once}
        with pytest.raises(PySparkException, match="does not exist"):
            pykafka.write(rows, clean, **{**options, "badRecords": "topic:no-such-topic"})
        with pytest.raises(PySparkException, match=f"topic {source}, partition .*badRecords=topic:NAME"):
            pykafka.write(rows, clean, **once)
        fails = rows.selectExpr("REPEAT(value, 1000000) AS value", *(name for name in rows.columns if name != "value"))
        with pytest.raises(PySparkException, match=r"max\.request\.size"):
            pykafka.write(fails, clean, **options)
        assert messages_of(pykafka.bootstrap_servers, dead) == []
        pykafka.write(rows, clean, **options)
    check(pykafka, source, clean, dead, 12, cut)
