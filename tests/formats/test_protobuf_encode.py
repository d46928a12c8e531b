"""Tests columns to Protobuf: the encoding guide's bytes, the frames of Confluent's serializers, and refused columns."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from kafkasource.errors import SchemaError
from kafkasource.formats.encoding.encode import CannotEncode
from kafkasource.formats.protobuf.encode import ProtobufEncoder
from kafkasource.formats.protobuf.schema import read_schema
from kafkasource.formats.record_encoders import message_frame, record_encoder
from kafkasource.formats.schema_source import RegisteredSchema

TWO = """syntax = "proto3"; package p;
message First { int32 a = 1; }
message Second { string b = 1; message In { bool c = 1; message Deep { int32 d = 1; } } }
"""


def messages(text, column, name="M"):
    schema = read_schema(text)
    encoder = ProtobufEncoder(column.type, schema, schema.message_named(name))
    found = [record for piece in encoder.pieces(column, 1 << 20) for record in piece.records]
    return [each.as_py() for each in found]


def proto(fields, syntax="proto3", more=""):
    return (
        f'syntax = "{syntax}"; import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; '
        + (f"{more} message M {{ {fields} }}")
    )


def rows(values, **fields):
    return pa.array(values, pa.struct(list(fields.items())))


def test_the_examples_of_the_encoding_guide():
    # protobuf.dev/programming-guides/encoding: Test1, Test2, Test3, Test4, Test5
    assert messages(proto("optional int32 a = 1;"), rows([{"a": 150}], a=pa.int32())) == [bytes.fromhex("089601")]
    assert messages(proto("optional string b = 2;"), rows([{"b": "testing"}], b=pa.string())) == [
        bytes.fromhex("120774657374696e67")
    ]
    inner = "message T { optional int32 a = 1; }"
    assert messages(
        proto("optional T c = 3;", more=inner), rows([{"c": {"a": 150}}], c=pa.struct([("a", pa.int32())]))
    ) == [bytes.fromhex("1a03089601")]
    both = rows([{"d": "hello", "e": [1, 2, 3]}], d=pa.string(), e=pa.list_(pa.int32()))
    assert messages(proto("optional string d = 4; repeated int32 e = 6 [packed = false];"), both) == [
        bytes.fromhex("220568656c6c6f 3001 3002 3003")
    ]
    packed = rows([{"f": [3, 270, 86942]}], f=pa.list_(pa.int32()))
    assert messages(proto("repeated int32 f = 6;"), packed) == [bytes.fromhex("3206038e029ea705")]


def test_what_proto3_does_not_write_is_not_written_and_negative_numbers_have_ten_bytes():
    fields = (
        "int32 i = 1; bool b = 2; double d = 3; string s = 4; bytes y = 5; optional int64 p = 6; repeated int32 r = 7;"
    )
    kinds = {"i": pa.int32(), "b": pa.bool_(), "d": pa.float64(), "s": pa.string(), "y": pa.binary(), "p": pa.int64(),
             "r": pa.list_(pa.int32())}  # fmt: skip
    zeros = {"i": 0, "b": False, "d": 0.0, "s": "", "y": b"", "p": 0, "r": []}
    found = messages(proto(fields), rows([zeros, dict.fromkeys(zeros), None, {**zeros, "i": -1, "d": -0.0}], **kinds))
    minus = b"\x08" + b"\xff" * 9 + b"\x01" + b"\x19" + bytes(7) + b"\x80"
    assert found == [b"\x30\x00", b"", None, minus + b"\x30\x00"]


def test_large_submessages_move_to_make_room_for_their_size():
    inner = "message T { string s = 1; T2 t = 2; } message T2 { string s = 1; }"
    kind = pa.struct([("s", pa.string()), ("t", pa.struct([("s", pa.string())]))])
    for size in (100, 127, 128, 20_000, 3_000_000):
        (found,) = messages(proto("T c = 1;", more=inner), rows([{"c": {"s": "a", "t": {"s": "x" * size}}}], c=kind))
        assert found.endswith(b"x" * size)
        assert found[:1] == b"\x0a"
        assert b"\x0a\x01a\x12" in found[:12]


def test_times_are_seconds_and_nanos_with_the_signs_of_their_types():
    column = rows(
        [{"t": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.timezone.utc), "d": dt.timedelta(microseconds=-1)}],
        t=pa.timestamp("us", "UTC"), d=pa.duration("us"),
    )  # fmt: skip
    (found,) = messages(proto("google.protobuf.Timestamp t = 1; google.protobuf.Duration d = 2;"), column)
    time = Timestamp(seconds=-1, nanos=999_999_000).SerializeToString()
    span = Duration(nanos=-1000).SerializeToString()
    assert found == b"\x0a" + bytes([len(time)]) + time + b"\x12" + bytes([len(span)]) + span


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "-05:00"])
@pytest.mark.parametrize("unit", ["s", "ns"])
def test_a_timestamp_of_any_zone_is_its_moment(zone, unit):
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.timezone.utc)
    kind = pa.timestamp(unit, zone)
    column = rows([{"t": moment, "r": [moment]}], t=kind, r=pa.list_(kind))
    fields = "google.protobuf.Timestamp t = 1; repeated google.protobuf.Timestamp r = 2;"
    theirs = Timestamp()
    theirs.FromDatetime(moment)
    time = theirs.SerializeToString()
    assert messages(proto(fields), column) == [
        b"\x0a" + bytes([len(time)]) + time + b"\x12" + bytes([len(time)]) + time
    ]


def test_a_timestamp_without_a_zone_is_no_moment():
    column = rows([{"t": dt.datetime(2024, 5, 6)}], t=pa.timestamp("us"))
    with pytest.raises(SchemaError, match=r"^\$\.t: a column of timestamp\[us\] cannot be written as google\.protobuf"):
        messages(proto("google.protobuf.Timestamp t = 1;"), column)


@pytest.mark.parametrize(
    ("name", "index"),
    [("First", "00"), ("Second", "0202"), ("Second.In", "040200"), ("Second.In.Deep", "06020000")],
)
def test_the_message_index_is_that_of_confluents_serializer(name, index):
    schema = RegisteredSchema("PROTOBUF", TWO)
    assert message_frame(schema, f"p.{name}") == bytes.fromhex(index)
    kind = {"First": "a", "Second": "b", "In": "c", "Deep": "d"}[name.rpartition(".")[2]]
    value = {"a": (pa.int32(), 1), "b": (pa.string(), "x"), "c": (pa.bool_(), True), "d": (pa.int32(), 1)}[kind]
    column = rows([{kind: value[1]}], **{kind: value[0]})
    prefix = b"\0\0\0\0\1" + bytes.fromhex(index)
    (piece,) = record_encoder(schema, column.type, prefix, f"p.{name}").pieces(column, 1 << 20)
    assert piece.records[0].as_py().startswith(prefix + b"\x0a" if kind == "b" else prefix + b"\x08")


@pytest.mark.parametrize(
    ("fields", "column", "words"),
    [
        ("int32 a = 1;", {"a": pa.string()}, r"\$\.a: a column of string cannot be written as int32"),
        ("int32 a = 1;", {"a": pa.int64()}, r"\$\.a: a column of int64 cannot be written as int32"),
        ("int32 a = 1;", {"b": pa.int32()}, r"\$: the column has a field 'b', and message M has none of this name"),
        ("repeated int32 a = 1;", {"a": pa.int32()}, "cannot be written as repeated int32"),
        ("M2 a = 1;", {"a": pa.int32()}, "cannot be written as M2"),
        ("map<int32, M2> a = 1;", {"a": pa.list_(pa.int32())}, "cannot be written as repeated"),
        ("E a = 1;", {"a": pa.binary()}, "cannot be written as E"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_row_with_the_place(fields, column, words):
    with pytest.raises(SchemaError, match=words):
        messages(proto(fields, more="message M2 { int32 x = 1; } enum E { A = 0; }"), rows([], **column))
    with pytest.raises(SchemaError, match="it must be a struct"):
        messages(proto(fields, more="message M2 { int32 x = 1; } enum E { A = 0; }"), pa.array(["x"]))


def test_a_row_that_the_message_does_not_take_is_an_error_with_the_place():
    with pytest.raises(CannotEncode, match=r"\$\.e: the text is not a symbol"):
        messages(proto("E e = 1;", more="enum E { A = 0; B = 1; }"), rows([{"e": "C"}], e=pa.string()))
    with pytest.raises(CannotEncode, match=r"\$\.r\[\]: the value is null"):
        messages(proto("repeated int32 r = 1;"), rows([{"r": [1, None]}], r=pa.list_(pa.int32())))
    with pytest.raises(CannotEncode, match=r"\$\.r: the value is null"):
        messages(proto("required int32 r = 1;", "proto2"), rows([{"r": None}], r=pa.int32()))
    with pytest.raises(SchemaError, match=r"\$\.r: the message needs this field"):
        messages(proto("required int32 r = 1; optional int32 o = 2;", "proto2"), rows([], o=pa.int32()))


def test_every_enum_number_is_written_by_its_name():
    values = [0, 1, -1, 7, 2**31 - 1, -(2**31)]
    enum = "enum E { " + " ".join(f"V{at} = {number};" for at, number in enumerate(values)) + " }"
    text = proto("E e = 1; optional E o = 2; repeated E r = 3; map<string, E> m = 4;", more=enum)
    column = rows([{"e": "V0", "o": "V0", "r": ["V1", "V2"], "m": [("k", "V0")]}], e=pa.string(), o=pa.string(),
                  r=pa.list_(pa.string()), m=pa.map_(pa.string(), pa.string()))  # fmt: skip
    minus = b"\xff" * 9 + b"\x01"
    assert messages(text, column) == [b"\x10\x00" + b"\x1a\x0b\x01" + minus + b"\x22\x05\x0a\x01k\x10\x00"]


def test_a_message_that_ends_anywhere_near_the_end_of_a_buffer_is_whole():
    """The test of this name for Avro, for Protobuf."""
    inner = "message T { repeated int64 n = 1; google.protobuf.Timestamp t = 2; E e = 3; } enum E { A = 0; B = -1; }"
    schema = read_schema(proto("string s = 1; T v = 536870911;", more=inner))
    part = pa.struct([("n", pa.list_(pa.int64())), ("t", pa.timestamp("us", "UTC")), ("e", pa.string())])
    moment = dt.datetime(1, 1, 1, 1, 1, 1, 1, dt.timezone.utc)
    for value in ({"n": [-1] * 20}, {"t": moment}, {"e": "B"}, {"n": [-1], "t": moment, "e": "B"}):
        column = rows([{"s": "x" * n, "v": value} for n in range(3850, 4100)], s=pa.string(), v=part)
        encoder = ProtobufEncoder(column.type, schema, schema.message_named("M"))
        tight, wide = (
            [record.as_py() for piece in encoder.pieces(column, most) for record in piece.records]
            for most in (4096, 1 << 20)
        )
        assert tight == wide
