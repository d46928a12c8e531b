"""Protobuf schemas mean what Google's protoc and protobuf made of them: `record_protoc.py` wrote protoc_files.json."""

from __future__ import annotations

import ast
import base64
import importlib.util
import json
import random
from contextlib import suppress
from pathlib import Path

import confluent_kafka
import pyarrow as pa
import pytest

from kafkasource.errors import SchemaError
from kafkasource.formats.protobuf.common_types import COMMON, common_file
from kafkasource.formats.protobuf.decode import ProtobufDecoder
from kafkasource.formats.protobuf.descriptors import KINDS
from kafkasource.formats.protobuf.encoded import read_descriptor, read_file
from kafkasource.formats.protobuf.message_index import message_index_of
from kafkasource.formats.protobuf.parse import parse_proto
from kafkasource.formats.protobuf.schema import read_schema

RECORDED = json.loads((Path(__file__).parent / "protoc_files.json").read_text())
FILES, WRONG = RECORDED["files"], RECORDED["wrong"]
OURS = [name for name in FILES if FILES[name]["text"] is not None]
TEXTS = {name: FILES[name]["text"] for name in OURS}
DESCRIPTORS = {name: FILES[name]["descriptor"] for name in FILES}


def fields_of(message):
    """Return the fields in the form that record_protoc.py writes."""
    numbers = {kind: number for number, kind in KINDS.items()}
    return {
        field.name: [
            field.number,
            numbers[field.kind],
            field.type_name,
            field.repeated,
            field.required,
            field.has_presence,
            field.packed,
            field.default if field.kind == "enum" or field.default is None else repr(field.default),
            field.oneof,
        ]
        for field in message.fields
    }


@pytest.mark.parametrize("texts", [TEXTS, DESCRIPTORS], ids=["text", "descriptor"])
@pytest.mark.parametrize("name", OURS)
def test_messages_and_their_fields_are_those_of_protoc(name, texts):
    schema = read_schema(texts[name], texts)
    for full_name, index, is_map_entry, fields in FILES[name]["messages"]:
        message = schema.message_at(tuple(index))
        assert (message.full_name, message.is_map_entry) == (full_name, is_map_entry)
        assert fields_of(message) == fields, full_name


def test_descriptors_of_a_text_are_those_of_its_encoded_form():
    for name in OURS:
        text, encoded = read_schema(TEXTS[name], TEXTS), read_schema(DESCRIPTORS[name], DESCRIPTORS)
        for full_name, message in text.messages.items():
            if not full_name.startswith("google."):
                assert message == encoded.messages[full_name]
        assert {enum: text.enums[enum] for enum in text.enums} == {enum: encoded.enums[enum] for enum in text.enums}


def descriptor_of(path):
    """Read the descriptor of protoc, googleapis-common-protos or confluent-kafka without an import: confluent-kafka's
    modules would import what it needs for registries."""
    if path in DESCRIPTORS:
        return DESCRIPTORS[path]
    package = Path(importlib.util.find_spec("google.type").submodule_search_locations[0]).parents[1]
    if path.startswith("confluent/"):
        package = Path(confluent_kafka.__file__).parent / "schema_registry"
    module = ast.parse((package / path.replace(".proto", "_pb2.py")).read_text())
    constants = [part.value for part in ast.walk(module) if isinstance(part, ast.Constant)]
    return base64.b64encode(max((constant for constant in constants if isinstance(constant, bytes)), key=len)).decode()


@pytest.mark.parametrize("path", COMMON)
def test_the_files_that_need_no_reference_are_googles_and_confluents_own(path):
    theirs = descriptor_of(path)
    expected = read_schema(theirs)
    found = read_schema(f'syntax = "proto3"; import "{path}";')
    for full_name, message in expected.messages.items():
        assert found.messages[full_name] == message
    assert {name: found.enums[name] for name in expected.enums} == dict(expected.enums)
    assert expected.messages or expected.enums
    assert common_file(path).public_imports == read_file(theirs).public_imports


@pytest.mark.parametrize(
    ("text", "record", "imported"),
    [
        ("CghtMC5wcm90bxICcDAaHGNvbmZsdWVudC90eXBlL2RlY2ltYWwucHJvdG8iMwoBTRIKCgJpZBgBIAEoBRIiCgFjGAIgASgLMhcuY29uZmx1ZW"
         "50LnR5cGUuRGVjaW1hbGIGcHJvdG8z", "080712050a017b1802", {"value": b"{", "precision": None, "scale": 2}),
        ("CghtMS5wcm90bxICcDEaHWNvbmZsdWVudC90eXBlcy9kZWNpbWFsLnByb3RvIjMKAU0SCgoCaWQYASABKAUSIgoBYxgCIAEoCzIXLmNvbmZsdW"
         "VudC50eXBlLkRlY2ltYWxiBnByb3RvMw==", "080712050a017b1802", {"value": b"{", "precision": None, "scale": 2}),
        ("CghtMi5wcm90bxICcDIaHGNvbmZsdWVudC90eXBlL3ZhcmlhbnQucHJvdG8iMwoBTRIKCgJpZBgBIAEoBRIiCgFjGAIgASgLMhcuY29uZmx1ZW"
         "50LnR5cGUuVmFyaWFudGIGcHJvdG8z", "080712030a0178", {"metadata": b"x", "value": None}),
        ("CghtMy5wcm90bxICcDMaJGdvb2dsZS9wcm90b2J1Zi9zb3VyY2VfY29udGV4dC5wcm90byI6CgFNEgoKAmlkGAEgASgFEikKAWMYAiABKAsyHi"
         "5nb29nbGUucHJvdG9idWYuU291cmNlQ29udGV4dGIGcHJvdG8z", "080712030a0178", {"file_name": "x"}),
    ],
    ids=["decimal", "its old path", "variant", "source_context"],
)  # fmt: skip
def test_what_confluents_serializer_registers_without_references_is_read(text, record, imported):
    """confluent-kafka 2.16.1, ProtobufSerializer: the schemas that it registered, and records that it wrote."""
    schema = read_schema(text)
    (message,) = [each for name, each in schema.messages.items() if name.startswith("p")]
    (piece,) = ProtobufDecoder(schema, message).batches(pa.array([bytes.fromhex(record)], pa.binary()), 1 << 20)
    assert piece.array.to_pylist() == [{"id": 7, "c": imported}]


@pytest.mark.parametrize("text", WRONG)
def test_what_protoc_refuses_is_an_error_with_its_place(text):
    with pytest.raises(SchemaError, match=r"^[\w. ]+: "):
        read_schema(text, TEXTS)


def test_base64_with_line_ends_is_a_descriptor_and_anything_else_is_text():
    lines = "\n".join(DESCRIPTORS["bare.proto"][i : i + 30] for i in range(0, 9999, 30))
    assert read_file(lines) == read_file(DESCRIPTORS["bare.proto"])
    assert [message.name for message in read_file(lines).messages] == ["Bare", "Other"]
    assert read_file(TEXTS["bare.proto"]) == parse_proto(TEXTS["bare.proto"])
    assert read_file("// nothing is declared").messages == ()
    with pytest.raises(SchemaError, match="line 1"):
        read_file("no schema!")


def test_every_start_of_a_text_is_a_schema_or_a_schema_error():
    for name in ("legacy.proto", "scopes.proto"):
        text = TEXTS[name]
        for end in range(0, len(text), 3):
            with suppress(SchemaError):
                read_schema(text[:end], TEXTS)


def test_damaged_texts_and_descriptors_are_schemas_or_schema_errors():
    chance = random.Random(19)
    encoded = base64.b64decode(DESCRIPTORS["legacy.proto"])
    for _ in range(400):
        data = bytearray(encoded)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        signs = list(TEXTS["scopes.proto"])
        signs[chance.randrange(len(signs))] = chance.choice("{}[]();=.,\"'\\/*-0aZ\n\x00é")
        for read in (
            lambda data=data: read_descriptor(bytes(data[: chance.randrange(len(data))])),
            lambda data=data: read_schema(base64.b64encode(data).decode()),
            lambda signs=signs: read_schema("".join(signs)),
        ):
            with suppress(SchemaError):
                read()


def test_a_map_as_confluents_java_serializer_registers_it_is_a_map():
    """Its ProtobufSchema makes the text from a descriptor, in which a map is a repeated message with an option."""
    fields = "string key = 1; int32 value = 2;"
    written_out = f"repeated .p.M.TagsEntry tags = 1; message TagsEntry {{ option map_entry = true; {fields} }}"
    read = [
        read_schema(f'syntax = "proto3"; package p; message M {{ {body} }}')
        for body in ("map<string, int32> tags = 1;", written_out)
    ]
    assert [schema.messages["p.M.TagsEntry"].is_map_entry for schema in read] == [True, True]
    assert read[0].messages == read[1].messages
    other = f'syntax = "proto3"; message M {{ option deprecated = true; option map_entry = false; {fields} }}'
    assert not read_schema(other).messages["M"].is_map_entry


def test_an_import_that_is_missing_is_an_error_only_where_a_type_of_it_is_needed():
    text = 'syntax = "proto3"; import "google/api/annotations.proto"; message A { %s a = 1; }'
    assert read_schema(text % "int32").messages["A"].fields[0].kind == "int32"
    with pytest.raises(SchemaError, match=r"^A\.a: .*google/api/annotations\.proto"):
        read_schema(text % "google.api.Http")


def test_only_what_an_import_imports_publicly_is_seen():
    texts = {
        "far.proto": 'syntax = "proto3"; package far; message Far {}',
        "near.proto": 'syntax = "proto3"; import %s "far.proto"; message Near { far.Far far = 1; }',
    }
    text = 'syntax = "proto3"; import "near.proto"; message A { far.Far far = 1; }'
    seen = read_schema(text, {**texts, "near.proto": texts["near.proto"] % "public"})
    assert seen.messages["A"].fields[0].type_name == "far.Far"
    with pytest.raises(SchemaError, match=r"^A\.far: "):
        read_schema(text, {**texts, "near.proto": texts["near.proto"] % ""})


def test_the_first_part_of_a_types_name_decides_as_for_protoc():
    """`b` is found as the package a.b, which has no M. So the imported b.M needs a dot in front."""
    text = 'syntax = "proto3"; package a.b; import "m.proto"; message R { b.M m = 1; }'
    references = {"m.proto": 'syntax = "proto3"; package b; message M {}'}
    with pytest.raises(SchemaError, match=r"^a\.b\.R\.m: no type b\.M is declared"):
        read_schema(text, references)
    assert read_schema(text.replace("b.M m", ".b.M m"), references).messages["a.b.R"].fields[0].type_name == "b.M"


def test_files_that_import_each_other_end():
    a = 'syntax = "proto3"; import "b.proto"; message A {}'
    assert set(read_schema(a, {"b.proto": 'import "b.proto"; message B {}'}).messages) == {"A", "B"}


def test_editions_are_refused_by_name():
    with pytest.raises(SchemaError, match="line 1: the file has an edition"):
        read_schema('edition = "2023"; message A {}')


def test_a_message_is_found_by_its_full_name_or_its_last_part():
    schema = read_schema(TEXTS["scopes.proto"])
    assert schema.message_named("a.b.c.M").full_name == "a.b.c.M"
    assert schema.message_named("M.N").full_name == "a.b.c.M.N"
    with pytest.raises(SchemaError, match=r"^Z: .*a\.b\.c\.M\.Z, a\.b\.c\.Z"):
        schema.message_named("Z")
    with pytest.raises(SchemaError, match=r"^Missing: "):
        schema.message_named("Missing")


@pytest.mark.parametrize(
    ("data", "index"),
    [("00", (0,)), ("0202", (1,)), ("040200", (1, 0)), ("0200", (0,))],
    ids=["first", "second", "first in second", "first, written out"],
)
def test_the_message_index_is_read_as_confluents_serializers_write_it(data, index):
    assert message_index_of(bytes.fromhex("ffff" + data + "0801"), 2) == (index, 2 + len(data) // 2)


@pytest.mark.parametrize(
    "data", ["", "02", "0401", "01", "0201", "8080", "ffffffffffffffffffff7f", "feffffff0f", "0280808080808001"]
)
def test_a_message_index_that_is_cut_negative_or_too_long_is_none(data):
    assert message_index_of(bytes.fromhex(data)) is None


def test_an_index_beyond_the_messages_is_an_error():
    schema = read_schema(TEXTS["bare.proto"])
    assert schema.message_at((0, 0)).full_name == "Bare.Inner"
    for index in ((2,), (0, 1), (0, 0, 0), ()):
        with pytest.raises(SchemaError):
            schema.message_at(index)


def test_an_optional_field_in_a_oneof_of_its_own_is_one_of_proto3_as_registries_render_it():
    """protoc: an optional field of proto3 is the only field of a oneof `_name`."""
    rendered = """syntax = "proto3"; message M {
      oneof _a { optional string a = 1; } oneof _b { optional M b = 2; } oneof c { int32 d = 3; string e = 4; } }"""
    written = """syntax = "proto3"; message M {
      optional string a = 1; optional M b = 2; oneof c { int32 d = 3; string e = 4; } }"""
    assert read_schema(rendered).messages == read_schema(written).messages
    for wrong in (
        'syntax = "proto3"; message M { oneof _a { optional string a = 1; optional string b = 2; } }',
        'syntax = "proto2"; message M { oneof _a { optional string a = 1; } }',
        'syntax = "proto3"; message M { oneof _a { optional map<string, string> a = 1; } }',
    ):
        with pytest.raises(SchemaError, match="line 1"):
            read_schema(wrong)
