"""Columns to Protobuf messages of one schema, as Spark's `to_protobuf` writes them: the types of `columns`, backwards.

Fields are written in the order of their numbers. Null, and a value of proto3 that is its type's default where the field
is not `optional`, is not written. Beyond `to_protobuf`, a smaller whole number goes into a larger field, and float into
double.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.types as types

from kafkasource.errors import SchemaError
from kafkasource.formats.encoding import opcodes as op
from kafkasource.formats.encoding.encode import ColumnEncoder
from kafkasource.formats.encoding.input import children, columns_of, plain_type
from kafkasource.formats.encoding.program import Compiler, matched
from kafkasource.formats.protobuf.columns import time_of
from kafkasource.formats.protobuf.descriptors import ENUM, GROUP, MESSAGE
from kafkasource.formats.protobuf.message_index import varint
from kafkasource.formats.protobuf.schema import FieldType, MessageType, ProtobufSchema

_VARINT, _EIGHT, _SIZED, _GROUP, _GROUP_END, _FOUR = 0, 1, 2, 3, 4, 5
_WIDTHS = {pa.int8(): 1, pa.int16(): 2, pa.int32(): 4, pa.int64(): 8}
_ZIGZAG = {pa.int8(): op.INT8, pa.int16(): op.INT16, pa.int32(): op.INT32, pa.int64(): op.INT64}
_WIRES = {
    **dict.fromkeys(("fixed32", "sfixed32", "float"), _FOUR),
    **dict.fromkeys(("fixed64", "sfixed64", "double"), _EIGHT),
    **dict.fromkeys(("string", "bytes", MESSAGE), _SIZED),
    GROUP: _GROUP,
}
_COPIED: dict[str, dict[pa.DataType, int]] = {
    "fixed32": {pa.int32(): op.COPY4},
    "sfixed32": {pa.int32(): op.COPY4},
    "fixed64": {pa.int64(): op.COPY8},
    "sfixed64": {pa.int64(): op.COPY8},
    "float": {pa.float32(): op.COPY4},
    "double": {pa.float64(): op.COPY8, pa.float32(): op.WIDENED},
    "bool": {pa.bool_(): op.BOOLEAN},
    "string": {pa.string(): op.TEXT},
    "bytes": {pa.binary(): op.TEXT},
}
_PACKED_WIRES = (_VARINT, _FOUR, _EIGHT)


class ProtobufEncoder(ColumnEncoder):
    """Encodes one column type as one message. Threads may encode at once."""

    def __init__(
        self, data_type: pa.DataType, schema: ProtobufSchema, message: MessageType, prefix: bytes = b""
    ) -> None:
        """`prefix`: in front of each record. SchemaError with the place where the message does not take the type."""
        compiler = _Compiler(schema, prefix)
        compiler.record(plain_type(data_type), message)
        super().__init__(compiler.program, compiler.may_fail)


class _Compiler(Compiler):
    def __init__(self, schema: ProtobufSchema, prefix: bytes) -> None:
        super().__init__(prefix)
        self._schema = schema

    def record(self, data_type: pa.DataType, message: MessageType) -> None:
        if not types.is_struct(data_type):
            raise SchemaError(f"$: a column of {data_type} cannot be message {message.full_name}: it must be a struct")
        self._fields(data_type, message, 0, "$")
        self.program.emit(op.END)

    def _fields(self, data_type: pa.DataType, message: MessageType, column: int, place: str) -> None:
        columns, within = columns_of(data_type, column), children(data_type)
        names = [member.name for member in message.fields]
        found = matched([each.name for each in within], names, f"message {message.full_name}", place)
        for field in sorted(message.fields, key=lambda each: each.number):
            here = f"{place}.{field.name}"
            number = found.get(field.name)
            self.program.at(here)
            if number is not None and not types.is_null(within[number].type):
                self._field(within[number], field, columns[number], here)
            elif field.required:
                raise SchemaError(f"{here}: the message needs this field, and the column does not have it")

    def _field(self, own: pa.Field, field: FieldType, column: int, place: str) -> None:
        if field.repeated:
            self._repeated(own.type, field, column, place)
            return
        if field.required:
            self._required(own.nullable, column, place)
        ends = []
        if not field.has_presence and field.kind != ENUM:
            ends.append(self._jump(op.UNSET, column, self._width(own.type)))
        ends += self._value(own.type, field, column, place, implicit=not field.has_presence)
        self._land(*ends)

    def _width(self, data_type: pa.DataType) -> int:
        """The column's width as UNSET takes it."""
        if types.is_boolean(data_type):
            return 0
        return (
            -1
            if types.is_string(data_type) or types.is_binary(data_type) or types.is_list(data_type)
            else data_type.bit_width // 8
        )

    def _tag(self, field: FieldType, wire: int) -> int:
        tag = field.number << 3 | wire
        return tag if tag < 1 << 31 else tag - (1 << 32)

    def _value(
        self, data_type: pa.DataType, field: FieldType, column: int, place: str, *, implicit: bool = False
    ) -> list[int]:
        """A value with its tag. The words that get the pc behind it."""
        if field.kind == ENUM and data_type == pa.string():
            end = self._jump(op.OPTIONAL, column, -1, -1)
            self._name(field, column, op.NAME_TAG | (op.NAME_SET if implicit else 0))
            return [end]
        ends = []
        if field.kind == ENUM and implicit:
            ends.append(self._jump(op.UNSET, column, self._width(data_type)))
        end = self._jump(op.TAG, column, self._tag(field, _WIRES.get(field.kind, _VARINT)))
        self._bare(data_type, field, column, place)
        return [*ends, end]

    def _bare(self, data_type: pa.DataType, field: FieldType, column: int, place: str) -> None:
        """A value behind its tag."""
        if field.kind in (MESSAGE, GROUP):
            self._submessage(data_type, field, column, place)
        elif field.kind == ENUM and data_type == pa.string():
            self._name(field, column, 0)
        elif field.kind in ("sint32", "sint64") and self._fits(data_type, field):
            self.program.emit(_ZIGZAG[data_type], column)
        elif field.kind in _COPIED and data_type in _COPIED[field.kind]:
            self.program.emit(_COPIED[field.kind][data_type], column)
        elif field.kind not in _COPIED and self._fits(data_type, field):
            self.program.emit(op.VARINT, column, _WIDTHS[data_type], int(field.kind == "uint32"))
        else:
            raise _misfit(data_type, field, place)

    def _fits(self, data_type: pa.DataType, field: FieldType) -> bool:
        """Whether a whole number is not wider than the field."""
        return _WIDTHS.get(data_type, 9) <= (8 if field.kind.endswith("64") else 4)

    def _name(self, field: FieldType, column: int, flags: int) -> None:
        values = self._schema.enums[field.type_name].values
        self.program.emit(op.NAME, column, len(values), *self.program.names(values), self._tag(field, _VARINT), flags)

    def _submessage(self, data_type: pa.DataType, field: FieldType, column: int, place: str) -> None:
        message = self._schema.messages[field.type_name]
        time = time_of(message)
        if time is not None and (data_type == time or (types.is_timestamp(time) and _is_moment(data_type))):
            self.program.emit(op.TIME, column, int(types.is_timestamp(data_type)))
        elif not types.is_struct(data_type):
            raise _misfit(data_type, field, place)
        elif field.kind == GROUP:
            self._fields(data_type, message, column, place)
            self._bytes(varint(field.number << 3 | _GROUP_END))
        else:
            with self._sized():
                self._fields(data_type, message, column, place)

    def _repeated(self, data_type: pa.DataType, field: FieldType, column: int, place: str) -> None:
        entry = self._schema.messages.get(field.type_name) if field.kind == MESSAGE else None
        if entry is not None and entry.is_map_entry and types.is_map(data_type):
            self._map(data_type, field, entry, column, place)
            return
        if not types.is_list(data_type):
            raise _misfit(data_type, field, place)
        (item,), (within,) = children(data_type), columns_of(data_type, column)
        wire = _WIRES.get(field.kind, _VARINT)
        packed = field.packed and wire in _PACKED_WIRES
        ends = [self._jump(op.UNSET, column, -1)]
        here = f"{place}[]"
        if packed:
            ends.append(self._jump(op.TAG, column, self._tag(field, _SIZED)))
            with self._sized(), self._items(column, place):
                self._item(item, within, here)
                self._bare(item.type, field, within, here)
        else:
            with self._items(column, place):
                self._item(item, within, here)
                self._land(*self._value(item.type, field, within, here))
        self._land(*ends)

    def _map(self, data_type: pa.DataType, field: FieldType, entry: MessageType, column: int, place: str) -> None:
        by_number = sorted(entry.fields, key=lambda each: each.number)
        columns, parts = columns_of(data_type, column), children(data_type)
        here = f"{place}{{}}"
        end = self._jump(op.UNSET, column, -1)
        with self._items(column, place):
            self._item(parts[1], columns[1], here)
            entered = self._jump(op.TAG, columns[0], self._tag(field, _SIZED))
            with self._sized():
                for part, part_field, within in zip(parts, by_number, columns, strict=True):
                    self._land(*self._value(part.type, part_field, within, here))
            self._land(entered)
        self._land(end)

    def _item(self, item: pa.Field, column: int, place: str) -> None:
        self.program.at(place)
        self._required(item.nullable, column, place)

    @contextmanager
    def _sized(self) -> Iterator[None]:
        """Write the size of what this block's instructions write in front of it."""
        self.program.emit(op.OPEN)
        with self._deeper():
            yield
        self.program.emit(op.CLOSE)


def _is_moment(data_type: pa.DataType) -> bool:
    """A timestamp, whatever zone it is shown in."""
    return types.is_timestamp(data_type) and data_type.tz is not None


def _misfit(data_type: pa.DataType, field: FieldType, place: str) -> SchemaError:
    shown = f"{'repeated ' if field.repeated else ''}{field.type_name or field.kind}"
    return SchemaError(f"{place}: a column of {data_type} cannot be written as {shown}")
