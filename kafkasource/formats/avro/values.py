"""Values of a schema as Avro's bytes: defaults of fields that a column lacks."""

from __future__ import annotations

import struct
from typing import Any

from kafkasource.formats.avro.schema import (
    AvroArray,
    AvroEnum,
    AvroRecord,
    Branch,
    Fixed,
    Map,
    Schema,
    Union,
    Value,
    kind_of,
)
from kafkasource.formats.floats import single


def long_bytes(number: int) -> bytes:
    """A zigzag varint."""
    raw, out = (number << 1) ^ (number >> 63), bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def value_bytes(schema: Schema, given: Value) -> bytes:
    """`given`: as `parse` has it in `Default`."""
    value: Any = given
    if isinstance(schema, Union):
        assert isinstance(value, Branch)
        return long_bytes(value.index) + value_bytes(schema.branches[value.index], value.value)
    if isinstance(schema, AvroRecord):
        return b"".join(value_bytes(field.schema, each) for field, each in zip(schema.fields, value, strict=True))
    if isinstance(schema, AvroArray):
        return _items([value_bytes(schema.items, item) for item in value])
    if isinstance(schema, Map):
        return _items([_sized(key.encode()) + value_bytes(schema.values, each) for key, each in value])
    if isinstance(schema, AvroEnum):
        return long_bytes(schema.symbols.index(value))
    if isinstance(schema, Fixed):
        return bytes(value)
    kind = kind_of(schema)
    if kind in ("int", "long"):
        return long_bytes(value)
    if kind == "float":
        return struct.pack("<f", single(value))
    if kind == "double":
        return struct.pack("<d", value)
    if kind == "boolean":
        return b"\1" if value else b"\0"
    return b"" if kind == "null" else _sized(value.encode() if isinstance(value, str) else bytes(value))


def _sized(data: bytes) -> bytes:
    return long_bytes(len(data)) + data


def _items(items: list[bytes]) -> bytes:
    return long_bytes(len(items)) + b"".join(items) + b"\0" if items else b"\0"
