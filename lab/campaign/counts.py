"""Adds runs to the table of docs/campaign.md: `python -m lab.campaign.counts build/storm.json ...`.

The table has a row for each shape of run and release of Kafka: the sums of its runs, and their seeds.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "docs" / "campaign.md"
BEGIN, END = "<!-- campaigns -->\n", "<!-- end -->\n"
COLUMNS = ("shape", "Kafka", "minutes", "faults", "records read", "findings", "seeds")


@dataclass
class Runs:
    """The runs of one shape on one release."""

    minutes: float = 0
    faults: int = 0
    records: int = 0
    findings: Counter[str] = field(default_factory=Counter)
    seeds: list[int] = field(default_factory=list)

    @classmethod
    def of_cells(cls, cells: Sequence[str]) -> Runs:
        minutes, faults, records, findings, seeds = cells
        counted = {rule: int(count) for count, rule in re.findall(r"(\d+) ([a-z ]+)", findings)}
        return cls(float(minutes), int(faults), int(records), Counter(counted), [int(seed) for seed in seeds.split()])

    def add(self, result: Mapping[str, Any]) -> None:
        """Add a run. A seed that is in it already is not added again."""
        if result["seed"] in self.seeds:
            return
        self.minutes += result["minutes"]
        self.faults += sum(result["faults"].values())
        self.records += result["records"]
        self.findings.update(result["findings"])
        self.seeds.append(result["seed"])

    def cells(self) -> tuple[str, ...]:
        findings = ", ".join(f"{count} {rule}" for rule, count in self.findings.items()) or "0"
        seeds = " ".join(map(str, self.seeds))
        return f"{self.minutes:g}", str(self.faults), str(self.records), findings, seeds


def added(text: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Add these runs to the document's text."""
    head, _, rest = text.partition(BEGIN)
    table, end, tail = rest.partition(END)
    if not end:
        raise ValueError(f"{DOCUMENT.name} has no lines {BEGIN!r} and {END!r} about a table")
    rows: dict[tuple[str, str], Runs] = {}
    for line in table.splitlines()[2:]:
        shape, version, *cells = line.strip("| ").split(" | ")
        rows[shape, version] = Runs.of_cells(cells)
    for result in results:
        rows.setdefault((result["shape"], result["version"]), Runs()).add(result)
    lines: list[Sequence[str]] = [
        COLUMNS,
        ["---"] * len(COLUMNS),
        *([*key, *runs.cells()] for key, runs in sorted(rows.items())),
    ]
    return head + BEGIN + "".join(f"| {' | '.join(line)} |\n" for line in lines) + END + tail


def main() -> None:
    results = [json.loads(Path(file).read_text()) for file in sys.argv[1:]]
    DOCUMENT.write_text(added(DOCUMENT.read_text(), results))


if __name__ == "__main__":
    main()
