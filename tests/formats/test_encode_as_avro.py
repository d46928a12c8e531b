"""Encodes random schemas and values: fastavro writes the same bytes, and it and Avro's Java classes read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastavro_oracle import MANY_BYTES, column, decoder, definitions, read, same, values, written
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from java_programs import SPARK, ask_java
from random_inputs import examples
from schema_strategies import record_schemas, schemas
from test_decode_as_java import PROGRAM, encoded, from_java

from kafkasource.formats.avro.encode import AvroEncoder
from kafkasource.formats.avro.parse import parse_schema

pytestmark = pytest.mark.peers

FAST = settings(
    max_examples=examples(200), deadline=None, derandomize=True, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def has_number_union(node: Any) -> bool:
    """A union of int and long, or float and double, is a single column; the wider branch is written."""
    if isinstance(node, list):
        kinds = {item if isinstance(item, str) else item["type"] for item in node} - {"null"}
        return kinds in ({"int", "long"}, {"float", "double"}) or any(map(has_number_union, node))
    if isinstance(node, dict):
        parts = [field["type"] for field in node.get("fields", ())] + [node.get("items"), node.get("values")]
        return any(map(has_number_union, parts))
    return False


def ours_of(schema: Any, records: list[bytes]) -> list[bytes]:
    """The records as columns, by our decoder, and encoded again."""
    array = decoder(schema, schema).decode(column(records), MANY_BYTES).array
    encoder = AvroEncoder(array.type, parse_schema(json.dumps(schema)))
    return [record for piece in encoder.pieces(array, 1 << 20) for record in piece.records.to_pylist()]


@FAST
@given(st.data())
def test_records_are_those_that_fastavro_writes(data):
    schema = data.draw(schemas(depth=3))
    try:
        given_values = [values(data.draw, schema, definitions(schema)) for _ in range(3)]
    except KeyError:  # a name whose definition was in a branch that the union has twice
        assume(False)
    records = [written(schema, value) for value in given_values]
    for ours, record in zip(ours_of(schema, records), records, strict=True):
        if ours is None:  # a null row: the schema is null, or a union with it
            assert read(record, schema, schema) is None
        elif not has_number_union(schema):
            assert ours == record, schema
        else:
            assert same_value(read(ours, schema, schema), read(record, schema, schema)), schema


def same_value(ours: Any, theirs: Any) -> bool:
    return repr(ours) == repr(theirs)


@pytest.mark.extended
def test_records_are_read_by_java_as_what_fastavro_wrote():
    asked: list[tuple[Any, bytes, bytes]] = []

    @settings(parent=FAST, max_examples=250)
    @given(st.data())
    def collect(data: Any) -> None:
        schema = data.draw(record_schemas(depth=2, logical=False))
        record = written(schema, values(data.draw, schema, definitions(schema)))
        asked.append((schema, record, ours_of(schema, [record])[0]))

    collect()
    texts = [encoded(json.dumps(schema).encode()) for schema, _, _ in asked]
    ours = ask_java(PROGRAM, [(t, t, encoded(o)) for t, (_, _, o) in zip(texts, asked, strict=True)], SPARK)
    theirs = ask_java(PROGRAM, [(t, t, encoded(r)) for t, (_, r, _) in zip(texts, asked, strict=True)], SPARK)
    right = 0
    for (schema, _, _), one, other in zip(asked, ours, theirs, strict=True):
        assert one.startswith("error") == other.startswith("error"), (schema, one, other)
        if not one.startswith("error"):
            right += 1
            assert same(from_java(json.loads(one)), from_java(json.loads(other))), (schema, one, other)
    assert right > len(asked) // 2
