"""The columns of a Protobuf message, with the types that Spark's `from_protobuf` gives it, so that jobs move.

| Protobuf | column |
|---|---|
| int32, sint32, sfixed32, uint32, fixed32 | int; the unsigned ones by their bits |
| int64, sint64, sfixed64, uint64, fixed64 | long; the unsigned ones by their bits |
| float, double, bool, string, bytes | float, double, boolean, string, binary |
| enum | string: the name; of a number without one, `UNKNOWN_ENUM_VALUE_<enum>_<number>` |
| Timestamp, Duration | timestamp in microseconds, UTC; interval in microseconds |
| another message, a group | struct; a message without fields has no column |
| repeated, map | array, map; empty where there is none |

What a record does not have is null, and so is a value of proto3 that is its type's default where the field is not
`optional`: the bytes do not tell the two apart. A default that a proto2 schema gives stands for what is absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from kafkasource.errors import SchemaError
from kafkasource.formats.bounds import check_place
from kafkasource.formats.decoding.columns import Column, column_of
from kafkasource.formats.protobuf.descriptors import ENUM, GROUP, MESSAGE
from kafkasource.formats.protobuf.rendering import AS_FROM_PROTOBUF, Rendering
from kafkasource.formats.protobuf.schema import FieldType, MessageType, ProtobufSchema

MOST_COLUMNS = 20_000
MOST_WITHIN = 100  # messages in each other

_INT = dict.fromkeys(("int32", "sint32", "sfixed32", "uint32", "fixed32"), pa.int32())
_LONG = dict.fromkeys(("int64", "sint64", "sfixed64", "uint64", "fixed64"), pa.int64())
_TYPES: dict[str, pa.DataType] = {
    **_INT,
    **_LONG,
    "float": pa.float32(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
    ENUM: pa.string(),
}
_TIMES = {"Timestamp": pa.timestamp("us", "UTC"), "Duration": pa.duration("us")}


@dataclass(frozen=True, slots=True)
class ProtobufNode:
    """A type and where its values go."""

    column: int
    type: pa.DataType
    fields: tuple[FieldNode, ...] = ()  # of a message and of a map's entry
    items: ProtobufNode | None = None  # of a list
    is_time: bool = False  # its two fields are columns of the kernel's own

    @property
    def children(self) -> tuple[ProtobufNode, ...]:
        return (self.items,) if self.items is not None else tuple(member.node for member in self.fields)


@dataclass(frozen=True, slots=True)
class FieldNode:
    field: FieldType
    node: ProtobufNode

    @property
    def value(self) -> ProtobufNode:
        """The node of one value: of the items, where the field is repeated."""
        return self.node.items or self.node


@dataclass(slots=True)
class MessageLayout:
    """The columns of a message type. SchemaError with the place where there is no column for it."""

    root: ProtobufNode
    columns: list[Column]
    levels: int

    def __init__(self, schema: ProtobufSchema, message: MessageType, rendering: Rendering = AS_FROM_PROTOBUF) -> None:
        builder = _Builder(schema, rendering)
        root = builder.message(message, 0, "$", (), nullable=True)
        assert root is not None  # the outermost stands within nothing
        self.root = root
        self.columns = builder.columns
        self.levels = builder.levels
        if not self.root.fields:
            raise SchemaError(f"$: message {message.full_name} has no fields, so no columns")


@dataclass(slots=True)
class _Builder:
    schema: ProtobufSchema
    rendering: Rendering
    columns: list[Column] = field(default_factory=list)
    levels: int = 1
    visited: int = 0  # messages, also those without fields, which leave no column

    def message(
        self, message: MessageType, level: int, place: str, within: tuple[str, ...], *, nullable: bool
    ) -> ProtobufNode | None:
        """None: the message is within itself too often, and has no column there."""
        self.visited += 1
        if self.visited > MOST_COLUMNS or len(within) > MOST_WITHIN:
            raise SchemaError(
                f"{place[:300]}: the message has more than {MOST_COLUMNS} messages within it, or more than "
                f"{MOST_WITHIN} in each other"
            )
        check_place(place)
        most = self.rendering.recursive_fields_max_depth
        if message.full_name in within and most is None:
            raise SchemaError(
                f"{place}: {message.full_name} contains itself, and Spark has no type for that. Give a reader schema "
                "without the field, or set protobuf.recursive.fields.max.depth"
            )
        if most is not None and within.count(message.full_name) >= most:
            return None
        number = self._column(pa.struct([]), level, nullable)
        fields = self._fields(message, level, place, (*within, message.full_name))
        self.columns[number].last = len(self.columns)
        data_type = pa.struct([_arrow_field(member) for member in fields])
        return ProtobufNode(number, data_type, fields)

    def _fields(self, message: MessageType, level: int, place: str, within: tuple[str, ...]) -> tuple[FieldNode, ...]:
        found = []
        for member in message.fields:
            before, levels = len(self.columns), self.levels
            node = self._field(member, level, f"{place}.{member.name}", within)
            if node is None:
                del self.columns[before:]
                self.levels = levels
            else:
                found.append(FieldNode(member, node))
        return tuple(found)

    def _field(self, each: FieldType, level: int, place: str, within: tuple[str, ...]) -> ProtobufNode | None:
        """None: a message without fields, or too deep within itself."""
        if not each.repeated:
            node = self._value(each, level, place, within, nullable=True)
            if node is not None and each.required:
                self.columns[node.column].never_null = True
            return node
        number = self._column(pa.list_(pa.null()), level, False)
        column = self.columns[number]
        column.items = self.levels
        self.levels += 1
        entry = self._message_of(each)
        if entry is not None and entry.is_map_entry:
            node = self._map(entry, number, column.items, place, within)
        else:
            items = self._value(each, column.items, f"{place}[]", within, nullable=False)
            node = items and ProtobufNode(number, pa.list_(pa.field("element", items.type, False)), items=items)
        column.last = len(self.columns)
        return node

    def _map(
        self, entry: MessageType, number: int, level: int, place: str, within: tuple[str, ...]
    ) -> ProtobufNode | None:
        found = []
        for each in sorted(entry.fields, key=lambda of: of.number):
            node = self._value(each, level, f"{place}{{}}", within, nullable=False)
            if node is None:
                return None
            found.append(FieldNode(each, node))
        key, value = found
        return ProtobufNode(number, pa.map_(key.node.type, pa.field("value", value.node.type, False)), tuple(found))

    def _value(
        self, each: FieldType, level: int, place: str, within: tuple[str, ...], *, nullable: bool
    ) -> ProtobufNode | None:
        """The node of one value."""
        message = self._message_of(each)
        if message is None:
            as_int = each.kind == ENUM and self.rendering.enums_as_ints
            kind = pa.int32() if as_int else _TYPES[each.kind]
            number = self._column(kind, level, nullable)
            self.columns[number].last = len(self.columns)
            return ProtobufNode(number, kind)
        time = time_of(message)
        if time is None:
            node = self.message(message, level, place, within, nullable=nullable)
            return node if node is not None and node.fields else None
        number = self._column(time, level, nullable)
        parts = [self._value(part, level, f"{place}.{part.name}", (), nullable=False) for part in message.fields]
        self.columns[number].last = len(self.columns)
        fields = zip(message.fields, parts, strict=True)
        return ProtobufNode(number, time, tuple(FieldNode(*part) for part in fields if part[1]), is_time=True)  # type: ignore[arg-type]

    def _message_of(self, each: FieldType) -> MessageType | None:
        return self.schema.messages[each.type_name] if each.kind in (MESSAGE, GROUP) else None

    def _column(self, data_type: pa.DataType, level: int, nullable: bool) -> int:
        if len(self.columns) >= MOST_COLUMNS:
            raise SchemaError(f"$: the message has more than {MOST_COLUMNS} fields, those within fields counted")
        self.columns.append(column_of(data_type, level, nullable))
        return len(self.columns) - 1


def _arrow_field(each: FieldNode) -> pa.Field:
    return pa.field(each.field.name, each.node.type, not each.field.required)


def time_of(message: MessageType) -> pa.DataType | None:
    """Recognize times as Spark does: by the message's name, in any package, and by its fields."""
    if [(member.name, member.kind, member.repeated) for member in message.fields] != [
        ("seconds", "int64", False),
        ("nanos", "int32", False),
    ]:
        return None
    return _TIMES.get(message.full_name.rpartition(".")[2])
