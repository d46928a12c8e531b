"""What a soak has found, as text and as files: `samples.jsonl`, `soak.svg`, `verdicts.json`, `summary.txt`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.benchmarks.soak import plot, sampler
from lab.benchmarks.soak.sampler import Sample
from lab.benchmarks.soak.slopes import A_DAY, DAY_S, KAFKAS, MIB, SPARKS, TOO_SHORT, WARM_UP_S, Verdict, judge, unit_of
from lab.benchmarks.soak.traffic import Counts

SAMPLES = "samples.jsonl"
MOST_LINES = 40
_SAID = {SPARKS: "Spark", TOO_SHORT: "short"}


@dataclass(frozen=True)
class Records:
    """`drained`: the copies were read to their end, so what has not come is lost."""

    written: int
    copies: Mapping[str, Counts]
    drained: bool

    def lost(self, copy: str) -> int:
        counts = self.copies[copy]
        return counts.lost + (self.written - counts.reached if self.drained else 0)

    @property
    def wrong(self) -> bool:
        return any(self.lost(name) or counts.doubled for name, counts in self.copies.items())


def write(folder: Path, records: Records | None, failure: str | None, warm_up_s: float = WARM_UP_S) -> int:
    """Write all files but the samples, which are there. Returns the exit code: 1 for leak, wrong count, failure."""
    samples = sampler.read(folder / SAMPLES)
    verdicts = judge(samples, warm_up_s)
    (folder / "soak.svg").write_text(plot.draw(samples))
    as_json = [asdict(each) for each in verdicts]
    (folder / "verdicts.json").write_text(json.dumps(as_json, indent=1).replace("Infinity", "1e999") + "\n")
    text = "\n".join([*_counted(records, failure), *_costs(samples), "", *_table(verdicts)])
    (folder / "summary.txt").write_text(text + "\n")
    print(text)
    leaks = any(each.leak for each in verdicts)
    return 1 if leaks or failure is not None or (records is not None and records.wrong) else 0


def _counted(records: Records | None, failure: str | None) -> list[str]:
    lines = [f"FAILED: {failure}"] if failure else []
    if records is None:
        return lines
    lines.append(f"{records.written:,} records acknowledged")
    for name, counts in records.copies.items():
        end = "" if records.drained else " (ended early: what was still under way is not counted as lost)"
        told = f"{counts.read:,} read back, {records.lost(name)} lost, {counts.doubled} doubled or out of order"
        lines.append(f"{name}: {told}{end}")
    return lines


def _costs(samples: Sequence[Sample]) -> list[str]:
    """Processor time of each application, as cores."""
    spent: dict[str, dict[float, list[float]]] = {}
    for each in samples:
        if "cpu_s" in each:
            spent.setdefault(str(each["app"]), {}).setdefault(float(each["pid"]), []).append(float(each["cpu_s"]))
    end_s = max((float(each["t_s"]) for each in samples), default=0.0)
    return [
        f"{app}: {sum(max(of) for of in by_pid.values()) / end_s:.2f} cores over {end_s / 60:.0f} minutes"
        for app, by_pid in sorted(spent.items())
        if end_s
    ]


def _table(verdicts: Sequence[Verdict]) -> list[str]:
    """Leaks first, then what grows fastest for its limit."""
    judged = sorted(
        (each for each in verdicts if each.note != KAFKAS),
        key=lambda each: (not each.leak, -each.slope.per_s / A_DAY[unit_of(each.series)]),
    )
    leaks = sum(each.leak for each in judged)
    lines = [
        f"{leaks} leaks in {len(judged)} series; growth a day, with its interval at 99 %:",
        f"{'':6}{'process':34}{'series':44}{'median':>10}{'a day':>12}{'from':>12}{'to':>12}",
    ]
    for each in judged[:MOST_LINES]:
        scale = MIB if unit_of(each.series) == "bytes" else 1
        grown = (each.slope.per_s, each.slope.low, each.slope.high)
        days = "".join(f"{value * DAY_S / scale:12,.1f}" for value in grown)
        said = "LEAK" if each.leak else _SAID.get(each.note, "")
        unit = " (MiB)" if scale == MIB else ""
        beyond = " beyond control" if each.beyond_control else ""
        lines.append(
            f"{said:6}{each.app + ': ' + each.process:34}{each.series.removeprefix('kafkasource_') + unit + beyond:44}"
            f"{each.median / scale:10,.1f}{days}"
        )
    if len(judged) > MOST_LINES:
        lines.append(f"      and {len(judged) - MOST_LINES} series that grow less; verdicts.json has all")
    return lines
