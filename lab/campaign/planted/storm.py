"""`make storm-bugs`: a short storm for each planted bug, and after how many faults it was found."""

from __future__ import annotations

import argparse
import os
import sys

from lab.campaign.ending import on_sigterm_unwind
from lab.campaign.planted.storm_bugs import BUGS
from lab.campaign.storm import storm

DRAIN_MS = 20_000  # a copy that has lost records never has all


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.campaign.planted.storm", description=__doc__)
    parser.add_argument("bugs", nargs="*", metavar="BUG", help=f"of {', '.join(BUGS)}")
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("MINUTES", "1")), help="of faults, each")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    on_sigterm_unwind()
    if unknown := set(arguments.bugs) - set(BUGS):
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    return 1 if sum(_missed(name, arguments.seed, arguments.minutes) for name in arguments.bugs or BUGS) else 0


def _missed(name: str, seed: int, minutes: float) -> bool:
    (result,) = storm.run(seed, minutes, lambda _: None, bugs=[name], drain_ms=DRAIN_MS)
    counts, rule = result.report.counts, BUGS[name].rule
    print(f"{name}: {counts[rule] or 'no'} {rule} after {result.faults.total()} faults", flush=True)
    others = [f"{count} {other}" for other, count in counts.items() if count and other != rule]
    print(f"  with it: {', '.join(others) or 'nothing else'}", flush=True)
    return not counts[rule]


if __name__ == "__main__":
    sys.exit(main())
