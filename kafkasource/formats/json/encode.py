"""Columns to JSON, as Spark's `to_json` writes them.

| column | JSON |
|---|---|
| struct | an object; a field that is null is left out |
| map | an object, its nulls kept; keys: text, numbers, booleans, dates (as days), timestamps (microseconds) |
| array | an array, its nulls kept |
| byte, short, int, long, boolean | a number; true, false |
| float, double | a number as Java writes it; the strings NaN, Infinity, -Infinity |
| decimal | a number as Java's BigDecimal writes it |
| string | a string; what is not UTF-8 is U+FFFD |
| binary | a string in base64 |
| date, timestamp, timestamp_ntz | a string: 2024-05-06, 2024-05-06T07:08:09.123Z in UTC, the same without Z |
| time | a string: 07:08:09.5 |

A JSON Schema (`written_schema`) takes the column by its types: a field that must be there is an error of its row where
it is null, and stands there as null where the schema allows that. Names are the schema's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.types as types

from kafkasource.errors import SchemaError
from kafkasource.formats.encoding import opcodes as op
from kafkasource.formats.encoding.encode import ColumnEncoder
from kafkasource.formats.encoding.input import children, columns_of, plain_type
from kafkasource.formats.encoding.program import Compiler, matched
from kafkasource.formats.json.written_schema import ANY, Anything, Items, Properties, Scalar, Values, Written

WIDTHS = {pa.int8(): 1, pa.int16(): 2, pa.int32(): 4, pa.int64(): 8}
_REAL_WIDTHS = {pa.float32(): 4, pa.float64(): 8}
_QUOTE, _COLON = ord('"'), ord(":")


class JsonEncoder(ColumnEncoder):
    """Encodes one column type. Threads may encode at once."""

    def __init__(
        self, data_type: pa.DataType, prefix: bytes = b"", schema: Written = ANY, *, any_type: bool = False
    ) -> None:
        """`prefix`: in front of each record. `any_type`: what `to_json` has no text for is written, too, and the column
        may be no struct: an interval as its microseconds, a map with other keys as an array of its entries. SchemaError
        with the place where there is no JSON for the type, or the schema does not take it."""
        flat = plain_type(data_type)
        if not (any_type or types.is_struct(flat) or types.is_map(flat) or types.is_list(flat)):
            raise SchemaError(
                f"$: JSON is written from a struct, a map or an array, not from {data_type}. Put the column into a "
                "struct; a text that is JSON already is written without a format"
            )
        compiler = _Compiler(prefix, any_type)
        compiler.value(flat, schema, 0, "$")
        compiler.program.emit(op.END)
        super().__init__(compiler.program, compiler.may_fail)


class _Compiler(Compiler):
    def __init__(self, prefix: bytes, any_type: bool) -> None:
        super().__init__(prefix)
        self._any_type = any_type

    def value(self, data_type: pa.DataType, schema: Written, column: int, place: str) -> None:
        """A value that is not null."""
        self.program.at(place)
        if types.is_struct(data_type):
            self._struct(data_type, schema, column, place)
        elif types.is_list(data_type):
            self._array(data_type, schema, column, place)
        elif types.is_map(data_type):
            self._map(data_type, schema, column, place)
        else:
            _check_scalar(data_type, schema, place)
            self._scalar(data_type, column, place, schema)

    def _struct(self, data_type: pa.DataType, schema: Written, column: int, place: str) -> None:
        if not isinstance(schema, (Properties, Anything)) or schema.name == "array":
            raise _misfit(data_type, schema, place)
        fields, columns = children(data_type), columns_of(data_type, column)
        self.program.emit(op.PUT, ord("{"))
        names: Sequence[str] = [field.name for field in fields]
        if isinstance(schema, Properties):
            found = matched(names, list(schema.fields), "the JSON Schema", place)
            written = {number: name for name, number in found.items()}
            for name in schema.fields:
                if name not in found:
                    self._missing(schema, name, place)
        else:
            written = dict(enumerate(names))
        for number, (field, within) in enumerate(zip(fields, columns, strict=True)):
            self._field(field, written[number], schema, within, place)
        self.program.at(place)
        self.program.emit(op.PUT, ord("}"))

    def _missing(self, schema: Properties, name: str, place: str) -> None:
        """A field of the schema that the column lacks."""
        if name not in schema.required:
            return
        if not schema.fields[name][1]:
            raise SchemaError(
                f"{place}.{name}: the writer's schema requires this field, and the column does not have it. Add it to"
                " the struct"
            )
        self.program.emit(op.COMMA)
        self._bytes(_name(name) + b"null")

    def _field(self, field: pa.Field, name: str, schema: Properties | Anything, column: int, place: str) -> None:
        here = f"{place}.{name}"
        self.program.at(here)
        inner: Written = ANY
        keeps_null = False
        if isinstance(schema, Properties):
            inner, nullable = schema.fields[name]
            keeps_null = name in schema.required
            if keeps_null and not nullable:
                if types.is_null(field.type):
                    raise _misfit(field.type, inner, here)
                self._required(field.nullable, column, here)
                keeps_null = False
        if types.is_null(field.type):
            if keeps_null:
                self.program.emit(op.COMMA)
                self._bytes(_name(name) + b"null")
            return
        data = _name(name)
        start = self.program.constant(data)
        end = self._jump(op.PROPERTY, column, start, len(data), int(keeps_null))
        self.value(field.type, inner, column, here)
        self._land(end)

    def _array(self, data_type: pa.DataType, schema: Written, column: int, place: str) -> None:
        if not isinstance(schema, (Items, Anything)) or schema.name == "object":
            raise _misfit(data_type, schema, place)
        inner, nullable = (schema.item, schema.nullable) if isinstance(schema, Items) else (ANY, True)
        here, (within,) = f"{place}[]", columns_of(data_type, column)
        with self._bracketed("[]", column, place):
            self.program.at(here)
            self._nullable(data_type.value_field, inner, nullable, within, here)

    def _map(self, data_type: pa.DataType, schema: Written, column: int, place: str) -> None:
        if not isinstance(schema, (Values, Anything)) or schema.name == "array":
            raise _misfit(data_type, schema, place)
        inner, nullable = (schema.value, schema.nullable) if isinstance(schema, Values) else (ANY, True)
        here, (keys, values) = f"{place}{{}}", columns_of(data_type, column)
        if not _is_key(data_type.key_type):
            if not self._any_type:
                raise SchemaError(
                    f"{here}: a key of type {data_type.key_type} cannot be a name of a JSON object. Cast it to string"
                )
            self._entries(data_type, column, place)
            return
        with self._bracketed("{}", column, place):
            self.program.at(here)
            self.program.emit(op.REQUIRED, keys)
            self._key(data_type.key_type, keys)
            self.program.emit(op.PUT, _COLON)
            self._nullable(data_type.item_field, inner, nullable, values, here)

    def _entries(self, data_type: pa.DataType, column: int, place: str) -> None:
        """A map as [{"key": ..., "value": ...}]."""
        with self._bracketed("[]", column, place):
            self.program.emit(op.PUT, ord("{"))
            for field, name, within in zip(
                children(data_type), ("key", "value"), columns_of(data_type, column), strict=True
            ):
                self._field(field, name, ANY, within, place)
            self.program.emit(op.PUT, ord("}"))

    @contextmanager
    def _bracketed(self, brackets: str, column: int, place: str) -> Iterator[None]:
        """Run the instructions that this block emits for each item, with commas between, within brackets."""
        self.program.emit(op.PUT, ord(brackets[0]))
        with self._items(column, place):
            self.program.emit(op.COMMA)
            yield
        self.program.emit(op.PUT, ord(brackets[1]))

    def _nullable(self, field: pa.Field, schema: Written, nullable: bool, column: int, place: str) -> None:
        """An item of an array, or a value of a map: null, where it may be."""
        if types.is_null(field.type):
            if not nullable:
                raise _misfit(field.type, schema, place)
            self._bytes(b"null")
            return
        if not nullable:
            self._required(field.nullable, column, place)
            self.value(field.type, schema, column, place)
            return
        end = self._jump(op.NULL_ITEM, column)
        self.value(field.type, schema, column, place)
        self._land(end)

    def _key(self, data_type: pa.DataType, column: int) -> None:
        """The name of a map's entry: the text of a string's, or a number's, in quotation marks."""
        if data_type == pa.string():
            self.program.emit(op.QUOTED, column)
            return
        self.program.emit(op.PUT, _QUOTE)
        if data_type in _REAL_WIDTHS:
            self.program.emit(op.REAL, column, _REAL_WIDTHS[data_type], op.REAL_BARE)
        elif types.is_timestamp(data_type):
            self.program.emit(op.WHOLE, column, 8)
        elif data_type == pa.date32():
            self.program.emit(op.WHOLE, column, 4)
        else:
            self._scalar(data_type, column, "", ANY)
        self.program.emit(op.PUT, _QUOTE)

    def _scalar(self, data_type: pa.DataType, column: int, place: str, schema: Written) -> None:
        emit = self.program.emit
        if data_type in WIDTHS:
            emit(op.WHOLE, column, WIDTHS[data_type])
        elif data_type in _REAL_WIDTHS:
            emit(
                op.REAL,
                column,
                _REAL_WIDTHS[data_type],
                op.REAL_QUOTED if isinstance(schema, Anything) else op.REAL_REFUSED,
            )
        elif types.is_decimal(data_type) and data_type.bit_width == 128 and data_type.scale >= 0:
            emit(op.DECIMAL_TEXT, column, data_type.scale)
        elif data_type == pa.string():
            if isinstance(schema, Scalar) and schema.symbols:
                words = self.program.names([(text, 0) for text in schema.symbols])
                emit(op.SYMBOL, column, len(schema.symbols), *words)
            emit(op.QUOTED, column)
        elif types.is_timestamp(data_type):
            emit(op.TIMESTAMP, column, int(data_type.tz is not None))
        elif types.is_null(data_type):
            self._bytes(b"null")
        elif data_type in (pa.duration("us"), pa.time64("us")) and self._any_type:
            emit(op.WHOLE, column, 8)
        elif data_type in _OTHERS:
            emit(_OTHERS[data_type], column)
        else:
            raise SchemaError(
                f"{place}: JSON has no value for a column of type {data_type}. Cast it to string, or leave it out"
            )


_OTHERS = {
    pa.bool_(): op.TRUTH,
    pa.binary(): op.BASE64,
    pa.date32(): op.DATE,
    pa.time64("us"): op.TIME_OF_DAY,
}


def _is_key(data_type: pa.DataType) -> bool:
    return (
        data_type in WIDTHS
        or data_type in _REAL_WIDTHS
        or data_type in (pa.string(), pa.bool_(), pa.date32())
        or types.is_timestamp(data_type)
        or bool(types.is_decimal(data_type) and data_type.scale >= 0)
    )


def _name(name: str) -> bytes:
    """Return a field's name and a colon, escaped as strings are; Python's `json` would write small letters in hex."""
    text = json.dumps(name, ensure_ascii=False)
    text = re.sub(r"\\u00(..)|\\(.)", lambda found: found[0] if found[2] else f"\\u00{found[1].upper()}", text)
    return f"{text}:".encode()


def _check_scalar(data_type: pa.DataType, schema: Written, place: str) -> None:
    if isinstance(schema, Anything) and not schema.name:
        return
    if not isinstance(schema, Scalar) or not schema.takes(data_type):
        raise _misfit(data_type, schema, place)


def _misfit(data_type: pa.DataType, schema: Written, place: str) -> SchemaError:
    return SchemaError(f"{place}: a column of {data_type} cannot be written as {schema.shown} of the JSON Schema")
