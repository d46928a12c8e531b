"""A FileDescriptorProto, as registries hand it out in base64, to the same declarations as its `.proto` text.

The numbers of fields are those of Google's descriptor.proto; fields that do not change the bytes of a record are left
out. Bytes are not trusted: an error is a SchemaError, and begins with `descriptor`.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace

from kafkasource.errors import SchemaError
from kafkasource.formats.protobuf.descriptors import (
    ENUM,
    KINDS,
    MESSAGE,
    PROTO2,
    PROTO3,
    SCALARS,
    EnumDescriptor,
    FieldDescriptor,
    File,
    MessageDescriptor,
)
from kafkasource.formats.protobuf.literals import default_of
from kafkasource.formats.protobuf.parse import MOST_DEPTH, parse_proto
from kafkasource.formats.protobuf.tokens import MOST_TEXT_CHARACTERS

_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5


def read_file(text: str) -> File:
    """`.proto` text, or a FileDescriptorProto in base64. Raises SchemaError."""
    if len(text) > MOST_TEXT_CHARACTERS or any(sign in text for sign in "{;"):  # without them text declares nothing
        return parse_proto(text)
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        data = b""
    return read_descriptor(data) if data else parse_proto(text)


def read_descriptor(data: bytes) -> File:
    """Read the bytes of a FileDescriptorProto. Raises SchemaError."""
    found = _Wire(data)
    syntax = found.text(12) or PROTO2
    if syntax not in (PROTO2, PROTO3) or found.numbers(14):
        raise SchemaError(f"descriptor: the syntax is {syntax!r}; files of {PROTO2} and {PROTO3} are read")
    imports = tuple(found.texts(3))
    public = found.numbers(10)
    if any(not 0 <= number < len(imports) for number in public):
        raise SchemaError("descriptor: a public import is not among the file's imports")
    return File(
        found.text(2),
        syntax,
        imports,
        tuple(imports[number] for number in public),
        tuple(_message(each, 1) for each in found.parts(4)),
        tuple(_enum(each) for each in found.parts(5)),
    )


def _message(data: bytes, depth: int) -> MessageDescriptor:
    if depth > MOST_DEPTH:
        raise SchemaError(f"descriptor: messages are within messages more than {MOST_DEPTH} deep")
    found = _Wire(data)
    oneofs = [_Wire(each).text(1) for each in found.parts(8)]
    return MessageDescriptor(
        found.text(1),
        tuple(_field(_Wire(each), oneofs) for each in found.parts(2)),
        tuple(_message(each, depth + 1) for each in found.parts(3)),
        tuple(_enum(each) for each in found.parts(4)),
        is_map_entry=_Wire(b"".join(found.parts(7))).number(7) != 0,
    )


def _field(found: _Wire, oneofs: list[str]) -> FieldDescriptor:
    name = found.text(1)
    place = f"descriptor: the field {name}"
    kind = KINDS.get(found.number(5), "")
    type_name = found.text(6)
    if kind == "" and (found.number(5) or not type_name):
        raise SchemaError(f"{place} has the type {found.number(5)}, which is none")
    label = found.number(4) or _OPTIONAL
    if label not in (_OPTIONAL, _REQUIRED, _REPEATED):
        raise SchemaError(f"{place} has the label {label}, which is none")
    field = FieldDescriptor(
        name,
        found.number(3),
        "" if kind in (MESSAGE, ENUM) else kind,
        "" if kind in SCALARS else type_name,
        repeated=label == _REPEATED,
        required=label == _REQUIRED,
    )
    if found.has(7):
        field = replace(field, default=default_of(kind, found.text(7), place))
    packed = _Wire(b"".join(found.parts(8))).numbers(2)
    if packed:
        field = replace(field, packed=packed[-1] != 0)
    if found.number(17):  # in proto3; it stands in a oneof of its own, which the text has not
        return replace(field, optional=True)
    if found.has(9):
        number = found.number(9)
        if not 0 <= number < len(oneofs):
            raise SchemaError(f"{place} is in oneof {number}, and the message has {len(oneofs)}")
        return replace(field, oneof=oneofs[number])
    return field


def _enum(data: bytes) -> EnumDescriptor:
    found = _Wire(data)
    values = [_Wire(each) for each in found.parts(2)]
    return EnumDescriptor(found.text(1), tuple((value.text(1), value.number(2)) for value in values))


class _Wire:
    """The fields of an encoded message."""

    def __init__(self, data: bytes) -> None:
        self._values: dict[int, list[int | bytes]] = {}
        pos = 0
        while pos < len(data):
            tag, pos = _varint(data, pos)
            number, wire_type = tag >> 3, tag & 7
            value: int | bytes
            if wire_type == _VARINT:
                value, pos = _varint(data, pos)
            else:
                size = {_FIXED64: 8, _FIXED32: 4}.get(wire_type, -1)
                if wire_type == _SIZED:
                    size, pos = _varint(data, pos)
                if size < 0 or size > len(data) - pos or number == 0:
                    raise SchemaError(f"descriptor: its field {number} has a wrong type or length")
                value = data[pos : pos + size]
                pos += size
            self._values.setdefault(number, []).append(value)

    def has(self, number: int) -> bool:
        return number in self._values

    def numbers(self, number: int) -> list[int]:
        """The values of a field of int32, bool or an enum, packed or not."""
        found: list[int] = []
        for value in self._values.get(number, ()):
            if isinstance(value, int):
                found.append(_signed(value))
            else:
                pos = 0
                while pos < len(value):
                    each, pos = _varint(value, pos)
                    found.append(_signed(each))
        return found

    def number(self, number: int) -> int:
        return (self.numbers(number) or [0])[-1]

    def parts(self, number: int) -> list[bytes]:
        found = [value for value in self._values.get(number, ()) if isinstance(value, bytes)]
        if len(found) != len(self._values.get(number, ())):
            raise SchemaError(f"descriptor: its field {number} has a wrong type")
        return found

    def texts(self, number: int) -> list[str]:
        try:
            return [part.decode() for part in self.parts(number)]
        except UnicodeDecodeError:
            raise SchemaError(f"descriptor: its field {number} is not UTF-8") from None

    def text(self, number: int) -> str:
        return (self.texts(number) or [""])[-1]


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if pos >= len(data):
            break
        value |= (data[pos] & 0x7F) << shift
        pos += 1
        if data[pos - 1] < 0x80:
            return value, pos
    raise SchemaError("descriptor: its bytes end within a number, or a number is too long")


def _signed(value: int) -> int:
    """An int32: its low half counts."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
