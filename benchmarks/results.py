"""What was measured, as plain values: rows of a stage, their statistics, and the same as JSON.

A row is one contestant at one piece of work, with every timed value. A contestant that failed keeps its row, which says
why: a missing figure is never quietly left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

OURS = "pykafka"


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

    def statistic(self, name: str) -> float | None:
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

    def as_json(self) -> dict[str, Any]:
        """Plain values; each row has its statistics beside its values, for whoever reads the file."""
        text = asdict(self)
        for stage, told in zip(self.stages, text["stages"], strict=True):
            for row, each in zip(stage.rows, told["rows"], strict=True):
                each["statistics"] = {name: row.statistic(name) for name in row.measure.statistics}
        return text

    @classmethod
    def from_json(cls, text: dict[str, Any]) -> Run:
        """A run from what `as_json` gave."""
        stages = [Stage(**{**each, "rows": [_row(row) for row in each["rows"]]}) for each in text["stages"]]
        return cls(**{**text, "stages": stages})


def _row(text: dict[str, Any]) -> Row:
    told = {name: value for name, value in text.items() if name != "statistics"}
    measure = Measure(**{**told["measure"], "statistics": tuple(told["measure"]["statistics"])})
    values = {name: tuple(told[name]) for name in ("values", "cpu_seconds")}
    return Row(**{**told, **values, "measure": measure})
