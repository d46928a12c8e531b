"""Columns that Spark writes as Avro, on a real Kafka. fastavro says what the records are."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import pytest
from confluent_reader import messages_of
from fake_registry import a_registry
from pyspark.errors import PySparkException

fastavro = pytest.importorskip("fastavro")
pytestmark = [pytest.mark.broker, pytest.mark.spark]

COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
LINE: dict[str, Any] = {"type": "record", "name": "Line", "fields": [
    {"name": "item", "type": "string"}, {"name": "price", "type": ["null", "double"]}]}  # fmt: skip
EVERY: dict[str, Any] = {
    "type": "record",
    "name": "Every",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "small", "type": "int"},
        {"name": "text", "type": ["null", "string"]},
        {"name": "flag", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "colour", "type": COLOUR},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "counts", "type": {"type": "map", "values": ["null", "int"]}},
        {"name": "either", "type": ["int", "string"]},
        {"name": "later", "type": "string", "default": "as ever"},
    ],
}
STRUCT = """named_struct(
    'number', id, 'small', CAST(id AS SMALLINT), 'text', IF(id % 3 = 0, NULL, concat('é', id)), 'flag', id % 2 = 0,
    'at', timestamp_micros(1767225600000000 + id * 1000), 'local', TIMESTAMP_NTZ'2026-01-01 00:00:00.000001',
    'day', date_add(DATE'2026-01-01', CAST(id AS INT)), 'price', CAST(id / 100 AS DECIMAL(9, 2)),
    'colour', IF(id % 2 = 0, 'RED', 'BLUE'), 'hash', CAST('ab' AS BINARY),
    'lines', transform(sequence(1, id % 3 + 1),
        n -> named_struct('item', concat('i', n), 'price', IF(n = 1, NULL, n / 2))),
    'counts', map('a', CAST(id AS INT), 'b', CAST(NULL AS INT)),
    'either', named_struct('member0', IF(id % 2 = 0, CAST(id AS INT), NULL), 'member1', IF(id % 2 = 0, NULL, 'odd'))
)"""


def every(n):
    return {
        "number": n,
        "small": n,
        "text": None if n % 3 == 0 else f"é{n}",
        "flag": n % 2 == 0,
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=n),
        "local": dt.datetime(2026, 1, 1, 0, 0, 0, 1),
        "day": dt.date(2026, 1, 1) + dt.timedelta(days=n),
        "price": Decimal(n).scaleb(-2),
        "colour": "BLUE" if n % 2 else "RED",
        "hash": b"ab",
        "lines": [{"item": f"i{each}", "price": None if each == 1 else each / 2} for each in range(1, n % 3 + 2)],
        "counts": {"a": n, "b": None},
        "either": "odd" if n % 2 else n,
        "later": "as ever",
    }


def read(schema, framed, schema_id):
    assert framed[:5] == b"\0" + schema_id.to_bytes(4, "big")
    return fastavro.schemaless_reader(io.BytesIO(framed[5:]), schema)


@pytest.mark.each_kind
def test_every_type_is_what_fastavro_reads_and_the_registry_is_asked_once(pykafka, kafka_topic):
    topic = kafka_topic(partitions=2)
    with a_registry() as registry:
        schema_id = registry.add(f"{topic}-value", json.dumps(EVERY))
        key_id = registry.add("keys", '"long"')
        rows = pykafka.spark.range(100).repartition(4).selectExpr(f"{STRUCT} AS value", "id AS key")
        keys = {"keyFormat": "avro", "keyWriterSchema": "subject:keys"}
        pykafka.write(rows, topic, valueFormat="avro", **keys, **{"schemaRegistry.url": registry.url})
        assert sorted(registry.paths) == [
            "/subjects/keys/versions/latest",
            f"/subjects/{topic}-value/versions/latest",
        ]
        found = messages_of(pykafka.bootstrap_servers, topic, (0, 1))
        values = sorted((read(EVERY, each.value(), schema_id) for each in found), key=lambda value: value["number"])
        assert values == [every(n) for n in range(100)]
        assert sorted(read("long", each.key(), key_id) for each in found) == list(range(100))
        back = pykafka.read(topic, valueFormat="avro", **{"schemaRegistry.url": registry.url})
        assert sorted(back.selectExpr("value.number", "value.either.member1").collect())[:2] == [(0, None), (1, "odd")]


def test_what_the_plan_shows_is_an_error_before_a_task_and_a_null_names_its_field(pykafka, kafka_topic):
    topic = kafka_topic(partitions=1)
    with a_registry() as registry:
        registry.add(f"{topic}-value", json.dumps(LINE | {"fields": LINE["fields"][:1]}))
        options = {"valueFormat": "avro", "schemaRegistry.url": registry.url}
        rows = pykafka.spark.range(3)
        with pytest.raises(PySparkException, match=r"\$\.item: a column of int64 cannot be written as string"):
            pykafka.write(rows.selectExpr("named_struct('item', id) AS value"), topic, **options)
        nulls = rows.selectExpr("named_struct('item', IF(id = 2, NULL, 'x')) AS value")
        with pytest.raises(PySparkException, match=r"column 'value' cannot be encoded: \$\.item: the value is null"):
            pykafka.write(nulls, topic, **options)
