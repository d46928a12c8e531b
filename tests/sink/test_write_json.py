"""valueFormat=json of a write: with a JSON Schema of a registry, of a function, and without any."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest
from fake_registry import a_registry
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, StructType, VariantType

from kafkasource.errors import OptionError, SchemaError
from kafkasource.kafka.producer.rows import InvalidRow
from kafkasource.sink.clusters import targets
from kafkasource.sink.columns import checked_rows
from kafkasource.sink.writer import BatchWriter

ORDER = json.dumps({
    "type": "object",
    "properties": {"id": {"type": "integer"}, "item": {"type": "string"}},
    "required": ["id"],
})  # fmt: skip
AVRO_ORDER = (
    '{"type":"record","name":"O","fields":[{"name":"id","type":"long"},{"name":"item","type":["null","string"]}]}'
)
VALUE = pa.struct([("id", pa.int64()), ("item", pa.string())])
ROWS = [{"id": 1, "item": "é"}, None, {"id": 2, "item": None}]
RECORDS = ['{"id":1,"item":"é"}'.encode(), None, b'{"id":2}']


def schema_of(schema_id):
    """A function of a user."""
    return {1: ORDER, 2: AVRO_ORDER}.get(schema_id)


FUNCTION = f"{__name__}:schema_of"


@pytest.fixture
def registry():
    with a_registry() as found:
        yield found


def written(url=None, columns=(("value", VALUE),), **options):
    given = {"kafka.bootstrap.servers": "localhost:1", "topic": "orders", "valueFormat": "json", **options}
    if url is not None:
        given["schemaRegistry.url"] = url
    return BatchWriter(
        targets.parse({name: text for name, text in given.items() if text is not None}),
        from_arrow_schema(pa.schema(list(columns))),
    )


def rows_of(writer, values=ROWS, kind=VALUE, side="value"):
    columns = {"value": pa.array([b"v"] * len(values))} | {side: pa.array(values, kind)}
    task = pickle.loads(pickle.dumps(writer))
    (rows,) = checked_rows(
        task._schema, pa.RecordBatch.from_pydict({name: columns[name] for name in task._schema.positions})
    )
    return rows


def framed(number, records=RECORDS):
    return [record and b"\0" + number.to_bytes(4, "big") + record for record in records]


def test_json_needs_neither_registry_nor_schema():
    rows = rows_of(written())
    assert rows.values.to_pylist() == RECORDS
    assert rows.headers is None


def test_keys_are_json_too():
    columns = (("key", VALUE), ("value", pa.binary()))
    assert rows_of(written(None, columns, valueFormat=None, keyFormat="json"), side="key").keys.to_pylist() == RECORDS


@pytest.mark.parametrize("id_in", ["prefix", "header", "none"])
@pytest.mark.parametrize(
    ("writer_schema", "path"),
    [
        (None, "/subjects/orders-value/versions/latest"),
        ("version:1", "/subjects/orders-value/versions/1"),
        ("id:1", "/schemas/ids/1"),
        (ORDER, "/subjects/orders-value"),
    ],
)
def test_a_registrys_json_schema_frames_the_records(registry, writer_schema, path, id_in):
    number = registry.add("orders-value", ORDER, "JSON")
    rows = rows_of(written(registry.url, writerSchema=writer_schema, schemaIdIn=id_in))
    assert rows.values.to_pylist() == (framed(number) if id_in == "prefix" else RECORDS)
    header = [{"key": "__value_schema_id", "value": b"\0" + number.to_bytes(4, "big")}]
    assert (rows.headers and rows.headers.to_pylist()) == ([header, [], header] if id_in == "header" else None)
    assert registry.paths == ([] if id_in == "none" and writer_schema == ORDER else [path])


def test_register_derives_a_schema_and_registers_it_once(registry):
    for _ in range(2):
        assert rows_of(written(registry.url, writerSchema="register")).values.to_pylist() == framed(1)
    (found,) = registry.by_id.values()
    assert found["schemaType"] == "JSON"
    assert json.loads(found["schema"]) == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "item": {"type": "string"}},
        "additionalProperties": False,
    }


def test_a_schema_of_a_file_is_kept_to_without_a_registry(tmp_path):
    file = tmp_path / "order.json"
    file.write_text(ORDER)
    for text in (f"file:{file}", ORDER):
        writer = written(writerSchema=text, schemaIdIn="none")
        assert rows_of(writer).values.to_pylist() == RECORDS
        with pytest.raises(InvalidRow, match=r"column 'value' cannot be encoded: \$\.id: the value is null"):
            rows_of(writer, [{"id": None, "item": "x"}])


def test_what_does_not_fit_is_an_error_before_a_task(registry):
    registry.add("orders-value", ORDER, "JSON")
    with pytest.raises(SchemaError, match=r"option 'writerSchema' \(id 1\): \$\.id: a column of string"):
        pickle.dumps(written(registry.url, [("value", pa.struct([("id", pa.string())]))]))
    with pytest.raises(
        SchemaError, match=r"column 'value' cannot be written as JSON: .*from a struct, a map or an array"
    ):
        pickle.dumps(written(None, [("value", pa.string())]))
    registry.add("orders-value", '"long"')
    with pytest.raises(OptionError, match=r"the schema \(id 2\) is AVRO, and the format needs JSON"):
        pickle.dumps(written(registry.url))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"writerSchema": ORDER}, "needs 'schemaRegistry.url'"),
        ({"writerSchema": "latest"}, "needs 'schemaRegistry.url'"),
        ({"schemaIdIn": "header"}, "JSON is written without one"),
        ({"schemaRegistry": FUNCTION}, "a function knows ids alone"),
        ({"schemaRegistry": FUNCTION, "writerSchema": "register"}, "a function knows ids alone"),
        ({"schemaRegistry": FUNCTION, "writerSchema": "latest", "valueFormat": "avro"}, "a function knows ids alone"),
        ({"schemaRegistry": FUNCTION, "writerSchema": "subject:s"}, "Set 'writerSchema' to id:7"),
        ({"schemaRegistry": FUNCTION, "writerSchema": AVRO_ORDER, "valueFormat": "avro"}, "with schemaIdIn=none"),
    ],
)
def test_options_that_cannot_work_together_are_refused_with_the_next_step(options, words):
    with pytest.raises(OptionError, match=words):
        written(**options)


def test_a_function_gives_the_schema_of_an_id():
    assert rows_of(written(schemaRegistry=FUNCTION, writerSchema="id:1")).values.to_pylist() == framed(1)
    rows = rows_of(written(schemaRegistry=FUNCTION, writerSchema="id:2", valueFormat="avro", schemaIdIn="header"))
    assert rows.values.to_pylist() == [b"\2\2\4\xc3\xa9", None, b"\4\0"]
    assert rows.headers.to_pylist()[0] == [{"key": "__value_schema_id", "value": b"\0\0\0\0\2"}]


def test_a_function_that_does_not_know_the_id_fails_the_write():
    with pytest.raises(OptionError, match=r"'writerSchema': .*schema_of returned None for schema id 3"):
        pickle.dumps(written(schemaRegistry=FUNCTION, writerSchema="id:3"))
    with pytest.raises(OptionError, match="schemaRegistry"):
        pickle.dumps(written(schemaRegistry="no_such_module:f", writerSchema="id:3"))


def test_a_variant_is_refused():
    """Arrow has its bytes as a struct, which would be written as one."""
    kind = StructType().add("value", StructType().add("v", ArrayType(VariantType())))
    given = {"kafka.bootstrap.servers": "localhost:1", "topic": "orders", "valueFormat": "json"}
    with pytest.raises(SchemaError, match="column 'value' cannot be encoded: a variant"):
        BatchWriter(targets.parse(given), kind)
