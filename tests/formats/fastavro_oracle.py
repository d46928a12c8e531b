"""Reads records with fastavro, in the shape of our columns' Python values; makes random values and changed schemas."""

from __future__ import annotations

import copy
import datetime as dt
import io
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from schema_strategies import branch_name, is_union

from kafkasource.formats.avro.decode import AvroDecoder
from kafkasource.formats.avro.parse import parse_schema

fastavro = pytest.importorskip("fastavro")

MANY_BYTES = 64 << 20
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MOMENTS = st.integers(-60_000_000_000, 250_000_000_000)  # ms that datetime has
PLAIN = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.one_of(st.integers(-100, 100), LONG),
    "float": st.floats(width=32),
    "double": st.floats(),
    "bytes": st.binary(max_size=20),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
}


def logical_values(node: dict[str, Any]) -> Any:
    name = node["logicalType"]
    if name == "date":
        return st.dates()
    if name == "decimal":
        digits = node["precision"]
        most = 10**digits - 1
        return st.integers(-most, most).map(
            lambda n: Decimal(n).scaleb(-node["scale"]) if node["scale"] else Decimal(n)
        )
    if name.endswith("millis") or name.endswith("micros"):
        moments = MOMENTS.map(lambda ms: EPOCH + dt.timedelta(milliseconds=ms))
        return moments.map(lambda at: at.replace(tzinfo=None)) if name.startswith("local") else moments
    return LONG


def definitions(node: Any) -> dict[str, Any]:
    """The named types of a schema."""
    found: dict[str, Any] = {}
    if isinstance(node, list):
        for branch in node:
            found |= definitions(branch)
    elif isinstance(node, dict):
        if "name" in node:
            found[node["name"]] = node
        for field in node.get("fields", ()):
            found |= definitions(field["type"])
        for within in ("items", "values"):
            found |= definitions(node.get(within))
    return found


def values(draw: Any, node: Any, named: dict[str, Any]) -> Any:
    """A value as fastavro writes it; of a union (name of the branch, value)."""
    if isinstance(node, list):
        branch = draw(st.sampled_from(node))
        value = values(draw, branch, named)
        if isinstance(branch, dict) and branch["type"] in ("record", "enum", "fixed"):
            return (branch["name"], value)
        return value if value is None or isinstance(branch, dict) else (branch, value)
    if isinstance(node, str):
        return values(draw, named[node], named) if node in named else draw(PLAIN[node])
    kind = node["type"]
    if "logicalType" in node:
        return draw(logical_values(node))
    if kind == "array":
        return [values(draw, node["items"], named) for _ in range(draw(st.integers(0, 3)))]
    if kind == "map":
        keys = draw(st.lists(PLAIN["string"], max_size=3, unique=True))
        return {key: values(draw, node["values"], named) for key in keys}
    if kind == "enum":
        return draw(st.sampled_from(node["symbols"]))
    if kind == "fixed":
        return draw(st.binary(min_size=node["size"], max_size=node["size"]))
    if kind == "record":
        return {field["name"]: values(draw, field["type"], named) for field in node["fields"]}
    return draw(PLAIN[kind])


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(schema)), value)
    return out.getvalue()


def read(data: bytes, writer: Any, reader: Any) -> Any:
    """Return what fastavro reads, or the exception."""
    schemas = [fastavro.parse_schema(copy.deepcopy(each)) for each in (writer, reader)]
    try:
        return fastavro.schemaless_reader(io.BytesIO(data), *schemas, return_named_type=False)
    except Exception as error:
        return error


def decoder(reader: Any, *writers: Any) -> AvroDecoder:
    return AvroDecoder(parse_schema(json.dumps(reader)), [parse_schema(json.dumps(writer)) for writer in writers])


def column(records: list[bytes | None], prefix: bytes = b"") -> pa.Array:
    return pa.array([None if record is None else prefix + record for record in records], pa.binary())


def same(ours: Any, theirs: Any) -> bool:
    """Ours is what to_pylist says: a union is a struct of members, one of them not null; a map is a list of pairs."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        return all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, dict) and all(key.startswith("member") for key in ours) and ours:
        there = [value for value in ours.values() if value is not None]
        return len(there) <= 1 and same(there[0] if there else None, theirs)
    if isinstance(ours, list) and isinstance(theirs, dict):
        pairs = dict(ours)
        return pairs.keys() == theirs.keys() and all(same(pairs[key], theirs[key]) for key in pairs)
    if isinstance(ours, list) and isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, (int, float)):
        wide = float(theirs)
        return ours == wide or (math.isnan(ours) and math.isnan(wide)) or ours == as_float(wide)
    if isinstance(ours, bytes) and isinstance(theirs, str):  # fastavro leaves a default of bytes as text
        return ours in (theirs.encode("latin-1", "replace"), theirs.encode())
    return bool(ours == theirs) and isinstance(ours, bool) == isinstance(theirs, bool)


def as_float(wide: float) -> float:
    """Rounded as a promotion to float does; fastavro keeps all digits."""
    return pa.array([wide], pa.float64()).cast(pa.float32())[0].as_py()


WIDER = {
    "int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",),
    "string": ("bytes",),
}  # fmt: skip
DEFAULTS = {"int": 7, "long": -8, "string": "d\u00e9faut", "boolean": True, "double": 1.5}


class Changed:
    """A reader's schema, made of a writer's by changes that the specification allows, and by some that it does not."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def _one_in(self, count: int) -> bool:
        return self._draw(st.integers(1, count)) == 1

    def node(self, node: Any) -> Any:
        if isinstance(node, list):
            branches = [self.node(branch) for branch in node]
            kinds = [branch_name(branch) for branch in branches if not is_union(branch)]
            if len(kinds) < len(branches):
                return node
            if len(set(kinds)) != len(kinds):
                branches = node
            if self._one_in(4):
                branches = self._draw(st.permutations(branches))
            return branches
        if isinstance(node, str):
            if node in WIDER and self._one_in(4):
                return self._draw(st.sampled_from(WIDER[node]))
            return [*self._draw(st.permutations(["null", node]))] if node != "null" and self._one_in(6) else node
        changed = dict(node)
        if node["type"] == "record":
            self._record(changed)
        elif node["type"] == "array":
            changed["items"] = self.node(node["items"])
        elif node["type"] == "map":
            changed["values"] = self.node(node["values"])
        elif node["type"] == "enum" and self._one_in(3):
            changed["symbols"] = [*node["symbols"][: self._draw(st.integers(1, 4))], "NEW"]
            if self._one_in(2):
                changed["default"] = "NEW"
        return changed

    def _record(self, record: dict[str, Any]) -> None:
        fields = []
        for field in record["fields"]:
            if self._one_in(5):
                continue
            changed = dict(field, type=self.node(field["type"]))
            if self._one_in(5):
                changed |= {"name": f"new_{field['name']}", "aliases": ["other", field["name"]]}
            fields.append(changed)
        if self._one_in(3):
            kind = self._draw(st.sampled_from(sorted(DEFAULTS)))
            fields.append({"name": "added", "type": kind, "default": DEFAULTS[kind]})
        if self._one_in(4):
            fields.append({"name": "added_list", "type": {"type": "array", "items": "int"}, "default": [1, 2]})
        if self._one_in(4):
            fields.append({"name": "added_or_null", "type": ["null", "string"], "default": None})
        record["fields"] = self._draw(st.permutations(fields))
