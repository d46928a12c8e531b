"""Files that come with every Protobuf compiler, and so need no reference: the names and numbers of their fields."""

from __future__ import annotations

from collections.abc import Mapping

from kafkasource.formats.protobuf.descriptors import PROTO3, Enum, Field, File, Message

_PACKAGE = "google.protobuf"
_WRAPPED = {
    "DoubleValue": "double", "FloatValue": "float", "Int64Value": "int64", "UInt64Value": "uint64",
    "Int32Value": "int32", "UInt32Value": "uint32", "BoolValue": "bool", "StringValue": "string", "BytesValue": "bytes",
}  # fmt: skip


def _file(*messages: Message, enums: tuple[Enum, ...] = ()) -> File:
    return File(_PACKAGE, PROTO3, messages=messages, enums=enums)


def _time(name: str) -> File:
    return _file(Message(name, (Field("seconds", 1, "int64"), Field("nanos", 2, "int32"))))


_ENTRY = Message("FieldsEntry", (Field("key", 1, "string"), Field("value", 2, "", "Value")), is_map_entry=True)
_VALUE = Message(
    "Value",
    (
        Field("null_value", 1, "", "NullValue", oneof="kind"),
        Field("number_value", 2, "double", oneof="kind"),
        Field("string_value", 3, "string", oneof="kind"),
        Field("bool_value", 4, "bool", oneof="kind"),
        Field("struct_value", 5, "", "Struct", oneof="kind"),
        Field("list_value", 6, "", "ListValue", oneof="kind"),
    ),
)

WELL_KNOWN: Mapping[str, File] = {
    "google/protobuf/any.proto": _file(Message("Any", (Field("type_url", 1, "string"), Field("value", 2, "bytes")))),
    "google/protobuf/duration.proto": _time("Duration"),
    "google/protobuf/empty.proto": _file(Message("Empty")),
    "google/protobuf/field_mask.proto": _file(Message("FieldMask", (Field("paths", 1, "string", repeated=True),))),
    "google/protobuf/struct.proto": _file(
        Message("Struct", (Field("fields", 1, "", "FieldsEntry", repeated=True),), (_ENTRY,)),
        _VALUE,
        Message("ListValue", (Field("values", 1, "", "Value", repeated=True),)),
        enums=(Enum("NullValue", (("NULL_VALUE", 0),)),),
    ),
    "google/protobuf/timestamp.proto": _time("Timestamp"),
    "google/protobuf/wrappers.proto": _file(
        *(Message(name, (Field("value", 1, kind),)) for name, kind in _WRAPPED.items())
    ),
}
