"""Adds a run's result to the counts of docs/campaign.md: `python -m lab.campaign.counts build/storm.json ...`.

The document has a row for each run, and what all of them make together is computed from these rows.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.campaign.faults import TABLE as OF_CAMPAIGN
from lab.campaign.simulated.worlds import KINDS as SIMULATED
from lab.campaign.storm.faults import BESIDES, CONNECTIONS

DOCUMENT = Path(__file__).parents[2] / "docs" / "campaign.md"
BEGIN, END = "<!-- campaigns -->\n", "<!-- end -->\n"
KINDS = (*(kind.name for kind in (*OF_CAMPAIGN, *CONNECTIONS, *BESIDES)), *SIMULATED)
APART = "simulated"  # a shape that does not count with the others
COLUMNS = ("seed", "shape", "Kafka", "minutes", "faults", "records read", "findings", "by kind")


def row(result: Mapping[str, Any]) -> str:
    faults, found = result["faults"], result["findings"]
    kinds = ", ".join(f"{faults[kind]} {kind}" for kind in KINDS if faults.get(kind))
    findings = ", ".join(f"{count} {rule}" for rule, count in found.items()) or "0"
    minutes = f"{result['minutes']:g}"
    cells = (
        str(result["seed"]),
        result["shape"],
        result["version"],
        minutes,
        _sum(faults),
        str(result["records"]),
        findings,
        kinds,
    )
    return "| " + " | ".join(cells) + " |"


def _sum(faults: Mapping[str, int]) -> str:
    return str(sum(faults.values()))


def added(text: str, results: Sequence[Mapping[str, Any]]) -> str:
    """The document with these runs, too. One that is in it already is not added again."""
    head, _, rest = text.partition(BEGIN)
    table, end, tail = rest.partition(END)
    if not end:
        raise ValueError(f"{DOCUMENT.name} has no lines {BEGIN!r} and {END!r} about a table")
    rows = [line for line in table.splitlines() if line.startswith("| ") and line.split(" | ")[0][2:].isdigit()]
    rows += [each for each in map(row, results) if each not in rows]
    cells = [each.strip("| ").split(" | ") for each in rows]
    total = _totals([each for each in cells if each[1] != APART])
    if simulated := [each for each in cells if each[1] == APART]:
        total += f"Apart from these, inside one process: {_totals(simulated)}"
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|", *rows]
    return head + BEGIN + total + "\n" + "\n".join(lines) + "\n" + END + tail


def _totals(cells: Sequence[Sequence[str]]) -> str:
    faults, records = (sum(int(each[column]) for each in cells) for column in (4, 5))
    shapes = Counter(each[1] for each in cells)
    runs = " and ".join(f"{count} {_named(shape, count)}" for shape, count in shapes.items())
    clean = sum(each[6] == "0" for each in cells)
    return f"{runs}: {faults} faults, {records} records read; {clean} of {len(cells)} runs without a finding.\n"


def _named(shape: str, count: int) -> str:
    name = f"{shape} run" if shape == APART else shape
    return name if count == 1 else f"{name}s"


def main() -> None:
    results = [json.loads(Path(file).read_text()) for file in sys.argv[1:]]
    DOCUMENT.write_text(added(DOCUMENT.read_text(), results))


if __name__ == "__main__":
    main()
