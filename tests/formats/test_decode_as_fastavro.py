"""Random schemas, values and changes of schemas: our columns are what fastavro reads."""

from __future__ import annotations

from typing import Any

import each_avro_type
import pyarrow as pa
import pytest
from fastavro_oracle import MANY_BYTES, Changed, column, decoder, definitions, read, same, values, written
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from random_inputs import examples
from schema_strategies import record_schemas, schemas

from kafkasource.errors import SchemaError

pytestmark = pytest.mark.peers

FAST = settings(
    max_examples=examples(150),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def plain(array: pa.Array) -> list[Any]:
    array.validate(full=True)
    return array.to_pylist()


@FAST
@given(st.data())
def test_records_are_read_by_the_schema_that_wrote_them(data):
    schema = data.draw(schemas(depth=3))
    records = [written(schema, values(data.draw, schema, definitions(schema))) for _ in range(3)]
    decoded = decoder(schema, schema).decode(column([*records, None], b"12345"), MANY_BYTES, skip_bytes=5)
    assert (decoded.bad, decoded.end) == (0, 4), list(decoded.faults())
    for ours, record in zip(plain(decoded.array)[:3], records, strict=True):
        theirs = read(record, schema, schema)
        assert same(ours, theirs), (schema, ours, theirs)


@FAST
@given(st.data())
def test_records_are_read_by_a_schema_that_has_changed(data):
    writer = data.draw(record_schemas(depth=2))
    reader = Changed(data.draw).node(writer)
    records = [written(writer, values(data.draw, writer, definitions(writer))) for _ in range(3)]
    try:
        ours_of = decoder(reader, writer)
    except SchemaError as error:
        assume("unknown type" not in str(error) and "defined twice" not in str(error))
        # fastavro notices an unreadable type at its first value, so not in an empty list.
        return
    decoded = ours_of.decode(column(records), MANY_BYTES)
    faults = {fault.row: fault for fault in decoded.faults()}
    for row, (ours, record) in enumerate(zip(plain(decoded.array), records, strict=True)):
        theirs = read(record, writer, reader)
        if isinstance(theirs, Exception) or row in faults:
            assert isinstance(theirs, Exception) == (row in faults), (writer, reader, faults.get(row), theirs)
        else:
            assert same(ours, theirs), (writer, reader, ours, theirs)


def test_each_type_in_each_form_is_read_at_its_edges():
    schema, records = each_avro_type.schema(), each_avro_type.records()
    decoded = decoder(schema, schema).decode(column(records), MANY_BYTES)
    assert decoded.bad == 0, list(decoded.faults())
    as_in_spark = each_avro_type.without_logical_types(schema, ("uuid", "time-millis", "time-micros"))
    for ours, record in zip(plain(decoded.array), records, strict=True):
        theirs = read(record, as_in_spark, as_in_spark)
        for name in each_avro_type.field_names():
            assert same(ours[name], theirs[name]), (name, ours[name], theirs[name])
