"""Canonical forms and fingerprints of schemas are those of Avro's specification, and of fastavro."""

from __future__ import annotations

import json

import each_avro_type
import pytest
from hypothesis import given, settings
from schema_strategies import schemas

from kafkasource.formats.avro.fingerprint import canonical_form, fingerprint_of
from kafkasource.formats.avro.parse import parse_schema

fastavro_schema = pytest.importorskip("fastavro.schema")


def theirs(node):
    """fastavro gives the bytes as a record has them, as hexadecimal digits."""
    return fastavro_schema.fingerprint(fastavro_schema.to_parsing_canonical_form(node), "CRC-64-AVRO")


@pytest.mark.parametrize(
    ("schema", "number"),
    [
        ("null", 7195948357588979594),
        ("boolean", -6970731678124411036),
        ({"type": "fixed", "name": "foo", "size": 15}, 1756455273707447556),
        ({"type": "record", "name": "foo", "fields": [{"name": "f1", "type": "boolean"}]}, 7843277075252814651),
    ],
)
def test_fingerprints_are_those_of_avros_own_tests(schema, number):
    """share/test/data/schema-tests.txt of Avro has the numbers, of signed longs."""
    assert int.from_bytes(fingerprint_of(parse_schema(json.dumps(schema))), "little", signed=True) == number


def test_the_canonical_form_has_no_more_than_the_specification_says():
    text = """{"namespace": "n", "name": "R", "doc": "d", "type": "record", "aliases": ["Q"], "fields": [
      {"type": {"type": "int", "logicalType": "date"}, "name": "\\u0061", "default": 1, "order": "ignore"},
      {"name": "e", "type": {"type": "enum", "symbols": ["A"], "name": "E", "default": "A"}},
      {"name": "again", "type": {"type": "array", "items": ["null", "E"]}}]}"""
    assert canonical_form(parse_schema(text)) == (
        '{"name":"n.R","type":"record","fields":[{"name":"a","type":"int"},'
        '{"name":"e","type":{"name":"n.E","type":"enum","symbols":["A"]}},'
        '{"name":"again","type":{"type":"array","items":["null","n.E"]}}]}'
    )


def test_the_fingerprint_of_each_type_is_fastavros():
    schema = each_avro_type.schema()
    assert fingerprint_of(parse_schema(json.dumps(schema))).hex() == theirs(schema)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(schemas())
def test_fingerprints_of_random_schemas_are_fastavros(schema):
    assert fingerprint_of(parse_schema(json.dumps(schema))).hex() == theirs(schema)
