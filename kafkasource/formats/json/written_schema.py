"""Checks what a JSON Schema allows a writer, within these limits: types, what is required, the texts of an `enum`.

It is read as `json_schema` reads it, with what the columns of a reader do not need: which texts are any value, which
nulls must stand in the record. What contains itself is any value there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as types

from kafkasource.formats.json.json_schema import Notes, Path, type_of_json_schema

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_REALS = (pa.float32(), pa.float64())


@dataclass(frozen=True, slots=True)
class Anything:
    """No type, several types, or one that does not say what is in it."""

    name: str = ""  # object, array: only such a value

    @property
    def shown(self) -> str:
        return self.name or "any value"


@dataclass(frozen=True, slots=True)
class Scalar:
    name: str  # integer, number, boolean, string
    format: str = ""  # of a string: date-time, date, base64
    symbols: tuple[str, ...] = ()  # the only texts of a string

    @property
    def shown(self) -> str:
        return f"{self.name} ({self.format})" if self.format else "enum" if self.symbols else self.name

    def takes(self, data_type: pa.DataType) -> bool:
        """`data_type`: a plain type."""
        if self.name == "integer":
            return data_type in _INTEGERS or bool(types.is_decimal(data_type) and data_type.scale == 0)
        if self.name == "number":
            return data_type in _INTEGERS or data_type in _REALS or bool(types.is_decimal(data_type))
        if self.name == "boolean":
            return bool(data_type == pa.bool_())
        if data_type == pa.string():
            return True
        if self.symbols:
            return False
        if self.format == "date-time":
            return types.is_timestamp(data_type) and data_type.tz is not None
        of_format = {"date": pa.date32(), "base64": pa.binary()}
        if self.format in of_format:
            return bool(data_type == of_format[self.format])
        return types.is_timestamp(data_type) or data_type in (pa.date32(), pa.binary(), pa.time64("us"))


@dataclass(frozen=True, slots=True)
class Properties:
    """An object with `properties`."""

    fields: Mapping[str, tuple[Written, bool]]  # with: may it be null?
    required: frozenset[str]
    name: str = "object"
    shown: str = "object"


@dataclass(frozen=True, slots=True)
class Items:
    item: Written
    nullable: bool
    name: str = "array"
    shown: str = "array"


@dataclass(frozen=True, slots=True)
class Values:
    """An object with a schema in `additionalProperties`."""

    value: Written
    nullable: bool
    name: str = "object"
    shown: str = "object of any names"


Written: TypeAlias = "Anything | Scalar | Properties | Items | Values"
ANY = Anything()


def written_schema(schema: object, references: Mapping[str, object]) -> Written:
    """`schema`: its JSON; `references` as for `type_of_json_schema`. SchemaError where it cannot be read."""
    notes = Notes()
    kind = type_of_json_schema(schema, references, notes)
    return _written(kind, notes, ())


def _written(data_type: pa.DataType, notes: Notes, path: Path) -> Written:
    if types.is_struct(data_type):
        fields = {}
        for field in data_type:
            here = (*path, f".{field.name}")
            fields[field.name] = _written(field.type, notes, here), field.nullable
        required = {
            field.name for field in data_type if not field.nullable or (*path, f".{field.name}") in notes.null_there
        }
        return Properties(fields, frozenset(required))
    if types.is_list(data_type):
        return Items(_written(data_type.value_type, notes, (*path, "[]")), data_type.value_field.nullable)
    if types.is_map(data_type):
        return Values(_written(data_type.item_type, notes, (*path, "{}")), data_type.item_field.nullable)
    if data_type == pa.string():
        found = notes.texts.get(path)
        return Anything(notes.holders.get(path, "")) if found is None else Scalar("string", "", found)
    if data_type == pa.binary():
        return Scalar("string", "base64")
    if data_type == pa.date32() or types.is_timestamp(data_type):
        return Scalar("string", "date" if data_type == pa.date32() else "date-time")
    return Scalar({pa.int64(): "integer", pa.float64(): "number", pa.bool_(): "boolean"}[data_type])
