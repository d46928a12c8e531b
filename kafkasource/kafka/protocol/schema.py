"""The fields and types of messages: what a table in `messages` is made of.

Names are those of Kafka's own specs (`common/message/*.json` in kafka-clients) in snake case; so are types, versions,
tags and defaults (a test compares). Version ranges are inclusive at both ends, as everywhere in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafkasource.kafka.protocol.primitives import ZERO_UUID, ByteReader, ByteWriter

Value: TypeAlias = Any
"""Of a field: what its type reads and writes."""

Body: TypeAlias = dict[str, Value]
"""A decoded message: every field by its name."""
Fields: TypeAlias = Mapping[str, Value]
"""A message to encode: fields by name. A field that is left out has its default."""
Read: TypeAlias = Callable[[ByteReader], Value]
Write: TypeAlias = Callable[[ByteWriter, Value], None]


@dataclass(frozen=True)
class Primitive:
    """A type without parts. `read` and `write` take (nullable, flexible) and give what does it."""

    name: str
    default: Value
    read: Callable[[bool, bool], Read]
    write: Callable[[bool, bool], Write]
    width: Callable[[bool], int]  # least bytes on the wire, by flexible
    memory_bytes: int  # most that a value takes, beside its text
    layout: str = ""  # of a fixed-width number, in struct's letters: such neighbours are read at once

    def __repr__(self) -> str:
        return self.name.upper()


def _fixed(
    name: str, default: Value, width: int, layout: str, read: Read, write: Write, memory_bytes: int = 32
) -> Primitive:
    return Primitive(name, default, lambda n, f: read, lambda n, f: write, lambda f: width, memory_bytes, layout)


def _sized(
    name: str, default: Value, prefix: int, reads: Sequence[Read], writes: Sequence[Write], memory_bytes: int
) -> Primitive:
    """`reads` and `writes`: plain, nullable, compact, compact nullable."""
    return Primitive(
        name,
        default,
        lambda nullable, flexible: reads[nullable + 2 * flexible],
        lambda nullable, flexible: writes[nullable + 2 * flexible],
        lambda flexible: 1 if flexible else prefix,
        memory_bytes,
    )


BOOL = _fixed("bool", False, 1, "?", ByteReader.boolean, ByteWriter.boolean)
INT8 = _fixed("int8", 0, 1, "b", ByteReader.int8, ByteWriter.int8)
INT16 = _fixed("int16", 0, 2, "h", ByteReader.int16, ByteWriter.int16)
INT32 = _fixed("int32", 0, 4, "i", ByteReader.int32, ByteWriter.int32)
INT64 = _fixed("int64", 0, 8, "q", ByteReader.int64, ByteWriter.int64, memory_bytes=40)
UINT16 = _fixed("uint16", 0, 2, "H", ByteReader.uint16, ByteWriter.uint16)
UINT32 = _fixed("uint32", 0, 4, "I", ByteReader.uint32, ByteWriter.uint32)
FLOAT64 = _fixed("float64", 0.0, 8, "d", ByteReader.float64, ByteWriter.float64)
UUID = _fixed("uuid", ZERO_UUID, 16, "", ByteReader.uuid, ByteWriter.uuid, memory_bytes=128)
STRING = _sized(
    "string",
    "",
    2,
    [ByteReader.string, ByteReader.nullable_string, ByteReader.compact_string, ByteReader.compact_nullable_string],
    [ByteWriter.string, ByteWriter.nullable_string, ByteWriter.compact_string, ByteWriter.compact_nullable_string],
    memory_bytes=80,
)
_BYTES = (
    [ByteReader.bytes_, ByteReader.nullable_bytes, ByteReader.compact_bytes, ByteReader.compact_nullable_bytes],
    [ByteWriter.bytes_, ByteWriter.nullable_bytes, ByteWriter.compact_bytes, ByteWriter.compact_nullable_bytes],
)
BYTES = _sized("bytes", b"", 4, *_BYTES, memory_bytes=224)
RECORDS = _sized("records", None, 4, *_BYTES, memory_bytes=224)  # null by default even where it may not be, as in Java


@dataclass(frozen=True)
class Struct:
    """A struct within a struct, without a length of its own. If it may be null, a byte comes first: 1, or -1 (null)."""

    fields: Sequence[Field]


@dataclass(frozen=True)
class Array:
    """A counted run of one type; `Array([Field(...), ...])` is an array of structs."""

    of: Primitive | Struct | Sequence[Field]

    @property
    def element(self) -> Primitive | Struct:
        return self.of if isinstance(self.of, Primitive | Struct) else Struct(self.of)


Type: TypeAlias = Primitive | Array | Struct

_OF_TYPE: Value = object()


@dataclass(frozen=True)
class Field:
    """One field; its versions are those from `since` to `until`, both inclusive, None: to the last."""

    name: str
    type: Type
    since: int = 0
    until: int | None = None
    nullable_since: int | None = None
    default: Value = _OF_TYPE  # 0, False, "", an empty array or all fields' defaults, unless told
    tag: int | None = None  # a tagged field (KIP-482): left out when it has its default, in any version
    ignorable: bool = False  # dropped without a word in versions that do not carry it

    def carried_by(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable_in(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since

    def default_value(self) -> Value:
        """A new one each time where it could be changed."""
        if self.default is not _OF_TYPE:
            return self.default
        if isinstance(self.type, Primitive):
            return self.type.default
        return [] if isinstance(self.type, Array) else {f.name: f.default_value() for f in self.type.fields}

    def is_default(self, value: Value) -> bool:
        if isinstance(self.type, Struct) and isinstance(value, Mapping):
            return all(f.name not in value or f.is_default(value[f.name]) for f in self.type.fields)
        return bool(value == self.default_value())
