"""`make simulate MINUTES=1 SEED=7`: worlds of seeds 7, 8, 9, ...; what was injected, and what the checker found.

Exit code 1 where a rule was broken. Then the first line of a finding has its world and seed: `--only SEED` repeats it.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

from lab.campaign.simulated import exactly_once, logs, members
from lab.campaign.simulated.worlds import KINDS, World

WORLDS: dict[str, World] = {"exactly once": exactly_once.run, "a member": members.run, "a query and its logs": logs.run}
SHOWN = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.campaign.simulated", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for all worlds (1)")
    parser.add_argument("--seed", type=int, help="of the first worlds")
    parser.add_argument("--only", type=int, metavar="SEED", help="the worlds of this seed alone")
    parser.add_argument("--result", type=Path, help="a file that gets the counts as JSON")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)  # each loss that is tolerated is one
    first = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 31)
    print(f"seed {first}", flush=True)
    until_s = time.monotonic() + arguments.minutes * 60
    seeds = iter([arguments.only]) if arguments.only is not None else _until(until_s, first)
    faults, findings, records, worlds = Counter[str](), Counter[str](), 0, 0
    for seed in seeds:
        for name, world in WORLDS.items():
            outcome = world(Random(f"{seed} {name}"))
            faults, findings = faults + outcome.faults, findings + outcome.findings
            records, worlds = records + outcome.records, worlds + 1
            if outcome.findings and findings.total() <= SHOWN:
                print(f"{name}, seed {seed}: {dict(outcome.findings)}", *outcome.texts, sep="\n  ", flush=True)
    for kind in KINDS:
        print(f"  {faults[kind]:8}  {kind}")
    print(f"  {faults.total():8}  faults in {worlds} worlds; {records} records read; {findings.total()} findings")
    if arguments.result is not None:
        result = {"seed": first, "shape": "simulated", "version": "-", "minutes": arguments.minutes}
        counts = {"faults": dict(faults), "records": records, "findings": dict(findings)}
        arguments.result.write_text(json.dumps(result | counts) + "\n")
    return 1 if findings else 0


def _until(until_s: float, first: int) -> Iterator[int]:
    for seed in count(first):
        yield seed
        if time.monotonic() > until_s:
            return


if __name__ == "__main__":
    sys.exit(main())
