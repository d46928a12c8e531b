"""Random Avro schemas for hypothesis, as JSON, of every type, with names that nothing else has."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
)


class _Made:
    """Draws one schema; each name has a number of its own."""

    def __init__(self, draw: Any, logical: bool) -> None:
        self._draw = draw
        self._logical = logical
        self._numbers = itertools.count()
        self._defined: list[str] = []

    def _pick(self, choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def node(self, depth: int) -> Any:
        kind = self._pick(["primitive"] * 3 + ["record", "array", "map", "union", "optional", "enum", "fixed", "again"])
        if depth <= 0 or kind == "primitive":
            return self._pick(PRIMITIVES + (LOGICAL if self._logical else ()))
        if kind == "array":
            return {"type": "array", "items": self.node(depth - 1)}
        if kind == "map":
            return {"type": "map", "values": self.node(depth - 1)}
        if kind == "optional":
            other = self.node(depth - 1)
            return other if is_union(other) or other == "null" else self._draw(st.permutations(["null", other]))
        if kind == "union":
            return self._union(depth)
        if kind == "again" and self._defined:
            return self._pick(self._defined)
        return self._named(kind if kind in ("enum", "fixed") else "record", depth)

    def _union(self, depth: int) -> Any:
        branches: dict[str, Any] = {}
        for _ in range(self._draw(st.integers(1, 4))):
            branch = self.node(depth - 1)
            if not is_union(branch):
                branches.setdefault(branch_name(branch), branch)
        # Spark makes one long of an int and a long.
        if {kind_of(branch) for branch in branches.values()} - {"null"} == {"int", "long"}:
            return list(
                {kind_of(branch): kind_of(branch) for branch in branches.values()}.values()
            )  # one long in Spark
        return list(branches.values()) or ["null", "int"]

    def _named(self, kind: str, depth: int) -> Any:
        name = f"space{next(self._numbers) % 2}.{kind.title()}{next(self._numbers)}"
        node: dict[str, Any] = {"type": kind, "name": name}
        if kind == "enum":
            node["symbols"] = [f"S{i}" for i in range(self._draw(st.integers(1, 4)))]
        elif kind == "fixed":
            node["size"] = self._draw(st.integers(0, 5))
        else:
            count = self._draw(st.integers(0, 4))
            node["fields"] = [{"name": f"f{i}", "type": self.node(depth - 1)} for i in range(count)]
        self._defined.append(name)
        return node


def is_union(node: Any) -> bool:
    return isinstance(node, list)


def kind_of(node: Any) -> Any:
    return node if isinstance(node, str) else node["type"]


def branch_name(node: Any) -> str:
    """Return what a union may have only once."""
    if isinstance(node, str):
        return node
    return str(node.get("name", node["type"]))


@st.composite
def schemas(draw: Any, depth: int = 4, logical: bool = True) -> Any:
    return _Made(draw, logical).node(depth)


@st.composite
def record_schemas(draw: Any, depth: int = 3, logical: bool = True) -> Any:
    made = _Made(draw, logical)
    fields = [{"name": f"f{i}", "type": made.node(depth)} for i in range(draw(st.integers(1, 5)))]
    return {"type": "record", "name": "Top", "fields": fields}
