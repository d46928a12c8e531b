"""`make storm MINUTES=10 SEED=7`: prints what was done and found. Exit code 1 where a rule was broken."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from lab.campaign import table
from lab.campaign.ending import on_sigterm_unwind
from lab.campaign.storm import storm
from lab.campaign.storm.faults import TABLE


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.campaign.storm", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults (10), in rounds of ten at most")
    parser.add_argument("--seed", type=int, help="of an earlier storm, or of one of its rounds, to repeat its faults")
    parser.add_argument("--per-second", type=float, default=storm.PER_SECOND, help="faults of connections drawn (50)")
    parser.add_argument("--result", type=Path, help="a file that gets the counts as JSON")
    arguments = parser.parse_args()
    on_sigterm_unwind()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 31)
    results = storm.run(seed, arguments.minutes, lambda text: print(text, flush=True), per_second=arguments.per_second)
    for result in results:
        print()
        print(*table.lines(result, TABLE), sep="\n")
    if arguments.result is not None:
        arguments.result.write_text(table.as_json(results, "storm") + "\n")
    return 1 if any(result.report.total for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
