"""Avro schemas as frozen values.

Names are full names, `namespace.name`. A type that is used twice is the same object twice, so a schema is a graph
without circles: `Again` stands for a record within itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(frozen=True, slots=True)
class Logical:
    """A logical type that the specification names, on a type that can carry it; all others are dropped."""

    name: str
    precision: int = 0  # of decimal
    scale: int = 0


@dataclass(frozen=True, slots=True)
class AvroPrimitive:
    kind: str  # of PRIMITIVES
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    name: str
    size: int  # bytes
    aliases: tuple[str, ...] = ()
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class AvroEnum:
    name: str
    symbols: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    default: str | None = None  # stands for a symbol that the reader does not know


@dataclass(frozen=True, slots=True)
class Branch:
    """A value of a union: which branch, and the value."""

    index: int
    value: Value


# A default as the schema means it: a tuple is an array, a record's fields in order, or a map's pairs of key and value.
Value: TypeAlias = (
    "bool | int | float | bytes | str | Branch | tuple[Value, ...] | tuple[tuple[str, Value], ...] | None"
)


@dataclass(frozen=True, slots=True)
class Default:
    value: Value


@dataclass(frozen=True, slots=True)
class AvroField:
    name: str
    schema: Schema
    aliases: tuple[str, ...] = ()
    default: Default | None = None


@dataclass(frozen=True, slots=True)
class AvroRecord:
    name: str
    fields: tuple[AvroField, ...]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Again:
    """A record within itself. There is no column for it, so a reader's schema with one is refused."""

    name: str  # of the record


@dataclass(frozen=True, slots=True)
class AvroArray:
    items: Schema


@dataclass(frozen=True, slots=True)
class Map:
    values: Schema


@dataclass(frozen=True, slots=True)
class Union:
    branches: tuple[Schema, ...]


Schema: TypeAlias = "AvroPrimitive | Fixed | AvroEnum | AvroRecord | Again | AvroArray | Map | Union"
Named: TypeAlias = "Fixed | AvroEnum | AvroRecord"


def kind_of(schema: Schema) -> str:
    """The type's word in Avro's JSON."""
    if isinstance(schema, AvroPrimitive):
        return schema.kind
    return "record" if isinstance(schema, Again) else type(schema).__name__.lower().removeprefix("avro")


def short(name: str) -> str:
    """A full name without its namespace."""
    return name.rpartition(".")[2]


def is_null(schema: Schema) -> bool:
    return isinstance(schema, AvroPrimitive) and schema.kind == "null"


_MOST_DESCRIBED = 20  # branches of a union


def describe(schema: Schema) -> str:
    """A type in a message: `long`, `decimal(10, 2)`, `enum shop.Colour`."""
    if isinstance(schema, (Fixed, AvroEnum, AvroRecord, Again)):
        return f"{kind_of(schema)} {schema.name}"
    if isinstance(schema, Union):
        some = ", ".join(map(describe, schema.branches[:_MOST_DESCRIBED]))
        return f"[{some}{', ...' if len(schema.branches) > _MOST_DESCRIBED else ''}]"
    if isinstance(schema, AvroPrimitive) and schema.logical is not None:
        logical = schema.logical
        return f"decimal({logical.precision}, {logical.scale})" if logical.precision else logical.name
    return kind_of(schema)


def children(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The types directly within one, each with what its place adds to the path."""
    if isinstance(schema, AvroRecord):
        for field in schema.fields:
            yield f".{field.name}", field.schema
    elif isinstance(schema, AvroArray):
        yield "[]", schema.items
    elif isinstance(schema, Map):
        yield "{}", schema.values
    elif isinstance(schema, Union):
        for index, branch in enumerate(schema.branches):
            yield f"({index})", branch


def records_of(schema: Schema) -> dict[str, AvroRecord]:
    """All records of a schema, by their full names."""
    found: dict[str, AvroRecord] = {}
    waiting: list[Schema] = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, AvroRecord):
            if each.name in found:
                continue
            found[each.name] = each
        waiting += [child for _, child in children(each)]
    return found
