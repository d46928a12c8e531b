"""Avro records and schema texts with lies in them.

Schemas and records are written here, by the specification, with nothing of the package: a record that is not damaged
must come out as it does alone, whatever stands beside it.
"""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pyarrow as pa
from frame_mutations import damaged

from kafkasource.formats.avro.arrow_types import arrow_type
from kafkasource.formats.avro.decode import AvroDecoder
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.decoding.decode import DecodedColumn

MOST_BYTES = 1 << 20
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
)
AGAIN = "again"  # the field in which a record contains itself
LONGS = (0, 1, -1, 2, 63, 64, 127, 128, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63), 1 << 40, -(1 << 40))


def zigzag(number: int) -> bytes:
    raw, out = ((number << 1) ^ (number >> 63)) & ((1 << 64) - 1), bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


class Schemas:
    """Random schemas; each name is new. Of some, records contain themselves, which no reader has."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names = 0
        self.recursive = rng.random() < 0.3

    def any(self, depth: int) -> Any:
        kind = self._rng.choice(("leaf", "leaf", "record", "array", "map", "optional", "union", "enum", "fixed"))
        if depth == 0 or kind == "leaf":
            return self._rng.choice(PRIMITIVES + LOGICAL)
        if kind == "array":
            return {"type": "array", "items": self.any(depth - 1)}
        if kind == "map":
            return {"type": "map", "values": self.any(depth - 1)}
        if kind in ("optional", "union"):
            others = self._rng.sample(PRIMITIVES[1:], 1 if kind == "optional" else self._rng.randrange(1, 4))
            named = [self._named("record", depth - 1)] if self._rng.random() < 0.5 else []
            branches = [*others, *named, *(["null"] if kind == "optional" else [])]
            self._rng.shuffle(branches)
            return branches
        return self._named(kind, depth)

    def _named(self, kind: str, depth: int) -> Any:
        self._names += 1
        node: dict[str, Any] = {"type": kind, "name": f"N{self._names}"}
        if kind == "enum":
            node["symbols"] = [f"S{i}" for i in range(self._rng.randrange(1, 5))]
        elif kind == "fixed":
            node["size"] = self._rng.randrange(20)
        else:
            node["fields"] = [
                {"name": f"f{i}", "type": self.any(max(depth - 1, 0))} for i in range(self._rng.randrange(4))
            ]
            if self.recursive and self._rng.random() < 0.5:
                again = ["null", node["name"]]
                many = {"type": self._rng.choice(("array", "map")), "items": again, "values": again}
                at = self._rng.randrange(len(node["fields"]) + 1)
                node["fields"].insert(at, {"name": AGAIN, "type": self._rng.choice((again, many))})
        return node

    def readable(self, node: Any) -> Any:
        """Without records within themselves."""
        if isinstance(node, list):
            return list(map(self.readable, node))
        if isinstance(node, str):
            return node
        kept = [field for field in node.get("fields", ()) if field["name"] != AGAIN]
        within = {name: self.readable(node[name]) for name in ("items", "values") if name in node}
        fields = [field | {"type": self.readable(field["type"])} for field in kept]
        return {**node, **within, **({"fields": fields} if "fields" in node else {})}

    def changed(self, node: Any) -> Any:
        """A reader's schema for what the other has written; not always one that can read it."""
        if isinstance(node, list):
            return self._rng.sample(node, len(node)) if self._rng.random() < 0.3 else list(map(self.changed, node))
        if isinstance(node, str):
            wider = {"int": "long", "long": "double", "float": "double", "string": "bytes", "bytes": "string"}
            return wider.get(node, node) if self._rng.random() < 0.3 else node
        changed = dict(node)
        for within in ("items", "values"):
            if within in node:
                changed[within] = self.changed(node[within])
        if "fields" in node:
            kept = [
                field | {"type": self.changed(field["type"])} for field in node["fields"] if self._rng.random() < 0.7
            ]
            self._rng.shuffle(kept)
            more = {"name": "more", "type": {"type": "array", "items": "string"}, "default": ["a", "b"]}
            changed["fields"] = kept + ([more] if self._rng.random() < 0.5 else [])
        return changed


def record(rng: random.Random, node: Any, around: dict[str, Any] | None = None) -> bytes:
    """Right bytes of the schema. `around`: records that stand around it, by their names."""
    around = around or {}
    if isinstance(node, str) and node in around:
        node = around[node]
    if isinstance(node, list):
        branch = rng.randrange(len(node)) if rng.random() < 0.8 or node[0] != "null" else 0
        return zigzag(branch) + record(rng, node[branch], around)
    kind = node if isinstance(node, str) else node["type"]
    if kind in ("array", "map"):
        blocks = []
        for _ in range(rng.choice((0, 1, 1, 2))):
            items = [_item(rng, node, around) for _ in range(rng.randrange(1, 4))]
            whole = b"".join(items)
            sized = rng.random() < 0.3
            blocks.append((zigzag(-len(items)) + zigzag(len(whole)) if sized else zigzag(len(items))) + whole)
        return b"".join(blocks) + b"\0"
    if kind == "record":
        around = {**around, node["name"]: node}
        return b"".join(record(rng, field["type"], around) for field in node["fields"])
    if kind == "enum":
        return zigzag(rng.randrange(len(node["symbols"])))
    return rng.randbytes(node["size"]) if kind == "fixed" else _leaf(rng, kind, node)


def _item(rng: random.Random, node: Any, around: dict[str, Any]) -> bytes:
    if node["type"] == "array":
        return record(rng, node["items"], around)
    return _leaf(rng, "string", "string") + record(rng, node["values"], around)


def _leaf(rng: random.Random, kind: str, node: Any) -> bytes:
    if kind == "string":
        text = "".join(rng.choice("aé漢😀 ") for _ in range(rng.randrange(20))).encode()
        return zigzag(len(text)) + text
    if kind == "bytes":
        size = rng.randrange(1, 9) if isinstance(node, dict) else rng.randrange(30)
        return zigzag(size) + rng.randbytes(size)
    if kind in ("int", "long"):
        return zigzag(rng.randrange(-(1 << 31), 1 << 31) >> rng.randrange(32))
    return {
        "null": b"", "boolean": bytes([rng.randrange(2)]), "float": struct.pack("<f", rng.random()),
        "double": struct.pack("<d", rng.random()),
    }[kind]  # fmt: skip


def lie(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Cut, with bits flipped, with another number in it, or nothing but chance."""
    kind = rng.randrange(5)
    if kind == 0:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 1:
        pos = rng.randrange(len(data) + 1)
        return data[:pos] + zigzag(rng.choice(LONGS)) + data[pos + rng.randrange(3) :]
    return rng.randbytes(rng.randrange(40)) if kind == 2 else damaged(rng, data, other)


def wrong_column(rng: random.Random) -> tuple[Any, Any, list[bytes], int]:
    """(writer's schema, reader's, records, the one that is not right)."""
    schemas = Schemas(rng)
    writer = schemas.any(rng.randrange(1, 5))
    readable = schemas.readable(writer) if schemas.recursive else writer
    reader = schemas.changed(readable) if rng.random() < 0.5 else readable
    column = [record(rng, writer) for _ in range(rng.randrange(2, 6))]
    wrong = rng.randrange(len(column))
    column[wrong] = lie(rng, column[wrong], column[0])
    return writer, reader, column, wrong


def decode(rng: random.Random) -> bool:
    """Right and wrong records in one column. Taken: no record was refused."""
    writer, reader, column, wrong = wrong_column(rng)
    decoder = AvroDecoder(parse_schema(json.dumps(reader)), [parse_schema(json.dumps(writer))])
    prefix = rng.randbytes(rng.choice((0, 5)))
    whole = pa.array([prefix + each for each in column], pa.binary())
    before = pa.total_allocated_bytes()
    pieces = list(decoder.batches(whole, MOST_BYTES, skip_bytes=len(prefix)))
    held = pa.total_allocated_bytes() - before
    assert held <= MOST_BYTES * len(pieces), held
    rows = [piece.array.slice(at, 1) for piece in pieces for at in range(len(piece.array))]
    assert len(rows) == len(column), "rows are lost"
    bad = {fault.row for piece in pieces for fault in piece.faults()}
    for piece in pieces:
        piece.array.validate(full=True)
    for row, data in enumerate(column):
        if row == wrong:
            assert row not in bad or not rows[row].is_valid()[0].as_py(), "a bad record is not null"
            continue
        alone: DecodedColumn = decoder.decode(pa.array([data], pa.binary()), MOST_BYTES)
        assert (row in bad) == bool(alone.bad), "what stands beside a record makes it bad"
        assert identical(rows[row], alone.array), "a row has moved"
        assert reader is not writer or row not in bad, "a right record is bad"
    return not bad


def identical(one: pa.Array, other: pa.Array) -> bool:
    """The same values, by their text where Python has them: NaN is not equal to itself."""
    if one.equals(other):
        return True
    return str(one) == str(other)


def read_schema(rng: random.Random) -> bool:
    """A schema's text, damaged, and the columns of what is taken."""
    text = json.dumps(Schemas(rng).any(4)).encode()
    schema = parse_schema(damaged(rng, text, text).decode("utf-8", "replace"))
    arrow_type(schema)
    AvroDecoder(schema, [schema])
    return True
