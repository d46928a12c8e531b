"""Columns that Spark writes as JSON, on a real Kafka: the records are what `to_json` gives for the same rows."""

from __future__ import annotations

import json
import random

import pytest
from confluent_reader import messages_of
from fake_registry import a_registry

pytestmark = [pytest.mark.broker, pytest.mark.spark]

EVERY = """named_struct(
    'number', id, 'small', CAST(id AS SMALLINT), 'tiny', CAST(id AS TINYINT),
    'text', IF(id % 3 = 0, NULL, concat('é"\\n', id)),
    'flag', id % 2 = 0, 'price', CAST(id / 100 AS DECIMAL(9, 2)), 'tiniest', CAST(id / 1000000000 AS DECIMAL(18, 12)),
    'real', CAST(id / 8 AS DOUBLE), 'float', CAST(id / 8 AS FLOAT),
    'nan', IF(id % 5 = 0, CAST('NaN' AS DOUBLE), -id / 2D),
    'at', timestamp_micros(1767225600000000 + id * 1000), 'local', TIMESTAMP_NTZ'2026-01-01 00:00:00.001',
    'day', date_add(DATE'2026-01-01', CAST(id AS INT)), 'bytes', CAST(concat('ab', id) AS BINARY),
    'lines', transform(sequence(1, id % 3 + 1),
        n -> named_struct('item', concat('i', n), 'price', IF(n = 1, NULL, n / 2))),
    'counts', map('a', CAST(id AS INT), 'b', CAST(NULL AS INT)), 'numbered', map(CAST(id AS INT), 'x'),
    'nothing', IF(id < 0, 1, NULL), 'items', array(id, NULL), 'empty', named_struct('none', IF(id < 0, 1, NULL))
)"""
READ = """number BIGINT, small SMALLINT, tiny TINYINT, text STRING, flag BOOLEAN, price DECIMAL(9, 2),
    tiniest DECIMAL(18, 12), real DOUBLE, float FLOAT, nan DOUBLE, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE,
    bytes BINARY, lines ARRAY<STRUCT<item: STRING, price: DOUBLE>>, counts MAP<STRING, INT>, items ARRAY<BIGINT>"""


def as_to_json(rows, value):
    """`to_json` of each row, in UTC, as the sink writes times."""
    spark = rows.sparkSession
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        return sorted(row[0] for row in rows.selectExpr(f"to_json({value})").collect())
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.each_kind
def test_records_are_those_of_to_json_and_are_read_back_as_they_were(pykafka, kafka_topic):
    topic = kafka_topic(partitions=2)
    rows = pykafka.spark.range(100).repartition(4)
    pykafka.write(
        rows.selectExpr(f"{EVERY} AS value", "map('k', id) AS key"), topic, valueFormat="json", keyFormat="json"
    )
    found = messages_of(pykafka.bootstrap_servers, topic, (0, 1))
    assert sorted(each.value().decode() for each in found) == as_to_json(rows, EVERY)
    assert sorted(each.key().decode() for each in found) == as_to_json(rows, "map('k', id)")
    back = pykafka.read(topic, valueFormat="json", readerSchema=READ).selectExpr("value.*")
    names = [name for name in back.columns if name != "counts"]  # Spark compares no maps
    given = rows.selectExpr(f"{EVERY} AS value").selectExpr("value.*").select(names)
    assert sorted(map(str, back.select(names).collect())) == sorted(map(str, given.collect()))


def test_a_stream_writes_by_a_json_schema_that_it_registers(pykafka, kafka_topic, tmp_path):
    topic = kafka_topic(partitions=1)
    with a_registry() as registry:
        rows = pykafka.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
        query = (
            rows.selectExpr("named_struct('n', value, 'half', IF(value % 2 = 0, value / 2, NULL)) AS value")
            .writeStream.format("pykafka")
            .options(**{"kafka.bootstrap.servers": pykafka.bootstrap_servers, "topic": topic, "valueFormat": "json"})
            .options(**{"schemaRegistry.url": registry.url, "writerSchema": "register"})
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            while len(query.recentProgress) < 3 and query.isActive:
                query.awaitTermination(0.2)
        finally:
            query.stop()
        (schema_id,) = registry.by_id
        assert len([path for path in registry.paths if path.startswith(f"/subjects/{topic}-value/versions")]) == 1
    found = [each.value() for each in messages_of(pykafka.bootstrap_servers, topic, (0,))]
    assert {each[:5] for each in found} == {b"\0" + schema_id.to_bytes(4, "big")}
    values = {record["n"]: record for record in (json.loads(each[5:]) for each in found)}
    assert all(record == ({"n": n, "half": n / 2} if n % 2 == 0 else {"n": n}) for n, record in values.items())
    assert len(values) >= 40


TYPES = {
    "TINYINT": "CAST({n} % 128 AS TINYINT)",
    "INT": "CAST({n} % 2147483647 AS INT)",
    "BIGINT": "CAST({n} AS BIGINT)",
    "DECIMAL(38, 10)": "CAST({n} AS DECIMAL(38, 0)) / CAST(1000000 AS DECIMAL(18, 8))",
    "STRING": "concat(chr({n} % 300), hex({n}), chr({n} % 40), char({n} % 128))",
    "BINARY": "CAST(hex({n}) AS BINARY)",
    "BOOLEAN": "{n} % 2 = 0",
    "DATE": "date_add(DATE'1970-01-01', CAST({n} % 3000000 AS INT))",
    "TIMESTAMP": "timestamp_millis({n} % 100000000000000)",
    "TIMESTAMP_NTZ": "CAST(timestamp_millis({n} % 10000000000000) AS TIMESTAMP_NTZ)",
    "DOUBLE": "CAST({n} AS DOUBLE) / 1024",
    "FLOAT": "CAST({n} % 1000000 AS FLOAT) / 64",
}


def an_expression(drawn, depth):
    """A random type, as the expression of a value that depends on the row."""
    kind = drawn.choice(["struct", "array", "map", "scalar", "scalar"] if depth else ["struct"])
    if kind == "scalar" or depth > 3:
        name = drawn.choice(list(TYPES))
        number = f"(xxhash64(id, {drawn.randrange(1 << 30)}) {drawn.choice(['', '% 1000', '% 1000000'])})"
        value = f"CAST({TYPES[name].format(n=number)} AS {name})"
    elif kind == "struct":
        fields = [f"'{drawn.choice('aéZ')}{n}', {an_expression(drawn, depth + 1)}" for n in range(drawn.randint(1, 5))]
        value = f"named_struct({', '.join(fields)})"
    elif kind == "array":
        value = f"transform(sequence(1, id % 4), x -> {an_expression(drawn, depth + 1)})"
    else:
        key = drawn.choice(["concat('k', id)", "CAST(id AS INT)", "id % 2 = 0", "CAST(id AS DECIMAL(9, 2))"])
        value = f"map({key}, {an_expression(drawn, depth + 1)})"
    return value if depth == 0 else f"IF(xxhash64(id, {drawn.randrange(1 << 30)}) % 4 = 0, NULL, {value})"


@pytest.mark.extended
@pytest.mark.parametrize("seed", range(20))
def test_random_types_and_values_are_those_of_to_json(pykafka, kafka_topic, seed):
    expression = an_expression(random.Random(seed), 0)
    topic = kafka_topic(partitions=1)
    rows = pykafka.spark.range(200)
    pykafka.write(rows.selectExpr(f"{expression} AS value"), topic, valueFormat="json")
    found = sorted(each.value().decode() for each in messages_of(pykafka.bootstrap_servers, topic, (0,)))
    assert found == as_to_json(rows, expression)
