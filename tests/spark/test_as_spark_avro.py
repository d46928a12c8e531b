"""Records of every type, and random ones of random schemas: the rows of `valueFormat=avro` are those of spark-avro's
`from_avro`, and its records those of `to_avro`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import each_avro_type
import pytest
from confluent_kafka import Producer
from fastavro_oracle import Changed, definitions, read, values, written
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from other_sparks import run_on
from schema_strategies import record_schemas

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.testing.broker import cache_dir, resolve_jars

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.extended, pytest.mark.peers]
APP = Path(__file__).with_name("spark_avro_app.py")
PAIRS, RECORDS = 30, 3


def pairs() -> list[tuple[Any, dict[int, Any], list[bytes]]]:
    """(reader's schema, the writers' by id, framed records). A reader reads its own records, and those of another."""
    made: list[tuple[Any, dict[int, Any], list[bytes]]] = []

    @settings(max_examples=PAIRS, phases=[Phase.generate], database=None, derandomize=True, deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.data())
    def collect(data: Any) -> None:
        writer = data.draw(record_schemas(depth=2))
        reader = Changed(data.draw).node(writer)
        try:
            parse_schema(json.dumps(reader))
        except SchemaError:
            return  # fields in another order: a name stands before its definition
        records = []
        for number, schema in ((1, writer), (2, reader)):
            for _ in range(RECORDS):
                record = written(schema, values(data.draw, schema, definitions(schema)))
                if isinstance(read(record, schema, reader), Exception):
                    return  # the tests of bad records have those
                records.append(b"\0" + number.to_bytes(4, "big") + record)
        made.append((reader, {1: writer, 2: reader}, records))

    collect()
    return made


def each_type() -> list[tuple[Any, dict[int, Any], list[bytes]]]:
    each = each_avro_type.schema()
    return [(each, {1: each}, [b"\0\0\0\0\1" + record for record in each_avro_type.records()])]


@pytest.mark.parametrize(("cases", "least"), [(each_type, each_avro_type.RECORDS), (pairs, PAIRS * RECORDS + 1)])
def test_rows_are_those_of_from_avro_and_records_those_of_to_avro(kafka_broker, kafka_topic, tmp_path, cases, least):
    """Most of the random pairs have rows of two writers."""
    jar = resolve_jars("org.apache.spark:spark-avro_2.13:4.2.0!", dest=cache_dir() / "spark-avro-4.2.0")[0]
    made = cases()
    topic = kafka_topic(partitions=len(made))
    written_to = kafka_topic(partitions=len(made), prefix="written")
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for partition, (_, _, records) in enumerate(made):
        for record in records:
            producer.produce(topic, record, partition=partition)
    assert producer.flush(60) == 0
    schemas = tmp_path / "schemas.json"
    schemas.write_text(json.dumps([(reader, writers) for reader, writers, _ in made]))
    answer = run_on("4.2", APP, kafka_broker.bootstrap_servers, topic, schemas, tmp_path, jar, written_to)
    assert not answer["differ"], "\n".join(answer["differ"][:5])
    assert answer["equal"] >= least
    assert answer["written"] >= 3 * least  # compared by fastavro; ours and `to_avro`'s, read without a schema id
