"""Defaults of fields: JSON, checked against the field's schema, to values."""

from __future__ import annotations

from typing import Any

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.schema import (
    AvroArray,
    AvroEnum,
    AvroPrimitive,
    AvroRecord,
    Branch,
    Fixed,
    Map,
    Schema,
    Union,
    Value,
    describe,
)
from kafkasource.formats.bounds import Steps, TooCostly, check_place, shown

_BITS = {"int": 32, "long": 64}


def default_value(schema: Schema, given: Any, place: str, steps: Steps) -> Value:
    """The value that the JSON stands for. SchemaError with the place where it is none of the schema's.

    `steps`: each branch of a union may go through the whole default, and then refuse it.
    """
    steps.take(1, place)
    check_place(place)
    if isinstance(schema, Union):
        return _of_union(schema, given, place, steps)
    if isinstance(schema, AvroRecord):
        return _of_record(schema, given, place, steps)
    if isinstance(schema, AvroArray) and isinstance(given, list):
        return tuple(default_value(schema.items, item, f"{place}[{i}]", steps) for i, item in enumerate(given))
    if isinstance(schema, Map) and isinstance(given, dict):
        return tuple(
            (_encoded(key, place), default_value(schema.values, item, f"{place}{{{key}}}", steps))
            for key, item in given.items()
        )
    if isinstance(schema, AvroEnum) and given in schema.symbols:
        return str(given)
    if isinstance(schema, Fixed):
        data = _bytes(given)
        if data is not None and len(data) == schema.size:
            return data
    if isinstance(schema, AvroPrimitive):
        fits, value = _of_primitive(schema.kind, given)
        if fits:
            return value
    raise _refused(schema, given, place)


def _of_union(schema: Union, given: Any, place: str, steps: Steps) -> Branch:
    """Read a default of the first branch that takes it, as Java does; Avro before 1.12 had the first alone."""
    for index, branch in enumerate(schema.branches):
        try:
            return Branch(index, default_value(branch, given, place, steps))
        except TooCostly:
            raise
        except SchemaError:
            continue
    raise _refused(schema, given, place)


def _of_record(schema: AvroRecord, given: Any, place: str, steps: Steps) -> Value:
    if not isinstance(given, dict):
        raise _refused(schema, given, place)
    values: list[Value] = []
    for field in schema.fields:
        if field.name in given:
            values.append(default_value(field.schema, given[field.name], f"{place}.{field.name}", steps))
        elif field.default is not None:
            values.append(field.default.value)
        else:
            raise SchemaError(f"{place}: the default lacks the field {field.name!r}, which has no default of its own")
    return tuple(values)


def _encoded(key: str, place: str) -> str:
    if not _encodable(key):
        raise SchemaError(f"{place}: a key of the default has half of a surrogate pair, which no record can have")
    return key


def _of_primitive(kind: str, given: Any) -> tuple[bool, Value]:
    """(whether it is one, the value)."""
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if kind == "null":
        return given is None, None
    if kind == "boolean":
        return isinstance(given, bool), given
    if kind in _BITS:
        limit = 1 << (_BITS[kind] - 1)
        return number and isinstance(given, int) and -limit <= given < limit, given
    if kind in ("float", "double"):
        try:
            return number, float(given) if number else None
        except OverflowError:
            return False, None
    if kind == "string":
        return isinstance(given, str) and _encodable(given), given
    data = _bytes(given)
    return data is not None, data


def _bytes(given: Any) -> bytes | None:
    """Code points 0 to 255 stand for bytes."""
    try:
        return given.encode("latin-1") if isinstance(given, str) else None
    except UnicodeEncodeError:
        return None


def _encodable(text: str) -> bool:
    """Return whether the text is UTF-8: JSON can write half of a surrogate pair, which is not."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _refused(schema: Schema, given: Any, place: str) -> SchemaError:
    return SchemaError(f"{place}: the default {shown(given)} is not a value of {describe(schema)[:200]}")
