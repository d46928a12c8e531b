"""`make campaign-bugs`: a campaign for each planted bug, and after how many faults it was found.

The checker judges when the faults are over. So the number is that of all faults of the campaign that found it, which
bounds it from above; `--minutes` makes a campaign shorter.
"""

from __future__ import annotations

import argparse
import os
import sys

from campaign import campaign
from campaign.planted.bugs import BUGS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m campaign.planted", description=__doc__)
    parser.add_argument("bugs", nargs="*", metavar="BUG", help=f"of: {', '.join(BUGS)}; all")
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("MINUTES", "3")), help="of faults, each")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if unknown := set(arguments.bugs) - set(BUGS):
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    missed = 0
    for name in arguments.bugs or BUGS:
        result = campaign.run(arguments.seed, arguments.minutes, name, lambda _: None)
        rule, counts = BUGS[name].rule, result.report.counts
        missed += not counts[rule]
        others = ", ".join(f"{count} {each}" for each, count in counts.items() if count and each != rule)
        found = f"{counts[rule]} {rule}" if counts[rule] else f"no {rule}"
        print(
            f"{name}: {found} after {result.faults.total()} faults" + (f"; also {others}" if others else ""), flush=True
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
