"""Protobuf records, whole and damaged: our types and rows are those of Spark's `from_protobuf`, which are on file."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.unknown_fields import UnknownFieldSet
from protobuf_oracle import WELL_KNOWN, canonical, file_of, plain
from pyspark.sql.pandas.types import from_arrow_type

from kafkasource.formats.protobuf.decode import ProtobufDecoder
from kafkasource.formats.protobuf.schema import read_schema

RECORDED = json.loads(Path(__file__).with_name("spark_protobuf_rows.json").read_text())
# 11 schemas with required fields have no rows: pyarrow refused Spark's null records when these were recorded.
CASES = [case for case in RECORDED["cases"] if case["type"] is not None]


def decoder_of(case):
    schema = read_schema(case["file"])
    return ProtobufDecoder(schema, schema.message_named("p.M0"))


def test_there_are_cases():
    assert len(CASES) == len(RECORDED["cases"]) - 11 == 51


@pytest.mark.parametrize("case", CASES, ids=map(str, range(len(CASES))))
def test_rows_are_those_of_from_protobuf(case):
    decoder = decoder_of(case)
    assert from_arrow_type(decoder.type).simpleString() == case["type"]
    records = [base64.b64decode(each) for each in case["records"]]
    decoded = decoder.decode(pa.array(records, pa.binary()), 64 << 20)
    rows = [None if row is None else repr(canonical(row)) for row in plain(decoded.array)]
    for ours, theirs, record in zip(rows, case["rows"], records, strict=True):
        if theirs is None and ours is not None:
            assert has_known_number_of_unknown_field(case, record)
        else:
            assert ours == theirs


def has_known_number_of_unknown_field(case, record):
    """Then Spark refuses the record: decision 129."""
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(case["file"]))
    pool = descriptor_pool.DescriptorPool()
    for module in WELL_KNOWN:
        pool.Add(file_of(module))
    pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M0")).FromString(record)
    known = {field.number for field in message.DESCRIPTOR.fields}
    return any(each.field_number in known for each in UnknownFieldSet(message))
