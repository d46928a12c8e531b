"""Tests what `load()` resolves for JSON and for `recordTypes`, and what a task makes of it."""

from __future__ import annotations

import json
from uuid import UUID

import pyarrow as pa
import pytest
from fake_registry import Fault, a_registry
from kept_schemas import encoded, fastavro, framed

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.formats.reading.batches import typed_batches
from kafkasource.formats.registry import ShippedSchemas
from kafkasource.source.spark.formats import row_formats
from kafkasource.source.spark.schema import schema_of

ORDER = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]}
REFUND = {"type": "record", "name": "shop.Refund", "fields": [{"name": "why", "type": ["null", "string"]}]}
LOGIN = {"type": "record", "name": "users.Login", "fields": [{"name": "id", "type": "long"}]}


def parsed(url, **more):
    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "columns": "offset,value", **more}
    return options.parse({**given, **({"schemaRegistry.url": url} if url else {})}, "source")


def read(formats, values):
    """The column of values, and the offsets of bad records with their reasons."""
    formats = formats.with_columns(("offset", "value", "badRecord")).for_tasks()
    columns = {
        "key": pa.nulls(len(values), pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": pa.array(["t"] * len(values)),
        "partition": pa.array([0] * len(values), pa.int32()),
        "offset": pa.array(range(len(values)), pa.int64()),
    }
    batch = pa.RecordBatch.from_pydict({name: columns[name] for name in formats.fetched if name in columns})
    table = pa.Table.from_batches(typed_batches([batch], formats, lambda: None))
    bad = {row["offset"]: row["badRecord"]["reason"] for row in table.to_pylist() if row["badRecord"]}
    return table.column("value").to_pylist(), bad


def test_types_by_subjects_are_asked_for_once_and_travel_with_the_column():
    with a_registry() as registry:
        ids = [registry.add(f"t-{each['name']}", json.dumps(each)) for each in (ORDER, REFUND, LOGIN)]
        chosen = parsed(registry.url, valueFormat="avro", recordTypes="shop.Order,shop.Refund")
        schema = schema_of(chosen, row_formats(chosen))
        assert schema["value"].dataType.simpleString() == "struct<Order:struct<id:bigint>,Refund:struct<why:string>>"
        asked = len(registry.requests)
        formats = row_formats(chosen, schema)  # as another process, with what Spark hands on
        assert schema_of(chosen, formats) == schema
        assert len(registry.requests) == asked
        records = ((ORDER, {"id": 1}), (REFUND, {"why": "w"}), (LOGIN, {"id": 2}))
        values = [framed(number, *each) for number, each in zip(ids, records, strict=True)] + [None]
        found, bad = read(formats, values)
    assert found == [{"Order": {"id": 1}, "Refund": None}, {"Order": None, "Refund": {"why": "w"}}, None, None]
    assert list(bad) == [2]
    assert "the record is users.Login, which recordTypes does not name (shop.Order, shop.Refund)" in bad[2]


def test_types_may_be_named_in_the_schema_of_the_topic_and_in_a_readers_schema():
    with a_registry() as registry:
        registry.add("order", json.dumps(ORDER))
        registry.add("refund", json.dumps(REFUND))
        references = (("shop.Order", "order", 1), ("shop.Refund", "refund", 1))
        both = registry.add("t-value", '["shop.Order", "shop.Refund"]', "AVRO", references)
        value = framed(both, [ORDER, REFUND], ("shop.Refund", {"why": "w"}))
        for more in ({}, {"readerSchema": json.dumps([ORDER, REFUND])}):
            formats = row_formats(parsed(registry.url, valueFormat="avro", recordTypes="Refund,Order", **more))
            assert read(formats, [value]) == ([{"Refund": {"why": "w"}, "Order": None}], {})


SHOP = 'syntax = "proto3"; package shop; message Order { int64 id = 1; } message Refund { string why = 1; }'


def test_types_may_be_messages_with_the_options_of_from_protobuf():
    with a_registry() as registry:
        number = b"\0" + registry.add("t-value", SHOP, "PROTOBUF").to_bytes(4, "big")
        more = {"recordTypes": "shop.Refund,Order", "protobuf.emit.default.values": "true"}
        formats = row_formats(parsed(registry.url, valueFormat="protobuf", **more))
        found = read(formats, [number + b"\0\x08\1", number + b"\2\2", number + b"\2\2\x0a\1w"])
    assert found == (
        [
            {"Refund": None, "Order": {"id": 1}},
            {"Refund": {"why": ""}, "Order": None},
            {"Refund": {"why": "w"}, "Order": None},
        ],
        {},
    )


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("shop.Order,shop.None", "the registry has no subject 'shop.None'"),
        ("shop.None", "option 'readerSchema': .*t-value"),
        ("shop.Order,t-shop.Order", "two names are the same type"),
    ],
)
def test_a_name_that_is_no_type_is_an_error_of_load(names, reason):
    with a_registry() as registry:
        registry.add("t-shop.Order", json.dumps(ORDER))
        with pytest.raises(OptionError, match=reason):
            row_formats(parsed(registry.url, valueFormat="avro", recordTypes=names))


def test_a_json_schema_is_resolved_with_its_references_and_records_ask_for_no_schema():
    line = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    order = {"type": "object", "properties": {"lines": {"type": "array", "items": {"$ref": "line.json"}}, "any": {}}}
    with a_registry() as registry:
        registry.add("line", json.dumps(line), "JSON")
        registry.add("t-value", json.dumps(order), "JSON", (("line.json", "line", 1),))
        for wanted in (
            {},
            {"readerSchema": "version:1"},
            {"readerSchema": "subject:t-value"},
            {"readerSchema": "id:2"},
        ):
            chosen = parsed(registry.url, valueFormat="json", **wanted)
            schema = schema_of(chosen, row_formats(chosen))
            assert schema["value"].dataType.simpleString() == "struct<lines:array<struct<n:bigint>>,any:string>"
        formats = row_formats(chosen, schema)
        registry.requests.clear()
        found = read(
            formats, [b'\0\0\0\0\x63{"lines":[{"n":1}],"any":[1]}', b'{"lines":[{}]}', b'\0\0\0\0\x63{"lines"']
        )
        assert not [path for path in registry.paths if path.startswith("/schemas/ids")]
    assert found[0] == [{"lines": [{"n": 1}], "any": "[1]"}, None, None]
    assert "the value, field $.lines[].n: a required field is missing" in found[1][1]
    assert "the value of schema id 99, field $: the bytes end within the value" in found[1][2]


def test_tasks_of_json_ask_a_registry_for_nothing_and_plan_while_it_is_away():
    """Decision 140. A side that is not JSON has its own subject's versions."""
    order = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
    with a_registry() as registry:
        for version in range(3):
            registry.add("t-value", json.dumps({**json.loads(order), "title": f"{version}"}), "JSON")
        number = registry.add("t-key", json.dumps(ORDER))
        for wanted in ({}, {"readerSchema": "id BIGINT"}, {"readerSchema": order}):
            chosen = parsed(registry.url, valueFormat="json", **{"schemaRegistry.retry.timeout.ms": "0"}, **wanted)
            formats = row_formats(chosen)
            registry.requests.clear()
            registry.always = Fault()
            assert read(formats, [b'\0\0\0\0\x63{"id":1}']) == ([{"id": 1}], {})
            registry.always = None
            assert registry.paths == []
        both = parsed(registry.url, valueFormat="json", readerSchema="id BIGINT", keyFormat="avro")
        shipped = row_formats(both).for_tasks().schemas
        assert isinstance(shipped, ShippedSchemas)
        assert [each for each, _ in shipped.schemas] == [number]


def schema_of_id(schema_id):
    """The function of `schemaRegistry`, for a topic whose schemas were of one kind, and then of another."""
    return {1: json.dumps(ORDER), 2: '{"type": "object", "properties": {"id": {"type": "integer"}}}', 3: SHOP}.get(
        schema_id
    )


FUNCTION = f"{__name__}:schema_of_id"
BY_KIND = {1: b"\0\0\0\0\1\2", 2: b'\0\0\0\0\2{"id":2}', 3: b"\0\0\0\0\3\0\x08\3"}  # the id, and an Order


@pytest.mark.parametrize(
    ("name", "more", "its_own", "reasons"),
    [
        ("avro", {}, 1, {2: "unknown type 'object'", 3: "the record's schema is PROTOBUF, not AVRO"}),
        ("json", {}, 2, {1: "the bytes are not JSON", 3: "the bytes are not JSON"}),
        ("protobuf", {"messageName": "Order"}, 3, {1: "no message index", 2: "no message index"}),
    ],
)
def test_records_by_a_schema_of_another_kind_are_bad_and_shift_none(name, more, its_own, reasons):
    """The kind of a schema shows in its text alone where a function gives it."""
    chosen = parsed(None, valueFormat=name, schemaRegistry=FUNCTION, readerSchema=f"id:{its_own}", **more)
    ids = [1, 2, 3, its_own, 3, 2, 1]
    found, bad = read(row_formats(chosen), [BY_KIND[schema_id] for schema_id in ids])
    assert found == [{"id": schema_id} if schema_id == its_own else None for schema_id in ids]
    assert list(bad) == [at for at, each in enumerate(ids) if each != its_own]
    assert all(reasons[ids[at]] in reason for at, reason in bad.items())


@pytest.mark.parametrize(
    ("name", "schema_id", "reason"),
    [
        ("json", 1, "'readerSchema': .*JSON Schema has no type 'record'"),
        ("json", 3, "'readerSchema': .*in Spark's DDL"),
        ("avro", 2, "'readerSchema': .*unknown type 'object'"),
        ("avro", 3, "'readerSchema': the schema is PROTOBUF, and the format avro needs AVRO"),
        ("protobuf", 1, "'readerSchema': the schema is AVRO, and the format protobuf needs PROTOBUF"),
    ],
)
def test_a_readers_schema_of_another_kind_is_an_error_of_load(name, schema_id, reason):
    chosen = parsed(None, valueFormat=name, schemaRegistry=FUNCTION, readerSchema=f"id:{schema_id}")
    with pytest.raises(OptionError, match=reason):
        row_formats(chosen)


def test_a_readers_schema_with_comments_or_a_byte_order_mark_is_taken_wherever_it_stands(tmp_path, monkeypatch):
    text = f"// of the shop\n/* {{ */ {json.dumps(ORDER)}"
    (tmp_path / "order.avsc").write_text(text, encoding="utf-8-sig")
    (tmp_path / "schemas_with_comments.py").write_text(f"def text_of(_):\n    return {text!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for reader in (text, f"\ufeff{text}", f"file:{tmp_path / 'order.avsc'}", "id:1"):
        more = {"valueFormat": "avro", "schemaRegistry": "schemas_with_comments:text_of", "readerSchema": reader}
        assert read(row_formats(parsed(None, **more)), [framed(1, ORDER, {"id": 7})]) == ([{"id": 7}], {})


def test_bare_records_need_no_registry_and_carry_their_schema_to_the_tasks():
    chosen = parsed(None, valueFormat="avro", readerSchema=json.dumps(ORDER), schemaIdIn="none")
    schema = schema_of(chosen, row_formats(chosen))
    values = [encoded(ORDER, {"id": 7}), None, encoded(ORDER, {"id": 7}) + b"\0"]
    found, bad = read(row_formats(chosen, schema), values)
    assert found == [{"id": 7}, None, None]
    assert list(bad) == [2]
    with pytest.raises(OptionError, match="'readerSchema'=id:7 asks a registry"):
        row_formats(parsed(None, valueFormat="avro", readerSchema="id:7", schemaIdIn="none"))
    with a_registry() as registry:
        registry.add("t-value", json.dumps(ORDER))
        chosen = parsed(registry.url, valueFormat="avro", readerSchema="latest", schemaIdIn="none")
        formats = row_formats(chosen)
        assert read(formats, values)[0] == [{"id": 7}, None, None]
        assert formats.schemas is None  # so the tasks get no credentials of the registry


def test_fingerprints_and_uuids_of_glue_reach_the_function_and_the_readers_fingerprint_needs_none(
    tmp_path, monkeypatch
):
    older = {**ORDER, "fields": [{"name": "id", "type": "int"}]}
    own, other = (
        b"\xc3\x01"
        + bytes.fromhex(fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(each), "CRC-64-AVRO"))
        for each in (ORDER, older)
    )
    version = UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")
    module = (
        f"from uuid import UUID\nKNOWN = {{{other[2:]!r}: {json.dumps(older)!r}, {version!r}: {json.dumps(older)!r}}}\n"
    )
    (tmp_path / "known_schemas.py").write_text(f"{module}text_of = KNOWN.get\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    values = [
        own + encoded(ORDER, {"id": 1}),
        other + encoded(older, {"id": 2}),
        b"\3\0" + version.bytes + encoded(older, {"id": 3}),
    ]
    more = {"valueFormat": "avro", "readerSchema": json.dumps(ORDER)}
    chosen = parsed(None, **more, schemaRegistry="known_schemas:text_of")
    assert read(row_formats(chosen), values) == ([{"id": 1}, {"id": 2}, {"id": 3}], {})
    found, bad = read(row_formats(parsed(None, **more, schemaIdIn="fingerprint")), values)
    assert found == [{"id": 1}, None, None]
    assert "Set 'schemaRegistry.url' or 'schemaRegistry'" in bad[1]
    assert str(version) in bad[2]
    with a_registry() as registry:
        found, bad = read(row_formats(parsed(registry.url, **more)), values)
        assert found == [{"id": 1}, None, None]
        assert "a registry knows no schema by its fingerprint" in bad[1]
        assert not [request for request in registry.requests if other[2:].hex() in str(request)]
