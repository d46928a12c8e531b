"""Whether the reader's message can read a writer's: the same name, and no field number of two types that differ on the
wire. A reader of Protobuf would pass such a field over, and its column would be null without a word."""

from __future__ import annotations

from kafkasource.errors import SchemaError
from kafkasource.formats.protobuf.descriptors import ENUM, GROUP, MESSAGE, UNPACKABLE
from kafkasource.formats.protobuf.schema import FieldType, MessageType, ProtobufSchema

_VARINT = frozenset({"int32", "int64", "uint32", "uint64", "bool", ENUM})
_ZIGZAG = frozenset({"sint32", "sint64"})
_FOUR = frozenset({"fixed32", "sfixed32"})
_EIGHT = frozenset({"fixed64", "sfixed64"})
_SIZED = frozenset({"string", "bytes"})
_ALIKE = (_VARINT, _ZIGZAG, _FOUR, _EIGHT, _SIZED)  # kinds that the language guide calls compatible


def only_message(schema: ProtobufSchema) -> MessageType:
    """The message of a schema that declares one, those within it not counted. Raises SchemaError."""
    names = schema.own_names
    if len(names) != 1:
        which = f"declares {', '.join(names[:20])}" if names else "declares no message"
        raise SchemaError(f"the schema {which}: say which message the records are (messageName)")
    return schema.messages[names[0]]


def check_fits(writers: ProtobufSchema, writer: MessageType, readers: ProtobufSchema, reader: MessageType) -> None:
    """Raises SchemaError with the place of what does not fit."""
    if writer.full_name != reader.full_name:
        raise SchemaError(f"the record is a {writer.full_name}, and the reader's message is {reader.full_name}")
    waiting = [("$", writer, reader)]
    seen = set()
    while waiting:
        place, ours, theirs = waiting.pop()
        if (ours.full_name, theirs.full_name) in seen:
            continue
        seen.add((ours.full_name, theirs.full_name))
        by_number = {field.number: field for field in theirs.fields}
        for field in ours.fields:
            other = by_number.get(field.number)
            if other is None:
                continue
            within = f"{place}.{other.name}"
            if not _fits(field, other):
                raise SchemaError(f"{within}: the writer has {_shown(field)}, and the reader {_shown(other)}")
            if field.kind in (MESSAGE, GROUP):
                waiting.append((within, writers.messages[field.type_name], readers.messages[other.type_name]))


def _fits(writer: FieldType, reader: FieldType) -> bool:
    if writer.kind != reader.kind and not any({writer.kind, reader.kind} <= alike for alike in _ALIKE):
        return False
    return writer.repeated <= reader.repeated or writer.kind in UNPACKABLE or not writer.packed


def _shown(each: FieldType) -> str:
    kind = each.type_name or each.kind
    return f"{'repeated ' if each.repeated else ''}{kind} {each.name} = {each.number}"
