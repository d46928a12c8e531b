"""Keys and values that a write encodes: what the driver resolves, and the records and headers of a task's rows."""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from fake_registry import Fault, a_registry
from kept_schemas import framed
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType, YearMonthIntervalType

from kafkasource.errors import KafkaSourceError, OptionError, RegistryError, SchemaError
from kafkasource.formats.reading.formats import BAD_RECORD_TYPE
from kafkasource.formats.schema_source import RegisteredSchema
from kafkasource.formats.writing import resolve
from kafkasource.formats.writing.formats import WriteFormat
from kafkasource.kafka.producer.rows import InvalidRow
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.sink.clusters import targets
from kafkasource.sink.columns import checked_rows
from kafkasource.sink.schema import InvalidSchema, SinkSchema
from kafkasource.sink.writer import BatchWriter, StreamWriter

fastavro = pytest.importorskip("fastavro")

FRAMES = json.loads((Path(__file__).parents[1] / "formats" / "confluent_frames.json").read_text())
ORDER = json.loads(FRAMES["schema"])
VALUE = pa.struct([("id", pa.int64()), ("item", pa.string())])
COLUMNS = {"key": pa.string(), "value": VALUE}
RECORDS = [{"id": number, "item": f"é{number}"} for number in range(5)]


@pytest.fixture
def registry():
    with a_registry() as found:
        yield found


def rows_of(writer, batch):
    """The writer as a task has it: unpickled."""
    return list(checked_rows(pickle.loads(pickle.dumps(writer))._schema, batch))


def written(url, columns=COLUMNS, kind=BatchWriter, **options):
    given = {"kafka.bootstrap.servers": "localhost:1", "topic": "orders", "valueFormat": "avro", **options}
    if url is not None:
        given["schemaRegistry.url"] = url
    named = {name.replace("__", "."): text for name, text in given.items() if text is not None}
    return kind(targets.parse(named), from_arrow_schema(pa.schema(list(columns.items()))))


def batch(values=RECORDS, keys=None, kind=VALUE, **more):
    columns = {"key": pa.array(keys or [None] * len(values), pa.string()), "value": pa.array(values, kind), **more}
    return pa.RecordBatch.from_pydict(columns)


def test_values_are_encoded_by_the_latest_schema_of_the_topics_subject(registry):
    registry.add("orders-value", '{"type":"record","name":"Order","fields":[]}')
    number = registry.add("orders-value", FRAMES["schema"])
    (rows,) = rows_of(written(registry.url), batch([*RECORDS, None]))
    assert rows.values.to_pylist() == [framed(number, ORDER, each) for each in RECORDS] + [None]
    assert rows.headers is None
    assert rows.keys is None


def test_a_task_asks_no_registry_and_is_told_no_credentials(registry):
    registry.add("orders-value", FRAMES["schema"])
    registry.user = "Basic YTpzZWNyZXQ="  # a:secret
    writer = written(registry.url, schemaRegistry__basic__auth__user__info="a:secret")
    state = pickle.dumps(writer)
    asked = len(registry.requests)
    assert b"secret" not in state.replace(b"kafkasource.kafka.security.secrets", b"")
    for _ in range(2):
        assert len(list(checked_rows(pickle.loads(state)._schema, batch()))) == 1
    pickle.dumps(writer)  # Spark may do so several times
    assert len(registry.requests) == asked == 1


@pytest.mark.parametrize("vector", FRAMES["vectors"], ids=lambda each: f"{each['side']} {each['form']}")
def test_frames_are_those_of_confluents_serializer(registry, vector):
    side, schema_id = vector["side"], FRAMES["schema_id"]
    registry.by_id[schema_id] = {"schema": FRAMES["schema"]}
    wanted = {f"{side}Format": "avro", "schemaIdIn": vector["form"]}
    wanted["writerSchema" if side == "value" else "keyWriterSchema"] = f"id:{schema_id}"
    types = {side: VALUE} | ({"value": pa.binary()} if side == "key" else {})
    columns = {side: pa.array([FRAMES["record"]], VALUE)}
    if side == "key":
        columns["value"] = pa.array([b"v"], pa.binary())
    writer = written(registry.url, types, **{"valueFormat": None, **wanted})
    (rows,) = rows_of(writer, pa.RecordBatch.from_pydict(columns))
    record = (rows.values if side == "value" else rows.keys).to_pylist()
    assert record == [bytes.fromhex(vector["bytes"])]
    if vector["form"] == "prefix":
        assert rows.headers is None
    else:  # Confluent 8 writes the GUID; where a registry has none, its deserializers take 0x00 and the id, too
        name = vector["headers"][0][0]
        assert rows.headers.to_pylist() == [[{"key": name, "value": b"\0" + schema_id.to_bytes(4, "big")}]]


def test_headers_with_ids_stand_behind_a_rows_own_and_a_tombstone_has_none(registry):
    number = registry.add("orders-value", FRAMES["schema"])
    key_number = registry.add("orders-key", '"long"')
    own = [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None, [], [{"key": "c", "value": b"3"}]]
    values = [RECORDS[0], RECORDS[1], None, RECORDS[3]]
    writer = written(
        registry.url,
        {"key": pa.int64(), "value": VALUE, "headers": HEADERS_TYPE},
        keyFormat="avro",
        schemaIdIn="header",
    )
    columns = {
        "key": pa.array([1, None, 3, 4], pa.int64()),
        "value": pa.array(values, VALUE),
        "headers": pa.array(own, HEADERS_TYPE),
    }
    (rows,) = rows_of(writer, pa.RecordBatch.from_pydict(columns))
    rows.headers.validate(full=True)
    value_id = {"key": "__value_schema_id", "value": b"\0" + number.to_bytes(4, "big")}
    key_id = {"key": "__key_schema_id", "value": b"\0" + key_number.to_bytes(4, "big")}
    assert rows.headers.to_pylist() == [
        [*own[0], value_id, key_id],
        [value_id],
        [key_id],
        [*own[3], value_id, key_id],
    ]
    assert rows.keys.to_pylist() == [b"\2", None, b"\6", b"\x08"]


def test_a_large_batch_comes_in_pieces_whose_rows_stay_together(registry, monkeypatch):
    monkeypatch.setattr("kafkasource.formats.writing.rows.MOST_BYTES", 5000)
    registry.add("orders-value", FRAMES["schema"])
    registry.add("orders-key", '"string"')
    values = [{"id": n, "item": "x" * (n % 300)} for n in range(1000)]
    keys = [None if n % 7 == 0 else f"k{n}" * (n % 90) for n in range(1000)]
    pieces = rows_of(
        written(registry.url, keyFormat="avro"), batch(values, keys, partition=pa.array([0] * 1000, pa.int32()))
    )
    assert len(pieces) > 30
    found = [pair for rows in pieces for pair in zip(rows.keys.to_pylist(), rows.values.to_pylist(), strict=True)]
    number = registry.subjects["orders-value"][1]
    assert [value for _, value in found] == [framed(number, ORDER, each) for each in values]
    texts = [None if key is None else fastavro.schemaless_reader(io.BytesIO(key[5:]), "string") for key, _ in found]
    assert texts == keys
    assert sum(rows.count for rows in pieces) == 1000


@pytest.mark.parametrize(
    ("writer_schema", "path"),
    [
        ("latest", "/subjects/orders-value/versions/latest"),
        ("version:1", "/subjects/orders-value/versions/1"),
        ("subject:other", "/subjects/other/versions/latest"),
        ("id:1", "/schemas/ids/1"),
        (FRAMES["schema"], "/subjects/orders-value"),
    ],
)
def test_each_way_to_name_the_schema_is_one_question(registry, writer_schema, path):
    number = registry.add("orders-value", FRAMES["schema"])
    assert registry.add("other", FRAMES["schema"]) == number == 1
    (rows,) = rows_of(written(registry.url, writerSchema=writer_schema), batch())
    assert rows.values.to_pylist() == [framed(1, ORDER, each) for each in RECORDS]
    assert registry.paths == [path]


def test_a_file_and_a_text_need_no_registry_where_records_name_no_schema(tmp_path):
    file = tmp_path / "order.avsc"
    file.write_text(FRAMES["schema"])
    for text in (f"file:{file}", FRAMES["schema"]):
        (rows,) = rows_of(written(None, writerSchema=text, schemaIdIn="none"), batch())
        assert rows.values.to_pylist() == [framed(1, ORDER, each)[5:] for each in RECORDS]


def test_each_micro_batch_of_a_stream_has_the_schema_that_the_first_has_found(registry, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(resolve._of_streams.get(), "_clock_s", lambda: now[0])
    first = registry.add("orders-value", FRAMES["schema"])
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "new", "type": "int", "default": 0}]}

    def ids(kind):
        (rows,) = rows_of(written(registry.url, kind=kind), batch())
        return {int.from_bytes(value[1:5], "big") for value in rows.values.to_pylist()}

    assert ids(StreamWriter) == {first}
    second = registry.add("orders-value", json.dumps(newer))
    for _ in range(5):
        now[0] += 50
        assert ids(StreamWriter) == {first}
    assert len(registry.requests) == 1
    assert ids(BatchWriter) == {second}  # a batch write is new each time
    now[0] += 61  # nobody has asked for so long: the query was started again
    assert ids(StreamWriter) == {second}


def test_what_does_not_fit_is_an_error_before_a_task_with_the_field(registry):
    registry.add("orders-value", FRAMES["schema"])
    with pytest.raises(SchemaError, match=r"column 'value' .*'writerSchema' \(id 1\): \$\.id: a column of string"):
        pickle.dumps(written(registry.url, {"value": pa.struct([("id", pa.string()), ("item", pa.string())])}))
    with pytest.raises(SchemaError, match=r"\$\.item: the writer's schema needs this field"):
        pickle.dumps(written(registry.url, {"value": pa.struct([("id", pa.int64())])}))
    with pytest.raises(SchemaError, match="has a field 'more'"):
        pickle.dumps(written(registry.url, {"value": pa.struct([*VALUE, ("more", pa.int32())])}))


def test_a_column_that_may_be_null_is_warned_of_and_a_null_fails_its_row_with_the_field(registry, caplog):
    registry.add("orders-value", FRAMES["schema"])
    with pytest.raises(InvalidRow, match=r"^column 'value' cannot be encoded: \$\.item: the value is null"):
        rows_of(written(registry.url), batch([RECORDS[0], {"id": 1, "item": None}]))
    assert "may be null where the schema of option 'writerSchema' (id 1) has no null: $.id, $.item" in caplog.text
    caplog.clear()
    pickle.dumps(written(registry.url, {"value": pa.struct([each.with_nullable(False) for each in VALUE])}))
    assert not caplog.text


def test_a_registry_that_does_not_know_fails_the_write_with_the_next_step(registry):
    for options, words in (
        ({}, r"[^.]\. Name the subject, writerSchema=subject:NAME; .* A new subject: writerSchema=register, or"),
        ({"writerSchema": "id:77"}, "there is no schema id 77"),
        ({"writerSchema": FRAMES["schema"]}, "Register it first"),
        ({"writerSchema": "newest"}, "expected latest, version:3, subject:NAME, id:7, file:PATH, register"),
        ({"writerSchema": "file:/no/such/file"}, "cannot be read"),
        ({"topic": None}, "the rows name their topics"),
    ):
        with pytest.raises(OptionError, match=words):
            pickle.dumps(written(registry.url, {"topic": pa.string(), **COLUMNS}, **options))
    registry.add("orders-value", '{"type":"object"}', "JSON")
    with pytest.raises(OptionError, match="the schema \\(id 1\\) is JSON, and the format needs AVRO"):
        pickle.dumps(written(registry.url))
    registry.always = Fault(status=500)
    with pytest.raises(RegistryError, match="500"):
        pickle.dumps(written(registry.url, schemaRegistry__retry__timeout__ms="0"))


def test_good_rows_are_encoded_and_dead_letters_are_the_bytes_that_were_read():
    types = {
        **{"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "headers": HEADERS_TYPE},
        **{"value": VALUE, "badRecord": BAD_RECORD_TYPE},
    }
    columns = from_arrow_schema(pa.schema(list(types.items())))
    schema = SinkSchema.check(columns, "clean", dead_letter_topic="dlq", typed=("value",))
    schema = replace(schema, formats=(WriteFormat("value", RegisteredSchema("AVRO", FRAMES["schema"]), 7, True),))
    bad = {"reason": "cut", "schemaId": 7, "key": None, "value": b"\0\0\0\0\7"}
    place = {"topic": ["t"] * 3, "partition": [0] * 3, "offset": [0, 1, 2], "headers": [[("h", b"1")], None, None]}
    given = {**place, "value": [RECORDS[0], None, RECORDS[2]], "badRecord": [None, bad, None]}
    arrays = [pa.array(given[name], kind) for name, kind in types.items()]
    dead, good = checked_rows(schema, pa.RecordBatch.from_arrays(arrays, names=list(types)))
    assert (dead.topic, dead.values.to_pylist()) == ("dlq", [b"\0\0\0\0\7"])
    assert "__value_schema_id" not in [each["key"] for each in dead.headers.to_pylist()[0]]
    assert (good.topic, good.values.to_pylist()) == ("clean", [framed(7, ORDER, RECORDS[at])[5:] for at in (0, 2)])
    assert [[each["key"] for each in row] for row in good.headers.to_pylist()] == [
        ["h", "__value_schema_id"],
        ["__value_schema_id"],
    ]


PROTO = """syntax = "proto3"; package p;
message Other { int32 x = 1; }
message Order { int64 id = 1; string item = 2; }
"""


@pytest.mark.parametrize("id_in", ["prefix", "header", "none"])
def test_protobuf_says_which_message_of_its_schema_a_record_is(registry, id_in):
    number = registry.add("orders-value", PROTO, "PROTOBUF")
    writer = written(registry.url, valueFormat="protobuf", messageName="Order", schemaIdIn=id_in)
    (rows,) = rows_of(writer, batch([{"id": 1, "item": "a"}, None, {"id": 0, "item": ""}]))
    frame = b"\0" + number.to_bytes(4, "big") + b"\2\2"  # the second message: a count and an index, zigzag
    prefix = frame if id_in == "prefix" else b""
    assert rows.values.to_pylist() == [prefix + b"\x08\1\x12\1a", None, prefix]
    of_row = [{"key": "__value_schema_id", "value": frame}]
    assert rows.headers is None if id_in != "header" else rows.headers.to_pylist() == [of_row, [], of_row]


def test_protobuf_needs_the_message_named_and_is_not_derived(registry):
    registry.add("orders-value", PROTO, "PROTOBUF")
    with pytest.raises(SchemaError, match=r"option 'writerSchema' \(id 1\): the schema declares p.Other, p.Order"):
        pickle.dumps(written(registry.url, valueFormat="protobuf"))
    with pytest.raises(OptionError, match="'writerSchema'=register cannot derive a Protobuf schema"):
        pickle.dumps(written(registry.url, valueFormat="protobuf", writerSchema="register"))
    (rows,) = rows_of(
        written(None, valueFormat="protobuf", writerSchema=PROTO, messageName="p.Order", schemaIdIn="none"), batch()
    )
    assert rows.values.to_pylist()[1] == b"\x08\1\x12\3" + "é1".encode()


DERIVED = (
    '{"type":"record","name":"topLevelRecord","fields":[{"name":"id","type":["long","null"]},'
    '{"name":"item","type":["string","null"]}]}'
)


def test_the_schema_of_the_column_is_registered_once_after_the_registry_has_been_asked(registry):
    for kind in (BatchWriter, StreamWriter, BatchWriter):
        (rows,) = rows_of(written(registry.url, kind=kind, writerSchema="register"), batch())
        assert {value[:5] for value in rows.values.to_pylist()} == {b"\0\0\0\0\1"}
    assert registry.by_id == {1: {"schema": DERIVED}}
    assert registry.subjects == {"orders-value": {1: 1}}
    posted = [request.path.partition("?")[0] for request in registry.requests]
    assert posted == [
        "/subjects/orders-value",  # is it there?
        "/compatibility/subjects/orders-value/versions/latest",
        "/subjects/orders-value/versions",
        *["/subjects/orders-value"] * 2,
    ]


@pytest.mark.parametrize("silent_check", [False, True], ids=["as Confluent's", "as Apicurio's"])
def test_the_registrys_refusal_is_shown_and_nothing_is_registered(registry, silent_check):
    registry.add("orders-value", '"long"')
    registry.compatible, registry.silent_check = False, silent_check
    with pytest.raises(OptionError, match=r"'orders-value' does not take the schema of the column 'value': .*'extra'"):
        pickle.dumps(written(registry.url, writerSchema="register"))
    assert registry.subjects == {"orders-value": {1: 1}}
    with pytest.raises(OptionError, match="the rows name their topics"):
        pickle.dumps(written(registry.url, {"topic": pa.string(), **COLUMNS}, topic=None, writerSchema="register"))


def test_text_must_be_text_and_packed_records_stay_as_they_are():
    with pytest.raises(InvalidSchema, match=r"value must be a\(n\) string"):
        written(None, {"value": pa.binary()}, valueFormat="string")
    (rows,) = rows_of(
        written(None, {"key": pa.string(), "value": pa.string()}, valueFormat="string"), batch(["é"], kind=pa.string())
    )
    assert rows.values.to_pylist() == ["é".encode()]
    with pytest.raises(InvalidSchema, match="leave out the option 'valueFormat'"):
        written(None, {"records": pa.binary()}, valueFormat="string")
    given = {"kafka.bootstrap.servers": "localhost:1", "topic": "t", "valueFormat": "avro"}
    found = targets.parse({**given, "schemaRegistry.url": "http://r"})
    with pytest.raises(KafkaSourceError, match="column 'value' cannot be encoded"):
        BatchWriter(found, StructType([StructField("value", YearMonthIntervalType())]))


def test_rows_in_their_own_topics_and_several_clusters_share_the_format(registry):
    number = registry.add("other", FRAMES["schema"])
    clusters = {"clusters": json.dumps({name: {"kafka.bootstrap.servers": f"{name}:1"} for name in "ab"})}
    options = {"topic": None, "kafka.bootstrap.servers": None, "writerSchema": "subject:other", **clusters}
    values = pa.array(RECORDS[:3], VALUE)
    rows = pa.RecordBatch.from_pydict({"topic": ["t", "u", "t"], "key": pa.nulls(3, pa.string()), "value": values})
    found = rows_of(written(registry.url, {"topic": pa.string(), **COLUMNS}, **options), rows)
    assert {rows.topic: rows.values.to_pylist() for rows in found} == {
        "t": [framed(number, ORDER, RECORDS[0]), framed(number, ORDER, RECORDS[2])],
        "u": [framed(number, ORDER, RECORDS[1])],
    }
