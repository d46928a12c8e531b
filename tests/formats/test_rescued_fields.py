"""Tests `rescuedColumn`: which fields of a record the columns lack, and their JSON. fastavro writes and reads the Avro
records, Google's protobuf the Protobuf records."""

from __future__ import annotations

import base64
import io
import json
import math
import random

import pyarrow as pa
import pytest
from frame_mutations import damaged
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from kept_schemas import KeptSchemas, avro, encoded, fastavro, framed
from random_inputs import examples

from kafkasource.formats.avro.decode import AvroDecoder
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.json.columns import JsonLayout
from kafkasource.formats.json.programs import JsonProgram
from kafkasource.formats.json.rows import JsonRows
from kafkasource.formats.protobuf.rendering import Rendering
from kafkasource.formats.rows import RegisteredRows
from kafkasource.formats.schema_source import RegisteredSchema

MIB = 1 << 20


def record(*fields, name="Order"):
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields]}


ID = record(("id", "long"))
CITY = record(("id", "long"), ("city", ["null", "string"]))


def rescued(rows, values, most_bytes=MIB):
    """(values, rescued fields as Python values, bad rows, what is lacking)"""
    found, texts, bad, lacking = [], [], {}, set()
    for piece in rows.pieces(pa.array(values, pa.binary()), None, most_bytes):
        assert piece.start == len(found)
        piece.array.validate(full=True)
        found += piece.array.to_pylist()
        if piece.rescued is None:
            texts += [None] * (piece.end - piece.start)
        else:
            piece.rescued.validate(full=True)
            assert len(piece.rescued) == len(piece.array) == piece.end - piece.start
            texts += [text and json.loads(text) for text in piece.rescued.to_pylist()]
        bad |= {each.row: each for each in piece.bad}
        lacking |= {(each.schema_id, each.paths) for each in piece.lacking}
    return found, texts, bad, lacking


def of_writers(reader, *writers, **more):
    return RegisteredRows(avro(reader), KeptSchemas(dict(enumerate(writers, 1))), rescues=True, **more)


# Avro.


def test_a_new_field_is_rescued_from_the_records_that_have_it_in_the_rows_order():
    tags = record(("id", "long"), ("tags", {"type": "map", "values": "int"}), ("city", "string"))
    values = [
        framed(2, CITY, {"id": 1, "city": "Paris"}),
        framed(1, ID, {"id": 2}),
        None,
        framed(3, tags, {"id": 3, "tags": {"a": 1}, "city": "Łódź\n"}),
        b"nonsense",
        framed(2, CITY, {"id": 5, "city": None}),
        framed(2, CITY, {"id": 6, "city": "Ulm"})[:-1],
    ]
    found, texts, bad, lacking = rescued(of_writers(ID, ID, CITY, tags), values)
    assert [row and row["id"] for row in found] == [1, 2, None, 3, None, 5, None]
    assert texts == [{"city": "Paris"}, None, None, {"tags": {"a": 1}, "city": "Łódź\n"}, None, None, None]
    assert list(bad) == [4, 6]
    assert lacking == {(2, ("city",)), (3, ("tags", "city"))}


NESTED = {
    "struct": lambda inner: inner,
    "array": lambda inner: {"type": "array", "items": inner},
    "map": lambda inner: {"type": "map", "values": ["null", inner]},
    "union": lambda inner: ["string", inner],
}


@pytest.mark.parametrize(("shape", "path"), [("struct", "a.zip"), ("array", "a[].zip"), ("map", "a{}.zip"),
                                             ("union", "a.zip")])  # fmt: skip
def test_a_field_is_whole_in_the_rescued_ones_if_the_columns_lack_a_part_of_it(shape, path):
    whole = {"street": "x", "zip": 7}
    part = {"struct": whole, "array": [whole], "map": {"k": whole}, "union": whole}[shape]
    writer = record(("id", "long"), ("a", NESTED[shape](record(("street", "string"), ("zip", "int"), name="A"))))
    reader = record(("id", "long"), ("a", NESTED[shape](record(("street", "string"), name="A"))))
    _, texts, bad, lacking = rescued(of_writers(reader, writer), [framed(1, writer, {"id": 1, "a": part})])
    text = {"member1": part} if shape == "union" else part  # as the column of a union is
    assert (texts, bad, lacking) == ([{"a": text}], {}, {(1, (path,))})


def test_an_alias_of_the_reader_lacks_nothing():
    reader = {**ID, "fields": [{"name": "number", "type": "long", "aliases": ["id"]}]}
    found, texts, _, lacking = rescued(of_writers(reader, ID), [framed(1, ID, {"id": 1})])
    assert (found, texts, lacking) == ([{"number": 1}], [None], set())


def test_the_text_is_what_value_format_json_writes():
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    moment = {"type": "long", "logicalType": "timestamp-millis"}
    kinds = (
        ("b", "bytes"),
        ("d", decimal),
        ("t", moment),
        ("f", "double"),
        ("e", {"type": "enum", "name": "E", "symbols": ["X"]}),
    )
    writer = record(("id", "long"), *kinds)
    value = {"id": 1, "b": b"\0\xff", "d": "12.50", "t": 1_700_000_000_123, "f": math.nan, "e": "X"}
    data = b"\0\0\0\0\1\x02\x04\x00\xff\x04\x04\xe2" + encoded("long", value["t"]) + encoded("double", math.nan) + b"\0"
    (piece,) = of_writers(ID, writer).pieces(pa.array([data]), None, MIB)
    text = piece.rescued[0].as_py()
    assert text == '{"b":"AP8=","d":12.50,"t":"2023-11-14T22:13:20.123Z","f":"NaN","e":"X"}'


def test_a_record_beside_null_has_rescued_fields_as_a_record_has():
    """As `to_avro` registers a column that may be null."""
    found, texts, bad, _ = rescued(
        of_writers(["null", ID], ["null", CITY], [CITY, "null"]),
        [framed(1, ["null", CITY], {"id": 1, "city": "a"}), framed(2, [CITY, "null"], {"id": 2, "city": "b"})],
    )
    assert (found, texts, bad) == ([{"id": 1}, {"id": 2}], [{"city": "a"}, {"city": "b"}], {})


def test_a_field_without_a_column_is_left_out_and_named_and_the_others_are_there():
    tree = record(("id", "long"), ("kin", ["null", "Order"]), ("city", "string"))
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}
    writer = {**tree, "fields": [*tree["fields"], {"name": "wide", "type": wide}]}
    data = b"\0\0\0\0\1" + b"\2" + b"\2\4\0\2b\2\1" + b"\2a" + b"\2\1"
    found, texts, bad, lacking = rescued(of_writers(ID, writer), [data])
    assert (found, texts, bad) == ([{"id": 1}], [{"city": "a"}], {})
    ((_, paths),) = lacking
    assert [path.partition(" (left out: ")[0] for path in paths] == ["kin", "city", "wide"]
    assert "contains itself" in paths[0]
    assert "50 digits" in paths[2]


def test_a_writer_of_several_records_is_read_and_told_to_lack_fields():
    other = record(("id", "long"), ("x", "int"), name="Other")
    writer = [CITY, other]
    found, texts, bad, lacking = rescued(of_writers(ID, writer), [b"\0\0\0\0\1\0\2\2\2a", b"\0\0\0\0\1\2\4\2"])
    assert (found, texts, bad) == ([{"id": 1}, {"id": 2}], [None, None], {})
    assert "left out: the writer's schema is [record Order, record Other]" in next(iter(lacking))[1][0]


def test_a_record_whose_rescued_fields_are_wrong_is_bad_and_says_where():
    """Without the option such a field is passed over."""
    bytes_of = framed(1, CITY, {"id": 1, "city": "x"})[:-1] + b"\xff"
    found, texts, bad, _ = rescued(of_writers(ID, CITY), [bytes_of, framed(1, CITY, {"id": 2, "city": "y"})])
    assert (found, texts) == ([None, {"id": 2}], [None, {"city": "y"}])
    assert [(each.row, each.schema_id, each.place, each.cause) for each in bad.values()] == [
        (0, 1, "$.city", "a string is not UTF-8")
    ]
    rows = RegisteredRows(avro(ID), KeptSchemas({1: CITY}))
    assert [piece.array.to_pylist() for piece in rows.pieces(pa.array([bytes_of]), None, MIB)] == [[{"id": 1}]]


def test_one_record_cannot_make_the_text_large_and_many_come_in_pieces():
    """A boolean of one byte is a text as long as its name."""
    name = "n" * 900
    flags = {"type": "array", "items": record((name, "boolean"), name="Flag")}
    writer = record(("id", "long"), ("flags", flags))
    small = framed(1, writer, {"id": 1, "flags": [{name: True}]})
    large = framed(1, writer, {"id": 2, "flags": [{name: False}] * 9_000})
    found, texts, bad, _ = rescued(of_writers(ID, writer), [small, large, small], most_bytes=MIB)
    assert [row and row["id"] for row in found] == [1, None, 1]
    assert texts == [{"flags": [{name: True}]}, None, {"flags": [{name: True}]}]
    assert [(row, each.schema_id, each.cause) for row, each in bad.items()] == [
        (1, 1, "the record's columns take more memory than a piece may have")
    ]
    some = framed(1, writer, {"id": 3, "flags": [{name: False}] * 1_000})
    pieces = list(of_writers(ID, writer).pieces(pa.array([some] * 50), None, MIB))
    sizes = [piece.rescued.nbytes for piece in pieces]
    assert sum(piece.end - piece.start for piece in pieces) == 50
    assert len(sizes) > 5
    assert max(sizes) < 2 * MIB
    nulls = record(("id", "long"), ("nothing", {"type": "array", "items": "null"}))
    bomb = b"\0\0\0\0\1\2" + encoded("long", 1 << 30) + b"\0"
    _, texts, bad, _ = rescued(of_writers(ID, nulls), [bomb])
    assert (texts, list(bad)) == ([None], [0])


def test_a_record_is_not_too_large_because_records_of_other_writers_are_beside_it():
    """Each has a third of the largest text that a piece of these bytes may have."""
    writers = [record(("id", "long"), (f"f{number}", "string")) for number in range(30)]
    text = "x" * 300_000
    values = [framed(number, each, {"id": 1, f"f{number - 1}": text}) for number, each in enumerate(writers, 1)]
    _, texts, bad, _ = rescued(of_writers(ID, *writers), values, most_bytes=1)
    assert (texts, bad) == ([{f"f{number}": text} for number in range(30)], {})


def test_a_read_without_the_option_and_a_writer_without_more_fields_run_the_same_program():
    """So neither costs anything."""
    with_option, without = (
        RegisteredRows(avro(ID), KeptSchemas({1: CITY, 2: ID}), rescues=rescues) for rescues in (True, False)
    )
    for rows in (with_option, without):
        rescued(rows, [framed(1, CITY, {"id": 1, "city": "a"}), framed(2, ID, {"id": 2})])
    codes = [vars(rows._format)["_decoder"]._writers.code for rows in (with_option, without)]
    assert codes[0] == codes[1] == _words(ID, CITY, ID)
    assert [writer.rescue is None for writer in with_option._writers.values()] == [False, True]
    kind = pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))])
    plain, rescuing = (JsonProgram(JsonLayout(kind, rescues)) for rescues in (False, True))
    assert plain.code == rescuing.code


def _words(reader, *writers):
    return AvroDecoder(
        parse_schema(json.dumps(reader)), [parse_schema(json.dumps(each)) for each in writers]
    )._writers.code


class Evolution:
    """A random writer's schema, and a reader's that lacks some of its fields."""

    def __init__(self, rng):
        self.rng, self.names = rng, 0

    def struct(self, depth):
        self.names += 1
        whole = {"type": "record", "name": f"R{self.names}"}
        fields = [self.field(f"f{number}", depth) for number in range(self.rng.randrange(1, 5))]
        writer, reader = [each for each, _ in fields], [other for _, other in fields if other is not None]
        return {**whole, "fields": writer}, {
            **whole,
            "fields": reader or [{"name": "new", "type": "int", "default": 3}],
        }

    def field(self, name, depth):
        writer, reader = self.kind(depth)
        gone = self.rng.random() < 0.2
        return {"name": name, "type": writer}, None if gone else {"name": name, "type": reader}

    def kind(self, depth):
        roll = self.rng.randrange(9 if depth else 5)
        if roll < 5:
            return ((plain := ("long", "string", "boolean", "int", ["null", "string"])[roll]), plain)
        writer, reader = self.struct(depth - 1)
        if roll == 5:
            return writer, reader
        if roll == 6:
            return ["null", writer], ["null", reader]
        word, key = ("array", "items") if roll == 7 else ("map", "values")
        return {"type": word, key: writer}, {"type": word, key: reader}


def lacks(writer, reader):
    """Whether the reader's JSON has less than the writer's."""
    if isinstance(writer, list):
        return any(lacks(*pair) for pair in zip(writer, reader, strict=True))
    if isinstance(writer, str):
        return False
    if writer["type"] == "record":
        ours = {each["name"]: each["type"] for each in reader["fields"]}
        return any(each["name"] not in ours or lacks(each["type"], ours[each["name"]]) for each in writer["fields"])
    key = "items" if writer["type"] == "array" else "values"
    return lacks(writer[key], reader[key])


def without_null(value):
    if isinstance(value, dict):
        return {key: without_null(each) for key, each in value.items() if each is not None}
    return [without_null(each) for each in value] if isinstance(value, list) else value


def value_of(rng, kind):
    if isinstance(kind, list):
        return value_of(rng, kind[1]) if rng.random() < 0.6 else None
    if isinstance(kind, str):
        return {"long": rng.randrange(-(1 << 40), 1 << 40), "string": rng.choice(("", "a", '"\\\n', "é😀")),
                "boolean": rng.random() < 0.5, "int": rng.randrange(100)}[kind]  # fmt: skip
    if kind["type"] == "record":
        return {each["name"]: value_of(rng, each["type"]) for each in kind["fields"]}
    if kind["type"] == "array":
        return [value_of(rng, kind["items"]) for _ in range(rng.randrange(3))]
    return {rng.choice("abc"): value_of(rng, kind["values"]) for _ in range(rng.randrange(3))}


@pytest.mark.parametrize("seed", range(examples(200)))
def test_what_fastavro_reads_and_the_columns_lack_is_rescued(seed):
    rng = random.Random(seed)
    evolution = Evolution(rng)
    writer, reader = evolution.struct(3)
    values = [value_of(rng, writer) for _ in range(5)]
    ours = {each["name"]: each["type"] for each in reader["fields"]}
    expected = []
    for value in values:
        data = encoded(writer, value)
        fields = fastavro.schemaless_reader(io.BytesIO(data), writer)
        lacking = {
            each["name"]: fields[each["name"]]
            for each in writer["fields"]
            if each["name"] not in ours or lacks(each["type"], ours[each["name"]])
        }
        expected.append(without_null(lacking) or None)
    rows = of_writers(reader, writer)
    found, texts, bad, _ = rescued(rows, [framed(1, writer, value) for value in values], rng.choice((1, 1000, MIB)))
    assert (texts, bad) == (expected, {})
    alone = RegisteredRows(avro(reader), KeptSchemas({1: writer}))
    column = pa.array([framed(1, writer, value) for value in values])
    assert [row for piece in alone.pieces(column, None, MIB) for row in piece.array.to_pylist()] == found


@pytest.mark.parametrize("seed", range(examples(200)))
def test_damaged_records_of_any_writer_are_bad_or_rescued_and_stay_in_their_rows(seed):
    rng = random.Random(seed)
    writer, reader = Evolution(rng).struct(3)
    good = framed(1, writer, value_of(rng, writer))
    values = [good if rng.random() < 0.5 else damaged(rng, good, good) for _ in range(6)]
    found, texts, bad, _ = rescued(of_writers(reader, writer), values, rng.choice((1, MIB)))
    alone = rescued(of_writers(reader, writer), [good])
    assert len(found) == len(texts) == len(values)
    for row, value in enumerate(values):
        if row in bad:
            assert found[row] is texts[row] is None
        if value == good:
            assert ([found[row]], [texts[row]], {}) == alone[:3]


# Protobuf.

F = descriptor_pb2.FieldDescriptorProto


def proto_file(*, wide, syntax="proto3"):
    """A file whose message Order has more fields if it is wide: (the text that a registry gives, Google's class)."""
    file = descriptor_pb2.FileDescriptorProto(name="f.proto", package="shop", syntax=syntax)
    order, at = file.message_type.add(name="Order"), file.message_type.add(name="Address")
    _field(order, "id", 1, F.TYPE_INT32)
    _field(order, "at", 2, F.TYPE_MESSAGE, type_name=".shop.Address")
    _field(at, "street", 1, F.TYPE_STRING)
    if wide:
        file.enum_type.add(name="Colour").value.extend(
            [
                descriptor_pb2.EnumValueDescriptorProto(name=name, number=number)
                for number, name in enumerate(("NONE", "RED"))
            ]
        )
        _field(at, "zip", 2, F.TYPE_STRING)
        _field(order, "tags", 3, F.TYPE_STRING, label=F.LABEL_REPEATED)
        _field(order, "more", 4, F.TYPE_MESSAGE, type_name=".shop.Order.MoreEntry", label=F.LABEL_REPEATED)
        entry = order.nested_type.add(name="MoreEntry")
        entry.options.map_entry = True
        _field(entry, "key", 1, F.TYPE_INT32)
        _field(entry, "value", 2, F.TYPE_MESSAGE, type_name=".shop.Address")
        _field(order, "city", 5, F.TYPE_STRING)
        _field(order, "colour", 6, F.TYPE_ENUM, type_name=".shop.Colour")
        _field(order, "raw", 7, F.TYPE_BYTES)
        _field(order, "must", 8, F.TYPE_INT32, label=F.LABEL_OPTIONAL if syntax == "proto3" else F.LABEL_REQUIRED)
        if syntax == "proto2":
            group = order.nested_type.add(name="Extra")
            _field(group, "a", 1, F.TYPE_INT32)
            _field(order, "extra", 9, F.TYPE_GROUP, type_name=".shop.Order.Extra")
            _field(order, "size", 10, F.TYPE_INT32, default_value="7")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return base64.b64encode(file.SerializeToString()).decode(), kind


def _field(message, name, number, kind, label=F.LABEL_OPTIONAL, **more):
    message.field.add(name=name, number=number, type=kind, label=label, **more)


def of_messages(reader, *writers, **more):
    schemas = {number: RegisteredSchema("PROTOBUF", text) for number, text in enumerate(writers, 1)}
    reader = RegisteredSchema("PROTOBUF", reader)
    return RegisteredRows(reader, KeptSchemas(schemas), message_name="shop.Order", rescues=True, **more)


def as_json(message, *names):
    """Google's JSON of some fields."""
    found = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return {name: found[name] for name in names if name in found} or None


WIDE_FIELDS = ("tags", "more", "city", "colour", "raw", "at", "must", "extra", "size")


@pytest.mark.parametrize("syntax", ["proto3", "proto2"])
def test_protobuf_fields_that_the_readers_message_lacks_are_rescued(syntax):
    (narrow, small), (wide, order) = (proto_file(wide=wide, syntax=syntax) for wide in (False, True))
    given = [
        order(id=1, city="Ulm", tags=["a", "b"], raw=b"\xff\0", colour=1, must=4),
        order(id=2, at={"street": "x", "zip": "7"}, more={3: {"zip": "9"}}),
        order(id=3, at={"street": "x"}),
        order(id=4),
    ]
    if syntax == "proto2":
        given.append(order(id=5, extra={"a": 6}))
    values = [b"\0\0\0\0\2\0" + each.SerializePartialToString() for each in given]
    values += [b"\0\0\0\0\1\0" + small(id=9, at={"street": "y"}).SerializeToString(), None]
    found, texts, bad, lacking = rescued(of_messages(narrow, narrow, wide), values)
    assert texts == [*(as_json(each, *WIDE_FIELDS) for each in given), None, None]
    assert [row and row["id"] for row in found] == [*range(1, len(given) + 1), 9, None]
    assert bad == {}
    ((schema_id, paths),) = lacking
    assert schema_id == 2
    assert set(paths[:7]) == {"at.zip", "tags", "more", "city", "colour", "raw", "must"}


def test_a_message_that_contains_itself_lacks_what_is_within_it():
    """Its column goes as deep as the option says; so does the rescued field."""
    first = "message Order { int32 id = 1; Order kin = 2; }"
    newer = "message Order { int32 id = 1; Order kin = 2; string city = 3; }"
    reader, writer = (f'syntax = "proto3"; package shop; {text}' for text in (first, newer))
    data = b"\0\0\0\0\1\0" + b"\x08\x01" + b"\x12\x05\x08\x02\x1a\x01x"
    _, texts, bad, lacking = rescued(
        of_messages(reader, writer, rendering=Rendering(recursive_fields_max_depth=2)), [data]
    )
    assert (texts, bad) == ([{"kin": {"id": 2, "city": "x"}}], {})
    assert {path for _, paths in lacking for path in paths} == {"kin.city", "city"}


def test_an_unknown_number_that_the_writers_message_lacks_too_is_passed_over():
    wide, order = proto_file(wide=True)
    narrow, _ = proto_file(wide=False)
    data = b"\0\0\0\0\1\0" + order(id=1, city="x").SerializeToString() + b"\xfa\x01\x01y" + b"\xfb\x01\xfc\x01"
    assert rescued(of_messages(narrow, wide), [data])[1:3] == ([{"city": "x"}], {})


def test_protobuf_text_that_is_not_utf8_in_a_rescued_field_is_a_bad_record():
    (narrow, _), (wide, _) = proto_file(wide=False), proto_file(wide=True)
    found, texts, bad, _ = rescued(of_messages(narrow, wide), [b"\0\0\0\0\1\0\x2a\1\xff"])
    assert (found, texts) == ([None], [None])
    assert [(each.place, each.cause) for each in bad.values()] == [("$.city", "a string is not UTF-8")]


@pytest.mark.parametrize("seed", range(examples(100)))
def test_damaged_records_with_more_fields_are_bad_or_rescued_and_stay_in_their_rows(seed):
    rng = random.Random(seed)
    (narrow, _), (wide, order) = proto_file(wide=False), proto_file(wide=True)
    good = b"\0\0\0\0\1\0" + order(id=7, city="Ulm", tags=["a"], more={1: {"zip": "9"}}).SerializeToString()
    values = [good if rng.random() < 0.5 else damaged(rng, good, good) for _ in range(6)]
    found, texts, bad, _ = rescued(of_messages(narrow, wide), values, rng.choice((1, MIB)))
    assert len(found) == len(texts) == len(values)
    for row, value in enumerate(values):
        if row in bad:
            assert found[row] is texts[row] is None
        if value == good:
            assert texts[row] == {"city": "Ulm", "tags": ["a"], "more": {"1": {"zip": "9"}}}


# JSON.

KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("at", pa.struct([("street", pa.string())])),
        ("list", pa.list_(pa.struct([("a", pa.int32())]))),
        ("any", pa.string()),
    ]
)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (b'{"id":1}', None),
        (b"{}", None),
        (b'{"id":1,"city":"Ulm"}', '{"city":"Ulm"}'),
        (b'{"city" : null ,"id":1, "x":[1, {"y":2}]\n}', '{"city" : null,"x":[1, {"y":2}]}'),
        (b'{"at":{"street":"x"}}', None),
        (b'{"at": {"street":"x","zip":7},"id":1}', '{"at": {"street":"x","zip":7}}'),
        (b'{"list":[{"a":1},{"a":2,"b":3}],"z":0}', '{"list":[{"a":1},{"a":2,"b":3}],"z":0}'),
        (b'{"any":{"x":{"y":1}}}', None),  # a text: its JSON
        (b'{"x":1,"x":2}', '{"x":1,"x":2}'),  # as it is written; readers take the last
        (b'{"at":{"zip":1},"at":{"street":"b"}}', '{"at":{"zip":1}}'),
        (b'{"n\\u0061me":1,"\\u0069d":5}', '{"n\\u0061me":1}'),
        (b'\0\0\0\0\7{"x":1e999}', '{"x":1e999}'),
        (b'{"Id":1}', '{"Id":1}'),
        ('{"é":"😀"}'.encode(), '{"é":"😀"}'),
        (b"null", None),
    ],
)
def test_members_of_a_json_record_are_rescued_as_they_are_written(record, text):
    rows = JsonRows(KIND, rescues=True)
    for most_bytes in (1, MIB):
        (first, second) = (
            each
            for piece in rows.pieces(pa.array([record, record]), None, most_bytes)
            for each in piece.rescued.to_pylist()
        )
        assert first == second == text
    plain = [piece.array.to_pylist() for piece in JsonRows(KIND).pieces(pa.array([record]), None, MIB)]
    assert plain == [piece.array.to_pylist() for piece in rows.pieces(pa.array([record]), None, MIB)]


@pytest.mark.parametrize(
    "record",
    [
        b'{"x":NaN}', b'{"x":"\xff"}', b'{"x":01}', b'{"x":1,}', b'{"x":1', b'{"x":"\\ud800"}', b'{"id":"no","x":1}',
        b'{"x":' + b"[" * 1001 + b"]" * 1001 + b"}", b'{"x":1} y',
    ],
)  # fmt: skip
def test_a_json_record_that_is_bad_without_the_option_is_bad_with_it(record):
    for most_bytes in (1, MIB):
        _, texts, bad, _ = rescued(JsonRows(KIND, rescues=True), [b'{"x":1}', record, b'{"y":2}'], most_bytes)
        assert (texts, list(bad)) == ([{"x": 1}, None, {"y": 2}], [1])


def test_rescued_json_counts_in_the_memory_of_a_piece():
    deep = b'{"' + b"k" * 100_000 + b'":' + b"[" * 900 + b"]" * 900 + b"}"
    small = b'{"x":1}'
    texts = []
    for piece in JsonRows(KIND, rescues=True).pieces(pa.array([small, *[deep] * 100, small]), None, MIB):
        assert piece.rescued.get_total_buffer_size() + piece.array.get_total_buffer_size() <= MIB
        texts += piece.rescued.to_pylist()
    assert texts == [small.decode(), *[deep.decode()] * 100, small.decode()]
