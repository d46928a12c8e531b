"""`make campaign-bugs`: campaigns with planted bugs, and after how many faults each was found.

Bugs that do not hide each other share a campaign: `GROUPS`.

The checker judges when the faults are over. So the number is that of all faults of the campaign that found it, which
bounds it from above; `--minutes` makes a campaign shorter.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from lab.campaign import campaign
from lab.campaign.ending import on_sigterm_unwind
from lab.campaign.planted.bugs import BUGS, GROUPS

DRAIN_MS = 60_000  # a copy that has lost records never has all


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.campaign.planted", description=__doc__)
    known = ", ".join(BUGS)
    parser.add_argument("bugs", nargs="*", metavar="BUG", help=f"of {known}; those joined by + share a campaign")
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("MINUTES", "3")), help="of faults, each")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    on_sigterm_unwind()
    groups = [each.split("+") for each in arguments.bugs] or GROUPS
    if unknown := {bug for group in groups for bug in group} - set(BUGS):
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    return 1 if sum(_missed(group, arguments.seed, arguments.minutes) for group in groups) else 0


def _missed(group: Sequence[str], seed: int, minutes: float) -> int:
    """How many of these bugs a campaign did not find."""
    kinds = list(dict.fromkeys(kind for bug in group for kind in BUGS[bug].kinds))
    result = campaign.run(seed, minutes, lambda _: None, bugs=group, kinds=kinds, drain_ms=DRAIN_MS)
    counts, wanted = result.report.counts, [BUGS[bug].rule for bug in group]
    for bug, rule in zip(group, wanted, strict=True):
        print(f"{bug}: {counts[rule] or 'no'} {rule} after {result.faults.total()} faults", flush=True)
    others = [f"{count} {rule}" for rule, count in counts.items() if count and rule not in wanted]
    print(f"  with {' + '.join(group)}: {', '.join(others) or 'nothing else'}", flush=True)
    return sum(not counts[rule] for rule in wanted)


if __name__ == "__main__":
    sys.exit(main())
