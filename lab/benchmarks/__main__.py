"""`python -m lab.benchmarks [--quick] [--stages read,write]`: run stages, print tables, write JSON and a chart."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path

from lab.benchmarks import chart, report
from lab.benchmarks.goals import judge
from lab.benchmarks.lab import Lab
from lab.benchmarks.machine import machine, versions
from lab.benchmarks.results import Run, Stage
from lab.benchmarks.stages import Effort
from lab.benchmarks.turns import reason

RESULTS = Path(__file__).parent / "results"

# In the order in which they run: module of this package by name.
STAGES: Mapping[str, str] = {
    "kernel": "kernel_speed",
    "typed": "typed_speed",
    "typed-spark": "typed_spark",
    "read": "read",
    "write": "write",
    "small": "small_writes",
    "cpu": "processor_time",
    "tls": "tls",
    "streaming": "streaming",
    "memory": "worker_memory",
    "latency": "latency",
    "once": "exactly_once",
    "correctness": "correctness",
    "tail": "tail_and_catchup",
    "partitions": "partitions",
    "cores": "cores",
    "growth": "growth",
    "first": "first_read",
    "racers": "racers.stage",
}
APART = ("racers",)  # only where it is named, as it installs packages of others


# What shows whether the goals are met, in six minutes.
QUICK_STAGES = ("kernel", "read", "write", "streaming", "latency", "memory", "correctness")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks", description=(__doc__ or "").strip())
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, fewer codecs and turns: six minutes")
    parser.add_argument("--stages", help=f"of {','.join(STAGES)}; all (quick: {','.join(QUICK_STAGES)})")
    parser.add_argument("--turns", type=int, help="timed runs of each contestant (5; quick: 3)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--draw", type=Path, metavar="JSON", help="only report and draw an earlier run")
    given = parser.parse_args(arguments)
    if given.draw:
        run = Run.from_json(json.loads(given.draw.read_text()))
        write(run, given.draw.parent, given.draw.stem)
        return 0
    usual = QUICK_STAGES if given.quick else tuple(name for name in STAGES if name not in APART)
    names = tuple(given.stages.split(",")) if given.stages else usual
    if unknown := [name for name in names if name not in STAGES]:
        parser.error(f"no stage {unknown[0]!r}; there are {', '.join(STAGES)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    effort = Effort(given.quick, given.turns or (3 if given.quick else 5))
    kind = "quick" if given.quick else "full"
    name = kind if names == usual else f"{kind}-{'-'.join(names)}"
    if names == APART and not given.quick:
        name = "racers"
    run = measure(names, effort, lambda so_far: write(so_far, given.out, name))
    report.print_verdicts(judge(run))
    print(f"\nwritten to {given.out / name}.json, .md and .svg")
    failed = [stage.name for stage in run.stages if stage.failure]
    if failed:
        print(f"stages that ended early: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def measure(names: Sequence[str], effort: Effort, keep: Callable[[Run], None]) -> Run:
    """Run stages in the order of the table, kept after each; a stage that fails keeps the rows it has."""
    with Lab() as lab:
        run = Run(
            "quick" if effort.quick else "full",
            f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
            machine(),
            versions(lab.broker.version),
            [],
        )
        for name in STAGES:
            if name in names:
                run.stages.append(run_stage(name, lab, effort))
                keep(run)
    return run


def run_stage(name: str, lab: Lab, effort: Effort) -> Stage:
    module = import_module(f"lab.benchmarks.{STAGES[name]}")
    stage = Stage(name, module.TITLE)
    print(f"\n{name}: {stage.title}", flush=True)
    started = time.perf_counter()
    try:
        for row in module.run(lab, effort):
            report.print_row(row, stage.rows)
            stage.add(row)
    except Exception as error:
        stage.failure = reason(error)
    stage.seconds = round(time.perf_counter() - started, 1)
    if stage.failure:
        print(f"  ended early: {stage.failure}", flush=True)
    print(f"  ({stage.seconds:.0f} s)", flush=True)
    return stage


def write(run: Run, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(run.as_json())
    (folder / f"{name}.md").write_text(report.markdown(run))
    (folder / f"{name}.svg").write_text(chart.draw(run))


if __name__ == "__main__":
    sys.exit(main())
