"""Kafka's own message specs, out of the kafka-clients jars: the oracle for our schemas."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from typing import Any

from java_programs import jars

RELEASES = ("3.9.2", "4.3.1")  # 4.0 dropped the oldest versions, so that it takes two to know them all


@cache
def spec(release: str, name: str) -> dict[str, Any]:
    """`common/message/<name>.json`, without the comments that JSON does not allow."""
    with zipfile.ZipFile(jars(release) / f"kafka-clients-{release}.jar") as jar:
        text = jar.read(f"common/message/{name}.json").decode()
    parsed: dict[str, Any] = json.loads("\n".join(x for x in text.splitlines() if not x.lstrip().startswith("//")))
    return parsed


def fields_of(field: dict[str, Any], message: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The fields of a struct, or of an array's structs; None for other types."""
    common = {each["name"]: each["fields"] for each in message.get("commonStructs", [])}
    return field.get("fields") or common.get(field["type"].removeprefix("[]"))


def versions(text: str | None) -> range:
    """Kafka's "3", "3-5", "3+" or "none" as a range that has no end worth reaching."""
    if text is None or text == "none":
        return range(0)
    first, _, last = text.strip().partition("-")
    if first.endswith("+"):
        return range(int(first[:-1]), 1000)
    return range(int(first), int(last or first) + 1)
