"""Adds a run's result to the counts of docs/campaign.md: `python -m lab.campaign.counts build/storm.json ...`.

The document has a row for each run. The totals above the table are computed from these rows.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "docs" / "campaign.md"
BEGIN, END = "<!-- campaigns -->\n", "<!-- end -->\n"
APART = "simulated"  # a shape that does not count with the others
COLUMNS = ("seed", "shape", "Kafka", "minutes", "faults", "records read", "findings")


def row(result: Mapping[str, Any]) -> str:
    findings = ", ".join(f"{count} {rule}" for rule, count in result["findings"].items()) or "0"
    minutes, faults = f"{result['minutes']:g}", sum(result["faults"].values())
    cells = (result["seed"], result["shape"], result["version"], minutes, faults, result["records"], findings)
    return "| " + " | ".join(map(str, cells)) + " |"


def added(text: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Add these runs to the document's text. A run that is in it already is not added again."""
    head, _, rest = text.partition(BEGIN)
    table, end, tail = rest.partition(END)
    if not end:
        raise ValueError(f"{DOCUMENT.name} has no lines {BEGIN!r} and {END!r} about a table")
    rows = [line for line in table.splitlines() if line.startswith("| ") and line.split(" | ")[0][2:].isdigit()]
    rows += [new for new in map(row, results) if new not in rows]
    cells = [line.strip("| ").split(" | ") for line in rows]
    total = _totals([run for run in cells if run[1] != APART])
    if simulated := [run for run in cells if run[1] == APART]:
        total += f"Apart from these, inside one process: {_totals(simulated)}"
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|", *rows]
    return head + BEGIN + total + "\n" + "\n".join(lines) + "\n" + END + tail


def _totals(cells: Sequence[Sequence[str]]) -> str:
    faults, records = (sum(int(run[column]) for run in cells) for column in (4, 5))
    shapes = Counter(run[1] for run in cells)
    runs = " and ".join(f"{count} {_named(shape, count)}" for shape, count in shapes.items())
    clean = sum(run[6] == "0" for run in cells)
    return f"{runs}: {faults} faults, {records} records read; {clean} of {len(cells)} runs without a finding.\n"


def _named(shape: str, count: int) -> str:
    name = f"{shape} run" if shape == APART else shape
    return name if count == 1 else f"{name}s"


def main() -> None:
    results = [json.loads(Path(file).read_text()) for file in sys.argv[1:]]
    DOCUMENT.write_text(added(DOCUMENT.read_text(), results))


if __name__ == "__main__":
    main()
