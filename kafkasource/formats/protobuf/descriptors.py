"""The declarations of a Protobuf schema: files, messages, enums, fields, in the terms of Google's descriptor.proto.

`parse` makes them of `.proto` text, `encoded` of a FileDescriptorProto. Names of types are as written there; `schema`
replaces them by full names, and finds out which kind of type each is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

PROTO2, PROTO3 = "proto2", "proto3"
GROUP, MESSAGE, ENUM = "group", "message", "enum"

# The numbers of FieldDescriptorProto.type; the names are also the words of `.proto` text.
KINDS = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    10: GROUP,
    11: MESSAGE,
    12: "bytes",
    13: "uint32",
    14: ENUM,
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
SCALARS = frozenset(KINDS.values()) - {GROUP, MESSAGE, ENUM}
INTEGERS = SCALARS - {"double", "float", "bool", "string", "bytes"}
MAP_KEYS = INTEGERS | {"bool", "string"}
UNPACKABLE = frozenset({"string", "bytes", GROUP, MESSAGE})

Default: TypeAlias = bool | int | float | str | bytes
"""Of an enum: the name of its value."""


@dataclass(frozen=True, slots=True)
class FieldDescriptor:
    name: str
    number: int
    kind: str  # of KINDS; empty: a message or an enum, which only the type's definition says
    type_name: str = ""  # of a message, group or enum; a full name begins with a dot
    repeated: bool = False
    required: bool = False
    optional: bool = False  # the word `optional` is there
    packed: bool | None = None  # the option; None: as the syntax has it
    default: Default | None = None
    oneof: str = ""


@dataclass(frozen=True, slots=True)
class EnumDescriptor:
    name: str
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class MessageDescriptor:
    name: str
    fields: tuple[FieldDescriptor, ...] = ()
    messages: tuple[MessageDescriptor, ...] = ()  # in the order that a message index counts, entries of maps among them
    enums: tuple[EnumDescriptor, ...] = ()
    is_map_entry: bool = False


@dataclass(frozen=True, slots=True)
class File:
    package: str
    syntax: str
    imports: tuple[str, ...] = ()
    public_imports: tuple[str, ...] = ()  # those of `imports` that whoever imports this file sees, too
    messages: tuple[MessageDescriptor, ...] = ()
    enums: tuple[EnumDescriptor, ...] = ()
