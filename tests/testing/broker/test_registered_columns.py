"""writerSchema=register against Apicurio: what the driver registers, and the registry's refusal with the field."""

from __future__ import annotations

import json
import pickle
import urllib.request

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from kafkasource.errors import OptionError
from kafkasource.formats.registry import RegistryClient, RegistryOptions
from kafkasource.sink.clusters import targets
from kafkasource.sink.columns import checked_rows
from kafkasource.sink.writer import BatchWriter

pytestmark = [pytest.mark.broker, pytest.mark.extended]

OLD = pa.struct([("id", pa.int64()), ("item", pa.string())])
NEW = pa.struct([*OLD, pa.field("price", pa.float64(), False)])


def ids_of(url, data_type, **options):
    """The schema ids of two records that a task writes. No broker is asked before there are rows."""
    given = {"kafka.bootstrap.servers": "localhost:1", "topic": "orders", "valueFormat": "avro"}
    named = {**given, "schemaRegistry.url": url, **options}
    writer = BatchWriter(targets.parse(named), from_arrow_schema(pa.schema([("value", data_type)])))
    rows = pa.RecordBatch.from_pydict({"value": pa.array([{"id": 1, "item": "a", "price": 1.5}] * 2, data_type)})
    (encoded,) = checked_rows(pickle.loads(pickle.dumps(writer))._schema, rows)
    return {int.from_bytes(value[1:5], "big") for value in encoded.values.to_pylist()}


def test_the_columns_schema_is_registered_once_and_a_change_that_the_rule_forbids_is_refused(schema_registry):
    url = schema_registry.url
    client = RegistryClient(RegistryOptions.of({"url": url}))
    (first,) = ids_of(url, OLD, writerSchema="register")
    assert ids_of(url, OLD, writerSchema="register") == ids_of(url, OLD) == {first}
    assert client.versions("orders-value") == [1]
    rule = json.dumps({"compatibility": "BACKWARD"}).encode()
    asked = urllib.request.Request(
        f"{url}/config/orders-value", rule, {"Content-Type": "application/json"}, method="PUT"
    )
    urllib.request.urlopen(asked).close()
    with pytest.raises(
        OptionError, match=r"'orders-value' does not take the schema of the column 'value': .*/fields/2"
    ):
        ids_of(url, NEW, writerSchema="register")
    assert client.versions("orders-value") == [1]
    text = client.version("orders-value").definition.text
    assert ids_of(url, OLD, writerSchema=text) == ids_of(url, OLD, writerSchema=f"id:{first}") == {first}
