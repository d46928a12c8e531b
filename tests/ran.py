"""What ran, in ran.json, of which tables of docs/ are made. `make servers` and `make releases` write it.

python tests/ran.py Spark 4.2.1    adds a release on which each kind of job ran
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

FILE = Path(__file__).with_suffix(".json")

Rows = dict[str, dict[str, str]]
"""By server or release, then by check: `works`, or the error."""


def results() -> dict[str, Rows]:
    """By kind: servers, releases (of Kafka), Spark, Java."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def record(kind: str, name: str, check: str, said: str = "works") -> None:
    found = results()
    found[kind].setdefault(name, {})[check] = said
    kinds = []
    for each, rows in found.items():
        lines = ",\n".join(f"  {json.dumps(row)}: {json.dumps(cells)}" for row, cells in rows.items())
        kinds.append(f" {json.dumps(each)}: {{\n{lines}\n }}")
    FILE.write_text("{\n" + ",\n".join(kinds) + "\n}\n", encoding="utf-8")


def by_release(names: Iterable[str]) -> list[str]:
    return sorted(set(names), key=lambda name: [int(part) for part in name.split(".")])


if __name__ == "__main__":
    _, kind_of_release, release = sys.argv
    record(kind_of_release, release, "each kind of job")
