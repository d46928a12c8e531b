"""A record with a field of each Avro type and logical type, in each form, and records at the edges of each."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

from fastavro_oracle import written

LONGS = [0, 1, -1, 2**63 - 1, -(2**63)]
INTS = [0, 1, -1, 2**31 - 1, -(2**31)]
INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"]}],
}
# Schema, and values as the type below the logical one has them.
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "boolean": ("boolean", [True, False]),
    "int": ("int", INTS),
    "long": ("long", LONGS),
    "float": ("float", [0.0, -0.0, 1.5, float("inf"), 2.0**-149]),
    "double": ("double", [0.0, -0.0, 1.5, float("-inf"), 5e-324, 1.7976931348623157e308]),
    "bytes": ("bytes", [b"", b"\0\xff", b"x" * 100]),
    "string": ("string", ["", "a", "é漢😀", "x" * 100]),
    "enum": ({"type": "enum", "name": "E", "symbols": ["RED", "GREEN"]}, ["RED", "GREEN"]),
    "fixed": ({"type": "fixed", "name": "F", "size": 3}, [b"\0\0\0", b"abc"]),
    "uuid": (
        {"type": "string", "logicalType": "uuid"},
        ["123e4567-e89b-12d3-a456-426614174000", "00000000-0000-0000-0000-000000000000"],
    ),
    "date": ({"type": "int", "logicalType": "date"}, [0, 19_000, -1, 2_932_896]),
    "time_millis": ({"type": "int", "logicalType": "time-millis"}, [0, 86_399_999]),
    "time_micros": ({"type": "long", "logicalType": "time-micros"}, [0, 86_399_999_999]),
    "timestamp_millis": (
        {"type": "long", "logicalType": "timestamp-millis"},
        [0, 1_700_000_000_123, -1, -2_208_988_800_000],
    ),
    "timestamp_micros": ({"type": "long", "logicalType": "timestamp-micros"}, [0, 1_700_000_000_123_456, -1]),
    "local_millis": ({"type": "long", "logicalType": "local-timestamp-millis"}, [0, 1_700_000_000_123, -1]),
    "local_micros": ({"type": "long", "logicalType": "local-timestamp-micros"}, [0, 1_700_000_000_123_456, -1]),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        [b"\0", b"\xff", b"\x7f\xff\xff\xff"],
    ),
    "decimal_wide": (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18},
        [b"\0", b"\x80" + b"\0" * 14, b"\0\0\x01"],
    ),
    "decimal_fixed": (
        {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 6},
        [b"\0" * 8, b"\xff" * 8, b"\0" * 7 + b"\x01"],
    ),
    "unknown_logical": ({"type": "int", "logicalType": "no-such-type"}, INTS),
    "record": (INNER, [{"a": 1, "b": None}, {"a": -1, "b": "text"}]),
    "int_or_long": (["int", "long"], [("int", 1), ("long", 2**40)]),
    "float_or_double": (["float", "double"], [("float", 1.5), ("double", 5e-324)]),
    "union": (["null", "string", "long", "boolean"], [None, "text", 2**40, True]),
    "only_null": ("null", [None]),
}
RECORDS = 6


def schema() -> dict[str, Any]:
    fields = []
    for name, (kind, _) in KINDS.items():
        fields.append({"name": name, "type": kind})
        again = kind["name"] if isinstance(kind, dict) and "name" in kind else kind
        fields.append({"name": f"{name}_list", "type": {"type": "array", "items": again}})
        fields.append({"name": f"{name}_map", "type": {"type": "map", "values": again}})
        if not isinstance(kind, list) and kind != "null":
            fields.append({"name": f"{name}_or_null", "type": ["null", again]})
            fields.append({"name": f"{name}_first", "type": [again, "null"]})
    return {"type": "record", "name": "Each", "fields": fields}


def field_names() -> list[str]:
    return [field["name"] for field in schema()["fields"]]


def records() -> list[bytes]:
    plain = without_logical_types(schema())
    return [written(plain, row(number)) for number in range(RECORDS)]


def row(number: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, (kind, values) in KINDS.items():
        value = values[number % len(values)]
        made[name] = value
        made[f"{name}_list"] = values[: number % (len(values) + 1)]
        made[f"{name}_map"] = {f"k{at}": each for at, each in enumerate(values[: number % 3])}
        if not isinstance(kind, list) and kind != "null":
            made[f"{name}_or_null"] = None if number % 2 else value
            made[f"{name}_first"] = value if number % 2 else None
    return made


def without_logical_types(node: Any, names: Collection[str] | None = None) -> Any:
    """Make fastavro return the values as they are. `names`: leave out only these logical types."""
    if isinstance(node, list):
        return [without_logical_types(item, names) for item in node]
    if not isinstance(node, dict):
        return copy.copy(node)
    gone = names is None or node.get("logicalType") in names
    left = {key: each for key, each in node.items() if not gone or key not in ("logicalType", "precision", "scale")}
    return {key: without_logical_types(each, names) for key, each in left.items()}
