"""Tests schema texts to values: names, references, defaults, logical types, and errors with their place."""

from __future__ import annotations

import json

import pytest

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.parse import MOST_DEPTH, parse_schema
from kafkasource.formats.avro.schema import (
    Again,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroPrimitive,
    AvroRecord,
    Branch,
    Default,
    Fixed,
    Logical,
    Map,
    Union,
    records_of,
)


def parsed(node, references=None):
    texts = {name: json.dumps(text) for name, text in (references or {}).items()}
    return parse_schema(json.dumps(node), texts)


def record(*fields, name="R", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, schema, **more):
    return {"name": name, "type": schema, **more}


def test_a_schema_of_every_type_is_what_the_specification_calls_it():
    node = record(
        field("id", "long", doc="not kept", aliases=["number"]),
        field("colour", {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"], "default": "RED"}),
        field("key", {"type": "fixed", "name": "other.Key", "size": 4, "aliases": ["Old", "a.Older"]}),
        field("tags", {"type": "array", "items": "string"}, default=[]),
        field("more", {"type": "map", "values": ["null", "double"]}),
        namespace="shop",
        aliases=["Purchase"],
    )
    colour = AvroEnum("shop.Colour", ("RED", "BLUE"), (), "RED")
    key = Fixed("other.Key", 4, ("other.Old", "a.Older"))
    assert parsed(node) == AvroRecord(
        "shop.R",
        (
            AvroField("id", AvroPrimitive("long"), ("number",)),
            AvroField("colour", colour),
            AvroField("key", key),
            AvroField("tags", AvroArray(AvroPrimitive("string")), (), Default(())),
            AvroField("more", Map(Union((AvroPrimitive("null"), AvroPrimitive("double"))))),
        ),
        ("shop.Purchase",),
    )


def test_a_name_is_looked_up_in_its_namespace_then_in_none():
    inner = record(field("x", "int"), name="a.b.Inner")
    global_one = {"type": "enum", "name": "Global", "symbols": ["A"]}
    node = record(
        field("g", global_one, default="A"),
        field("i", inner),
        field("again", record(field("j", "Inner"), field("g", "Global"), name="a.b.Outer")),
    )
    again = parsed(node).fields[2].schema
    assert [one.schema.name for one in again.fields] == ["a.b.Inner", "Global"]
    assert again.fields[0].schema is parsed(node).fields[1].schema or again.fields[0].schema.name == "a.b.Inner"


def test_references_are_found_whatever_their_order_and_nested():
    references = {
        "shop.Order": record(field("of", "Customer"), field("item", "shop.Item"), name="shop.Order"),
        "shop.Item": record(field("price", "double"), name="Item", namespace="shop"),
        "shop.Customer": record(field("id", record(field("n", "long"), name="Id")), name="shop.Customer"),
    }
    whole = parsed(["null", "shop.Order", "shop.Id"], references)
    assert [one.name for one in whole.branches[1:]] == ["shop.Order", "shop.Id"]
    assert whole.branches[1].fields[0].schema.fields[0].schema is whole.branches[2]


def test_logical_types_are_kept_where_their_type_can_carry_them():
    def logical(kind, logical_type, **more):
        return parsed({"type": kind, "logicalType": logical_type, **more}).logical

    assert logical("int", "date") == Logical("date")
    assert logical("long", "local-timestamp-nanos") == Logical("local-timestamp-nanos")
    assert logical("string", "uuid") == Logical("uuid")
    assert logical("fixed", "duration", name="D", size=12) == Logical("duration")
    assert logical("bytes", "decimal", precision=10, scale=2) == Logical("decimal", 10, 2)
    assert logical("fixed", "decimal", name="D", size=4, precision=9) == Logical("decimal", 9, 0)
    assert logical("fixed", "decimal", name="D", size=4, precision=10) is None  # 2^31 - 1 has nine whole digits
    assert logical("bytes", "decimal", precision=2, scale=3) is None
    assert logical("string", "date") is None
    assert logical("long", "moon-phase") is None
    assert logical("int", 7) is None


@pytest.mark.parametrize(
    ("schema", "given", "value"),
    [
        ("null", None, None),
        ("double", 7, 7.0),
        ("bytes", "\u00ff\u0000", b"\xff\x00"),
        (["null", "string"], None, Branch(0, None)),
        (["null", "string"], "x", Branch(1, "x")),  # since 1.12 of any branch
        ({"type": "map", "values": "int"}, {"a": 1}, (("a", 1),)),
        (record(field("a", "int"), field("b", "int", default=5), name="Inner"), {"a": 1}, (1, 5)),
    ],
)
def test_a_default_is_the_value_that_it_stands_for(schema, given, value):
    assert parsed(record(field("f", schema, default=given))).fields[0].default == Default(value)


@pytest.mark.parametrize(
    ("node", "place", "words"),
    [
        ("int4", "$:", "unknown type"),
        (record(field("a", record(field("b", "nope"), name="I"))), "$.a.b:", "unknown type"),
        (
            record(field("a", {"type": "array", "items": ["null", {"type": "map", "values": 7}]})),
            "$.a[](1){}:",
            "not 7",
        ),
        (record(field("a", "int", default="x")), "$.a:", "not a value of int"),
        (record(field("a", "int", default=1 << 31)), "$.a:", "not a value of int"),
        (record(field("a", "string", default="\ud800")), "$.a:", "not a value of string"),
        (record(field("a", ["null", ["int"]])), "$.a(1):", "union directly within"),
        (record(field("a", ["int", "int"])), "$.a(1):", "twice"),
        (record(field("a", "int"), field("a", "int")), "$.a:", "two fields"),
        (record(field("1a", "int")), "$: field 0:", "not a name"),
        (record(field("a", {"type": "enum", "name": "R", "symbols": ["A"]})), "$.a:", "R is defined twice"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "$:", "twice"),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "$:", "not one of its symbols"),
        ({"type": "fixed", "name": "F", "size": -1}, "$:", "not a number of bytes"),
        ({"type": "record", "name": "R"}, "$:", "'fields' is missing"),
        ([], "$:", "without branches"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(node, place, words):
    with pytest.raises(SchemaError) as caught:
        parsed(node)
    assert str(caught.value).startswith(place), caught.value
    assert words in str(caught.value)


def test_a_record_within_itself_is_there_again_also_over_references():
    references = {"A": record(field("b", "B"), name="A"), "B": record(field("a", ["null", "A"]), name="B")}
    records = records_of(parsed("A", references))
    assert set(records) == {"A", "B"}
    assert records["B"].fields[0].schema == Union((AvroPrimitive("null"), Again("A")))
    with pytest.raises(SchemaError, match="A is not defined by the reference of this name"):
        parsed("A", {"A": {"type": "array", "items": "A"}})


def test_a_default_that_its_field_cannot_have_is_none_where_nobody_uses_it():
    text = json.dumps(record(field("a", "int", default="x"), field("b", "int", default=7)))
    found = records_of(parse_schema(text, defaults=False))["R"]
    assert [member.default for member in found.fields] == [None, Default(7)]


def test_the_type_of_a_reference_is_found_whatever_the_references_name_is():
    """Confluent's AvroSchema parses the texts of all references in order, and passes over their names."""
    references = {"b": record(field("x", "int"), name="n.B"), "Order.avsc": record(field("b", "B"), name="n.Order")}
    by_full_name = {"n.B": references["b"], "n.Order": references["Order.avsc"]}
    assert parsed("n.Order", references) == parsed("n.Order", by_full_name)
    with pytest.raises(SchemaError, match=r"unknown type 'n\.Refund'"):
        parsed("n.Refund", references)
    with pytest.raises(SchemaError, match="unknown type 'A'"):
        parsed("A", {"A": record(name="B")})


def doubling(levels):
    """2^levels types in a text of some lines."""
    node = record(field("x", "int"), name="R0")
    for i in range(1, levels):
        node = record(field("a", node), field("b", f"R{i - 1}"), name=f"R{i}")
    return node


def test_what_a_text_stands_for_is_bounded():
    assert parsed(doubling(10))
    with pytest.raises(SchemaError, match="more than 10000 types"):
        parsed(doubling(40))


def chain(length):
    """A record in a record in a record, in a text that does not nest."""
    fields = [field("f0", record(field("x", "int"), name="R0"))]
    fields += [field(f"f{i}", record(field("x", f"R{i - 1}"), name=f"R{i}")) for i in range(1, length)]
    return record(*fields, name="All")


def nest(depth):
    return '{"type":"array","items":' * depth + '"int"' + "}" * depth


@pytest.mark.parametrize("deep", [nest, lambda depth: json.dumps(chain(depth))])
def test_depth_is_bounded(deep):
    parse_schema(deep(MOST_DEPTH - 4))
    for depth in (MOST_DEPTH + 1, 500, 1000, *([100_000] if deep is nest else [])):
        with pytest.raises(SchemaError, match="nests"):
            parse_schema(deep(depth))


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "NaN", '{"type":"fixed","name":"F","size":' + "9" * 5000 + "}"]
)
def test_what_is_no_json_is_an_error_of_ours(text):
    with pytest.raises(SchemaError):
        parse_schema(text)


def test_comments_and_a_byte_order_mark_are_passed_over_as_by_avro_1_12():
    text = """\ufeff/* who: * / "shop" **/ {"type": "record", // the "whole" \\
      "name": "R", "fields": [/**/
        {"name": "a", "type": "string", "default": "// no /* comment */ \\" \\\\"} // \\" the last
      ]} /* after it */ // C:\\"""
    default = '// no /* comment */ " \\'
    assert parse_schema(text) == AvroRecord("R", (AvroField("a", AvroPrimitive("string"), (), Default(default)),))
    assert parse_schema('"R"', {"R": text}) == parse_schema(text)


@pytest.mark.parametrize("text", ['"int" /* no end', '"int" /*/', '"int" / 2', '# "int"', '"in//t', "// nothing"])
def test_what_is_no_comment_of_avro_is_none(text):
    with pytest.raises(SchemaError, match="not JSON"):
        parse_schema(text)


def test_an_error_behind_a_comment_has_the_line_of_the_text():
    with pytest.raises(SchemaError, match="line 3"):
        parse_schema('/* one\ntwo */ {"type":\n oops}')


def test_a_namespace_may_have_dashes_and_begin_with_a_digit_as_debeziums_topic_prefixes_do():
    envelope = record(field("op", "string"), name="Envelope", namespace="my-server.1-db.orders")
    assert parsed(envelope).name == "my-server.1-db.orders.Envelope"
    assert parsed(record(field("v", envelope), name="a-b.V")).fields[0].schema.name == "my-server.1-db.orders.Envelope"
    for name in ("a-b", "a..R", "a b.R", "a.b-R"):
        with pytest.raises(SchemaError, match=r"not a name|expected a name"):
            parsed(record(name=name))
