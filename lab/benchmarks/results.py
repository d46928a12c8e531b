"""What was measured, as plain values: rows of a stage, their statistics, and the same as JSON.

A row is one contestant at one piece of work, with every timed value (in JSON: their statistics). A contestant that
failed keeps its row, which says why: a missing figure is never quietly left out.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

OURS = "pykafka"
WITH_DAEMON = "pykafka, our daemon"  # spark.python.daemon.module


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that at least `share` (0 to 1) of them do not exceed: always one that was measured."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1)]


STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "median": statistics.median,
    "max": max,
    "p50": lambda values: quantile(values, 0.5),
    "p99": lambda values: quantile(values, 0.99),
    "n": len,
}


@dataclass(frozen=True)
class Measure:
    """What a row's values are; the first statistic is the one that ratios and goals are made of."""

    title: str
    unit: str
    statistics: tuple[str, ...] = ("min", "median")
    more_is_better: bool = False


SECONDS = Measure("time", "s")
TRIGGER = Measure("triggerExecution", "ms", ("p50", "p99", "n"))
PLANNING = Measure("planning", "ms", ("p50", "n"))
LATENCY = Measure("latency", "ms", ("p50", "p99", "max"))
PEAK = Measure("peak memory (VmHWM)", "MB", ("max",))
HELD = Measure("held by a task at most", "MB", ("p50", "max"))
CPU = Measure("processor time", "s")
CPU_PER_MILLION = Measure("processor time", "s per million rows", ("median", "min"))
ADDED = Measure("added to triggerExecution", "ms", ("median",))
CPU_PER_GB = Measure("processor time", "s/GB")
NANOSECONDS = Measure("per record", "ns")
RATE = Measure("rate", "MB/s", ("median",), more_is_better=True)
MEGABYTES = Measure("bytes", "MB", ("median",))
DIFFERENCES = Measure("rows that differ", "rows", ("max",))


@dataclass(frozen=True)
class Row:
    work: str
    contestant: str
    measure: Measure
    values: tuple[float, ...] = ()
    records: int | None = None  # moved in each value, where that makes a rate
    payload_bytes: int | None = None  # the same in bytes of keys and values
    note: str = ""
    failure: str | None = None
    cpu_seconds: tuple[float, ...] = ()  # beside each value: what all processes used, the broker's too
    summary: Mapping[str, float | None] | None = None  # of a row read from JSON, which keeps no single values

    def statistic(self, name: str) -> float | None:
        if self.summary is not None:
            return self.summary.get(name)
        return STATISTICS[name](self.values) if self.values else None

    @property
    def headline(self) -> float | None:
        """The figure that the row is compared by."""
        return self.statistic(self.measure.statistics[0])


@dataclass
class Stage:
    """The rows of one stage, in the order in which they are shown."""

    name: str
    title: str
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0
    failure: str | None = None

    def add(self, row: Row) -> None:
        self.rows.append(row)

    def find(self, work: str, contestant: str, measure: Measure) -> Row | None:
        wanted = (work, contestant, measure)
        return next((row for row in self.rows if (row.work, row.contestant, row.measure) == wanted), None)


@dataclass(frozen=True)
class Run:
    """One run of some stages, on one machine."""

    kind: str  # full, quick
    date: str  # when it began, UTC
    machine: dict[str, str]
    versions: dict[str, str]
    stages: list[Stage]

    def stage(self, name: str) -> Stage | None:
        return next((stage for stage in self.stages if stage.name == name), None)

    def as_json(self) -> str:
        """JSON with one line for each row: its statistics and the median of its CPU seconds, not the single values.

        That is all that the tables, the chart and the goals are made of, and it keeps the committed file small.
        """
        plain = asdict(self)
        stages = []
        for stage, text in zip(self.stages, plain.pop("stages"), strict=True):
            rows = ",\n".join(f"   {json.dumps(_summary(row))}" for row in stage.rows)
            head = json.dumps({name: value for name, value in text.items() if name != "rows"})
            stages.append(f'  {head[:-1]}, "rows": [\n{rows}\n  ]}}')
        joined = ",\n".join(stages)
        return f'{json.dumps(plain, indent=1)[:-2]},\n "stages": [\n{joined}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: dict[str, Any]) -> Run:
        """A run from what `as_json` gave, decoded."""
        stages = [Stage(**{**each, "rows": [_row(row) for row in each["rows"]]}) for each in text["stages"]]
        return cls(**{**text, "stages": stages})


def _summary(row: Row) -> dict[str, Any]:
    """A row as plain values; fields that have their default are left out."""
    kept: dict[str, Any] = {"work": row.work, "contestant": row.contestant, "measure": asdict(row.measure)}
    kept["summary"] = {name: row.statistic(name) for name in row.measure.statistics}
    if row.cpu_seconds:
        kept["cpu_seconds"] = [statistics.median(row.cpu_seconds)]
    others = {"records": row.records, "payload_bytes": row.payload_bytes, "note": row.note, "failure": row.failure}
    return kept | {name: value for name, value in others.items() if value}


def _row(text: dict[str, Any]) -> Row:
    measure = Measure(**{**text["measure"], "statistics": tuple(text["measure"]["statistics"])})
    return Row(**{**text, "cpu_seconds": tuple(text.get("cpu_seconds", ())), "measure": measure})
