"""`make campaign MINUTES=20 SEED=7`: prints what was done and found. Exit code 1 where a rule was broken."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from lab.campaign import campaign, table
from lab.campaign.ending import on_sigterm_unwind


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="of faults (20)")
    parser.add_argument("--seed", type=int, help="of an earlier campaign, to repeat its faults")
    parser.add_argument("--result", type=Path, help="a file that gets the counts as JSON")
    arguments = parser.parse_args()
    on_sigterm_unwind()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 31)
    result = campaign.run(seed, arguments.minutes, lambda text: print(text, flush=True))
    print(*table.lines(result), sep="\n")
    if arguments.result is not None:
        arguments.result.write_text(table.as_json([result], "campaign") + "\n")
    return 1 if result.report.total else 0


if __name__ == "__main__":
    sys.exit(main())
