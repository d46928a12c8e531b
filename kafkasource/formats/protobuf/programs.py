"""Writes the kernel's words for a message type (`protobuf_opcodes`).

One program reads the records of all writers: it knows a Protobuf field by its number, and skips a field that the
reader does not have by its wire type.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from kafkasource.formats.decoding import kernel
from kafkasource.formats.decoding import protobuf_opcodes as op
from kafkasource.formats.decoding.opcodes import BINARY, ITEM_LIST
from kafkasource.formats.floats import single
from kafkasource.formats.protobuf.columns import FieldNode, MessageLayout, ProtobufNode
from kafkasource.formats.protobuf.descriptors import ENUM, GROUP, MESSAGE, Default
from kafkasource.formats.protobuf.rendering import AS_FROM_PROTOBUF, Rendering
from kafkasource.formats.protobuf.schema import EnumType, FieldType, ProtobufSchema
from kafkasource.formats.words import Words, int32

# How a kind is read, and its wire type.
_READS = {
    **dict.fromkeys(("int64", "uint64"), (op.READ_INT64, op.WIRE_VARINT)),
    **dict.fromkeys(("int32", "uint32"), (op.READ_INT32, op.WIRE_VARINT)),
    "sint64": (op.READ_SINT64, op.WIRE_VARINT),
    "sint32": (op.READ_SINT32, op.WIRE_VARINT),
    "bool": (op.READ_BOOL, op.WIRE_VARINT),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), (op.READ_FIXED32, op.WIRE_32)),
    **dict.fromkeys(("fixed64", "sfixed64", "double"), (op.READ_FIXED64, op.WIRE_64)),
    ENUM: (op.READ_ENUM, op.WIRE_VARINT),
    "string": (op.READ_STRING, op.WIRE_SIZED),
    "bytes": (op.READ_BYTES, op.WIRE_SIZED),
    MESSAGE: (op.READ_MESSAGE, op.WIRE_SIZED),
    GROUP: (op.READ_GROUP, op.WIRE_GROUP),
}
Ending: TypeAlias = tuple[int, int, int, int, int, int]
"""What is checked at the end of a record or item, as `protobuf_opcodes` has it."""

_FORMATS = {"double": "=d", "bool": "=B"}


class MessageProgram(Words):
    """The words for one layout. A `decoding.decode.DecodingPrograms`."""

    def __init__(self, schema: ProtobufSchema, layout: MessageLayout, rendering: Rendering = AS_FROM_PROTOBUF) -> None:
        super().__init__([0] * op.ENTRY_WORDS)  # the entry of no field
        self.code[op.FIELD_TAG] = -1
        self._schema = schema
        self._rendering = rendering
        self._columns = layout.columns
        self._enums: dict[str, int] = {}  # where the names of an enum are
        self._depth = 0
        root = self._owner(layout.root, "$", 1)
        lists = [at for at, each in enumerate(layout.columns) if each.level == 0 and each.kind in (BINARY, ITEM_LIST)]
        self.code[root + 3] = self.emit(len(lists), *lists)
        self._entries = int32([root])

    def decoding(self, columns: Sequence[tuple[int, int, int, int]]) -> kernel.ProtobufDecoding:
        return kernel.ProtobufDecoding(int32(self.code), self._entries, self.constants, self._depth, columns)

    def _owner(self, node: ProtobufNode, place: str, depth: int) -> int:
        """The block of a record's message, or of a list's item: at its end all that must be there is there."""
        endings: list[Ending] = []
        block = self._message(node, -1, place, endings, depth)
        if node.is_time:
            endings.append((op.END_TIME, -1, node.column, 0, 0, block))
        if endings:
            self.code[block + 2] = len(self.code)
            for ending in endings:
                self.emit(*ending)
            self.emit(0)
        return block

    def _message(self, node: ProtobufNode, within: int, place: str, endings: list[Ending], depth: int) -> int:
        """The block of a message. `within`: its column, where it may be missing; `endings`: its owner's."""
        self._depth = max(self._depth, depth)
        entries = {}
        for field in node.fields:
            of = place if pa.types.is_map(node.type) else f"{place}.{field.field.name}"
            entries[field.field.number] = self._entry(field, node, within, of, endings, depth)
        direct = 1 + max((number for number in entries if number < 4 * len(entries) + 16), default=-1)
        searched = sorted(number for number in entries if number >= direct)
        self.at(place)
        first = self._chain([entries[number] for number in sorted(entries)])
        block = self.emit(direct, len(searched), 0, 0, first, *(entries.get(number, 0) for number in range(direct)))
        for number in searched:
            self.emit(number, entries[number])
        return block

    def _chain(self, entries: Sequence[int]) -> int:
        """Name the next of each; the first of all, or 0."""
        for entry, following in zip(entries, [*entries[1:], 0], strict=True):
            is_list = self.code[entry + op.FIELD_LIST] >= 0
            self.code[entry + op.FIELD_NEXT] = entry if is_list else following
        return entries[0] if entries else 0

    def _entry(
        self, each: FieldNode, parent: ProtobufNode, within: int, place: str, endings: list[Ending], depth: int
    ) -> int:
        of, value = each.field, each.value
        read, wire = _READS[of.kind]
        is_list = of.repeated
        is_map = is_list and each.node.items is None
        items_place = f"{place}{'{}' if is_map else '[]'}" if is_list else place
        column = self._columns[value.column]
        presence = op.ALWAYS
        if not is_list and column.nullable:
            presence = op.EXPLICIT if of.has_presence or of.kind in (MESSAGE, GROUP) else op.IMPLICIT
        what = 0
        if of.kind == ENUM and self._rendering.enums_as_ints:
            read, wire = _READS["int32"]
        elif of.kind == ENUM:
            what = self._names(self._schema.enums[of.type_name])
        elif is_list and of.kind in (MESSAGE, GROUP):
            what = self._owner(value, items_place, depth + 1)
        elif of.kind in (MESSAGE, GROUP):
            what = self._message(value, value.column if column.nullable else within, place, endings, depth + 1)
        nulls, tag = self._others_of_oneof(of, parent), of.number << 3 | wire
        self.at(items_place)
        entry = self.emit(
            read,
            -1 if is_map else value.column,
            each.node.column if is_list else -1,
            presence,
            nulls,
            what,
            of.number,
            wire,
            tag if tag < 0x80 else -1,
            0,
        )
        if not is_list:
            self._end_of(of, value, within, entry, endings)
            if presence == op.IMPLICIT and self._rendering.emit_default_values:
                self._default(of, self._zero(of), value.column, within, entry, endings)
        return entry

    def _end_of(self, of: FieldType, value: ProtobufNode, within: int, entry: int, endings: list[Ending]) -> None:
        """Add what the end of the owner does about a single value."""
        column = self._columns[value.column]
        if value.is_time:
            endings.append((op.END_TIME, within, value.column, 0, 0, entry))
        if of.required:
            endings.append((op.END_REQUIRED, within, value.column, 0, 0, entry))
        elif of.default is not None:
            self._default(of, of.default, value.column, within, entry, endings)
        elif of.kind == ENUM and not column.nullable and not self._rendering.enums_as_ints:  # whose first is 0 there
            self._default(of, self._schema.enums[of.type_name].values[0][0], value.column, within, entry, endings)

    def _zero(self, of: FieldType) -> Default:
        """The default of a proto3 field."""
        if of.kind == ENUM:
            return self._schema.enums[of.type_name].values[0][0]
        zeros: dict[str, Default] = {"string": "", "bytes": b"", "bool": False}
        return zeros.get(of.kind, 0)

    def _default(
        self, of: FieldType, default: Default, column: int, within: int, entry: int, endings: list[Ending]
    ) -> None:
        if of.kind == ENUM and self._rendering.enums_as_ints:
            default = dict(self._schema.enums[of.type_name].values)[str(default)]
        if isinstance(default, (str, bytes)):
            data = default.encode() if isinstance(default, str) else default
            endings.append((op.END_TEXT, within, column, self.constant(data), len(data), entry))
            return
        width = self._columns[column].width
        if of.kind == "float":
            data = struct.pack("=f", single(default))
        elif of.kind in _FORMATS:
            data = struct.pack(_FORMATS[of.kind], default)
        else:
            assert isinstance(default, int)
            data = struct.pack("=I" if width == 4 else "=Q", default & ((1 << 8 * width) - 1))
        endings.append((op.END_CONST, within, column, self.constant(data), 0, entry))

    def _others_of_oneof(self, of: FieldType, parent: ProtobufNode) -> int:
        if not of.oneof:
            return 0
        others = [field.node.column for field in parent.fields if field.field.oneof == of.oneof and field.field != of]
        ranges = [(column, self._columns[column].last) for column in others]
        return self.emit(len(ranges), *(word for both in ranges for word in both)) if ranges else 0

    def _names(self, enum: EnumType) -> int:
        if enum.full_name not in self._enums:
            first: dict[int, str] = {}
            for name, number in enum.values:
                first.setdefault(number, name)  # of several names of a number, Java's classes have the first
            unknown = f"UNKNOWN_ENUM_VALUE_{enum.full_name.rpartition('.')[2]}_".encode()
            names = [(number, first[number].encode()) for number in sorted(first)]
            constants = [(number, self.constant(name), len(name)) for number, name in names]
            words = [word for constant in constants for word in constant]
            self._enums[enum.full_name] = self.emit(
                len(names), self.constant(unknown), len(unknown), int(enum.is_closed), *words
            )
        return self._enums[enum.full_name]
