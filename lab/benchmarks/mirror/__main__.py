"""`python -m lab.benchmarks.mirror`: three clusters from one read, and the same beside MirrorMaker 2 itself.

Prints a row as soon as it is measured, writes results/mirror.json and .md. Ends with 1 where a promise is missed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from kafkasource.testing.broker import DEFAULT_VERSION
from lab.benchmarks.machine import machine, versions
from lab.benchmarks.mirror import contest, proof, table
from lab.benchmarks.mirror.lab import TARGETS, MirrorLab
from lab.benchmarks.mirror.table import MirrorRun

RESULTS = Path(__file__).parent.parent / "results"
STAGES = ("compare", "proof")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.mirror", description=(__doc__ or "").strip())
    parser.add_argument("--quick", action="store_true", help="a quarter of the records")
    parser.add_argument("--stages", default=",".join(STAGES), help=f"of {','.join(STAGES)}")
    parser.add_argument("--targets", default="1,2,3", help="how many, as in 2,3")
    parser.add_argument("--turns", type=int, default=1, help="runs of each contestant; shown is the middle one")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    records = 500_000 if given.quick else 2_000_000
    name = "mirror-quick" if given.quick else "mirror"
    measured = new_run()

    def keep() -> None:
        write(measured, given.out, name)

    with MirrorLab() as lab:
        stages = given.stages.split(",")
        if "compare" in stages:
            compare(lab, records, [int(one) for one in given.targets.split(",")], given.turns, measured, keep)
        if "proof" in stages:
            prove(lab, records, measured, keep)
    print(table.markdown(measured))
    print(f"written to {given.out / name}.json and .md")
    promises = [*table.verdicts(measured.figures), *table.kept(measured.proofs)]
    return 0 if all(met for _, met in promises) else 1


def new_run() -> MirrorRun:
    date = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
    return MirrorRun(date, machine(), versions(DEFAULT_VERSION), [], [])


def compare(
    lab: MirrorLab,
    records: int,
    targets: Sequence[int],
    turns: int,
    measured: MirrorRun,
    keep: Callable[[], None],
) -> None:
    """Contestants take turns; the first of a turn is another one each time. A quarter more records warm up."""
    warm_up = records // 4
    with lab.filled(records + warm_up) as topic:
        for many in targets:
            for turn in range(turns):
                for one in (*contest.CONTESTANTS[turn % 3 :], *contest.CONTESTANTS[: turn % 3]):
                    figures = contest.run(lab, one, topic, TARGETS[:many], records + warm_up, warm_up)
                    print(f"{many} targets, {one.name:22} {', '.join(table.cells(figures))}", flush=True)
                    measured.figures.append(figures)
                    keep()


def prove(lab: MirrorLab, records: int, measured: MirrorRun, keep: Callable[[], None]) -> None:
    with lab.filled(records) as topic:
        for one in proof.run(lab, topic, records):
            print(one, flush=True)
            measured.proofs.append(one)
            keep()


def write(measured: MirrorRun, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(measured.as_json(), indent=1) + "\n")
    (folder / f"{name}.md").write_text(table.markdown(measured))


if __name__ == "__main__":
    sys.exit(main())
