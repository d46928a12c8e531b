"""Columns to Avro records of one writer's schema, as Spark's `to_avro` writes them.

| column | Avro |
|---|---|
| struct | record: fields by their names. A field that the column lacks has the schema's default, or is null |
| array; map with keys of text | array; map |
| tinyint, smallint, int; also date | int |
| the same, bigint | long |
| float; float, double | float; double |
| string | string, or an enum that has the text among its symbols |
| binary | bytes, or fixed of that size |
| decimal(p, s) | decimal of the same scale and at least p digits, in bytes or fixed |
| timestamp | timestamp-micros, timestamp-millis (rounded down), or a long: milliseconds |
| timestamp_ntz | the same with local- in front |
| interval day to second, time | long: microseconds |
| struct of member0, member1, ... | a union: the first member that is not null |
| bigint, double | also a union of int and long, of float and double |
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as types

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.arrow_types import members, number_of
from kafkasource.formats.avro.schema import (
    Again,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroPrimitive,
    AvroRecord,
    Fixed,
    Map,
    Schema,
    Union,
    describe,
    is_null,
    kind_of,
    records_of,
)
from kafkasource.formats.avro.values import long_bytes, value_bytes
from kafkasource.formats.encoding import opcodes as op
from kafkasource.formats.encoding.encode import ColumnEncoder
from kafkasource.formats.encoding.input import children, columns_of, plain_type
from kafkasource.formats.encoding.program import Compiler, matched

_INTS = {pa.int8(): op.INT8, pa.int16(): op.INT16, pa.int32(): op.INT32, pa.date32(): op.INT32}
_LONGS = {pa.int8(): op.INT8, pa.int16(): op.INT16, pa.int32(): op.INT32, pa.int64(): op.INT64,
          pa.duration("us"): op.INT64, pa.time64("us"): op.INT64}  # fmt: skip
_OTHERS = {
    "boolean": {pa.bool_(): op.BOOLEAN},
    "int": _INTS,
    "long": _LONGS,
    "float": {pa.float32(): op.COPY4},
    "double": {pa.float64(): op.COPY8, pa.float32(): op.WIDENED},
    "bytes": {pa.binary(): op.SIZED},
    "string": {pa.string(): op.SIZED},
}
_MICROS_OF = {  # of a timestamp, by whether it has a zone: the schema's logical type and its microseconds
    True: {"": 1000, "timestamp-millis": 1000, "timestamp-micros": 1},
    False: {"": 1000, "local-timestamp-millis": 1000, "local-timestamp-micros": 1},
}


class AvroEncoder(ColumnEncoder):
    """Encodes one column type by one writer's schema. Threads may encode at once."""

    def __init__(self, data_type: pa.DataType, writer: Schema, prefix: bytes = b"") -> None:
        """`prefix`: in front of each record. SchemaError with the place where the schema does not take the type."""
        compiler = _Compiler(writer, prefix)
        compiler.write(plain_type(data_type), False, writer, 0, "$")
        compiler.program.emit(op.END)
        super().__init__(compiler.program, compiler.may_fail)


class _Compiler(Compiler):
    def __init__(self, writer: Schema, prefix: bytes) -> None:
        super().__init__(prefix)
        self._records = records_of(writer)

    def write(self, data_type: pa.DataType, may_be_null: bool, schema: Schema, column: int, place: str) -> None:
        """The values of a column with their branch, if the schema is a union."""
        self.program.at(place)
        if isinstance(schema, Union):
            self._union(data_type, may_be_null, schema, column, place)
        elif is_null(schema) or types.is_null(data_type):
            if not is_null(schema) or not types.is_null(data_type):
                raise _misfit(data_type, schema, place)
        else:
            self._required(may_be_null, column, place)
            self._value(data_type, schema, column, place)

    def _union(self, data_type: pa.DataType, may_be_null: bool, union: Union, column: int, place: str) -> None:
        null = next((index for index, branch in enumerate(union.branches) if is_null(branch)), None)
        if types.is_null(data_type):
            if null is None:
                raise _misfit(data_type, union, place)
            self.program.emit(op.WRITE_BRANCH, 2 * null)
            return
        others = members(union)
        branch = _branch_for(data_type, others)
        if branch is None:
            self._members(data_type, may_be_null, union, null, column, place)
            return
        number = 2 * union.branches.index(branch)
        if null is None:
            self._required(may_be_null, column, place)
            self.program.emit(op.WRITE_BRANCH, number)
            self._value(data_type, branch, column, place)
            return
        end = self._jump(op.OPTIONAL, column, 2 * null, number)
        self._value(data_type, branch, column, place)
        self._land(end)

    def _members(
        self, data_type: pa.DataType, may_be_null: bool, union: Union, null: int | None, column: int, place: str
    ) -> None:
        others = members(union)
        names = [field.name for field in children(data_type)] if types.is_struct(data_type) else None
        if not others or names != [f"member{number}" for number in range(len(others))]:
            raise _misfit(data_type, union, place)
        jumps = []  # to behind all members
        if null is None:
            self._required(may_be_null, column, place)
        else:
            jumps.append(self._jump(op.OPTIONAL, column, 2 * null, -1))
        for number, (field, branch) in enumerate(zip(children(data_type), others, strict=True)):
            if types.is_null(field.type):
                continue  # never over an existing number
            within = columns_of(data_type, column)[number]
            index = 2 * union.branches.index(branch)
            self.program.at(f"{place}({index // 2})")
            other = self._jump(op.MEMBER, within, index)
            self._value(field.type, branch, within, f"{place}({index // 2})")
            jumps.append(self._jump(op.JUMP))
            self._land(other)
        self.program.at(place)
        self.program.emit(*((op.FAIL, op.NO_MEMBER) if null is None else (op.WRITE_BRANCH, 2 * null)))
        self._land(*jumps)

    def _value(self, data_type: pa.DataType, schema: Schema, column: int, place: str) -> None:
        """Write a value that is not null, of a schema that is not a union."""
        self.program.at(place)
        if isinstance(schema, Again):
            schema = self._records[schema.name]  # as deep as the column is
        if isinstance(schema, AvroRecord) and types.is_struct(data_type):
            self._record(data_type, schema, column, place)
        elif isinstance(schema, AvroArray) and types.is_list(data_type):
            self._list(column, place, [(data_type.value_field, schema.items, f"{place}[]")], data_type)
        elif isinstance(schema, Map) and types.is_map(data_type) and data_type.key_type == pa.string():
            key = (pa.field("key", pa.string(), False), AvroPrimitive("string"), f"{place}{{}}")
            self._list(column, place, [key, (data_type.item_field, schema.values, f"{place}{{}}")], data_type)
        elif isinstance(schema, AvroEnum) and data_type == pa.string():
            self._enum(schema, column)
        elif types.is_decimal(data_type) and isinstance(schema, (AvroPrimitive, Fixed)):
            self._decimal(data_type, schema, column, place)
        elif isinstance(schema, Fixed) and data_type == pa.binary():
            self.program.emit(op.FIXED, column, schema.size)
        elif types.is_timestamp(data_type) and kind_of(schema) == "long":
            self._timestamp(data_type, schema, column, place)
        else:
            opcode = _OTHERS.get(kind_of(schema), {}).get(data_type) if isinstance(schema, AvroPrimitive) else None
            if opcode is None:
                raise _misfit(data_type, schema, place)
            self.program.emit(opcode, column)

    def _record(self, data_type: pa.DataType, record: AvroRecord, column: int, place: str) -> None:
        columns, fields = columns_of(data_type, column), children(data_type)
        names = [field.name for field in record.fields]
        found = matched([field.name for field in fields], names, describe(record), place)
        for field in record.fields:
            here = f"{place}.{field.name}"
            number = found.get(field.name)
            if number is None:
                self.program.at(here)
                self._bytes(_of_missing(field, here))
            else:
                self.write(fields[number].type, fields[number].nullable, field.schema, columns[number], here)

    def _list(self, column: int, place: str, parts: list[tuple[pa.Field, Schema, str]], data_type: pa.DataType) -> None:
        with self._items(column, place, op.ITEMS, op.NEXT):
            for (field, schema, here), within in zip(parts, columns_of(data_type, column), strict=True):
                self.write(field.type, field.nullable, schema, within, here)

    def _enum(self, enum: AvroEnum, column: int) -> None:
        words = self.program.names([(text, number) for number, text in enumerate(enum.symbols)])
        self.program.emit(op.ENUM, column, len(enum.symbols), *words)

    def _decimal(self, data_type: pa.DataType, schema: AvroPrimitive | Fixed, column: int, place: str) -> None:
        logical = schema.logical
        if (
            logical is None
            or not logical.precision
            or logical.scale != data_type.scale
            or logical.precision < data_type.precision
        ):
            raise _misfit(data_type, schema, place)
        if isinstance(schema, Fixed):
            self.program.emit(op.DECIMAL_FIXED, column, schema.size)
        else:
            self.program.emit(op.DECIMAL, column)

    def _timestamp(self, data_type: pa.DataType, schema: Schema, column: int, place: str) -> None:
        assert isinstance(schema, AvroPrimitive)
        micros = _MICROS_OF[data_type.tz is not None].get(schema.logical.name if schema.logical else "")
        if micros is None:
            raise _misfit(data_type, schema, place)
        if micros == 1:
            self.program.emit(op.INT64, column)
        else:
            self.program.emit(op.DIVIDED, column, micros)


def _branch_for(data_type: pa.DataType, others: tuple[Schema, ...]) -> Schema | None:
    """The branch that takes the column as it is; None where the column must be a struct of members."""
    if len(others) == 1:
        return others[0]
    if number_of(others) and not types.is_struct(data_type):
        wanted = {pa.int32(): "int", pa.int64(): "long", pa.float32(): "float", pa.float64(): "double"}.get(data_type)
        return next((branch for branch in others if kind_of(branch) == wanted), None)
    return None


def _of_missing(field: AvroField, place: str) -> bytes:
    if field.default is not None:
        return value_bytes(field.schema, field.default.value)
    if is_null(field.schema):
        return b""
    for index, branch in enumerate(field.schema.branches if isinstance(field.schema, Union) else ()):
        if is_null(branch):
            return long_bytes(index)
    raise SchemaError(
        f"{place}: the writer's schema needs this field ({describe(field.schema)}), which has no default, and the"
        " column does not have it. Add it to the struct"
    )


def _misfit(data_type: pa.DataType, schema: Schema, place: str) -> SchemaError:
    more = ""
    if isinstance(schema, Union) and len(members(schema)) > 1:
        more = ". A union of several types is a struct of member0, member1, ..., one for each type but null"
    return SchemaError(f"{place}: a column of {data_type} cannot be written as {describe(schema)}{more}")
