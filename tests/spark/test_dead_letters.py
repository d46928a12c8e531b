"""Good rows and dead letters of one query, on a real Kafka: confluent-kafka reads what is committed.

Of the records each third is cut, so that it cannot be decoded. Some rows have a text that is no symbol of the schema.
The topic of the good ones is compacted, so the broker refuses those without a key.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from contextlib import suppress

import pytest
from confluent_producer import ordered_producer
from confluent_reader import cluster_id_of, messages_of
from fake_registry import a_registry
from kept_schemas import framed
from pyspark.errors import PySparkException

from lab.campaign.crash_points import POINTS, REFUSED

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


def is_cut(number):
    return number % 3 == 2


def is_refused(number):
    return not is_cut(number) and number % 4 == 3


def key_of(number):
    return None if is_refused(number) else b"key %d" % number


def fill(pykafka, topic, schema_id, count):
    """`count` records in two partitions. Returns those that are cut: (partition, offset) to value."""
    producer, places = ordered_producer(pykafka.bootstrap_servers), {}

    def delivered(error, message):
        assert error is None
        places[message.partition(), message.offset()] = message.value()

    for number in range(count):
        value = framed(schema_id, SCHEMA, {"number": 1000 + number})
        headers = [("n", b"%d" % number), ("empty", None)]
        value, report = (value[:-1], delivered) if is_cut(number) else (value, None)
        producer.produce(topic, value, key_of(number), number % 2, headers=headers, on_delivery=report)
    assert producer.flush(30) == 0
    return places


def frame_of(pykafka, topic, url, *, stream=False, **more):
    options = {"valueFormat": "avro", "schemaRegistry.url": url, "badRecords": "column", "includeHeaders": "true"}
    return pykafka.reading(topic, stream=stream, startingOffsets="earliest", **options, **more).load()


def check(pykafka, source, clean, dead, count, cut, record, fits=lambda number: True):
    """Each row is in one of the two topics, once. `record`: of a good row; `fits`: can it be encoded?"""
    encodable = [n for n in range(count) if not is_cut(n) and fits(n)]
    good = Counter(message.value() for message in messages_of(pykafka.bootstrap_servers, clean, settled=True))
    assert good == Counter(record(n) for n in encodable if not is_refused(n))
    cluster_id = cluster_id_of(pykafka.bootstrap_servers).encode()
    letters = [(int(each.headers()[0][1]), each) for each in messages_of(pykafka.bootstrap_servers, dead, settled=True)]
    assert sorted(n for n, _ in letters) == [n for n in range(count) if n not in encodable or is_refused(n)]
    for number, letter in letters:
        assert letter.headers()[:2] == [("n", b"%d" % number), ("empty", None)]
        assert letter.key() == key_of(number)
        why = {name.removeprefix("__dlq.errors."): text for name, text in letter.headers()[2:]}
        assert why.pop("cluster.id") == cluster_id
        if is_cut(number):
            assert letter.value() == cut[int(why["partition"]), int(why["offset"])]
            assert why["topic"] == source.encode()
            assert b"$.number" in why["message"]
        elif not fits(number):
            assert letter.value() == b'{"number":%d,"colour":"GREEN"}' % (1000 + number)
            assert b"not a symbol of" in why.pop("message")
            assert why == {"topic": clean.encode(), "field": b"$.colour", "value.format": b"json"}
        else:
            assert letter.value() == record(number)
            assert why.pop("message").startswith(b"INVALID_RECORD: Compacted topic cannot accept message without key")
            assert why == {"topic": clean.encode(), "partition": b"0"}


COMPACTED = {"cleanup.policy": "compact"}
TWO_POINTS = pytest.param((REFUSED, "decided"), id="two crashes")
EACH_POINT = pytest.param((*POINTS, REFUSED) * 2, id="two crashes at each point", marks=pytest.mark.extended)


def under_crashes(points, crash_file, write):
    """`write` starts the same query again and again: once for each crash, and once to the end."""
    for point in points:
        crash_file.write_text(point)
        with suppress(PySparkException):  # a task that died runs again
            write().awaitTermination()
        assert not crash_file.exists(), f"nothing crashed at {point!r}"
    write().awaitTermination()


def writing_once(pykafka, rows, clean, dead, checkpoint, **more):
    """A start of the query that writes `rows` exactly once."""
    options = {"kafka.bootstrap.servers": pykafka.bootstrap_servers, "topic": clean, **more}
    options |= {"badRecords": f"topic:{dead}", "deliveryGuarantee": "exactly_once"}
    query = rows.writeStream.format("pykafka").options(checkpointLocation=str(checkpoint), **options)
    return query.trigger(availableNow=True).start()


COLOURED = {**SCHEMA, "fields": [
    *SCHEMA["fields"], {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}}
]}  # fmt: skip


@pytest.mark.needs_spark("limited_available_now")
@pytest.mark.parametrize("points", [TWO_POINTS, EACH_POINT])
def test_each_record_is_in_one_of_the_two_topics_once_whatever_dies(pykafka, kafka_topic, tmp_path, crash_file, points):
    source, clean, dead = kafka_topic(partitions=2), kafka_topic(config=COMPACTED), kafka_topic()
    count = 12 * (len(points) + 1)
    value = (
        "named_struct('number', value.number, 'colour', IF((value.number - 1000) % 5 = 1, 'GREEN', 'BLUE')) AS value"
    )
    with a_registry() as registry:
        cut = fill(pykafka, source, registry.add(f"{source}-value", json.dumps(SCHEMA)), count)
        written_by = registry.add(f"{clean}-value", json.dumps(COLOURED))
        to_avro = {"valueFormat": "avro", "schemaRegistry.url": registry.url}

        def write():
            rows = frame_of(pykafka, source, registry.url, stream=True, maxOffsetsPerTrigger="12")
            rows = rows.selectExpr(value, *TO_WRITE[1:])
            return writing_once(pykafka, rows, clean, dead, tmp_path / "checkpoint", **to_avro)

        under_crashes(points, crash_file, write)

    def record(number):
        return framed(written_by, COLOURED, {"number": 1000 + number, "colour": "BLUE"})

    check(pykafka, source, clean, dead, count, cut, record, lambda number: number % 5 != 1)


@pytest.mark.extended
def test_a_write_that_fails_leaves_no_dead_letters(pykafka, kafka_topic):
    source, clean, dead = kafka_topic(partitions=2), kafka_topic(config=COMPACTED), kafka_topic()
    with a_registry() as registry:
        cut = fill(pykafka, source, registry.add(f"{source}-value", json.dumps(SCHEMA)), 12)
        rows = frame_of(pykafka, source, registry.url).selectExpr(*TO_WRITE)
        once = {"deliveryGuarantee": "exactly_once", "transactionalIdPrefix": f"test-{uuid.uuid4().hex}"}
        options = {"badRecords": f"topic:{dead}", **once}
        with pytest.raises(PySparkException, match="does not exist"):
            pykafka.write(rows, clean, **{**options, "badRecords": "topic:no-such-topic"})
        with pytest.raises(PySparkException, match=f"topic {source}, partition .*badRecords=topic:NAME"):
            pykafka.write(rows, clean, **once)
        narrow = kafka_topic(config=COMPACTED)
        with pytest.raises(PySparkException, match="topic of 'badRecords' must take every record"):
            pykafka.write(rows, clean, **{**options, "badRecords": f"topic:{narrow}"})
        assert messages_of(pykafka.bootstrap_servers, dead, settled=True) == []
        pykafka.write(rows, clean, **options)
    check(pykafka, source, clean, dead, 12, cut, lambda number: b"%d" % (1000 + number))
