"""Writes protoc_files.json: what Google's protoc and protobuf make of the texts here. Needs grpcio-tools and protobuf:
`python tests/formats/record_protoc.py`. The tests need neither."""

from __future__ import annotations

import base64
import json
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import FieldDescriptor
from grpc_tools import protoc

PROTO3 = """// a comment
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import 'google/protobuf/wrappers.proto';
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/descriptor.proto";
import "google/protobuf/field_mask.proto";
import public "common.proto";
option java_package = "com." "shop";
option (file_note) = { text: "a } in text; and a ;" tags: ["a", "b"] nested { n: -1.5e3 } };
/* over
   lines */
message Order {
  reserved 100 to 110, 200;
  reserved "old", "older";
  option deprecated = true;
  int64 id = 1 [json_name = "ID", deprecated = true];
  string customer_name = 2; bytes raw = 0x3; bool paid = 04;
  optional int32 note_count = 5;
  repeated sint32 deltas = 6;
  repeated fixed64 marks = 7 [packed = false];
  repeated string tags = 8;
  map<string, Line> lines_by_name = 9;
  map<int32, Status> states = 10;
  map<fixed64, double> xY_z = 11;
  oneof payment { string card = 12; Money cash = 13; sfixed64 voucher = 14; }
  Status status = 15; uint32 u = 16; uint64 v = 17; float f = 18; double d = 19; sint64 s = 20; fixed32 w = 21;
  sfixed32 x = 22;
  google.protobuf.Timestamp at = 23;
  google.protobuf.Duration took = 24;
  google.protobuf.StringValue maybe = 25;
  google.protobuf.Struct more = 26;
  .google.protobuf.Any any = 27;
  google.protobuf.Empty empty = 28;
  google.protobuf.FieldMask mask = 29;
  common.Address address = 30;
  base.Id base_id = 31;
  Order parent = 32;
  message Line { string sku = 1; Kind kind = 2; enum Kind { NONE = 0; SOME = 1; } message Deep { Kind kind = 1; } }
  enum Status {
    UNKNOWN = 0; option allow_alias = true; OPEN = 1 [deprecated = true]; STARTED = 1; NEGATIVE = -7; BIG = 0x7fffffff;
  }
  Line.Deep deep = 33;
  Money.Currency currency = 536870911;
  // field names that are words of the language
  string message = 34; string optional = 35; string package = 36; int32 map = 37; string syntax = 38;
  repeated Line.Kind kinds = 39;
  ;
}
message Money { sint64 cents = 1; Currency currency = 2; enum Currency { EUR = 0; USD = 1; } }
service Shop {
  option deprecated = false;
  rpc Buy (Order) returns (stream Money) { option deprecated = true; }
  rpc Ask (Money) returns (Order);
}
extend google.protobuf.FileOptions { Note file_note = 50000; }
message Note { string text = 1; repeated string tags = 2; message Nested { double n = 1; } Nested nested = 3; }
"""

PROTO2 = r"""
syntax = "proto2";
package legacy;
message Event {
  required int64 id = 1;
  optional int32 a = 2 [default = -5];
  optional uint64 b = 3 [default = 18446744073709551615];
  optional double c = 4 [default = -inf];
  optional float d = 5 [default = 1.5e3, deprecated = true];
  optional string e = 6 [default = "a\"b\n\303\251" 'c'];
  optional bytes f = 7 [default = "\x00\377\\z"];
  optional bool g = 8 [default = true];
  optional Color h = 9 [default = GREEN];
  optional sint32 i = 10 [default = 0x10];
  optional int64 j = 11 [default = 010];
  optional double k = 12 [default = 3];
  optional double l = 13 [default = .5];
  repeated int32 m = 14 [packed = true];
  repeated int32 n = 15;
  optional group Result = 16 { required string url = 1; repeated group Inner = 2 { optional int32 x = 1; } }
  repeated group More = 17 [deprecated = true] { optional Color color = 1; }
  oneof choice { int32 o = 18; group Picked = 19 { optional bool yes = 1; } }
  map<string, bytes> p = 20;
  extensions 1000 to 1999, 5000 to max;
  extend Event { optional int32 ext = 1000; }
  enum Color { RED = 1; GREEN = 2; BLUE = 0; }
  optional Color q = 21;
}
extend Event { repeated group Ext = 1001 { optional int32 y = 1; } }
"""

NO_SYNTAX = "message Bare { optional string s = 1; message Inner {} }\nmessage Other { optional Bare.Inner inner = 1; }"

SCOPES = """syntax = "proto3"; package a.b.c;
message M {
  message N { message M { int32 x = 1; } M m = 1; .a.b.c.M top = 2; N n = 3; c.M other = 4; b.c.Z z = 5; }
  message Z { Z z = 1; }
  Z z = 2;
}
message Z { M.Z z = 1; M.N.M m = 2; }
"""

FILES = {
    "base.proto": 'syntax = "proto3"; package base; message Id { fixed64 id = 1; }',
    "common.proto": 'syntax = "proto2"; import public "base.proto"; package common; '
    "message Address { optional string city = 1; }",
    "shop.proto": PROTO3,
    "legacy.proto": PROTO2,
    "bare.proto": NO_SYNTAX,
    "scopes.proto": SCOPES,
    "unusual.proto": 'syntax="proto3";message E{}//é at the end',
    "described.proto": 'syntax = "proto2"; import "google/protobuf/api.proto"; import "google/protobuf/type.proto"; '
    'import "google/protobuf/source_context.proto"; import "google/protobuf/descriptor.proto"; message Described { '
    "optional google.protobuf.Api api = 1; optional google.protobuf.Field.Kind kind = 2; "
    "optional google.protobuf.FieldDescriptorProto.Label label = 3; "
    "repeated google.protobuf.UninterpretedOption options = 4; optional google.protobuf.SourceContext source = 5; }",
}

HEAD2, HEAD3 = 'syntax = "proto2"; ', 'syntax = "proto3"; '
WRONG = [
    HEAD3 + "message A { int32 a = 1 }",
    HEAD3 + "message A { int32 a = 0; }",
    HEAD3 + "message A { int32 a = 536870912; }",
    HEAD3 + "message A { int32 a = 19000; }",
    HEAD3 + "message A { int32 a = 1; int32 b = 1; }",
    HEAD3 + "message A { int32 a = 1; int64 a = 2; }",
    HEAD3 + "message A { required int32 a = 1; }",
    HEAD3 + "message A { Missing a = 1; }",
    HEAD3 + "message A { message B {} B.C a = 1; }",
    HEAD3 + "message A { map<float, int32> a = 1; }",
    HEAD3 + "message A { repeated map<int32, int32> a = 1; }",
    HEAD3 + "message A { oneof x { repeated int32 a = 1; } }",
    HEAD3 + "message A { oneof x { } }",
    HEAD3 + "message A { oneof x { map<int32, int32> a = 1; } }",
    HEAD3 + "message A { int32 a = 1 [default = 3]; }",
    HEAD3 + "message A { repeated string a = 1 [packed = true]; }",
    HEAD3 + "enum E { A = 1; }",
    HEAD3 + "enum E { }",
    HEAD3 + "enum E { A = 0; A = 1; }",
    HEAD3 + "enum E { A = 0; B = 2147483648; }",
    HEAD3 + "message A {} message A {}",
    HEAD3 + "message A {",
    HEAD3 + "message A {} }",
    HEAD3 + "message { }",
    HEAD3 + "message A { string a = 1 [json_name = ]; }",
    HEAD3 + "message A { /* no end",
    HEAD3 + 'option a = "no end;',
    HEAD3 + "message A { group B = 1 { } }",
    HEAD3 + "package a; package b;",
    HEAD2 + "message A { int32 a = 1; }",
    HEAD2 + "message A { optional int32 a = 1 [default = 2147483648]; }",
    HEAD2 + "message A { optional uint32 a = 1 [default = -1]; }",
    HEAD2 + "message A { optional bool a = 1 [default = 1]; }",
    HEAD2 + "message A { optional E a = 1 [default = C]; } enum E { B = 0; }",
    HEAD2 + "message A { repeated int32 a = 1 [default = 1]; }",
    HEAD2 + "message A { optional group b = 1 { } }",
    HEAD2 + "message A { optional string a = 1 [default = 5]; }",
    'syntax = "proto4"; message A {}',
    "message A { optional a.b = 1; }",
    "int32 a = 1;",
    HEAD3 + "message A { A.B a = 1; enum C { X = 0; } C.X c = 2; }",
    HEAD3 + 'import "base.proto"; message A { base.Missing a = 1; }',
    HEAD3 + "message A " + "{ message A " * 40 + "{" + "}" * 41,
]


def compiled(texts: dict[str, str], names: list[str]) -> descriptor_pb2.FileDescriptorSet | None:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(text)
        out = Path(folder) / "out"
        include = str(resources.files("grpc_tools") / "_proto")
        arguments = [
            "protoc",
            f"-I{folder}",
            f"-I{include}",
            "--include_imports",
            f"--descriptor_set_out={out}",
            *names,
        ]
        if protoc.main(arguments) != 0:
            return None
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


def shown_default(field: FieldDescriptor) -> object:
    if not field.has_default_value:
        return None
    if field.type == FieldDescriptor.TYPE_ENUM:
        return field.enum_type.values_by_number[field.default_value].name
    return repr(field.default_value)


def fields_of(message: Any) -> dict[str, list[object]]:
    found = {}
    for field in message.fields:
        type_of = field.message_type or field.enum_type
        found[field.name] = [
            field.number,
            field.type,
            type_of.full_name if type_of else "",
            field.is_repeated,
            field.is_required,
            field.has_presence,
            field.is_packed,
            shown_default(field),
            field.containing_oneof.name
            if field.containing_oneof and not field.containing_oneof.name.startswith("_")
            else "",
        ]
    return found


def messages_of(messages: list[Any], path: list[int]) -> list[list[object]]:
    found = []
    for number, message in enumerate(messages):
        found.append([message.full_name, [*path, number], message.GetOptions().map_entry, fields_of(message)])
        found += messages_of(list(message.nested_types), [*path, number])
    return found


def main() -> None:
    compiled_set = compiled(FILES, list(FILES))
    assert compiled_set is not None
    pool = descriptor_pool.DescriptorPool()
    for file in compiled_set.file:
        pool.AddSerializedFile(file.SerializeToString())
    recorded = {}
    for file in compiled_set.file:
        found = pool.FindFileByName(file.name)
        recorded[file.name] = {
            "text": FILES.get(file.name),
            "imports": list(file.dependency),
            "descriptor": base64.b64encode(file.SerializeToString()).decode(),
            "messages": messages_of([found.message_types_by_name[message.name] for message in file.message_type], []),
        }
    recorded["google/protobuf/descriptor.proto"]["messages"] = []  # a third of a megabyte; the descriptor has them
    wrong = [text for text in WRONG if compiled({**FILES, "wrong.proto": text}, ["wrong.proto"]) is None]
    assert wrong == WRONG, [text for text in WRONG if text not in wrong]
    target = Path(__file__).parent / "protoc_files.json"
    target.write_text(json.dumps({"files": recorded, "wrong": wrong}, indent=1) + "\n")


if __name__ == "__main__":
    main()
