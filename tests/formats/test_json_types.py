"""The texts that say what the columns of JSON records are: Spark's DDL, Spark's JSON of a type, JSON Schema."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import StructType

from kafkasource.errors import SchemaError
from kafkasource.formats.json.types_of import column_type
from kafkasource.formats.schema_source import JSON, RegisteredSchema
from kafkasource.source.spark.arrow_to_spark import spark_type


def shown(text, **references):
    """The type in Spark's words, as Spark itself reads and writes them."""
    named = tuple((name.replace("_", "."), json.dumps(each)) for name, each in references.items())
    return spark_type(column_type(RegisteredSchema(JSON, text if isinstance(text, str) else json.dumps(text), named)))


SCHEMA = StructType.fromJson(
    json.loads(
        """{"type": "struct", "fields": [
        {"name": "id", "type": "long", "nullable": false, "metadata": {}},
        {"name": "a b", "type": "decimal(10,2)", "nullable": true, "metadata": {}},
        {"name": "tags", "nullable": true, "metadata": {},
         "type": {"type": "array", "elementType": "string", "containsNull": true}},
        {"name": "in", "nullable": true, "metadata": {}, "type": {"type": "struct", "fields": [
            {"name": "x", "type": "byte", "nullable": true, "metadata": {}},
            {"name": "m", "nullable": false, "metadata": {}, "type":
                {"type": "map", "keyType": "string", "valueType": "timestamp_ntz", "valueContainsNull": true}}]}}]}"""
    )
)


def test_sparks_ddl_and_sparks_json_are_the_type_that_spark_means():
    ddl = (
        "id BIGINT NOT NULL, `a b` decimal(10, 2) COMMENT 'two words', tags: ARRAY<STRING>, "
        "in struct<x: tinyint, m MAP<STRING,TIMESTAMP_NTZ> NOT NULL>"
    )
    assert shown(ddl) == SCHEMA
    assert shown(SCHEMA.json()) == SCHEMA


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("id", "expected a type, found 'the end'"),
        ("id BIGINT name STRING", "expected ',', found 'name'"),
        ("id INTERVAL", "the type 'interval'"),
        ("id ARRAY<INT", "expected '>', found 'the end'"),
        ("id DECIMAL(40, 2)", "1 to 38 digits"),
        ("id MAP<INT, INT>", "$.id: the keys of a map are strings"),
        ("id INT, id INT", "$: a struct has two fields 'id'"),
        ("a STRUCT<>", "$.a: a struct without fields"),
        ("ARRAY<" * 500, "expected a type"),
        ("a " + "ARRAY<" * 500, "types within each other"),
    ],
)
def test_what_is_no_type_of_a_record_is_an_error_that_says_where(ddl, reason):
    with pytest.raises(SchemaError) as caught:
        shown(ddl)
    assert reason in str(caught.value)


def property_of(schema, **more):
    kind = shown({"type": "object", "properties": {"p": schema}, **more})
    return f"{kind['p'].dataType.simpleString()}{'' if kind['p'].nullable else ' not null'}"


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": ["integer", "number", "null"]}, "double"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "email"}, "string"),
        ({"type": "string", "contentEncoding": "base64"}, "binary"),
        ({"type": "array", "items": {"type": "boolean"}}, "array<boolean>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>"),
        ({"type": "object", "properties": {"x": {"enum": ["a", "b"]}}}, "struct<x:string>"),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "boolean"),
        ({"allOf": [{"$ref": "#/definitions/d"}]}, "struct<y:bigint>"),
        ({"allOf": [{"$ref": "#/definitions/d"}, {"properties": {"z": {"const": 1.5}}}]}, "struct<y:bigint,z:double>"),
        # A value without a type of Spark is its JSON.
        ({}, "string"),
        (True, "string"),
        ({"type": "object"}, "string"),
        ({"type": "array"}, "string"),
        ({"type": ["integer", "string"]}, "string"),
        ({"oneOf": [{"type": "integer"}, {"type": "object", "properties": {"x": {}}}]}, "string"),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, "string"),
    ],
)
def test_a_json_schema_says_the_columns(schema, column):
    definitions = {"d": {"type": "object", "properties": {"y": {"type": "integer"}}}}
    assert property_of(schema, definitions=definitions) == column


def test_what_is_required_and_never_null_is_not_nullable():
    assert property_of({"type": "integer"}, required=["p"]) == "bigint not null"
    assert property_of({"type": ["integer", "null"]}, required=["p"]) == "bigint"
    assert property_of({}, required=["p"]) == "string"


def test_references_are_followed_by_pointer_anchor_id_and_name():
    schema = {
        "$id": "http://shop/order.json",
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/one~1two"},
            "b": {"$ref": "#named"},
            "c": {"$ref": "money.json"},
            "d": {"$ref": "money.json#/definitions/part"},
            "e": {"$ref": "http://shop/within.json"},
        },
        "$defs": {
            "one/two": {"type": "integer"},
            "two": {"$anchor": "named", "type": "boolean"},
            "three": {"$id": "within.json", "type": "string", "format": "date"},
        },
    }
    money = {
        "type": "object",
        "properties": {"n": {"$ref": "#/definitions/part"}},
        "definitions": {"part": {"type": "number"}},
    }
    assert shown(schema, money_json=money).simpleString() == (
        "struct<a:bigint,b:boolean,c:struct<n:double>,d:double,e:date>"
    )


CARD = {"if": {"properties": {"kind": {"const": "card"}}}, "then": {"required": ["n"]}}
PAYMENT = {"type": "object", "properties": {"kind": {"type": "string"}, "n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        # jsonschema takes {"kind": "card", "n": 1, "m": true} by the next six, and not where n is "1".
        ({**PAYMENT, "allOf": [CARD]}, "struct<kind:string,n:bigint>"),
        ({**PAYMENT, "allOf": [CARD, {"anyOf": [{"required": ["n"]}, {"required": ["kind"]}]}]},
         "struct<kind:string,n:bigint>"),
        ({**PAYMENT, "allOf": [{"required": ["n"]}]}, "struct<kind:string,n:bigint not null>"),
        ({**PAYMENT, "allOf": [{"$ref": "#/definitions/needed"}]}, "struct<kind:string,n:bigint not null>"),
        ({"type": "object", "allOf": [PAYMENT, {"type": "object", "required": ["kind"]}]},
         "struct<kind:string not null,n:bigint>"),
        ({**PAYMENT, "allOf": [{"properties": {"n": {"minimum": 0}, "m": {"type": "boolean"}}, "required": ["m"]}]},
         "struct<kind:string,n:bigint,m:boolean not null>"),
        ({"type": "object", "allOf": [{"$ref": "#/definitions/open"}]}, "map<string,bigint>"),
        # Values of other types.
        ({"type": "integer", "allOf": [{"minimum": 0}]}, "bigint"),
        ({"type": "integer", "anyOf": [{"minimum": 0}, {"maximum": -9}]}, "bigint"),
        ({"type": "string", "allOf": [{"$ref": "#/definitions/day"}]}, "date"),
        ({"type": "number", "allOf": [{"type": "integer"}]}, "bigint"),
        ({"type": "integer", "allOf": [{"type": "string", "enum": ["a"]}, {"enum": [1]}]}, "string"),
        ({"allOf": [CARD]}, "string"),
        ({**PAYMENT, "type": ["object", "string"], "allOf": [CARD]}, "string"),
        ({**PAYMENT, "allOf": [{"oneOf": [PAYMENT, {"type": "object", "properties": {"x": {}}}]}]}, "string"),
    ],
)  # fmt: skip
def test_conditions_in_all_of_take_no_column_away(schema, column):
    definitions = {
        "needed": {"required": ["n"]},
        "open": {"type": "object", "additionalProperties": {"type": "integer"}},
        "day": {"type": "string", "format": "date"},
    }
    kind = shown({"type": "object", "properties": {"p": schema}, "definitions": definitions})["p"].dataType
    assert text_of(kind) == column


def text_of(kind):
    if not isinstance(kind, StructType):
        return kind.simpleString()
    fields = [f"{field.name}:{text_of(field.dataType)}{'' if field.nullable else ' not null'}" for field in kind]
    return f"struct<{','.join(fields)}>"


def test_a_property_that_no_object_may_have_is_no_column():
    """jsonschema takes {"a": 1} by the first, and no value of x but none."""
    assert shown({"type": "object", "properties": {"a": {"type": "integer"}, "x": False}}).simpleString() == (
        "struct<a:bigint>"
    )
    assert property_of({"type": "object", "properties": {"x": False}}) == "string"  # says as much as no properties
    assert property_of({"allOf": [PAYMENT, {"properties": {"x": False}}]}) == "struct<kind:string,n:bigint>"


ANCHORED = {"$anchor": "n"}
ADDRESS = {"type": "object", "properties": {"y": {"$ref": "#/$defs/y"}}, "$defs": {"y": {"type": "string"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"$ref": "https://shop/address"}}, "$defs": {"a": {"$id": "address", **ADDRESS}}},
        {"properties": {"x": {"$id": "address.json", **ADDRESS}}},
        {"properties": {"x": {"$id": "a/b.json", "allOf": [{"$ref": "#/$defs/z"}],
                              "$defs": {"z": ADDRESS, **ADDRESS["$defs"]}}}},
        {"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$id": "address.json", **ADDRESS}}},
    ],
    ids=["bundled", "in place", "within a document", "by pointer"],
)  # fmt: skip
def test_a_pointer_starts_at_the_nearest_schema_with_an_id(schema):
    """jsonschema 4.26.0 (draft 2020-12) takes {"x": {"y": "abc"}} by each of them, and not {"x": {"y": 5}}."""
    of_root = {"$defs": {**schema.get("$defs", {}), "y": {"type": "integer"}}}
    whole = {"$id": "https://shop/root", "type": "object", **schema, **of_root}
    assert shown(whole).simpleString() == "struct<x:struct<y:string>>"


def test_an_anchor_is_that_of_the_nearest_schema_with_an_id():
    """Validate with jsonschema."""
    within = {
        "$id": "http://shop/a",
        "properties": {"y": {"$ref": "#n"}},
        "$defs": {"n": ANCHORED | {"type": "string"}},
    }
    whole = {"type": "object", "properties": {"x": within}, "$defs": {"n": ANCHORED | {"type": "integer"}}}
    assert shown(whole).simpleString() == "struct<x:struct<y:string>>"


def test_a_pointer_to_what_the_nearest_schema_with_an_id_lacks_may_start_at_the_root():
    schema = {
        "type": "object",
        "properties": {"a": {"$id": "/properties/a", "type": "array", "items": {"$ref": "#/definitions/n"}}},
        "definitions": {"n": {"allOf": [{"$ref": "#/definitions/m"}]}, "m": {"type": "integer"}},
    }
    assert shown(schema).simpleString() == "struct<a:array<bigint>>"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "$.a.a: # contains itself"),
        ({"type": "object", "properties": {"a": {"$ref": "#/x"}}}, "$.a: #/x: there is nothing of this name"),
        ({"type": "object", "properties": {"a": {"$ref": "other.json"}}}, "$.a: other.json is neither in the schema"),
        ({"type": "object", "properties": {"a": {"type": "int"}}}, "$.a: JSON Schema has no type 'int'"),
        ({"type": "object", "properties": {"a": 7}}, "$.a: expected a JSON Schema, got 7"),
        ({"type": "string"}, "$: the JSON Schema does not say what an object has"),
        ([], "$: expected a JSON Schema"),
    ],
)
def test_a_json_schema_that_has_no_columns_is_an_error_that_names_the_path(schema, reason):
    with pytest.raises(SchemaError) as caught:
        shown(schema)
    assert str(caught.value).startswith(reason)


def test_a_schema_that_stands_for_very_many_columns_is_refused():
    definitions = {"d0": {"type": "integer"}}
    for n in range(1, 30):
        within = {"$ref": f"#/definitions/d{n - 1}"}
        definitions[f"d{n}"] = {"type": "object", "properties": {"a": within, "b": within}}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/definitions/d29"}}, "definitions": definitions}
    with pytest.raises(SchemaError) as caught:
        shown(schema)
    assert "more than 20000 types" in str(caught.value)


def test_a_root_may_be_an_array_or_a_map():
    assert shown({"type": "array", "items": {"type": "integer"}}).simpleString() == "array<bigint>"
    assert shown({"type": "object", "additionalProperties": {"type": "number"}}).simpleString() == "map<string,double>"
