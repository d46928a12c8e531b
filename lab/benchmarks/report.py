"""A run as text: tables for a terminal while it goes on, and as Markdown when it is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median

from lab.benchmarks.goals import Verdict, judge
from lab.benchmarks.results import OURS, Row, Run, Stage

MARK = {True: "met", False: "MISSED", None: "not measured"}


def cells(row: Row, ours: Row | None) -> list[str]:
    """A row's columns behind its contestant: statistics, rate, ratio to ours, note."""
    if row.failure is not None and row.headline is None:
        return [f"failed: {row.failure}"]
    found = [f"{name} {number(row.statistic(name))}{unit_of(row, name)}" for name in row.measure.statistics]
    best = row.headline
    if row.measure.unit in ("s", "ms") and row.records and best:
        seconds = best / (1 if row.measure.unit == "s" else 1000)
        found.append(f"{row.records / seconds / 1e6:.3g} M rows/s")
        if row.payload_bytes:
            found.append(f"{row.payload_bytes / seconds / 1e6:,.0f} MB/s")
    if row.cpu_seconds:
        found.append(f"CPU {median(row.cpu_seconds):.2f} s")
    if ours is not None and best and ours.headline:
        found.append(f"{best / ours.headline:.2f} × ours")
    if row.note:
        found.append(row.note)
    if row.failure is not None:
        found.append(f"then failed: {row.failure}")
    return found


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 or float(value).is_integer() else f"{value:.3g}"


def unit_of(row: Row, statistic: str) -> str:
    return "" if statistic == "n" else f" {row.measure.unit}"


def by_work(rows: Iterable[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Rows of the same work and measure, with their heading."""
    for text, found in groupby(rows, key=heading):
        yield text, list(found)


def heading(row: Row) -> str:
    return f"{row.work}: {row.measure.title}"


def ours_of(rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if row.contestant == OURS), None)


def print_row(row: Row, before: Sequence[Row]) -> None:
    """For the terminal, as soon as it is known; `before` are the stage's rows so far."""
    if not before or heading(before[-1]) != heading(row):
        print(f"  {heading(row)}")
    same = [each for each in before if heading(each) == heading(row)]
    print(f"    {row.contestant:<20} {'  '.join(cells(row, ours_of([*same, row])))}", flush=True)


def print_verdicts(verdicts: Sequence[Verdict]) -> None:
    print("\ngoals")
    for verdict in verdicts:
        print(f"    {MARK[verdict.met]:<13} {verdict.goal.name}: {verdict.text}", flush=True)


def markdown(run: Run) -> str:
    """The whole run: machine, goals if any was measured, then a table for each piece of work."""
    verdicts = judge(run)
    lines = [
        f"Run of {run.date} ({run.kind}): " + ", ".join(f"{name} {value}" for name, value in run.machine.items()) + ".",
        "Versions: " + ", ".join(f"{name} {value}" for name, value in run.versions.items()) + ".",
    ]
    if any(v.met is not None for v in verdicts):
        lines += ["", "| goal | measured | |", "|---|---|---|"]
        lines += [f"| {v.goal.name} | {v.text} | {MARK[v.met]} |" for v in verdicts]
    for stage in run.stages:
        lines += ["", f"### {stage.title}", ""]
        if stage.failure:
            lines += [f"The stage ended early: {stage.failure}", ""]
        lines += _table(stage)
    return "\n".join(lines) + "\n"


def _table(stage: Stage) -> list[str]:
    lines = ["| work | contestant | measured |", "|---|---|---|"]
    for text, rows in by_work(stage.rows):
        ours = ours_of(rows)
        for i, row in enumerate(rows):
            figures = ", ".join(cells(row, ours)).replace("|", "\\|")
            lines.append(f"| {text if i == 0 else ''} | {row.contestant} | {figures} |")
    return lines
