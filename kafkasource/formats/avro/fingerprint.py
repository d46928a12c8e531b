"""The fingerprint of a schema, by which Avro's single-object encoding names the schema of a record.

It is CRC-64-AVRO of the schema's Parsing Canonical Form, as the specification has both.
"""

from __future__ import annotations

import json
from typing import Any

from kafkasource.formats.avro.schema import (
    AvroArray,
    AvroEnum,
    AvroPrimitive,
    AvroRecord,
    Fixed,
    Map,
    Schema,
    Union,
    kind_of,
)
from kafkasource.formats.schema_source import Fingerprint

_EMPTY = 0xC15D213AA4D7A795


def fingerprint_of(schema: Schema) -> Fingerprint:
    found = _EMPTY
    for byte in canonical_form(schema).encode():
        found = (found >> 8) ^ _TABLE[(found ^ byte) & 0xFF]
    return Fingerprint(found.to_bytes(8, "little"))


def canonical_form(schema: Schema) -> str:
    """Give the Parsing Canonical Form."""
    return json.dumps(_form(schema, set()), ensure_ascii=False, separators=(",", ":"))


def _form(schema: Schema, seen: set[str]) -> Any:
    """`seen`: the names that are defined; from then on the name stands for the type."""
    if isinstance(schema, AvroPrimitive):
        return schema.kind
    if isinstance(schema, AvroArray):
        return {"type": "array", "items": _form(schema.items, seen)}
    if isinstance(schema, Map):
        return {"type": "map", "values": _form(schema.values, seen)}
    if isinstance(schema, Union):
        return [_form(branch, seen) for branch in schema.branches]
    if schema.name in seen:
        return schema.name
    seen.add(schema.name)
    form: dict[str, Any] = {"name": schema.name, "type": kind_of(schema)}
    if isinstance(schema, Fixed):
        form["size"] = schema.size
    elif isinstance(schema, AvroEnum):
        form["symbols"] = list(schema.symbols)
    elif isinstance(schema, AvroRecord):
        form["fields"] = [{"name": field.name, "type": _form(field.schema, seen)} for field in schema.fields]
    return form


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_EMPTY if byte & 1 else 0)
    return byte


_TABLE = [_entry(byte) for byte in range(256)]
