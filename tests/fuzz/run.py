"""Feeds the decoders with bad input, as much of it as asked for: `make fuzz`.

    python tests/fuzz/run.py [--inputs 2000000] [--seed N] [--targets avro,protobuf] [--only INPUT] [--processes 2]

An input is made of the seed, its number and the targets, so that `--only INPUT` with the same others feeds it again.
Every process that feeds has a limit on its memory, every input on its processor time; what dies or hangs beyond
Python's reach ends the run with the numbers that were under way. Exits with 1 where anything was found.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random, SystemRandom

if __name__ != "run":  # as a program, and in the processes that it starts
    TESTS = Path(__file__).parent.parent
    FOLDERS = (
        "fuzz",
        "kafka/protocol",
        "kafka/records",
        "source",
        "sink",
        "kafka/group",
        "kafka/security",
        "formats",
        "",
    )
    sys.path += [str(TESTS / name) for name in FOLDERS]

import pandas as pd  # noqa: F401  pyarrow imports it with its first array, and takes longer than an input may
from fuzz_targets import TARGETS, Target
from under_way import UnderWay, inputs_under_way

from kafkasource.errors import KafkaSourceError

MEMORY_BYTES = 512 << 20  # beyond what the process has mapped before the first input
SECONDS = 1.0  # of processor time for one input
AT_ONCE = 5000
MOST_FAILURES = 20


class TooSlow(BaseException):
    """Not an Exception: nothing that catches too much may hide it."""


@dataclass
class Found:
    """Of a run of inputs."""

    taken: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: tuple[float, str, int] = (0.0, "", -1)
    most_memory_mib: int = 0

    def add(self, other: Found) -> None:
        self.taken += other.taken
        self.refused += other.refused
        self.failures += other.failures
        self.slowest = max(self.slowest, other.slowest)
        self.most_memory_mib = max(self.most_memory_mib, other.most_memory_mib)


def target_of(rng: Random, targets: Sequence[Target] = TARGETS) -> Target:
    """By its share; the first draw of the input's randomness."""
    return rng.choices(targets, [target.share for target in targets])[0]


def feed(seed: int, numbers: range, names: Sequence[str] = (), under_way: UnderWay | None = None) -> Found:
    """These inputs, one after the other, in this thread, which must be the main one. `names`: of the targets; none:
    all."""
    targets = [target for target in TARGETS if not names or target.name in names]
    found = Found()
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    try:
        for number in numbers:
            if under_way is not None:
                under_way.starts(number)
            _feed_one(seed, number, targets, found)
    finally:
        signal.signal(signal.SIGVTALRM, before)
    found.most_memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return found


def _feed_one(seed: int, number: int, targets: Sequence[Target], found: Found) -> None:
    rng = Random(seed << 40 | number)
    target = target_of(rng, targets)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    start = time.process_time()
    try:
        taken = target.feed(rng)
    except KafkaSourceError as error:
        found.refused[target.name, type(error).__name__] += 1
    except (Exception, TooSlow):
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        found.failures.append(f"input {number} of seed {seed}, {target.name}:\n{traceback.format_exc(limit=-8)}")
    else:
        found.taken[target.name] += 1
        found.refused[target.name, "nothing in it"] += not taken
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    found.slowest = max(found.slowest, (time.process_time() - start, target.name, number))


def _too_slow(signum: int, frame: object) -> None:
    raise TooSlow(f"more than {SECONDS} s of processor time")


_of_this_process: list[UnderWay] = []  # of one that feeds


def start_of_a_process(folder: Path) -> None:
    faulthandler.enable()
    logging.disable(logging.CRITICAL)  # of lying brokers there is much to say
    _of_this_process.append(UnderWay(folder))
    if not Path("/proc/self/statm").exists():
        return  # not Linux, whose limit this is
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _feed_in_a_process(seed: int, numbers: range, names: Sequence[str]) -> Found:
    (under_way,) = _of_this_process
    try:
        return feed(seed, numbers, names, under_way)
    finally:
        under_way.ends()


def run(seed: int, inputs: int, names: Sequence[str], processes: int | None = None) -> Found:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        return _run_in(Path(folder), seed, inputs, names, processes or os.cpu_count())


def _run_in(folder: Path, seed: int, inputs: int, names: Sequence[str], processes: int | None) -> Found:
    found, start = Found(), time.monotonic()
    runs = [range(at, min(at + AT_ONCE, inputs)) for at in range(0, inputs, AT_ONCE)]
    with ProcessPoolExecutor(processes, get_context("spawn"), start_of_a_process, (folder,)) as pool:
        results = [pool.submit(_feed_in_a_process, seed, numbers, names) for numbers in runs]
        for done, future in enumerate(as_completed(results), start=1):
            try:
                found.add(future.result())
            except BrokenProcessPool:
                under_way = ", ".join(map(str, inputs_under_way(folder)))
                found.failures.append(f"a process died; the last inputs of seed {seed} were {under_way}")
                break
            if len(found.failures) >= MOST_FAILURES:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            if done % 20 == 0 or done == len(runs):
                fed = min(done * AT_ONCE, inputs)
                rate = fed / (time.monotonic() - start)
                print(f"  {fed:>9,} inputs  {rate:>7,.0f} a second", file=sys.stderr, flush=True)
    return found


def report(found: Found) -> None:
    for target in TARGETS:
        if not found.taken[target.name] and not any(name == target.name for name, _ in found.refused):
            continue
        why = Counter({error: n for (name, error), n in found.refused.items() if name == target.name and n})
        refused = ", ".join(f"{error} {count:,}" for error, count in why.most_common())
        print(f"{target.name:<13} {found.taken[target.name]:>9,} taken   {refused}")
    seconds, name, number = found.slowest
    print(f"slowest {seconds * 1000:.0f} ms (input {number}, {name}); most memory {found.most_memory_mib} MiB")
    for failure in found.failures[:MOST_FAILURES]:
        print(f"\n{failure}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Feed the decoders with bad input.")
    parser.add_argument("--inputs", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=None, help="any by default")
    parser.add_argument("--only", type=int, default=None, metavar="INPUT", help="one input of a seed again")
    parser.add_argument("--targets", default="", metavar="NAMES", help="only these, with commas between their names")
    parser.add_argument("--processes", type=int, default=None, help="as many as processors by default")
    arguments = parser.parse_args()
    names = [name for name in arguments.targets.split(",") if name]
    if unknown := set(names) - {target.name for target in TARGETS}:
        parser.error(f"no target {unknown.pop()!r}; there are {', '.join(target.name for target in TARGETS)}")
    seed = SystemRandom().randrange(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    if arguments.only is not None:
        found = feed(seed, range(arguments.only, arguments.only + 1), names)
    else:
        found = run(seed, arguments.inputs, names, arguments.processes)
    report(found)
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
